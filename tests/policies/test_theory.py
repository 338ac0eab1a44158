"""The closed forms against published values, and waits that are known path by path."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fairq import FIFO, AccumulatingPriority, Priority, Request
from fairq.prove import waits
from fairq.prove.loop import serve


@pytest.mark.parametrize(
    ("slots", "rate", "wait"),
    [(1, 0.8, 4), (2, 1.5, 1.285714286), (8, 7.0, 0.6353160175), (32, 28.8, 0.1431864442)],
)
def test_erlang(slots, rate, wait):
    assert waits.mmc_wait(slots, rate) == pytest.approx(wait, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "mean", "second", "wait"),
    [(0.8, 1, 1, 2), (0.8, 1, 4 / 3, 2.666666667), (0.8, 1, 1.5, 3), (0.6, 1, 6.5, 4.875)],
)
def test_pollaczek_khinchine(rate, mean, second, wait):
    assert waits.mg1_wait(rate, mean, second) == pytest.approx(wait, rel=1e-9)


def test_cobham_and_kella_yechiali():
    assert waits.cobham(0.8, [0.3, 0.2, 0.3]) == pytest.approx([1.142857143, 2.285714286, 8])
    assert waits.cobham(1.225, [0.1, 0.6]) == pytest.approx([1.361111111, 4.537037037])
    busy = waits.erlang_c(8, 7.0) / 8
    wanted = [0.1058860029, 0.2117720058, 1.270632035]
    assert waits.cobham(busy, [0.25, 0.25, 0.375]) == pytest.approx(wanted, rel=1e-9)


def test_accumulating():
    assert waits.accumulating(0.8, [0.4, 0.4], [1, 4]) == pytest.approx([5.714285714, 2.285714286])
    assert waits.accumulating(0.4, [0.3, 0.5], [1, 2]) == pytest.approx([2.666666667, 1.6])
    assert waits.accumulating(0.9, [0.3] * 3, [1, 2, 6]) == pytest.approx([15, 8.4375, 3.5625])
    eight = waits.accumulating(waits.erlang_c(8, 7.0) / 8, [3 / 8, 4 / 8], [1, 3])
    assert eight == pytest.approx([0.9529740263, 0.397072511], rel=1e-9)


@pytest.mark.parametrize(
    ("seconds", "high", "low", "slots", "wanted"),
    [
        (1, 0.4, 0.5, 1, (8.569659959, 9.344272033)),
        (4, 0.4, 0.5, 1, (7.4512544, 10.23899648)),
        (16, 0.4, 0.5, 1, (4.537895872, 12.5696833)),
        (2, 3.0, 4.5, 8, (0.9553618801, 2.053933899)),
        (0, 0.4, 0.5, 1, (9, 9)),  # no head start: FIFO
        (1_000, 0.3, 0.5, 1, (0.8 / 0.7, 0.8 / 0.7 / 0.2)),  # a long one: strict
    ],
)
def test_head_start(seconds, high, low, slots, wanted):
    assert waits.head_start(seconds, high, low, slots) == pytest.approx(wanted, rel=1e-7)


def test_scenarios_cover_every_family():
    names = " ".join(s.name for s in waits.scenarios())
    for family in (
        "strict priority M/M/1",
        "M/G/1",
        "M/M/8",
        "accumulating 1:2:6",
        "head start 16",
        "conservation",
    ):
        assert family in names


@pytest.mark.parametrize("seed", range(10))
def test_fifo_waits_follow_lindley_on_one_slot(seed):
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.integers(0, 5, 300))
    services = rng.integers(0, 5, 300)
    requests = [
        Request("a", 1, arrival=int(a), service=int(s)) for a, s in zip(arrivals, services, strict=True)
    ]
    got = [s.start - s.request.arrival for s in serve(FIFO(), 1, requests)]
    assert got == waits.lindley(arrivals, services).tolist()


@pytest.mark.parametrize("slots", [2, 3, 8])
def test_fifo_waits_follow_kiefer_and_wolfowitz_on_many(slots):
    draw = random.Random(slots)
    requests, now = [], 0
    for _ in range(400):
        now += draw.randint(0, 3)
        requests.append(Request("a", 1, arrival=now, service=draw.randint(0, 6 * slots // 3)))
    free, wanted = [0] * slots, []
    for request in requests:
        free.sort()
        start = max(free[0], request.arrival)
        wanted.append(start)
        free[0] = start + request.service
    assert [s.start for s in serve(FIFO(), slots, requests)] == wanted


def test_equal_rates_and_equal_levels_are_fifo():
    draw = random.Random(1)
    requests = [
        Request("a", 1, arrival=n // 3, service=draw.randint(0, 3), priority=draw.randint(0, 2))
        for n in range(200)
    ]
    fifo = [s.request for s in serve(FIFO(), 2, requests)]
    for policy in (Priority(ageing=0), AccumulatingPriority(dict.fromkeys(range(3), 7))):
        assert [s.request for s in serve(policy, 2, requests)] == fifo


def test_a_mean_wait_holds_and_five_per_cent_off_does_not():
    """The quickest of them; ``fairq prove`` and the slow tests do all."""
    scenario = next(s for s in waits.scenarios() if s.name == "strict priority M/G/1")
    lines = scenario.lines()
    assert all(line.holds for line in lines), lines
    mean, half = map(float, lines[1].measured.split(" ± "))
    assert abs(mean - 1.05 * scenario.wanted[1]) > half


@pytest.mark.slow
@pytest.mark.parametrize("scenario", waits.scenarios(), ids=lambda s: s.name)
def test_every_mean_wait(scenario):
    for line in scenario.lines():
        assert line.holds, line
