"""The token counter: a table by hand, the lift, true-up, and the bounds of Sheng et al. (2024)."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import count

import pytest

from fairq import DRR, SFQ, VTC, KeyCaps, Nested, Request
from fairq.counterexamples import ChargeAtTheEnd, NoLift

from .drive import order, serve, spread

ids = count()


def ask(tenant, cost=1, **more):
    return Request(tenant, cost, id=next(ids), **more)


def counters(policy):
    return {name: account["counter"] for name, account in policy.snapshot()["accounts"].items()}


def test_a_table_worked_out_by_hand():
    """Weights a 2, b 1, c 1; costs a 4 4 4 4, b 3 3 3, c 5 5.

    step  counters before (a, b, c)   goes
      1        0  0  0                 a  (ties: the earlier head)
      2        2  0  0                 b
      3        2  3  0                 c
      4        2  3  5                 a
      5        4  3  5                 b
      6        4  6  5                 a
      7        6  6  5                 c
      8        6  6  10                a  (tie with b: a's fourth request was put before b's third)
      9        8  6  10                b
    """
    policy = VTC(weights={"a": 2})
    for tenant, cost in (
        ("a", 4),
        ("b", 3),
        ("c", 5),
        ("a", 4),
        ("b", 3),
        ("c", 5),
        ("a", 4),
        ("a", 4),
        ("b", 3),
    ):
        policy.put(ask(tenant, cost))
    assert counters(policy) == {"a": 0, "b": 0, "c": 0}
    assert order(policy) == "abcabacab"
    assert counters(policy) == {"a": 8, "b": 9, "c": 10}


def test_counters_are_exact_for_whole_numbers_and_fractions():
    policy = VTC(weights={"a": 3, "b": Fraction(2, 7)})
    for request in (ask("a", 1), ask("b", 1), ask("a", 1)):
        policy.put(request)
    order(policy)
    assert counters(policy) == {"a": Fraction(2, 3), "b": Fraction(7, 2)}


def test_a_counter_that_is_whole_is_shown_as_a_whole_number():
    policy = VTC(weights={"a": 3, "b": 0.5})
    for request in (ask("a", 6), ask("b", 1)):
        policy.put(request)
    order(policy)
    shown = counters(policy)
    assert shown == {"a": 2, "b": 2.0}
    assert type(shown["a"]) is int, "not a fraction, and exact however large"


@pytest.mark.parametrize("policy_of", [VTC, SFQ])
def test_equal_heads_that_may_run_go_in_the_order_of_put(policy_of):
    """All came at 0. Of a's keys the one that may run was put last; b's was put before it."""
    policy = policy_of()
    for tenant, key in (("a", "held"), ("b", "held"), ("b", "open"), ("a", "open")):
        policy.put(ask(tenant, key=key, arrival=0))
    assert policy.get(lambda key: key == "open").tenant == "b"


@pytest.mark.parametrize("policy_of", [VTC, SFQ])
def test_weights_of_any_kind_may_change_while_work_waits(policy_of):
    """Whole numbers, fractions, floats: what was charged stays, what comes is charged by the new weight."""
    policy = policy_of()
    for _ in range(5):
        policy.put(ask("a", 6))
        policy.put(ask("b", 6))
    counter = "counter" if policy_of is VTC else "start"
    expected = 0
    for weight in (4, 9, Fraction(5, 3), 1):
        policy.set_weight("a", weight)
        while policy.get().tenant != "a":
            pass
        expected += Fraction(6) / weight
        assert policy.snapshot()["accounts"]["a"][counter] == expected
    policy.set_weight("a", 2.0)
    while policy.get().tenant != "a":
        pass
    assert policy.snapshot()["accounts"]["a"][counter] == float(expected) + 3


def test_a_tenant_that_joins_is_lifted_to_the_least_of_those_who_wait():
    policy = VTC()
    for tenant, cost in (("a", 10), ("b", 20), ("a", 1), ("b", 1)):
        policy.put(ask(tenant, cost))
    for _ in range(2):
        policy.done(policy.get())
    assert counters(policy) == {"a": 10, "b": 20}
    policy.put(ask("c"))
    assert counters(policy)["c"] == 10


def test_when_nobody_waits_it_is_lifted_to_the_one_whose_line_emptied_last():
    policy = VTC()
    for tenant, cost in (("a", 10), ("b", 7)):
        policy.put(ask(tenant, cost))
        policy.done(policy.get())
    policy.put(ask("c"))  # b emptied last: a 10, b lifted to 10 and charged 7
    assert counters(policy) == {"a": 10, "b": 17, "c": 17}


def test_a_line_that_a_cancelled_request_leaves_has_emptied_too():
    policy = VTC()
    policy.put(ask("a", 10))
    policy.done(policy.get())
    ghost = ask("b", 99)
    policy.put(ghost)
    assert policy.cancel(ghost)
    policy.put(ask("c"))
    assert counters(policy) == {"a": 10, "b": 10, "c": 10}


def test_debt_survives_an_empty_line_and_is_not_lowered_by_the_lift():
    policy = VTC()
    for tenant in "abb":
        policy.put(ask(tenant))
    liar = policy.get()
    assert liar.tenant == "a"
    policy.done(liar, 50)
    policy.put(ask("a"))
    assert counters(policy) == {"a": 50, "b": 0}
    assert order(policy) == "bba"


def test_true_up_goes_both_ways_and_at_once():
    policy = VTC(weights={"a": 2})
    for tenant in "aab":
        policy.put(ask(tenant, 10))
    running = policy.get()
    assert counters(policy)["a"] == 5
    policy.charge(running, 8)  # below the estimate, which was charged
    assert counters(policy)["a"] == 5
    policy.charge(running, 16)
    assert counters(policy)["a"] == 8
    policy.charge(running, 12)  # what was charged stays until it is done
    assert counters(policy)["a"] == 8
    policy.done(running, 4)
    assert counters(policy)["a"] == 2


# -- the bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy_of", [VTC, SFQ])
@pytest.mark.parametrize("slots", [1, 4, 16])
def test_dispatched_cost_differs_by_at_most_one_request_each(policy_of, slots):
    """|Dᵢ/wᵢ − Dⱼ/wⱼ| ≤ Lᵢ/wᵢ + Lⱼ/wⱼ over every stretch in which both have waiting work."""
    closest = 0
    for seed in range(40):
        draw = random.Random(seed)
        weights = {t: draw.choice([1, 1, 2, 5, Fraction(1, 2)]) for t in "abcd"}
        largest = {t: draw.choice([1, 10, 100]) for t in "abcd"}
        requests = [
            ask(t, draw.randint(1, largest[t]), arrival=0, service=draw.randint(0, 20))
            for t in "abcd"
            for _ in range(60)
        ]
        policy = policy_of(weights)
        served = serve(policy, requests, slots)
        for i, j in ("ab", "ac", "bd", "cd"):
            # all backlogged from the start: up to the first whose line empties
            left, gains = dict.fromkeys("abcd", 60), []
            for _, _, request in served:
                gains.append((request.tenant, Fraction(request.cost) / weights[request.tenant]))
                left[request.tenant] -= 1
                if not (left[i] and left[j]):
                    break
            bound = sum(Fraction(max(r.cost for r in requests if r.tenant == t)) / weights[t] for t in (i, j))
            assert spread(gains, i, j) <= bound
            closest = max(closest, spread(gains, i, j) / bound)
    assert closest > 0.9  # the bound is tight


@pytest.mark.parametrize("slots", [1, 4, 16, 64])
def test_charged_at_the_end_the_difference_grows_with_the_slots(slots):
    """a and b, equal weights, unit costs, always backlogged: the bound is 2."""

    def worst(policy):
        requests = [ask(t, arrival=0, service=1) for t in "ab" for _ in range(4 * slots)]
        served = serve(policy, requests, slots)
        return spread([(r.tenant, 1) for _, _, r in served[: 4 * slots]], "a", "b")

    assert worst(VTC()) == 1
    assert worst(ChargeAtTheEnd()) == slots


def batch(policy, requests, memory, price_in, price_out):
    """Continuous batching: admit while input and output fit, then a token for everyone; charge each token.

    Returns per step what each tenant's service grew by and who had waiting work. All arrive at the start.
    """
    for request in requests:
        policy.put(request)
    running, steps = {}, []
    while len(policy) or running:
        gains = []
        backlog = {tenant for tenant in "abc" if policy.waiting(tenant)}
        while (request := policy.peek()) is not None:
            held = sum(r.prompt_tokens + r.output_tokens for r in running)
            if held + request.prompt_tokens + request.output_tokens > memory:
                break
            assert policy.get() is request
            running[request] = 0
            gains.append((request.tenant, price_in * request.prompt_tokens))
            backlog = {tenant for tenant in backlog if policy.waiting(tenant)}
        for request in list(running):
            running[request] += 1
            cost = price_in * request.prompt_tokens + price_out * running[request]
            policy.charge(request, cost)
            gains.append((request.tenant, price_out))
            if running[request] == request.output_tokens:
                del running[request]
                policy.done(request, cost)
        steps.append((gains, backlog))
    return steps


def spreads(price_in, price_out):
    """Per random batch: the largest difference of service between two backlogged tenants, L_in and M."""
    for seed in range(12):
        draw = random.Random(seed)
        memory = draw.choice([120, 400])
        sizes = {t: (draw.choice([2, 20, 60]), draw.choice([2, 20, 60])) for t in "abc"}
        requests = []
        for tenant, (most_in, most_out) in sizes.items():
            for _ in range(80):
                prompt, output = draw.randint(1, most_in), draw.randint(1, most_out)
                requests.append(ask(tenant, price_in * prompt, prompt_tokens=prompt, output_tokens=output))
        steps = batch(VTC(), requests, memory, price_in, price_out)
        for i, j in ("ab", "ac", "bc"):
            gains = []
            for step, backlog in steps:
                if not {i, j} <= backlog:
                    break
                gains += step
            assert len(gains) > 50
            yield spread(gains, i, j), max(r.prompt_tokens for r in requests), memory


@pytest.mark.parametrize(("price_in", "price_out"), [(1, 1), (1, 2), (0.5, 4)])
def test_charged_token_by_token_service_differs_by_at_most_2_max(price_in, price_out):
    """Sheng et al., theorem 4.4: 2·max(w_p·L_in, w_q·M) between two backlogged tenants."""
    parts = [
        got / (2 * max(price_in * most, price_out * memory))
        for got, most, memory in spreads(price_in, price_out)
    ]
    assert 0.1 < max(parts) <= 1


def test_where_input_is_dearer_than_output_the_published_bound_is_too_small():
    """The last request admitted adds w_p·L_in at once, and what runs then adds up to w_q·(M − L_in)."""
    seen = list(spreads(3, 1))
    assert any(got > 2 * max(3 * most, memory) for got, most, memory in seen)
    assert all(got <= 2 * (3 * most + memory - most) for got, most, memory in seen)


# -- coming back after an idle time ----------------------------------------------------------------------


def share_on_return(policy, away_s=1000, back_s=100):
    """a is always backlogged on one slot (cost 1, 1 s each); b was served once, is away, then has a burst."""
    requests = [ask("a", arrival=0, service=1) for _ in range(away_s + 3 * back_s)]
    requests += [ask("b", arrival=0, service=1)]
    requests += [ask("b", arrival=away_s, service=1) for _ in range(3 * back_s)]
    served = serve(policy, requests, 1)
    window = [r.tenant for start, _, r in served if away_s <= start < away_s + back_s]
    return window.count("b") / len(window)


def test_a_returning_tenant_takes_half_with_the_lift_and_all_without():
    assert share_on_return(VTC()) == 0.5
    assert share_on_return(SFQ()) == 0.5
    assert share_on_return(DRR(1)) == 0.5
    assert share_on_return(NoLift()) == 1.0


# -- tenants that declare too little --------------------------------------------------------------------

FAIR = {
    "VTC": VTC,
    "SFQ": SFQ,
    "DRR": lambda: DRR(100),
    "DRR, small quantum": lambda: DRR(3),
    "Nested": lambda: Nested(lambda r: r.tenant, lambda b: VTC()),
    "VTC under caps": lambda: KeyCaps(VTC(), default=3),
}


@pytest.mark.parametrize("make", FAIR.values(), ids=FAIR)
def test_declaring_a_tenth_gains_nothing_with_true_up_and_ten_times_without(make):
    """a declares 10, b 100; both need 100 tokens and one second on one of four slots."""

    def shares(settle):
        requests = [
            ask(t, declared, arrival=0, service=1, output_tokens=100 if settle else None)
            for t, declared in (("a", 10), ("b", 100))
            for _ in range(2000)
        ]
        served = [r.tenant for start, _, r in serve(make(), requests, 4, until=300) if start < 250]
        return served.count("a") / served.count("b")

    caps = isinstance(make(), KeyCaps)
    assert shares(settle=True) == pytest.approx(1, rel=0.02)
    assert shares(settle=False) == pytest.approx(
        3 if caps else 10, rel=0.02
    )  # a cap of 3 leaves b its one slot


# -- the work it takes ------------------------------------------------------------------------------------


class Counted:
    """A number that counts how often it is compared."""

    comparisons = 0

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)

    def __add__(self, other):
        return Counted(self.value + getattr(other, "value", other))

    __radd__ = __add__

    def __sub__(self, other):
        return Counted(self.value - getattr(other, "value", other))

    def __lt__(self, other):
        Counted.comparisons += 1
        return self.value < getattr(other, "value", other)

    def __gt__(self, other):
        Counted.comparisons += 1
        return self.value > getattr(other, "value", other)

    def __le__(self, other):
        return not self > other

    def __eq__(self, other):
        Counted.comparisons += 1
        return self.value == getattr(other, "value", other)

    __hash__ = None


@pytest.mark.parametrize("policy_of", [VTC, SFQ])
def test_the_work_per_request_grows_like_the_logarithm_of_the_tenants(policy_of):
    def per_request(tenants):
        draw = random.Random(1)
        policy = policy_of()
        requests = [ask(f"t{n}", Counted(draw.randint(1, 99))) for _ in range(3) for n in range(tenants)]
        Counted.comparisons = 0
        for request in requests:
            policy.put(request)
        while (request := policy.get()) is not None:
            policy.done(request)
        return Counted.comparisons / len(requests)

    few, many = per_request(256), per_request(4096)
    assert many <= few * math.log2(4096) / math.log2(256)


def test_idle_accounts_are_closed_when_they_say_nothing_more():
    policy = VTC()
    policy.put(ask("steady", 1))
    debtor = ask("debtor", 1)
    policy.put(debtor)
    for n in range(5000):
        policy.put(ask(f"once{n}", 2))
        policy.put(ask("steady", 1))
        for _ in range(2):
            request = policy.get()
            policy.done(request, 10**9 if request is debtor else request.cost)
    assert len(policy._tenants) < 2500
    assert counters(policy)["debtor"] == 10**9
