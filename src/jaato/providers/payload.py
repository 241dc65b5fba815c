"""The body of a request as the bytes that go over the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jaato.tokens.pieces import well_formed


def payload(body: Mapping[str, Any]) -> bytes:
    """The body as JSON that every server reads: UTF-8 knows no half characters, JSON no infinity.

    The vendors' SDKs stumble over both, so they are given bytes.
    """
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, default=_as_json)
    except ValueError:
        text = json.dumps(_finite(body), ensure_ascii=False, default=_as_json)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return well_formed(text).encode()


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, set | frozenset) else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    is_number = not isinstance(value, float) or value - value == 0
    return value if is_number else None
