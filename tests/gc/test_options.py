"""The table of options, and what its checks say."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.gc.options import (
    OPTIONS,
    PLACEHOLDERS,
    STRATEGIES,
    check_gap,
    check_options,
    check_template,
    check_value,
    full_name,
)
from jaato.gc.problems import ConfigError, Problem


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.key)
def test_every_default_passes_its_own_check(option: Any) -> None:
    if option.default is not None:
        assert check_value(option, option.default, where="") is None
    if option.file_default is not None:
        assert check_value(option, option.file_default, where="") is None
    assert set(option.strategies) <= set(STRATEGIES)


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        pytest.param("budget", "gc_budget", id="short"),
        pytest.param("gc_budget", "gc_budget", id="full"),
        pytest.param("gc_custom", "gc_custom", id="somebody else's"),
        pytest.param("custom", "custom", id="somebody else's, short"),
        pytest.param("gc_gc_budget", "gc_gc_budget", id="twice is another name"),
        pytest.param("", "", id="empty"),
    ],
)
def test_full_name(given_name: str, name: str) -> None:
    assert full_name(given_name) == name


def summarize(conversation: str) -> str:
    return conversation[:9]


@pytest.mark.parametrize("strategy", [*STRATEGIES, "hybrid"])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"preserve_recent_turns": 10, "notify_on_gc": True}, id="seed 003, truncate"),
        pytest.param(
            {"preserve_recent_turns": 10, "summarizer": summarize, "notify_on_gc": True},
            id="seed 003, summarize",
        ),
        pytest.param(
            {"preserve_recent_turns": 5, "summarize_middle_turns": 15, "summarizer": summarize},
            id="seed 003, hybrid",
        ),
        pytest.param(
            {
                "preserve_recent_turns": 5,
                "target_percent": 60.0,
                "pressure_percent": 90.0,
                "notify_on_gc": True,
            },
            id="seed 000, threshold mode",
        ),
        pytest.param(
            {"preserve_recent_turns": 5, "target_percent": 60.0, "pressure_percent": 0},
            id="seed 000, continuous mode",
        ),
        pytest.param({"summarizer": "extractive"}, id="a summarizer by name"),
        pytest.param({"summarizer": "model"}, id="the other summarizer by name"),
        pytest.param({"summarize_prompt": "Summarize."}, id="a prompt"),
        pytest.param(
            dict.fromkeys(["summarize_middle_turns", "summarizer"]), id="None is not given"
        ),
        pytest.param(
            {"target_percent": 90, "threshold_percent": 80, "pressure_percent": None},
            id="continuous mode has no gap",
        ),
    ],
)
def test_good_options(strategy: str, options: dict[str, Any]) -> None:
    assert check_options(strategy, options) == ()


@pytest.mark.parametrize(
    ("options", "key", "told"),
    [
        pytest.param(
            {"notify_on_cg": True}, "notify_on_cg", "did you mean 'notify_on_gc'?", id="a typo"
        ),
        pytest.param({"zzz": 1}, "zzz", "known: auto_trigger, ", id="nothing is near"),
        pytest.param({"type": "hybrid"}, "type", "only at the top of a file", id="a key of files"),
        pytest.param({3: 4}, "3", "must be text", id="a key that is no text"),
        pytest.param(
            {"notify_on_gc": "yes"}, "notify_on_gc", "true or false", id="a text for a truth"
        ),
        pytest.param(
            {"notify_on_gc": 1}, "notify_on_gc", "1 is not true or false", id="a number for a truth"
        ),
        pytest.param(
            {"summarize_middle_turns": -1}, "summarize_middle_turns", "-1", id="a negative count"
        ),
        pytest.param(
            {"summarize_middle_turns": "10"},
            "summarize_middle_turns",
            "quotes",
            id="a count in quotes",
        ),
        pytest.param(
            {"summarizer": "exctractive"},
            "summarizer",
            "did you mean 'extractive'?",
            id="an unknown summarizer",
        ),
        pytest.param(
            {"summarizer": 3},
            "summarizer",
            "known: extractive, model",
            id="a number for a summarizer",
        ),
        pytest.param(
            {"summarize_prompt": " "}, "summarize_prompt", "not a text", id="an empty prompt"
        ),
        pytest.param(
            {"notification_template": "{gone}"},
            "notification_template",
            "{gone}",
            id="an unknown placeholder",
        ),
        pytest.param({"threshold_percent": float("nan")}, "threshold_percent", "nan", id="NaN"),
        pytest.param(
            {"threshold_percent": 50, "target_percent": 60}, "target_percent", "above", id="no gap"
        ),
        pytest.param(
            {"max_turns": "x" * 10**6}, "max_turns", "...", id="a value too long to print"
        ),
        pytest.param({"\ud800\n": 1}, "\ud800\n", r"'\ud800\n'", id="a key that cannot be printed"),
    ],
)
def test_bad_options(options: dict[Any, Any], key: str, told: str) -> None:
    (problem,) = check_options("budget", options)
    assert (problem.where, problem.key) == ("gc_budget", key)
    text = str(problem)
    assert told in text
    assert text.isprintable()
    assert len(text) < 500


def test_all_problems_are_told_at_once() -> None:
    options = {"notify": True, "max_turns": -1, "threshold_percent": 50, "target_percent": 60}
    assert [problem.key for problem in check_options("gc_truncate", options)] == [
        "notify",
        "max_turns",
        "target_percent",
    ]


@pytest.mark.parametrize("options", [None, 3, "x", [("notify_on_gc", True)]], ids=repr)
def test_options_that_are_no_mapping(options: object) -> None:
    (problem,) = check_options("gc_truncate", options, where="here")
    assert str(problem).startswith("here: ")


def test_somebody_elses_options_are_passed_through() -> None:
    options = {"notify_on_gc": "loudly", "colour": "red", "preserve_recent_turns": -1}
    (problem,) = check_options("gc_custom", options)
    assert problem.key == "preserve_recent_turns"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="neither"),
        pytest.param({"target_percent": 99}, id="a target alone"),
        pytest.param({"target_percent": "x", "threshold_percent": 1}, id="a target that is none"),
    ],
)
def test_there_is_no_gap_to_check(values: dict[str, object]) -> None:
    assert check_gap(values, where="") == ()


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("", id="empty"),
        pytest.param("plain", id="no placeholder"),
        pytest.param(" ".join(f"{{{name}}}" for name in PLACEHOLDERS), id="all of them"),
        pytest.param("{{literal}}", id="braces as text"),
        pytest.param("{tokens_freed:,} {removed:>5} {kept:03d}", id="formats"),
    ],
)
def test_good_templates(template: str) -> None:
    assert check_template(template) is None
    assert isinstance(template.format(**dict.fromkeys(PLACEHOLDERS, 1234)), str)


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("{turns}", id="unknown"),
        pytest.param("{}", id="by position"),
        pytest.param("{0}", id="by number"),
        pytest.param("{removed.__class__}", id="an attribute"),
        pytest.param("{removed[0]}", id="an item"),
        pytest.param("{removed!r}", id="a conversion"),
        pytest.param("{removed:.2q}", id="an unknown format"),
        pytest.param("{removed:999999999}", id="a width that fills the memory"),
        pytest.param("{removed:{kept}}", id="a width from a value"),
        pytest.param("{removed", id="an open brace"),
        pytest.param("removed}", id="a closing brace"),
        pytest.param(7, id="not a text"),
    ],
)
def test_bad_templates(template: object) -> None:
    problem = check_template(template)
    assert problem is not None
    assert problem.key == "notification_template"


@given(st.text("{}:!.[]rkemovdpt0,<>d\ud800", max_size=30))
def test_a_template_that_passes_can_be_filled_in(template: str) -> None:
    if check_template(template) is None:
        template.format(**dict.fromkeys(PLACEHOLDERS, 10**6))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.one_of(st.sampled_from(sorted(OPTIONS)), st.text(max_size=5), st.integers())


@given(
    st.sampled_from([*STRATEGIES, "truncate", "custom"]),
    st.one_of(JSON, st.dictionaries(KEYS, JSON)),
)
def test_any_options_give_problems_that_can_be_printed(strategy: str, options: object) -> None:
    for problem in check_options(strategy, options):
        assert isinstance(problem, Problem)
        assert str(problem).isprintable()


def test_an_error_lists_its_problems_one_a_line_and_survives_pickling() -> None:
    problems = (Problem("a.json", "x", 1, "wrong", "so"), Problem("b.json", "", None, "worse"))
    error = pickle.loads(pickle.dumps(ConfigError(problems)))  # noqa: S301 -- our own bytes
    assert error.problems == problems
    assert str(error) == "a.json: x: wrong (so)\nb.json: worse"
