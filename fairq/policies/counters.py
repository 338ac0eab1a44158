"""What VTC and SFQ have in common: a counter per tenant of what it was charged, in tokens per weight.

The waiting tenant with the least counter goes next, so costs need not be known beforehand: whatever a
request turns out to cost is added when it shows. Ties: the earlier head, then the order of put. The two
differ in where a tenant that comes back starts.

Counters are exact where costs and weights are whole numbers or fractions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import gcd, lcm
from typing import Any

from fairq.policies.base import show
from fairq.policies.fair import Fair
from fairq.policies.lift import Lift
from fairq.policies.lines import Entry, Gate, Hold, TenantLines
from fairq.request import Number, Request


class Units:
    """Whole numbers in place of fractions: counters in parts of a token per weight, so that every whole
    weight divides them.
    """

    def __init__(self, weights: Iterable[Number]) -> None:
        self.parts = lcm(*(weight for weight in weights if isinstance(weight, int)))

    def of(self, cost: Number, weight: Number) -> Number:
        """``cost / weight`` in these units; exact for whole numbers and fractions."""
        parts = self.parts
        if isinstance(weight, int):
            return cost * (parts // weight) if weight != parts else cost
        return cost * parts / weight

    def finer(self, weight: Number) -> int:
        """Make a new weight fit. How many times smaller the units have become."""
        factor = weight // gcd(weight, self.parts) if isinstance(weight, int) else 1
        self.parts *= factor
        return factor

    def tokens(self, counter: Number) -> Number:
        """A counter in tokens per weight."""
        if not isinstance(counter, int):
            return counter / self.parts
        whole, rest = divmod(counter, self.parts)
        return Fraction(counter, self.parts) if rest else whole


class Account(TenantLines):
    """A tenant's lines and its counter."""

    __slots__ = ("abreast", "counter", "lags")

    def __init__(self, name: str, policy: Counting) -> None:
        super().__init__(name, policy._waiting, policy._cover)
        self.counter: Number = 0  # in the policy's units
        self.abreast = self.lags = False  # where it stands: see lift.py

    def group_holds(self) -> Iterable[Hold]:
        """The group caps that its waiting requests stand under."""
        if self._lines is None:
            return self.cover
        return {hold for line in self._lines.values() for hold in line.cover}

    def rank(self, gate: Gate | None) -> Any:
        head = self.head(gate)
        return None if head is None else (self.counter, *self._waiting[head][:2])

    def earliest(self) -> Any:
        """Of a tenant with several keys: (arrival, order) that none of their heads precedes."""
        assert self._pool is not None
        return self._pool.least()[:2]


class Counting(Fair[Account]):
    """The least counter goes next."""

    def __init__(self, weights: Mapping[str, Number] | None = None) -> None:
        super().__init__(weights)
        self._units = Units(self._weights.values())
        self._lift: Lift[Account] = Lift()

    def set_weight(self, tenant: str, weight: Number) -> None:
        super().set_weight(tenant, weight)
        factor = self._units.finer(weight)
        if factor != 1:
            self._rescale(factor)

    def _move(self, state: Account) -> None:
        self._pool.place(state, self._floor(state))

    def _rescale(self, factor: int) -> None:
        """The units have become smaller."""
        self._lift.rescale(factor, self._tenants.values())
        for state in self._tenants.values():
            if state.waiting:
                self._pool.place(state, self._floor(state))

    def _new(self, name: str) -> Account:
        return Account(name, self)

    def _floor(self, state: Account) -> Any:
        if state.exact:
            arrival, order, *_ = state.queue[0]
            return state.counter, arrival, order
        return (state.counter, *state.earliest())

    def _enter(self, request: Request, arrival: Number, order: int) -> Entry:
        entry = super()._enter(request, arrival, order)
        if self._lift.watching and (state := self._tenants[request.tenant]).lags:
            self._lift.grouped(state)  # its key may be under another group cap
        return entry

    def _join(self, state: Account) -> None:
        self._lift.joined(state, self._level())

    def _serve(self, state: Account, request: Request, gate: Gate | None) -> None:
        cost = self._units.of(request.cost, self.weight(state.name))
        self._lift.passing(state, gate, self._tenants.values())
        if state.lags:
            self._lift.forgive(state, cost, self._level(), self._move)
        else:
            self._served(state)
        state.counter += cost
        self._lift.moved(state, self._level)

    def _served(self, state: Account) -> None:
        """One that does not lag is about to be charged."""

    def _adjust(self, state: Account, difference: Number) -> None:
        state.counter += self._units.of(difference, self.weight(state.name))
        if state.waiting:
            self._lift.moved(state, self._level)

    def _emptied(self, state: Account) -> None:
        self._lift.emptied(state)

    # -- forgetting -----------------------------------------------------------------------------

    @abstractmethod
    def _level(self) -> Number:
        """The counter to which a tenant joining now would be lifted."""

    def _close_accounts(self) -> None:
        # Whoever joins later is lifted at least to the least counter that any waiting tenant has had for
        # good, without what it was charged for running work and may get back.
        self._pending: dict[str, Number] = {}
        for request, charged in self._running.items():
            name = request.tenant
            weighted = self._units.of(charged, self.weight(name))
            self._pending[name] = self._pending.get(name, 0) + weighted
        settled = [s.counter - self._pending.get(s.name, 0) for s in self._tenants.values() if s.waiting]
        self._least = min([self._level() - sum(self._pending.values()), *settled])
        super()._close_accounts()

    def _blank(self, state: Account) -> bool:
        return state.name not in self._pending and state.counter <= self._least

    # -- explaining -----------------------------------------------------------------------------

    def _accounts(self) -> dict[str, dict[str, Any]]:
        """Per tenant: ``weight``; ``counter``, in tokens per weight; ``place`` among those waiting."""
        waiting = sorted((s.rank(None), s.name) for s in self._tenants.values() if s.waiting)
        places = {name: place for place, (_, name) in enumerate(waiting)}
        tokens = self._units.tokens
        return {
            name: {"weight": self.weight(name), "counter": tokens(s.counter), "place": places.get(name)}
            for name, s in self._tenants.items()
        }

    def _why(self, request: Request, now: Number | None) -> str:
        state = self._tenants[request.tenant]
        others = [s for s in self._tenants.values() if s.waiting and s is not state]
        tokens = self._units.tokens
        said = f"{state.name} has been charged least among those that may run: {show(tokens(state.counter))}"
        if not others:
            return f"{said} tokens per weight; nobody else waits."
        second = min(others, key=lambda s: (s.counter, s.rank(None)))
        return f"{said} tokens per weight ({second.name}: {show(tokens(second.counter))})."
