"""The command line: what is printed where, and the exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import jaato
from jaato.cli.main import cli
from jaato.cli.stash_options import DEFAULT_PLACE
from jaato.gc.options import STRATEGIES
from jaato.stash.files import FileStash

SCRIPT = Path(sys.executable).with_name("jaato")
SOUND = '''
"""Does nothing, well."""
from jaato import GCResult

print("hello from acme")

class Plugin:
    name = "gc_acme"
    def initialize(self, config=None): pass
    def shutdown(self): pass
    def should_collect(self, context_usage, config): return False, None
    def collect(self, history, context_usage, config, reason):
        return list(history), GCResult(True, 0, 5, 5, self.name, reason)

def create_plugin():
    return Plugin()
'''


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="jaato")


@pytest.fixture
def acme(install: Callable[..., Path]) -> Callable[[str], None]:
    """Installs a package with the plug-in `gc_acme`."""

    def put(source: str) -> None:
        install(modules={"acme": source}, plugins={"gc_acme": "acme:create_plugin"})

    return put


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_the_commands_and_shows_examples(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    FileStash(DEFAULT_PLACE).close()
    result = run(option)
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.findall(r"^  (\w+)  +\S", result.stdout, flags=re.MULTILINE) == [
        "demo",
        "stash",
        "strategies",
    ]
    examples = re.findall(r"^    (jaato .*?)(?:   .*)?$", result.stdout, flags=re.MULTILINE)
    assert len(examples) == 7
    for example in examples:
        assert run(*example.split()[1:]).exit_code == 0


@pytest.mark.parametrize("command", ["demo", "stash", "strategies"])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_each_command_has_help(command: str, option: str) -> None:
    result = run(command, option)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: jaato {command} ")


def test_no_arguments_print_help() -> None:
    result = run()
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Commands:" in result.stderr
    assert "Examples:" in result.stderr


def test_the_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"jaato, version {jaato.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["demi"], "Did you mean 'demo'?", id="a mistyped command"),
        pytest.param(["zzz"], "No such command 'zzz'.", id="nothing is near"),
        pytest.param(["demo", "--stratgy", "x"], "--strategy", id="a mistyped option"),
        pytest.param(
            ["demo", "--strategy", "gc_hybird"],
            "no strategy named 'gc_hybird' (did you mean 'gc_hybrid'?)",
            id="a mistyped strategy",
        ),
        pytest.param(["demo", "--window", "10"], "2000<=x", id="a window too small"),
        pytest.param(["demo", "--window", "9999999999"], "x<=2000000", id="a window too large"),
        pytest.param(["strategies", "x"], "unexpected extra argument", id="too many arguments"),
    ],
)
def test_a_wrong_call_is_2_and_says_what_would_be_right(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count(said) == 1
    assert "Traceback" not in result.stderr


def test_strategies_is_a_table() -> None:
    result = run("strategies")
    assert (result.exit_code, result.stderr) == (0, "")
    heading, *rows = result.stdout.splitlines()
    assert heading.split()[:3] == ["strategy", "state", "from"]
    assert [row.split()[0] for row in rows] == sorted(STRATEGIES)
    start = heading.index("what it does")
    for row in rows:
        assert row.split()[1:4] == ["ok", "jaato", jaato.__version__]
        assert row[start - 1] == " "
        assert row[start].isupper()
        assert row.endswith(".")


def test_strategies_as_json() -> None:
    result = run("strategies", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    listed = json.loads(result.stdout)
    assert [one["name"] for one in listed] == sorted(STRATEGIES)
    for one in listed:
        assert one.keys() == {"name", "from", "summary", "error"}
        assert one["error"] is None


def test_a_broken_plug_in_has_a_row(acme: Callable[[str], None]) -> None:
    acme("import acme_is_not_there")
    result = run("strategies")
    assert result.exit_code == 0
    row = result.stdout.splitlines()[1]
    assert row.split(maxsplit=4) == [
        "gc_acme",
        "broken",
        "acme",
        "1.0",
        "ModuleNotFoundError: No module named 'acme_is_not_there'",
    ]
    (one,) = (one for one in json.loads(run("strategies", "--json").stdout) if one["error"])
    assert (one["name"], one["summary"]) == ("gc_acme", "")


def test_what_a_plug_in_prints_is_not_data(acme: Callable[[str], None]) -> None:
    acme(SOUND)
    result = run("strategies", "--json")
    assert "hello from acme" in result.stderr
    assert "gc_acme" in {one["name"] for one in json.loads(result.stdout)}


def amount(output: str, row: str) -> list[int]:
    """The two columns of a row of the demo."""
    (found,) = re.findall(rf"^  {row} +(\S+) +(?:% +)?(\S+)", output, flags=re.MULTILINE)
    return [0 if cell == "-" else int(cell.replace(",", "")) for cell in found]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_demo_shows_the_window_before_and_after(strategy: str) -> None:
    result = run("demo", "--strategy", strategy)
    assert (result.exit_code, result.stderr) == (0, "")
    shown = result.stdout
    before, after = amount(shown, "tokens")
    assert 24_000 * 0.8 <= before <= 24_000
    assert after <= 24_000 * 0.5
    assert f"{strategy} freed {before - after:,} tokens" in shown
    rows = re.findall(r"^  (?:turn_\d+|gc_\w+) .*$", shown, flags=re.MULTILINE)
    weights = [amount(shown, row.split()[0]) for row in rows]
    assert [sum(column) for column in zip(*weights, strict=True)] == [before, after]
    assert len([row for row in rows if row.endswith("#" * 30)]) >= 2, "the recent turns stay"
    assert [amount(shown, "gc_notice")[0] for row in rows if "gc_notice" in row] == [0]
    folds = strategy in {"gc_summarize", "gc_hybrid"}
    assert any("gc_summary_1" in row for row in rows) is folds


def test_the_demo_says_that_the_request_never_goes() -> None:
    assert re.search(r"^  turn_0 .*#[.]+  22 🔒$", run("demo").stdout, flags=re.MULTILINE)
    emptied = run("demo", "--strategy", "truncate").stdout
    assert re.search(r"^  turn_0 +2,638 +22  🔒 +#[.]+$", emptied, flags=re.MULTILINE)


def test_the_demo_is_the_same_every_time() -> None:
    assert run("demo").stdout == run("demo", "--strategy", "budget").stdout


@pytest.mark.parametrize("window", [2_000, 200_000])
def test_the_demo_fits_any_window(window: int) -> None:
    result = run("demo", "--window", str(window))
    assert result.exit_code == 0
    before, after = amount(result.stdout, "tokens")
    assert window * 0.8 <= before <= window
    assert after <= window * 0.5


def test_the_demo_runs_anybodys_plug_in(acme: Callable[[str], None]) -> None:
    acme(SOUND)
    result = run("demo", "--strategy", "acme")
    assert result.exit_code == 0
    assert "gc_acme freed 0 tokens" in result.stdout
    before, after = amount(result.stdout, "tokens")
    assert before == after


def test_the_demo_shows_a_history_in_its_new_order(acme: Callable[[str], None]) -> None:
    acme(SOUND.replace("list(history)", "list(history)[::-1]"))
    result = run("demo", "--strategy", "acme", "--window", "2000")
    assert result.exit_code == 0
    rows = re.findall(r"^  (turn_\d+)", result.stdout, flags=re.MULTILINE)
    assert sorted(rows) == [f"turn_{n}" for n in range(len(rows))]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            "return list(history)", "return {}[7]", "gc_acme failed: KeyError: 7", id="raises"
        ),
        pytest.param(
            "GCResult(True, 0, 5, 5, self.name, reason)",
            "GCResult(False, 0, 5, 5, self.name, reason, error='no model')",
            "gc_acme collected nothing: no model",
            id="fails",
        ),
        pytest.param(
            "def shutdown",
            "def shut",
            "the GC plug-in 'gc_acme' from acme 1.0 cannot be used: "
            "what its factory returns has no shutdown",
            id="is broken",
        ),
    ],
)
def test_a_plug_in_that_fails_is_1(
    acme: Callable[[str], None], old: str, new: str, said: str
) -> None:
    acme(SOUND.replace(old, new))
    result = run("demo", "--strategy", "acme")
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_the_installed_command() -> None:
    def command(*arguments: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 -- the script that belongs to this interpreter
            [str(SCRIPT), *arguments],
            capture_output=True,
            check=False,
            encoding=encoding,
            env={"PYTHONIOENCODING": encoding},
            timeout=60,
        )

    shown = command("demo")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == run("demo").stdout
    assert "◐" in shown.stdout
    plain = command("demo", encoding="cp1252")
    assert (plain.returncode, plain.stderr) == (0, ""), "a terminal that knows no ◐"
    assert command("demo", "--strategy", "zzz").returncode == 2
