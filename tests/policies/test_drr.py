"""DRR: rules worked out by hand, and the bounds of the paper on random demand."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import count

import pytest

from fairq import DRR, KeyCaps, Request
from fairq.policies.base import Queue
from fairq.prove import fair, laws
from policies.drive import Alike


def put(queue, text, cost=1):
    """Requests named by tenant and number: "A1 A2 B1"."""
    made = {name: Request(name[0], cost, id=name) for name in text.split()}
    for request in made.values():
        queue.put(request)
    return made


def served(queue, n=99):
    names = []
    while len(names) < n and (request := queue.get()) is not None:
        names.append(request.id)
        queue.done(request)
    return " ".join(names)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), None, "8", True])
def test_a_bad_quantum_is_named(value):
    with pytest.raises(ValueError, match="quantum") as raised:
        DRR(value)
    assert repr(value) in str(raised.value)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), None, "8", True])
def test_a_bad_weight_is_named_with_its_tenant(value):
    queue = DRR(1)
    for attempt in (lambda: DRR(1, {"acme": value}), lambda: queue.set_weight("acme", value)):
        with pytest.raises(ValueError, match="weight of 'acme'") as raised:
            attempt()
        assert repr(value) in str(raised.value)


def test_weights_are_copied():
    weights = {"A": 2}
    queue = DRR(1, weights)
    weights["A"] = 5
    assert queue.weight("A") == 2
    assert queue.weight("nobody") == 1


def test_what_is_left_of_a_visit_is_kept():
    """Quantum 3, costs 2: one per visit, then two (1 kept + 3 = 4)."""
    queue = DRR(3)
    put(queue, "A1 A2 A3 B1 B2 B3", cost=2)
    assert served(queue) == "A1 B1 A2 A3 B2 B3"


def test_a_visit_goes_on_while_new_work_comes():
    """A's visit of 3 is not over when B joins: A sends three, whenever they come."""
    queue = DRR(3)
    put(queue, "A1 A2")
    assert served(queue, 1) == "A1"
    put(queue, "B1 A3 A4")
    assert served(queue) == "A2 A3 B1 A4"


def test_a_line_is_empty_when_its_last_request_is_handed_out():
    """A closed loop with one request outstanding gets one per round, whatever the quantum."""
    queue = DRR(100)
    put(queue, "B1 B2 B3")
    put(queue, "A1")
    assert served(queue) == "B1 B2 B3 A1"
    queue = DRR(2)
    put(queue, "A1 B1 B2 B3 B4")
    got = []
    for _ in range(6):
        request = queue.get()
        got.append(request.tenant)
        queue.done(request)
        if request.tenant == "A":
            queue.put(Request("A", 1))
    assert got == ["A", "B", "B", "A", "B", "B"]


def test_new_work_joins_at_the_back():
    """A has used up its visit but the scheduler has not looked again: A still stands first, C joins last."""
    queue = DRR(1)
    put(queue, "A1 A2 B1 B2")
    assert served(queue, 1) == "A1"
    put(queue, "C1 C2")
    assert served(queue) == "B1 C1 A2 B2 C2"


def test_credit_is_forfeited_when_the_last_waiting_request_is_cancelled():
    """A: 10 − 4 leaves 6; without it, a cost of 16 needs two visits again."""
    queue = DRR(10)
    made = put(queue, "A1 A2", cost=4)
    put(queue, "B1 B2 B3", cost=10)
    assert served(queue, 1) == "A1"
    assert queue.cancel(made["A2"])
    put(queue, "A3", cost=16)
    assert served(queue) == "B1 B2 A3 B3"


def test_debt_survives_an_empty_line():
    """A cost 25 more than it said: two visits of 10 pay it back, in the third it can send again."""
    queue = DRR(10)
    request = put(queue, "A1", cost=10)["A1"]
    put(queue, "B1 B2 B3 B4", cost=10)
    assert queue.get() is request
    queue.charge(request, 20)
    queue.done(request, 35)
    put(queue, "A2", cost=5)
    assert served(queue) == "B1 B2 B3 A2 B4"


