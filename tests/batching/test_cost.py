"""Time per request, not per token: counted in calls, which are the same on every machine."""

from __future__ import annotations

import sys

import pytest

from fairq.sim.batching import BatchCore, Limits, Profile, Sequence, replay


def work(n: int, output: int) -> tuple[BatchCore, list[tuple[float, Sequence]]]:
    """All there from the start, so that there are as many batch changes whatever the length."""
    core = BatchCore(Profile(16.875, 0.042, 1.493e-4, 0.0932), Limits(64, 2048, 64 * 4096))
    return core, [(0.0, Sequence(100 + i % 50, output + 7 * (i % 11))) for i in range(n)]


def calls(core: BatchCore, arrivals: list[tuple[float, Sequence]]) -> int:
    count = 0

    def counting(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counting)
    try:
        replay(core, arrivals)
    finally:
        sys.setprofile(before)
    return count


def test_ten_times_the_tokens_cost_the_same() -> None:
    short_core, short = work(1000, 200)
    long_core, long = work(1000, 2000)
    short_calls, long_calls = calls(short_core, short), calls(long_core, long)
    assert long_core.steps > 8 * short_core.steps
    assert long_core.changes == pytest.approx(short_core.changes, rel=0.1)
    assert long_calls < 1.1 * short_calls


def test_the_cost_grows_with_the_requests() -> None:
    small, large = calls(*work(500, 200)), calls(*work(2000, 200))
    assert large < 1.2 * 4 * small
