"""DRR, when keys are held back, against the ring that is walked visit by visit: every decision, exactly.

``PlainDRR`` says the rule in words. The same random calls go to both: a caller's predicate, caps of keys,
caps of groups, both, then all of these, and clients that mostly give up. One or two keys per tenant, limits
and weights changed on the way, debts, requests that are cancelled or put late, a quantum below and above the
costs, fractions. And tenants on slots, under caps in caps: there many visits are owed.
"""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from fairq import DRR, KeyCaps, Request
from fairq.prove import caps
from fairq.prove.plain import PlainDRR

PATIENT = (0.2, 0.64, 0.66, 0.69, 0.97)
"""How often a step puts, gets, cancels, charges, ends work: in sums; else it changes a weight or a limit."""
RESTLESS = (0.3, 0.6, 0.8, 0.8, 1.0)


class Play:
    """Both rings, who waits and who runs, and the caps in plain lists."""

    def __init__(self, seed, *, predicate=False, own=False, groups=False, chances=PATIENT):
        draw = self.draw = random.Random(seed)
        self.predicate, self.accepted, self.chances = predicate, None, chances
        self.tenants = "abcde"[: draw.randint(1, 5)]
        more = draw.choice([[""], [""], ["", "2"]])
        self.keys = [tenant + end for tenant in self.tenants for end in more]
        quantum = draw.choice([1, 2, 3, 5, 10, 30, Fraction(7, 3)])
        weights = {tenant: draw.choice([1, 1, 2, 3, Fraction(1, 2)]) for tenant in self.tenants}
        free = draw.choice([0, len(more)])  # the last tenant is under no cap, or may be
        some = self.keys[: len(self.keys) - free] or self.keys
        self.own = {key: draw.choice([0, 1, 1, 2]) for key in some if own and draw.random() < 0.6}
        self.groups = {}
        for name in ["g", "h"][: draw.randint(1, 2) if groups else 0]:
            keys = draw.sample(some, draw.randint(1, len(some)))
            self.groups[name] = [set(keys), draw.choice([1, 2, 2, 3])]
        self.ring, self.plain = DRR(quantum, weights), PlainDRR(quantum, weights)
        self.queue = self.ring
        if own or groups:
            self.queue = KeyCaps(self.ring, self.own, groups=self.groups)
        self.plain.groups = [keys for keys, _ in self.groups.values()]
        self.true_up = draw.random() < 0.5
        self.waiting, self.running = [], {}
        self.largest = draw.choice([int(quantum), int(quantum), 25])
        for now in range(draw.choice([2, 6, 12]) * len(self.keys)):
            self.put(now - 999)

    def open(self, key):
        runs = [request.key for request in self.running]
        limits = [({key}, self.own.get(key)), *(group for group in self.groups.values() if key in group[0])]
        return all(limit is None or sum(k in keys for k in runs) < limit for keys, limit in limits)

    def step(self, now):
        draw, chance = self.draw, self.draw.random()
        put, get, cancel, charge, done = self.chances
        if chance < put:
            self.put(now)
        elif chance < get:
            self.get()
        elif chance < cancel and self.waiting:
            request = self.waiting.pop(draw.randrange(len(self.waiting)))
            assert self.queue.cancel(request)
            self.plain.cancel(request)
        elif chance < charge and self.running and self.true_up:
            request, cost = draw.choice(list(self.running)), draw.randint(0, 60)
            self.queue.charge(request, cost)
            if cost > self.running[request]:
                self.plain.settle(request, cost - self.running[request])
                self.running[request] = cost
        elif chance < done and self.running:
            request = draw.choice(list(self.running))
            charged = self.running.pop(request)
            cost = draw.choice([None, draw.randint(0, 60)]) if self.true_up else None
            self.queue.done(request, cost)
            if cost not in (None, charged):
                self.plain.settle(request, cost - charged)
        else:
            self.change()
        for tenant, account in self.ring.snapshot()["accounts"].items():
            assert account["deficit"] == self.plain.credit(tenant)

    def put(self, now):
        draw, key = self.draw, self.draw.choice(self.keys)
        cost = draw.choice([1, self.largest, draw.randint(1, self.largest)])
        arrival = now - draw.choice([0] * 9 + [draw.randint(1, 9)])
        request = Request(key[0], cost, arrival=arrival, key=key, id=now)
        self.queue.put(request)
        self.plain.put(request)
        self.waiting.append(request)

    def get(self):
        if self.predicate and self.draw.random() < 0.15:  # else as at the last call
            some = set(self.draw.sample(self.keys, self.draw.randint(0, len(self.keys))))
            self.accepted = self.draw.choice([None, some])
        accepted = self.accepted
        eligible = None if accepted is None else accepted.__contains__
        peeked, given = self.queue.peek(eligible), self.queue.get(eligible)
        wanted = self.plain.get(lambda key: self.open(key) and (accepted is None or key in accepted))
        assert peeked is given is wanted
        if given is not None:
            self.waiting.remove(given)
            self.running[given] = given.cost

    def change(self):
        """A weight or a limit."""
        draw = self.draw
        what = draw.choice(["weight", *(["key"] if self.own else []), *(["group"] if self.groups else [])])
        if what == "weight":
            tenant, weight = draw.choice(self.tenants), draw.choice([1, 2, 3, Fraction(1, 2)])
            self.ring.set_weight(tenant, weight)
            self.plain.set_weight(tenant, weight)
        elif what == "key":
            key, limit = draw.choice(list(self.own)), draw.choice([0, 1, 2, None])
            self.own[key] = limit
            self.queue.set_cap(key, limit)
        else:
            name, limit = draw.choice(list(self.groups)), draw.choice([1, 2, 3, None])
            self.groups[name][1] = limit
            self.queue.set_group_cap(name, limit)


