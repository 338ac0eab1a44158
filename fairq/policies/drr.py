"""Weighted deficit round robin.

Shreedhar & Varghese, "Efficient fair queuing using deficit round-robin", IEEE/ACM Transactions on
Networking 4(3), 1996, section III. Tenants with waiting work stand in a ring. On each visit a tenant
gains ``quantum·weight`` of credit and sends whole requests while it can afford its head; what is left
it keeps. When its line empties it leaves the ring and forfeits its credit; new work joins at the back.
Two points the paper leaves open: a line is empty at the moment its last waiting request is handed out,
and a visit ends when another tenant is served while its own head is unaffordable.

The ring is kept as a *schedule*. Every visit has a place in time, (round, place in the ring), and the
round in which a tenant can next afford its head is known in advance, so the next to be served is the
tenant whose next useful visit comes first. Visits that could send nothing are never walked through: a
tiny quantum does not spin, and the order is that of the ring.

Under caps the same schedule says what to do with a visit that was missed because every key of the
tenant was held back: it stays due, and being earlier than all others it is made up as soon as the hold
opens. At most ``BANKED`` missed visits are kept; an open visit that a cap interrupts goes on where it
stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairq.policies.base import check_number
from fairq.policies.fair import Fair
from fairq.policies.lines import Entry, Gate, TenantLines
from fairq.request import Number, Request

BANKED = 2
"""How many visits missed because of a cap are made up."""

GAP = 1 << 40
"""The room left between places in the ring, for those who join in the middle."""


class _Tenant(TenantLines):
    """A tenant's account. ``before`` and ``after`` are its neighbours in the ring, by name."""

    __slots__ = ("after", "before", "deficit", "drr", "open", "place", "visit")

    def __init__(self, name: str, waiting: dict[Request, Entry], drr: DRR) -> None:
        super().__init__(name, waiting)
        self.drr = drr
        self.deficit: Number = 0  # the credit left; negative: a debt from true-up
        self.visit = 0  # the round of the last visit whose gain is in ``deficit``
        self.open = False  # that visit has not ended
        self.place = 0
        self.before = self.after = ""

    def rank(self, gate: Gate | None) -> Any:
        head = self.head(gate)
        if head is None:
            return None
        return self.drr._due(self, head.cost), self.place


