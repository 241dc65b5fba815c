"""The import paths that people have code written against: every name, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import jaato

SRC = Path(jaato.__file__).parents[1]
FILES = sorted((SRC / "shared").rglob("*.py"))

CONTRACT = {
    "jaato.gc.config": ["GCConfig"],
    "jaato.gc.protocol": ["GC_PLUGIN_ENTRY_POINT", "GCPlugin"],
    "jaato.gc.result": ["GCRemovalItem", "GCResult", "GCTriggerReason"],
}
TURNS = {
    "jaato.gc.marks": ["create_gc_notification_message", "create_summary_message"],
    "jaato.gc.turn_lists": [
        "Turn",
        "ensure_tool_call_integrity",
        "estimate_history_tokens",
        "estimate_message_tokens",
        "estimate_turn_tokens",
        "flatten_turns",
        "get_preserved_indices",
        "split_into_turns",
    ],
}
LOADERS = {
    "jaato.gc.registry": ["discover_gc_plugins", "load_gc_plugin"],
    "jaato.wiring": ["load_gc_from_file"],
}
BUDGET = {
    "jaato.budget": [
        "DEFAULT_SOURCE_POLICIES",
        "DEFAULT_SYSTEM_POLICIES",
        "DEFAULT_TOOL_POLICIES",
        "DEFAULT_TURN_POLICIES",
        "GC_POLICY_INDICATORS",
        "ConversationTurnType",
        "GCPolicy",
        "InstructionBudget",
        "InstructionSource",
        "PluginToolType",
        "SourceEntry",
        "SystemChildType",
        "estimate_tokens",
    ]
}
MESSAGES = {
    "jaato.history": ["FunctionCall", "Media", "Message", "Part", "Role", "ToolResult"],
}
PROFILES = {
    "jaato.settings.profiles": ["GCProfileConfig", "SubagentProfile", "discover_profiles"],
}
PATHS: dict[str, dict[str, list[str]]] = {
    "shared.instruction_budget": BUDGET,
    "shared.plugins.gc": {**CONTRACT, **TURNS, **LOADERS},
    "shared.plugins.gc.base": CONTRACT,
    "shared.plugins.gc.utils": TURNS,
    "shared.plugins.model_provider.types": MESSAGES,
    "shared.plugins.subagent.config": PROFILES,
    **{
        f"shared.plugins.gc_{short}{module}": {
            f"jaato.strategies.{short}": [f"{short.title()}GCPlugin", "create_plugin"]
        }
        for short in ("truncate", "summarize", "hybrid", "budget")
        for module in ("", ".plugin")
    },
}
NAMES = [
    pytest.param(path, home, name, id=f"{path}.{name}")
    for path, homes in PATHS.items()
    for home, names in homes.items()
    for name in names
]


@pytest.mark.parametrize(("path", "home", "name"), NAMES)
def test_a_name_is_bound_to_our_object(path: str, home: str, name: str) -> None:
    assert getattr(import_module(path), name) is getattr(import_module(home), name)


@pytest.mark.parametrize("path", PATHS)
def test_all_says_what_a_path_offers(path: str) -> None:
    offered = import_module(path).__all__
    assert sorted(offered) == sorted(name for names in PATHS[path].values() for name in names)


def test_messages_come_from_jaato_too() -> None:
    from jaato import FunctionCall, Message, Part, Role, ToolResult  # noqa: PLC0415 -- the point
    from shared.plugins.model_provider import types  # noqa: PLC0415 -- likewise

    assert (types.Message, types.Part, types.Role) == (Message, Part, Role)
    assert (types.FunctionCall, types.ToolResult) == (FunctionCall, ToolResult)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_a_file_holds_no_logic(file: Path) -> None:
    first, *rest = ast.parse(file.read_text(encoding="utf-8")).body
    assert isinstance(first, ast.Expr), "a docstring says what the file is"
    imported: list[str] = []
    for statement in rest[:-1]:
        assert isinstance(statement, ast.ImportFrom)
        assert statement.level == 0
        assert (statement.module or "").startswith("jaato.")
        assert all(alias.asname is None for alias in statement.names)
        imported += [alias.name for alias in statement.names]
    if rest:
        assert isinstance(rest[-1], ast.Assign)
        assert ast.unparse(rest[-1].targets[0]) == "__all__"
        assert sorted(ast.literal_eval(rest[-1].value)) == sorted(imported)


@pytest.mark.parametrize("folder", ["shared", "shared/plugins"])
def test_a_shared_folder_belongs_to_nobody(folder: str) -> None:
    assert not (SRC / folder / "__init__.py").exists()
    assert import_module(folder.replace("/", ".")).__file__ is None


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_a_users_own_shared_directory_keeps_working(first: str, tmp_path: Path) -> None:
    for file, value in {
        "shared/settings.py": 1,
        "shared/plugins/search.py": 2,
        "shared/plugins/mine/__init__.py": 3,
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(f"VALUE = {value}\n", encoding="utf-8")
    paths = [str(tmp_path), str(SRC)] if first == "theirs" else [str(SRC), str(tmp_path)]
    program = f"""
import sys
sys.path[:0] = {paths!r}
from shared.plugins.gc import load_gc_plugin
from shared.plugins import mine, search
from shared import instruction_budget, settings
print(settings.VALUE, search.VALUE, mine.VALUE, load_gc_plugin("gc_budget").name)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 -- this interpreter, our program
    assert (done.stdout, done.stderr) == ("1 2 3 gc_budget\n", "")
