"""What importing costs: no edge, no tokenizer, nothing that is not asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import jaato

EDGES = {
    "anthropic",
    "google",
    "httpx",
    "hypothesis",
    "mcp",
    "numpy",
    "openai",
    "pydantic",
    "splintr",
    "textual",
    "tiktoken",
}
LOADED = "print('', *sorted({name.partition('.')[0] for name in sys.modules}), '')"


def loaded_by(program: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after a program."""
    code = f"import sys\n{program}\nsys.stdout.flush()\n{LOADED}"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 -- this interpreter, our program
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.splitlines()[-1].split())


RUN = """
from jaato.cli.main import main
sys.argv = ["jaato", {argument!r}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("import jaato", id="import jaato"),
        pytest.param(RUN.format(argument="--help"), id="jaato --help"),
        pytest.param(RUN.format(argument="--version"), id="jaato --version"),
    ],
)
def test_no_edge_is_loaded(program: str) -> None:
    loaded = loaded_by(program)
    assert "jaato" in loaded
    assert not loaded & EDGES
    assert "asyncio" not in loaded


def test_using_the_collector_loads_no_edge_but_the_tokenizer() -> None:
    program = """
from jaato import GCConfig, GCTriggerReason, Message, load_gc_plugin
plugin = load_gc_plugin("gc_truncate")
plugin.collect([Message.from_text("user", "hello")], {}, GCConfig(), GCTriggerReason.MANUAL)
"""
    assert loaded_by(program) & EDGES <= {"splintr", "tiktoken"}


@pytest.mark.parametrize("name", jaato.__all__)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(jaato, name)
    assert value is getattr(jaato, name)
    if name != "__version__":
        home = import_module(value.__module__)
        assert home.__name__.startswith("jaato.")
        assert getattr(home, name) is value


def test_dir_lists_the_public_names() -> None:
    assert dir(jaato) == sorted(jaato.__all__)
    assert len(set(jaato.__all__)) == len(jaato.__all__)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'jaato' has no attribute 'gc_plugin'"):
        jaato.gc_plugin  # noqa: B018 -- asking is the point


def test_star_import_brings_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from jaato import *", names)  # noqa: S102 -- a star is allowed at module level only
    assert set(jaato.__all__) <= names.keys()