def test_what_an_idle_tenant_gets_back_is_no_credit():
    queue = DRR(10)
    request = put(queue, "A1", cost=10)["A1"]
    put(queue, "B1 B2", cost=10)
    assert queue.get() is request
    queue.done(request, 0)
    put(queue, "A2", cost=11)
    assert served(queue) == "B1 B2 A2"


def test_what_a_waiting_tenant_gets_back_it_may_spend():
    queue = DRR(10)
    made = put(queue, "A1 A2", cost=10)
    put(queue, "B1 B2", cost=10)
    assert queue.get() is made["A1"]
    queue.done(made["A1"], 0)
    assert served(queue) == "A2 B1 B2"


def test_a_weight_changes_from_the_next_visit_on():
    queue = DRR(1)
    put(queue, "A1 A2 A3 A4 A5 A6 B1 B2 B3")
    assert served(queue, 2) == "A1 B1"
    queue.set_weight("A", 3)
    assert served(queue) == "A2 A3 A4 B2 A5 A6 B3"


@pytest.mark.parametrize(
    ("quantum", "first", "second"),
    [(0.52, 0.5, 4.7), (0.04, 1.5, 5.7), (0.03, 0.03, 9), (0.12, 0.12, 48)],
)
def test_rounds_are_counted_as_floats_add_up(quantum, first, second):
    """Divided, these come out a visit short or a visit over: what counts is credit + visits·quantum."""
    visits = next(v for v in count(1) if v * quantum >= first)
    left = visits * quantum - first
    more = next(v for v in count(1) if left + v * quantum >= second)
    policy = DRR(quantum)
    for tenant, cost in (("a", first), ("b", 1000), ("a", second)):
        policy.put(Request(tenant, cost))
    assert policy.snapshot()["accounts"]["a"]["due"] == visits
    assert policy.get().tenant == "a"
    assert policy.snapshot()["accounts"]["a"]["due"] == visits + more


def test_rounds_beyond_what_a_float_can_count():
    """A cost of 3 by 2⁻⁶⁰ a visit takes 3·2⁶⁰ visits, and b at weight 3 a third of them."""
    policy = DRR(2.0**-60, {"b": 3})
    for tenant in "ab":
        policy.put(Request(tenant, 3))
    due = {name: account["due"] for name, account in policy.snapshot()["accounts"].items()}
    assert due == {"a": 3 * 2**60, "b": 2**60}


def test_a_tiny_quantum_gives_the_order_of_the_ring_without_walking_it():
    """Costs 10⁶ and 10⁶ + 1 at quantum 1: A's head is due in round 10⁶, B's one round later."""
    queue = DRR(1)
    queue.put(Request("B", 10**6 + 1, id="B1"))
    for name in ("A1", "A2"):
        queue.put(Request("A", 10**6, id=name))
    assert served(queue) == "A1 B1 A2"


def test_floats_are_counted_in_whole_visits():
    """0.1 three times makes more than 0.3, so a cost of 0.3 takes three visits and not four."""
    queue = DRR(0.1)
    queue.put(Request("A", 0.3, id="A1"))
    for name in ("B1", "B2", "B3", "B4"):
        queue.put(Request("B", 0.1, id=name))
    assert served(queue) == "B1 B2 A1 B3 B4"


def test_the_ring_keeps_its_order_when_many_join_in_the_middle():
    """The ring stands at B: 300 newcomers come between A and B, and leave in the order in which they came."""
    queue = DRR(1)
    put(queue, "A1 A2 B1 B2 C1 C2")
    assert served(queue, 2) == "A1 B1"
    for n in range(300):
        queue.put(Request(f"new {n}", 1, id=f"n{n}"))
    assert served(queue, 999) == " ".join(["C1", "A2", *(f"n{n}" for n in range(300)), "B2", "C2"])


