"""Arguments of a tool by its type hints: the schema and the checking are pydantic's."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from jaato.errors import MissingExtraError, UsageError
from jaato.tools.signature import NOT_GIVEN, Parameter
from jaato.tools.terse_schema import DEFINITIONS, generator, inlined
from jaato.tools.typed_dicts import Made, portable
from jaato.tools.wording import ArgumentsError, missing, shown, unknown

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


class TypedArguments:
    """Reads arguments by the annotations of parameters; lenient, as pydantic is by default."""

    def __init__(
        self, parameters: Sequence[Parameter], descriptions: Mapping[str, str], *, tool: str
    ) -> None:
        try:
            import pydantic  # noqa: PLC0415 -- an optional package
            import pydantic.fields  # noqa: PLC0415 -- likewise
        except ImportError as error:
            raise MissingExtraError("pydantic", extra="tools") from error
        self._fails = pydantic.ValidationError
        self._adapters: dict[str, TypeAdapter[Any]] = {}
        self._required: set[str] = set()
        self._filled_in: set[str] = set()
        defaults: dict[str, Any] = {}
        made: Made = {}
        for one in parameters:
            hint, default = portable(one.annotation, made), one.default
            if isinstance(default, pydantic.fields.FieldInfo):
                # `limit: int = Field(5, ge=1)`: the function itself knows no default.
                hint, default = Annotated[hint, default], NOT_GIVEN
            adapter = self._adapters[one.name] = _adapter(hint, default, one.name, tool)
            inner = adapter.get_default_value()
            if default is not NOT_GIVEN:
                defaults[one.name] = default
            elif inner is not None:
                defaults[one.name] = inner.value
                self._filled_in.add(one.name)
            else:
                self._required.add(one.name)
        self.schema = self._schema(descriptions, defaults, tool)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The values by name, as the function wants them; raises `ArgumentsError`."""
        problems: list[str] = []
        values: dict[str, Any] = {}
        for name, adapter in self._adapters.items():
            if name in arguments:
                try:
                    values[name] = self._value(adapter, arguments[name])
                except self._fails as error:
                    problems += _worded(name, arguments[name], error)
            elif name in self._required:
                problems.append(missing(name))
            elif name in self._filled_in and (default := adapter.get_default_value()):
                values[name] = default.value
        strange = [name for name in arguments if name not in self._adapters]
        # What is missing was meant, if anything.
        absent = [name for name in self._adapters if name not in arguments]
        problems += unknown(strange, absent or list(self._adapters))
        if problems:
            raise ArgumentsError(problems)
        return values

    def _value(self, adapter: TypeAdapter[Any], value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except self._fails:
            if not isinstance(value, str):
                raise
            try:
                # Models write lists and objects as text now and then.
                parsed = json.loads(value)
            except (ValueError, RecursionError):
                parsed = value
            if isinstance(parsed, str):
                raise
            try:
                return adapter.validate_python(parsed)
            except self._fails:
                pass
            raise

    def _schema(
        self, descriptions: Mapping[str, str], defaults: Mapping[str, Any], tool: str
    ) -> dict[str, Any]:
        import pydantic  # noqa: PLC0415 -- an optional package

        try:
            parts, document = pydantic.TypeAdapter.json_schemas(
                [(name, "validation", adapter) for name, adapter in self._adapters.items()],
                ref_template=f"{DEFINITIONS}{{model}}",
                schema_generator=generator(),
            )
        except pydantic.PydanticUserError as error:
            raise UsageError(
                f"a parameter of the tool {tool!r} has no JSON schema: {_first_line(error)}",
                hint="annotate it with a type that JSON can say, or give parameters= a JSON schema",
            ) from error
        properties = {}
        for name, adapter in self._adapters.items():
            part = dict(parts[name, "validation"])
            if descriptions.get(name):
                part.setdefault("description", descriptions[name])
            if name in defaults and "default" not in part:
                part |= _sayable_default(adapter, defaults[name])
            properties[name] = part
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if self._required:
            schema["required"] = [name for name in self._adapters if name in self._required]
        schema["additionalProperties"] = False
        return inlined(schema, document.get("$defs", {}))


def _adapter(hint: Any, default: Any, name: str, tool: str) -> TypeAdapter[Any]:
    import pydantic  # noqa: PLC0415 -- an optional package

    try:
        adapter = pydantic.TypeAdapter(hint)
        if default is None and not _takes_none(adapter):
            # `path: str = None` means that it may be left out, and models say so by a null.
            adapter = pydantic.TypeAdapter(_optional(hint))
    except pydantic.PydanticUserError as error:
        raise UsageError(
            f"parameter {name!r} of the tool {tool!r} has a type that cannot be checked:"
            f" {_first_line(error)}",
            hint="annotate it with a type that JSON can say, or give parameters= a JSON schema",
        ) from error
    return adapter


def _takes_none(adapter: TypeAdapter[Any]) -> bool:
    import pydantic  # noqa: PLC0415 -- an optional package

    try:
        adapter.validate_python(None)
    except pydantic.ValidationError:
        return False
    return True


def _optional(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        inner, *rest = get_args(hint)
        return Annotated[(inner | None, *rest)]
    return Union[hint, None]  # noqa: UP007 -- `|` knows no strings


def _sayable_default(adapter: TypeAdapter[Any], default: Any) -> dict[str, Any]:
    """The default as the schema may state it; nothing where JSON has no words for it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = adapter.dump_python(default, mode="json")
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except Exception:  # noqa: BLE001 -- a foreign serializer may raise anything
        return {}
    # NaN among anything becomes a null, which says something else.
    return {} if value is None and default is not None else {"default": value}


def _worded(name: str, value: Any, error: ValidationError) -> list[str]:
    """What is wrong with an argument; what several branches of a union say is one problem."""
    told: dict[str, tuple[list[str], str]] = {}
    for one in error.errors(include_url=False, include_context=False):
        is_missing = one["type"] == "missing"
        path = _path(name, value, one["loc"], ends_outside=is_missing)
        message = one["msg"][:1].lower() + one["msg"][1:]
        got = "" if is_missing else f" (got {shown(one['input'])})"
        messages, _ = told.setdefault(path, ([], got))
        if message not in messages:
            messages.append(message)
    return [
        f"argument {path!r}: {' or '.join(messages)}{got}" for path, (messages, got) in told.items()
    ]


def _path(name: str, value: Any, places: Sequence[int | str], *, ends_outside: bool) -> str:
    """Where in the argument: pydantic also names branches of unions, which are no places."""
    path = name
    for at, place in enumerate(places):
        if isinstance(value, Mapping) and place in value:
            value = value[place]
            path += f".{place}"
        elif isinstance(value, list) and isinstance(place, int) and place < len(value):
            value = value[place]
            path += f"[{place}]"
        elif ends_outside and at == len(places) - 1:
            path += f".{place}"
    return path


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
