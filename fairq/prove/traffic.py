"""Random demand for the checks: backlogged tenants with weights, slots and costs drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fairq.policies.base import Policy
from fairq.prove.loop import Served, backlogged
from fairq.request import Number, Request

MakeFair = Callable[[dict[str, int]], Policy]
"""Weights → a fresh policy."""


@dataclass
class Demand:
    """Two to five tenants, always backlogged, with costs of their own; service takes as long as cost."""

    seed: int
    slots: int | None = None
    largest: int = 30
    weights: dict[str, int] = field(default_factory=dict)
    costs: dict[str, int] = field(default_factory=dict)  # the largest cost each tenant has sent

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        tenants = "abcde"[: self._draw.randint(2, 5)]
        self.weights = {tenant: self._draw.randint(1, 4) for tenant in tenants}
        self._most = {t: self._draw.choice([1, self.largest // 3, self.largest]) for t in tenants}
        self.slots = self._draw.randint(1, 16) if self.slots is None else self.slots

    def feed(self, tenant: str, now: Number) -> Request:
        """Another request of a tenant, often as costly as it has any."""
        most = self._most[tenant]
        cost = self._draw.choice([1, most, most, self._draw.randint(1, most)])
        self.costs[tenant] = max(cost, self.costs.get(tenant, 0))
        return Request(tenant, cost, service=cost, arrival=now)

    def serve(self, make: MakeFair, dispatches: int) -> list[Served]:
        """The demand under a policy."""
        assert self.slots is not None
        return backlogged(make(self.weights), self.slots, self.weights, self.feed, dispatches=dispatches)

    def pairs(self) -> list[tuple[str, str]]:
        """All pairs of tenants."""
        names = list(self.weights)
        return [(one, other) for k, one in enumerate(names) for other in names[k + 1 :]]

    def per_weight(self, tenant: str) -> Fraction:
        """L/w of a tenant: its largest cost over its weight."""
        return Fraction(self.costs[tenant], self.weights[tenant])


def spread(steps: list[tuple[str, Any]], weights: dict[str, int], one: str, other: str) -> Fraction:
    """The most by which D_one/w_one − D_other/w_other changes over any interval of these steps.

    ``steps``: (tenant, cost) in order; every interval is between two of them.
    """
    up, down = weights[other], weights[one]  # in units of 1/(w_one·w_other), so whole numbers do
    value = least = most = 0
    for tenant, cost in steps:
        if tenant == one:
            value += cost * up
            if value > most:
                most = value
        elif tenant == other:
            value -= cost * down
            if value < least:
                least = value
    return Fraction(most - least, up * down)


def received(served: list[Served], until: Number) -> list[dict[str, Number]]:
    """Slot-time each tenant has received, at every start and end of a service through ``until``."""
    times = sorted({t for s in served for t in (s.start, s.finish) if t <= until})
    rows: list[dict[str, Number]] = []
    got: dict[str, Number] = {s.request.tenant: 0 for s in served}
    starts = sorted(served, key=lambda s: s.start)
    ends = sorted(served, key=lambda s: s.finish)
    running = dict.fromkeys(got, 0)
    began = ended = 0
    before: Number = 0
    for now in times:
        for tenant, n in running.items():
            got[tenant] += n * (now - before)
        while ended < len(ends) and ends[ended].finish == now:
            running[ends[ended].request.tenant] -= 1
            ended += 1
        while began < len(starts) and starts[began].start == now:
            running[starts[began].request.tenant] += 1
            began += 1
        # One that takes no time would end before it starts; the demand here has none.
        rows.append(dict(got))
        before = now
    return rows