def test_each_decision_is_explained():
    queue = DRR(10, {"A": 2})
    for tenant, cost, name in (("A", 4, "A1"), ("A", 16, "A2"), ("A", 1, "A3"), ("B", 25, "B1")):
        queue.put(Request(tenant, cost, id=name))

    def why():
        sentence = queue.snapshot()["why"]
        queue.done(queue.get())
        return sentence

    assert why() == "A's turn in round 1: deficit 0 + visit of 20 = 20 covers the cost 4."
    assert why() == "A's visit of round 1 goes on: its deficit 16 covers the cost 16."
    assert queue.snapshot()["accounts"] == {
        "A": {"weight": 2, "gain": 20, "deficit": 0, "round": 1, "open": True, "due": 2, "place": 0},
        "B": {"weight": 1, "gain": 10, "deficit": 0, "round": 0, "open": False, "due": 3, "place": 1},
    }
    assert why() == "A's turn in round 2: deficit 0 + visit of 20 = 20 covers the cost 1."
    assert why() == "B's turn in round 3: deficit 10 + 2 visits of 10 = 30 covers the cost 25."
    assert queue.snapshot()["why"] == "Nothing waits."


def test_the_books_show_the_visits_that_passed_without_effect():
    """A needs 25 and gains 10: after rounds 1 and 2, which served B, it has 20: it sends in round 3."""
    queue = DRR(10)
    queue.put(Request("A", 25, id="A1"))
    put(queue, "B1 B2 B3 B4", cost=10)
    assert served(queue, 2) == "B1 B2"
    books = {"weight": 1, "gain": 10, "deficit": 20, "round": 2, "open": False, "due": 3, "place": 0}
    assert queue.snapshot()["accounts"]["A"] == books
    queue.set_weight("A", 1)  # which books them
    assert queue.snapshot()["accounts"]["A"] == books
    assert served(queue) == "A1 B3 B4"


def test_a_visit_that_makes_up_for_one_missed_is_explained():
    """While A1 runs under A's cap of one, rounds 2 and 3 pass A by. It makes up that of round 2, and is owed
    one more, which queues behind what was served last: round 3.
    """
    queue = KeyCaps(DRR(10), {"A": 1})
    made = put(queue, "A1 A2 A3 B1 B2 B3 B4", cost=10)
    for name in ("A1", "B1", "B2", "B3"):
        assert queue.get() is made[name]
    books = {"weight": 1, "gain": 10, "deficit": 0}
    for name, turn, due, waits in (("A2", 2, 3, True), ("A3", 3, None, False)):
        queue.done(made["A" + str(int(name[1]) - 1)])
        assert queue.snapshot()["why"] == (
            f"A's turn in round {turn}: deficit 0 + visit of 10 = 10 covers the cost 10."
            " It makes up a visit that a cap made it miss."
        )
        assert queue.get() is made[name]
        place = 0 if waits else None
        shown = queue.snapshot()["accounts"]["A"]
        assert shown == {**books, "round": turn, "open": waits, "due": due, "place": place}
    assert queue.snapshot()["why"] == "B's turn in round 4: deficit 0 + visit of 10 = 10 covers the cost 10."


def test_a_visit_missed_in_the_present_round_is_made_up_too():
    queue = KeyCaps(DRR(10), {"A": 1})
    made = put(queue, "A1 A2 B1 B2 B3", cost=10)
    for name in ("A1", "B1", "B2"):
        assert queue.get() is made[name]
    queue.done(made["A1"])
    assert queue.snapshot()["why"] == (
        "A's turn in round 2: deficit 0 + visit of 10 = 10 covers the cost 10."
        " It makes up a visit that a cap made it miss."
    )


def test_a_visit_for_the_key_that_may_run_is_explained_by_its_own_cost():
    """A's earliest request needs three visits, and two have passed it; the one that may run needs one."""
    queue = KeyCaps(DRR(10), {"dear": 0, "cheap": 0})
    queue.put(Request("A", 30, key="dear", id="A1"))
    queue.put(Request("A", 10, key="cheap", id="A2"))
    put(queue, "B1 B2 B3", cost=10)
    assert served(queue, 2) == "B1 B2"
    assert queue.snapshot()["accounts"]["A"]["deficit"] == 20
    queue.set_cap("cheap", 1)
    assert queue.snapshot()["why"] == (
        "A's turn in round 1: deficit 0 + visit of 10 = 10 covers the cost 10."
        " It makes up a visit that a cap made it miss. Held back by a cap: dear."
    )
    assert served(queue, 1) == "A2"


