"""Schedules worked out by hand, at the level of the policy: dispatch order, every start, every finish.

The values are those of the conventions (finishes, then arrivals, then dispatching at one instant). The
loop here shares nothing with the simulator, which is held to the same schedules elsewhere.
"""

from __future__ import annotations

import pytest

from fairq import DRR, FIFO, SFQ, VTC, KeyCaps, Priority, Request
from fairq.prove.loop import serve


def some(ids, *, arrival=0, service=1, cost=1, priority=0):
    return [
        Request(i[0], cost, id=i, arrival=arrival, service=service, priority=priority) for i in ids.split()
    ]


NOISY = some("n1 n2 n3 n4 n5 n6 n7 n8") + some("a1 b1 a2 b2", arrival=0.5)
SIX_EACH = some("A1 A2 A3 A4 A5 A6 B1 B2 B3 B4 B5 B6 C1 C2 C3 C4 C5 C6")
STREAM = [Request("i", 1, id=f"i{t}", arrival=t, service=1) for t in range(10)]
STARVED = [STREAM[0], *some("b", priority=1), *STREAM[1:]]
GROUPS = some("x1 x2 x3 x4 y1 y2", service=10) + some("i1 i2 i3 j1 j2 j3 k1 k2 k3", service=4)
W123 = {"A": 1, "B": 2, "C": 3}

CASES = {
    "FIFO: simultaneous arrivals in input order": (
        some("a", service=2) + some("b c") + some("d", service=3) + some("e", arrival=1),
        FIFO(),
        2,
        {"a": 0, "b": 0, "c": 1, "d": 2, "e": 2},
    ),
    "FIFO: the small ones wait for the burst": (
        NOISY,
        FIFO(),
        2,
        {
            "n1": 0, "n2": 0, "n3": 1, "n4": 1, "n5": 2, "n6": 2, "n7": 3, "n8": 3,
            "a1": 4, "b1": 4, "a2": 5, "b2": 5,
        },
    ),
    "DRR: the small ones pass the burst": (
        NOISY,
        DRR(1),
        2,
        {
            "n1": 0, "n2": 0, "a1": 1, "b1": 1, "n3": 2, "a2": 2, "b2": 3, "n4": 3,
            "n5": 4, "n6": 4, "n7": 5, "n8": 5,
        },
    ),
    "caps: interactive keys two each, batch keys two in total": (
        GROUPS,
        KeyCaps(FIFO(), per_key={"i": 2, "j": 2, "k": 2}, groups={"batch": (["x", "y"], 2)}),
        8,
        {
            "x1": 0, "x2": 0, "i1": 0, "i2": 0, "j1": 0, "j2": 0, "k1": 0, "k2": 0,
            "i3": 4, "j3": 4, "k3": 4, "x3": 10, "x4": 10, "y1": 20, "y2": 20,
        },
    ),
    "DRR: a cost of 25 needs three visits of 10": (
        some("A1", service=25, cost=25) + some("B1 B2 B3 B4", service=10, cost=10),
        DRR(10),
        1,
        {"B1": 0, "B2": 10, "A1": 20, "B3": 45, "B4": 55},
    ),
    "DRR: a tenant that goes empty loses its credit": (
        some("A1", service=4, cost=4)
        + some("B1 B2 B3", service=10, cost=10)
        + some("A2", arrival=5, service=16, cost=16),
        DRR(10),
        1,
        {"A1": 0, "B1": 4, "B2": 14, "A2": 24, "B3": 40},
    ),
    "DRR: a tenant that returns joins at the back": (
        some("A1 B1 B2 C1 C2") + some("A2", arrival=0.5),
        DRR(1),
        1,
        {"A1": 0, "B1": 1, "C1": 2, "A2": 3, "B2": 4, "C2": 5},
    ),
    "DRR: weights 1:2:3, each round is A BB CCC": (
        SIX_EACH,
        DRR(1, W123),
        1,
        {
            "A1": 0, "B1": 1, "B2": 2, "C1": 3, "C2": 4, "C3": 5,
            "A2": 6, "B3": 7, "B4": 8, "C4": 9, "C5": 10, "C6": 11,
            "A3": 12, "B5": 13, "B6": 14, "A4": 15, "A5": 16, "A6": 17,
        },
    ),
    "DRR: the same on three slots": (
        SIX_EACH,
        DRR(1, W123),
        3,
        {
            "A1": 0, "B1": 0, "B2": 0, "C1": 1, "C2": 1, "C3": 1,
            "A2": 2, "B3": 2, "B4": 2, "C4": 3, "C5": 3, "C6": 3,
            "A3": 4, "B5": 4, "B6": 4, "A4": 5, "A5": 5, "A6": 5,
        },
    ),
    "strict priority starves the batch request": (
        STARVED,
        Priority(ageing=None),
        1,
        {**{f"i{t}": t for t in range(10)}, "b": 10},
    ),
    "ageing ends it after one level": (
        STARVED,
        Priority(ageing=5.0),
        1,
        {**{f"i{t}": t for t in range(5)}, "b": 5, **{f"i{t}": t + 1 for t in range(5, 10)}},
    ),
    "ageing: waited exactly 600 s, goes before a fresh one": (
        some("x", service=600) + some("b", service=100, priority=1) + some("i", arrival=600),
        Priority(ageing=600.0),
        1,
        {"x": 0, "b": 600, "i": 700},
    ),
    "nothing to do": ([], DRR(1), 3, {}),
    # A: 0 → 2, B: 0 → 1/2 → 1 → 3/2 → 2 → 5/2 in tokens per weight; the tie at 2 goes to A, put earlier.
    "VTC: weights 1:2 by counter": (
        some("A1 A2", cost=2, service=1) + some("B1 B2 B3 B4 B5"),
        VTC({"B": 2}),
        1,
        {"A1": 0, "B1": 1, "B2": 2, "B3": 3, "B4": 4, "A2": 5, "B5": 6},
    ),
    # B idles until 4 and is lifted to A's 4: they alternate from there. Unlifted, B1 B2 B3 would run first.
    "VTC: a returning tenant is lifted": (
        some("A1 A2 A3 A4 A5 A6 A7") + some("B1 B2 B3", arrival=4),
        VTC(),
        1,
        {"A1": 0, "A2": 1, "A3": 2, "A4": 3, "A5": 4, "B1": 5, "A6": 6, "B2": 7, "A7": 8, "B3": 9},
    ),
    # Start tags A: 0, 3, 6; B (w 3): 0, 1, 2, 3, 4. Ties: the earlier in the input.
    "SFQ: start tags, weights 1:3": (
        some("A1 A2 A3 B1 B2 B3 B4 B5", cost=3),
        SFQ({"B": 3}),
        1,
        {"A1": 0, "B1": 1, "B2": 2, "B3": 3, "A2": 4, "B4": 5, "B5": 6, "A3": 7},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_schedule(name):
    requests, policy, slots, starts = CASES[name]
    served = serve(policy, slots, requests)
    assert [s.request.id for s in served] == list(starts)
    assert {s.request.id: s.start for s in served} == starts
    service = {request.id: request.service for request in requests}
    assert all(s.finish == starts[s.request.id] + service[s.request.id] for s in served)
