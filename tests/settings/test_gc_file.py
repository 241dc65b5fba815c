"""`gc.json`: the files of the specification as printed, every rule, and anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jaato.errors import UsageError
from jaato.gc.config import GCConfig
from jaato.gc.options import CONFIG_KEYS, OPTIONS
from jaato.gc.problems import ConfigError
from jaato.settings import DEFAULT_PATH, GCSettings, MissingFileError, load_gc_settings
from jaato.settings.gc_file import read_sections
from jaato.settings.problems import parse_document

# Seed 003, "File-Based Configuration".
FLAT = """\
{
  "type": "hybrid",
  "threshold_percent": 80.0,
  "preserve_recent_turns": 5,
  "notify_on_gc": true,
  "summarize_middle_turns": 10,
  "max_turns": null,
  "plugin_config": {}
}
"""
# Seed 002, "Configuration".
NESTED = """\
{
    "plugin": "gc_budget",
    "config": {
        "preserve_recent_turns": 5,
        "target_percent": 60.0,
        "pressure_percent": 90.0,
        "notify_on_gc": true
    }
}
"""


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAATO_GC_THRESHOLD", "JAATO_GC_TARGET", "JAATO_GC_PRESSURE"):
        monkeypatch.delenv(name, raising=False)


def read(document: object) -> GCSettings:
    return read_sections(document, where="gc.json").settings()


def problems_of(document: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(document)
    return [problem.key for problem in caught.value.problems]


def test_the_flat_schema_as_printed(tmp_path: Path) -> None:
    path = tmp_path / "gc.json"
    path.write_text(FLAT)
    settings = load_gc_settings(path)
    assert settings.strategy == "gc_hybrid"
    assert settings.config == GCConfig()
    assert settings.options == {"notify_on_gc": True, "summarize_middle_turns": 10}
    assert settings.advice == ()


def test_the_nested_schema_as_printed(tmp_path: Path) -> None:
    path = tmp_path / "gc.json"
    path.write_text(NESTED)
    settings = load_gc_settings(str(path))
    assert settings.strategy == "gc_budget"
    assert settings.config == GCConfig()
    assert settings.options == {"notify_on_gc": True}


def test_the_inline_object_of_seed_003() -> None:
    settings = read({"type": "truncate", "threshold_percent": 5.0, "preserve_recent_turns": 3})
    assert settings.strategy == "gc_truncate"
    assert settings.config.target_percent == 3.75
    assert settings.config.preserve_recent_turns == 3


def test_the_default_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingFileError) as caught:
        load_gc_settings()
    assert caught.value.path == DEFAULT_PATH == Path(".jaato/gc.json")
    DEFAULT_PATH.parent.mkdir()
    DEFAULT_PATH.write_text(FLAT)
    assert load_gc_settings().strategy == "gc_hybrid"


@pytest.mark.parametrize(
    ("document", "strategy"),
    [
        pytest.param({}, "gc_truncate", id="absent"),
        pytest.param({"type": None}, "gc_truncate", id="null"),
        pytest.param({"type": "summarize"}, "gc_summarize", id="short"),
        pytest.param({"type": "gc_summarize"}, "gc_summarize", id="full"),
        pytest.param({"plugin": "budget"}, "gc_budget", id="short, in the other schema"),
        pytest.param({"type": "budget", "plugin": "gc_budget"}, "gc_budget", id="both, the same"),
        pytest.param({"type": "gc_custom", "colour": "red"}, "gc_custom", id="somebody else's"),
    ],
)
def test_the_strategys_name(document: dict[str, Any], strategy: str) -> None:
    assert read(document).strategy == strategy


@pytest.mark.parametrize(
    ("document", "continuous"),
    [
        pytest.param({"type": "budget"}, False, id="absent"),
        pytest.param({"type": "budget", "pressure_percent": 90}, False, id="a number"),
        pytest.param({"type": "budget", "pressure_percent": 0}, True, id="zero"),
        pytest.param({"type": "budget", "pressure_percent": None}, True, id="null"),
        pytest.param({"plugin": "budget", "config": {}}, False, id="absent in config"),
        pytest.param(
            {"plugin": "budget", "config": {"pressure_percent": None}}, True, id="null in config"
        ),
        pytest.param(
            {"pressure_percent": 90, "plugin_config": {"pressure_percent": None}},
            True,
            id="null in plugin_config",
        ),
    ],
)
def test_only_zero_or_null_is_continuous_mode(document: dict[str, Any], continuous: bool) -> None:
    assert read(document).config.continuous_mode is continuous


SAMPLES: dict[str, Any] = {
    "threshold_percent": 85,
    "target_percent": 41.5,
    "pressure_percent": 95,
    "max_turns": 40,
    "auto_trigger": False,
    "check_before_send": False,
    "preserve_recent_turns": 2,
    "pinned_turn_indices": [0, 4],
    "preserve_recent_steps": 3,
    "min_free_percent": 5,
    "stash": "best_effort",
    "stub_content": "plain",
    "notify_on_gc": False,
    "notification_template": "{removed} gone",
    "summarizer": "extractive",
    "summarize_middle_turns": 4,
    "summarize_prompt": "Summarize.",
}


def test_the_samples_cover_the_table() -> None:
    assert SAMPLES.keys() == OPTIONS.keys() - {"plugin_config", "type", "plugin", "config"}


@pytest.mark.parametrize("key", SAMPLES)
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(lambda key, value: {key: value}, id="flat"),
        pytest.param(lambda key, value: {"config": {key: value}}, id="in config"),
        pytest.param(lambda key, value: {"plugin_config": {key: value}}, id="in plugin_config"),
        pytest.param(lambda key, value: {"config": {"plugin_config": {key: value}}}, id="in both"),
        pytest.param(
            lambda key, value: {key: OPTIONS[key].default, "config": {key: value}},
            id="config wins over flat",
        ),
        pytest.param(
            lambda key, value: {
                "config": {key: OPTIONS[key].default},
                "plugin_config": {key: value},
            },
            id="plugin_config wins over config",
        ),
        pytest.param(
            lambda key, value: {key: OPTIONS[key].default, "plugin_config": {key: value}},
            id="plugin_config wins over flat",
        ),
    ],
)
def test_every_key_is_honoured_wherever_it_stands(place: Any, key: str) -> None:
    settings = read({"type": "hybrid", **place(key, SAMPLES[key])})
    if key in CONFIG_KEYS:
        assert getattr(settings.config, key) == SAMPLES[key]
        assert key not in settings.options
    else:
        assert settings.options[key] == SAMPLES[key]


@pytest.mark.parametrize("key", sorted(OPTIONS.keys() - {"pressure_percent"}))
def test_null_is_absent(key: str) -> None:
    assert read({key: None}) == read({})


def test_plugin_config_reaches_the_configuration_as_written() -> None:
    settings = read({"plugin_config": {"notify_on_gc": False}})
    assert settings.config.plugin_config == {"notify_on_gc": False}


def test_the_outer_plugin_config_wins_over_the_inner_one() -> None:
    inner = {"plugin_config": {"summarize_middle_turns": 1, "max_turns": 1}}
    settings = read(
        {
            "type": "hybrid",
            "plugin_config": {"summarize_middle_turns": 2},
            "config": inner,
        }
    )
    assert settings.options["summarize_middle_turns"] == 2
    assert settings.config.max_turns == 1


def test_somebody_elses_options_pass_unchecked() -> None:
    settings = read(
        {
            "type": "gc_custom",
            "colour": "red",
            "threshold_percent": 70,
            "plugin_config": {"depth": [1], "preserve_recent_turns": 2, "notify_on_gc": "loudly"},
        }
    )
    assert settings.options == {
        "notify_on_gc": "loudly",
        "colour": "red",
        "depth": [1],
        "preserve_recent_turns": 2,
    }
    assert (settings.config.threshold_percent, settings.config.preserve_recent_turns) == (70, 2)


@pytest.mark.parametrize(
    ("document", "keys", "told"),
    [
        pytest.param(
            {"treshold_percent": 70},
            ["treshold_percent"],
            "did you mean 'threshold_percent'?",
            id="a typo",
        ),
        pytest.param(
            {"tipe": "hybrid"}, ["tipe"], "did you mean 'type'?", id="a typo of the strategy's key"
        ),
        pytest.param(
            {"config": {"notify": 1}},
            ["config.notify"],
            "did you mean 'notify_on_gc'?",
            id="a typo inside config",
        ),
        pytest.param(
            {"plugin_config": {"type": "x"}},
            ["plugin_config.type"],
            "only at the top",
            id="a top key inside",
        ),
        pytest.param(
            {"config": {"config": {}}}, ["config.config"], "only at the top", id="config in config"
        ),
        pytest.param(
            {"plugin_config": {"plugin_config": {}}},
            ["plugin_config.plugin_config"],
            "no other",
            id="plugin_config in itself",
        ),
        pytest.param(
            {"type": "hybrid", "plugin": "gc_budget"}, ["plugin"], "'hybrid'", id="two strategies"
        ),
        pytest.param({"type": 3}, ["type"], "3 is not a text", id="a number for a strategy"),
        pytest.param({"type": " "}, ["type"], "not a text", id="an empty strategy"),
        pytest.param({"config": 3}, ["config"], "not an object", id="a number for config"),
        pytest.param(
            {"plugin_config": []}, ["plugin_config"], "not an object", id="a list for plugin_config"
        ),
        pytest.param(
            {"threshold_percent": "80"}, ["threshold_percent"], "quotes", id="a number in quotes"
        ),
        pytest.param(
            {"config": {"max_turns": True}}, ["config.max_turns"], "True", id="a truth for a count"
        ),
        pytest.param(
            {"summarizer": "gpt"}, ["summarizer"], "extractive, model", id="an unknown summarizer"
        ),
        pytest.param(
            {"threshold_percent": 50, "target_percent": 60},
            ["target_percent"],
            "above",
            id="no gap",
        ),
        pytest.param(
            {"threshold_percent": 50, "config": {"target_percent": 60}},
            ["target_percent"],
            "above",
            id="no gap, across sections",
        ),
        pytest.param(
            {"type": "gc_custom", "target_percent": -1},
            ["target_percent"],
            "-1",
            id="a known key of somebody else",
        ),
        pytest.param([], [""], "not an object", id="a list"),
        pytest.param(None, [""], "not an object", id="null"),
        pytest.param(
            {
                "typ": 1,
                "max_turns": -1,
                "threshold_percent": 50,
                "target_percent": 60,
                "config": {"x": 1},
            },
            ["typ", "max_turns", "config.x", "target_percent"],
            "config.x",
            id="all at once",
        ),
    ],
)
def test_what_is_refused(document: Any, keys: list[str], told: str) -> None:
    assert problems_of(document) == keys
    with pytest.raises(UsageError) as caught:
        read(document)
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) == len(keys)


def test_a_broken_variable_stands_beside_the_files_problems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAATO_GC_TARGET", "lots")
    with pytest.raises(ConfigError) as caught:
        read({"max_turns": -1})
    assert [problem.where for problem in caught.value.problems] == [
        "gc.json",
        "environment variable JAATO_GC_TARGET",
    ]
    assert read({"target_percent": 50}).config.target_percent == 50


def test_a_file_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "70")
    monkeypatch.setenv("JAATO_GC_PRESSURE", "0")
    config = read({"threshold_percent": 90}).config
    assert (config.threshold_percent, config.continuous_mode) == (90, True)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        pytest.param(
            {"type": "hybrid", "summarize_middle_turns": 3}, [], id="an option that is read"
        ),
        pytest.param(
            {"summarize_middle_turns": 3},
            ["summarize_middle_turns has no effect with gc_truncate"],
            id="one that is not",
        ),
        pytest.param({"summarize_middle_turns": None}, [], id="one that was not given"),
        pytest.param({"type": "custom", "summarize_middle_turns": 3}, [], id="somebody else's"),
    ],
)
def test_an_option_that_the_strategy_does_not_read(document: Any, told: list[str]) -> None:
    assert list(read(document).advice) == told


def test_continuous_mode_where_there_is_none() -> None:
    advice = read({"type": "truncate", "pressure_percent": 0}).advice
    assert advice[-1] == "gc_truncate has no continuous mode: it waits for threshold_percent"


def test_the_configurations_advice_is_passed_on() -> None:
    assert "continuous mode" in read({"type": "budget", "pressure_percent": 0}).advice[0]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.sampled_from(sorted(OPTIONS)), st.text(max_size=5)), inner, max_size=6
        ),
    ),
    max_leaves=12,
)


@given(JSON)
@example(10**30)
def test_any_json_gives_settings_or_a_config_error(document: object) -> None:
    told = ""
    try:
        parsed = parse_document(json.dumps(document).encode(), where="gc.json")
        settings = read_sections(
            parsed.values, where=parsed.where, problems=parsed.problems
        ).settings()
    except ConfigError as error:
        told = str(error)
        problems = len(error.problems)
    else:
        problems = 0
        assert settings.config.problems() == ()
    assert len(told.splitlines()) == problems
    assert all(line.isprintable() for line in told.splitlines())