HELD = {
    "a caller's predicate": {"predicate": True},
    "caps of keys": {"own": True},
    "caps of groups": {"groups": True},
    "caps of keys and groups": {"own": True, "groups": True},
    "all of these": {"predicate": True, "own": True, "groups": True},
    "caps, and clients that give up": {"own": True, "groups": True, "chances": RESTLESS},
}
held = pytest.mark.parametrize("by", HELD.values(), ids=HELD)


def random_calls(seed, by, steps):
    play = Play(seed, **by)
    for now in range(steps):
        try:
            play.step(now)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {now}") from error


def organisation(seed):
    """Four or five tenants, of whom three or four share slots, and teams of these share some of them."""
    draw = random.Random(seed)
    names = "abcde"[: draw.randint(4, 5)]
    slots = draw.randint(3, 6)
    inside = names[: draw.randint(3, len(names) - 1)]
    limit = draw.randint(2, slots - 1)
    teams = [(draw.sample(inside, draw.randint(2, len(inside) - 1)), draw.randint(1, limit)) for _ in "12"]
    own = [([name], draw.randint(1, 2)) for name in names if draw.random() < 0.3]
    weights = {name: draw.randint(1, 3) for name in names}
    return caps.Setting("", slots, weights, own, [(list(inside), limit), *teams[: draw.randint(1, 2)]])


def on_slots(setting, seed, dispatches):
    """Tenants that wait always, or come and go, under caps of keys, of groups, of groups within groups."""
    draw = random.Random(seed)
    quantum, limits = draw.choice([1, 2, 4, 4]), setting.inner + setting.outer
    ring, plain = DRR(quantum, setting.weights), PlainDRR(quantum, setting.weights)
    queue = setting.policy(lambda weights: ring)
    plain.groups = [set(keys) for keys, _ in limits if len(keys) > 1]
    costs, always = draw.choice([[1], [1, 4], [1, 2, 3, 4]]), draw.random() < 0.6
    running, now = [], 0  # (finish, number, request)

    def ask(tenant, number):
        cost = draw.choice(costs)
        request = Request(tenant, cost, service=cost, arrival=now, id=number)
        queue.put(request)
        plain.put(request)

    def may(key):
        keys = [request.key for _, _, request in running]
        return all(sum(k in under for k in keys) < limit for under, limit in limits if key in under)

    for tenant in setting.weights:
        for number in range(4):
            ask(tenant, number)
    number = 0
    while number < dispatches:
        request = queue.get() if len(running) < setting.slots else None
        if len(running) < setting.slots:
            assert request is plain.get(may), f"seed {seed}, dispatch {number}"
        if request is None:
            now = min(running)[0]
            for job in [job for job in running if job[0] == now]:
                running.remove(job)
                queue.done(job[2])
            continue
        running.append((now + request.service, number, request))
        number += 1
        ask(request.tenant if always else draw.choice(list(setting.weights)), number)


settings = pytest.mark.parametrize("setting", [caps.random_setting, organisation])


@held
def test_every_decision_is_that_of_the_plain_ring(by):
    for seed in range(90):
        random_calls(seed, by, steps=170)


@settings
def test_every_decision_on_slots_is_that_of_the_plain_ring(setting):
    for seed in range(120):
        on_slots(setting(seed), seed, dispatches=150)


@held
@pytest.mark.slow
def test_1500_times(by):
    for seed in range(90, 1_590):
        random_calls(seed, by, steps=200)


@settings
@pytest.mark.slow
def test_1000_times_on_slots(setting):
    for seed in range(120, 1_120):
        on_slots(setting(seed), seed, dispatches=300)
