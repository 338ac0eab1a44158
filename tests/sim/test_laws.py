"""What holds for every policy on every path, whatever the requests."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairq
from fairq import (
    DRR,
    FIFO,
    SFQ,
    VTC,
    AccumulatingPriority,
    Floors,
    KeyCaps,
    Levels,
    Nested,
    Priority,
    Request,
    Shortest,
    SoftCaps,
)
from fairq.policies.base import Policy
from fairq.sim import SlotEngine, replicate, simulate

WORK_CONSERVING = {
    "fifo": FIFO,
    "strict": lambda: Priority(ageing=None),
    "aged": lambda: Priority(ageing=2),
    "accumulating": lambda: AccumulatingPriority({0: 4, 1: 2, 2: 1}),
    "shortest": Shortest,
    "drr": lambda: DRR(quantum=2, weights={"b": 3}),
    "vtc": lambda: VTC({"b": 3}),
    "sfq": lambda: SFQ({"b": 3}),
    "levels": lambda: Levels({0: DRR(quantum=2), 1: VTC(), 2: Shortest()}),
    "levels that age": lambda: Levels({0: SFQ(), 1: DRR(quantum=2), 2: FIFO()}, ageing=2),
    "nested": lambda: Nested({"a": "org", "b": "org"}, lambda org: DRR(quantum=2), weights={"org": 2}),
    "uncapped": lambda: KeyCaps(DRR(quantum=5), default=None),
    "lending": lambda: SoftCaps(VTC(), default=1),  # what would idle is lent
    "no floor": lambda: Floors(SFQ(), {"none": (["a"], 0)}, slots=4),
}
"""Each a fresh policy that leaves no slot idle; in orders that differ (tested below)."""


def draw_requests(draw, service=None):
    return [
        Request(
            draw(st.sampled_from("abc")),
            draw(st.integers(1, 5)),
            id=n,
            priority=draw(st.integers(0, 2)),
            arrival=Fraction(draw(st.integers(0, 30)), 3),
            service=Fraction(draw(st.integers(0, 7)), 7) if service is None else service,
        )
        for n in range(draw(st.integers(1, 30)))
    ]


def results(requests, slots):
    return {name: simulate(requests, policy(), SlotEngine(slots)) for name, policy in WORK_CONSERVING.items()}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_one_slot_conserves_makespan_rate_and_weighted_waits(data):
    """Kleinrock 1965: Σ service·wait is the same for every work-conserving order, path by path."""
    requests = draw_requests(data.draw)
    runs = results(requests, 1)
    totals = set()
    for run in runs.values():
        rows = run.all_requests
        totals.add(
            sum(
                (f - s) * (s - a)
                for a, s, f in zip(rows["arrival"], rows["start"], rows["finish"], strict=True)
            )
        )
    assert len(totals) == 1
    assert len({max(run.all_requests["finish"]) for run in runs.values()}) == 1
    assert len({run.makespan for run in runs.values()}) == 1
    assert len({repr(run.requests_per_s) for run in runs.values()}) == 1


@settings(max_examples=40, deadline=None)
@given(data=st.data(), slots=st.integers(1, 4))
def test_equal_sizes_conserve_every_finish_time(data, slots):
    requests = draw_requests(data.draw, service=Fraction(2, 3))
    runs = results(requests, slots).values()
    assert len({tuple(sorted(run.all_requests["finish"])) for run in runs}) == 1
    assert len({sum(run.all_requests["wait"]) for run in runs}) == 1


@settings(max_examples=40, deadline=None)
@given(data=st.data(), slots=st.integers(1, 4), policy=st.sampled_from(list(WORK_CONSERVING)))
def test_nobody_is_lost_and_no_slot_idles(data, slots, policy):
    requests = draw_requests(data.draw)
    result = simulate(requests, WORK_CONSERVING[policy](), SlotEngine(slots))
    rows = result.all_requests
    assert sorted(rows["id"]) == [request.id for request in requests]
    assert set(rows["dispatch"]) == set(range(len(requests)))
    assert (rows["start"] >= rows["arrival"]).all()
    # Each instant at which something happens, seen by itself.
    for t in {*rows["arrival"], *rows["start"], *rows["finish"]}:
        running = sum((s <= t) & (t < f) for s, f in zip(rows["start"], rows["finish"], strict=True))
        waiting = sum((a <= t) & (t < s) for a, s in zip(rows["arrival"], rows["start"], strict=True))
        assert running <= slots
        assert waiting == 0 or running == slots
    for slot in range(slots):
        held = rows[rows["slot"] == slot]
        for (s1, f1), (s2, f2) in combinations(zip(held["start"], held["finish"], strict=True), 2):
            assert f1 <= s2 or f2 <= s1


def test_every_policy_of_the_package_is_among_them_and_they_order_differently():
    """What is conserved says something only of orders that are not one and the same."""
    kinds = {type(make()) for make in WORK_CONSERVING.values()}
    public = [getattr(fairq, name) for name in fairq.__all__]
    assert {kind for kind in public if isinstance(kind, type) and issubclass(kind, Policy)} - {
        Policy
    } == kinds
    requests = [
        Request("abc"[n % 7 % 3], 1 + n % 4, priority=n % 3, arrival=n // 5, service=1 + n % 4)
        for n in range(60)
    ]
    orders = {tuple(run.all_requests["start"]) for run in results(requests, 1).values()}
    assert len(orders) > 8


class Everyone:
    """40 requests a second for three tenants, sizes in tokens."""

    def requests(self, seed, replication=0):
        rng = np.random.default_rng([seed, replication])
        arrivals = np.cumsum(rng.exponential(1 / 40, 2000)).tolist()
        prompts, outputs = rng.integers(1, 900, 2000).tolist(), rng.integers(1, 30, 2000).tolist()
        return [
            Request("abc"[n % 3], p + o, arrival=t, prompt_tokens=p, output_tokens=o)
            for n, (t, p, o) in enumerate(zip(arrivals, prompts, outputs, strict=True))
        ]


@pytest.mark.parametrize("policy", WORK_CONSERVING)
def test_the_same_seed_gives_the_same_bytes(policy, tmp_path):
    make = WORK_CONSERVING[policy]
    for name in ("one.csv", "two.csv"):
        simulate(Everyone(), make(), SlotEngine(), seed=5, warmup=3).to_csv(tmp_path / name)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    # … and a run within a series is the run by itself.
    series = replicate(Everyone(), make, SlotEngine, seed=5, replications=3, warmup=3)
    alone = simulate(Everyone(), make(), SlotEngine(), seed=5, replication=2, warmup=3)
    assert series[2].requests.equals(alone.requests)
    assert not series[1].requests.equals(alone.requests)


def test_every_policy_meets_the_same_requests():
    asked = ["tenant", "arrival", "cost", "prompt_tokens", "output_tokens"]
    fifo, drr = (simulate(Everyone(), policy, SlotEngine(), seed=1) for policy in (FIFO(), DRR(quantum=300)))
    assert fifo.requests[asked].equals(drr.requests[asked])
    assert not fifo.requests["start"].equals(drr.requests["start"])


def test_more_slots_or_fewer_arrivals_wait_less():
    requests = Everyone().requests(3)
    waits = [simulate(requests, FIFO(), SlotEngine(n)).requests["wait"].mean() for n in (8, 12, 16)]
    assert waits[0] > waits[1] > waits[2]
    fewer = simulate(requests[::2], FIFO(), SlotEngine(8)).requests["wait"].mean()
    assert fewer < waits[0]


def test_a_policy_that_ignores_its_promise_would_be_seen():
    """The null case: last in, first out conserves too, but an idling policy does not."""

    class Lazy(FIFO):
        def get(self, eligible=None, now=None):
            return super().get(eligible, now) if len(self) > 1 else None

    rows = simulate([Request("a", 1, arrival=t, service=1) for t in range(3)], Lazy(), SlotEngine(1))
    assert rows.counts() == {"finished": 2, "cancelled": 0, "refused": 0, "unfinished": 1}
