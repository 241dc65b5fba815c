"""What every stash promises, as checks to run against an empty one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import pytest

from jaato.errors import UsageError
from jaato.kept import (
    Entry,
    Filter,
    Record,
    StashClosedError,
    UnknownHandleError,
    is_handle,
)
from jaato.ports import Stash

Check = Callable[[Stash], None]

FULL: Final = Record(
    text="def total(prices):\n    return sum(prices)\n",
    type="code",
    session="s1",
    turn=3,
    step=2,
    message_ids=("m1", "m2"),
    tool="read_file",
    files=("src/shop/cart.py", "README.md"),
    tags=("shop", "urgent"),
    tokens=14,
    created_at=1_700_000_000.25,
    label="the cart",
    extra={"lines": [1, 2], "note": {"deep": None, "text": '"}\n{"sum":"'}},
)
TEXTS: Final = (
    "",
    "\n\r\n\u2028\x00\x1f",
    '{"sum":"0123456789abcdef","id":"x","text":"',
    "\ud800 alone, \ud83d\ude00 as a pair, 😀 as one",
    "ünïcödé 文字 🎉" * 50,
    "x" * 300_000,
)


def found(stash: Stash, query: str, **where: Any) -> list[str]:
    """The texts of the hits, best first."""
    return [stash.get(hit.entry.handle).text for hit in stash.search(query, Filter(**where))]


def listed(stash: Stash, **where: Any) -> list[str]:
    """The texts of a list."""
    return [stash.get(entry.handle).text for entry in stash.entries(Filter(**where))]


def put(stash: Stash, *texts: str, **about: Any) -> list[str]:
    """Put texts that are alike in all else."""
    return stash.put([Record(text=text, **about) for text in texts])


def what_is_put_comes_back(stash: Stash) -> None:
    """Each field, and any text."""
    records = [FULL, *(Record(text=text, label=text[:20]) for text in TEXTS)]
    handles = stash.put(records)
    assert [stash.get(handle) for handle in handles] == records


def handles_are_short_plain_names(stash: Stash) -> None:
    """None leads anywhere, and none gives the next one away."""
    handles = put(stash, *(f"text {number}" for number in range(50)))
    assert len(set(handles)) == 50
    for handle in handles:
        assert is_handle(handle)
        assert len(handle) == 10
        assert handle.isalnum()


def equal_records_are_one(stash: Stash) -> None:
    """Putting again, as after an error, keeps nothing twice."""
    (first,) = stash.put([FULL])
    assert stash.put([FULL, FULL]) == [first, first]
    assert len(stash.entries()) == 1
    (other,) = put(stash, FULL.text)
    assert other != first, "the same text with another story is another record"


def unknown_handles_are_errors(stash: Stash) -> None:
    """Whatever they look like."""
    for handle in ("", "nothing", "../../etc/passwd", "\x00", "a" * 1_000, "ä", "*"):
        with pytest.raises(UnknownHandleError) as caught:
            stash.get(handle)
        assert caught.value.handle == handle
        assert caught.value.hint


def removed_is_removed(stash: Stash) -> None:
    """From lists and searches too; its handle never means anything else."""
    kept, gone = put(stash, "the kept parrot", "the gone parrot")
    assert stash.remove([gone, gone, "unknown"]) == 1
    assert stash.remove([gone]) == 0
    for _ in range(2):
        with pytest.raises(UnknownHandleError) as caught:
            stash.get(gone)
        assert caught.value.fate == "removed"
        assert [entry.handle for entry in stash.entries()] == [kept]
        assert found(stash, "parrot") == ["the kept parrot"]
        (again,) = put(stash, "the gone parrot")
        assert again not in {kept, gone}
        assert stash.put([Record(text="other")], [gone]) != [gone]
        stash.remove([again, *(entry.handle for entry in stash.entries() if entry.chars == 5)])
        stash.compact()


def compaction_keeps_every_record(stash: Stash) -> None:
    """With its handle, and in its place in a list."""
    handles = put(stash, *(f"text number {number} of many" for number in range(20)))
    stash.remove(handles[::2])
    compacted = stash.compact()
    assert compacted.records == 10
    assert compacted.bytes_after <= compacted.bytes_before
    assert [entry.handle for entry in stash.entries()] == handles[1::2][::-1]
    assert found(stash, "number 7") == [f"text number {at} of many" for at in (7,)] or (
        found(stash, "number 7")[0] == "text number 7 of many"
    )
    (more,) = put(stash, "one more number")
    assert stash.get(more).text == "one more number"


def wished_handles_are_kept_where_they_can(stash: Stash) -> None:
    """A record that was somewhere else keeps its name, unless the name is taken."""
    assert stash.put([Record(text="a")], ["segment-1"]) == ["segment-1"]
    assert stash.put([Record(text="a")], ["segment-1"]) == ["segment-1"]
    (other,) = stash.put([Record(text="b")], ["segment-1"])
    assert other != "segment-1"
    assert stash.get("segment-1").text == "a"
    assert stash.get(other).text == "b"
    one, two = stash.put([Record(text="c"), Record(text="d")], [None, "segment-2"])
    assert (stash.get(one).text, stash.get(two).text, two) == ("c", "d", "segment-2")
    for wrong in ("", "../x", "a/b", "-x", ".x", "a b", "ä", "a" * 65, "x\n"):
        with pytest.raises(UsageError):
            stash.put([Record(text="e")], [wrong])
    with pytest.raises(UsageError):
        stash.put([Record(text="e")], ["a", "b"])


def what_cannot_be_kept_is_refused_whole(stash: Stash) -> None:
    """All or none: nothing of the batch is there."""
    wrong: Sequence[Any] = (
        Record(text=b"bytes"),  # type: ignore[arg-type]
        Record(text="x", turn="3"),  # type: ignore[arg-type]
        Record(text="x", turn=2**70),
        Record(text="x", tokens=True, label=None),  # type: ignore[arg-type]
        Record(text="x", files="a.py"),  # type: ignore[arg-type]
        Record(text="x", tags=(1,)),  # type: ignore[arg-type]
        Record(text="x", created_at="now"),  # type: ignore[arg-type]
        Record(text="x", created_at=float("nan")),
        Record(text="x", created_at=1e20),
        Record(text="x", extra={"when": datetime.now(UTC)}),
        Record(text="x", extra={"n": float("inf")}),
    )
    for record in wrong:
        with pytest.raises(UsageError):
            stash.put([Record(text="good"), record])
    assert stash.entries() == []
    assert stash.put([]) == []


def lists_are_filtered(stash: Stash) -> None:
    """Newest first; each filter alone, and all together."""
    put(stash, "a", session="s1", turn=1, type="log", tool="bash", files=("src/a/b.py",))
    put(stash, "b", session="s1", turn=2, type="code", tags=("x", "y"), created_at=100.0)
    put(stash, "c", session="s2", turn=1, type="log", files=("lib/b.py", "src/c.py"))
    put(stash, "d", session="s2", turn=0, type="note", tags=("y",), created_at=200.0)
    assert listed(stash) == ["d", "c", "b", "a"]
    assert listed(stash, session="s1") == ["b", "a"]
    assert listed(stash, session="") == []
    assert listed(stash, turn=1) == ["c", "a"]
    assert listed(stash, turn=0) == ["d"]
    assert listed(stash, type="log") == ["c", "a"]
    assert listed(stash, tool="bash") == ["a"]
    assert listed(stash, file="src/a/b.py") == ["a"]
    assert listed(stash, file="b.py") == ["c", "a"]
    assert listed(stash, file="a/b.py") == ["a"]
    assert listed(stash, file="./src/c.py") == ["c"]
    assert listed(stash, file="/b.py") == ["c", "a"]
    assert listed(stash, file="src/") == ["c", "a"]
    assert listed(stash, file="sr") == []
    assert listed(stash, tags=("y",)) == ["d", "b"]
    assert listed(stash, tags=("y", "x")) == ["b"]
    assert listed(stash, since=100, until=200) == ["b"]
    assert listed(stash, session="s2", type="log", file="b.py", turn=1) == ["c"]
    assert listed(stash, session="nobody") == []


def times_are_any_iso_form(stash: Stash) -> None:
    """With a zone, without one, a date; `until` a date includes the day."""
    noon = datetime(2026, 11, 19, 12, tzinfo=UTC).timestamp()
    put(stash, "noon", created_at=noon)
    for since in (
        "2026-11-19T12:00:00Z",
        "2026-11-19T13:00:00+01:00",
        "2026-11-19T12:00",
        "2026-11-19 12:00:00.000",
        "20261119T120000Z",
        "2026-11-19",
        "2026-W47-4",
        noon,
        int(noon),
        datetime(2026, 11, 19, 12, tzinfo=UTC),
    ):
        assert listed(stash, since=since) == ["noon"], since
    for until in ("2026-11-19", "20261119", "2026-W47-4", "2026-11-19T12:00:01Z"):
        assert listed(stash, until=until) == ["noon"], until
    assert listed(stash, since="2026-11-19T12:00:01Z") == []
    assert listed(stash, until="2026-11-19T12:00:00Z") == []
    for wrong in ("yesterday", "", "2026-13-01"):
        with pytest.raises(UsageError):
            stash.entries(Filter(since=wrong))


def lists_have_pages(stash: Stash) -> None:
    """Each goes on where the last one ended."""
    put(stash, *(f"text {number}" for number in range(10)), session="s")
    put(stash, "elsewhere")
    seen: list[Entry] = []
    before = None
    while page := stash.entries(Filter(session="s"), limit=3, before=before):
        seen += page
        before = page[-1].handle
    assert [stash.get(entry.handle).text for entry in seen] == [
        f"text {number}" for number in reversed(range(10))
    ]
    with pytest.raises(UnknownHandleError):
        stash.entries(before="unknown")
    for wrong in (0, -1):
        with pytest.raises(UsageError):
            stash.entries(limit=wrong)


def entries_say_what_is_known(stash: Stash) -> None:
    """All but the text, and how long that is."""
    (handle,) = stash.put([FULL])
    (entry,) = stash.entries()
    assert (entry.handle, entry.chars) == (handle, len(FULL.text))
    assert entry.about.files == FULL.files
    assert entry.about.label == FULL.label
    assert not hasattr(entry.about, "text")


def searches_find(stash: Stash) -> None:
    """By words, identifiers, paths and their parts, beginnings, endings, with typing errors."""
    put(stash, "def getUserById(user_id): return HTTPServer2", label="lookup")
    put(stash, "the build failed in src/shop/cart.py at line 12")
    put(stash, "resizing of images takes three queries", tool="image_tool")
    put(stash, "nothing to see here", files=("docs/Überblick.md",), tags=("café",))
    put(stash, "服务器返回错误代码", label="日志")
    for query, text in (
        ("getUserById", "def getUserById"),
        ("get user", "def getUserById"),
        ("user_id", "def getUserById"),
        ("httpserver", "def getUserById"),
        ("server", "def getUserById"),
        ("lookup", "def getUserById"),
        ("src/shop/cart.py", "the build"),
        ("cart", "the build"),
        ("FAILED build", "the build"),
        ("resize image", "resizing"),
        ("query", "resizing"),
        ("imag", "resizing"),
        ("qeuries", "resizing"),
        ("fuction resizzing", "resizing"),
        ("fialed", "the build"),
        ("buildd", "the build"),
        ("uberblick", "nothing"),
        ("cafe", "nothing"),
        ("ueberblick docs", "nothing"),
        ("错误", "服务器"),
        ("误", "服务器"),
        ("日志", "服务器"),
        ("what was it that failed in the shop?", "the build"),
    ):
        assert found(stash, query)[:1], query
        assert found(stash, query)[0].startswith(text), query
    assert found(stash, "xylophone") == []


def searches_rank(stash: Stash) -> None:
    """Rare words before common ones, more before less, then the newer one."""
    put(stash, "error in the parser", "error in the lexer", "error error error", "all fine")
    assert found(stash, "lexer error")[0] == "error in the lexer"
    assert found(stash, "error")[0] == "error error error"
    put(stash, "the same words", label="old")
    put(stash, "the same words", label="new")
    first, second = stash.search("same words", limit=2)
    assert (first.entry.about.label, second.entry.about.label) == ("new", "old")
    assert first.score == second.score
    hits = stash.search("error")
    assert all(one.score >= other.score for one, other in pairwise(hits))


def searches_are_filtered(stash: Stash) -> None:
    """And without a word, they say what is newest."""
    put(stash, "alpha beta", session="s1", files=("a.py",))
    put(stash, "alpha gamma", session="s2", files=("b.py",))
    assert found(stash, "alpha", session="s1") == ["alpha beta"]
    assert found(stash, "alpha", file="b.py") == ["alpha gamma"]
    assert found(stash, "gamma", session="s1") == []
    assert found(stash, "") == ["alpha gamma", "alpha beta"]
    assert found(stash, " ?! ", session="s1") == ["alpha beta"]
    assert len(stash.search("alpha", limit=1)) == 1
    with pytest.raises(UsageError):
        stash.search("alpha", limit=0)


def hits_have_excerpts(stash: Stash) -> None:
    """The line that speaks of it, not too long."""
    put(stash, "first line\n" + "noise " * 500 + "\nhere is the Needle in it\n" + "hay\n" * 99)
    (hit,) = stash.search("needle")
    assert hit.excerpt == "here is the Needle in it"
    put(stash, "stuff " * 400 + "Thimble " + "stuff " * 400)
    (hit,) = stash.search("thimble")
    assert "Thimble" in hit.excerpt
    assert len(hit.excerpt) <= 200


def threads_share_it(stash: Stash) -> None:
    """Each thread's records are there, whole."""
    handles: dict[int, list[str]] = {}

    def work(number: int) -> None:
        mine = []
        for at in range(10):
            mine += put(stash, f"thread {number} text {at}", f"and {number} {at}")
            assert stash.get(mine[-1]).text == f"and {number} {at}"
            stash.search(f"thread {number}")
        handles[number] = mine

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stash.entries()) == 80
    for number in range(4):
        texts = [stash.get(handle).text for handle in handles[number]]
        assert texts[::2] == [f"thread {number} text {at}" for at in range(10)]


