"""The built-in script: an agent that works by rule, from nothing but the conversation it is shown.

It does what a request names, `read_file(path="a.txt")` or `grep: TODO`; where nothing is named it
lists, reads and searches, for as many steps as the request says ("in 200 steps"). What it needs and
can no longer see it calls back or does again, once; and it ends with what it can still see.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from jaato.exchange import Request, StopReason, ToolSchema
from jaato.history import FunctionCall
from jaato.providers.scripted_sight import PATH, Deed, Sight
from jaato.tokens import as_text

DEFAULT_STEPS: Final = 6
PARALLEL_CALLS: Final = 3

_PURPOSES: Final = {
    "list": {"list", "ls", "glob"},
    "read": {"read", "cat", "open", "view"},
    "search": {"grep", "search"},
    "run": {"run", "bash", "shell", "exec"},
    "edit": {"edit", "replace", "patch"},
    "recall": {"recall"},
}
_PARAMETERS: Final = {
    "path": {"path", "file", "filename", "dir", "directory", "folder", "root"},
    "pattern": {"pattern", "query", "regex", "text"},
    "command": {"command", "cmd", "script"},
    "old": {"old", "before"},
    "new": {"new", "after", "replacement"},
    "handle": {"handle", "id", "key"},
}
# Among ten steps of its own choice, where others than reading have their place.
_ROUND: Final = 10
_SEARCHES: Final = frozenset({2, 5, 8})
_EDITS: Final = 6
_RUNS: Final = 9

_STEPS = re.compile(r"\b(\d{1,6}) steps?\b")
_WANTS_EDITS = re.compile(r"\b(?:edit|change|fix|improve|update)\b", re.IGNORECASE)
_COMMAND = re.compile(r"`([^`\n]+)`")
_DEFINED = re.compile(r"\b(?:def|class|func|function|fn|struct|interface)\s+([A-Za-z_]\w{2,})")
_PAIR = re.compile(r"(\w+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,()]+)")

_Wanted = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a script answers. `stop`: the reason, where it is not what the rest suggests."""

    text: str = ""
    thought: str = ""
    calls: tuple[FunctionCall, ...] = ()
    stop: StopReason | None = None


def worker(request: Request) -> Reply:
    """The next thing that the agent does or says."""
    sight = Sight(request)
    if not request.tools and sight.task.lstrip().lower().startswith("summar"):
        return Reply(text=sight.summary())
    job = _Job(request.tools, sight)
    wanted = job.next_calls()
    if not wanted:
        return Reply(text=job.answer())
    first = _first_free_number(sight.deeds)
    calls = tuple(
        FunctionCall(f"call_{number}", name, arguments)
        for number, (name, arguments) in enumerate(wanted, first)
    )
    named = ", ".join(f"{name} {as_text(arguments)}" for name, arguments in wanted)
    return Reply(thought=f"Step {sight.steps + 1}: {named:.200}", calls=calls)


