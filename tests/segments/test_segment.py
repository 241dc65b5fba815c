"""A segment is a value with the names of the specification, and survives being written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from tests.segments.working_sets import NOW, configs, segment, segments

from jaato.errors import UsageError
from jaato.segments import (
    ContextSegment,
    Link,
    LinkKind,
    SegmentConfig,
    SegmentConfigError,
    SegmentError,
    TimeError,
    change_from_dict,
    moment,
    segment_from_dict,
    segment_to_dict,
)
from jaato.segments.config import config_from_dict, config_to_dict


def test_the_defaults_are_those_of_the_specification() -> None:
    one = ContextSegment(segment_id="a", text="t", type="log", created_at=NOW, last_touched_at=NOW)
    assert (one.pinned, one.generation, one.gc_survival_count, one.refcount) == (
        False,
        "young",
        0,
        0,
    )
    assert (one.file_path, one.line_range, one.tags, one.topic_id) == (None, None, (), None)
    assert (one.project, one.task_id, one.tokens, one.links) == ("default", None, 0, ())


@given(one=segments)
def test_a_segment_survives_being_written(one: ContextSegment) -> None:
    assert segment_from_dict(json.loads(json.dumps(segment_to_dict(one)))) == one


def test_a_segment_written_by_hand_needs_little() -> None:
    one = segment_from_dict(
        {"segment_id": "a", "text": "", "type": "note", "created_at": "2026-05-04", "links": ["b"]}
    )
    assert one.last_touched_at == datetime(2026, 5, 4, tzinfo=UTC)
    assert one.links == (Link(to="b"),)


def test_lists_become_tuples_and_repeats_go() -> None:
    one = segment("a", tags=["x", "y", "x"], line_range=[3, 9], to=["b", "b"])
    assert (one.tags, one.line_range, one.links) == (("x", "y"), (3, 9), (Link(to="b"),))
    assert hash(one)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("2026-05-04T10:00:00Z", NOW, id="Z"),
        pytest.param("2026-05-04t10:00:00z", NOW, id="small letters"),
        pytest.param("2026-05-04T12:00:00+02:00", NOW, id="an offset"),
        pytest.param("2026-05-04T10:00", NOW, id="naive is UTC"),
        pytest.param("2026-05-04 10:00:00.000", NOW, id="a space and milliseconds"),
        pytest.param("2026-05-04T10:00:00.000000000Z", NOW, id="nanoseconds"),
        pytest.param("20260504T100000Z", NOW, id="the basic form"),
        pytest.param("2026-W19-1T10:00Z", NOW, id="a week date"),
        pytest.param("2026-124T10:00Z", NOW, id="a day of the year"),
        pytest.param("2026-05-04", NOW.replace(hour=0), id="a date"),
        pytest.param("2026-05", datetime(2026, 5, 1, tzinfo=UTC), id="a month"),
        pytest.param("2026", datetime(2026, 1, 1, tzinfo=UTC), id="a year"),
        pytest.param(NOW.replace(tzinfo=None), NOW, id="a naive datetime"),
        pytest.param(NOW.astimezone(timezone(timedelta(hours=5))), NOW, id="another zone"),
    ],
)
def test_every_iso_form_is_read(written: object, meant: datetime) -> None:
    assert moment(written) == meant
    assert moment(written).tzinfo is UTC


@pytest.mark.parametrize(
    "written",
    ["", "yesterday", "2026-13-01", "2026-400", "2026-000", "0001-01-01T00:00+23:00", 5, None],
)
def test_what_is_no_time_is_told_with_an_example(written: object) -> None:
    with pytest.raises(TimeError, match="2026-05-04T10:00:00Z"):
        moment(written)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param({"segment_id": ""}, "segment_id", id="an empty id"),
        pytest.param({"segment_id": "a\x00b"}, "segment_id", id="a control character"),
        pytest.param({"segment_id": "a\ud800"}, "segment_id", id="a lone surrogate"),
        pytest.param({"segment_id": "a" * 1_001}, "segment_id", id="an endless id"),
        pytest.param({"project": 5}, "project", id="a number for a project"),
        pytest.param({"text": b"x"}, "text", id="bytes"),
        pytest.param({"type": "rumour"}, "type", id="an unknown type"),
        pytest.param({"generation": "middle"}, "generation", id="an unknown generation"),
        pytest.param({"pinned": 1}, "pinned", id="a number for a truth"),
        pytest.param({"tokens": -1}, "tokens", id="negative tokens"),
        pytest.param({"refcount": True}, "refcount", id="a truth for a number"),
        pytest.param({"tags": "bug"}, "tags", id="a text for tags"),
        pytest.param({"tags": [""]}, "tags", id="an empty tag"),
        pytest.param({"line_range": [9, 3]}, "line_range", id="lines backwards"),
        pytest.param({"line_range": [1, 2, 3]}, "line_range", id="three lines"),
        pytest.param({"links": ["b", 5]}, "links", id="a number for a link"),
        pytest.param({"links": [{"to": "b", "kind": "likes"}]}, "links", id="an unknown kind"),
        pytest.param({"links": "b"}, "links", id="a text for links"),
        pytest.param({"version": 99}, "version", id="from the future"),
    ],
)
def test_what_no_segment_can_have_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(SegmentError) as told:
        segment_from_dict(segment_to_dict(segment("a")) | fields)
    assert told.value.field == field


@pytest.mark.parametrize("segment_id", ["../../x", "/etc/passwd", "C:\\x", "é 🧵", "a b"])
def test_an_id_is_opaque(segment_id: str) -> None:
    one = segment(segment_id, to=[Link(to=segment_id, kind=LinkKind.DERIVED_FROM)])
    assert segment_from_dict(segment_to_dict(one)) == one


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"change": "exploded", "step": 1}, {"change": "pinned", "step": -1},
     {"change": "pinned", "step": 1}, {"change": "touched", "step": 1, "ids": ["a"]}],
)  # fmt: skip
def test_a_damaged_change_is_told(document: object) -> None:
    with pytest.raises(UsageError):
        change_from_dict(document)


@given(config=configs)
def test_a_configuration_survives_being_written(config: SegmentConfig) -> None:
    assert config_from_dict(json.loads(json.dumps(config_to_dict(config)))) == config
    assert hash(config)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param({"recency_weight": 0.5}, "sum to 1.1, not 1", id="weights"),
        pytest.param({"type_weight": "x"}, "not a number from 0 to 1", id="a text"),
        pytest.param({"floor_share": float("nan")}, "from 0 to 1", id="not a number"),
        pytest.param({"type_importances": {"logs": 1}}, "no such type", id="a type"),
        pytest.param({"type_importances": {"log": 7}}, "type_importances.log", id="an importance"),
        pytest.param({"half_life_steps": 0}, "above 0", id="no half-life"),
        pytest.param({"half_life_hours": -1}, "above 0", id="a negative half-life"),
        pytest.param({"step_batch": 0}, "from 1", id="no batch"),
        pytest.param({"step_looks": 3}, "below step_batch", id="looks below the batch"),
        pytest.param({"references_for_full": 10**9}, "to 100", id="too many classes"),
        pytest.param({"soft_limit_tokens": -5}, "None for unknown", id="a negative limit"),
        pytest.param(
            {"soft_limit_tokens": 9, "hard_limit_tokens": 5}, "target <= soft <= hard", id="limits"
        ),
        pytest.param({"goal_tags": "goal"}, "a list of tags", id="a text for tags"),
        pytest.param({"soft_limit": 5}, "did you mean 'soft_limit_tokens'", id="a near key"),
    ],
)
def test_a_wrong_setting_says_what_would_be_right(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SegmentConfigError, match=told):
        SegmentConfig().changed(**changes)


def test_everything_wrong_is_told_at_once() -> None:
    with pytest.raises(SegmentConfigError) as told:
        SegmentConfig(step_batch=0, half_life_steps=0, type_weight=2)
    assert [key for key, _ in told.value.problems] == [
        "type_weight",
        "step_batch",
        "half_life_steps",
    ]


def test_a_type_keeps_its_importance_where_none_is_given() -> None:
    config = SegmentConfig(type_importances={"log": 0.5})
    assert (config.type_importances["log"], config.type_importances["decision"]) == (0.5, 1.0)


def test_limits_as_shares_of_a_window() -> None:
    config = SegmentConfig().for_window(1_000)
    assert (config.target_tokens, config.soft_limit_tokens, config.hard_limit_tokens) == (
        600,
        700,
        900,
    )
    assert config.goal_tokens == 600
