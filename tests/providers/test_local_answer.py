"""How an answer of the local model grows, from bytes as tokens bring them. No model is needed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.providers.provider_contract import checked

from jaato.exchange import Finished, Request, StopReason, StreamEvent, ToolSchema, Usage, UsageSeen
from jaato.history import FunctionCall, Message, Part, Role
from jaato.providers.local_answer import Answer

TOOLS = (ToolSchema(name="read"),)
CALL = b'<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'
USAGE = Usage(input_tokens=9, output_tokens=3)


def answered(
    pieces: Iterable[bytes], *, tools: bool = True, cut: bool = False, calls: Iterable[str] = ()
) -> tuple[Finished, bool]:
    """The end of an answer, and whether it was over before the model ended it.

    `calls`: the ids of calls that the request holds.
    """
    held = [Part(function_call=FunctionCall(name, "read")) for name in calls]
    request = Request(
        model="m", messages=(Message(Role.MODEL, held),), tools=TOOLS if tools else ()
    )
    answer, events = Answer(request), list[StreamEvent]()
    for piece in pieces:
        events += answer.take(piece)
    was_over = answer.is_over
    events += answer.take(b"", final=True)
    finished = answer.finished(USAGE, cut=cut)
    return checked([*events, UsageSeen(USAGE), finished]), was_over


def letters(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@pytest.mark.parametrize(
    ("data", "text", "calls", "stop"),
    [
        pytest.param(b"Hello.", "Hello.", 0, StopReason.END, id="text"),
        pytest.param(
            "né 東 🎉".encode(), "né 東 🎉", 0, StopReason.END, id="letters of many bytes"
        ),
        pytest.param("🎉".encode()[:3], "�", 0, StopReason.END, id="half a letter at the end"),
        pytest.param(b"", "", 0, StopReason.END, id="nothing"),
        pytest.param(CALL, "", 1, StopReason.TOOL_CALLS, id="a call"),
        pytest.param(b"So: " + CALL * 2, "So: ", 2, StopReason.TOOL_CALLS, id="text and two calls"),
        pytest.param(
            CALL + b"\n " + CALL + b"\n", "", 2, StopReason.TOOL_CALLS, id="lines between calls"
        ),
        pytest.param(CALL[:-1], CALL[:-1].decode(), 0, StopReason.END, id="a call without an end"),
        pytest.param(CALL + CALL[:-1], "", 1, StopReason.TOOL_CALLS, id="and a whole one before"),
    ],
)
def test_an_answer(data: bytes, text: str, calls: int, stop: StopReason) -> None:
    for pieces in ([data], letters(data)):
        finished, _ = answered(pieces)
        assert finished.message.text == text
        assert len(finished.message.function_calls) == calls
        assert finished.stop is stop
        assert finished.message.parts, "a history holds no empty message"


@pytest.mark.parametrize(
    ("pieces", "was_over"),
    [
        pytest.param([CALL, b"\n", CALL, b"\n"], False, id="calls in a row are one answer"),
        pytest.param([CALL, b"<tool_call>"], False, id="another call may follow"),
        pytest.param([CALL, b"\n<tool_response>"], True, id="results that the model makes up"),
        pytest.param([b"Sure: "], False, id="text before a call"),
    ],
)
def test_it_is_over_where_the_model_goes_on_after_its_calls(
    pieces: list[bytes], *, was_over: bool
) -> None:
    assert answered(pieces)[1] is was_over


@pytest.mark.parametrize(
    ("data", "calls"),
    [
        pytest.param(b"Once upon", 0, id="text"),
        pytest.param(CALL, 1, id="behind a call"),
        pytest.param(CALL + CALL[:20], 1, id="within the second call"),
        pytest.param(CALL[:20], 0, id="within the first call"),
    ],
)
def test_an_answer_that_was_cut_says_so(data: bytes, calls: int) -> None:
    finished, _ = answered([data], cut=True)
    assert finished.stop is StopReason.LENGTH
    assert len(finished.message.function_calls) == calls


def test_without_tools_a_call_is_text() -> None:
    finished, _ = answered([CALL], tools=False)
    assert finished.message.text == CALL.decode()


@pytest.mark.parametrize(
    ("held", "first"),
    [
        pytest.param([], "call_1", id="nothing"),
        pytest.param(["call_1", "call_2"], "call_3", id="two of ours"),
        pytest.param(["call_7"], "call_8", id="one whose predecessors were collected"),
        pytest.param(["toolu_9", "call_x", "call_", "call_" + "9" * 5_000], "call_1", id="foreign"),
    ],
)
def test_no_id_of_the_request_is_given_again(held: list[str], first: str) -> None:
    finished, _ = answered([CALL], calls=held)
    assert [call.id for call in finished.message.function_calls] == [first]
