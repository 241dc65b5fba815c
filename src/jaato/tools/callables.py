"""Tools made of Python callables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, overload

from jaato.errors import UsageError
from jaato.exchange import ToolOutput, ToolSchema
from jaato.history.message import NOTHING
from jaato.tools.context import current_context
from jaato.tools.declared import DeclaredArguments
from jaato.tools.docstring import Doc, doc_of, first_paragraph, text_of
from jaato.tools.results import failure, output_of, refusal
from jaato.tools.signature import NOT_GIVEN, Signature, loose_signature, typed_signature
from jaato.tools.typed import TypedArguments
from jaato.tools.wording import ArgumentsError, shown
from jaato.tools.worker import Raised, in_thread

LONGEST_NAME: Final = 64
# What every provider takes.
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{LONGEST_NAME - 1}}}", re.ASCII)


class Arguments(Protocol):
    """Knows what a tool takes, and reads what a model wrote."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """A JSON schema of an object."""
        ...

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The values by name; raises `ArgumentsError`."""
        ...


class FunctionTool:
    """A callable as a tool: its name, its docstring and its type hints are what the model sees.

    A plain function runs in a thread of its own, with the context variables of the caller; it
    cannot be stopped there, so after a time-out it runs on unheard.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        discoverable: bool = False,
        timeout: float | None = None,
        extra: Mapping[str, Any] = NOTHING,
    ) -> None:
        name = name if name is not None else _name_of(function)
        _refuse_unless_usable(function, name, timeout)
        if parameters is None:
            doc = doc_of(function)
            self._signature: Signature | None = typed_signature(function, tool=name)
            self._arguments: Arguments = TypedArguments(
                self._signature.arguments, doc.parameters, tool=name
            )
        else:
            doc = Doc(description=first_paragraph(text_of(function)))
            self._signature = loose_signature(function)
            self._arguments, self._signature = _declared(parameters, self._signature, name)
        self.function = function
        self.schema: ToolSchema = ToolSchema(
            name=name,
            description=doc.description if description is None else description,
            parameters=self._arguments.schema,
            extra=extra,
        )
        self.discoverable: bool = discoverable
        self.timeout: float | None = timeout
        self._is_async = _is_coroutine_function(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as if it had never been made a tool."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionTool({self.schema.name!r})"

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """Run it. Bad arguments and exceptions are outputs too; only a cancellation is raised."""
        try:
            # The history holds the arguments too, and the function may change what it was given.
            values = self._arguments.read(deepcopy(dict(arguments)))
        except ArgumentsError as error:
            return refusal(str(error))
        except Exception as error:  # noqa: BLE001 -- foreign validators may raise anything
            return failure(error)
        try:
            return await self._run(self._bound(values))
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- it is the model's to read
            return failure(error)

    async def _run(self, run: Callable[[], Any]) -> ToolOutput:
        if self._is_async:
            return output_of(await run())
        done = await in_thread(lambda: _finished(run()), name=self.schema.name)
        if not isinstance(done, Raised):
            value = done.value
            return value if isinstance(value, ToolOutput) else output_of(await value)
        if isinstance(done.error, StopIteration):
            # Python lets none out of a coroutine.
            return failure(done.error)
        raise done.error

    def _bound(self, values: dict[str, Any]) -> Callable[[], Any]:
        if self._signature is None:
            return partial(self.function, **values)
        positional, named = self._signature.bound(values, current_context())
        return partial(self.function, *positional, **named)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = ...,
    description: str | None = ...,
    parameters: Mapping[str, Any] | None = ...,
    discoverable: bool = ...,
    timeout: float | None = ...,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
@overload
def tool(
    function: Callable[..., Any],
    /,
    *,
    name: str | None = ...,
    description: str | None = ...,
    parameters: Mapping[str, Any] | None = ...,
    discoverable: bool = ...,
    timeout: float | None = ...,
) -> FunctionTool: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    discoverable: bool = False,
    timeout: float | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """A tool made of a function: `@tool`, `@tool(timeout=5)` or `tool(function, name="other")`."""

    def made(function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(
            function,
            name=name,
            description=description,
            parameters=parameters,
            discoverable=discoverable,
            timeout=timeout,
        )

    return made if function is None else made(function)


def _finished(value: Any) -> ToolOutput | Awaitable[Any]:
    """A result read where it was made; what must be awaited goes back to the event loop."""
    return value if inspect.isawaitable(value) else output_of(value)


def _name_of(function: Callable[..., Any]) -> str:
    if isinstance(function, partial):
        return _name_of(function.func)
    return str(getattr(function, "__name__", type(function).__name__))


def _refuse_unless_usable(function: Any, name: str, timeout: float | None) -> None:
    if not callable(function):
        raise UsageError(
            f"a tool is made of a callable, not of a {type(function).__name__}",
            hint="give a function, a method of an object, or an object with __call__",
        )
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{shown(name)} is no name for a tool",
            hint="give name=: ASCII letters, digits, _ and -, not a digit first,"
            f" {LONGEST_NAME} characters at most",
        )
    if timeout is not None and not timeout > 0:
        raise UsageError(
            f"a timeout of {timeout} seconds for the tool {name!r}",
            hint="give more than 0, or None to leave it to the session",
        )
    call = function if inspect.isroutine(function) else type(function).__call__
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise UsageError(
            f"the tool {name!r} is a generator, and a call has one result",
            hint="return a list, or a text",
        )


def _is_coroutine_function(function: Callable[..., Any]) -> bool:
    # A class is called for its instance, whatever `__call__` that has.
    return inspect.iscoroutinefunction(function) or (
        not inspect.isclass(function) and inspect.iscoroutinefunction(type(function).__call__)
    )


def _declared(
    parameters: Mapping[str, Any], signature: Signature | None, name: str
) -> tuple[Arguments, Signature | None]:
    """The reader of a given schema, and how its function takes what was read."""
    if signature is None:
        return DeclaredArguments(parameters, tool=name), None
    taken = {one.name for one in signature.arguments}
    arguments = DeclaredArguments(parameters, tool=name, takes_any=signature.takes_any)
    if not signature.takes_any and len(taken) == 1 and not taken & set(arguments.names):
        # `def handler(arguments): ...`
        arguments = DeclaredArguments(parameters, tool=name)
        return arguments, replace(signature, whole=taken.pop())
    needed = [one.name for one in signature.arguments if one.default is NOT_GIVEN]
    for lacking in needed:
        if lacking not in arguments.names:
            raise UsageError(
                f"the function of the tool {name!r} needs {lacking!r}, which its schema lacks",
                hint="name the properties as the function names its parameters",
            )
        if lacking not in arguments.required:
            raise UsageError(
                f"the function of the tool {name!r} needs {lacking!r}, and its schema does not",
                hint='list it under "required", or give the parameter a default',
            )
    strange = [one for one in arguments.names if one not in taken]
    if strange and not signature.takes_any:
        raise UsageError(
            f"the function of the tool {name!r} takes no {strange[0]!r}",
            hint="name its parameters as the properties of the schema, or let it take **kwargs",
        )
    return arguments, signature