@pytest.mark.parametrize("quantum", fair.QUANTA)
def test_the_pairwise_bound(quantum):
    worst = fair.worst_pair(lambda w: DRR(quantum, w), quantum, seeds=range(100, 115))
    assert 0.5 < worst < 1  # close to the bound, or the demand would say little


def test_max_min_filling():
    assert 0.2 < fair.worst_maxmin(lambda w: DRR(10, w), 10, seeds=range(100, 110)) <= 1


def test_the_accounts_keep_the_lemmas():
    seen = fair.drr_books(seeds=range(100, 110))
    assert seen["least"] == 0
    assert all(0.7 < seen[name] < 1 for name in ("end", "inside", "visits"))


def test_slot_seconds_need_the_wider_bound():
    single, many = fair.slot_seconds(range(100, 115))
    assert single > 1.5
    assert 0.3 < many < 1


def test_the_latency_of_a_newcomer():
    assert 0.5 < fair.drr_latency(range(1_000, 1_030)) <= 1


def test_the_work_of_a_decision_does_not_grow():
    few = laws.operations(10, dispatches=500)
    assert laws.operations(2_000, dispatches=500) < 1.5 * few


def test_fractions_stay_exact():
    queue = DRR(Fraction(1, 3), {"A": Fraction(1, 2)})
    queue.put(Request("A", Fraction(1, 6), id="A1"))
    queue.put(Request("A", Fraction(1, 6), id="A2"))
    queue.put(Request("B", Fraction(1, 3), id="B1"))
    assert served(queue) == "A1 B1 A2"


class General(DRR):
    """DRR that never takes the plain ring's short way."""

    def put(self, request):
        Queue.put(self, request)

    def get(self, eligible=None, now=None):
        return Queue.get(self, eligible, now)


@pytest.mark.parametrize("seed", range(300))
def test_the_short_way_serves_as_the_general_one(seed):
    """Callers that narrow the choice now and then, debts, cancels and new weights between plain calls."""
    draw = random.Random(seed)
    setting = {
        "quantum": draw.choice([1, 3, 7, Fraction(1, 3), 1000]),
        "weights": {f"t{n}": draw.choice([1, 2, Fraction(1, 3), 4]) for n in range(6)},
    }
    alike = Alike(DRR(**setting), General(**setting))
    keys, tenants = draw.choice([1, 1, 3]), draw.randint(1, 6)
    for step in range(300):
        tenant, chance = f"t{draw.randrange(tenants)}", draw.random()
        if chance < 0.5:
            key = f"{tenant}-{draw.randrange(keys)}"
            alike.put(Request(tenant, draw.choice([1, 2, 5, 10]), key=key, id=step))
        elif chance < 0.9:
            only = draw.random() < 0.1
            alike.get((lambda key, tenant=tenant: key.startswith(tenant)) if only else None)
        elif chance < 0.97 and alike.running:
            alike.done(draw, [1, 3, 20, None])
        elif chance < 0.99 and alike.waiting:
            alike.cancel(draw)
        else:
            weight = draw.choice([1, 2, 3])
            alike.each(lambda queue, tenant=tenant, weight=weight: queue.set_weight(tenant, weight))


@pytest.mark.parametrize("seed", range(40))
def test_under_caps_the_short_way_serves_as_the_general_one(seed):
    """Caps of keys and of groups hold some back, and may change: what they miss is counted alike."""
    draw = random.Random(seed)
    tenants = [f"t{n}" for n in range(draw.choice([3, 6]))]
    setting = {"quantum": draw.choice([3, 10]), "weights": {t: draw.choice([1, 2]) for t in tenants}}
    caps = {t: draw.choice([1, 2]) for t in tenants if draw.random() < 0.5}
    groups = {"g": (draw.sample(tenants, len(tenants) - 1), draw.choice([1, 2, 3]))}
    alike = Alike(*(KeyCaps(policy(**setting), caps, groups=groups) for policy in (DRR, General)))
    for step in range(200):
        tenant, chance = draw.choice(tenants), draw.random()
        if chance < 0.4:
            alike.put(Request(tenant, draw.choice([1, 2, 5, 10]), id=step))
        elif chance < 0.7:
            alike.get()
        elif chance < 0.95 and alike.running:
            alike.done(draw)
        elif chance < 0.97 and alike.waiting:
            alike.cancel(draw)
        else:
            cap = draw.choice([0, 1, 2, None])
            alike.each(lambda queue, tenant=tenant, cap=cap: queue.set_cap(tenant, cap))