def verifying_a_sound_stash_says_so(stash: Stash) -> None:
    """And how many records there are."""
    handles = put(stash, "a", "b", "c")
    stash.remove(handles[:1])
    verified = stash.verify()
    assert verified.is_sound
    assert verified.records == 2
    assert verified.durability


def a_closed_stash_says_so(stash: Stash) -> None:
    """It may be closed twice."""
    (handle,) = put(stash, "a")
    stash.close()
    stash.close()
    asks: Sequence[Callable[[], object]] = (
        lambda: stash.get(handle),
        lambda: put(stash, "b"),
        lambda: stash.search("a"),
        stash.entries,
        lambda: stash.remove([handle]),
        stash.compact,
        stash.verify,
    )
    for ask in asks:
        with pytest.raises(StashClosedError):
            ask()


def it_has_the_shape_of_a_stash(stash: Stash) -> None:
    """As far as a protocol can say it."""
    assert isinstance(stash, Stash)


CHECKS: Final[tuple[Check, ...]] = (
    what_is_put_comes_back,
    handles_are_short_plain_names,
    equal_records_are_one,
    unknown_handles_are_errors,
    removed_is_removed,
    compaction_keeps_every_record,
    wished_handles_are_kept_where_they_can,
    what_cannot_be_kept_is_refused_whole,
    lists_are_filtered,
    times_are_any_iso_form,
    lists_have_pages,
    entries_say_what_is_known,
    searches_find,
    searches_rank,
    searches_are_filtered,
    hits_have_excerpts,
    threads_share_it,
    verifying_a_sound_stash_says_so,
    a_closed_stash_says_so,
    it_has_the_shape_of_a_stash,
)
