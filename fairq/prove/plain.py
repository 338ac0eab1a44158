"""Every policy a second time, as plainly as it can be written: lists, loops, and every visit walked.

Shares no code with ``fairq.policies`` or ``fairq.sim`` and is written from the papers and from the
contract alone, so that equal schedules mean something. Slow on purpose. A request is only read: its
``tenant, key, cost, priority, arrival, service``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from fractions import Fraction
from typing import Any

Allowed = Callable[[str], bool]


class Plain:
    """Waiting requests in one list; a policy says which of those that may run is first."""

    def __init__(self) -> None:
        self.waits: list[tuple[Any, int, Any]] = []  # (arrival, order of put, request)
        self.puts = 0

    def put(self, request: Any) -> None:
        self.joins(request)
        self.waits.append((request.arrival, self.puts, request))
        self.puts += 1

    def get(self, allowed: Allowed = lambda key: True, now: Any = None) -> Any:
        can = [w for w in self.waits if allowed(w[2].key)]
        if not can:
            return None
        first = self.first(can, now)
        self.leave(first[2])
        self.serve(first[2])
        self.after(first[2])
        request: Any = first[2]
        return request

    def cancel(self, request: Any) -> None:
        self.leave(request)
        self.after(request)

    def leave(self, request: Any) -> None:
        self.waits = [w for w in self.waits if w[2] is not request]

    def of(self, tenant: str) -> list[Any]:
        """The tenant's waiting requests, earliest first."""
        return sorted((w for w in self.waits if w[2].tenant == tenant), key=lambda w: w[:2])

    def first(self, can: list[Any], now: Any) -> Any:
        """The one to serve, of those that may run."""
        return min(can, key=lambda w: (self.rank(w, now), w[0], w[1]))

    def rank(self, wait: Any, now: Any) -> Any:
        raise NotImplementedError

    def joins(self, request: Any) -> None:
        """It is about to wait."""

    def serve(self, request: Any) -> None:
        """It was chosen: charge the estimate."""

    def after(self, request: Any) -> None:
        """It no longer waits."""

    def settle(self, request: Any, difference: Any) -> None:
        """It cost this much more than was charged."""

    def ended(self, request: Any) -> None:
        """It left service."""

    def set_weight(self, tenant: str, weight: Any) -> None:
        """A weight changes, where there are weights."""


class PlainFIFO(Plain):
    def rank(self, wait: Any, now: Any) -> Any:
        return 0


class PlainPriority(Plain):
    def __init__(self, ageing: Any) -> None:
        super().__init__()
        self.ageing = ageing

    def rank(self, wait: Any, now: Any) -> Any:
        arrival, _, request = wait
        return request.priority if self.ageing is None else arrival + self.ageing * request.priority


class PlainShortest(Plain):
    def rank(self, wait: Any, now: Any) -> Any:
        return wait[2].cost


class PlainAccumulating(Plain):
    def __init__(self, rates: Mapping[Any, Any]) -> None:
        super().__init__()
        self.rates = rates

    def rank(self, wait: Any, now: Any) -> Any:
        return -(now - wait[0]) * self.rates[wait[2].priority]


