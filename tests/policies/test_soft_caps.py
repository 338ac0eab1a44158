"""Soft caps: idle slots are lent, and come back as work ends."""

from __future__ import annotations

from itertools import count

import pytest

from fairq import FIFO, VTC, KeyCaps, Request, SoftCaps

from .drive import serve

ids = count()


def ask(key, cost=1, **more):
    return Request(key[0], cost, key=key, id=next(ids), **more)


def fill(policy, slots):
    """Who is handed out into so many free slots."""
    got = []
    for _ in range(slots):
        request = policy.get()
        if request is None:
            break
        got.append(request)
    return got


def test_a_slot_is_lent_only_while_nobody_within_its_cap_waits():
    policy = SoftCaps(FIFO(), default=1)
    for key in "aaab":
        policy.put(ask(key))
    running = fill(policy, 3)
    assert [r.key for r in running] == ["a", "b", "a"]
    policy.put(ask("c"))
    assert policy.peek().key == "c"  # the third a could be lent a slot, but c is within its cap


def test_slots_come_back_as_work_ends():
    """a borrows three of four slots; b comes: every slot that frees goes to b until b is at its cap of 2."""
    policy = SoftCaps(FIFO(), default=2)
    for _ in range(8):
        policy.put(ask("a"))
    running = fill(policy, 4)
    for _ in range(3):
        policy.put(ask("b"))
    got = []
    for request in running:
        policy.done(request)
        got += fill(policy, 1)
    # b, b (within its cap); then a has 2 running and b has 2: both at their caps, the earlier goes
    assert [r.key for r in got] == ["b", "b", "a", "a"]


def test_a_limit_of_0_means_idle_slots_only():
    policy = SoftCaps(FIFO(), per_key={"scavenger": 0})
    policy.put(ask("scavenger"))
    policy.put(ask("a"))
    assert [r.key for r in fill(policy, 2)] == ["a", "scavenger"]


def test_lent_slots_are_shared_by_the_policy_inside():
    policy = SoftCaps(VTC({"a": 2}), default=1)
    requests = [ask(key, arrival=0, service=1) for key in "ab" for _ in range(300)]
    first = [r.key for _, _, r in serve(policy, requests, 6)][:300]
    assert first.count("a") == pytest.approx(200, abs=2)


def test_a_hard_cap_around_holds_and_a_caller_may_narrow():
    policy = KeyCaps(SoftCaps(FIFO(), default=1), default=2)
    for key in "aaab":
        policy.put(ask(key))
    assert policy.get(lambda key: key == "a").key == "a"
    assert policy.get(lambda key: key == "a").key == "a"
    assert policy.get(lambda key: key == "a") is None
    assert policy.get().key == "b"


def test_live_caps_and_groups():
    policy = SoftCaps(FIFO(), groups={"g": (["a", "b"], 1)})
    for key in "abc":
        policy.put(ask(key))
    assert [r.key for r in fill(policy, 1)] == ["a"]
    assert policy.over("b")
    assert policy.peek().key == "c"
    policy.set_group_cap("g", 2)
    assert policy.peek().key == "b"
    policy.set_cap("b", 0)
    assert policy.peek().key == "c"
    assert [r.key for r in fill(policy, 2)] == ["c", "b"]


def test_the_sentence_says_that_the_slot_is_lent():
    policy = SoftCaps(FIFO(), default=1)
    for key in "aa":
        policy.put(ask(key, arrival=3.0))
    assert "lent" not in policy.snapshot()["why"]
    policy.get()
    view = policy.snapshot()
    assert view["policy"] == "FIFO under soft caps"
    assert view["why"] == (
        "a's request arrived first, at 3 s. The slot is lent: nobody within its cap waits."
        " Over a soft cap: a."
    )


def test_the_price_of_hard_and_soft():
    """Four slots, batch always has work of 10 s, cap 2; chat asks for 1 s every 7 s; 1000 s."""

    def run(wrap):
        requests = [ask("batch", arrival=0, service=10) for _ in range(400)]
        requests += [ask("chat", arrival=5 + 7 * n, service=1) for n in range(140)]
        served = serve(wrap(FIFO()), requests, 4, until=1000)
        waits = [start - r.arrival for start, _, r in served if r.key == "chat"]
        busy = sum(min(end, 1000) - start for start, end, _ in served)
        return max(waits), busy / 4000

    hard_wait, hard_busy = run(lambda p: KeyCaps(p, {"batch": 2}))
    soft_wait, soft_busy = run(lambda p: SoftCaps(p, {"batch": 2}))
    assert hard_wait == 0
    assert hard_busy < 0.54
    assert 0 < soft_wait <= 10  # never longer than the longest loan
    assert soft_busy > 0.98
