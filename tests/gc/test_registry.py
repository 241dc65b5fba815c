"""Finding plug-ins: the built-ins by the same door as anybody's, and broken ones hurt nobody."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaato.errors import JaatoError, UsageError
from jaato.gc.options import STRATEGIES
from jaato.gc.problems import ConfigError
from jaato.gc.registry import (
    BrokenPluginError,
    Registration,
    UnknownStrategyError,
    discover_gc_plugins,
    installed_strategies,
    load_gc_plugin,
)

Install = Callable[..., Path]

SOUND = '''
"""Does nothing, well."""

class Plugin:
    name = "gc_acme"
    def initialize(self, config=None):
        if config and "worse" in config:
            raise RuntimeError("worse\\nthan bad")
        self.config = config
    def shutdown(self): pass
    def should_collect(self, context_usage, config): return False, None
    def collect(self, history, context_usage, config, reason): raise NotImplementedError

def create_plugin():
    return Plugin()
'''
BROKEN = {
    "import_error": (
        "import acme_is_not_there",
        "ModuleNotFoundError: No module named 'acme_is_not_there'",
    ),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "syntax": ("def (", "SyntaxError: "),
    "panics": (
        "class Panic(BaseException): pass\nraise Panic('a\\n  b')",
        "Panic: a b",
    ),
    "unprintable": (
        "class Odd(Exception):\n def __str__(self): raise ValueError\nraise Odd",
        "Odd",
    ),
    "no_such_name": ("", "AttributeError: module 'acme' has no attribute 'create_plugin'"),
    "not_callable": ("create_plugin = 7", "acme:create_plugin is not callable"),
    "factory_raises": (
        "def create_plugin(): raise KeyError('token')",
        "its factory raised KeyError: 'token'",
    ),
    "factory_exits": ("def create_plugin(): exit(1)", "its factory raised SystemExit: 1"),
    "factory_wants_more": ("def create_plugin(client): ...", "its factory raised TypeError: "),
    "returns_nothing": (
        "def create_plugin(): ...",
        "what its factory returns has no name, initialize, shutdown, should_collect, collect",
    ),
    "misses_methods": (
        SOUND.replace("def shutdown", "def shut").replace("def collect", "def gather"),
        "what its factory returns has no shutdown, collect",
    ),
    "has_no_name": (SOUND.replace('"gc_acme"', "None"), "what its factory returns has no name"),
}


@pytest.fixture
def broken(request: pytest.FixtureRequest, install: Install) -> str:
    """An installed `gc_acme` that cannot be used; the value is the reason."""
    source, reason = BROKEN[request.param]
    install(modules={"acme": source}, plugins={"gc_acme": "acme:create_plugin"})
    return reason


def listed(name: str) -> list[Registration]:
    return [one for one in installed_strategies() if one.name == name]


def test_the_built_in_strategies_come_by_entry_point() -> None:
    found = {one.name: one for one in installed_strategies()}
    assert sorted(found) == sorted(STRATEGIES)
    for name, one in found.items():
        assert one.origin.startswith("jaato ")
        assert one.error is None
        assert one.factory is not None
        assert one.factory().name == name
        assert one.summary
        assert name not in one.summary
    assert discover_gc_plugins() == {name: one.factory for name, one in found.items()}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_name_works_with_and_without_its_prefix(name: str) -> None:
    assert load_gc_plugin(name).name == name
    assert load_gc_plugin(name.removeprefix("gc_")).name == name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("gc_hybird", "did you mean 'gc_hybrid'?", id="with prefix"),
        pytest.param("hybird", "did you mean 'hybrid'?", id="without prefix"),
        pytest.param(
            "zzz",
            "installed: gc_budget, gc_hybrid, gc_summarize, gc_truncate; "
            "`jaato strategies` lists them",
            id="nothing is near",
        ),
        pytest.param("", "installed: ", id="empty"),
        pytest.param("x" * 1_000_000, "installed: ", id="a megabyte"),
    ],
)
def test_an_unknown_name_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UnknownStrategyError) as caught:
        load_gc_plugin(name)
    error = caught.value
    assert isinstance(error, UsageError)
    assert (error.name, error.known) == (name, tuple(sorted(STRATEGIES)))
    assert str(error.hint).startswith(hint)
    assert len(str(error)) < 300


def test_options_are_checked_by_the_plug_in() -> None:
    with pytest.raises(ConfigError, match="preserve_recent_turns"):
        load_gc_plugin("gc_truncate", {"preserve_recent_turn": 3})


def test_an_installed_plug_in_is_found_and_loaded(install: Install) -> None:
    install("Acme.GC", modules={"acme": SOUND}, plugins={"gc_acme": "acme:create_plugin"})
    (one,) = listed("gc_acme")
    assert (one.origin, one.summary, one.error) == ("Acme.GC 1.0", "Does nothing, well.", None)
    assert "gc_acme" in discover_gc_plugins()
    options: dict[str, Any] = {"k": 1}
    plugin = load_gc_plugin("acme", options)
    assert vars(plugin)["config"] is options


def test_a_class_or_a_partial_may_be_the_factory(install: Install) -> None:
    source = f"{SOUND}\nfrom functools import partial\nmake = partial(Plugin)\n"
    values = {"gc_class": "acme:Plugin", "gc_partial": "acme:make"}
    install(modules={"acme": source}, plugins=values)
    assert {"gc_class", "gc_partial"} <= discover_gc_plugins().keys()
    for name in values:
        (one,) = listed(name)
        assert (one.summary, one.error) == ("Does nothing, well.", None)


@pytest.mark.parametrize("broken", BROKEN, indirect=True)
def test_a_broken_plug_in_is_listed_with_its_reason(broken: str) -> None:
    (one,) = listed("gc_acme")
    assert (one.origin, one.factory) == ("acme 1.0", None)
    assert str(one.error).startswith(broken)
    assert "\n" not in str(one.error)


@pytest.mark.parametrize("broken", BROKEN, indirect=True)
def test_a_broken_plug_in_hurts_only_who_asks_for_it(
    broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert load_gc_plugin("gc_budget").name == "gc_budget"
    assert caplog.text == ""
    assert sorted(discover_gc_plugins()) == sorted(STRATEGIES)
    assert "'gc_acme' from acme 1.0 left out" in caplog.text
    with pytest.raises(BrokenPluginError) as caught:
        load_gc_plugin("gc_acme")
    error = caught.value
    assert (error.name, error.origin) == ("gc_acme", "acme 1.0")
    assert error.reason.startswith(broken)
    assert not isinstance(error, UsageError)


def test_a_plug_in_that_refuses_its_options_is_named(install: Install) -> None:
    install(modules={"acme": SOUND}, plugins={"gc_acme": "acme:create_plugin"})
    with pytest.raises(BrokenPluginError, match="RuntimeError: worse than bad") as caught:
        load_gc_plugin("gc_acme", {"worse": 1})
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("value", ["!!!", "acme", "acme:", ":create_plugin"])
def test_an_entry_point_that_names_nothing_is_broken(install: Install, value: str) -> None:
    install(modules={"acme": ""}, plugins={"gc_acme": value})
    (one,) = listed("gc_acme")
    assert one.error
    with pytest.raises(BrokenPluginError):
        load_gc_plugin("gc_acme")


@pytest.mark.parametrize("name", [*STRATEGIES, "budget", "hybrid"])
def test_nobody_takes_the_place_of_a_built_in(install: Install, name: str) -> None:
    install(modules={"acme": SOUND}, plugins={name: "acme:create_plugin"})
    for asked in (name, name.removeprefix("gc_")):
        assert load_gc_plugin(asked).name == f"gc_{name.removeprefix('gc_')}"
    if name in STRATEGIES:
        ours, theirs = listed(name)
        assert (ours.error, theirs.origin) == (None, "acme 1.0")
        assert str(theirs.error) == f"{ours.origin} has registered this name already"
        assert discover_gc_plugins()[name] is ours.factory


def test_of_two_strangers_the_first_on_the_path_wins(install: Install) -> None:
    install("one", modules={"acme": SOUND}, plugins={"gc_acme": "acme:create_plugin"})
    install("two", plugins={"gc_acme": "acme:create_plugin"})
    winner, other = listed("gc_acme")
    assert {winner.origin, other.origin} == {"one 1.0", "two 1.0"}
    assert (winner.error, other.error) == (
        None,
        f"{winner.origin} has registered this name already",
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[jaato.gc_plugins]\nrubbish\n", id="no equals sign"),
        pytest.param(b"[jaato.gc_plugins]\n\xff = acme:x\n", id="not UTF-8"),
    ],
)
def test_a_garbled_list_of_entry_points_hurts_nobody(
    install: Install, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    site = install(modules={"acme": SOUND}, plugins={"gc_acme": "acme:create_plugin"})
    install("garbled", plugins={})
    (site / "garbled-1.0.dist-info" / "entry_points.txt").write_bytes(text)
    assert load_gc_plugin("gc_acme").name == "gc_acme"
    assert sorted(discover_gc_plugins()) == sorted([*STRATEGIES, "gc_acme"])
    assert "the entry points of garbled cannot be read" in caplog.text


def test_a_package_without_metadata_is_named_by_its_entry_point(install: Install) -> None:
    site = install(modules={"acme": SOUND}, plugins={"gc_acme": "acme:create_plugin"})
    (site / "acme-1.0.dist-info" / "METADATA").unlink()
    (one,) = listed("gc_acme")
    assert (one.origin, one.error) == ("acme:create_plugin", None)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(UnknownStrategyError("gc_x", ["gc_y"]), id="unknown"),
        pytest.param(BrokenPluginError("gc_x", "acme 1.0", "because"), id="broken"),
    ],
)
def test_errors_survive_pickling(error: JaatoError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 -- made on the line itself
    assert (str(again), vars(again)) == (str(error), vars(error))
