"""Schedules worked out by hand, and the closed form of a stretch."""

from __future__ import annotations

from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairq.sim.batching import BatchCore, Limits, Profile, Sequence, replay
from fairq.sim.batching.core import EPS, Stretch

TEN_MS = Profile(a_ms=10, b_ms=0, c_ms=0, p_ms=0)


def run(profile: Profile, limits: Limits, *work: tuple[float, int, int, int]) -> list[Sequence]:
    """(arrival s, prompt, output, priority) through a fresh core."""
    return replay(
        BatchCore(profile, limits), [(t, Sequence(p, out, priority=prio)) for t, p, out, prio in work]
    )


def test_one_request_takes_the_formula() -> None:
    profile = Profile(a_ms=10, b_ms=1, c_ms=0.01, p_ms=0.5, o_ms=2)
    (only,) = run(profile, Limits(8, 2048, 4096), (3.0, 100, 5, 0))
    prefill = 2 + max(10 + 1, 0.5 * 100) + 0.01 * 100
    decodes = [2 + 10 + 1 + 0.01 * context for context in (101, 102, 103, 104)]
    assert only.first == pytest.approx(3 + prefill / 1000, abs=1e-12)
    assert only.finish == pytest.approx(3 + fsum([prefill, *decodes]) / 1000, abs=1e-12)


def test_a_prompt_is_computed_in_chunks_and_decodes_take_their_part_of_the_budget() -> None:
    profile = Profile(a_ms=10, b_ms=0, c_ms=0, p_ms=1)
    limits = Limits(4, 64, 4096)
    # Alone: chunks of 64 and 36, the first token after the second.
    (alone,) = run(profile, limits, (0.0, 100, 1, 0))
    assert alone.first == pytest.approx(0.064 + 0.036)
    # Beside one that decodes from 10 ms on: 63 and 37.
    decoding, beside = run(profile, limits, (0.0, 5, 50, 0), (0.005, 100, 1, 0))
    assert decoding.first == pytest.approx(0.010)
    assert beside.scheduled == pytest.approx(0.010)
    assert beside.first == pytest.approx(0.010 + 0.063 + 0.037)


def test_without_chunks_a_prompt_has_a_step_of_its_own_and_the_decodes_wait() -> None:
    profile = Profile(a_ms=10, b_ms=0, c_ms=0, p_ms=1)
    limits = Limits(4, 200, 4096, chunked_prefill=False)
    decoding, beside = run(profile, limits, (0.0, 5, 3, 0), (0.005, 100, 1, 0))
    assert beside.first == pytest.approx(0.010 + 0.100)
    assert decoding.finish == pytest.approx(0.010 + 0.100 + 0.010 + 0.010)


def test_the_newest_is_preempted_and_recomputed() -> None:
    """Four blocks of four tokens, two requests of 4 + 9 tokens, every step 10 ms.

    Steps 1 to 5: both run, 8 tokens of context each fill all blocks. Step 6: the first needs a block, the
    second gives up its two. It needs three for its 9 tokens, which are free when the first is done (step 9);
    step 10 recomputes them and makes its sixth token, steps 11 to 13 the rest.
    """
    first, second = run(TEN_MS, Limits(8, 64, 16, block_tokens=4), (0.0, 4, 9, 0), (0.0, 4, 9, 0))
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert first.finish == pytest.approx(0.09)
    assert second.first == pytest.approx(0.01)
    assert second.finish == pytest.approx(0.13)


def test_by_priority_the_least_important_is_preempted_whenever_it_came() -> None:
    limits = Limits(8, 64, 16, block_tokens=4, scheduling="priority")
    batch, chat = run(TEN_MS, limits, (0.0, 4, 9, 1), (0.0, 4, 9, 0))
    assert (batch.preemptions, chat.preemptions) == (1, 0)
    assert chat.finish == pytest.approx(0.09)
    assert batch.finish == pytest.approx(0.13)


def test_its_own_queue_is_first_come_first_served_or_by_priority() -> None:
    work = [(0.0, 4, 10, 0), (0.01, 4, 10, 5), (0.02, 4, 10, 1), (0.03, 4, 10, 3)]
    for scheduling, order in (("fcfs", [0, 1, 2, 3]), ("priority", [0, 2, 3, 1])):
        done = run(TEN_MS, Limits(1, 64, 4096, scheduling=scheduling), *work)
        assert sorted(range(4), key=lambda i: done[i].finish) == order


def test_admission_by_peak_preempts_nobody_where_the_others_do() -> None:
    work = [(0.0, 4, 60, 0)] * 6
    for admission, preempts in (("prompt", True), ("chunk", True), ("peak", False)):
        done = run(TEN_MS, Limits(8, 64, 160, block_tokens=1, admission=admission), *work)
        assert any(s.preemptions for s in done) == preempts


def test_a_whole_prompt_must_fit_or_only_its_first_chunk() -> None:
    """48 tokens of cache; the first holds 17 to 20 of them for 4 steps, the second has a prompt of 40."""
    for admission, scheduled in (("prompt", 0.04), ("chunk", 0.01)):
        limits = Limits(8, 17, 48, block_tokens=1, admission=admission)
        _, second = run(TEN_MS, limits, (0.0, 17, 4, 0), (0.0, 40, 1, 0))
        assert second.scheduled == pytest.approx(scheduled)


def test_no_output_ends_with_the_prompt() -> None:
    (only,) = run(TEN_MS, Limits(8, 64, 4096), (0.0, 100, 0, 0))
    assert only.finish == pytest.approx(0.02)


@given(
    x=st.floats(0.5, 300),
    y=st.floats(0, 1),
    at=st.floats(0, 1e5),
    after=st.floats(0, 500),
)
def test_the_boundary_is_the_first_step_that_ends_no_earlier(
    x: float, y: float, at: float, after: float
) -> None:
    stretch = Stretch(at, 10**9, x, y, 1, [], [], True)
    n = stretch.boundary(at + after)
    assert stretch.time(n) >= at + after - EPS
    assert n == 0 or stretch.time(n - 1) < at + after - EPS


@pytest.mark.parametrize("n", [0, 1, 2, 17, 1000])
def test_a_stretch_takes_the_sum_of_its_steps(n: int) -> None:
    stretch = Stretch(5.0, n, 12.5, 0.25, 1, [], [], True)
    assert stretch.time(n) == pytest.approx(5 + fsum(12.5 + 0.25 * k for k in range(n)) / 1000, abs=1e-12)
