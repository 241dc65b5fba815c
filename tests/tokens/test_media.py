"""Images by their pixels, other media by their type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.history import Media
from jaato.tokens.media import image_size, media_text, media_tokens

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes([0, 0, 4, 0, 0, 0, 3, 0])
GIF = b"GIF89a" + bytes([0x40, 1, 0xF0, 0])
WEBP_LOSSY = b"RIFF....WEBPVP8 ....\x00\x00\x00\x9d\x01\x2a" + bytes([0x40, 1, 0xF0, 0])
WEBP_LOSSLESS = b"RIFF....WEBPVP8L....\x2f" + (319 | 239 << 14).to_bytes(4, "little")
WEBP_EXTENDED = b"RIFF....WEBPVP8X....\x00\x00\x00\x00" + bytes([63, 1, 0, 239, 0, 0])
JPEG = (
    b"\xff\xd8"
    b"\xff\xe0\x00\x04JF"  # a segment to pass over
    b"\xff\xff\xc4\x00\x02"  # padding, then a table that looks like a frame
    b"\xff\xc2\x00\x11\x08\x00\xf0\x01\x40"
)


@pytest.mark.parametrize(
    ("data", "size"),
    [
        pytest.param(PNG, (1024, 768), id="png"),
        pytest.param(GIF, (320, 240), id="gif"),
        pytest.param(WEBP_LOSSY, (320, 240), id="webp, lossy"),
        pytest.param(WEBP_LOSSLESS, (320, 240), id="webp, lossless"),
        pytest.param(WEBP_EXTENDED, (320, 240), id="webp, extended"),
        pytest.param(JPEG, (320, 240), id="jpeg"),
        pytest.param(PNG[:20], None, id="a png cut short"),
        pytest.param(JPEG[:-1], None, id="a jpeg cut short"),
        pytest.param(b"\xff\xd8" + b"\xff\xe0\x00\x00" * 9, None, id="a jpeg of empty segments"),
        pytest.param(b"\xff\xd8\xff\xd0\xff\x01", None, id="a jpeg of bare markers"),
        pytest.param(b"RIFF....WEBPVP9 ....", None, id="an unknown webp"),
        pytest.param(PNG[:16] + bytes(8), None, id="no pixels"),
        pytest.param(b"<svg/>", None, id="no raster image"),
        pytest.param(b"", None, id="nothing"),
    ],
)
def test_a_header_tells_the_size(data: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(data) == size


heads = st.sampled_from([PNG, GIF, WEBP_LOSSY, WEBP_LOSSLESS, WEBP_EXTENDED, JPEG])


@given(head=heads, keep=st.integers(0, 40), tail=st.binary(max_size=60))
def test_broken_images_cost_something_within_bounds(head: bytes, keep: int, tail: bytes) -> None:
    assert 85 <= media_tokens(Media("image/x", head[:keep] + tail)) <= 1600


@pytest.mark.parametrize(
    ("mime", "data", "tokens"),
    [
        pytest.param("image/png", PNG, 1049, id="an image by its pixels"),
        pytest.param("Image/GIF", GIF, 103, id="mime types in any case"),
        pytest.param("image/png", PNG[:16] + b"\x00\x00\xff\xff" * 2, 1600, id="a huge image"),
        pytest.param("image/heic", b"?", 1600, id="an image we cannot read"),
        pytest.param("audio/mpeg", bytes(5000), 10, id="a recording"),
        pytest.param("audio/wav", bytes(5000), 5, id="an uncompressed recording"),
        pytest.param("video/mp4", bytes(4001), 11, id="a film"),
        pytest.param("application/pdf", bytes(300), 10, id="a document"),
        pytest.param("application/zip", bytes(9), 3, id="anything else"),
    ],
)
def test_media_cost_what_their_type_says(mime: str, data: bytes, tokens: int) -> None:
    assert media_text(Media(mime, data)) is None
    assert media_tokens(Media(mime, data)) == tokens


@pytest.mark.parametrize(
    ("mime", "data", "text"),
    [
        pytest.param("text/plain", "\u00e9".encode(), "\u00e9", id="UTF-8 unless stated"),
        pytest.param('TEXT/html; charset="ISO-8859-1"', b"\xe9", "\u00e9", id="a stated charset"),
        pytest.param("text/x; charset=punycode", b"abc", "abc", id="a codec that is no charset"),
        pytest.param("text/x; charset=windows-0", b"abc", "abc", id="an unknown charset"),
        pytest.param("text/plain", b"\xff", "\ufffd", id="bytes that are no text"),
        pytest.param("application/json", b"{}", "{}", id="JSON is text"),
    ],
)
def test_text_media_are_read(mime: str, data: bytes, text: str) -> None:
    assert media_text(Media(mime, data)) == text
