"""From a `gc.json` to a plug-in that is ready."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from jaato.errors import JaatoError
from jaato.gc.config import GCConfig
from jaato.gc.problems import ConfigError
from jaato.gc.registry import BrokenPluginError, UnknownStrategyError
from jaato.wiring import load_gc_from_file

Written = Callable[[object], Path]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAATO_GC_THRESHOLD", "JAATO_GC_TARGET", "JAATO_GC_PRESSURE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes a settings file."""

    def write(content: object) -> Path:
        path = tmp_path / "gc.json"
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def options_of(plugin: object) -> object:
    return vars(plugin)["_options"]


@pytest.mark.parametrize("name", ["truncate", "summarize", "hybrid", "budget"])
@pytest.mark.parametrize("prefix", ["", "gc_"])
@pytest.mark.parametrize("key", ["type", "plugin"])
def test_every_strategy_by_every_name(written: Written, name: str, prefix: str, key: str) -> None:
    loaded = load_gc_from_file(written({key: prefix + name}), strict=True)
    assert loaded is not None
    plugin, config = loaded
    assert (plugin.name, config) == (f"gc_{name}", GCConfig())
    assert options_of(plugin) == {"notify_on_gc": True}


def test_each_value_reaches_its_place(written: Written) -> None:
    loaded = load_gc_from_file(
        written(
            {
                "type": "hybrid",
                "threshold_percent": 70,
                "max_turns": 40,
                "pinned_turn_indices": [0],
                "notify_on_gc": False,
                "summarizer": "extractive",
                "plugin_config": {"summarize_middle_turns": 3},
            }
        ),
        strict=True,
    )
    assert loaded is not None
    plugin, config = loaded
    assert (config.threshold_percent, config.max_turns) == (70, 40)
    assert config.pinned_turn_indices == [0]
    assert options_of(plugin) == {
        "notify_on_gc": False,
        "summarizer": "extractive",
        "summarize_middle_turns": 3,
    }


@pytest.mark.parametrize("make", [str, Path], ids=["a text", "a path"])
def test_the_path_may_be(written: Written, make: Callable[[Path], str | Path]) -> None:
    assert load_gc_from_file(make(written({"type": "budget"}))) is not None


def test_the_default_is_relative_to_where_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_gc_from_file() is None
    (tmp_path / ".jaato").mkdir()
    (tmp_path / ".jaato" / "gc.json").write_text('{"type": "budget"}', encoding="utf-8")
    assert load_gc_from_file() is not None
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_gc_from_file() is None


@pytest.mark.parametrize("strict", [False, True])
def test_no_file_is_no_error(
    tmp_path: Path, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert load_gc_from_file(tmp_path / "none.json", strict=strict) is None
    assert caplog.text == ""


BROKEN = [
    pytest.param("{", ConfigError, "not JSON", id="not JSON"),
    pytest.param("[]", ConfigError, "not an object", id="not an object"),
    pytest.param({"tpye": "budget"}, ConfigError, "'type'", id="a mistyped key"),
    pytest.param(
        {"threshold_percent": "80", "max_turn": 3}, ConfigError, "max_turn", id="two at once"
    ),
    pytest.param({"type": "hybird"}, ConfigError, "'hybrid'", id="a mistyped strategy"),
    pytest.param(
        {"type": "acme_forgetful"}, UnknownStrategyError, "jaato strategies", id="an unknown one"
    ),
    pytest.param(
        {"type": "hybird", "treshold_percent": 5},
        ConfigError,
        "'threshold_percent'",
        id="a mistyped strategy hides no other mistake",
    ),
    pytest.param(
        {"type": "truncate", "notification_template": "{gone}"},
        ConfigError,
        "placeholder",
        id="an unknown placeholder",
    ),
]


@pytest.mark.parametrize(("content", "kind", "said"), BROKEN)
def test_a_broken_file_is_logged_once(
    written: Written,
    caplog: pytest.LogCaptureFixture,
    content: object,
    kind: type[JaatoError],
    said: str,
) -> None:
    path = written(content)
    assert load_gc_from_file(path) is None
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("jaato.wiring", "ERROR")
    assert record.getMessage().startswith(f"{path} is not used: ")
    assert said in record.getMessage()
    assert record.exc_info is None


@pytest.mark.parametrize(("content", "kind", "said"), BROKEN)
def test_a_broken_file_raises_where_asked_to(
    written: Written, content: object, kind: type[JaatoError], said: str
) -> None:
    with pytest.raises(kind, match=said) as caught:
        load_gc_from_file(written(content), strict=True)
    assert caught.type is kind


def test_a_directory_in_its_place_is_broken(tmp_path: Path) -> None:
    assert load_gc_from_file(tmp_path) is None
    with pytest.raises(ConfigError, match="cannot be read"):
        load_gc_from_file(tmp_path, strict=True)


def test_a_broken_plug_in_is_a_broken_file(
    written: Written, install: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    install(
        modules={"acme": "def create_plugin(): raise OSError('no licence')"},
        plugins={"gc_acme": "acme:create_plugin"},
    )
    path = written({"type": "gc_acme"})
    assert load_gc_from_file(path) is None
    assert "no licence" in caplog.text
    with pytest.raises(BrokenPluginError, match="no licence"):
        load_gc_from_file(path, strict=True)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param({"type": "budget"}, None, id="nothing to say"),
        pytest.param({"type": "budget", "target_percent": 75}, "5 points apart", id="a small gap"),
        pytest.param(
            {"type": "budget", "pressure_percent": 0}, "continuous mode", id="continuous mode"
        ),
        pytest.param(
            {"type": "truncate", "summarize_middle_turns": 3}, "no effect", id="an idle key"
        ),
    ],
)
def test_what_costs_more_than_it_saves_is_told(
    written: Written, caplog: pytest.LogCaptureFixture, content: object, told: str | None
) -> None:
    with caplog.at_level(logging.WARNING):
        assert load_gc_from_file(written(content), strict=True) is not None
    assert len(caplog.records) == (told is not None)
    assert (told or "") in caplog.text