class PlainCounting(Plain):
    """The least counter first; idle time earns nothing, and being held back earns four requests at most.

    A tenant that a ``get`` passes over, because it may not run, lags: its low counter is no level to which
    others are lifted, but to those who stand under the same group cap (``groups``: sets of keys).
    """

    def __init__(self, weights: Mapping[str, Any]) -> None:
        super().__init__()
        self.weights = dict(weights)
        self.counters: dict[str, Any] = {}
        self.lagging: set[str] = set()
        self.groups: list[set[str]] = []
        self.largest_behind: Any = 0  # request of any that lagged, per weight

    def level(self) -> Any:
        """Where a tenant that joins starts."""
        raise NotImplementedError

    def per_weight(self, request: Any, cost: Any) -> Any:
        return _ratio(cost, self.weights.get(request.tenant, 1))

    def beside(self, tenant: str, keys: Iterable[str]) -> list[str]:
        """The other tenants that lag with a request under a group cap that one of these keys is under."""
        shared = [group for group in self.groups if any(key in group for key in keys)]
        found = {w[2].tenant for w in self.waits if any(w[2].key in group for group in shared)}
        return [other for other in found if other in self.lagging and other != tenant]

    def joins(self, request: Any) -> None:
        tenant = request.tenant
        if self.of(tenant):
            return
        level = self.level()
        start = min([level] + [self.counters[other] for other in self.beside(tenant, [request.key])])
        self.counters[tenant] = max(self.counters.get(tenant, 0), start)
        if self.counters[tenant] < level:
            self.lagging.add(tenant)

    def rank(self, wait: Any, now: Any) -> Any:
        return self.counters[wait[2].tenant]

    def serve(self, request: Any) -> None:
        tenant, mine = request.tenant, self.counters[request.tenant]
        self.lagging |= {w[2].tenant for w in self.waits if self.counters[w[2].tenant] < mine}
        cost = self.per_weight(request, request.cost)
        if tenant in self.lagging:
            level = self.level()
            self.largest_behind = max(self.largest_behind, cost)
            if level - mine > (8 + Fraction(len(self.lagging), 16)) * self.largest_behind:
                forgiven = level - 4 * self.largest_behind - mine
                self.counters[tenant] += forgiven
                for other in self.beside(tenant, [request.key] + [w[2].key for w in self.of(tenant)]):
                    self.counters[other] = min(self.counters[other] + forgiven, level)
                    self.catch_up(other)
        else:
            self.abreast(tenant)
        self.counters[tenant] += cost
        self.catch_up(tenant)

    def abreast(self, tenant: str) -> None:
        """One that does not lag is served."""

    def catch_up(self, tenant: str) -> None:
        if tenant in self.lagging and self.counters[tenant] >= self.level():
            self.lagging.remove(tenant)

    def settle(self, request: Any, difference: Any) -> None:
        self.counters[request.tenant] += self.per_weight(request, difference)
        if self.of(request.tenant):
            self.catch_up(request.tenant)

    def set_weight(self, tenant: str, weight: Any) -> None:
        self.weights[tenant] = weight


class PlainVTC(PlainCounting):
    """A tenant that joins is lifted to the least waiting, or to the one whose line emptied last."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        super().__init__(weights)
        self.emptied: str | None = None

    def level(self) -> Any:
        waiting = [self.counters[w[2].tenant] for w in self.waits if w[2].tenant not in self.lagging]
        if waiting:
            return min(waiting)
        return 0 if self.emptied is None else self.counters[self.emptied]

    def after(self, request: Any) -> None:
        tenant = request.tenant
        if not self.of(tenant):
            if tenant not in self.lagging:
                self.emptied = tenant
            self.lagging.discard(tenant)


class PlainSFQ(PlainCounting):
    """A tenant's counter is the start tag of its head; one that joins starts at the virtual time."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        super().__init__(weights)
        self.virtual: Any = 0
        self.largest: Any = 0
        self.busy = 0

    def level(self) -> Any:
        return self.virtual

    def joins(self, request: Any) -> None:
        if not self.waits and not self.busy:
            self.virtual = max(self.virtual, self.largest)
        super().joins(request)

    def abreast(self, tenant: str) -> None:
        self.virtual = self.counters[tenant]

    def serve(self, request: Any) -> None:
        super().serve(request)
        self.largest = max(self.largest, self.counters[request.tenant])
        self.busy += 1

    def after(self, request: Any) -> None:
        if not self.of(request.tenant):
            self.lagging.discard(request.tenant)

    def ended(self, request: Any) -> None:
        self.busy -= 1


class Visit:
    """In the ring of ``PlainDRR``: one that passed its tenant by, or that it is owed, or that is open."""

    def __init__(self, tenant: str, *, open: bool = False, owed: bool = False) -> None:
        self.tenant = tenant
        self.open = open
        self.owed = owed  # also when it is open: it was owed before


class Mark(Visit):
    """No visit, but a place in the list: behind what a tenant is owed. ``close`` stands behind all who queued
    there.
    """

    def __init__(self, close: Visit) -> None:
        super().__init__("")
        self.close = close


