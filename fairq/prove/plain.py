"""Every policy a second time, as plainly as it can be written: lists, loops, and every visit walked.

Shares no code with ``fairq.policies`` or ``fairq.sim`` and is written from the papers and from the
contract alone, so that equal schedules mean something. Slow on purpose. A request is only read: its
``tenant, key, cost, priority, arrival, service``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


class PlainVTC(Plain):
    """Least counter first; a tenant that joins is lifted to the least waiting, or to the last emptied."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        super().__init__()
        self.weights = dict(weights)
        self.counters: dict[str, Any] = {}
        self.emptied: str | None = None

    def charge(self, tenant: str, cost: Any) -> None:
        self.counters[tenant] = self.counters.get(tenant, 0) + _ratio(cost, self.weights.get(tenant, 1))

    def joins(self, request: Any) -> None:
        tenant = request.tenant
        if self.of(tenant):
            return
        own = self.counters.get(tenant, 0)
        waiting = [self.counters[w[2].tenant] for w in self.waits]
        if waiting:
            self.counters[tenant] = max(own, min(waiting))
        elif self.emptied is not None:
            self.counters[tenant] = max(own, self.counters[self.emptied])
        else:
            self.counters[tenant] = own

    def rank(self, wait: Any, now: Any) -> Any:
        return self.counters[wait[2].tenant]

    def serve(self, request: Any) -> None:
        self.charge(request.tenant, request.cost)

    def settle(self, request: Any, difference: Any) -> None:
        self.charge(request.tenant, difference)

    def after(self, request: Any) -> None:
        if not self.of(request.tenant):
            self.emptied = request.tenant

    def set_weight(self, tenant: str, weight: Any) -> None:
        self.weights[tenant] = weight


class PlainSFQ(Plain):
    """Least start tag first: of each tenant's head, the finish tag before it or the virtual time."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        super().__init__()
        self.weights = dict(weights)
        self.tags: dict[str, Any] = {}  # start tag of the tenant's next request
        self.virtual: Any = 0
        self.largest: Any = 0
        self.busy = 0

    def joins(self, request: Any) -> None:
        if not self.waits and not self.busy:
            self.virtual = max(self.virtual, self.largest)
        if not self.of(request.tenant):
            self.tags[request.tenant] = max(self.tags.get(request.tenant, 0), self.virtual)

    def rank(self, wait: Any, now: Any) -> Any:
        return self.tags[wait[2].tenant]

    def serve(self, request: Any) -> None:
        tenant = request.tenant
        self.virtual = self.tags[tenant]
        self.tags[tenant] += _ratio(request.cost, self.weights.get(tenant, 1))
        self.largest = max(self.largest, self.tags[tenant])
        self.busy += 1

    def settle(self, request: Any, difference: Any) -> None:
        self.tags[request.tenant] += _ratio(difference, self.weights.get(request.tenant, 1))

    def ended(self, request: Any) -> None:
        self.busy -= 1

    def set_weight(self, tenant: str, weight: Any) -> None:
        self.weights[tenant] = weight


class PlainDRR(Plain):
    """The ring of the paper, walked visit by visit."""

    def __init__(self, quantum: Any, weights: Mapping[str, Any]) -> None:
        super().__init__()
        self.quantum = quantum
        self.weights = dict(weights)
        self.ring: list[str] = []  # the tenant whose turn it is stands first
        self.deficits: dict[str, Any] = {}
        self.visited = False  # the first of the ring has had its gain for this visit
        self.steps = 0  # visits begun, requests sent: the work done

    def joins(self, request: Any) -> None:
        if request.tenant not in self.ring:
            self.ring.append(request.tenant)
            self.deficits.setdefault(request.tenant, 0)

    def first(self, can: list[Any], now: Any) -> Any:
        while True:
            tenant = self.ring[0]
            head = self.of(tenant)[0]
            if not self.visited:
                self.deficits[tenant] += self.quantum * self.weights.get(tenant, 1)
                self.visited = True
                self.steps += 1
            if self.deficits[tenant] >= head[2].cost:
                return head
            self.ring.append(self.ring.pop(0))
            self.visited = False

    def serve(self, request: Any) -> None:
        self.deficits[request.tenant] -= request.cost
        self.steps += 1

    def after(self, request: Any) -> None:
        tenant = request.tenant
        if self.of(tenant):
            return
        if self.ring[0] == tenant:
            self.visited = False
        self.ring.remove(tenant)
        self.deficits[tenant] = min(0, self.deficits[tenant])  # a debt stays, credit does not

    def settle(self, request: Any, difference: Any) -> None:
        tenant = request.tenant
        self.deficits[tenant] -= difference
        if tenant not in self.ring:
            self.deficits[tenant] = min(0, self.deficits[tenant])

    def set_weight(self, tenant: str, weight: Any) -> None:
        self.weights[tenant] = weight


def _ratio(cost: Any, weight: Any) -> Any:
    if isinstance(cost, float) or isinstance(weight, float):
        return cost / weight
    return Fraction(cost) / Fraction(weight)


def plain_serve(
    policy: Plain,
    slots: int,
    requests: Iterable[Any],
    caps: Iterable[tuple[Iterable[str], int]] = (),
    true_cost: Callable[[Any], Any] = lambda request: request.cost,
) -> dict[Any, tuple[Any, Any]]:
    """id → (start, finish) on so many slots, in order of dispatch. Every instant is visited.

    ``caps``: (keys, how many of them may run at once). ``true_cost`` is settled when a request ends.
    """
    limits = [(set(keys), limit) for keys, limit in caps]
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