class DRR(Fair[_Tenant]):
    """Shares in proportion to weights, in turns.

    Parameters
    ----------
    quantum : tokens a tenant of weight 1 gains per visit, finite and > 0. With quantum·weight >= the
        largest cost, every visit sends something; below, the order is still that of the ring.
    weights : tenant → weight, finite and > 0; default 1.

    Bound (Shreedhar & Varghese 1996, lemma 2 and theorem 1): for any two tenants with waiting work
    throughout an interval, the costs D dispatched differ by
    ``|Dᵢ/wᵢ − Dⱼ/wⱼ| < quantum + Lᵢ/wᵢ + Lⱼ/wⱼ``, L the largest cost, on any number of slots.

    True-up: what a request costs above its estimate becomes a debt that survives an empty line; what it
    costs less is given back while the tenant waits. Credit does not survive an empty line.
    """

    def __init__(self, quantum: Number, weights: Mapping[str, Number] | None = None) -> None:
        super().__init__(weights)
        self.quantum = check_number("quantum", quantum, above=True)
        # The frontier: the latest place in the schedule that was served. The ring is cut before
        # ``_cut``, the tenant whose turn is on or next ("" = the ring's end): who joins, joins there.
        self._round = 0
        self._place = 0
        self._turn: _Tenant | None = None  # the last one served
        self._cut = ""
        self._first = ""
        self._last = ""

    def _new(self, name: str) -> _Tenant:
        return _Tenant(name, self._waiting, self)

    # -- the schedule ---------------------------------------------------------------------------

    def _gain(self, state: _Tenant) -> Number:
        return self.quantum * self._weights.get(state.name, 1)

    def _due(self, state: _Tenant, cost: Number) -> int:
        """The round of the visit in which a tenant sends a head of this cost."""
        if state.open and state.deficit >= cost:
            return state.visit
        # Of the visits the frontier has passed while the tenant was held, the last BANKED are made up.
        return max(state.visit + self._visits(state, cost), self._passed(state) - BANKED + 1)

    def _visits(self, state: _Tenant, cost: Number) -> int:
        """How many further visits it takes to afford a cost, at least one."""
        gain = self._gain(state)
        short = cost - state.deficit
        if short <= gain:
            return 1
        visits = int(-(-short // gain))
        # Division of floats can be off by one visit: what counts is the sum.
        while state.deficit + visits * gain < cost:
            visits += 1
        while state.deficit + (visits - 1) * gain >= cost:
            visits -= 1
        return visits

    def _passed(self, state: _Tenant) -> int:
        """The last round in which the frontier has passed a tenant's place."""
        return self._round if state.place <= self._place else self._round - 1

    def _floor(self, state: _Tenant) -> Any:
        if not state.exact:
            # Which key goes, and so the cost, depends on who may run: no earlier than its next visit.
            return state.visit + (not state.open), state.place
        cost = state.head().cost  # type: ignore[union-attr]
        if state.open and state.deficit >= cost:
            return state.visit, state.place
        return state.visit + self._visits(state, cost), state.place

    def _serve(self, state: _Tenant, request: Request, gate: Gate | None) -> None:
        cost = request.cost
        if not (state.open and state.deficit >= cost):
            due = self._due(state, cost)
            state.deficit += self._visits(state, cost) * self._gain(state)
            state.visit = due
            state.open = True
            if (due, state.place) > (self._round, self._place):
                self._round, self._place, self._cut = due, state.place, state.name
        state.deficit -= cost
        if self._turn is not state:
            self._end_turn(gate)
            self._turn = state

    def _end_turn(self, gate: Gate | None) -> None:
        """Another tenant is served: the last one's visit ends, unless it is held with credit left."""
        last = self._turn
        if last is None or not last.open:
            return
        head = last.head(gate)
        if head is not None and last.deficit < head.cost:
            last.open = False
            self._pool.place(last, self._floor(last))

    def _catch_up(self, state: _Tenant) -> None:
        """Add the gains of the visits that passed without effect, its head being unaffordable."""
        if state.open and state.deficit >= state.head().cost:  # type: ignore[union-attr]
            return
        due = state.visit + self._visits(state, state.head().cost)  # type: ignore[union-attr]
        idle = min(self._passed(state), due - 1) - state.visit
        if idle > 0:
            state.deficit += idle * self._gain(state)
            state.visit += idle
            state.open = False

    def _adjust(self, state: _Tenant, difference: Number) -> None:
        state.deficit -= difference
        if not state.waiting:
            self._forfeit(state)

    def _forfeit(self, state: _Tenant) -> None:
        """An empty line keeps its debt and no credit; without a debt the account is closed."""
        if state.deficit >= 0:
            del self._tenants[state.name]

    # -- the ring -------------------------------------------------------------------------------

    def _join(self, state: _Tenant) -> None:
        """At the back of the ring: just before the tenant whose turn is on or next."""
        state.visit, state.open = self._round, False
        after = self._tenants.get(self._cut)
        before = self._tenants.get(after.before if after else self._last)
        if after is None:
            state.place = before.place + GAP if before else 0
        else:
            low = before.place if before else after.place - 2 * GAP
            if after.place - low < 2:
                self._spread()
                low = before.place if before else after.place - 2 * GAP
            state.place = low + min((after.place - low) // 2, GAP >> 16)
        state.before, state.after = before.name if before else "", after.name if after else ""
        self._link(before, state.name, after, state.name)

    def _emptied(self, state: _Tenant) -> None:
        before, after = self._tenants.get(state.before), self._tenants.get(state.after)
        self._link(before, state.after, after, state.before)
        if self._cut == state.name:
            self._cut = state.after
        if self._turn is state:
            self._turn = None
        state.open = False
        self._forfeit(state)

    def _link(self, before: _Tenant | None, to: str, after: _Tenant | None, back: str) -> None:
        if before is None:
            self._first = to
        else:
            before.after = to
        if after is None:
            self._last = back
        else:
            after.before = back

    def _spread(self) -> None:
        """Number the places anew when there is no room between two of them; the order stays."""
        cut = self._tenants[self._cut]
        turn_is_on = cut.place == self._place
        name, place = self._first, 0
        while name:
            state = self._tenants[name]
            state.place = place
            name, place = state.after, place + GAP
        before = self._tenants.get(cut.before)
        self._place = cut.place if turn_is_on else before.place if before else -1
        for state in self._tenants.values():
            if state.waiting and state.entry is not None:
                self._pool.place(state, self._floor(state))

    # -- explaining -----------------------------------------------------------------------------

    def _accounts(self) -> dict[str, dict[str, Any]]:
        """Per tenant: ``weight, gain`` (per visit), ``deficit`` now, ``round`` and ``open`` of its last
        visit, ``due``: the round in which it sends its head (``None`` when nothing waits), ``place``:
        its place among those waiting, in the order of their next useful visits.
        """
        waiting = [s for s in self._tenants.values() if s.waiting]
        ranks = {s.name: s.rank(None) for s in waiting}
        order = sorted(ranks, key=ranks.__getitem__)
        accounts = {}
        for name, state in self._tenants.items():
            due = ranks[name][0] if state.waiting else None
            idle = max(0, min(self._passed(state), due - 1) - state.visit) if due is not None else 0
            accounts[name] = {
                "weight": self.weight(name),
                "gain": self._gain(state),
                "deficit": state.deficit + idle * self._gain(state),
                "round": state.visit + idle,
                "open": state.open,
                "due": due,
                "place": order.index(name) if state.waiting else None,
            }
        return accounts

    def _why(self, request: Request, now: Number | None) -> str:
        state = self._tenants[request.tenant]
        cost, name = request.cost, request.tenant
        if state.open and state.deficit >= cost:
            return f"{name}'s visit of round {state.visit} goes on: its deficit {state.deficit:g} covers the cost {cost:g}."
        visits = self._visits(state, cost)
        total = state.deficit + visits * self._gain(state)
        turns = "visit" if visits == 1 else f"{visits} visits"
        late = (
            " It makes up a visit that a cap made it miss."
            if self._due(state, cost) <= self._passed(state)
            else ""
        )
        return (
            f"{name}'s turn in round {self._due(state, cost)}: deficit {state.deficit:g} + {turns} of "
            f"{self._gain(state):g} = {total:g} covers the cost {cost:g}.{late}"
        )
