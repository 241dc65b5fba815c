"""What bytes that are not text cost: images by their pixels, the rest by mime type. No decoding."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Literal

from jaato.history import Media

PIXELS_PER_TOKEN = 750
FEWEST_IMAGE_TOKENS, MOST_IMAGE_TOKENS = 85, 1600

# An hour of speech or a page of a document costs what its length says, not what its bytes say;
# these are usual bit rates and page sizes over the published tokens per second or page.
_BYTES_PER_TOKEN = (
    ("audio/wav", 1000),
    ("audio/x-wav", 1000),
    ("audio/", 500),
    ("video/", 400),
    ("application/pdf", 30),
)
# Providers that accept other documents read the text out of them.
_BYTES_PER_TOKEN_OTHERWISE = 4
# Python knows codecs that are no charsets, and some of those are quadratic.
_CHARSETS = ("iso-8859-", "latin", "windows-", "utf-16", "gb", "big5", "euc-", "shift_jis", "koi8")
_TEXT = ("text/", "application/json", "application/xml", "application/x-ndjson")


# C4, C8 and CC are in the range of the frame headers and are something else.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def media_text(media: Media) -> str | None:
    """The text of a text medium, which is counted as text; None for everything else."""
    mime, _, parameters = media.mime_type.partition(";")
    if not mime.strip().lower().startswith(_TEXT):
        return None
    _, _, rest = parameters.lower().partition("charset=")
    charset = rest.partition(";")[0].strip(" \"'")
    if charset.startswith(_CHARSETS):
        with suppress(LookupError, ValueError):
            return media.data.decode(charset, "replace")
    return media.data.decode("utf-8", "replace")


def media_tokens(media: Media) -> int:
    """The tokens of a medium that is not text."""
    mime = media.mime_type.lower()
    if mime.startswith("image/"):
        size = image_size(media.data)
        if size is None:
            return MOST_IMAGE_TOKENS
        tokens = math.ceil(size[0] * size[1] / PIXELS_PER_TOKEN)
        return min(max(tokens, FEWEST_IMAGE_TOKENS), MOST_IMAGE_TOKENS)
    each = next(
        (each for prefix, each in _BYTES_PER_TOKEN if mime.startswith(prefix)),
        _BYTES_PER_TOKEN_OTHERWISE,
    )
    return math.ceil(len(media.data) / each)


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height as the header of a PNG, GIF, WebP or JPEG states them, if it does."""
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        size = _pair(data, 16, 4, "big")
    elif data[:6] in {b"GIF87a", b"GIF89a"}:
        size = _pair(data, 6, 2, "little")
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        size = _webp_size(data)
    elif data[:2] == b"\xff\xd8":
        size = _jpeg_size(data)
    else:
        size = None
    return size if size and all(size) else None


def _pair(
    data: bytes, at: int, width: int, order: Literal["big", "little"]
) -> tuple[int, int] | None:
    middle, stop = at + width, at + 2 * width
    if len(data) < stop:
        return None
    return int.from_bytes(data[at:middle], order), int.from_bytes(data[middle:stop], order)


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        size = _pair(data, 24, 3, "little")
        return (size[0] + 1, size[1] + 1) if size else None
    if kind == b"VP8L" and len(data) >= 25:  # noqa: PLR2004 -- where its header ends
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    size = _pair(data, 26, 2, "little") if kind == b"VP8 " else None
    return (size[0] & 0x3FFF, size[1] & 0x3FFF) if size else None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:  # noqa: PLR2004 -- a marker's first byte
        marker = data[at + 1]
        if marker == 0xFF:  # noqa: PLR2004 -- padding
            at += 1
        elif marker in _JPEG_FRAMES:
            size = _pair(data, at + 5, 2, "big")
            return (size[1], size[0]) if size else None
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # noqa: PLR2004 -- markers without a length
            at += 2
        else:
            at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None
