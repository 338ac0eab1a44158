"""Predicates that change their minds or fail, and numbers at the edge of what a float can count."""

from __future__ import annotations

import random

import pytest

from fairq import DRR, FIFO, SFQ, VTC, KeyCaps, Priority, Request

POLICIES = {
    "fifo": FIFO,
    "strict": lambda: Priority(None),
    "drr": lambda: DRR(5),
    "vtc": VTC,
    "sfq": SFQ,
    "capped fifo": lambda: KeyCaps(FIFO(), default=5),
    "capped drr": lambda: KeyCaps(DRR(5), groups={"all": (["a", "b"], 9)}),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_predicate_that_raises_loses_nobody(name):
    queue = POLICIES[name]()
    for tenant in "ab":
        queue.put(Request(tenant, 1))

    def eligible(key):
        if key == "a":
            return False
        raise KeyError(key)

    with pytest.raises(KeyError):
        queue.peek(eligible)
    with pytest.raises(KeyError):
        queue.get(eligible)
    assert sorted(queue.get().tenant for _ in range(2)) == ["a", "b"]


@pytest.mark.parametrize("name", POLICIES)
def test_a_predicate_that_answers_at_random_loses_nobody(name):
    queue, dice = POLICIES[name](), random.Random(1)
    for n in range(20):
        queue.put(Request("ab"[n % 2], 1, id=n))
    for _ in range(200):
        queue.peek(lambda key: dice.random() < 0.5)
    left = []
    while len(queue):
        request = queue.get(lambda key: dice.random() < 0.5) or queue.get()
        queue.done(request)
        left.append(request.id)
    assert sorted(left) == list(range(20))


def test_a_predicate_is_asked_once_about_a_key():
    queue, asked = KeyCaps(DRR(5), default=1), []
    for n in range(6):
        queue.put(Request(f"t{n % 3}", 1, key="abc"[n % 3]))

    def eligible(key):
        asked.append(key)
        return False

    assert queue.get(eligible) is None
    assert sorted(asked) == ["a", "b", "c"]


@pytest.mark.parametrize("quantum", [1e-30, 1e-300, 1e-320])
def test_a_quantum_too_small_to_count_visits_in_floats(quantum):
    """Equal costs in turn: every visit gains next to nothing, yet the ring's order is plain."""
    queue = DRR(quantum)
    for cost in (400, 255, 3.5):
        for tenant in "ab":
            queue.put(Request(tenant, cost))
    served = [queue.get() for _ in range(6)]
    assert [(r.tenant, r.cost) for r in served] == [(t, c) for c in (400, 255, 3.5) for t in "ab"]


def test_a_gain_of_nothing_is_refused():
    with pytest.raises(ValueError, match="quantum·weight of 'a' must be a finite number > 0"):
        DRR(1e-300, {"a": 1e-300})
    queue = DRR(1e-300)
    with pytest.raises(ValueError, match="quantum·weight of 'a'"):
        queue.set_weight("a", 1e-300)
    with pytest.raises(ValueError, match="quantum must be a finite number > 0"):
        DRR(10**400)
