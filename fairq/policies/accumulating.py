"""Accumulating priority: a request gains priority while it waits, at the rate of its level.

Kleinrock, "A delay dependent queue discipline", Naval Research Logistics Quarterly 11, 1964. Unlike ageing
at one rate for all, the order between two levels changes with time, so ``get`` and ``peek`` take ``now``.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairq.policies.base import Queue, check_mapping, check_number, no_request, show
from fairq.policies.lines import Entry, Gate, Line, Pool
from fairq.request import Number, Request


class AccumulatingPriority(Queue):
    """The most accumulated priority goes next: ``(now − arrival) · rate of its level``.

    Parameters
    ----------
    rates : level → priority gained per second of waiting, finite and >= 0, at least one level. Only the
        ratios matter. A level of rate 0 goes when nobody with any priority waits.

    Ties: earlier arrival, order of put. ``put`` raises ``ValueError`` for a request without ``arrival`` or
    of a level without a rate; ``get`` and ``peek`` raise it without ``now``.

    Mean waits on one server with Poisson arrivals (Kleinrock 1964, eq. 12), levels from the lowest rate up:
    ``W_p = (W0/(1−ρ) − Σ_{i<p} ρᵢWᵢ(1 − bᵢ/b_p)) / (1 − Σ_{i>p} ρᵢ(1 − b_p/bᵢ))``. No level starves unless
    its rate is 0.
    """

    needs_now = True

    def __init__(self, rates: Mapping[Number, Number]) -> None:
        super().__init__()
        rates = check_mapping("rates", rates)
        if not rates:
            raise ValueError(f"rates must name at least one level, got {rates!r}")
        self.rates = {level: check_number(f"rate of level {level!r}", r) for level, r in rates.items()}
        self._pools = {level: Pool() for level in self.rates}
        self._lines: dict[tuple[str, Number], Line] = {}  # a line per key and level
        self._counts: dict[str, int] = {}

    def put(self, request: Request) -> None:
        if not isinstance(request, Request):
            raise no_request(request)
        if request.arrival is None:
            raise ValueError(f"arrival is needed to accumulate priority, got None in {request!r}")
        if request.priority not in self.rates:
            known = ", ".join(show(level) for level in self.rates)
            raise ValueError(f"priority must be a level with a rate ({known}), got {request!r}")
        super().put(request)

    def waiting(self, tenant: str) -> int:
        return self._counts.get(tenant, 0)

    def accumulated(self, request: Request, now: Number) -> Number:
        """The priority a request has at ``now``."""
        return (now - request.arrival) * self.rates[request.priority]

    def _enter(self, request: Request, arrival: Number, order: int) -> Entry:
        entry = (arrival, order, request)
        name = request.key, request.priority
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = Line(request.key, self._waiting, self._cover(request.key))
        line.push(entry)
        if line.queue[0] is entry:
            self._pools[request.priority].place(line, entry[:-1])
        self._counts[request.tenant] = self._counts.get(request.tenant, 0) + 1
        return entry

    def _choose(self, gate: Gate | None, now: Number | None) -> Request | None:
        # Within a level the earliest has accumulated most, so one candidate per level will do.
        best, best_rank = None, None
        for pool in self._pools.values():
            line = pool.best(gate)
            if line is not None:
                arrival, order, request = line.queue[0]
                rank = (-self.accumulated(request, now), arrival, order)
                if best_rank is None or rank < best_rank:
                    best, best_rank = request, rank
        return best

    def _leave(self, request: Request, gate: Gate | None) -> None:
        line = self._lines[request.key, request.priority]
        line.pop()
        self._settle(request, line)

    def _drop(self, request: Request) -> None:
        line = self._lines[request.key, request.priority]
        line.ghost()
        self._settle(request, line)

    def _settle(self, request: Request, line: Line) -> None:
        pool = self._pools[request.priority]
        if line.queue:
            pool.place(line, line.queue[0][:-1])
        else:
            del self._lines[request.key, request.priority]
            pool.remove(line)
        self._counts[request.tenant] -= 1
        if not self._counts[request.tenant]:
            del self._counts[request.tenant]

    def _why(self, request: Request, now: Number | None) -> str:
        gained, rate = self.accumulated(request, now), self.rates[request.priority]
        return (
            f"{request.tenant}'s request has accumulated most: ({show(now)} − {show(request.arrival)}) s at "
            f"{show(rate)} per second (level {show(request.priority)}) = {show(gained)}."
        )
