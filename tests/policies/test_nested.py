"""Shares of shares: organisations, users, keys."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import count

import pytest

from fairq import DRR, FIFO, VTC, AccumulatingPriority, KeyCaps, Nested, Request

from .drive import order, serve, spread

ids = count()


def ask(tenant, cost=1, **more):
    return Request(tenant, cost, id=next(ids), **more)


def shares(policy, requests, slots, starts):
    """Tokens started per tenant among the first ``starts``."""
    found = Counter()
    for _, _, request in serve(policy, requests, slots)[:starts]:
        found[request.tenant] += request.cost
    return found


def test_by_hand():
    """physics (weight 2): ann, bob; maths: cat. Unit costs; ties: the earlier head.

    counters physics 0, maths 0: ann · ½, 0: cat · ½, 1: bob · 1, 1: tie, cat's second head was put first
    · 1, 2: ann · 3/2, 2: bob · 2, 2: cat (put before ann's third) · 2, 3: ann · 5/2, 3: bob
    """
    policy = Nested({"ann": "physics", "bob": "physics", "cat": "maths"}, lambda org: VTC(), {"physics": 2})
    for tenant in ("ann", "cat", "bob", "cat", "ann", "bob", "cat", "ann", "bob"):
        policy.put(ask(tenant))
    short = {"ann": "a", "bob": "b", "cat": "c"}
    served = [short[policy.get().tenant] for _ in range(9)]
    assert "".join(served) == "acbcabcab"


def test_an_organisation_gains_nothing_by_more_users():
    of = {**{f"u{n}": "many" for n in range(10)}, "one": "single"}
    requests = [ask(t, arrival=0, service=1) for t in of for _ in range(400)]
    got = shares(Nested(of, lambda org: DRR(1)), requests, 4, 600)
    assert got["one"] == 300
    assert {got[f"u{n}"] for n in range(10)} == {30}
    flat = shares(VTC(), requests, 4, 550)
    assert flat["one"] == 50


def test_a_user_gains_nothing_by_more_keys_at_any_depth():
    """org → user → key, each level fair: x has users p (30 keys) and q; y has user r."""
    policy = Nested(
        {"p": "x", "q": "x", "r": "y"},
        lambda org: Nested(lambda r: r.tenant, lambda user: Nested(lambda r: r.key, lambda key: FIFO())),
    )
    requests = [ask("p", key=f"p{n % 30}", arrival=0, service=1) for n in range(600)]
    requests += [ask(t, arrival=0, service=1) for t in "qr" for _ in range(300)]
    assert shares(policy, requests, 2, 400) == {"p": 100, "q": 100, "r": 200}


@pytest.mark.parametrize("slots", [1, 5])
def test_branches_keep_the_bound_with_any_policy_inside(slots):
    """|Dᵢ/wᵢ − Dⱼ/wⱼ| ≤ Lᵢ/wᵢ + Lⱼ/wⱼ between branches that always have waiting work."""
    for seed in range(30):
        draw = random.Random(seed)
        weights = {"x": draw.choice([1, 2, 5]), "y": 1}
        of = {"a": "x", "b": "x", "c": "y"}
        requests = [
            ask(t, draw.randint(1, 50), arrival=0, service=draw.randint(0, 9))
            for t in "abc"
            for _ in range(80)
        ]
        served = serve(Nested(of, lambda org: DRR(20), weights), requests, slots)
        left, gains = {"x": 160, "y": 80}, []
        for _, _, request in served:
            branch = of[request.tenant]
            gains.append((branch, Fraction(request.cost, weights[branch])))
            left[branch] -= 1
            if not all(left.values()):
                break
        assert spread(gains, "x", "y") <= sum(Fraction(50, weights[branch]) for branch in "xy")


def test_true_cost_is_charged_to_the_branch_and_to_the_user():
    policy = Nested({"a": "x", "b": "x", "c": "y"}, lambda org: VTC())
    for tenant in "abcabc":
        policy.put(ask(tenant, 10))
    running = policy.get()
    assert running.tenant == "a"
    policy.charge(running, 25)
    view = policy.snapshot()
    assert view["branches"]["x"]["counter"] == view["accounts"]["a"]["counter"] == 25
    policy.done(running, 5)
    view = policy.snapshot()
    assert view["branches"]["x"] == {"weight": 1, "counter": 5, "waiting": 3}
    assert view["accounts"]["a"] == {"in": "x", "weight": 1, "counter": 5, "place": 1}


def test_an_idle_branch_brings_no_credit():
    policy = Nested(lambda r: r.tenant, lambda branch: FIFO())
    for n in range(50):
        policy.put(ask("a", arrival=n))
    for _ in range(40):
        policy.done(policy.get())
    for n in range(5):
        policy.put(ask("b", arrival=100 + n))
    assert order(policy) == "ababababab" + "aaaaa"


def test_caps_inside_hold_a_branch_and_caps_around_hold_keys():
    inside = Nested(
        {"a": "x", "b": "x"},
        lambda org: KeyCaps(VTC(), groups={"org": (["a", "b"], 2)} if org == "x" else {}),
    )
    for policy, expected in (
        (inside, "acbccccc"),
        (KeyCaps(Nested({"a": "x", "b": "x"}, lambda org: VTC()), default=1), "acb"),
    ):
        for tenant in "acbcabcccc"[:10]:
            policy.put(ask(tenant))
        got = []
        while (request := policy.get()) is not None:
            got.append(request.tenant)
        assert "".join(got) == expected


def test_weights_change_live_for_branches_and_for_tenants():
    policy = Nested({"a": "x", "b": "x", "c": "y"}, lambda org: VTC())
    policy.set_weight("a", 3)  # its branch is not there yet
    policy.set_branch_weight("x", 4)
    requests = [ask(t, arrival=0, service=1) for t in "abc" for _ in range(400)]
    assert shares(policy, requests, 1, 500) == {"a": 300, "b": 100, "c": 100}
    with pytest.raises(ValueError, match="weight of 'x' must be a finite number > 0, got 0"):
        policy.set_branch_weight("x", 0)


def test_a_weight_may_change_while_work_waits_and_stays_exact():
    """x was charged 3 at weight 1 and 5 at weight 7, y 4 at weight 1 and 1 at weight 5."""
    policy = Nested(lambda r: r.tenant, lambda branch: FIFO())
    for tenant, cost in (("x", 3), ("y", 4), ("x", 5), ("y", 1), ("x", 9), ("y", 9)):
        policy.put(ask(tenant, cost))
    assert [policy.get().cost for _ in range(2)] == [3, 4]
    policy.set_branch_weight("x", 7)
    assert policy.get().cost == 5
    policy.set_branch_weight("y", 5)
    counters = {name: branch["counter"] for name, branch in policy.snapshot()["branches"].items()}
    assert counters == {"x": Fraction(26, 7), "y": 4}
    assert [policy.get().cost for _ in range(2)] == [9, 1]
    counters = {name: branch["counter"] for name, branch in policy.snapshot()["branches"].items()}
    assert counters == {"x": 5, "y": Fraction(21, 5)}


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="weight of 'x'"):
        Nested({}, lambda org: FIFO(), {"x": -1})
    with pytest.raises(TypeError, match="branch 'a' needs a policy, got None"):
        Nested({}, lambda org: None).put(ask("a"))
    with pytest.raises(ValueError, match="branch 'a' orders by time: say needs_now=True"):
        Nested({}, lambda org: AccumulatingPriority({0: 1})).put(ask("a", arrival=0))
    shared = FIFO()
    policy = Nested({}, lambda org: shared)
    policy.put(ask("a"))
    with pytest.raises(ValueError, match="branch 'b' needs an unused policy"):
        policy.put(ask("b"))


def test_inner_policies_may_order_by_time():
    policy = Nested({}, lambda org: AccumulatingPriority({0: 4, 1: 1}), needs_now=True)
    policy.put(ask("a", priority=1, arrival=0))
    policy.put(ask("a", priority=0, arrival=6))
    assert policy.peek(now=7).priority == 1
    assert policy.get(now=9).priority == 0
    with pytest.raises(ValueError, match="now"):
        policy.get()


def test_the_sentence_says_both():
    policy = Nested({"a": "x"}, lambda org: VTC())
    policy.put(ask("a", 3))
    assert policy.snapshot()["why"] == (
        "x has been charged least among the branches with work that may run: 0 tokens per weight. In it: "
        "a has been charged least among those that may run: 0 tokens per weight; nobody else waits."
    )


def test_a_branchs_weight_changes_while_work_waits():
    """Unit costs; x and y stand at 1. From then on x has weight 2, and a request moves it by a half.

    1, 1: a · 1½, 1: b · 1½, 2: a · 2, 2: b, put before a's next · 2, 3: a · 2½, 3: a · 3, 3: b
    """
    policy = Nested({"a": "x", "b": "y"}, lambda branch: FIFO())
    for tenant in "abababaab":
        policy.put(ask(tenant))
    assert [policy.get().tenant for _ in range(2)] == ["a", "b"]
    policy.set_branch_weight("x", 2)
    assert {name: b["counter"] for name, b in policy.snapshot()["branches"].items()} == {"x": 1, "y": 1}
    assert order(policy) == "ababaab"


def test_the_time_is_handed_on_to_the_sentence_inside():
    policy = Nested({}, lambda branch: AccumulatingPriority({0: 2}), needs_now=True)
    policy.put(ask("a", arrival=3))
    view = policy.snapshot(now=8)
    inside = "a's request has accumulated most: (8 − 3) s at 2 per second (level 0) = 10."
    assert view["inside"]["a"]["why"] == inside
    assert view["why"] == (
        "a has been charged least among the branches with work that may run: 0 tokens per weight. "
        f"In it: {inside}"
    )


def test_a_weight_said_beforehand_is_no_matter_for_a_branch_without_weights():
    policy = Nested({"a": "x"}, lambda branch: VTC() if branch == "x" else FIFO())
    policy.set_weight("a", 2)
    for tenant in "ba":
        policy.put(ask(tenant))
    assert policy.snapshot()["accounts"] == {"a": {"in": "x", "weight": 2, "counter": 0, "place": 0}}
