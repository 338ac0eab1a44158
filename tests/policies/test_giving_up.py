"""Requests that give up, time out or are turned away: counted, and they leave nothing behind."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count

import pytest

from fairq import DRR, VTC, Floors, KeyCaps, Request, SoftCaps
from fairq.scenario import Scenario
from fairq.sim import simulate

from .table import ROWS

ids = count()


def ask(tenant, cost=1, **more):
    return Request(tenant, cost, **{"arrival": 0, "id": next(ids), **more})


LEFT_OVER = {"DRR 10": 10, "nested": 10, "levels": 10, "VTC": 1, "SFQ": 1}
"""Of a fair policy: by how many unit requests two tenants may differ."""
WRAPS = {
    "bare": lambda p: p,
    "caps": lambda p: KeyCaps(p, default=1),
    "soft caps": lambda p: SoftCaps(p, default=1),
    "floors": lambda p: Floors(p, {"g": (["c"], 1)}, slots=4),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_ghosts_hold_no_cap_and_change_no_order(row, wrap):
    """Requests that come and give up again at once: whoever is served is served as if they had never come."""
    for seed in range(20):
        draw = random.Random(seed)
        haunted, clean = wrap(row.make({})), wrap(row.make({}))
        running = []
        for step in range(60):
            if draw.random() < 0.5:
                request = ask(draw.choice("abc"), draw.randint(1, 9), arrival=step)
                for policy in (haunted, clean):
                    policy.put(request)
                # a ghost behind it, of a tenant that waits already: it joins no ring and lifts nobody
                ghost = ask(request.tenant, draw.randint(1, 9), arrival=step)
                haunted.put(ghost)
                assert haunted.cancel(ghost)
                assert not haunted.cancel(ghost)
            elif draw.random() < 0.7:
                request = haunted.get(now=step)
                assert clean.get(now=step) is request
                running += [request] if request else []
            elif running:
                request = running.pop(draw.randrange(len(running)))
                for policy in (haunted, clean):
                    policy.done(request)
            assert haunted.snapshot(now=step)["lines"] == clean.snapshot(now=step)["lines"]


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_queue_counts_who_gave_up(row, wrap):
    policy = wrap(row.make({}))
    assert policy.cancelled == 0
    asked = [ask("a") for _ in range(4)]
    for request in asked:
        policy.put(request)
    served = policy.get(now=1)
    gone = [request for request in asked if request is not served][:2]
    for number, request in enumerate(gone, 1):
        assert policy.cancel(request)
        assert not policy.cancel(request)
        assert policy.cancelled == number
    policy.done(served)
    assert policy.cancelled == 2


@pytest.mark.parametrize("wrap", [lambda p: p, KeyCaps], ids=["bare", "capped"])
@pytest.mark.parametrize("cost", [1_000, 3])
def test_what_a_ring_saved_up_for_one_that_gives_up_goes_with_it(cost, wrap):
    """Quantum 1. While b is served 400 times, a saves up for its first request, of 1,000. It gives up, and
    the next costs 2: of 400 gains 2 are left. a's visits then have 3 (2 are sent), 2 (sent), 1, 2 (sent).
    Where the first costs 3, b is served twice: the 2 gained are what the next one costs, and nothing is
    forfeited.
    """
    queue = wrap(DRR(1))
    first = ask("a", cost, arrival=0)
    queue.put(first)
    for _ in range(300):
        queue.put(ask("a", 2, arrival=1))
    for _ in range(900):
        queue.put(ask("b", arrival=1))
    for _ in range(min(400, cost - 1)):
        assert queue.get().tenant == "b"
    assert queue.cancel(first)
    assert queue.snapshot()["accounts"]["a"]["deficit"] == 2
    assert "".join(queue.get().tenant for _ in range(6)) == "ababba"


def test_what_a_ring_was_given_back_stays_when_another_gives_up():
    """Quantum 10: a's first was said to cost 10 and costs 2, so 8 are given back. Its next, of 30, gives up
    after one visit in vain: of 8 + 10 the 8 stay, though the one behind costs 1.
    """
    queue = DRR(10)
    a, b = [ask("a", cost) for cost in (10, 30, 1, 9, 9)], [ask("b", 10) for _ in range(4)]
    for request in a + b:
        queue.put(request)
    assert [queue.get(), queue.get(), queue.get()] == [a[0], *b[:2]]
    queue.done(a[0], 2)
    assert queue.snapshot()["accounts"]["a"]["deficit"] == 18
    assert queue.cancel(a[1])
    assert queue.snapshot()["accounts"]["a"]["deficit"] == 8


@pytest.mark.parametrize("order", [(1, 2), (2, 1)], ids=["the first first", "the second first"])
def test_what_was_given_back_stays_when_two_give_up(order):
    """As above with requests of 60, 20, 1 behind: three visits in vain gain 30. When the 60 goes, 20 of
    38 are kept, as the next costs 20; when both have gone, the 8 that are a's own.
    """
    queue = DRR(10)
    a, b = [ask("a", cost) for cost in (10, 60, 20, 1, 9)], [ask("b", 10) for _ in range(6)]
    for request in a + b:
        queue.put(request)
    assert [queue.get() for _ in range(5)] == [a[0], *b[:4]]
    queue.done(a[0], 2)
    assert queue.snapshot()["accounts"]["a"]["deficit"] == 38
    left = {(1, 2): [20, 8], (2, 1): [38, 8]}[order]
    for number, deficit in zip(order, left, strict=True):
        assert queue.cancel(a[number])
        assert queue.snapshot()["accounts"]["a"]["deficit"] == deficit


def test_what_was_saved_up_at_another_weight_goes_too():
    """Ninety visits at weight 100 gain 9,000 of the 10,000 that a's first costs. At weight 1 it gives up."""
    queue = DRR(1, {"a": 100})
    first = ask("a", 10_000)
    for request in [first, *(ask("a") for _ in range(5)), *(ask("b") for _ in range(200))]:
        queue.put(request)
    for _ in range(90):
        assert queue.get().tenant == "b"
    queue.set_weight("a", 1)
    assert queue.snapshot()["accounts"]["a"]["deficit"] == 9_000
    assert queue.cancel(first)
    assert queue.snapshot()["accounts"]["a"]["deficit"] == 1


