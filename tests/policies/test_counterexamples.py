"""What not to do, and the bound that each breaks: the sound policy keeps it on the same work."""

from __future__ import annotations

from fractions import Fraction
from itertools import count

import pytest

import fairq
from fairq import DRR, SFQ, VTC, Request
from fairq import counterexamples as wrong

from .drive import serve, spread

ids = count()


def ask(tenant, cost=1, **more):
    return Request(tenant, cost, id=next(ids), **more)


def difference(policy, costs, weights, each, slots=1):
    """The largest |D_a/w_a − D_b/w_b| while both are backlogged."""
    requests = [ask(t, cost, arrival=0, service=1) for t, cost in costs.items() for _ in range(each)]
    left, gains = dict.fromkeys(costs, each), []
    for _, _, request in serve(policy, requests, slots):
        gains.append((request.tenant, Fraction(request.cost) / weights[request.tenant]))
        left[request.tenant] -= 1
        if not all(left.values()):
            break
    return spread(gains, "a", "b")


@pytest.mark.parametrize("each", [50, 500])
def test_round_robin_by_request_shares_turns_not_tokens(each):
    """a's requests are ten times as long: the difference grows without end, whatever the bound."""
    costs, weights = {"a": 100, "b": 10}, {"a": 1, "b": 1}
    assert difference(wrong.RoundRobin(), costs, weights, each) == 90 * each + 10
    for sound in (VTC(), SFQ(), DRR(100)):
        assert difference(sound, costs, weights, each) <= 110 + (100 if isinstance(sound, DRR) else 0)


@pytest.mark.parametrize("each", [50, 500])
def test_deficit_without_a_quantum_loses_the_weights(each):
    """Weights 4:1, requests of 100 tokens: a should get four times as much, and gets the same."""
    costs, weights = {"a": 100, "b": 100}, {"a": 4, "b": 1}
    grown = difference(wrong.DeficitWithoutQuantum(weights), costs, weights, each)
    assert grown > 65 * each
    for sound in (VTC(weights), SFQ(weights), DRR(100, weights)):
        assert difference(sound, costs, weights, each) <= 100 + 25 + 100


@pytest.mark.parametrize("slots", [2, 16, 128])
def test_charged_at_the_end_one_burst_fills_all_slots(slots):
    """Unit costs, bound 2: a's requests came first, and take every slot before any has been charged."""
    assert difference(wrong.ChargeAtTheEnd(), {"a": 1, "b": 1}, {"a": 1, "b": 1}, 4 * slots, slots) >= slots
    assert difference(VTC(), {"a": 1, "b": 1}, {"a": 1, "b": 1}, 4 * slots, slots) == 1


@pytest.mark.parametrize("away", [100, 1000])
def test_without_the_lift_the_time_away_is_paid_back(away):
    """b was served once and is away; then it is served alone for as long as it was away."""

    def alone(policy):
        requests = [ask("b", arrival=0, service=1)]
        requests += [ask("a", arrival=0, service=1) for _ in range(3 * away)]
        requests += [ask("b", arrival=away, service=1) for _ in range(2 * away)]
        after = [r.tenant for start, _, r in serve(policy, requests, 1) if start >= away]
        return after.index("a")

    assert alone(wrong.NoLift()) == away - 2
    assert alone(VTC()) <= 1


def test_they_are_kept_apart_and_say_what_is_wrong():
    for name in wrong.__all__:
        assert not hasattr(fairq, name)
        assert "The fault:" in getattr(wrong, name).__doc__
        assert "reaks" in getattr(wrong, name).__doc__


def test_each_explains_itself():
    for policy, words in (
        (wrong.RoundRobin(), "a's turn, whatever"),
        (wrong.DeficitWithoutQuantum({"a": 3}), "largest deficit of those that may run, 3."),
        (wrong.NoLift(), "charged least"),
        (wrong.ChargeAtTheEnd(), "charged least"),
    ):
        policy.put(ask("a"))
        policy.put(ask("b"))
        view = policy.snapshot()
        assert words in view["why"]
        assert set(view["accounts"]) == {"a", "b"}