@pytest.mark.parametrize("seed", range(20))
def test_to_look_changes_nothing(seed):
    """Of two queues one is asked about after every call: their accounts stay the same to the last field."""
    draw = random.Random(seed)
    looked, left = DRR(3, {"t0": 2}), DRR(3, {"t0": 2})
    alike = Alike(looked, left)
    for step in range(200):
        chance = draw.random()
        if chance < 0.45:
            alike.put(Request(f"t{draw.randrange(3)}", draw.choice([1, 2, 5]), id=step))
        elif chance < 0.95:
            alike.get()
        elif alike.running:
            alike.done(draw, [1, 9])
        looked.snapshot()
        looked.peek(lambda key: key != "t1")
        looked.waiting("t2")
    assert looked.snapshot() == left.snapshot()


def test_one_that_waits_alone_is_shown_to_those_whom_the_gate_lets_through():
    """Nobody else waits or runs, so nothing but the gate decides; a cap of 0 is one that nothing passes."""
    alone = Request("a", 3, key="k")
    for limit, shown in [(None, True), (1, True), (0, False)]:
        queue = DRR(2) if limit is None else KeyCaps(DRR(2), {"k": limit})
        queue.put(alone)
        assert queue.peek() is (alone if shown else None)
        assert queue.peek(lambda key: key == "k") is (alone if shown else None)
        assert queue.peek(lambda key: key != "k") is None
        assert queue.get() is (alone if shown else None)


@pytest.mark.parametrize("look", [None, lambda key: key != "a", lambda key: key != "b", lambda key: False])
@pytest.mark.parametrize("first", ["ab", "ba"])
def test_visits_that_lose_their_credit_while_held_queue_in_that_order(first, look):
    """Caps of 1 hold a and b back with 5 of credit left, c is served two rounds on, and then their running
    requests turn out dearer: both can no longer pay, are owed what they missed, and come before c in
    the order in which they lost it. To look in between changes nothing.
    """
    queue = KeyCaps(DRR(10), {"a": 1, "b": 1})
    costs = {"a1": 5, "a2": 5, "b1": 5, "b2": 5, "c1": 10, "c2": 10, "c3": 10, "c4": 10}
    made = {name: Request(name[0], cost, id=name) for name, cost in costs.items()}
    for request in made.values():
        queue.put(request)
    assert [queue.get().id for _ in range(4)] == ["a1", "b1", "c1", "c2"]
    for tenant in first:
        queue.done(made[f"{tenant}1"], 8)
    if look is not None:
        queue.peek(look)
    assert served(queue) == " ".join([*(f"{tenant}2" for tenant in first), "c3", "c4"])


def held_with_credit_left():
    """a is held with 5 of credit left from its visit; two rounds of visits pass x, one passes a."""
    queue = DRR(10)
    asked = [("x", "x", 20), ("a", "a", 5), ("a", "a", 2), ("a", "dear", 8), *[("c", "c", 10)] * 3]
    for number, (tenant, key, cost) in enumerate(asked):
        queue.put(Request(tenant, cost, key=key, arrival=1, id=number))
    assert [queue.get(lambda key, may=may: key in may).id for may in ("a", "c", "c")] == [1, 4, 5]
    return queue


def test_a_key_that_an_open_visit_cannot_pay_for_overtakes_nobody():
    """The dear key may run: its 8 are paid by the visit that passed a, after the second that passed x."""
    queue = held_with_credit_left()
    assert [queue.get(lambda key: key in ("x", "dear")).id for _ in range(2)] == [0, 3]


def test_an_earlier_request_that_an_open_visit_cannot_pay_for_overtakes_nobody():
    """It ends the visit: what passed a is owed, after what passed x. Of 5 + 10 the 7 and the 2 leave 6, so
    the dear one waits for a's next visit, which comes before the third of c.
    """
    queue = held_with_credit_left()
    queue.put(Request("a", 7, arrival=0, id="early"))
    assert [queue.get().id for _ in range(5)] == [0, "early", 2, 3, 6]