@pytest.mark.parametrize("name", LEFT_OVER)
def test_a_tenant_that_only_cancels_earns_no_credit(name):
    """b keeps a line of requests that all give up before their turn while a is served; then both are busy."""
    policy = ROWS[name].make({})
    for _ in range(200):
        policy.put(ask("a"))
    for _ in range(100):
        ghosts = [ask("b", 50) for _ in range(3)]
        for ghost in ghosts:
            policy.put(ghost)
        policy.done(policy.get(lambda key: key == "a"))
        for ghost in ghosts:
            assert policy.cancel(ghost)
    for _ in range(100):
        policy.put(ask("b"))
    first = Counter()
    for _ in range(60):
        request = policy.get()
        first[request.tenant] += 1
        policy.done(request)
    assert abs(first["a"] - first["b"]) <= LEFT_OVER[name]


@pytest.mark.parametrize("wrap", ["caps", "soft caps"])
def test_a_cap_opens_when_work_ends_and_not_when_a_ghost_leaves(wrap):
    policy = WRAPS[wrap](VTC())
    first, second, ghost = ask("a"), ask("a"), ask("a")
    for request in (first, ghost, second):
        policy.put(request)
    assert policy.get() is first
    policy.cancel(ghost)
    policy.put(ask("b"))
    assert policy.peek().tenant == "b"
    policy.done(first)
    assert policy.peek() is second


SCENARIO = {
    "name": "giving up",
    "seed": 3,
    "horizon_s": 200,
    "engine": {"kind": "slots", "slots": 2},
    "tenants": {
        "patient": {
            "arrivals": {"kind": "poisson", "rate_per_s": 0.3},
            "prompt_tokens": 100,
            "output_tokens": 10,
            "service_s": 3,
        },
        "hasty": {
            "arrivals": {"kind": "poisson", "rate_per_s": 0.5},
            "prompt_tokens": 100,
            "output_tokens": 10,
            "service_s": 3,
            "patience_s": 4,
        },
        "crowd": {
            "arrivals": {"kind": "dump", "at_s": 50, "requests": 40},
            "prompt_tokens": 100,
            "output_tokens": 10,
            "service_s": 1,
            "line_limit": 5,
        },
    },
    "policies": {
        "FIFO": {"policy": "fifo"},
        "fair": {"policy": "vtc"},
        "levels": {"policy": "levels", "levels": {0: {"policy": "sfq"}}},
        "nested": {"policy": "nested", "inside": {"policy": "drr", "quantum": 110}},
        "lent": {"policy": "soft_caps", "default": 1, "around": {"policy": "vtc"}},
        "kept": {
            "policy": "floors",
            "slots": 2,
            "floors": {"p": {"keys": ["patient"], "slots": 1}},
            "around": {"policy": "vtc"},
        },
    },
}


@pytest.mark.parametrize("name", SCENARIO["policies"])
def test_the_model_counts_who_gave_up_and_who_was_turned_away(name):
    scenario = Scenario.from_data(SCENARIO)
    result = simulate(scenario.workload(), scenario.policy(name), scenario.engine(), seed=scenario.seed)
    rows = result.requests
    status = {tenant: Counter(group["status"]) for tenant, group in rows.groupby("tenant")}
    drawn = Counter(r.tenant for r in scenario.workload().requests(scenario.seed))
    for tenant, n in drawn.items():
        assert status[tenant].total() == n  # none lost, none twice
    assert set(status["patient"]) == {"finished"}
    assert status["hasty"]["cancelled"] > 5
    gone = rows[rows["status"] == "cancelled"]
    assert gone["start"].isna().all()
    waits = rows[(rows["tenant"] == "hasty") & (rows["status"] == "finished")]["wait"]
    assert waits.max() <= 4
    # of 40 at once five may wait; those that find a free slot do not count as waiting
    assert 33 <= status["crowd"]["refused"] <= 35
