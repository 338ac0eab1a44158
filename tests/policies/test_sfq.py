"""Start-time fair queueing: tags by hand, where a tenant starts, and the bound on D slots."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import count

import pytest

from fairq import SFQ, Request

from .drive import order, serve, spread

ids = count()


def ask(tenant, cost=1, **more):
    return Request(tenant, cost, id=next(ids), **more)


def starts(policy):
    return {name: account["start"] for name, account in policy.snapshot()["accounts"].items()}


def test_tags_worked_out_by_hand():
    """Weights a 2, b 1. At 0: a 4 4 4, b 3 3. After two are served, c joins with 1 1.

    start tags: a 0 2 4, b 0 3. Served: a (0), b (0). Virtual time 0, so c starts at 0: tags 0 1.
    Then c (0), c (1), a (2), b (3), a (4).
    """
    policy = SFQ(weights={"a": 2})
    for tenant, cost in (("a", 4), ("b", 3), ("a", 4), ("b", 3), ("a", 4)):
        policy.put(ask(tenant, cost))
    first = [policy.get().tenant for _ in range(2)]
    for _ in range(2):
        policy.put(ask("c", 1))
    assert starts(policy) == {"a": 2, "b": 3, "c": 0}
    assert "".join(first) + order(policy) == "abccaba"


def test_a_tenant_that_joins_starts_at_the_start_tag_handed_out_last():
    policy = SFQ()
    for tenant, cost in (("a", 10), ("b", 4), ("a", 1), ("b", 4), ("b", 1)):
        policy.put(ask(tenant, cost))
    for _ in range(3):
        policy.done(policy.get())  # a at 0, b at 0, b at 4
    policy.put(ask("c"))
    assert starts(policy) == {"a": 10, "b": 8, "c": 4}


def test_the_end_of_a_busy_period_puts_all_level():
    """Nothing waits and nothing runs: the virtual time is the largest finish tag."""
    policy = SFQ()
    long = ask("a", 10)
    policy.put(long)
    policy.get()
    policy.put(ask("b"))  # still busy: the virtual time is a's start tag
    assert starts(policy) == {"a": 10, "b": 0}
    policy.done(policy.get())
    policy.done(long)
    for tenant in "ba":
        policy.put(ask(tenant))
    assert starts(policy) == {"a": 10, "b": 10}
    assert order(policy) == "ba"


def test_debt_survives_even_that():
    policy = SFQ()
    liar = ask("a", 10)
    policy.put(liar)
    policy.get()
    policy.done(liar, 100)
    for tenant in "abb":
        policy.put(ask(tenant, 5))
    assert starts(policy) == {"a": 100, "b": 10}
    assert order(policy) == "bba"


def test_true_up_moves_the_tags_still_to_come():
    policy = SFQ(weights={"a": 2})
    for tenant in "aab":
        policy.put(ask(tenant, 10))
    running = policy.get()
    assert starts(policy)["a"] == 5
    policy.charge(running, 16)
    assert starts(policy)["a"] == 8
    policy.done(running, 4)
    assert starts(policy)["a"] == 2


@pytest.mark.parametrize("depth", [1, 4, 16])
def test_finished_work_differs_by_at_most_d_plus_1_requests_each(depth):
    """Jin, Chase & Kaur (2004), theorem 1, D slots: (D + 1)(Lᵢ/wᵢ + Lⱼ/wⱼ), counted when work is done."""
    worst = 0
    for seed in range(30):
        draw = random.Random(seed)
        weights = {t: draw.choice([1, 1, 2, 4]) for t in "abc"}
        largest = {t: draw.choice([2, 10, 40]) for t in "abc"}
        requests = []
        for tenant in "abc":
            for _ in range(200):
                cost = draw.randint(1, largest[tenant])
                requests.append(ask(tenant, cost, arrival=0, service=cost))
        served = serve(SFQ(weights), requests, depth)
        left, end = dict.fromkeys("abc", 200), None
        for start, _, request in served:
            left[request.tenant] -= 1
            if not all(left.values()):
                end = start
                break
        done = sorted((e for e in served if e[1] <= end), key=lambda e: e[1])
        gains = [(r.tenant, Fraction(r.cost, weights[r.tenant])) for _, _, r in done]
        for i, j in ("ab", "ac", "bc"):
            bound = (depth + 1) * sum(
                Fraction(max(r.cost for r in requests if r.tenant == t), weights[t]) for t in (i, j)
            )
            worst = max(worst, spread(gains, i, j) / bound)
    assert 0.1 < worst <= 1
