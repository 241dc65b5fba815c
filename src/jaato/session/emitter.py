"""Events to listeners. A listener that raises is reported, and nothing else happens."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jaato.events import CallbackFailed, Event

log = logging.getLogger(__name__)

Listener = Callable[[Event], object]


class Emitter:
    """Tells listeners, in the order they came."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self._listeners: list[tuple[Listener, tuple[type[Event], ...]]] = []
        self._above: Emitter | None = None

    def forward_to(self, above: Emitter) -> None:
        """Tell another emitter's listeners as well: a child's events are its parent's news."""
        self._above = above

    def listen(self, listener: Listener, *kinds: type[Event]) -> Callable[[], None]:
        """Tell a listener of everything, or of these kinds; what is returned ends it."""
        pair = (listener, kinds or (Event,))
        self._listeners.append(pair)

        def stop() -> None:
            if pair in self._listeners:
                self._listeners.remove(pair)

        return stop

    def ignore(self, listener: Listener) -> None:
        """Tell a listener nothing more."""
        self._listeners = [pair for pair in self._listeners if pair[0] is not listener]

    def is_heard(self, kind: type[Event]) -> bool:
        """Whether anybody listens for a kind by its name: such events may be dear to make."""
        if any(kind in kinds for _, kinds in self._listeners):
            return True
        return self._above is not None and self._above.is_heard(kind)

    @contextmanager
    def listening(self, *listeners: Listener) -> Iterator[None]:
        """Tell listeners for as long as this lasts."""
        stops = [self.listen(listener) for listener in listeners]
        try:
            yield
        finally:
            for stop in stops:
                stop()

    def emit(self, event: Event) -> None:
        """Tell every listener."""
        for listener, kinds in tuple(self._listeners):
            if isinstance(event, kinds):
                self.guarded(listener, event)
        if self._above is not None:
            self._above.emit(event)

    def guarded(self, callback: Callable[..., Any], *arguments: Any) -> Any:
        """Call what belongs to somebody else; None, and a report, where it raises."""
        try:
            return _called(callback, *arguments)
        except Exception as error:  # noqa: BLE001 -- whatever it raises must not take the turn along
            self.report(callback, error)
            return None

    def report(self, callback: object, error: Exception) -> None:
        """Say that a callback failed."""
        name = name_of(callback)
        log.warning("the callback %s raised %s", name, told(error))
        self.pass_on(
            callback, CallbackFailed(agent_id=self.agent_id, callback=name, error=told(error))
        )

    def pass_on(self, callback: object, failed: CallbackFailed) -> None:
        """Tell everybody else that a callback failed."""
        for listener, kinds in tuple(self._listeners):
            if listener is callback or not isinstance(failed, kinds):
                continue
            try:
                _called(listener, failed)
            except Exception:
                log.exception("a listener raised while it was told of %s", failed.callback)
        if self._above is not None:
            self._above.pass_on(callback, failed)


def _called(callback: Callable[..., Any], *arguments: Any) -> Any:
    said = callback(*arguments)
    if inspect.iscoroutine(said):
        said.close()
        raise TypeError("it is a coroutine, and callbacks are not awaited")
    return said


def name_of(callback: object) -> str:
    """What a callback is called in a report."""
    return getattr(callback, "__qualname__", None) or type(callback).__name__


def told(error: BaseException) -> str:
    """An error in words: its type and what it says."""
    return f"{type(error).__name__}: {error}"
