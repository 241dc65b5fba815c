"""What a callable takes: its parameters and their types, and how a call is put together."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from jaato.errors import UsageError
from jaato.tools.context import ToolContext

NOT_GIVEN: Any = inspect.Parameter.empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter. `by_position`: Python takes it no other way."""

    name: str
    annotation: Any = Any
    default: Any = NOT_GIVEN
    by_position: bool = False
    is_context: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The parameters of a callable, in order."""

    parameters: tuple[Parameter, ...]
    takes_any: bool = False
    """Whether it takes names that it does not declare (`**kwargs`)."""
    whole: str | None = None
    """The one parameter that is given all arguments as they are, if there is one."""

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """Those that the model fills in."""
        return tuple(one for one in self.parameters if not one.is_context)

    def bound(
        self, values: Mapping[str, Any], context: ToolContext
    ) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named arguments of one call; what is not given keeps its default."""
        rest = {self.whole: dict(values)} if self.whole else dict(values)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for one in self.parameters:
            value: Any = context
            if one.is_context:
                pass
            elif one.name in rest:
                value = rest.pop(one.name)
            elif one.by_position:
                value = one.default
            else:
                continue
            if one.by_position:
                positional.append(value)
            else:
                named[one.name] = value
        return positional, {**named, **rest}


def typed_signature(function: Callable[..., Any], *, tool: str) -> Signature:
    """The signature with every annotation resolved; refuses what no schema can say."""
    found = _inspected(function, tool)
    body = _body(function)
    parameters: list[Parameter] = []
    for one in found.parameters.values():
        if one.kind in {one.VAR_POSITIONAL, one.VAR_KEYWORD}:
            stars = "*" if one.kind is one.VAR_POSITIONAL else "**"
            raise UsageError(
                f"the tool {tool!r} takes {stars}{one.name}, which no schema can describe",
                hint="name its parameters one by one, or give parameters= a JSON schema",
            )
        if not parameters and one.name == "self" and one.annotation is NOT_GIVEN:
            raise UsageError(
                f"the tool {tool!r} is a method without its object",
                hint="give the method of an object: thing.method, not Thing.method",
            )
        if not _is_bound(function, one):
            parameters.append(_parameter(one, _resolved(one, body, tool)))
    return Signature(parameters=tuple(parameters))


def loose_signature(function: Callable[..., Any]) -> Signature | None:
    """The signature as far as it can be known, for a tool whose schema was given."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    body = _body(function)
    parameters: list[Parameter] = []
    for one in found.parameters.values():
        if one.kind in {one.VAR_POSITIONAL, one.VAR_KEYWORD} or _is_bound(function, one):
            continue
        try:
            annotation = _resolved(one, body, "")
        except UsageError:
            # Only a context would have mattered.
            annotation = Any
        parameters.append(_parameter(one, annotation))
    takes_any = any(one.kind is one.VAR_KEYWORD for one in found.parameters.values())
    return Signature(parameters=tuple(parameters), takes_any=takes_any)


def _inspected(function: Callable[..., Any], tool: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the parameters of the tool {tool!r} cannot be read: {error}",
            hint="wrap it in a function with type hints, or give parameters= a JSON schema",
        ) from error


def _parameter(one: inspect.Parameter, annotation: Any) -> Parameter:
    return Parameter(
        name=one.name,
        annotation=annotation,
        default=one.default,
        by_position=one.kind is one.POSITIONAL_ONLY,
        is_context=_is_context(annotation),
    )


def _resolved(one: inspect.Parameter, body: Any, tool: str) -> Any:
    if one.annotation is NOT_GIVEN:
        return Any

    # One at a time, so that an error names its parameter, and the return type is left alone.
    def only() -> None: ...

    only.__annotations__ = {one.name: one.annotation}
    cells = zip(
        getattr(body, "__code__", only.__code__).co_freevars,
        getattr(body, "__closure__", None) or (),
        strict=False,
    )
    around = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    try:
        hints = typing.get_type_hints(
            only, getattr(body, "__globals__", {}), around, include_extras=True
        )
    except Exception as error:
        raise UsageError(
            f"the type of parameter {one.name!r} of the tool {tool!r} cannot be resolved: {error}",
            hint="import it at run time, where the module is, or give parameters= a JSON schema",
        ) from error
    return hints[one.name]


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 -- an empty cell raises
    except ValueError:
        return False
    return True


def _body(function: Any) -> Any:
    """The function whose module the annotations were written in."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isclass(function):
            return inspect.unwrap(function.__init__)
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isroutine(function):
            return function
        else:
            function = type(function).__call__


def _is_bound(function: Callable[..., Any], one: inspect.Parameter) -> bool:
    """Whether `functools.partial` filled it in by name: it is no longer the model's to say."""
    return isinstance(function, functools.partial) and one.name in function.keywords


def _is_context(annotation: Any) -> bool:
    if annotation is ToolContext:
        return True
    if get_origin(annotation) in {Annotated, Union, types.UnionType}:
        return any(_is_context(one) for one in get_args(annotation))
    return False