class PlainDRR(Plain):
    """The ring of the paper, walked visit by visit, and a list of the visits that passed somebody by.

    * The ring is walked place by place. Who stands there is served if it may run and can pay for its head by
      the gains of this visit and of all that have passed it since its last. Otherwise the visit passes it,
      be it held back or short of credit. Nothing moves unless somebody is served.
    * A visit that passed stands in the list, in the order of passing. Before the ring goes on, the list is
      read from its front. Who may run, and can pay for its head by the gains of its visits up to there,
      begins a late visit there, which takes all of these up. Its visits behind are lost, but for one if the
      late visit took up one only: that is owed.
    * A visit that has begun is open, and stands in the list where it began. When that place is read it goes
      on, if its tenant may run and can pay for its head without a gain. It is over when its tenant begins
      another; or when another tenant is served next and it could not pay for its head (the earliest of its
      keys that may run then; of all, when none may). So one that is held back with credit enough stays open.
    * With every request that a tenant sends in it, what has passed the tenant by becomes owed, two visits at
      most, and what it is owed goes to the end of the list: before the visit at which the ring stands, while
      that is open. But in a visit that was owed it stays where it is, while others are ahead in late visits
      under its group caps. If it leads under one of several caps, and the last that was sent to the list
      under that one stands behind it, it goes behind that and all who went behind that. Late visits count
      the visits they took up, start at the level of the most when a tenant joins and at each of its visits
      in the ring, and stay two behind the most or less.
    * Before a tenant's account, weight or line changes, but for a request that it sends, the visits that
      passed it and were too few to pay for its earliest request become gains; the next late visit still
      counts them as taken up. When a request gives up, their gains beyond the cost of the next are lost. If
      it is not the last one served, and an open visit can no longer pay for its earliest request after the
      change, that is over: what has passed it by is owed, two visits at most, at the end.
    """

    def __init__(self, quantum: Any, weights: Mapping[str, Any]) -> None:
        super().__init__()
        self.quantum = quantum
        self.weights = dict(weights)
        self.groups: list[set[str]] = []  # keys under one cap
        self.ring: list[str] = []  # where it stands is first
        self.visited = False  # the first of the ring has had its visit
        self.last: str | None = None  # the last one served, while it waits
        self.deficits: dict[str, Any] = {}
        self.late: list[Visit] = []
        self.gained: dict[str, int] = {}  # visits that became gains since the last one of a tenant …
        self.saved: dict[str, Any] = {}  # … and what is left of these gains
        self.begun: dict[str, int] = {}  # visits of a tenant that its late ones took up …
        self.most: dict[int, int] = {}  # … and the most under each group
        self.marks: dict[str, Mark] = {}  # of a tenant that is owed something …
        self.last_mark: dict[int, Mark] = {}  # … and the last in the list of those under each group

    def gain(self, tenant: str) -> Any:
        return self.quantum * self.weights.get(tenant, 1)

    def under(self, tenant: str) -> tuple[int, ...]:
        """The groups of its key; −1 for none, and when it waits with several keys."""
        keys = {w[2].key for w in self.of(tenant)}
        return tuple(n for n, group in enumerate(self.groups) if len(keys) == 1 and keys <= group) or (-1,)

    def level(self, tenant: str) -> int:
        return min(self.most.get(group, 0) for group in self.under(tenant))

    def open(self, tenant: str) -> list[Visit]:
        """Its open visit, if any."""
        return [visit for visit in self.late if visit.tenant == tenant and visit.open]

    def missed(self, tenant: str) -> list[Visit]:
        """Its visits that passed, or are owed."""
        return [visit for visit in self.late if visit.tenant == tenant and not visit.open]

    def drop(self, visits: list[Visit]) -> None:
        self.late = [visit for visit in self.late if visit not in visits]

    # -- somebody is served ---------------------------------------------------------------------

    def first(self, can: list[Any], now: Any) -> Any:
        heads: dict[str, Any] = {}
        for wait in sorted(can, key=lambda w: w[:2]):
            heads.setdefault(wait[2].tenant, wait)
        visit = self.first_late(heads)
        walk = [visit.tenant] if visit is not None else self.walk(heads)
        tenant = walk[-1]
        if self.last is not None and self.last != tenant:
            head = heads.get(self.last) or self.of(self.last)[0]
            if self.deficits[self.last] < head[2].cost:
                self.drop(self.open(self.last))
        self.last = tenant
        if visit is None:
            visit = self.go_on(walk)
        elif not visit.open:
            self.begin_late(visit)
        self.requeue(visit)
        return heads[tenant]

    def first_late(self, heads: Mapping[str, Any]) -> Visit | None:
        """The first visit in the list that can send something."""
        credits = dict(self.deficits)
        for visit in self.late:
            tenant = visit.tenant
            if tenant and not visit.open:
                credits[tenant] += self.gain(tenant)
            if tenant in heads and credits[tenant] >= heads[tenant][2].cost:
                return visit
        return None

    def walk(self, heads: Mapping[str, Any]) -> list[str]:
        """Where the ring goes from here, place by place, until somebody can send something."""
        ring = self.ring[1:] + self.ring[:1] if self.visited else list(self.ring)
        credits = {t: self.deficits[t] + len(self.missed(t)) * self.gain(t) for t in ring}
        walk = []
        while True:
            tenant = ring.pop(0)
            ring.append(tenant)
            walk.append(tenant)
            credits[tenant] += self.gain(tenant)
            if tenant in heads and credits[tenant] >= heads[tenant][2].cost:
                return walk

    def go_on(self, walk: list[str]) -> Visit:
        """The ring passes all but the last one, whose visit begins."""
        tenant = walk[-1]
        visit = Visit(tenant, open=True)
        self.late += [Visit(passed) for passed in walk[:-1]]
        self.deficits[tenant] += (len(self.missed(tenant)) + 1) * self.gain(tenant)
        self.drop([*self.open(tenant), *self.missed(tenant)])
        self.late.append(visit)
        at = self.ring.index(tenant)
        self.ring = self.ring[at:] + self.ring[:at]
        self.visited = True
        self.gained[tenant] = self.saved[tenant] = 0
        self.begun[tenant] = self.level(tenant)
        return visit

    def begin_late(self, visit: Visit) -> None:
        tenant, missed = visit.tenant, self.missed(visit.tenant)
        at = missed.index(visit)
        self.deficits[tenant] += (at + 1) * self.gain(tenant)
        taken = self.gained[tenant] + at + 1
        lost = missed[at + 2 :] if taken == 1 else missed[at + 1 :]
        self.drop([*self.open(tenant), *missed[:at], *lost])
        visit.open = True
        self.gained[tenant] = self.saved[tenant] = 0
        self.begun[tenant] = max(self.begun[tenant], self.level(tenant) - 2) + taken
        for group in self.under(tenant):
            self.most[group] = max(self.most.get(group, 0), self.begun[tenant])

    def requeue(self, visit: Visit) -> None:
        """A request is sent in this visit."""
        groups, begun = self.under(visit.tenant), self.begun[visit.tenant]
        leads = [group for group in groups if begun >= self.most.get(group, 0)]
        self.owe(visit.tenant, leads if visit.owed and leads != list(groups) else None)

    def owe(self, tenant: str, leads: list[int] | None = None) -> None:
        """What passed it by is owed, with what was: at the end of the list. Or, under groups some of which it
        leads: where it is, unless others who queued under those are behind it; then behind them.
        """
        missed = self.missed(tenant)
        if not missed:
            return
        at = self.late.index
        owed: list[Visit] = [Visit(tenant, owed=True) for _ in missed[:2]]
        if leads is None:
            close = Visit("")
            mark = Mark(close)
            self.late[self.end() : self.end()] = [*owed, mark, close]
        else:
            mark = self.marks[tenant]
            last = max([mark, *(self.last_mark[g] for g in leads if g in self.last_mark)], key=at)
            if last is mark:
                self.late[at(mark) : at(mark)] = owed
            else:
                mark = Mark(last.close)
                self.late[at(last.close) : at(last.close)] = [*owed, mark]
        self.drop(missed)
        self.marks[tenant] = mark
        for group in self.under(tenant):
            self.last_mark[group] = max(mark, self.last_mark.get(group, mark), key=at)

    def end(self) -> int:
        stands = self.visited and bool(self.late) and self.late[-1] in self.open(self.ring[0])
        return len(self.late) - stands

    def serve(self, request: Any) -> None:
        self.deficits[request.tenant] -= request.cost

    def after(self, request: Any) -> None:
        tenant = request.tenant
        if self.of(tenant):
            return
        if self.ring[0] == tenant:
            self.visited = False
        if self.last == tenant:
            self.last = None
        self.ring.remove(tenant)
        self.drop([*self.open(tenant), *self.missed(tenant)])
        self.deficits[tenant] = min(0, self.deficits[tenant])  # a debt stays, credit does not

    # -- something else changes -----------------------------------------------------------------

    def put(self, request: Any) -> None:
        tenant = request.tenant
        self.gather(tenant)
        super().put(request)
        if tenant not in self.ring:
            self.ring.append(tenant)
            self.deficits.setdefault(tenant, 0)
            self.gained[tenant] = self.saved[tenant] = 0
            self.begun[tenant] = self.level(tenant)
        self.lapse(tenant)

    def cancel(self, request: Any) -> None:
        self.gather(request.tenant)
        self.leave(request)
        self.forfeit(request.tenant)
        self.lapse(request.tenant)
        self.after(request)

    def forfeit(self, tenant: str) -> None:
        """A request has given up: the gains that its visits made for it, and the next does not need."""
        line = self.of(tenant)
        if line and not self.open(tenant):
            spare = min(self.saved[tenant], max(0, self.deficits[tenant] - line[0][2].cost))
            self.deficits[tenant] -= spare
            self.saved[tenant] -= spare

    def settle(self, request: Any, difference: Any) -> None:
        tenant = request.tenant
        self.gather(tenant)
        self.deficits[tenant] -= difference
        if tenant not in self.ring:
            self.deficits[tenant] = min(0, self.deficits[tenant])
        self.lapse(tenant)

    def set_weight(self, tenant: str, weight: Any) -> None:
        self.gather(tenant)
        self.weights[tenant] = weight

    def too_few(self, tenant: str) -> list[Visit]:
        """The visits that passed it and were too few to pay for its earliest request."""
        if tenant not in self.ring:
            return []
        cost, credit = self.of(tenant)[0][2].cost, self.deficits[tenant]
        if self.open(tenant) and credit >= cost:
            return []
        found = []
        for visit in self.missed(tenant):
            credit += self.gain(tenant)
            if credit < cost and not visit.owed:
                found.append(visit)
        return found

    def credit(self, tenant: str) -> Any:
        """What it has now, with the visits that were too few to send anything."""
        return self.deficits.get(tenant, 0) + len(self.too_few(tenant)) * self.gain(tenant)

    def gather(self, tenant: str) -> None:
        found = self.too_few(tenant)
        if found:
            self.deficits[tenant] += len(found) * self.gain(tenant)
            self.saved[tenant] += len(found) * self.gain(tenant)
            self.gained[tenant] += len(found)
            self.drop([*self.open(tenant), *found])

    def lapse(self, tenant: str) -> None:
        line = self.of(tenant)
        if self.open(tenant) and line and tenant != self.last and self.deficits[tenant] < line[0][2].cost:
            self.drop(self.open(tenant))
            self.owe(tenant)


