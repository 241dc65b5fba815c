"""`GCConfig` against the specification, the environment and bad values."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.errors import UsageError
from jaato.gc.config import GCConfig
from jaato.gc.options import CONFIG_KEYS, OPTIONS
from jaato.gc.problems import ConfigError

VARIABLES = ("JAATO_GC_THRESHOLD", "JAATO_GC_TARGET", "JAATO_GC_PRESSURE")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def wrong_keys(**values: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        GCConfig(**values)
    return [problem.key for problem in caught.value.problems]


def test_the_fields_and_defaults_are_the_specified_ones() -> None:
    assert dataclasses.asdict(GCConfig()) == {
        # seed 002, section 3, in its order
        "threshold_percent": 80.0,
        "target_percent": 60.0,
        "pressure_percent": 90.0,
        "max_turns": None,
        "auto_trigger": True,
        "check_before_send": True,
        "preserve_recent_turns": 5,
        "pinned_turn_indices": [],
        "plugin_config": {},
        # ours
        "preserve_recent_steps": 8,
        "min_free_percent": 0.0,
        "stash": "required",
        "stub_content": "lines",
    }
    assert [one.name for one in dataclasses.fields(GCConfig)] == list(
        dataclasses.asdict(GCConfig())
    )


def test_the_fields_and_the_table_agree() -> None:
    config = GCConfig()
    assert {one.name for one in dataclasses.fields(config)} == CONFIG_KEYS
    for key in CONFIG_KEYS:
        assert getattr(config, key) == OPTIONS[key].default, key


def test_defaults_look_like_plain_floats() -> None:
    config = GCConfig()
    assert repr(config).startswith("GCConfig(threshold_percent=80.0, target_percent=60.0, ")
    assert json.dumps(config.target_percent) == "60.0"
    assert config == GCConfig(threshold_percent=80.0, target_percent=60.0, pressure_percent=90.0)


@pytest.mark.parametrize(
    "duplicate",
    [
        pytest.param(copy.copy, id="copied"),
        pytest.param(copy.deepcopy, id="deeply copied"),
        pytest.param(lambda config: pickle.loads(pickle.dumps(config)), id="pickled"),  # noqa: S301 -- our own bytes
        pytest.param(dataclasses.replace, id="replaced"),
    ],
)
def test_a_copy_still_knows_what_was_explicit(duplicate: Any) -> None:
    again = duplicate(GCConfig())
    assert again == GCConfig()
    assert dataclasses.replace(again, threshold_percent=40.0).target_percent == 30.0


def test_two_configurations_share_no_list() -> None:
    GCConfig().pinned_turn_indices.append(3)
    assert GCConfig().pinned_turn_indices == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"threshold_percent": 75.0}, (75.0, 60.0), id="a threshold above the default"),
        pytest.param(
            {"threshold_percent": 5.0}, (5.0, 3.75), id="a target follows a low threshold"
        ),
        pytest.param(
            {"threshold_percent": 60}, (60, 45.0), id="a target follows one at its height"
        ),
        pytest.param({"threshold_percent": 0}, (0, 0.0), id="a threshold of nothing"),
        pytest.param(
            {"threshold_percent": 5.0, "target_percent": 5.0}, (5.0, 5.0), id="both, equal"
        ),
        pytest.param({"target_percent": 90.0}, (80.0, 90.0), id="an explicit target stays"),
        pytest.param(
            {"threshold_percent": 5.0, "pressure_percent": 0}, (5.0, 60.0), id="continuous mode"
        ),
        pytest.param(
            {"threshold_percent": 50, "target_percent": 60, "pressure_percent": None},
            (50, 60),
            id="continuous mode ignores the threshold",
        ),
    ],
)
def test_threshold_and_target(values: dict[str, Any], expected: tuple[float, float]) -> None:
    config = GCConfig(**values)
    assert (config.threshold_percent, config.target_percent) == expected
    assert config.problems() == ()


@pytest.mark.parametrize(
    ("pressure", "continuous"),
    [
        pytest.param(90.0, False, id="above zero"),
        pytest.param(0, True, id="zero"),
        pytest.param(0.0, True, id="zero as a float"),
        pytest.param(None, True, id="None"),
    ],
)
def test_pressure_decides_the_mode(pressure: float | None, continuous: bool) -> None:
    assert GCConfig(pressure_percent=pressure).continuous_mode is continuous
    assert not GCConfig().continuous_mode


@pytest.mark.parametrize(
    ("environment", "values", "expected"),
    [
        pytest.param({}, {}, (80.0, 60.0, 90.0), id="defaults"),
        pytest.param({"JAATO_GC_THRESHOLD": "70"}, {}, (70.0, 60.0, 90.0), id="a threshold"),
        pytest.param({"JAATO_GC_TARGET": "50.5"}, {}, (80.0, 50.5, 90.0), id="a target"),
        pytest.param({"JAATO_GC_PRESSURE": "0"}, {}, (80.0, 60.0, 0.0), id="continuous mode"),
        pytest.param({"JAATO_GC_TARGET": "  "}, {}, (80.0, 60.0, 90.0), id="blank is unset"),
        pytest.param(
            {"JAATO_GC_THRESHOLD": "70", "JAATO_GC_TARGET": "40", "JAATO_GC_PRESSURE": "95"},
            {"threshold_percent": 75.0, "target_percent": 55.0, "pressure_percent": 91.0},
            (75.0, 55.0, 91.0),
            id="explicit values win",
        ),
        pytest.param(
            {"JAATO_GC_TARGET": "70"},
            {"threshold_percent": 40},
            (40, 30.0, 90.0),
            id="a target from outside follows",
        ),
        pytest.param(
            {"JAATO_GC_THRESHOLD": "40"},
            {},
            (40.0, 30.0, 90.0),
            id="the default target follows a threshold from outside",
        ),
        pytest.param(
            {"JAATO_GC_THRESHOLD": "40"},
            {"target_percent": 50},
            (40.0, 50, 90.0),
            id="an explicit target does not",
        ),
        pytest.param(
            {"JAATO_GC_TARGET": "junk"},
            {"target_percent": 50},
            (80.0, 50, 90.0),
            id="what is not asked for is not read",
        ),
    ],
)
def test_explicit_wins_over_environment_wins_over_default(
    environment: dict[str, str],
    values: dict[str, Any],
    expected: tuple[float, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    config = GCConfig(**values)
    assert (config.threshold_percent, config.target_percent, config.pressure_percent) == expected


@pytest.mark.parametrize("text", ["junk", "80%", "nan", "inf", "-1", "100.1", "1e9", "0x10"])
@pytest.mark.parametrize("name", VARIABLES)
def test_a_broken_variable_is_named(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ConfigError, match=name) as caught:
        GCConfig()
    (problem,) = caught.value.problems
    assert problem.where == f"environment variable {name}"
    assert problem.value == text


BAD_VALUES = [
    pytest.param({"threshold_percent": math.nan}, id="NaN"),
    pytest.param({"target_percent": math.inf}, id="infinite"),
    pytest.param({"pressure_percent": -math.inf}, id="minus infinite"),
    pytest.param({"threshold_percent": -0.1}, id="negative"),
    pytest.param({"target_percent": 100.5}, id="above a hundred"),
    pytest.param({"threshold_percent": 10**5000}, id="too long to print"),
    pytest.param({"threshold_percent": True}, id="a truth for a percentage"),
    pytest.param({"threshold_percent": "80"}, id="a text for a percentage"),
    pytest.param({"threshold_percent": None}, id="None for a threshold"),
    pytest.param({"target_percent": None}, id="None for a target"),
    pytest.param({"max_turns": -1}, id="a negative limit"),
    pytest.param({"max_turns": 5.0}, id="a float for a count"),
    pytest.param({"max_turns": True}, id="a truth for a count"),
    pytest.param({"auto_trigger": 1}, id="a number for a truth"),
    pytest.param({"check_before_send": "false"}, id="a text for a truth"),
    pytest.param({"preserve_recent_turns": -5}, id="negative recent turns"),
    pytest.param({"preserve_recent_turns": None}, id="None for recent turns"),
    pytest.param({"preserve_recent_steps": "8"}, id="a text for a count"),
    pytest.param({"pinned_turn_indices": [-1]}, id="a negative pin"),
    pytest.param({"pinned_turn_indices": ["1"]}, id="a pin in quotes"),
    pytest.param({"pinned_turn_indices": 3}, id="a bare pin"),
    pytest.param({"plugin_config": [1]}, id="a list for an object"),
    pytest.param({"plugin_config": {1: 2}}, id="an object with odd keys"),
    pytest.param({"min_free_percent": -1}, id="a negative minimum"),
]


@pytest.mark.parametrize("values", BAD_VALUES)
def test_a_bad_value_is_refused(values: dict[str, Any]) -> None:
    assert wrong_keys(**values) == list(values)


@pytest.mark.parametrize("values", BAD_VALUES)
def test_a_bad_value_that_is_assigned_later_is_a_problem(values: dict[str, Any]) -> None:
    config = GCConfig()
    for key, value in values.items():
        setattr(config, key, value)
    assert [problem.key for problem in config.problems()] == list(values)
    assert config.overlaid({"preserve_recent_turns": "x"}).problems()
    assert [problem.key for problem in config.overlaid({}).problems()] == list(values)


def test_every_problem_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAATO_GC_PRESSURE", "high")
    with pytest.raises(UsageError) as caught:
        GCConfig(threshold_percent=math.nan, target_percent=-1, max_turns=-2, auto_trigger=1)  # type: ignore[arg-type]
    lines = str(caught.value).splitlines()
    told = ("nan", "-1", "JAATO_GC_PRESSURE", "-2", "auto_trigger")
    assert len(lines) == len(told)
    assert all(text in line for text, line in zip(told, lines, strict=True))


def test_an_explicit_target_above_an_explicit_threshold_is_refused() -> None:
    assert wrong_keys(threshold_percent=50, target_percent=60) == ["target_percent"]


@pytest.mark.parametrize(
    ("made", "assigned", "problems"),
    [
        pytest.param({}, {"target_percent": 99}, 1, id="a target above the threshold"),
        pytest.param({}, {"target_percent": 70}, 0, id="a target below it"),
        pytest.param(
            {"target_percent": 90}, {"target_percent": 95}, 1, id="an odd pair made odder"
        ),
        pytest.param({"target_percent": 90}, {"max_turns": 3}, 0, id="an odd pair left alone"),
        pytest.param({}, {"target_percent": 99, "pressure_percent": 0}, 0, id="continuous mode"),
        pytest.param({}, {"threshold_percent": 5}, 0, id="a threshold that the target will follow"),
        pytest.param(
            {"target_percent": 50}, {"threshold_percent": 5}, 1, id="a threshold below it"
        ),
    ],
)
def test_assigning_is_writing_down(
    made: dict[str, Any], assigned: dict[str, Any], problems: int
) -> None:
    config = GCConfig(**made)
    for key, value in assigned.items():
        setattr(config, key, value)
    assert len(config.problems()) == problems


@pytest.mark.parametrize("threshold", [0.0, 5.0, 80.0])
def test_a_configuration_that_nothing_overrides_is_the_same_object(threshold: float) -> None:
    config = GCConfig(threshold_percent=threshold)
    assert config.overlaid({}) is config
    assert config.overlaid({"notify_on_gc": True, "preserve_recent_turns": None}) is config


@pytest.mark.parametrize(
    ("made", "options", "expected"),
    [
        pytest.param(
            {"preserve_recent_turns": 2},
            {"preserve_recent_turns": 10},
            {"preserve_recent_turns": 10},
            id="an option wins",
        ),
        pytest.param({}, {"pressure_percent": 0}, {"continuous_mode": True}, id="continuous mode"),
        pytest.param(
            {},
            {"pressure_percent": None},
            {"continuous_mode": True},
            id="None is continuous mode too",
        ),
        pytest.param(
            {"pressure_percent": None},
            {"pressure_percent": 90.0},
            {"continuous_mode": False},
            id="out of continuous mode",
        ),
        pytest.param(
            {"max_turns": 7}, {"max_turns": None}, {"max_turns": 7}, id="another None was not given"
        ),
        pytest.param(
            {}, {"threshold_percent": 40}, {"target_percent": 30.0}, id="the target follows"
        ),
        pytest.param(
            {"target_percent": 55},
            {"threshold_percent": 70},
            {"target_percent": 55},
            id="an explicit target does not",
        ),
        pytest.param(
            {"threshold_percent": 5},
            {"pressure_percent": 0},
            {"target_percent": 3.75},
            id="a target that followed before",
        ),
        pytest.param(
            {"pinned_turn_indices": [7]},
            {"pinned_turn_indices": [1]},
            {"pinned_turn_indices": [1, 7]},
            id="pins add up",
        ),
    ],
)
def test_a_plug_ins_options_are_laid_over(
    made: dict[str, Any], options: dict[str, Any], expected: dict[str, Any]
) -> None:
    config = GCConfig(**made)
    before = copy.deepcopy(config)
    laid = config.overlaid(options)
    assert {key: getattr(laid, key) for key in expected} == expected
    assert laid.problems() == ()
    assert config == before


def test_a_target_follows_a_threshold_that_was_assigned() -> None:
    config = GCConfig()
    config.threshold_percent = 8.0
    assert config.overlaid({}).target_percent == 6.0


def test_laying_over_never_hides_a_problem() -> None:
    config = GCConfig()
    config.target_percent = 99
    assert config.overlaid({"preserve_recent_turns": 3}).problems()
    assert GCConfig(threshold_percent=75).overlaid({"target_percent": 90}).problems()


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())
)


@given(st.dictionaries(st.sampled_from(sorted(CONFIG_KEYS)), ANYTHING))
def test_any_values_make_a_sound_configuration_or_a_config_error(values: dict[str, Any]) -> None:
    try:
        config = GCConfig(**values)
    except ConfigError as error:
        named = {problem.key for problem in error.problems}
    else:
        named = set()
        assert config.problems() == ()
        assert (
            config.continuous_mode
            or "target_percent" in values
            or (config.target_percent <= config.threshold_percent)
        )
    assert named <= values.keys()


@given(
    st.dictionaries(st.sampled_from(sorted(CONFIG_KEYS)), ANYTHING),
    st.dictionaries(st.sampled_from([*sorted(CONFIG_KEYS), "notify_on_gc"]), ANYTHING),
)
def test_laying_anything_over_anything_never_raises(
    assigned: dict[str, Any], options: dict[str, Any]
) -> None:
    config = GCConfig()
    for key, value in assigned.items():
        setattr(config, key, value)
    config.overlaid(options).problems()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        pytest.param({}, "", id="the defaults are fine"),
        pytest.param({"threshold_percent": 75.0}, "", id="fifteen points are enough"),
        pytest.param({"threshold_percent": 74.0}, "14 points apart", id="fourteen are not"),
        pytest.param({"threshold_percent": 5.0}, "1.25 points apart", id="a low threshold"),
        pytest.param({"target_percent": 85}, "frees nothing", id="a target above the threshold"),
        pytest.param({"pressure_percent": 0}, "continuous mode", id="continuous mode"),
    ],
)
def test_advice(values: dict[str, Any], told: str) -> None:
    advice = GCConfig(**values).advice()
    assert len(advice) == bool(told)
    assert told in "".join(advice)
