"""`typing.TypedDict` in the form that pydantic takes: before Python 3.12 it refuses them."""

from __future__ import annotations

import sys
import types
import typing
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

Made = dict[Any, Any]
"""The TypedDicts of one tool that were made again, by the original."""


def portable(hint: Any, made: Made) -> Any:
    """The same type, with every TypedDict in it as pydantic takes it."""
    if sys.version_info >= (3, 12):
        return hint
    if typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        return made[hint] if hint in made else _made_again(hint, made)
    arguments = get_args(hint)
    if not arguments or get_origin(hint) is Literal:
        return hint
    changed = tuple(portable(one, made) for one in arguments)
    if all(new is old for new, old in zip(changed, arguments, strict=True)):
        return hint
    return _with_arguments(hint, changed)


def _with_arguments(hint: Any, arguments: tuple[Any, ...]) -> Any:
    origin: Any = get_origin(hint)
    if origin is Annotated:
        return Annotated[(arguments[0], *hint.__metadata__)]
    if origin in {Union, types.UnionType}:
        return Union[arguments]  # noqa: UP007 -- of a tuple
    return origin[arguments if len(arguments) > 1 else arguments[0]]


def _made_again(original: Any, made: Made) -> Any:
    from typing_extensions import TypedDict  # noqa: PLC0415 -- comes with pydantic

    define: Any = TypedDict
    copy = define(original.__name__, {})
    # Before its keys are read: one of them may hold the same TypedDict again.
    made[original] = copy
    copy.__doc__ = original.__doc__
    required = set(original.__required_keys__)
    annotations = {}
    for key, hint in typing.get_type_hints(original, include_extras=True).items():
        kind = hint
        if get_origin(hint) in {Required, NotRequired}:
            # Where annotations are strings, `__required_keys__` did not see it.
            (required.add if get_origin(hint) is Required else required.discard)(key)
            (kind,) = get_args(hint)
        annotations[key] = portable(kind, made)
    copy.__annotations__ = annotations
    copy.__required_keys__ = frozenset(required)
    copy.__optional_keys__ = frozenset(annotations) - copy.__required_keys__
    return copy
