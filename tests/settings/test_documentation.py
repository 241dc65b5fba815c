"""`docs/configuration.md` says what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jaato.gc.options import OPTIONS, PLACEHOLDERS, STRATEGIES, Option
from jaato.settings.gc_file import read_sections
from jaato.settings.problems import parse_document
from jaato.settings.profiles import _profile

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
JSON_BLOCKS = re.findall(r"^```json\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def row(option: Option) -> str:
    """The line of the table that an option must have."""
    default = f"`{json.dumps(option.default)}`"
    if option.file_default is not None:
        default += f"; in files `{json.dumps(option.file_default)}`"
    readers = ", ".join(f"`{name}`" for name in option.strategies)
    cells = [
        f"`{option.key}`",
        str(option.kind),
        default,
        f"`{option.env}`" if option.env else "",
        "all" if option.strategies == STRATEGIES else readers,
        option.doc,
    ]
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.key)
def test_the_table_has_every_option(option: Option) -> None:
    assert row(option) in PAGE.splitlines()


def test_the_table_has_nothing_else() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE) == list(OPTIONS)


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_every_placeholder_is_named(name: str) -> None:
    assert f"`{{{name}}}`" in PAGE


@pytest.mark.parametrize("text", JSON_BLOCKS, ids=range(len(JSON_BLOCKS)))
def test_the_json_examples_load(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for option in OPTIONS.values():
        monkeypatch.delenv(option.env or "", raising=False)
    document: Any = parse_document(text.encode(), where="docs/configuration.md")
    assert document.problems == ()
    if "name" in document.values:
        assert _profile(document, "example").gc is not None
    else:
        assert read_sections(document.values, where=document.where).settings().advice == ()


def test_there_are_examples_of_both_schemas_and_of_a_profile() -> None:
    keys = [set(json.loads(text)) for text in JSON_BLOCKS]
    for key in ("type", "plugin", "name"):
        assert any(key in found for found in keys)
