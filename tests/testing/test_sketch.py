from __future__ import annotations

import pytest
from hypothesis import given

from jaato.history import STUB_MARK, FunctionCall, Kind, Media, Message, Part, Role, ToolResult
from jaato.testing import SketchError, histories, sketch, sketch_of

CANONICAL = [
    "",
    "u c1 r1 a u a",
    "u c1,2 r1,2 a",
    "u c1,2 r1 e2 a",
    "u tc1 r1 tac1 r1~ ta t",
    "u c1,2,3 r1~,2+e3 a",
    "u c1 R1 c2 E2~ c3 R3+u",
    "um m s n u",
    "c1+r1+a c_,_ r_,_",
    "-u -a -r",
    "u ccall_7,call_8 rcall_7,call_8~",
]


@pytest.mark.parametrize("picture", CANONICAL)
def test_drawing_and_reading_back_is_the_same(picture: str) -> None:
    assert sketch_of(sketch(picture)) == picture


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        ("u", Message(Role.USER, [Part("u0")], "m0")),
        ("a", Message(Role.MODEL, [Part("a0")], "m0")),
        ("m", Message(Role.USER, [Part(inline_data=Media("image/png", b"m0"))], "m0")),
        ("s", Message(Role.USER, [Part("u0")], "m0", Kind.SUMMARY)),
        ("n", Message(Role.USER, [Part("u0")], "m0", Kind.NOTICE)),
        ("ta", Message(Role.MODEL, [Part(thought="t0"), Part("a0.1")], "m0")),
        (
            "c1",
            Message(
                Role.MODEL, [Part(function_call=FunctionCall("1", "tool", {"input": "c0"}))], "m0"
            ),
        ),
        ("r1", Message(Role.TOOL, [Part(function_response=ToolResult("1", "tool", "r0"))], "m0")),
        (
            "E_",
            Message(Role.USER, [Part(function_response=ToolResult("", "tool", "E0", True))], "m0"),
        ),
    ],
)
def test_what_a_token_draws(picture: str, message: Message) -> None:
    assert sketch(picture) == [message]


def test_a_stub_is_marked() -> None:
    (stub,) = sketch("e1~")
    part = stub.parts[0]
    assert STUB_MARK in part.extra
    assert part.function_response == ToolResult("1", "tool", "[removed]", is_error=True)


def test_texts_are_as_long_as_asked_and_distinct() -> None:
    history = sketch("u ta c1 r1", words=50)
    said = [part.text or part.thought for message in history for part in message.parts]
    texts = [text for text in said if text]
    assert [len(text.split()) for text in texts] == [50, 50, 50]
    assert len(set(texts)) == len(texts)


def test_ids_go_on_where_another_picture_ended() -> None:
    assert [message.message_id for message in sketch("u a", first=7)] == ["m7", "m8"]


@pytest.mark.parametrize(
    ("token", "hint"),
    [
        ("x", "the letters are"),
        ("u1", "the letters are"),
        ("c", "c needs the id of its call, as in c1"),
        ("us", "s stands alone"),
        ("c1,,2", "the empty id is written _"),
        ("c1~", "a call cannot"),
        ("c1+", "joins two parts"),
        ("-x", "messages without parts are -u, -a and -r"),
    ],
)
def test_a_bad_token_is_an_error_with_a_hint(token: str, hint: str) -> None:
    with pytest.raises(SketchError, match=r"no message is drawn as") as caught:
        sketch(f"u {token} a")
    assert caught.value.token == token
    assert hint in (caught.value.hint or "")


@given(histories(max_turns=5, max_messages=60))
def test_every_history_has_a_picture_of_the_same_shape(history: list[Message]) -> None:
    picture = sketch_of(history)
    again = sketch(picture)
    assert sketch_of(again) == picture
    assert [
        (one.role, one.kind, one.call_ids, one.result_ids, one.opens_turn) for one in again
    ] == [(one.role, one.kind, one.call_ids, one.result_ids, one.opens_turn) for one in history]
