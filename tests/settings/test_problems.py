"""What may be wrong with the text of a settings file."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.errors import UsageError
from jaato.gc.problems import ConfigError
from jaato.settings import MissingFileError, load_gc_settings
from jaato.settings.problems import parse_document


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        pytest.param(b"", "it is not JSON: Expecting value (line 1, column 1)", id="empty"),
        pytest.param(b'{"type": "hybrid",\n "x" 1}', "(line 2, column 6)", id="not JSON"),
        pytest.param(b"{'type': 1}", "(line 1, column 2)", id="Python, not JSON"),
        pytest.param(b'{"a": 1} // no', "Extra data", id="a comment"),
        pytest.param(b"[]", "it holds [], not an object", id="a list"),
        pytest.param(b"null", "it holds None, not an object", id="null"),
        pytest.param(b"NaN", "it holds nan, not an object", id="a bare NaN"),
        pytest.param(b"\xff\xfe{\0}\0", "not UTF-8 (byte 0)", id="UTF-16"),
        pytest.param(b'\xef\xbb\xbf{"type": "hybrid"}', "byte order mark", id="a byte order mark"),
        pytest.param(
            b'{"max_turns": 1, "max_turns": 2}',
            "max_turns: written twice, as 1 and as 2",
            id="a key twice",
        ),
        pytest.param(
            b'{"config": {"type": 1, "type": 1}}', "type: written twice", id="a key twice, inside"
        ),
        pytest.param(b'{"target_percent": NaN}', "target_percent: nan is no number", id="NaN"),
        pytest.param(
            b'{"config": {"target_percent": -Infinity}}',
            "config.target_percent: -inf",
            id="infinity",
        ),
        pytest.param(
            b'{"pinned_turn_indices": [1, NaN]}', "pinned_turn_indices.1: nan", id="NaN in a list"
        ),
        pytest.param(
            b'{"target_percent": 1e999}', "target_percent: inf", id="a number beyond floats"
        ),
        pytest.param(
            b'{"max_turns": ' + b"9" * 5000 + b"}", "cannot be read", id="a number of 5000 digits"
        ),
        pytest.param(b'{"a":' * 100_000, "nested too deeply", id="endless nesting"),
    ],
)
def test_broken_texts(raw: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "gc.json"
    path.write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        load_gc_settings(path)
    assert told in str(caught.value)
    assert all(problem.where == str(path) for problem in caught.value.problems)


def test_problems_of_the_text_and_of_its_values_are_told_together(tmp_path: Path) -> None:
    path = tmp_path / "gc.json"
    path.write_bytes(
        b'\xef\xbb\xbf{"max_turns": -1, "max_turns": -2, "notify": true, "target_percent": NaN}'
    )
    with pytest.raises(ConfigError) as caught:
        load_gc_settings(path)
    assert [problem.key for problem in caught.value.problems] == [
        "",
        "max_turns",
        "target_percent",
        "max_turns",
        "notify",
    ]


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "gc.json"
    with pytest.raises(MissingFileError) as caught:
        load_gc_settings(path)
    assert issubclass(MissingFileError, UsageError)
    assert not issubclass(MissingFileError, ConfigError)
    assert caught.value.path == path
    assert "nowhere" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).path == path  # noqa: S301 -- our own bytes


def test_a_directory_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_gc_settings(tmp_path)


def test_a_path_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_gc_settings(tmp_path / "a\0b")


@given(
    st.one_of(
        st.binary(max_size=40),
        st.text(max_size=40).map(lambda t: t.encode("utf-8", "surrogatepass")),
    )
)
def test_any_bytes_give_an_object_or_a_config_error(raw: bytes) -> None:
    try:
        values: object = parse_document(raw, where="x").values
    except ConfigError:
        return
    assert isinstance(values, dict)
