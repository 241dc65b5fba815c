"""Profiles of subagents: the specification's as printed, broken ones, and odd directories."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.gc.config import GCConfig
from jaato.gc.options import OPTIONS
from jaato.gc.problems import ConfigError
from jaato.settings import GCProfileConfig, SubagentProfile, discover_profiles

# Seed 003, "Profile-Based Configuration".
MY_SUBAGENT = """\
{
  "name": "my-subagent",
  "description": "A specialized subagent",
  "plugins": ["cli", "file_edit"],
  "gc": {
    "type": "hybrid",
    "threshold_percent": 80.0,
    "preserve_recent_turns": 5,
    "notify_on_gc": true,
    "summarize_middle_turns": 10
  }
}
"""
# Seed 000, part 10, "Subagent GC Profiles".
RESEARCH = """\
{
  "name": "research",
  "model": "gemini-2.5-flash",
  "gc": {
    "type": "gc_budget",
    "threshold_percent": 75.0,
    "target_percent": 50.0,
    "pressure_percent": 0,
    "preserve_recent_turns": 3
  }
}
"""


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAATO_GC_THRESHOLD", "JAATO_GC_TARGET", "JAATO_GC_PRESSURE"):
        monkeypatch.delenv(name, raising=False)


def write(folder: Path, **files: object) -> Path:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text)
    return folder


def test_the_fields_and_defaults_of_a_gc_profile() -> None:
    assert dataclasses.asdict(GCProfileConfig()) == {
        # seed 003, "Available inline_config.gc options", and seed 000, part 10
        "type": "truncate",
        "threshold_percent": 80.0,
        "target_percent": None,
        "pressure_percent": None,
        "preserve_recent_turns": 5,
        "notify_on_gc": True,
        "summarize_middle_turns": None,
        "max_turns": None,
        "plugin_config": {},
    }


def test_an_empty_gc_object_is_the_default() -> None:
    profile = GCProfileConfig.from_dict({})
    assert profile == GCProfileConfig()
    assert profile.to_gc_config() == GCConfig()
    assert profile.plugin_options() == {"notify_on_gc": True}


@pytest.mark.parametrize(
    ("data", "fields", "config", "options"),
    [
        pytest.param(
            {"type": "truncate", "threshold_percent": 5.0, "preserve_recent_turns": 3},
            {"type": "truncate", "threshold_percent": 5.0, "preserve_recent_turns": 3},
            {"threshold_percent": 5.0, "target_percent": 3.75, "preserve_recent_turns": 3},
            {"notify_on_gc": True},
            id="the inline object of seed 003",
        ),
        pytest.param(
            {"pressure_percent": None},
            {"pressure_percent": 0.0},
            {"continuous_mode": True},
            {"notify_on_gc": True},
            id="null pressure is continuous mode",
        ),
        pytest.param(
            {"type": "hybrid", "max_turns": None, "summarize_middle_turns": None},
            {"max_turns": None, "summarize_middle_turns": None},
            {"max_turns": None, "continuous_mode": False},
            {"notify_on_gc": True},
            id="another null was not given",
        ),
        pytest.param(
            {"plugin": "gc_budget", "config": {"target_percent": 40, "notify_on_gc": False}},
            {"type": "gc_budget", "target_percent": 40, "notify_on_gc": False},
            {"target_percent": 40},
            {"notify_on_gc": False},
            id="the second schema",
        ),
        pytest.param(
            {"min_free_percent": 5, "auto_trigger": False, "notification_template": "{kept}"},
            {
                "plugin_config": {
                    "min_free_percent": 5,
                    "auto_trigger": False,
                    "notification_template": "{kept}",
                }
            },
            {"min_free_percent": 5, "auto_trigger": False},
            {"notify_on_gc": True, "notification_template": "{kept}"},
            id="keys without a field are kept",
        ),
        pytest.param(
            {
                "notify_on_gc": True,
                "plugin_config": {"notify_on_gc": False, "preserve_recent_turns": 1},
            },
            {"notify_on_gc": True, "preserve_recent_turns": 5},
            {"preserve_recent_turns": 1},
            {"notify_on_gc": False},
            id="plugin_config wins",
        ),
        pytest.param(
            {"type": "gc_custom", "colour": "red"},
            {"type": "gc_custom", "plugin_config": {"colour": "red"}},
            {},
            {"notify_on_gc": True, "colour": "red"},
            id="somebody else's options",
        ),
    ],
)
def test_from_dict(
    data: dict[str, Any], fields: dict[str, Any], config: dict[str, Any], options: dict[str, Any]
) -> None:
    profile = GCProfileConfig.from_dict(data)
    assert {key: getattr(profile, key) for key in fields} == fields
    made = profile.to_gc_config()
    assert {key: getattr(made, key) for key in config} == config
    assert profile.plugin_options() == options


def test_absent_keys_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "70")
    monkeypatch.setenv("JAATO_GC_TARGET", "30")
    monkeypatch.setenv("JAATO_GC_PRESSURE", "0")
    config = GCProfileConfig.from_dict({"target_percent": 40}).to_gc_config()
    assert (config.threshold_percent, config.target_percent, config.pressure_percent) == (70, 40, 0)


def test_a_broken_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "lots")
    with pytest.raises(ConfigError, match="JAATO_GC_THRESHOLD"):
        GCProfileConfig.from_dict({})
    with pytest.raises(ConfigError, match="JAATO_GC_THRESHOLD"):
        GCProfileConfig().to_gc_config()
    assert GCProfileConfig(threshold_percent=70).to_gc_config().threshold_percent == 70


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        pytest.param(
            {"treshold_percent": 1, "max_turns": "3"},
            ["treshold_percent", "max_turns"],
            id="all at once",
        ),
        pytest.param({"type": "hybrid", "plugin": "budget"}, ["plugin"], id="two strategies"),
        pytest.param([], [""], id="not an object"),
    ],
)
def test_from_dict_refuses(data: Any, keys: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        GCProfileConfig.from_dict(data)
    assert [problem.key for problem in caught.value.problems] == keys


@pytest.mark.parametrize(
    "values",
    [{"threshold_percent": -1}, {"target_percent": 90}, {"type": 3}, {"plugin_config": {"x": 1}}],
    ids=str,
)
def test_a_gc_profile_filled_with_nonsense_makes_no_configuration(values: dict[str, Any]) -> None:
    # A target alone is odd only; with a threshold that somebody wrote it is wrong.
    profile = GCProfileConfig(**{"threshold_percent": 80.0, **values})
    with pytest.raises(ConfigError, match="GCProfileConfig"):
        profile.to_gc_config()


def test_the_profiles_of_the_seeds(tmp_path: Path) -> None:
    profiles = discover_profiles(write(tmp_path, b_first=MY_SUBAGENT, c_second=RESEARCH))
    assert list(profiles) == ["my-subagent", "research"]
    first, second = profiles.values()
    assert first == SubagentProfile(
        name="my-subagent",
        description="A specialized subagent",
        plugins=["cli", "file_edit"],
        gc=GCProfileConfig(type="hybrid", summarize_middle_turns=10),
    )
    assert second.model == "gemini-2.5-flash"
    assert second.gc is not None
    config = second.gc.to_gc_config()
    assert (config.threshold_percent, config.target_percent) == (75.0, 50.0)
    assert config.continuous_mode
    assert config.preserve_recent_turns == 3


def test_every_field_of_a_profile(tmp_path: Path) -> None:
    written = {
        "name": "all",
        "description": "Everything",
        "plugins": ["cli"],
        "plugin_configs": {"cli": {"timeout": 3}},
        "system_instructions": "Be brief.",
        "model": "m",
        "provider": "p",
        "max_turns": 7,
        "auto_approved": True,
        "icon": ["/\\", "\\/"],
    }
    (profile,) = discover_profiles(write(tmp_path, x={**written, "gc": None})).values()
    assert dataclasses.asdict(profile) == {**written, "gc": None}
    assert [one.name for one in dataclasses.fields(profile)] == [*written, "gc"]


def test_a_name_is_only_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    write(folder, a={"name": "../../etc/passwd"}, b={}, c={"name": None})
    (tmp_path / "passwd.json").write_text("{}")
    assert list(discover_profiles(folder)) == ["../../etc/passwd", "b", "c"]


def test_a_relative_directory_is_below_the_base_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".jaato" / "profiles"
    folder.mkdir(parents=True)
    write(folder, a={})
    assert list(discover_profiles(".jaato/profiles", str(tmp_path))) == ["a"]
    assert list(discover_profiles(folder, tmp_path / "elsewhere")) == ["a"]
    monkeypatch.chdir(tmp_path)
    assert list(discover_profiles(".jaato/profiles")) == ["a"]


def test_what_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / ".a.json").write_text("an editor's")
    assert discover_profiles(tmp_path, strict=True) == {}
    assert discover_profiles(tmp_path / "missing", strict=True) == {}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param("{", "not JSON", id="not JSON"),
        pytest.param("[]", "not an object", id="not an object"),
        pytest.param({"nmae": "x"}, "did you mean 'name'?", id="an unknown key"),
        pytest.param({"name": ""}, "name: '' is not a name", id="an empty name"),
        pytest.param({"name": 3}, "name: 3 is not a name", id="a number for a name"),
        pytest.param({"plugins": "cli"}, "plugins: 'cli' is not a list", id="a bare plug-in"),
        pytest.param({"plugins": [1]}, "plugins", id="a list of numbers"),
        pytest.param(
            {"plugin_configs": {"cli": 1}}, "plugin_configs", id="options that are no object"
        ),
        pytest.param({"max_turns": 0}, "max_turns: 0 is not", id="no turns"),
        pytest.param({"max_turns": True}, "max_turns", id="a truth for a count"),
        pytest.param({"auto_approved": "yes"}, "auto_approved", id="a text for a truth"),
        pytest.param({"icon": 3}, "icon", id="a number for an icon"),
        pytest.param({"description": 3}, "description", id="a number for a description"),
        pytest.param({"gc": []}, "gc: [] is not an object", id="a list for gc"),
        pytest.param({"gc": {"typ": "x"}}, "gc.typ: no such key", id="an unknown key of gc"),
        pytest.param(
            {"gc": {"config": {"max_turns": -1}}}, "gc.config.max_turns", id="a bad value of gc"
        ),
        pytest.param(
            {"gc": {"threshold_percent": 5, "target_percent": 6}}, "gc.target_percent", id="no gap"
        ),
        pytest.param('{"name": "x", "name": "y"}', "written twice", id="a key twice"),
    ],
)
def test_a_broken_profile_is_left_out_with_its_reason(
    content: object, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, broken=content, sound={})
    with caplog.at_level(logging.WARNING, "jaato.settings"):
        assert list(discover_profiles(tmp_path)) == ["sound"]
    (message,) = caplog.messages
    assert told in message
    assert "broken.json" in message
    with pytest.raises(ConfigError) as caught:
        discover_profiles(tmp_path, strict=True)
    assert told in str(caught.value)


def test_strict_tells_the_reasons_of_all(tmp_path: Path) -> None:
    write(tmp_path, a={"x": 1, "name": 3, "gc": {"y": 2}}, b="{", c={"name": "d"}, d={})
    (tmp_path / "e.json").mkdir()
    with pytest.raises(ConfigError) as caught:
        discover_profiles(tmp_path, strict=True)
    assert [(Path(one.where).stem, one.key) for one in caught.value.problems] == [
        ("a", "x"),
        ("a", "name"),
        ("a", "gc.y"),
        ("b", ""),
        ("d", "name"),
        ("e", ""),
    ]


def test_the_first_of_two_with_one_name_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, a={"name": "x", "description": "first"}, b={"name": "x"})
    profiles = discover_profiles(tmp_path)
    assert profiles["x"].description == "first"
    assert "b.json: name: another file already has a profile named 'x'" in caplog.text


def test_a_profile_that_is_gone_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="there is no file"):
        discover_profiles(tmp_path, strict=True)


@pytest.mark.parametrize("name", ["file", "a\0b"], ids=["a file", "a path that cannot be"])
def test_a_directory_that_is_none(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert discover_profiles(tmp_path / name) == {}
    with pytest.raises(ConfigError, match="cannot be read"):
        discover_profiles(tmp_path / name, strict=True)


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


@given(st.dictionaries(st.sampled_from(sorted(OPTIONS)), JSON))
def test_any_object_gives_a_gc_profile_or_a_config_error(data: dict[str, Any]) -> None:
    try:
        profile = GCProfileConfig.from_dict(data)
    except ConfigError:
        return
    assert profile.to_gc_config().problems() == ()
    profile.plugin_options()
