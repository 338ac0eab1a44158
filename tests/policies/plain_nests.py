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
        self.branches, self.counters, self.emptied, self.lagging, self.most = {}, {}, None, set(), 0
        self.groups = []  # sets of keys under one cap around

    def inners(self):
        return list(self.branches.values())

    def route(self, request):
        name = self.of(request)
        if name not in self.branches:
            self.branches[name], self.counters[name] = self.make(name), Fraction(0)
        return self.branches[name]

    def waiting(self):
        return {self.of(wait[2]) for wait in self.waits}

    def level(self):
        """Where a branch that was empty starts: those that were passed over do not count."""
        abreast = [self.counters[name] for name in self.waiting() - self.lagging]
        if abreast:
            return min(abreast)
        return 0 if self.emptied is None else self.counters[self.emptied]

    def joins(self, request):
        name, level = self.of(request), self.level()
        if name not in self.waiting():
            beside = [self.counters[other] for other in self.beside(name, [request.key])]
            self.counters[name] = max(self.counters[name], min([level, *beside]))
            if self.counters[name] < level:
                self.lagging.add(name)

    def beside(self, name, keys):
        """The other branches that lag with a request under a cap that one of these keys is under."""
        groups = [group for group in self.groups if any(key in group for key in keys)]
        found = {self.of(wait[2]) for wait in self.waits if any(wait[2].key in group for group in groups)}
        return [other for other in found if other in self.lagging and other != name]

    def rank(self, wait):
        return self.counters[self.of(wait[2])]

    def charge(self, name, cost):
        self.counters[name] += Fraction(cost) / self.weights.get(name, 1)
        if name in self.lagging and self.counters[name] >= self.level():
            self.lagging.remove(name)

    def serve(self, request):
        name = self.of(request)
        self.lagging |= {other for other in self.waiting() if self.counters[other] < self.counters[name]}
        if name in self.lagging:  # it may catch up with four of the largest requests
            self.most = max(self.most, Fraction(request.cost) / self.weights.get(name, 1))
            level = self.level()
            if level - self.counters[name] > (8 + Fraction(len(self.lagging), 16)) * self.most:
                forgiven = level - 4 * self.most - self.counters[name]
                self.counters[name] += forgiven
                keys = [request.key] + [wait[2].key for wait in self.waits if self.of(wait[2]) == name]
                for other in self.beside(name, keys):
                    self.counters[other] = min(self.counters[other] + forgiven, level)
                    self.charge(other, 0)
        self.charge(name, request.cost)
        self.left(request)

    def left(self, request):
        name = self.of(request)
        if name not in self.waiting():
            if name not in self.lagging:
                self.emptied = name
            self.lagging.discard(name)

    def settle(self, request, difference):
        super().settle(request, difference)
        name = self.of(request)
        if name in self.waiting():
            self.charge(name, difference)
        else:
            self.counters[name] += Fraction(difference) / self.weights.get(name, 1)


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
        share_groups(inner, [keys for keys, _ in caps if len(keys) > 1])

    def passes(self):
        def within(key):
            return all(
                limit is None or key not in keys or sum(k in keys for k in self.keys) < limit
                for keys, limit in self.caps
            )

        return [within, lambda key: True]


class PlainCaps(PlainSoftCaps):
    def passes(self):
        return super().passes()[:1]


class PlainFloors(Around):
    def __init__(self, inner, floors, slots):
        super().__init__(inner)
        self.floors, self.slots = floors, slots  # (keys, n) each
        # who is in the same floors is held back together
        kinds = {}
        for key in [name + more for name in "abcd" for more in ("", "2")]:
            kinds.setdefault(tuple(key in keys for keys, _ in floors), set()).add(key)
        share_groups(inner, list(kinds.values()))

    def passes(self):
        def free(key):
            kept = sum(
                max(0, n - sum(k in keys for k in self.keys)) for keys, n in self.floors if key not in keys
            )
            return self.slots - len(self.keys) > kept

        return [free]


def share_groups(inner, groups):
    """The plain counters inside are told whose caps are shared."""
    if isinstance(inner, Around):
        share_groups(inner.inner, groups)
    elif isinstance(inner, PlainNested):
        inner.groups = inner.groups + groups
        inner.make = lambda name, make=inner.make: told(make(name), groups)
    elif isinstance(inner, Nest):
        for each in inner.inners():
            share_groups(each, groups)
    elif hasattr(inner, "groups"):
        inner.groups = inner.groups + groups


def told(inner, groups):
    share_groups(inner, groups)
    return inner
