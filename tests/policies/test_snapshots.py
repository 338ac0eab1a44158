"""Every policy and wrapper explains itself: plain data, an account per tenant, and a sentence."""

from __future__ import annotations

import json
from itertools import count

import pytest

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
from fairq.counterexamples import ChargeAtTheEnd, DeficitWithoutQuantum, NoLift, RoundRobin

ids = count()

# name: a fresh policy, and the fields of its accounts (none: it remembers nothing of a tenant)
COUNTER, RING = {"weight", "counter", "place"}, {"weight", "gain", "deficit", "round", "open", "due", "place"}
POLICIES = {
    "FIFO": (FIFO, set()),
    "strict": (lambda: Priority(ageing=None), set()),
    "aged": (lambda: Priority(ageing=5), set()),
    "accumulating": (lambda: AccumulatingPriority({0: 2, 1: 1}), set()),
    "shortest": (Shortest, set()),
    "DRR": (lambda: DRR(5), RING),
    "VTC": (VTC, COUNTER),
    "SFQ": (SFQ, {"weight", "start", "place"}),
    "levels": (lambda: Levels({0: VTC(), 1: VTC()}), {"in", *COUNTER}),
    "aged levels": (lambda: Levels({0: DRR(5), 1: DRR(5)}, ageing=3), {"in", *RING}),
    "nested": (lambda: Nested({"a": "x", "b": "x"}, lambda org: VTC()), {"in", *COUNTER}),
    "no lift": (NoLift, COUNTER),
    "charge at the end": (ChargeAtTheEnd, COUNTER),
    "round robin": (RoundRobin, {"place"}),
    "deficit without quantum": (DeficitWithoutQuantum, {"weight", "deficit"}),
}
WRAPS = {
    "bare": lambda p: p,
    "caps": lambda p: KeyCaps(p, default=1),
    "soft caps": lambda p: SoftCaps(p, default=1),
    "floors": lambda p: Floors(p, {"g": (["c"], 1)}, slots=3),
    "all of them": lambda p: KeyCaps(Floors(SoftCaps(p, default=1), {"g": (["c"], 1)}, slots=3), default=2),
}


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("name", POLICIES)
def test_every_decision_is_explained(name, wrap):
    make, fields = POLICIES[name]
    policy, running = WRAPS[wrap](make()), []
    for n in range(24):
        policy.put(Request("abc"[n % 3], 1 + n % 4, arrival=n, priority=n % 2, id=n))
    for step in range(40):
        now = 30 + step
        view = policy.snapshot(now=now)
        json.dumps(view, default=str)
        chosen = policy.peek(now=now)
        assert (view["next"] or {}).get("id") == (chosen and chosen.id)
        assert view["why"].endswith(".")
        if chosen is not None:
            assert chosen.tenant in view["why"]
        elif len(policy):
            assert "held back" in view["why"]
        for account in view["accounts"].values():
            assert set(account) == fields
        if fields:
            accounts = " ".join(view["accounts"])
            assert all(tenant in accounts for tenant in view["lines"])
        request = policy.get(now=now)
        assert request is chosen
        if request is not None:
            running.append(request)
        if running and (request is None or step % 3 == 2):
            policy.done(running.pop(0), 7)
    assert len(policy) == 0 or running


def test_who_orders_by_time_asks_for_it():
    policy = Levels({0: AccumulatingPriority({0: 1}), 1: FIFO()})
    policy.put(Request("a", 1, arrival=0, priority=1))
    view = policy.snapshot()
    assert view["next"] is None
    assert view["why"] == "Levels orders by time: say when (now=…)."
    assert policy.snapshot(now=1)["next"]["tenant"] == "a"
