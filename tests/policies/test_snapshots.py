"""Every policy and wrapper explains itself: plain data, an account per tenant, and a sentence."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import count

import pytest

from fairq import (
    FIFO,
    SFQ,
    VTC,
    AccumulatingPriority,
    Floors,
    KeyCaps,
    Levels,
    Nested,
    Request,
    Shortest,
    SoftCaps,
)

from .table import ROWS

ids = count()

COUNTER, RING = {"weight", "counter", "place"}, {"weight", "gain", "deficit", "round", "open", "due", "place"}
START = {"weight", "start", "place"}
ACCOUNTS = {
    "DRR 10": RING,
    "DRR 1": RING,
    "DRR 5/2": RING,
    "VTC": COUNTER,
    "SFQ": START,
    "levels": {"in"},
    "levels that age": {"in"},
    "nested": {"in"},
    "nested twice": {"in"},
    "no lift": COUNTER,
    "charge at the end": COUNTER,
    "round robin": {"place"},
    "deficit without quantum": {"weight", "deficit"},
}
"""The fields of a policy's accounts; a policy not named remembers nothing of a tenant, and {"in"} stands for
those of the policies inside."""
INSIDE = (RING, COUNTER, START)
WRAPS = {
    "bare": lambda p: p,
    "caps": lambda p: KeyCaps(p, default=1),
    "soft caps": lambda p: SoftCaps(p, default=1),
    "floors": lambda p: Floors(p, {"g": (["c"], 1)}, slots=3),
    "all of them": lambda p: KeyCaps(Floors(SoftCaps(p, default=1), {"g": (["c"], 1)}, slots=3), default=2),
}


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("name", ROWS)
def test_every_decision_is_explained(name, wrap):
    fields = ACCOUNTS.get(name, set())
    policy, running = WRAPS[wrap](ROWS[name].make({})), []
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
            inside = set(account) - {"in"}
            assert set(account) == fields or (fields == {"in"} <= set(account) and inside in INSIDE)
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


# -- whole views, by hand ----------------------------------------------------------------------------

FIRST, SECOND = (
    {"id": "a1", "key": "k", "cost": 3, "arrival": 0.5, "priority": 0},
    {"id": "a2", "key": "k", "cost": 4, "arrival": 1, "priority": 0},
)
OTHER = {"id": "b1", "key": "b", "cost": 5, "arrival": 1, "priority": 0}


def filled(policy):
    for tenant, plain in (("a", FIRST), ("a", SECOND), ("b", OTHER)):
        policy.put(Request(tenant, **plain))
    return policy


def view(policy, account):
    """What a policy shows once a's first request runs; ``account``: what it calls a counter."""
    return {
        "policy": type(policy).__name__,
        "lines": {"a": [SECOND], "b": [OTHER]},
        "running": [{"tenant": "a", **FIRST, "charged": 3}],
        "accounts": {
            "a": {"weight": 2, account: Fraction(3, 2), "place": 1},
            "b": {"weight": 1, account: 0, "place": 0},
        },
        "next": {"tenant": "b", **OTHER},
    }


def test_all_that_sfq_shows():
    policy = filled(SFQ({"a": 2}))
    policy.get()
    assert policy.snapshot() == {
        **view(policy, "start"),
        "why": (
            "b's head has the least start tag among those that may run, 0; its finish tag is 0 + 5/1 = 5."
        ),
    }
    policy.get()
    assert policy.snapshot()["why"] == (
        "a's head has the least start tag among those that may run, 3/2; its finish tag is 3/2 + 4/2 = 7/2."
    )
    assert policy.snapshot()["accounts"]["b"] == {"weight": 1, "start": 5, "place": None}


def test_all_that_vtc_shows():
    policy = filled(VTC({"a": 2}))
    policy.get()
    said = "b has been charged least among those that may run: 0 tokens per weight (a: 3/2)."
    assert policy.snapshot() == {**view(policy, "counter"), "why": said}
    policy.get()
    assert policy.snapshot()["why"] == (
        "a has been charged least among those that may run: 3/2 tokens per weight; nobody else waits."
    )


def test_vtc_names_the_next_of_several():
    """Counters a 3, b 2, c 1, and each waits; at equal counters the earlier head is named."""
    policy = VTC()
    for tenant, cost in zip("abcabcd", (3, 2, 1, 9, 9, 9, 9), strict=True):
        policy.put(Request(tenant, cost))
    first = [policy.get() for _ in range(3)]
    assert policy.get().tenant == "d"
    policy.charge(first[2], 1)
    said = "c has been charged least among those that may run: 1 tokens per weight"
    assert policy.snapshot()["why"] == f"{said} (b: 2)."
    policy.charge(first[1], 3)
    assert policy.snapshot()["why"] == f"{said} (a: 3)."


