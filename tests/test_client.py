"""The client as a program uses it: talking, tools, collecting, looking, listening."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.session.agents import gc, read, steps_of_turn, worker

from jaato.budget import GCPolicy, InstructionSource, locate
from jaato.client import JaatoClient
from jaato.errors import UsageError
from jaato.events import Collected, Event
from jaato.exchange import RateLimitError, Request
from jaato.gc.config import GCConfig
from jaato.gc.result import GCTriggerReason
from jaato.history import FunctionCall, Media, Role, violations
from jaato.providers.scripted import Fault, FaultKind, Reply, ScriptedProvider
from jaato.session.bridge import BRIDGE
from jaato.tools.mcp import McpServerTools

RULES = ("openai", "anthropic", "google")
SERVER = Path(__file__).parent / "servers" / "mcp_tools.py"
ORIGINAL = "please read everything and tell me about value_7"


def connected(
    script: Callable[[Request], Reply] | None = None,
    *,
    rules: Any = "openai",
    limit: int | None = 16_000,
    tools: Any = (read,),
    window: int | None = None,
    **provider: Any,
) -> JaatoClient:
    """A client of a provider that keeps the rules of a real API; logs nothing, collects nothing."""
    client = JaatoClient(sessions=None)
    client.configure_tools(list(tools))
    made = ScriptedProvider(script or worker(2), rules=rules, window=window, **provider)
    client.connect(provider=made, context_limit=limit)
    return client


def say(text: str) -> Callable[[Request], Reply]:
    return lambda _request: Reply(text=text)


# Talking


@pytest.mark.parametrize("rules", RULES)
def test_a_turn_runs_tools_and_returns_the_last_text(rules: Any) -> None:
    client = connected(worker(2, calls=2), rules=rules)
    assert client.send_message("read") == "done after 2 steps"
    assert client.send_message("again") == "done after 2 steps"
    history = client.get_history()
    assert [message.role for message in history[:6]] == [
        Role.USER, Role.MODEL, Role.TOOL, Role.MODEL, Role.TOOL, Role.MODEL,
    ]  # fmt: skip
    assert violations(history) == ()
    assert client.instruction_budget.total_tokens() == client.get_context_usage()["total_tokens"]


def test_the_history_is_a_copy() -> None:
    client = connected(say("ok"))
    client.send_message("hello")
    client.get_history().clear()
    assert len(client.get_history()) == 2


def test_a_message_may_have_attachments_and_a_kind() -> None:
    client = connected(say("a cat"), rules="anthropic")
    client.send_message("look at pictures")
    picture = Media("image/png", b"\x89PNG\r\n\x1a\n")
    client.send_message("and this?", attachments=[picture], turn_type="clarification_q")
    sent = client.get_history()[2]
    assert [part.inline_data for part in sent.parts] == [None, picture]
    located = locate(client.instruction_budget, sent.message_id)
    assert located is not None
    assert located.entry.gc_policy is GCPolicy.PRESERVABLE


Outputs = list[tuple[Any, ...]]


@pytest.mark.parametrize(
    ("takes", "told"),
    [
        pytest.param(
            lambda heard: lambda text: heard.append((text,)),
            [("step 0",), ("done aft",), ("er 1 ste",), ("ps",)],
            id="the text of the model alone",
        ),
        pytest.param(
            lambda heard: lambda source, text: heard.append((source, text)),
            [
                ("thinking", "hm"),
                ("model", "step 0"),
                ("tool", "read …"),
                ("tool", "read done (5 tokens)"),
                ("thinking", "hm"),
                ("model", "done aft"),
                ("model", "er 1 ste"),
                ("model", "ps"),
            ],
            id="who says it, and what",
        ),
        pytest.param(
            lambda heard: lambda *three: heard.append(three),
            [
                ("thinking", "hm", "write"),
                ("model", "step 0", "write"),
                ("tool", "read …", "write"),
                ("tool", "read done (5 tokens)", "write"),
                ("thinking", "hm", "write"),
                ("model", "done aft", "write"),
                ("model", "er 1 ste", "append"),
                ("model", "ps", "append"),
            ],
            id="and whether it goes on",
        ),
    ],
)
def test_on_output_is_told_as_it_wants(
    takes: Callable[[Outputs], Callable[..., None]], told: Outputs
) -> None:
    def script(request: Request) -> Reply:
        if steps_of_turn(request):
            return Reply(text="done after 1 steps", thought="hm")
        call = FunctionCall("c", "read", {"path": "a", "lines": 0})
        return Reply(text="step 0", thought="hm", calls=(call,))

    def five(path: str, lines: int) -> str:
        """Read."""
        return "one two three four five"

    client = connected(script, tools=[{"name": "read", "handler": five}], chunk_chars=8)
    heard: Outputs = []
    client.send_message("read", on_output=takes(heard))
    assert heard == told


@pytest.mark.parametrize("rules", RULES)
def test_on_gc_threshold_is_told_the_percentage_and_the_threshold(rules: Any) -> None:
    client = connected(say("long answer " * 1_500), rules=rules, limit=5_000, tools=[])
    client.set_gc_plugin(
        gc("gc_truncate", preserve_recent_turns=0), GCConfig(threshold_percent=50.0)
    )
    told: list[tuple[float, float]] = []

    def on_gc_threshold(percent_used: float, threshold: float) -> None:
        told.append((percent_used, threshold))

    client.send_message("tell me everything", on_gc_threshold=on_gc_threshold)
    [(percent_used, threshold)] = told
    assert threshold == 50.0
    assert 50.0 <= percent_used < 60.0


@pytest.mark.parametrize(
    ("plugin", "config"),
    [
        pytest.param(None, None, id="without a collector"),
        pytest.param(gc(), GCConfig(threshold_percent=90.0), id="below the threshold"),
        pytest.param(
            gc(), GCConfig(threshold_percent=5.0, auto_trigger=False), id="where nothing triggers"
        ),
    ],
)
def test_on_gc_threshold_is_not_told(plugin: Any, config: GCConfig | None) -> None:
    client = connected(say("an answer " * 100))
    client.set_gc_plugin(plugin, config)
    told: list[Any] = []
    client.send_message("hello", on_gc_threshold=lambda *both: told.append(both))
    assert told == []


def test_a_turn_that_failed_goes_on() -> None:
    limited = Fault(kind=FaultKind.RATE_LIMIT)
    client = connected(worker(1), faults=lambda call: limited if call == 2 else None)
    with pytest.raises(RateLimitError):
        client.send_message("read")
    assert len(client.get_history()) == 3
    heard: list[str] = []
    assert client.continue_turn(on_output=heard.append) == "done after 1 steps"
    assert "".join(heard) == "done after 1 steps"


@pytest.mark.parametrize(
    ("prompt", "more", "said"),
    [
        pytest.param(42, {}, "text, not int", id="a number"),
        pytest.param(" ", {}, "empty", id="nothing"),
        pytest.param("x", {"turn_type": "clarifcation"}, "clarification", id="a mistyped kind"),
    ],
)
def test_a_wrong_prompt_changes_nothing(prompt: Any, more: dict[str, Any], said: str) -> None:
    client = connected(say("ok"))
    with pytest.raises(UsageError, match=said) as raised:
        client.send_message(prompt, **more)
    assert raised.value.hint
    assert client.get_history() == []
    assert client.send_message("hello") == "ok"


# Tools and enrichment


def test_tools_take_the_place_of_all_others_before_and_after_connecting() -> None:
    seen: list[set[str]] = []

    def script(request: Request) -> Reply:
        seen.append({tool.name for tool in request.tools})
        return Reply(text="ok")

    def other(path: str) -> str:
        """Do something else."""
        return path

    client = connected(script)
    client.send_message("one")
    client.configure_tools([other])
    client.send_message("two")
    client.configure_tools([])
    client.send_message("three")
    own = {"recall", "spawn_subagent"}
    assert seen == [{"read", *own}, {"other", *own}, set()]
    plugin = client.instruction_budget.get_entry(InstructionSource.PLUGIN)
    assert plugin is not None
    assert plugin.total_tokens() == 0


@pytest.mark.parametrize("when", ["before connecting", "after it"])
@pytest.mark.parametrize(
    ("tools", "fact", "hint"),
    [
        pytest.param(read, "not a function", "tools=[...]", id="a function alone"),
        pytest.param("read", "not a str", "tools=[...]", id="a name"),
        pytest.param({"name": "read"}, "not a dict", "tools=[...]", id="a schema alone"),
        pytest.param(3, "not a int", "tools=[...]", id="a number"),
        pytest.param([3], "a int is no tool", "callable", id="a list of numbers"),
        pytest.param([{"name": "read"}], "no handler", "handler", id="nobody to call"),
        pytest.param([read, read], "two tools are named 'read'", "name=", id="one of them twice"),
    ],
)
def test_wrong_tools_are_refused_and_the_others_stay(
    when: str, tools: Any, fact: str, hint: str
) -> None:
    client = JaatoClient(sessions=None)
    client.configure_tools([read])
    provider = ScriptedProvider(worker(1))
    if when == "after it":
        client.connect(provider=provider)
    with pytest.raises(UsageError, match=fact) as raised:
        client.configure_tools(tools)
    assert hint in str(raised.value.hint)
    client.connect(provider=provider)
    assert client.send_message("read") == "done after 1 steps"


def test_the_tools_of_a_server_come_and_go_with_it() -> None:
    seen: list[bool] = []

    def script(request: Request) -> Reply:
        seen.append("add" in {tool.name for tool in request.tools})
        return Reply(text="ok")

    server = McpServerTools(command=sys.executable, args=[str(SERVER)])
    with JaatoClient(sessions=None) as client:
        client.configure_tools([read, server])
        client.connect(provider=ScriptedProvider(script))
        client.send_message("one")
        [add] = (tool for tool in server.tools if tool.schema.name == "add")
        assert not BRIDGE.run(add.call({"a": 1, "b": 2})).is_error
        client.configure_tools([read])
        client.send_message("two")
        assert server.on_change is None, "what it tells later brings nothing back"
        assert "was let go" in str(BRIDGE.run(add.call({"a": 1, "b": 2})).result)
        client.configure_tools([read, server])
        client.send_message("three")
    assert seen == [True, False, True]


def test_enrichment_is_asked_at_each_turn_before_and_after_connecting() -> None:
    sent: list[str] = []

    def script(request: Request) -> Reply:
        sent.append(request.messages[-1].text)
        return Reply(text="ok")

    client = JaatoClient(sessions=None)
    client.add_enrichment("echo", lambda prompt: prompt.upper())
    client.connect(provider=ScriptedProvider(script))
    client.send_message("one")
    client.add_enrichment("clock", lambda _prompt: "it is noon")
    client.send_message("two")
    assert "<echo>\nONE\n</echo>" in sent[0]
    assert "noon" not in sent[0]
    assert "<echo>\nTWO\n</echo>" in sent[1]
    assert "noon" in sent[1]
    assert [message.text for message in client.get_history()] == ["one", "ok", "two", "ok"]


# Collecting


@pytest.mark.parametrize("strategy", ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"])
@pytest.mark.parametrize("when", ["before connecting", "after it"])
def test_a_collector_may_be_set(when: str, strategy: str) -> None:
    client = JaatoClient(sessions=None)
    client.configure_tools([read])
    provider = ScriptedProvider(worker(4, lines=60), window=12_000)
    plugin, config = gc(strategy), GCConfig(threshold_percent=75.0, preserve_recent_turns=2)
    if when == "before connecting":
        client.set_gc_plugin(plugin, config)
    client.connect(provider=provider)
    if when == "after it":
        client.set_gc_plugin(plugin, config)
    client.send_message(ORIGINAL)
    for at in range(8):
        assert client.send_message(f"go on with {at}") == "done after 4 steps"
        assert client.get_context_usage()["percent_used"] < 100
    assert client.get_history()[0].text == ORIGINAL
    results = client.get_gc_history()
    assert {result.plugin_name for result in results} <= {strategy, "ladder"}
    assert any(result.tokens_freed > 0 for result in results)


@pytest.mark.parametrize(
    ("plugin", "config", "fact", "hint"),
    [
        pytest.param(
            (gc(), GCConfig()), None, "a tuple is no GC plug-in", "load_gc_from_file", id="a pair"
        ),
        pytest.param("gc_budget", None, "a str is no", "load_gc_plugin", id="a name"),
        pytest.param(type(gc()), None, "a type is no|ABCMeta is no", "load_gc_plugin", id="class"),
        pytest.param(
            gc(), {"threshold_percent": 75.0}, "a dict is no GCConfig", "GCConfig(", id="a dict"
        ),
    ],
)
@pytest.mark.parametrize("is_connected", [True, False], ids=["after", "before"])
def test_what_is_no_collector_is_refused(
    is_connected: bool, plugin: Any, config: Any, fact: str, hint: str
) -> None:
    client = connected(say("ok")) if is_connected else JaatoClient(sessions=None)
    with pytest.raises(UsageError, match=fact) as raised:
        client.set_gc_plugin(plugin, config)
    assert hint in str(raised.value.hint)
    client.connect(provider=ScriptedProvider(say("ok")))
    assert client.manual_gc() is None


def filled(turns: int = 8, **options: Any) -> JaatoClient:
    """A client with so many turns in its window, and a collector that waits to be asked."""
    client = connected(worker(2, lines=20), limit=8_400)
    config = GCConfig(target_percent=10.0, preserve_recent_turns=2)
    client.set_gc_plugin(gc("gc_truncate", **options), config)
    client.send_message(ORIGINAL)
    for at in range(1, turns):
        client.send_message(f"turn {at}")
    assert client.get_gc_history() == []
    return client


def test_manual_gc_frees_and_is_remembered() -> None:
    client = filled()
    collected: list[Event] = []
    client.on(collected.append, Collected)
    before = client.get_context_usage()
    result = client.manual_gc()
    assert result is not None
    assert (result.success, result.trigger_reason) == (True, GCTriggerReason.MANUAL)
    assert result.plugin_name == "gc_truncate"
    assert result.items_collected == len(result.removal_list) > 0
    assert result.tokens_before == before["total_tokens"]
    usage = client.get_context_usage()
    assert result.tokens_after == usage["total_tokens"] < before["total_tokens"]
    assert result.tokens_freed == result.tokens_before - result.tokens_after
    assert client.get_gc_history() == [result]
    assert [event.result for event in collected if isinstance(event, Collected)] == [result]
    kept = [message.text for message in client.get_history() if message.opens_turn]
    assert kept == [ORIGINAL, "turn 6", "turn 7"]


def test_a_preview_says_what_a_collection_would_do_and_does_nothing() -> None:
    client = filled()
    before = (client.get_history(), client.get_context_usage())
    plan = client.preview_gc()
    assert plan is not None
    assert not plan.is_nothing
    assert (client.get_history(), client.get_context_usage()) == before
    assert client.get_gc_history() == []
    result = client.manual_gc()
    assert result is not None
    assert (plan.tokens_before, plan.tokens_after) == (result.tokens_before, result.tokens_after)
    assert list(plan.removals) == result.removal_list
    again = client.preview_gc()
    assert again is not None
    assert again.is_nothing
    assert again.because


def test_without_a_collector_there_is_nothing_to_do_or_to_see() -> None:
    client = connected(say("ok"))
    client.send_message("hello")
    assert client.manual_gc() is None
    assert client.preview_gc() is None
    assert client.get_gc_history() == []


def test_a_pinned_turn_stays_until_its_pin_goes() -> None:
    client = filled()
    client.pin(3)
    client.manual_gc()
    kept = [message.text for message in client.get_history() if message.opens_turn]
    assert kept == [ORIGINAL, "turn 3", "turn 6", "turn 7"]
    client.unpin(3)
    client.manual_gc()
    kept = [message.text for message in client.get_history() if message.opens_turn]
    assert kept == [ORIGINAL, "turn 6", "turn 7"]


@pytest.mark.parametrize("turn", [-1, "3", 2.0, None, True], ids=repr)
def test_what_is_no_turn_cannot_be_pinned(turn: Any) -> None:
    client = connected(say("ok"))
    with pytest.raises(UsageError, match="no turn"):
        client.pin(turn)


# Looking


@pytest.mark.parametrize("limit", [16_000, None], ids=["a known limit", "an unknown one"])
def test_the_usage_has_the_printed_keys(limit: int | None) -> None:
    client = connected(say("a long answer " * 90), limit=limit, rules=None, tools=[])
    client.send_message("hello")
    usage, budget = client.get_context_usage(), client.instruction_budget
    assert usage["context_limit"] == budget.context_limit == limit
    assert usage["total_tokens"] == budget.total_tokens() > 0
    assert usage["percent_used"] == pytest.approx(budget.utilization_percent(), abs=0.1)
    if limit is None:
        assert (usage["percent_used"], usage["tokens_remaining"]) == (0.0, None)
    else:
        assert usage["tokens_remaining"] == pytest.approx(budget.available_tokens(), abs=16)
    assert usage["turns"] == 1


def test_a_reset_forgets_what_was_said_and_nothing_else() -> None:
    client = filled()
    client.manual_gc()
    client.pin(0)
    client.reset_session()
    assert client.get_history() == []
    assert client.get_gc_history() == []
    usage = client.get_context_usage()
    assert (usage["turns"], usage["context_limit"]) == (0, 8_400)
    assert client.send_message("read again") == "done after 2 steps"
    assert client.manual_gc() is not None
