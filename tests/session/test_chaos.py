"""A few runs of `make soak`'s chaos: each fault under the rules of each API, kills included."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.chaos import FAULTS, RULES, Case, main_case

SEEDS = range(len(FAULTS) * len(RULES))


def name_of(seed: int) -> str:
    case = Case(seed)
    return f"{case.fault}, {case.rules}, {case.strategy}"


@pytest.mark.parametrize("seed", SEEDS, ids=name_of)
def test_after_one_fault_nothing_is_lost_repeated_or_refused(seed: int, tmp_path: Path) -> None:
    assert main_case(seed, tmp_path) == []


def test_each_fault_is_tried_under_the_rules_of_each_api() -> None:
    tried = {(Case(seed).fault, Case(seed).rules) for seed in SEEDS}
    assert tried == {(fault, rules) for fault in FAULTS for rules in RULES}
