"""Shortest first: the order by hand, what it buys, and what it costs."""

from __future__ import annotations

import random
from itertools import count, permutations

from fairq import FIFO, Request, Shortest

from .drive import serve

ids = count()


def ask(tenant, cost, **more):
    return Request(tenant, cost, id=next(ids), **more)


def test_the_smallest_goes_first_and_ties_by_arrival():
    policy = Shortest()
    asked = [
        ask("a", 5, arrival=0),
        ask("b", 2, arrival=4),
        ask("c", 2, arrival=3),
        ask("a", 9, arrival=1),
        ask("a", 1, arrival=9),
    ]
    for request in asked:
        policy.put(request)
    assert policy.snapshot()["why"] == "a's request is the shortest that may run: 1 tokens."
    assert [policy.get() for _ in asked] == [asked[4], asked[2], asked[1], asked[0], asked[3]]


def test_no_other_order_has_a_smaller_mean_wait():
    """All there at once on one slot: against every one of the 720 orders of six requests."""
    sizes = [7, 3, 9, 1, 4, 4]
    served = serve(Shortest(), [ask("a", s, arrival=0, service=s) for s in sizes], 1)
    best = min(sum(sum(p[:k]) for k in range(len(p))) for p in permutations(sizes))
    assert sum(start for start, _, _ in served) == best


def test_it_buys_the_mean_and_pays_with_the_long():
    """One slot at 95 % load, mostly short: the mean wait falls, the longest wait of the long ones grows."""
    draw = random.Random(3)
    now, requests = 0, []
    for _ in range(4000):
        now += draw.expovariate(0.95)
        cost = 0.5 if draw.random() < 0.9 else 5.5
        requests.append(ask("long" if cost > 1 else "short", cost, arrival=now, service=cost))
    waits = {}
    for policy in (FIFO(), Shortest()):
        served = serve(policy, requests, 1)
        every = [start - r.arrival for start, _, r in served]
        longest = max(start - r.arrival for start, _, r in served if r.tenant == "long")
        waits[type(policy).__name__] = sum(every) / len(every), longest
    assert waits["Shortest"][0] < waits["FIFO"][0] / 2
    assert waits["Shortest"][1] > waits["FIFO"][1] * 1.5
