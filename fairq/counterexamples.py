"""What not to do: policies with one fault each, all seen in real gateways. For teaching; not for use.

Each looks like a fair queue, keeps the verbs of ``fairq.policies.base``, and breaks a bound that its sound
relative keeps. The docstrings say which, and the tests show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairq.policies.base import Policy, Queue, check_number, check_weights, show
from fairq.policies.counters import Account
from fairq.policies.fair import Fair
from fairq.policies.lines import Entry, Gate, TenantLines
from fairq.policies.vtc import VTC
from fairq.request import Number, Request

__all__ = ["ChargeAtTheEnd", "DeficitWithoutQuantum", "NoLift", "RoundRobin"]


class ChargeAtTheEnd(VTC):
    """VTC that charges nothing at ``get`` and the whole cost at ``done``.

    The fault: a burst is free until its first request ends, so one tenant may fill every slot. Breaks
    ``|Dᵢ/wᵢ − Dⱼ/wⱼ| ≤ Lᵢ/wᵢ + Lⱼ/wⱼ``: the costs dispatched to two backlogged tenants differ by as much
    as all slots hold, however many there are.
    """

    def _serve(self, state: Account, request: Request, gate: Gate | None) -> None:
        self._running[request] = 0  # what it has been charged

    def charge(self, request: Request, cost: Number) -> None:
        self._charged(request, "charge")
        check_number(f"cost of {request!r}", cost)

    def done(self, request: Request, cost: Number | None = None) -> None:
        super().done(request, request.cost if cost is None else cost)


class NoLift(VTC):
    """VTC in which a tenant that comes back keeps its old counter.

    The fault: idle time is credit. Breaks "no credit is banked while idle": a tenant that was away is served
    alone until it has caught up with all that the others had meanwhile.
    """

    def _join(self, state: Account) -> None:
        pass


class _Turn(TenantLines):
    """A tenant's lines and its place in the round."""

    __slots__ = ("turn",)

    turn: int

    def rank(self, gate: Gate | None) -> Any:
        return None if self.head(gate) is None else self.turn


class RoundRobin(Fair[_Turn]):
    """One request per tenant in turn, whatever it costs.

    The fault: turns are shared, not tokens. Breaks every bound on ``|Dᵢ/wᵢ − Dⱼ/wⱼ|``: a tenant with
    requests ten times as long gets ten times as much. It knows no weights.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turns = 0

    def set_weight(self, tenant: str, weight: Number) -> None:
        Policy.set_weight(self, tenant, weight)  # says that there are none

    def _new(self, name: str) -> _Turn:
        return _Turn(name, self._waiting, self._cover)

    def _blank(self, state: _Turn) -> bool:
        return True

    def _floor(self, state: _Turn) -> Any:
        return state.turn

    def _join(self, state: _Turn) -> None:
        self._turns += 1
        state.turn = self._turns

    def _serve(self, state: _Turn, request: Request, gate: Gate | None) -> None:
        self._join(state)

    def _adjust(self, state: _Turn, difference: Number) -> None:
        pass  # a turn is a turn

    def _accounts(self) -> dict[str, dict[str, Any]]:
        """Per waiting tenant: its ``place`` in the round."""
        waiting = sorted((s.turn, s.name) for s in self._tenants.values() if s.waiting)
        return {name: {"place": place} for place, (_, name) in enumerate(waiting)}

    def _why(self, request: Request, now: Number | None) -> str:
        return f"It is {request.tenant}'s turn, whatever its request costs."


class _Purse(TenantLines):
    """A tenant's lines and its deficit."""

    __slots__ = ("deficit",)

    def __init__(self, name: str, policy: DeficitWithoutQuantum) -> None:
        super().__init__(name, policy._waiting, policy._cover)
        self.deficit: Number = 0


class DeficitWithoutQuantum(Queue):
    """A "weighted deficit round robin" without a quantum and without a round.

    At every decision each waiting tenant gains its weight, the largest deficit goes, and the cost is taken
    off. The fault: credit comes per decision while costs are in tokens, so what the weights add is nothing
    beside a request's cost. Breaks ``|Dᵢ/wᵢ − Dⱼ/wⱼ| < Q + Lᵢ/wᵢ + Lⱼ/wⱼ``: with weights 4 and 1 both
    tenants get almost the same, and the difference grows for ever.
    """

    def __init__(self, weights: Mapping[str, Number] | None = None) -> None:
        super().__init__()
        self._weights = check_weights(weights)
        self._tenants: dict[str, _Purse] = {}

    def weight(self, tenant: str) -> Number:
        """The tenant's weight."""
        return self._weights.get(tenant, 1)

    def set_weight(self, tenant: str, weight: Number) -> None:
        self._weights[tenant] = check_number(f"weight of {tenant!r}", weight, above=True)

    def waiting(self, tenant: str) -> int:
        purse = self._tenants.get(tenant)
        return 0 if purse is None else purse.waiting

    def _enter(self, request: Request, arrival: Number, order: int) -> Entry:
        entry = (arrival, order, request)
        purse = self._tenants.get(request.tenant)
        if purse is None:
            purse = self._tenants[request.tenant] = _Purse(request.tenant, self)
        purse.enter(entry)
        return entry

    def _choose(self, gate: Gate | None, now: Number | None) -> Request | None:
        best, best_rank = None, None
        for purse in self._tenants.values():
            head = purse.head(gate) if purse.waiting else None
            if head is not None:
                rank = (-purse.deficit - self.weight(purse.name), self._waiting[head])
                if best_rank is None or rank < best_rank:
                    best, best_rank = head, rank
        return best

    def _leave(self, request: Request, gate: Gate | None) -> None:
        for purse in self._tenants.values():
            if purse.waiting:
                purse.deficit += self.weight(purse.name)
        purse = self._tenants[request.tenant]
        purse.deficit -= request.cost
        purse.leave(request)
        self._forfeit(purse)

    def _drop(self, request: Request) -> None:
        purse = self._tenants[request.tenant]
        purse.lose(request)
        self._forfeit(purse)

    def _true_up(self, request: Request, difference: Number) -> None:
        purse = self._tenants[request.tenant]
        purse.deficit -= difference
        self._forfeit(purse)

    def _forfeit(self, purse: _Purse) -> None:
        if not purse.waiting:
            purse.deficit = min(0, purse.deficit)

    def _accounts(self) -> dict[str, dict[str, Any]]:
        """Per tenant: ``weight`` (what it gains at every decision) and ``deficit``."""
        return {
            name: {"weight": self.weight(name), "deficit": purse.deficit}
            for name, purse in self._tenants.items()
        }

    def _why(self, request: Request, now: Number | None) -> str:
        purse = self._tenants[request.tenant]
        deficit = purse.deficit + self.weight(purse.name)
        return f"{purse.name} has the largest deficit of those that may run, {show(deficit)}."
