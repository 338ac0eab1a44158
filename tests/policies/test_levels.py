"""Levels: urgent before patient, aged or not, and fair inside."""

from __future__ import annotations

from itertools import count

import pytest

from fairq import DRR, FIFO, VTC, KeyCaps, Levels, Priority, Request

from .drive import order, serve

ids = count()


def ask(tenant, level=0, arrival=0, cost=1, **more):
    return Request(tenant, cost, priority=level, arrival=arrival, id=next(ids), **more)


def test_strict_between_and_fair_inside():
    """Level 0: a (weight 2) and b; level 1: c floods, d has two. Unit costs."""
    policy = Levels({1: VTC(), 0: DRR(1, {"a": 2})})
    for tenant, level in [("c", 1)] * 4 + [("d", 1)] * 2 + [("a", 0)] * 4 + [("b", 0)] * 2:
        policy.put(ask(tenant, level))
    assert order(policy) == "aabaab" + "cdcdcc"


def test_aged_between_by_hand():
    """Ageing 10 s a level. Ranks: c at 0 → 10, d at 3 → 13; a at 9 → 9, a at 10 → 10, a at 12 → 12."""
    policy = Levels({0: FIFO(), 1: FIFO()}, ageing=10)
    for tenant, level, arrival in [("a", 0, 9), ("a", 0, 10), ("a", 0, 12), ("c", 1, 0), ("d", 1, 3)]:
        policy.put(ask(tenant, level, arrival))
    assert order(policy) == "acaad"  # at rank 10 the earlier arrival, c, goes first


def test_fifo_levels_are_priority():
    """With FIFO inside it is ``Priority``, strict or aged."""
    for ageing in (None, 0, 3):
        flat, levels = Priority(ageing=ageing), Levels({n: FIFO() for n in range(3)}, ageing)
        for n in range(60):
            request = ask("abc"[n % 3], n * 7 % 3, n // 2)
            flat.put(request)
            levels.put(request)
        for _ in range(60):
            assert flat.get() is levels.get()


def overload(policy, seconds):
    """One slot, level 0 brings 1.2 s of work a second, level 1 a request of one second every ten seconds."""
    requests = [ask("chat", 0, n * 5 / 6, service=1) for n in range(round(seconds * 1.2))]
    requests += [ask("batch", 1, n, service=1) for n in range(0, seconds, 10)]
    served = serve(policy, requests, 1, until=seconds)
    return [start - r.arrival for start, _, r in served if r.priority == 1]


def test_under_overload_ageing_bounds_the_wait_and_strict_starves():
    """The backlog of level 0 grows: strict serves level 1 never; aged as if it had come 20 s later."""
    assert overload(Levels({0: VTC(), 1: VTC()}), 600) == []
    aged = overload(Levels({0: VTC(), 1: VTC()}, ageing=20), 600)
    assert len(aged) >= 40
    # the queue of those that came before t grows by 0.3 s a second, so the wait is 20 s and that
    assert max(aged) <= 20 + 0.31 * 600


def test_a_level_is_asked_about_eligible_work_only():
    """Caps around: level 0 is full, so level 1 goes; caps inside: each level counts its own."""
    around = KeyCaps(Levels({0: VTC(), 1: FIFO()}), per_key={"a": 1})
    inside = Levels({0: KeyCaps(VTC(), per_key={"a": 1}), 1: KeyCaps(FIFO(), per_key={"a": 1})})
    for policy, expected in ((around, "ab"), (inside, "aab")):
        for tenant, level in (("a", 0), ("a", 0), ("a", 1), ("b", 1)):
            policy.put(ask(tenant, level))
        got = []
        while (request := policy.get()) is not None:
            got.append(request.tenant)
        assert "".join(got) == expected


def test_one_without_arrival_comes_after_all_put_before_it_also_in_a_level_with_caps():
    policy = Levels({0: KeyCaps(FIFO(), default=2), 1: FIFO()})
    policy.put(ask("c", 1, arrival=10))
    for tenant, arrival in (("a", None), ("b", 5)):  # a counts as having come at 10
        policy.put(ask(tenant, 0, arrival=arrival))
    assert order(policy) == "bac"


def test_weights_and_caps_reach_the_levels_that_have_them():
    policy = Levels({0: VTC(), 1: KeyCaps(FIFO(), default=1)})
    policy.set_weight("a", 3)
    policy.set_cap("a", 2)
    for _ in range(4):
        policy.put(ask("a", 0))
        policy.put(ask("b", 0))
        policy.put(ask("a", 1))
    taken = [policy.get() for _ in range(10)]
    assert "".join(r.tenant for r in taken[:4]) in ("abaa", "aaab")
    assert [r.priority for r in taken[8:]] == [1, 1]
    assert policy.get() is None
    with pytest.raises(TypeError, match="no weights"):
        Levels({0: FIFO()}).set_weight("a", 1)
    with pytest.raises(TypeError, match="no caps"):
        Levels({0: VTC()}).set_cap("a", 1)


def test_what_does_not_fit_is_refused():
    policy = Levels({0: VTC(), 1: FIFO()}, ageing=5)
    with pytest.raises(ValueError, match=r"one of the levels \(0, 1\), got .*'lost'"):
        policy.put(ask("lost", 2))
    with pytest.raises(ValueError, match=r"arrival .* got None in .*'timeless'"):
        policy.put(Request("timeless", 1))
    assert len(policy) == 0
    with pytest.raises(ValueError, match="levels must name at least one"):
        Levels({})
    with pytest.raises(ValueError, match="ageing must be a finite number >= 0, got -1"):
        Levels({0: FIFO()}, ageing=-1)
    with pytest.raises(TypeError, match="level 0 needs a policy, got 'drr'"):
        Levels({0: "drr"})
    one = FIFO()
    with pytest.raises(ValueError, match="a policy of its own"):
        Levels({0: one, 1: one})
    one.put(ask("a"))
    with pytest.raises(ValueError, match="unused"):
        Levels({0: one})


def test_the_sentence_names_the_level_and_why_inside():
    policy = Levels({0: VTC(), 1: VTC()}, ageing=10)
    policy.put(ask("a", 1, 2))
    policy.put(ask("b", 0, 20))
    view = policy.snapshot()
    assert view["why"] == (
        "Level 1's next request has the smallest arrival + ageing·level: 2 + 10·1 = 12 s. In it: "
        "a has been charged least among those that may run: 0 tokens per weight; nobody else waits."
    )
    assert view["accounts"]["a"]["in"] == "level 1"
    assert set(view["inside"]) == {"level 0", "level 1"}


def test_levels_may_be_below_0_and_fractions():
    policy = Levels({0: FIFO(), -1.5: FIFO(), 0.5: FIFO()})
    for tenant, level in (("a", 0.5), ("b", 0), ("c", -1.5)):
        policy.put(ask(tenant, level))
    assert order(policy) == "cba"
