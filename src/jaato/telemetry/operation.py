"""One operation that is watched: a span while it runs, metrics when it ends."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from jaato.telemetry.attributes import Attribute, clean, clean_text
from jaato.telemetry.content import content_attributes
from jaato.telemetry.conventions import (
    AGENT_ID,
    AGENT_NAME,
    CANCELLED,
    CONTENT,
    ERROR_TYPE,
    EXCEPTION_EVENT,
    FINISH_REASONS,
    FINISHES,
    GC_SUCCESS,
    IS_ERROR,
    OTHER_ERROR,
    PROVIDER_NAME,
    PROVIDERS,
    TOOL_ERROR,
    shape_of,
)
from jaato.telemetry.failures import (
    exception_facts,
    is_cancellation,
    message_of,
    provider_facts,
    type_named,
    type_of,
)
from jaato.telemetry.guard import Guard
from jaato.telemetry.instruments import Instruments

if TYPE_CHECKING:
    from opentelemetry import context as context_api
    from opentelemetry import trace as trace_api

_LONGEST_NAME: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What operations report to: OpenTelemetry's modules, and what was made with them."""

    trace: ModuleType
    context: ModuleType
    tracer: trace_api.Tracer
    instruments: Instruments
    guard: Guard
    record_content: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Agent:
    """Whose operations are running here. `is_spawned`: its own turn is still to come."""

    attributes: Mapping[str, Attribute]
    is_spawned: bool


_AGENT: ContextVar[_Agent | None] = ContextVar("jaato_telemetry_agent", default=None)


