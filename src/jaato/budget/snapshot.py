"""The written form of a budget: its version, what may stand in it, and how it is read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaato.errors import UsageError

SNAPSHOT_VERSION = 1


class SnapshotError(UsageError):
    """A written budget that cannot be read; `where` is the path to the fault."""

    def __init__(self, fact: str, *, where: str = "", hint: str | None = None) -> None:
        super().__init__(f"{fact}, at {where!r}" if where else fact, hint=hint)
        self.where = where


def check_version(data: object) -> Mapping[str, Any]:
    """The same data, if it is a mapping of a version that this code reads.

    Data without a version is what people wrote by hand: it is read as the current one.
    """
    if not isinstance(data, Mapping):
        raise SnapshotError(f"a snapshot is a mapping, not {type(data).__name__}")
    version = data.get("version", SNAPSHOT_VERSION)
    if type(version) is not int or not 1 <= version <= SNAPSHOT_VERSION:
        raise SnapshotError(
            f"snapshot version {version!r} is unknown",
            hint=f"this jaato reads versions 1 to {SNAPSHOT_VERSION}",
        )
    return data


def entry_fields(data: object, where: str) -> dict[str, Any]:
    """The constructor arguments of one written entry, its children still in written form."""
    if not isinstance(data, Mapping):
        raise SnapshotError(f"an entry is a mapping, not {type(data).__name__}", where=where)
    if missing := [name for name in ("source", "tokens", "gc_policy") if name not in data]:
        raise SnapshotError(f"an entry lacks {', '.join(missing)}", where=where)
    label, created_at = data.get("label"), data.get("created_at")
    if not isinstance(label, str | None):
        raise SnapshotError(f"a label is a string, not {label!r}", where=where)
    if isinstance(created_at, bool) or not isinstance(created_at, int | float | None):
        raise SnapshotError(f"created_at is a number, not {created_at!r}", where=where)
    message_ids = data.get("message_ids") or []
    if not isinstance(message_ids, list) or not all(isinstance(one, str) for one in message_ids):
        raise SnapshotError("message_ids is a list of strings", where=where)
    nested: dict[str, Any] = {}
    for name in ("children", "metadata"):
        value = data.get(name) or {}
        if not isinstance(value, Mapping):
            raise SnapshotError(f"{name} is a mapping, not {value!r}", where=where)
        nested[name] = value if name == "children" else plain(value)
    return {
        "source": data["source"],
        "tokens": data["tokens"],
        "gc_policy": data["gc_policy"],
        "label": label,
        "created_at": created_at,
        "message_ids": list(message_ids),
        **nested,
    }


def plain(value: Any) -> Any:
    """An independent copy that JSON can hold; what it cannot hold becomes its text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return str(value)
