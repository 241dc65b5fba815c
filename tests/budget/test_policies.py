"""The names, members and tables that existing users import."""

from __future__ import annotations

import math
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.budget import (
    DEFAULT_SOURCE_POLICIES,
    DEFAULT_SYSTEM_POLICIES,
    DEFAULT_TOOL_POLICIES,
    DEFAULT_TURN_POLICIES,
    GC_POLICY_INDICATORS,
    ConversationTurnType,
    GCPolicy,
    InstructionSource,
    PluginToolType,
    SystemChildType,
    estimate_tokens,
)


@pytest.mark.parametrize(
    ("enum", "members"),
    [
        pytest.param(
            InstructionSource, "SYSTEM PLUGIN ENRICHMENT CONVERSATION THINKING", id="sources"
        ),
        pytest.param(GCPolicy, "LOCKED PRESERVABLE PARTIAL EPHEMERAL CONDITIONAL", id="policies"),
        pytest.param(SystemChildType, "BASE CLIENT FRAMEWORK SELECTED_REFERENCES", id="system"),
        pytest.param(
            ConversationTurnType,
            "ORIGINAL_REQUEST CLARIFICATION_Q CLARIFICATION_A TURN_SUMMARY WORKING",
            id="turn types",
        ),
        pytest.param(PluginToolType, "CORE DISCOVERABLE", id="tools"),
    ],
)
def test_members_are_strings_in_lower_case(enum: type[StrEnum], members: str) -> None:
    assert [member.name for member in enum] == members.split()
    assert [str(member) for member in enum] == members.lower().split()


def test_default_policies_are_those_of_the_specification() -> None:
    locked, preservable, partial, ephemeral = list(GCPolicy)[:4]
    assert list(DEFAULT_SOURCE_POLICIES.values()) == [
        locked,
        partial,
        ephemeral,
        partial,
        ephemeral,
    ]
    assert list(DEFAULT_SOURCE_POLICIES) == list(InstructionSource)
    assert dict.fromkeys(SystemChildType, locked) == DEFAULT_SYSTEM_POLICIES
    assert list(DEFAULT_TURN_POLICIES.values()) == [
        locked,
        preservable,
        preservable,
        preservable,
        ephemeral,
    ]
    assert list(DEFAULT_TURN_POLICIES) == list(ConversationTurnType)
    assert {PluginToolType.CORE: locked, PluginToolType.DISCOVERABLE: ephemeral} == (
        DEFAULT_TOOL_POLICIES
    )


def test_every_policy_has_its_sign() -> None:
    assert {policy: GC_POLICY_INDICATORS[policy] for policy in GCPolicy} == {
        "locked": "🔒",
        "preservable": "◑",
        "partial": "◐",
        "ephemeral": "○",
        "conditional": "◈",
    }


@pytest.mark.parametrize(
    ("text", "ratio", "tokens"),
    [
        pytest.param("", 4.0, 0, id="nothing is 0"),
        pytest.param("a", 4.0, 1, id="a rest counts"),
        pytest.param("abcd", 4.0, 1, id="a full token"),
        pytest.param("abcde", 4.0, 2, id="rounded up"),
        pytest.param("abcd", 2.0, 2, id="another ratio"),
        pytest.param("\ud800" * 8, 4.0, 2, id="lone surrogates are characters"),
    ],
)
def test_estimate(text: str, ratio: float, tokens: int) -> None:
    assert estimate_tokens(text, ratio) == tokens


@given(st.text(), st.floats() | st.just(0.0))
def test_an_estimate_never_raises(text: str, ratio: float) -> None:
    assert estimate_tokens(text, ratio) >= (1 if text else 0)
    assert estimate_tokens(text, math.nan) == estimate_tokens(text)