class _Job:
    """What to do about a request, and when it is time to answer."""

    def __init__(self, tools: tuple[ToolSchema, ...], sight: Sight) -> None:
        self._tools = tools
        self._sight = sight
        self._issued = Counter(_key(deed.call.name, deed.call.args) for deed in sight.now)
        said = _STEPS.search(sight.task)
        self._said = int(said[1]) if said else None

    def next_calls(self) -> list[_Wanted]:
        """The next step; nothing when it is time to answer."""
        limit = DEFAULT_STEPS + len(self._named) if self._said is None else self._said
        if self._sight.steps >= limit or not self._tools:
            return []
        left = Counter(_key(*wanted) for wanted in self._named) - self._issued
        if left:
            return [wanted for wanted in self._named if _key(*wanted) in left][:PARALLEL_CALLS]
        again = list(self._done_again())[:PARALLEL_CALLS]
        if again or (self._named and self._said is None):
            return again
        return self._own_step()

    def answer(self) -> str:
        """The end of the turn."""
        steps = self._sight.steps
        lines = [f"Done in {steps} step{'s' if steps > 1 else ''}."] if steps else []
        lines += self._sight.facts() or ["I can see nothing about that."]
        gone = [deed.call for deed in self._sight.now if self._is_missed(deed)]
        lines += [f"Out of sight: {call.name} {as_text(call.args)}" for call in gone]
        return "\n".join(lines)

    @cached_property
    def _named(self) -> list[_Wanted]:
        """The calls that the request spells out, in its order."""
        task = self._sight.task
        found: list[tuple[int, str, dict[str, Any]]] = []
        for tool in self._tools:
            name = re.escape(tool.name)
            for match in re.finditer(rf"\b{name}\(([^()]*)\)", task):
                arguments = {key: _value(value) for key, value in _PAIR.findall(match[1])}
                bare = match[1].strip()
                if bare and not arguments:
                    arguments = _filled(tool, {"": _value(bare)})
                found.append((match.start(), tool.name, arguments))
            found += (
                (match.start(), tool.name, _filled(tool, {"": match[1].strip()}))
                for match in re.finditer(rf"(?:^|[\n;,.]\s*){name}:[ \t]*([^\n;]+)", task)
            )
        return [(name, arguments) for _, name, arguments in sorted(found, key=lambda f: f[0])]

    def _done_again(self) -> Iterator[_Wanted]:
        """Each result that is missed: called back, or asked for a second time."""
        recall = self._tool("recall")
        for deed in filter(self._is_missed, self._sight.now):
            if recall and deed.handle:
                again = (recall.name, _filled(recall, {"handle": deed.handle}))
                if not self._issued[_key(*again)]:
                    yield again
            elif self._issued[_key(deed.call.name, deed.call.args)] == 1:
                yield deed.call.name, deed.call.args

    def _is_missed(self, deed: Deed) -> bool:
        if deed.result is None or deed.is_whole:
            return False
        lister = self._tool("list")
        is_list = lister is not None and deed.call.name == lister.name
        named = (deed.call.name, deed.call.args) in self._named
        return named or (is_list and not PATH.search(deed.seen))

    def _own_step(self) -> list[_Wanted]:
        """What to do where nothing is named: look around, and now and then run or edit."""
        lister = self._tool("list")
        if lister and not any(deed.call.name == lister.name for deed in self._sight.now):
            return [(lister.name, _filled(lister, {"path": "."}, optional=False))]
        turn = self._sight.steps % _ROUND
        special = {_RUNS: self._run, _EDITS: self._edit}.get(turn)
        if turn in _SEARCHES:
            special = self._search
        return (special() if special else []) or self._reads() or self._search()

    def _run(self) -> list[_Wanted]:
        """The command that the request quotes."""
        tool, command = self._tool("run"), _COMMAND.search(self._sight.task)
        return [(tool.name, _filled(tool, {"command": command[1]}))] if tool and command else []

    def _edit(self) -> list[_Wanted]:
        """A small change to the file that was read last, if the request wants any."""
        tool = self._tool("edit")
        if tool is None or not _WANTS_EDITS.search(self._sight.task):
            return []
        for deed in reversed(self._sight.now):
            path = next((str(v) for v in deed.call.args.values() if PATH.fullmatch(str(v))), None)
            if path and deed.is_whole:
                times = Counter(line for line in deed.seen.splitlines() if line.strip())
                line = next((line for line, count in times.items() if count == 1), None)
                if line is not None:
                    change = {"path": path, "old": line, "new": f"{line}  # looked at"}
                    return [(tool.name, _filled(tool, change))]
        return []

    def _search(self) -> list[_Wanted]:
        """A name that a file defines, or a word of the request, that was not searched for."""
        tool = self._tool("search")
        if tool is None:
            return []
        done = self._last_done(tool)
        others = (deed for deed in self._sight.now if deed.call.name != tool.name)
        names = [name for deed in others for name in _DEFINED.findall(deed.seen)]
        names += sorted(self._sight.words)
        pattern = next((name for name in names if name not in done), None)
        return [(tool.name, _filled(tool, {"pattern": pattern}))] if pattern else []

    def _reads(self) -> list[_Wanted]:
        """Files that are spoken of and were not read; then those read longest ago."""
        tool = self._tool("read")
        if tool is None:
            return []
        spoken_of = dict.fromkeys(PATH.findall(self._sight.task))
        for deed in self._sight.deeds:
            if deed.call.name != tool.name:
                spoken_of |= dict.fromkeys(PATH.findall(deed.seen))
        done = self._last_done(tool)
        paths = [path for path in spoken_of if path not in done]
        if not paths and self._said is not None:
            paths = list(done)
        return [(tool.name, _filled(tool, {"path": path})) for path in paths[:PARALLEL_CALLS]]

    def _tool(self, purpose: str) -> ToolSchema | None:
        words = _PURPOSES[purpose]
        return next((tool for tool in self._tools if words & set(tool.name.split("_"))), None)

    def _last_done(self, tool: ToolSchema) -> dict[str, None]:
        """What a tool was called with in this turn, longest ago first."""
        done: dict[str, None] = {}
        for deed in self._sight.now:
            if deed.call.name == tool.name:
                for value in map(str, deed.call.args.values()):
                    done.pop(value, None)
                    done[value] = None
        return done


def _filled(tool: ToolSchema, values: dict[str, Any], *, optional: bool = True) -> dict[str, Any]:
    """Arguments for what a tool requires, by the names of its parameters."""
    properties = tool.parameters.get("properties") or {}
    wanted = tool.parameters.get("required") or list(properties)[: 1 if optional else 0]
    first = next(iter(values.values()))
    return {name: values.get(_kind_of(name), first) for name in wanted}


def _kind_of(parameter: str) -> str:
    words = set(parameter.lower().split("_"))
    return next((kind for kind, names in _PARAMETERS.items() if words & names), "")


def _key(name: str, arguments: dict[str, Any]) -> str:
    return f"{name} {as_text(arguments)}"


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip("'\"")


def _first_free_number(deeds: tuple[Deed, ...]) -> int:
    """Beyond the number of every call that can be seen, so that no two ids are alike."""
    numbers = (deed.call.id.rpartition("_")[2] for deed in deeds)
    return max((int(number) for number in numbers if number.isdecimal()), default=0) + 1
