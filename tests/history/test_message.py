from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from jaato.errors import UsageError
from jaato.history import FunctionCall, Kind, Media, Message, Part, Role, ToolResult
from jaato.testing import sketch


def test_a_message_is_built_by_position_as_the_specification_prints_it() -> None:
    message = Message(Role.USER, [Part("hello")], "m-1")
    assert (message.role, message.text, message.message_id) == (Role.USER, "hello", "m-1")
    assert message.parts == (Part(text="hello"),)


def test_a_message_without_an_id_gets_one_of_its_own() -> None:
    one, other = (Message.from_text("user", "hello") for _ in range(2))
    assert one.message_id
    assert one.message_id != other.message_id


def test_calls_and_results_are_built_by_position() -> None:
    call = FunctionCall("c1", "read", {"path": "x"})
    result = ToolResult("c1", "read", "text", True)
    assert (call.id, call.name, call.args) == ("c1", "read", {"path": "x"})
    assert (result.call_id, result.name, result.result, result.is_error) == (
        "c1",
        "read",
        "text",
        True,
    )
    assert FunctionCall("c2", "ls").args == {}


@pytest.mark.parametrize(
    ("spelling", "role"),
    [
        ("user", Role.USER),
        ("human", Role.USER),
        ("model", Role.MODEL),
        ("assistant", Role.MODEL),
        ("ai", Role.MODEL),
        ("tool", Role.TOOL),
        ("function", Role.TOOL),
    ],
)
def test_foreign_roles_are_understood(spelling: str, role: Role) -> None:
    assert Role(spelling) is role
    message = Message.from_text(spelling, "hello")
    assert message.role is role
    assert message.opens_turn == (role is Role.USER)


def test_an_unknown_role_is_an_error() -> None:
    with pytest.raises(ValueError, match="narrator"):
        Message.from_text("narrator", "meanwhile")


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        pytest.param({}, 0, id="nothing"),
        pytest.param({"text": "a", "thought": "b"}, 2, id="text and thought"),
        pytest.param(
            {"text": "", "function_call": FunctionCall("1", "run")}, 2, id="even where one is empty"
        ),
    ],
)
def test_a_part_holds_exactly_one_thing(given: dict[str, Any], holds: int) -> None:
    with pytest.raises(UsageError, match=f"this one holds {holds}") as caught:
        Part(**given)
    assert "inline_data" in str(caught.value.hint)


@pytest.mark.parametrize("given", [{"text": ""}, {"thought": ""}], ids=str)
def test_empty_is_a_thing(given: dict[str, Any]) -> None:
    Part(**given)


def test_media_may_come_as_a_dict() -> None:
    data: Any = {"mime_type": "image/png", "data": b"\x89"}
    assert Part(inline_data=data).inline_data == Media("image/png", b"\x89")


def test_attachments_become_a_tuple() -> None:
    picture = Media("image/png", b"")
    attachments: Any = [picture]
    assert ToolResult("1", "run", attachments=attachments).attachments == (picture,)
    none: Any = None
    assert ToolResult("1", "run", attachments=none).attachments == ()


@pytest.mark.parametrize("name", ["role", "parts", "message_id", "kind", "extra"])
def test_a_message_is_frozen(name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(sketch("u")[0], name, None)


@pytest.mark.parametrize(
    ("token", "opens_turn", "calls", "results"),
    [
        pytest.param("u", True, (), (), id="a user message opens a turn"),
        pytest.param("m", True, (), (), id="media do too"),
        pytest.param("a", False, (), (), id="a model message does not"),
        pytest.param("s", False, (), (), id="a summary does not"),
        pytest.param("n", False, (), (), id="a notice does not"),
        pytest.param("c1,2", False, ("1", "2"), (), id="calls wait for answers"),
        pytest.param("r1,2", False, (), ("1", "2"), id="results answer"),
        pytest.param("R1", False, (), ("1",), id="results in the user role open nothing"),
        pytest.param("R1+u", False, (), ("1",), id="nor with a text beside them"),
        pytest.param("c1+r1+a", False, (), (), id="a call answered in its own message is done"),
        pytest.param("c1,1+r1", False, ("1",), (), id="one answer is for one of two equal calls"),
        pytest.param("r1+c1", False, ("1",), ("1",), id="an answer comes after its call"),
    ],
)
def test_what_a_message_derives(
    token: str, opens_turn: bool, calls: tuple[str, ...], results: tuple[str, ...]
) -> None:
    message = sketch(token)[0]
    assert (message.opens_turn, message.call_ids, message.result_ids) == (
        opens_turn,
        calls,
        results,
    )


def test_text_leaves_out_thoughts_calls_and_results() -> None:
    assert sketch("tac1")[0].text == "a0.1"
    assert sketch("r1")[0].text == ""


def test_other_parts_keep_who_a_message_is() -> None:
    message = Message("user", [Part("x")], "m-1", Kind.SUMMARY, {"by": "model"})
    shorter = message.with_parts([Part("y")])
    assert (shorter.message_id, shorter.kind, shorter.extra) == (
        "m-1",
        Kind.SUMMARY,
        {"by": "model"},
    )
    assert message.text == "x"
    assert shorter.text == "y"


def test_a_count_is_kept_per_counter_and_not_passed_on() -> None:
    message = sketch("u")[0]
    assert message.tokens_by("words") is None
    message.remember_tokens("words", 7)
    assert message.tokens_by("words") == 7
    assert message.tokens_by("letters") is None
    assert message.with_parts([Part("y")]).tokens_by("words") is None
    assert message == sketch("u")[0]


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(copy.copy, id="copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda one: pickle.loads(pickle.dumps(one)), id="pickle"),  # noqa: S301 -- ours
    ],
)
def test_copies_are_equal_and_derive_the_same(again: Any) -> None:
    for message in sketch("um tac1,2 r1+e2 n s c3"):
        other = again(message)
        assert other == message
        assert (other.opens_turn, other.call_ids, other.result_ids) == (
            message.opens_turn,
            message.call_ids,
            message.result_ids,
        )


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        pytest.param(lambda: Message("wizard"), "assistant", id="a role that is none"),
        pytest.param(lambda: Message("user", "hello"), "from_text", id="a text"),  # type: ignore[arg-type]  # likewise
        pytest.param(lambda: Message("user", [5]), "Part", id="a number for a part"),  # type: ignore[list-item]  # a caller's mistake
    ],
)
def test_what_is_no_message_is_told_with_a_hint(make: Callable[[], Message], hint: str) -> None:
    with pytest.raises(UsageError) as told:
        make()
    assert told.value.hint is not None
    assert hint in told.value.hint