def test_all_that_levels_show():
    policy = Levels({1: Shortest(), 0: VTC(), 2.5: VTC()})
    for tenant, level in (("a", 1), ("a", 0), ("b", 0), ("a", 2.5)):
        policy.put(Request(tenant, 7, priority=level))
    shown = policy.snapshot()
    inside = "a has been charged least among those that may run: 0 tokens per weight (b: 0)."
    assert shown["why"] == f"Level 0 is the most urgent with work that may run. In it: {inside}"
    assert list(shown["inside"]) == ["level 0", "level 1", "level 2.5"]
    assert shown["inside"]["level 0"]["why"] == inside
    assert shown["accounts"] == {
        "a in level 0": {"in": "level 0", "weight": 1, "counter": 0, "place": 0},
        "b": {"in": "level 0", "weight": 1, "counter": 0, "place": 1},
        "a in level 2.5": {"in": "level 2.5", "weight": 1, "counter": 0, "place": 0},
    }
    policy.get()
    policy.get()
    assert policy.snapshot()["why"] == (
        "Level 1 is the most urgent with work that may run. "
        "In it: a's request is the shortest that may run: 7 tokens."
    )


def test_all_that_a_nest_shows():
    policy = filled(Nested({"a": "x"}, lambda branch: FIFO(), {"x": 2}))
    policy.get()
    shown = policy.snapshot()
    assert shown["branches"] == {
        "x": {"weight": 2, "counter": Fraction(3, 2), "waiting": 1},
        "b": {"weight": 1, "counter": 0, "waiting": 1},
    }
    assert shown["accounts"] == {}
    assert list(shown["inside"]) == ["x", "b"]
    assert shown["why"] == (
        "b has been charged least among the branches with work that may run: 0 tokens per weight. "
        "In it: b's request arrived first, at 1 s."
    )


def test_the_free_slots_are_kept_for_whoever_lacks_them():
    policy = Floors(KeyCaps(FIFO(), {"x": 5}), {"f": (["x"], 1), "g": (["y"], 2), "h": (["z"], 1)}, slots=5)
    for key in "xww":
        policy.put(Request("t", 1, key=key, arrival=0))
    for _ in range(2):
        policy.get()
    shown = policy.snapshot()
    assert shown["policy"] == "FIFO under caps over floors"
    assert shown["floors"] == {
        "f": {"slots": 1, "running": 1, "kept": 0},
        "g": {"slots": 2, "running": 0, "kept": 2},
        "h": {"slots": 1, "running": 0, "kept": 1},
    }
    assert shown["caps"]["keys"] == {"x": {"running": 1, "limit": 5}, "w": {"running": 1, "limit": None}}
    assert shown["why"] == (
        "Nothing may run: every waiting key is held back. The free slots are kept for: g, h."
    )
    for key in "yyz":
        policy.put(Request("t", 1, key=key, arrival=1))
        policy.get()
    assert policy.free == 0
    assert policy.snapshot()["why"] == "Nothing may run: every waiting key is held back."


def test_wrappers_are_named_from_the_inside_out():
    assert SoftCaps(KeyCaps(FIFO())).snapshot()["policy"] == "FIFO under caps under soft caps"
    assert KeyCaps(SoftCaps(FIFO())).snapshot()["policy"] == "FIFO under soft caps under caps"
    assert SoftCaps(SoftCaps(FIFO())).snapshot()["policy"] == "FIFO under soft caps under soft caps"
    policy = SoftCaps(Floors(FIFO(), {}, slots=1))
    assert policy.snapshot()["policy"] == "FIFO over floors under soft caps"
    assert policy.snapshot()["why"] == "Nothing waits."


def test_what_a_wrapper_shows_of_the_inside_is_as_of_the_same_time():
    policy = KeyCaps(Levels({0: AccumulatingPriority({0: 1})}))
    policy.put(Request("a", 1, arrival=0))
    assert policy.snapshot(now=5)["inside"]["level 0"]["next"]["tenant"] == "a"
    assert policy.snapshot()["inside"]["level 0"]["next"] is None


def test_what_soft_caps_say_of_those_over_them():
    policy = SoftCaps(FIFO(), {"a": 1, "b": 0})
    for key in "aab":
        policy.put(Request(key, 1, arrival=0))
    policy.get()
    assert policy.snapshot()["why"] == (
        "a's request arrived first, at 0 s. The slot is lent: nobody within its cap waits. "
        "Over a soft cap: a, b."
    )
    assert policy.snapshot(now=5)["caps"] == {
        "keys": {"a": {"running": 1, "limit": 1}, "b": {"running": 0, "limit": 0}},
        "groups": {},
        "inside": None,
    }
    policy.put(Request("c", 1, arrival=0))
    assert policy.snapshot()["why"] == "c's request arrived first, at 0 s. Over a soft cap: a, b."