class PlainLevels(Plain):
    """A plain policy per level; strict, or the smallest arrival + ageing·level of their next requests."""

    def __init__(self, levels: Mapping[Any, Plain], ageing: Any) -> None:
        super().__init__()
        self.levels = dict(levels)
        self.ageing = ageing

    def joins(self, request: Any) -> None:
        self.levels[request.priority].put(request)

    def first(self, can: list[Any], now: Any) -> Any:
        return super().first(_offers(self.levels.values(), can), now)

    def rank(self, wait: Any, now: Any) -> Any:
        level = wait[2].priority
        return level if self.ageing is None else wait[0] + self.ageing * level

    def serve(self, request: Any) -> None:
        self.levels[request.priority].get()

    def cancel(self, request: Any) -> None:
        super().cancel(request)
        self.levels[request.priority].cancel(request)

    def settle(self, request: Any, difference: Any) -> None:
        self.levels[request.priority].settle(request, difference)

    def ended(self, request: Any) -> None:
        self.levels[request.priority].ended(request)

    def set_weight(self, tenant: str, weight: Any) -> None:
        for inner in self.levels.values():
            inner.set_weight(tenant, weight)


class PlainNested(Plain):
    """Counters between branches as in VTC; inside a branch a plain policy of its own."""

    def __init__(
        self, branch_of: Mapping[str, str], make: Callable[[str], Plain], weights: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self.branch_of = dict(branch_of)
        self.make = make
        self.weights = dict(weights)
        self.inner: dict[str, Plain] = {}
        self.counters: dict[str, Any] = {}
        self.emptied: str | None = None
        self.told: dict[str, Any] = {}  # weights of tenants

    def branch(self, request: Any) -> str:
        tenant: str = request.tenant
        return self.branch_of.get(tenant, tenant)

    def joins(self, request: Any) -> None:
        name = self.branch(request)
        if name not in self.inner:
            self.inner[name] = self.make(name)
            for tenant, weight in self.told.items():
                self.inner[name].set_weight(tenant, weight)
        if not self.inner[name].waits:
            last = 0 if self.emptied is None else self.counters[self.emptied]
            waiting = [self.counters[b] for b, inner in self.inner.items() if inner.waits]
            self.counters[name] = max(self.counters.get(name, 0), min(waiting, default=last))
        self.inner[name].put(request)

    def first(self, can: list[Any], now: Any) -> Any:
        return super().first(_offers(self.inner.values(), can), now)

    def rank(self, wait: Any, now: Any) -> Any:
        return self.counters[self.branch(wait[2])]

    def serve(self, request: Any) -> None:
        self.charge(request, request.cost)
        self.inner[self.branch(request)].get()

    def charge(self, request: Any, cost: Any) -> None:
        name = self.branch(request)
        self.counters[name] += _ratio(cost, self.weights.get(name, 1))

    def after(self, request: Any) -> None:
        name = self.branch(request)
        if not self.inner[name].waits:
            self.emptied = name

    def cancel(self, request: Any) -> None:
        self.inner[self.branch(request)].cancel(request)
        super().cancel(request)

    def settle(self, request: Any, difference: Any) -> None:
        self.charge(request, difference)
        self.inner[self.branch(request)].settle(request, difference)

    def ended(self, request: Any) -> None:
        self.inner[self.branch(request)].ended(request)

    def set_weight(self, tenant: str, weight: Any) -> None:
        self.told[tenant] = weight
        for inner in self.inner.values():
            inner.set_weight(tenant, weight)


def _offers(policies: Iterable[Plain], can: list[Any]) -> list[Any]:
    """Of those that may run, what each policy would send next. Copies are asked: a ring turns when asked."""
    heads = [deepcopy(policy).get() for policy in policies if policy.waits]
    return [wait for wait in can if any(wait[2] is head for head in heads)]


def _ratio(cost: Any, weight: Any) -> Any:
    if isinstance(cost, float) or isinstance(weight, float):
        return cost / weight
    return Fraction(cost) / Fraction(weight)


def plain_serve(
    policy: Plain,
    slots: int,
    requests: Iterable[Any],
    caps: Mapping[str, int] | None = None,
    groups: Iterable[tuple[Iterable[str], int]] = (),
    true_cost: Callable[[Any], Any] = lambda request: request.cost,
) -> dict[Any, tuple[Any, Any]]:
    """id → (start, finish) on so many slots, in order of dispatch. Every instant is visited.

    ``caps``: key → how many of it may run at once; ``groups``: (keys, how many of them together).
    ``true_cost`` is settled when a request ends.
    """
    shared = [(set(keys), limit) for keys, limit in groups]
    limits = [*(({key}, limit) for key, limit in (caps or {}).items()), *shared]
    if isinstance(policy, PlainCounting | PlainDRR):
        policy.groups = [keys for keys, _ in shared]
    coming = sorted(requests, key=lambda r: r.arrival)  # stable: input order settles ties
    running: list[tuple[Any, Any]] = []  # (finish, request), in order of dispatch
    served = {}

    def allowed(key: str) -> bool:
        return all(
            key not in keys or sum(request.key in keys for _, request in running) < limit
            for keys, limit in limits
        )

    while coming or running:
        now = min([r.arrival for r in coming[:1]] + [end for end, _ in running])
        # A request that takes no time ends at the instant at which it starts: again, until nothing moves.
        for end, request in [job for job in running if job[0] == now]:
            running.remove((end, request))
            difference = true_cost(request) - request.cost
            if difference:
                policy.settle(request, difference)
            policy.ended(request)
        while coming and coming[0].arrival == now:
            policy.put(coming.pop(0))
        while len(running) < slots:
            request = policy.get(allowed, now)
            if request is None:
                break
            running.append((now + request.service, request))
            served[request.id] = (now, now + request.service)
    return served
