"""Shortening: within the limit, both ends visible, the largest first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.session.shorten import lowest_cap, shortened_text
from jaato.tokens import default_counter

TEXT = "\n".join(f"line {at}: value_{at * 7919 % 1000}" for at in range(2_000))


@pytest.mark.parametrize("limit", [64, 200, 1_000, 5_000])
def test_a_shortened_text_fits_and_shows_both_ends(limit: int) -> None:
    counter = default_counter()
    short = shortened_text(TEXT, counter=counter, limit=limit, handle="r1")
    assert counter.count_texts([short])[0] <= limit
    assert counter.count_texts([short])[0] >= limit * 0.9
    assert short.startswith("line 0")
    assert short.endswith(TEXT[-10:])
    assert 'recall("r1")' in short


@given(
    sizes=st.lists(st.integers(1, 10_000), max_size=20),
    need=st.integers(0, 50_000),
    floor=st.integers(1, 200),
)
def test_the_cap_frees_what_is_needed_and_no_more_than_it_must(
    sizes: list[int], need: int, floor: int
) -> None:
    def freed(cap: int) -> int:
        return sum(max(size - cap, 0) for size in sizes)

    cap = lowest_cap(sizes, need, floor)
    assert cap >= floor
    if freed(floor) >= need:
        assert freed(cap) >= need
        assert cap == max(sizes, default=floor) or freed(cap + 1) < need or need == 0
    else:
        assert cap == floor
