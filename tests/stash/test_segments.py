"""Segments in JSON: ours come back equal, foreign ones come out as they came in."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from tests.stash.stash_contract import FULL
from tests.stash.test_model import RECORDS

from jaato.errors import UsageError
from jaato.kept import Record
from jaato.stash.memory import MemoryStash
from jaato.stash.segments import import_segments, segments, write_segments

FOREIGN: dict[str, Any] = {
    "segment_id": "seg-42",
    "text": "Use Postgres.",
    "type": "decision",
    "created_at": "2025-01-02T03:04:05Z",
    "last_touched_at": "2025-02-02T00:00:00",
    "pinned": True,
    "generation": "old",
    "gc_survival_count": 3,
    "refcount": 2,
    "file_path": "docs/adr.md",
    "line_range": [3, 9],
    "tags": ["db"],
    "topic_id": "storage",
    "colour": "green",
}


def copied(stash: MemoryStash) -> MemoryStash:
    """What another stash makes of the JSON."""
    file = io.StringIO()
    write_segments(stash, file)
    other = MemoryStash()
    assert import_segments(other, json.loads(file.getvalue())).renamed == {}
    return other


@given(record=RECORDS)
def test_a_record_survives_the_journey(record: Record) -> None:
    stash = MemoryStash()
    handles = stash.put([record, FULL])
    other = copied(stash)
    assert [other.get(handle) for handle in handles] == [record, FULL]
    assert other.entries() == stash.entries()


def test_a_segment_has_every_field_of_the_model() -> None:
    stash = MemoryStash()
    (handle,) = stash.put([Record(text="x", type="tool_result", tool="bash", created_at=1.5)])
    (segment,) = segments(stash)
    assert set(segment) - {"jaato"} == set(FOREIGN) - {"colour"}
    assert segment["segment_id"] == handle
    assert segment["type"] == "log"
    assert segment["created_at"] == "1970-01-01T00:00:01.500000Z"


def test_a_foreign_segment_comes_out_as_it_came_in() -> None:
    stash = MemoryStash()
    assert import_segments(stash, {"segments": [FOREIGN]}).records == 1
    record = stash.get("seg-42")
    assert (record.type, record.files, record.tags) == ("decision", ("docs/adr.md",), ("db",))
    for one in (stash, copied(stash)):
        (segment,) = segments(one)
        segment.pop("jaato")
        assert segment == FOREIGN


def test_an_id_that_cannot_be_a_handle_gets_another_name() -> None:
    stash = MemoryStash()
    stash.put([Record(text="other")], ["taken"])
    ids = ["../../x", "taken", "fine", None]
    document = {"segments": [{"segment_id": one, "text": f"text of {one}"} for one in ids]}
    imported = import_segments(stash, document)
    assert set(imported.renamed) == {"../../x", "taken"}
    assert stash.get(imported.renamed["taken"]).text == "text of taken"
    assert stash.get("taken").text == "other"
    assert stash.get("fine").text == "text of fine"


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="a list"),
        pytest.param({}, id="no segments"),
        pytest.param({"segments": "x"}, id="a text of segments"),
        pytest.param({"segments": [FOREIGN, 3]}, id="a number"),
        pytest.param({"segments": [FOREIGN, {"segment_id": "x"}]}, id="without a text"),
        pytest.param({"segments": [FOREIGN, {"text": "x", "created_at": "soon"}]}, id="no time"),
        pytest.param({"segments": [FOREIGN, {"text": "x", "tags": 3}]}, id="no tags"),
    ],
)
def test_a_bad_document_is_refused_whole(document: Any) -> None:
    stash = MemoryStash()
    with pytest.raises(UsageError):
        import_segments(stash, document)
    assert stash.entries() == []
