"""Finding by words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato.tools.search import Entry, ranked
from jaato.words import words

ENTRIES = [
    Entry("read_file", "Read the contents of a file on disk."),
    Entry("writeFile", "Write text to a file on disk."),
    Entry("list_directory", "List what a folder holds."),
    Entry("HTTPGet", "Fetch a web page."),
    Entry("send_email", "Send a message to somebody."),
    Entry("query_database", "Run a SQL query and return its rows."),
    Entry("搜索", "搜索文件"),
    Entry("resize_image", ""),
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("read_file", "read file", id="snake case"),
        pytest.param("writeFile", "write file", id="camel case"),
        pytest.param("HTTPServer2Get", "http server 2 get", id="capitals and digits"),
        pytest.param("a.b/c-d", "a b c d", id="dots and slashes"),
        pytest.param("Read, the FILE!", "read the file", id="a sentence"),
        pytest.param("größeÄndern", "größe ändern".replace(" ", ""), id="only ASCII has seams"),
        pytest.param("", "", id="nothing"),
        pytest.param("__", "", id="nothing but lines"),
    ],
)
def test_the_words_of_a_text(text: str, found: str) -> None:
    assert words(text) == found.split()


@pytest.mark.parametrize(
    ("query", "first"),
    [
        pytest.param("read_file", "read_file", id="a name"),
        pytest.param("read file", "read_file", id="its words"),
        pytest.param("file write", "writeFile", id="in another order"),
        pytest.param("http", "HTTPGet", id="one word of it"),
        pytest.param("dir", "list_directory", id="the beginning of a word"),
        pytest.param("images", "resize_image", id="another ending"),
        pytest.param("emails", "send_email", id="a plural"),
        pytest.param("resizing", "resize_image", id="another form"),
        pytest.param("directories", "list_directory", id="another plural"),
        pytest.param("queries", "query_database", id="and another"),
        pytest.param("folder", "list_directory", id="a word of its description"),
        pytest.param("sql", "query_database", id="a short word"),
        pytest.param("databse", "query_database", id="a letter missing"),
        pytest.param("emial", "send_email", id="two letters swapped"),
        pytest.param("I want to send a mesage to my boss", "send_email", id="a sentence"),
        pytest.param("文件", "搜索", id="a script without spaces"),
        pytest.param("writeFile", "writeFile", id="a name in camel case"),
    ],
)
def test_what_is_meant_comes_first(query: str, first: str) -> None:
    assert ranked(query, ENTRIES)[0].name == first


@pytest.mark.parametrize("query", ["zzzzqx", "42", "quantum entanglement"])
def test_what_nobody_speaks_of_is_not_found(query: str) -> None:
    assert ranked(query, ENTRIES) == []


@pytest.mark.parametrize("query", ["", "  ", "?!"])
def test_no_words_find_everything(query: str) -> None:
    assert ranked(query, ENTRIES) == ENTRIES


def test_of_equals_the_earlier_comes_first() -> None:
    entries = [Entry("a_file"), Entry("b_file"), Entry("c_file")]
    assert ranked("file", entries) == entries


any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,12}", fullmatch=True)
entries = st.lists(st.builds(Entry, names, any_text), max_size=8, unique_by=lambda one: one.name)


@settings(max_examples=80)
@given(entries=entries, query=any_text)
def test_every_query_finds_each_at_most_once(entries: list[Entry], query: str) -> None:
    found = ranked(query, entries)
    assert len(set(found)) == len(found)
    assert set(found) <= set(entries)
    assert ranked(query, entries) == found


@settings(max_examples=80)
@given(entries=entries.filter(bool), data=st.data())
def test_a_name_finds_its_own_first(entries: list[Entry], data: st.DataObject) -> None:
    wanted = data.draw(st.sampled_from(entries))
    if words(wanted.name):
        assert ranked(wanted.name, entries)[0] == wanted
