"""Levels, shares of shares, floors and soft caps a second time: lists and loops, no code shared with fairq.

``peek`` is a ``get`` on a copy.
"""

from __future__ import annotations

import copy
from fractions import Fraction


class Nest:
    """Inner plain queues; a request's place is looked up in a list of all that wait."""

    def __init__(self):
        self.waits = []  # (arrival, order of put, request, inner)
        self.homes = {}

    def put(self, request):
        inner = self.route(request)
        self.joins(request)
        inner.put(request)
        self.waits.append((request.arrival, len(self.homes), request, inner))
        self.homes[request] = inner

    def get(self, allowed=lambda key: True, now=None):
        offers = []
        for inner in self.inners():
            offer = copy.deepcopy(inner).get(allowed, now)
            offers += [wait for wait in self.waits if wait[2] is offer]
        if not offers:
            return None
        wait = min(offers, key=lambda wait: (self.rank(wait), wait[0], wait[1]))
        assert wait[3].get(allowed, now) is wait[2]
        self.waits.remove(wait)
        self.serve(wait[2])
        return wait[2]

    def cancel(self, request):
        self.homes[request].cancel(request)
        self.waits = [wait for wait in self.waits if wait[2] is not request]
        self.left(request)

    def settle(self, request, difference):
        self.homes[request].settle(request, difference)

    def ended(self, request):
        self.homes[request].ended(request)

    def joins(self, request):
        pass

    def serve(self, request):
        pass

    def left(self, request):
        pass


class PlainLevels(Nest):
    def __init__(self, levels, ageing):
        super().__init__()
        self.levels, self.ageing = levels, ageing

    def inners(self):
        return list(self.levels.values())

    def route(self, request):
        return self.levels[request.priority]

    def rank(self, wait):
        level = wait[2].priority
        return level if self.ageing is None else wait[0] + self.ageing * level


class PlainNested(Nest):
    def __init__(self, of, make, weights):
        super().__init__()
        self.of, self.make, self.weights = of, make, weights
        self.branches, self.counters, self.emptied = {}, {}, None

    def inners(self):
        return list(self.branches.values())

    def route(self, request):
        name = self.of(request)
        if name not in self.branches:
            self.branches[name], self.counters[name] = self.make(name), Fraction(0)
        return self.branches[name]

    def waiting(self):
        return {self.of(wait[2]) for wait in self.waits}

    def joins(self, request):
        name, waiting = self.of(request), self.waiting()
        if name in waiting:
            return
        others = [self.counters[other] for other in waiting]
        if not others and self.emptied is not None:
            others = [self.counters[self.emptied]]
        if others:
            self.counters[name] = max(self.counters[name], min(others))

    def rank(self, wait):
        return self.counters[self.of(wait[2])]

    def charge(self, request, cost):
        name = self.of(request)
        self.counters[name] += Fraction(cost) / self.weights.get(name, 1)

    def serve(self, request):
        self.charge(request, request.cost)
        self.left(request)

    def left(self, request):
        if self.of(request) not in self.waiting():
            self.emptied = self.of(request)

    def settle(self, request, difference):
        super().settle(request, difference)
        self.charge(request, difference)


class Around:
    """Something around a plain queue that decides which keys may run, from a list of what runs."""

    def __init__(self, inner):
        self.inner, self.keys = inner, []

    def put(self, request):
        self.inner.put(request)

    def cancel(self, request):
        self.inner.cancel(request)

    def settle(self, request, difference):
        self.inner.settle(request, difference)

    def ended(self, request):
        self.keys.remove(request.key)
        self.inner.ended(request)

    def get(self, allowed=lambda key: True, now=None):
        for may in self.passes():
            request = self.inner.get(lambda key, may=may: may(key) and allowed(key), now)
            if request is not None:
                self.keys.append(request.key)
                return request
        return None


class PlainSoftCaps(Around):
    def __init__(self, inner, caps):
        super().__init__(inner)
        self.caps = caps  # [keys, limit] each

    def passes(self):
        def within(key):
            return all(
                limit is None or key not in keys or sum(k in keys for k in self.keys) < limit
                for keys, limit in self.caps
            )

        return [within, lambda key: True]


class PlainFloors(Around):
    def __init__(self, inner, floors, slots):
        super().__init__(inner)
        self.floors, self.slots = floors, slots  # (keys, n) each

    def passes(self):
        def free(key):
            kept = sum(
                max(0, n - sum(k in keys for k in self.keys)) for keys, n in self.floors if key not in keys
            )
            return self.slots - len(self.keys) > kept

        return [free]