class Operation:
    """A span, its attributes (which the metrics need too), and how it ended."""

    __slots__ = (
        "_agent_before",
        "_attributes",
        "_backend",
        "_clock_ns",
        "_context",
        "_context_before",
        "_error_text",
        "_error_type",
        "_facts",
        "_has_failed",
        "_is_open",
        "_operation",
        "_shape",
        "_span",
        "_started_ns",
    )

    def __init__(self, backend: Backend, operation: str, facts: Mapping[str, object]) -> None:
        self._backend = backend
        self._operation = operation
        self._facts = facts
        self._shape = shape_of(operation)
        self._attributes: dict[str, Attribute] = dict(self._shape.fixed)
        self._span: trace_api.Span | None = None
        self._context: context_api.Context | None = None
        self._context_before: Token[context_api.Context] | None = None
        self._agent_before: Token[_Agent | None] | None = None
        self._error_type: str | None = None
        self._error_text: str | None = None
        self._has_failed = False
        self._is_open = False
        self._started_ns = self._clock_ns = 0

    def __enter__(self) -> Self:
        self._started_ns, self._clock_ns = time.time_ns(), time.perf_counter_ns()
        self._is_open = True
        facts, self._facts = self._facts, {}
        with self._backend.guard:
            self._know(facts)
            self._agent_before = _AGENT.set(self._agent())
            self._start()
        self._say(facts)
        return self

    def set(self, **facts: Any) -> None:
        """Add what became known; None is left out."""
        if not self._is_open:
            return
        with self._backend.guard:
            self._record(self._know(facts))
        self._say(facts)

    def fail(self, error: BaseException) -> None:
        """Say that it failed. The first failure is what the span shows."""
        if not self._is_open or self._has_failed:
            return
        if is_cancellation(error):
            self._cancel()
            return
        self._has_failed = True
        wants_text = self._backend.record_content
        with self._backend.guard:
            self._error_type = type_of(error)
            self._error_text = message_of(error) if wants_text else None
            found = provider_facts(error)
            self._attributes.update(found)
            self._record(found)
            if self._span is not None and self._span.is_recording():
                event = exception_facts(error, with_message=wants_text)
                self._span.add_event(EXCEPTION_EVENT, event)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        elapsed_ns = time.perf_counter_ns() - self._clock_ns
        if error is not None:
            self.fail(error)
        self._is_open = False
        backend = self._backend
        try:
            with backend.guard:
                self._conclude()
            with backend.guard:
                backend.instruments.measure(
                    self._operation, self._attributes, elapsed_ns / 1e9, self._context
                )
            with backend.guard:
                if self._span is not None:
                    self._span.end(self._started_ns + elapsed_ns)
        finally:
            self._leave()

    def _know(self, facts: Mapping[str, object]) -> dict[str, Attribute]:
        """Keep the facts that are no content, and give them as attributes."""
        found: dict[str, Attribute] = {}
        for fact, value in facts.items():
            if fact in CONTENT or fact == "error":
                continue
            with self._backend.guard:
                name, attribute = self._shape.attribute_of(fact), clean(value)
                if attribute is not None:
                    found[name] = _conventional(name, attribute)
        self._attributes.update(found)
        return found

    def _agent(self) -> _Agent | None:
        """Whose operation this is; those inside belong to it too."""
        around = _AGENT.get()
        own: dict[str, Attribute] = {
            name: self._attributes[name]
            for name in (AGENT_ID, AGENT_NAME)
            if name in self._attributes
        }
        if self._operation == "subagent":
            return _Agent(attributes=own, is_spawned=True)
        if around is not None and (
            self._operation != "turn"
            or around.is_spawned
            or around.attributes.get(AGENT_ID) == own.get(AGENT_ID)
        ):
            own = {**around.attributes, **own}
            self._attributes.update(own)
        return _Agent(attributes=own, is_spawned=False) if self._operation == "turn" else around

    def _start(self) -> None:
        backend = self._backend
        kinds = backend.trace.SpanKind
        self._span = backend.tracer.start_span(
            self._name(),
            kind=kinds.CLIENT if self._shape.is_client else kinds.INTERNAL,
            attributes=self._attributes,
            start_time=self._started_ns,
            record_exception=False,
            set_status_on_exception=False,
        )
        self._context = backend.trace.set_span_in_context(self._span)
        self._context_before = backend.context.attach(self._context)

    def _name(self) -> str:
        for fact in self._shape.subjects:
            subject = self._attributes.get(self._shape.attribute_of(fact))
            if subject:
                return clean_text(f"{self._shape.name} {subject}", _LONGEST_NAME)
        return clean_text(self._shape.name, _LONGEST_NAME)

    def _record(self, attributes: Mapping[str, Attribute]) -> None:
        if attributes and self._span is not None:
            self._span.set_attributes(attributes)

    def _say(self, facts: Mapping[str, object]) -> None:
        """Errors and content: what needs a span that is there already."""
        error = facts.get("error")
        if isinstance(error, BaseException):
            self.fail(error)
        elif is_cancellation(error):
            self._cancel()
        elif _is_said(error) and not self._has_failed:
            text = error if isinstance(error, str) else ""
            self._error_type = type_named(text)
            self._error_text = clean_text(text) if self._backend.record_content else None
        span = self._span
        if not self._backend.record_content or span is None:
            return
        for fact, value in facts.items():
            if fact in CONTENT and value is not None:
                with self._backend.guard:
                    if span.is_recording():
                        known, prefix = self._attributes, self._shape.prefix
                        self._record(content_attributes(fact, value, known, prefix=prefix))

    def _cancel(self) -> None:
        """Somebody stopped it: that is no error, whatever a text says that came with it."""
        if not self._has_failed:
            self._error_type = self._error_text = None
        self._attributes[CANCELLED] = True
        with self._backend.guard:
            self._record({CANCELLED: True})

    def _conclude(self) -> None:
        """Set the status, where the operation ended in an error."""
        kind = self._error_type
        if kind is None and self._attributes.get(IS_ERROR) is True:
            kind = TOOL_ERROR
        if kind is None and self._attributes.get(GC_SUCCESS) is False:
            kind = OTHER_ERROR
        if kind is None:
            return
        self._attributes[ERROR_TYPE] = kind
        self._record({ERROR_TYPE: kind})
        if self._span is not None:
            status = self._backend.trace.StatusCode.ERROR
            self._span.set_status(status, self._error_text)

    def _leave(self) -> None:
        """What was current before is current again."""
        agent, context = self._agent_before, self._context_before
        try:
            if agent is not None:
                _AGENT.reset(agent)
        except ValueError:
            # Closed by another task than the one that opened it, as happens to an abandoned
            # asynchronous generator: that task's own span is current, and stays it.
            return
        if context is not None:
            with self._backend.guard:
                self._backend.context.detach(context)


def _conventional(name: str, value: Attribute) -> Attribute:
    """The value in the words of the conventions."""
    if name == PROVIDER_NAME:
        return PROVIDERS.get(str(value), value)
    if name == FINISH_REASONS:
        reasons = value if isinstance(value, tuple) else (value,)
        return tuple(FINISHES.get(str(reason), str(reason)) for reason in reasons)
    return value


def _is_said(error: object) -> bool:
    """Whether a fact `error` tells of one: no, where it is None, False or an empty text."""
    return bool(error) if isinstance(error, str | bool) else error is not None
