"""Closing the accounts of idle tenants in bulk: who is forgotten, worked out by hand.

Whoever joins starts at the level at least. It can fall, once what runs is paid back, to the least counter
without what was charged for running work: only who owes no more than that may be forgotten.
"""

from __future__ import annotations

import pytest

from fairq import DRR, SFQ, VTC, KeyCaps, Request


def put(queue, text):
    """``"a10 b3"``: a asks for 10 tokens, then b for 3."""
    for word in text.split():
        queue.put(Request(word.rstrip("0123456789"), int(word.lstrip("abcdefghijklmnopqrstuvwxyz"))))


def get(queue, names):
    """Hand out the next requests, whose tenants must be these."""
    requests = [queue.get() for _ in names.split()]
    assert [r.tenant for r in requests] == names.split()
    return requests


def done(queue, requests):
    for request in requests:
        queue.done(request)


def close_accounts(policy, queue):
    """A newcomer finds no room; returns whose accounts are kept."""
    policy._room = 0
    put(queue, "new1")
    return queue.snapshot()["accounts"].keys() - {"new"}


@pytest.mark.parametrize("make", [VTC, SFQ])
def test_what_runs_may_be_paid_back(make):
    """Counters: i 39, j 40, k 41; waiting: busy 140, of which 40 run, and steady 100; two requests of runs
    (weight 2) run, (30 + 10)/2 = 20. Paid back, the level is as low as 100 − 40 − 20 = 40.
    """
    policy = make({"runs": 2})
    put(policy, "i39 j40 k41 busy100 busy40 busy1 steady100 steady1 runs30 runs10")
    idle = get(policy, "i j k busy steady")
    get(policy, "runs runs busy")
    done(policy, idle)
    assert close_accounts(policy, policy) == {"k", "busy", "steady", "runs"}


def test_a_ring_remembers_debts_only():
    """a cost 7 where 5 was said, b 5 and c 3: credit does not outlive an empty line, a debt does."""
    policy = DRR(10)
    put(policy, "a5 b5 c5 steady5 steady5")
    for request, cost in zip(get(policy, "a b c"), (7, 5, 3), strict=True):
        policy.done(request, cost)
    assert close_accounts(policy, policy) == {"a", "steady"}
    assert policy.snapshot()["accounts"]["a"]["deficit"] == -2


@pytest.mark.parametrize("late", [10, 12])
@pytest.mark.parametrize("make", [VTC, SFQ])
def test_who_lags_may_become_the_level(make, late):
    """Counters: i 10, j 11. Held back: late at 10 or 12, held at 20, of which 10 run. steady waits at 101."""
    policy = make()
    queue = KeyCaps(policy, {"held": 1})
    put(queue, f"i10 j11 held10 held10 held1 late{late} late1 steady100 steady1 steady1")
    done(queue, get(queue, "i j held late steady"))
    queue.set_cap("late", 0)
    get(queue, "held")
    done(queue, get(queue, "steady"))
    assert close_accounts(policy, queue) == {"j", "held", "late", "steady"}


def test_a_debt_is_kept_while_its_request_runs():
    policy = VTC()
    put(policy, "a10 b100 b1")
    first, second = get(policy, "a b")
    policy.done(second)
    assert close_accounts(policy, policy) == {"a", "b"}
    policy.done(first, 1000)
    assert policy.snapshot()["accounts"]["a"]["counter"] == 1000
