"""`jaato stash`: help, and what `list`, `search`, `show`, `compact` and `verify` print."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.stash_calls import (
    LOG,
    RECORDS,
    damage,
    done,
    failed,
    jaato,
    on_a_terminal,
    search_of,
)

from jaato.cli.stash_options import DEFAULT_PLACE
from jaato.kept import Record
from jaato.stash.files import FileStash
from jaato.wiring import STASH_FOLDER

COMMANDS = ("compact", "export", "import", "list", "restore", "search", "show", "verify")


# Help


def test_help_names_the_commands() -> None:
    shown = done("--help")
    listed = re.findall(r"^  (\w+)  +\S", shown, flags=re.MULTILINE)
    assert tuple(listed) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name: str) -> None:
    shown = done(name, "-h")
    assert shown.startswith(f"Usage: jaato stash {name} ")
    assert "--stash PLACE" in shown
    assert f"default: {DEFAULT_PLACE}" in " ".join(shown.split())


def test_help_loads_no_stash() -> None:
    program = """
import sys
from jaato.cli.main import main
sys.argv = ["jaato", "stash", "list", "--help"]
try:
    main()
except SystemExit:
    print(*sorted(name for name in sys.modules if name.startswith("jaato.")))
    print("asyncio" in sys.modules)
"""
    run = [sys.executable, "-c", program]
    shown = subprocess.run(run, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 -- ours
    loaded, has_asyncio = shown.stdout.splitlines()[-2:]
    assert has_asyncio == "False"
    assert not re.search(r"jaato\.(wiring|session|stash|providers)", loaded)


def test_the_place_is_where_sessions_keep_theirs() -> None:
    assert DEFAULT_PLACE == STASH_FOLDER


# list


def test_list_is_a_table_the_last_one_first(place: str) -> None:
    heading, *rows = done("list", "--stash", place).splitlines()
    assert heading.split() == ["handle", "when", "(UTC)", "what", "turn", "size", "label"]
    assert [row.split()[0] for row in rows] == list(RECORDS)[::-1]
    (row,) = (row for row in rows if row.startswith("log"))
    assert re.split(r"  +", row) == [
        "log",
        "2026-11-19 10:00",
        "result bash",
        "3",
        "1,234 tokens",
        "bash src/a/build.py: connecting to db-7",
    ]
    at = {heading.index(word): word for word in ("when", "what", "turn", "size", "label")}
    assert all(row[start - 1] == " " and row[start] != " " for start in at)


@pytest.mark.parametrize(
    ("filters", "handles"),
    [
        pytest.param(["--session", "s1"], ["log"], id="of a session"),
        pytest.param(["--turn", "0"], ["note"], id="of turn 0"),
        pytest.param(["--type", "result"], ["camera", "log"], id="of a type"),
        pytest.param(["--tool", "bash"], ["log"], id="of a tool"),
        pytest.param(["--file", "build.py"], ["log"], id="the end of a path"),
        pytest.param(["--file", "src/"], ["log"], id="a folder"),
        pytest.param(["--file", "uild.py"], [], id="half a name"),
        pytest.param(["--tag", "slow"], ["note", "log"], id="with a tag"),
        pytest.param(["--tag", "slow", "--tag", "tool"], ["log"], id="with all tags"),
        pytest.param(["--since", "2026-11-20"], ["note"], id="since a date"),
        pytest.param(["--since", "2026-11-20T10:31+02:00"], [], id="since a time with a zone"),
        pytest.param(["--since", "20261119T100000Z", "--until", "2026-11-19"], ["log"], id="a day"),
        pytest.param(
            ["--since", "2000-01-01", "--until", "2026-11-19T10:00"], [], id="before an instant"
        ),
        pytest.param(["--session", "s2", "--type", "note"], ["note"], id="both"),
    ],
)
def test_list_takes_filters(place: str, filters: list[str], handles: list[str]) -> None:
    listed = json.loads(done("list", "--stash", place, "--json", *filters))
    assert [one["handle"] for one in listed] == handles
    (found,) = (search_of(place, "db-7 Postgres attached", *filters),)
    assert set(found) == set(handles)


def test_a_list_as_json(place: str) -> None:
    (log,) = json.loads(done("list", "--stash", place, "--json", "--session", "s1"))
    assert log == {
        "handle": "log",
        "type": "result",
        "session": "s1",
        "turn": 3,
        "step": 1,
        "message_ids": ["m1"],
        "tool": "bash",
        "files": ["src/a/build.py"],
        "tags": ["tool", "slow"],
        "tokens": 1_234,
        "created_at": "2026-11-19T10:00:00Z",
        "label": "bash src/a/build.py: connecting to db-7",
        "chars": len(LOG),
    }


def test_a_list_is_read_page_by_page(place: str) -> None:
    seen: list[str] = []
    page = ["--limit", "2"]
    for _ in range(3):
        result = jaato("list", "--stash", place, *page)
        seen += [row.split()[0] for row in result.stdout.splitlines()[1:]]
        more = re.search(r"There are more: (--before) (\S+)\n", result.stderr)
        page = ["--limit", "2", *more.groups()] if more else []
    assert seen == list(RECORDS)[::-1]
    assert page == []


def test_nothing_of_that_kind_is_no_failure(place: str) -> None:
    for arguments in (("list", "--session", "none"), ("search", "zebra crossing")):
        result = jaato(*arguments, "--stash", place)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "There is nothing of that kind.\n"
        result = jaato(*arguments, "--stash", place, "--json")
        assert (result.exit_code, json.loads(result.stdout)) == (0, [])


# search


@pytest.mark.parametrize(
    ("query", "first"),
    [
        pytest.param(["connection", "refused"], "log", id="words without quotes"),
        pytest.param(["httpserv"], "log", id="the beginning of a name"),
        pytest.param(["postgrse"], "note", id="a typing error"),
        pytest.param(["build.py"], "log", id="a file"),
    ],
)
def test_search_finds(place: str, query: list[str], first: str) -> None:
    shown = done("search", *query, "--stash", place).splitlines()
    assert shown[0].startswith(f"{first}, ")
    assert shown[1].startswith("    ")
    hits = json.loads(done("search", *query, "--stash", place, "--json", "--limit", "1"))
    assert [one["handle"] for one in hits] == [first]
    assert hits[0].keys() >= {"score", "excerpt", "chars", "created_at"}


def test_a_hit_says_what_it_is(place: str) -> None:
    assert done("search", "refused", "--stash", place) == (
        "log, result bash, turn 3, 1,234 tokens, 2026-11-19 10:00, src/a/build.py\n"
        "    connection refused by HTTPServer2\n"
    )


# show


@pytest.mark.parametrize("handle", list(RECORDS))
def test_show_prints_exactly_what_was_kept(place: str, handle: str) -> None:
    result = jaato("show", handle, "--stash", place)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout_bytes.decode("utf-8", "surrogatepass") == RECORDS[handle].text


@pytest.mark.parametrize("handle", list(RECORDS))
def test_show_as_json_has_everything(place: str, handle: str) -> None:
    shown = done("show", handle, "--stash", place, "--json")
    assert shown.isascii()
    document = json.loads(shown)
    record = RECORDS[handle]
    assert (document["handle"], document["text"]) == (handle, record.text)
    assert document["chars"] == len(record.text)
    assert document["extra"] == json.loads(json.dumps(dict(record.extra)))


def test_show_on_a_terminal_has_a_heading(place: str) -> None:
    heading, *rest = on_a_terminal("show", "log", "--stash", place).split("\n")
    assert "log, result bash, turn 3, 1,234 tokens, 2026-11-19 10:00, src/a/build.py" in heading
    assert rest[:2] == ["connecting to db-7", "connection refused by HTTPServer2\\x0d"]


@pytest.mark.parametrize("command", ["show", "list", "search"])
def test_a_terminal_obeys_nothing_that_was_kept(place: str, command: str) -> None:
    what = {"show": ["acting"], "search": ["turned around"], "list": []}[command]
    shown = on_a_terminal(command, *what, "--stash", place)
    assert r"\x1b[31mred\x1b[0m, \u202eturned around\u202c, bell \x07" in shown
    assert not {"\x07", "\u202e"} & set(shown)
    assert "\x1b[31m" not in shown


def test_half_a_character_is_shown(place: str) -> None:
    assert r"half a smile \ud83d, a raw byte \udc80" in done("search", "smile", "--stash", place)
    assert r"a raw byte \udc80" in on_a_terminal("show", "halves", "--stash", place)


def test_two_halves_do_not_become_one_character(place: str) -> None:
    stash = FileStash(place)
    stash.put([Record(text="\ud83d\ude00")], ["two"])
    stash.close()
    for name in ("show", "restore"):
        shown = jaato(name, "two", "--stash", place).stdout_bytes
        assert shown.decode("utf-8", "surrogatepass") == "\ud83d\ude00"


# compact and verify


def test_compact_says_what_it_gave_back(place: str) -> None:
    stash = FileStash(place)
    stash.remove(["log", "note"])
    stash.close()
    shown = done("compact", "--stash", place)
    (before, after) = re.fullmatch(
        r"3 records: from ([\d,]+) to ([\d,]+) bytes\.\n", shown
    ).groups()  # type: ignore[union-attr]
    assert int(after.replace(",", "")) < int(before.replace(",", ""))
    told = json.loads(done("compact", "--stash", place, "--json"))
    assert told.keys() == {"records", "bytes_before", "bytes_after"}
    assert told["records"] == 3
    assert "was removed" in failed("show", "log", "--stash", place)


def test_verify_says_that_all_is_whole(place: str) -> None:
    shown = done("verify", "--stash", place)
    assert re.fullmatch(r"5 records in [\d,]+ bytes, all whole; durable on return\.\n", shown)
    told = json.loads(done("verify", "--stash", place, "--json"))
    assert told.pop("bytes") == Path(place, "stash.jsonl").stat().st_size
    assert told == {
        "is_sound": True,
        "records": 5,
        "durability": "durable on return",
        "damages": [],
    }


def test_verify_fails_where_something_is_damaged(place: str) -> None:
    damage(place)
    result = jaato("verify", "--stash", place)
    assert result.exit_code == 1
    first, second = result.stdout.splitlines()
    assert re.fullmatch(r"4 records in [\d,]+ bytes\.", first)
    assert second.startswith("damaged: log: ")
    assert "set aside in" in second
    result = jaato("verify", "--stash", place, "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["is_sound"] is False
    (one,) = told["damages"]
    assert one.keys() == {"what", "handle", "set_aside_in"}
    assert one["handle"] == "log"


def test_a_damaged_record_is_never_an_empty_answer(place: str, tmp_path: Path) -> None:
    damage(place)
    assert "'log' is damaged" in failed("show", "log", "--stash", place)
    assert "'log' is damaged" in failed("restore", "log", "--stash", place, "--to", place + "x")
    assert not Path(place + "x").exists()
    result = jaato("list", "--stash", place)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 5)
    assert result.stderr == "1 record is damaged: `jaato stash verify` says more\n"
    result = jaato("list", "--session", "s1", "--stash", place)
    assert (result.exit_code, result.stdout) == (1, "")
    exported = jaato("export", "--stash", place)
    assert len(json.loads(exported.stdout)["segments"]) == 4
    assert exported.stderr == ("1 record is damaged: `jaato stash verify` says more\n4 exported.\n")
