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

Under caps the same schedule says what to do with the visits that passed a tenant while its keys were held
back; without that, caps round a textbook ring lose the weights. The rule, by which the order can be told:

* A visit passes a tenant that is held back, or short of credit for its head. It keeps its place in time. When
  the tenant may run, it is served at the first such place by which the gains pay for its head: a *late
  visit*. What comes first in time goes first, so late visits go before the ring does; an open visit stands
  where it began. Only a visit in the ring's own order moves the ring on.
* A late visit takes up all the tenant's visits up to there. Those behind are lost, but for one if it took up
  one only: of two, itself included (``BANKED``), the second is *owed*.
* Owed visits queue, first in, first out, before the ring. With every request that a tenant sends, what it is
  owed, and what has passed it by (``BANKED`` at most), goes to the end of the queue: the latest place the
  ring has come to, before the visit there, should it be open. But in a visit that was owed it may keep its
  place, its own cap having slowed it down:
* A tenant *leads* under a group cap when nobody under that cap has begun more late visits. One that leads
  under all its caps goes to the end. One that leads under none keeps its place. One that leads under some
  goes behind the last that queued under those, and behind who queued behind that, unless its place is later.
  Tenants under no group cap, and those with several keys, are compared as if they shared one.
* Late visits count with all that they took up. In the ring, and when it joins, a tenant's count is put level
  with the most under its cap (under several, the least of these); a late visit puts it no further than
  ``BANKED`` below first.
* An open visit that is held back goes on where it stopped, as long as it can pay for the head. At the turn of
  another it ends if it cannot (for the head that may run or, when none may, the earliest). When later the
  tenant's line or account changes so that it cannot pay for its earliest request, it ends then, and what
  passed the tenant meanwhile is owed, at the end of the queue.
* Visits that could not pay for the tenant's earliest request are booked as gains before its line, its
  account or its weight changes; the next late visit counts them as taken up. When a request gives up, their
  gains beyond the cost of the next one are forfeited: they were saved up for the one that is gone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Any

from fairq.policies.base import Eligible, check_number, no_request, show
from fairq.policies.fair import Fair
from fairq.policies.lines import SHORT, Entry, Gate, Hold, Line, Member, TenantLines
from fairq.request import Number, Request

BANKED = 2
"""How many visits missed because of a cap are kept for a tenant, with the one it makes up for."""

RING = 1 << 62
"""In a rank: a visit in the ring's own order, after the owed ones queued at the same point."""

GAP = 1 << 40
"""The room left between places in the ring, for those who join in the middle."""

STEP = 1 << 24
"""How far behind its neighbour one joins, while there is room."""

MANY = 1 << 50
"""So many visits are reckoned in fractions: a float could no longer tell one more of them."""

NO_GROUP = (None,)
"""What those stand under that stand under no group cap."""

Rank = tuple[int, ...]
"""When a visit takes place: (round, place in the ring, ``RING``), or for an owed one (round, place, number in
the queue), with one more number when it queued behind another.
"""


class _Tenant(TenantLines):
    """A tenant's account. ``before`` and ``after`` are its neighbours in the ring."""

    __slots__ = (
        "after",
        "ahead",
        "back",
        "before",
        "begun",
        "deficit",
        "drr",
        "gain",
        "idle",
        "late",
        "open",
        "owed",
        "place",
        "round",
        "saved",
    )

    def __init__(self, name: str, drr: DRR) -> None:
        super().__init__(name, drr._waiting, drr._cover)
        self.drr = drr
        weight = drr._weights.get(name)
        self.gain: Number = drr.quantum if weight is None else drr.quantum * weight  # of a visit
        self.deficit: Number = 0  # the credit left; negative: a debt from true-up
        self.round = 0  # of the last visit whose gain is in ``deficit`` …
        self.late: Rank | None = None  # … and when that took place, if it was one that was owed
        self.open = False  # that visit has not ended
        self.ahead = 0  # the round of its next visit in the ring; the others follow round by round
        self.idle = 0  # visits since the last that it made, whose gains were added to ``deficit`` …
        self.saved: Number = 0  # … and what of these is in it still
        self.owed = 0  # visits missed before that one
        self.back: Rank = (0, 0, 0)  # where its next owed visit queues
        self.begun = 0  # visits that late ones took up, to compare it with others under its group caps
        self.place = 0
        self.before: _Tenant | None = None
        self.after: _Tenant | None = None

    @property
    def turn(self) -> Rank:
        """When its last visit took place."""
        return self.late or (self.round, self.place, RING)

    def rank(self, gate: Gate | None) -> Any:
        head = self.head(gate)
        if head is None:
            return None
        return self.drr._when(self, head.cost)


def _gain(quantum: Number, weight: Number, tenant: str) -> Number:
    return check_number(f"quantum·weight of {tenant!r}", quantum * weight, above=True)


def _times(visits: int, gain: Number) -> Number:
    """The gains of so many visits, also of more than a float can count."""
    if visits > MANY and isinstance(gain, float):
        return float(visits * Fraction(gain))
    return visits * gain


_FIELDS = (*Member.__slots__, *Line.__slots__, *TenantLines.__slots__, *_Tenant.__slots__)


class DRR(Fair[_Tenant]):
    """Shares in proportion to weights, in turns.

    Parameters
    ----------
    quantum : tokens a tenant of weight 1 gains per visit, finite and > 0. With quantum·weight >= the
        largest cost, every visit sends something; below, the order is still that of the ring.
    weights : tenant → weight, finite and > 0; default 1.

    Bound (Shreedhar & Varghese 1996, lemma 2 and theorem 1): for any two tenants with waiting work
    throughout an interval, the costs D dispatched differ by
    ``|Dᵢ/wᵢ − Dⱼ/wⱼ| < quantum + Lᵢ/wᵢ + Lⱼ/wⱼ``, L the largest cost that waited, on any number of slots.

    True-up: what a request costs above its estimate becomes a debt that survives an empty line; what it
    costs less is given back while the tenant waits. Credit does not survive an empty line. What visits have
    gained for a request that gives up is kept up to the cost of the tenant's next one.

    Under caps (``KeyCaps``), with a quantum near the largest cost, the slots held come within a few per cent
    of the weighted max-min shares; README.md beside this file has the figures. Where a cap binds, at most
    ``BANKED`` visits are kept for who missed them: with a smaller quantum these no longer pay for a request,
    and the weights fade; with one several times as large visits are long, and a tenant that its own cap slows
    waits for those of others. ``VTC`` has no quantum to set.
    """

    def __init__(self, quantum: Number, weights: Mapping[str, Number] | None = None) -> None:
        super().__init__(weights)
        self.quantum = check_number("quantum", quantum, above=True)
        for tenant, weight in self._weights.items():
            _gain(quantum, weight, tenant)
        # The frontier: the latest place in the schedule that was served. The ring is cut before
        # ``_cut``, the tenant whose turn is on or next (None: the ring's end): who joins, joins there.
        self._frontier: Rank = (0, 0, RING)
        self._queued = 0
        self._last_owed: dict[Hold | None, Rank] = {}  # how far back any queued, under each group cap
        self._most: dict[Hold | None, int] = {}  # the late visits begun under each group cap, at most
        self._turn: _Tenant | None = None  # the last one served
        self._cut: _Tenant | None = None
        self._gated = False  # somebody may have been held back
        self._lone: Entry | None = None  # all that waits, and not yet in the ring
        self._last: _Tenant | None = None

    def _new(self, name: str) -> _Tenant:
        return _Tenant(name, self)

    def put(self, request: Request) -> None:
        if self._lone is not None:
            self._admit_lone()
        waiting, latest = self._waiting, self._latest
        try:
            again = request in waiting or request in self._running
            arrival, tenant = request.arrival, request.tenant
        except (AttributeError, TypeError):
            raise no_request(request) from None
        if again:
            super().put(request)  # which refuses it
        if arrival is None:
            arrival = latest
        elif arrival > latest:
            self._latest = latest = arrival
        order = self._puts
        self._puts = order + 1
        state = self._tenants.get(tenant)
        if not waiting and (state is None or state.deficit == 0):
            # Alone, its turn would come at once and leave no trace: the ring need not hear of it
            # unless another comes first.
            waiting[request] = self._lone = (arrival, order, request.cost, request)
        elif state is not None and state.exact and state.key == request.key and arrival >= latest:
            # Last of its one line: nothing else changes unless it is also the first.
            waiting[request] = entry = (arrival, order, request.cost, request)
            state.queue.append(entry)
            state.waiting = waits = state.waiting + 1
            if waits == 1:
                self._pool.place(state, self._enlist(state, request.cost))
            elif waits == SHORT:
                state.lengthen()
        else:
            waiting[request] = self._enter(request, arrival, order)

    def _admit_lone(self) -> None:
        """Let the one who was alone join the ring."""
        if self._lone is not None:
            arrival, order, _, request = self._lone
            self._lone = None
            self._waiting[request] = self._enter(request, arrival, order)

    def get(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        if eligible is not None:
            self._gated = True
            self._admit_lone()
            return super().get(eligible)
        lone = self._lone
        if lone is not None:
            self._lone = None
            request = lone[3]
            del self._waiting[request]
            self._running[request] = request.cost
            return request  # type: ignore[no-any-return]
        # The plain ring at full speed: nobody was ever held back, so nobody is owed a visit and none but the
        # last one's is open. A tenant with several keys takes the general way, as every other change of the
        # books does.
        pool = self._pool
        if not pool.settled:
            pool.settle()
        if self._gated or not pool.settled:
            return super().get()
        state: _Tenant
        rank, state = pool.ready[0]
        last = self._turn
        if not state.exact or state.ghosts or (last is not None and not last.exact):
            return super().get()
        queue = state.queue
        _, _, cost, request = queue[0]
        deficit = state.deficit
        if not state.open or deficit < cost:
            if last is not None:
                last.open = False
            if deficit + state.gain >= cost:
                deficit += state.gain
            else:
                self._earn(state, rank[0] - state.ahead + 1, cost)
                deficit = state.deficit
            self._frontier = rank
            self._cut = self._turn = state
            state.round = round_ = rank[0]
            state.ahead, state.late, state.open, state.idle, state.saved = round_ + 1, None, True, 0, 0
        del self._waiting[request]
        self._running[request] = cost
        del queue[0]
        state.waiting -= 1
        state.deficit = deficit = deficit - cost
        if not queue:
            pool.take_first(state)
            self._emptied(state)
            return request  # type: ignore[no-any-return]
        cost = queue[0][2]
        if deficit < cost:
            ahead = state.ahead
            if deficit + state.gain < cost:
                ahead += self._visits(state, cost) - 1
            pool.postpone(state, (ahead, state.place, RING))
        return request  # type: ignore[no-any-return]

    def _choose(self, gate: Gate | None, now: Number | None) -> Request | None:
        if self._lone is not None:
            request: Request = self._lone[3]
            return request if gate is None or gate.blocker(request.key) is None else None
        return super()._choose(gate, now)

    def cancel(self, request: Request) -> bool:
        self._admit_lone()
        return super().cancel(request)

    def waiting(self, tenant: str) -> int:
        if self._lone is not None:
            return int(self._lone[3].tenant == tenant)
        return super().waiting(tenant)

    def _true_up(self, request: Request, difference: Number) -> None:
        self._admit_lone()
        super()._true_up(request, difference)

    # -- the schedule ---------------------------------------------------------------------------

    def set_weight(self, tenant: str, weight: Number) -> None:
        check_number(f"weight of {tenant!r}", weight, above=True)
        _gain(self.quantum, weight, tenant)
        self._admit_lone()
        super().set_weight(tenant, weight)

    def _weigh(self, state: _Tenant) -> None:
        state.gain = self.quantum * self.weight(state.name)

    def _when(self, state: _Tenant, cost: Number) -> Rank:
        """The visit in which a tenant sends a head of this cost."""
        if state.open and state.deficit >= cost:
            return state.turn
        visits = 1 if cost - state.deficit <= state.gain else self._visits(state, cost)
        if visits <= state.owed:
            return state.back
        return state.ahead + visits - 1 - state.owed, state.place, RING

    def _visits(self, state: _Tenant, cost: Number) -> int:
        """How many further visits it takes to afford a cost, at least one."""
        gain = state.gain
        short = cost - state.deficit
        if short <= gain:
            return 1
        if isinstance(gain, float) and short / gain > MANY:
            return ceil(Fraction(short) / Fraction(gain))
        visits = int(-(-short // gain))
        # Division of floats can be off by one visit: what counts is the sum.
        while state.deficit + visits * gain < cost:
            visits += 1
        while state.deficit + (visits - 1) * gain >= cost:
            visits -= 1
        return visits

    def _earn(self, state: _Tenant, visits: int, cost: Number) -> None:
        """Add the gains of the visits it takes to afford a cost."""
        state.deficit = max(cost, state.deficit + _times(visits, state.gain))

    def _passed(self, state: _Tenant) -> int:
        """The last round in which the frontier has passed a tenant's place."""
        round_, place, _ = self._frontier
        return round_ if state.place <= place else round_ - 1

    def _floor(self, state: _Tenant) -> Any:
        if state.exact:
            return self._when(state, state.queue[0][2])
        # Which key goes, and so the cost, depends on who may run: no earlier than its next visit.
        if state.open:
            return state.turn
        return state.back if state.owed else (state.ahead, state.place, RING)

    def _serve(self, state: _Tenant, request: Request, gate: Gate | None) -> None:
        cost = request.cost
        last = self._turn
        if last is not state:
            if last is not None and last.open:
                self._end_turn(last, gate)
            self._turn = state
        if not state.open or state.deficit < cost:
            self._begin_visit(state, cost)
        state.deficit -= cost
        self._owe(state, served=True)

    def _begin_visit(self, state: _Tenant, cost: Number) -> None:
        turn, visits = self._when(state, cost), self._visits(state, cost)
        self._earn(state, visits, cost)
        state.round, state.late = turn[0], None if turn[2] == RING else turn
        state.open, state.saved = True, 0
        level = self._level(state)
        if turn[2] == RING and turn > self._frontier:
            self._frontier, self._cut = turn, state
            state.owed, state.ahead, state.idle = 0, turn[0] + 1, 0
            state.begun = level
            return
        # A late visit. The bank holds those missed meanwhile, and those that are taken up here.
        visits, state.idle = visits + state.idle, 0
        state.begun = max(state.begun, level - BANKED) + visits
        for cap in state.cover or NO_GROUP:
            self._most[cap] = max(self._most.get(cap, 0), state.begun)
        missed = self._missed(state)
        state.owed = max(0, min(BANKED, state.owed + missed) - visits)
        state.ahead += missed

    def _level(self, state: _Tenant) -> int:
        """The most late visits that a tenant under its group cap has begun; under several the least such."""
        return min(self._most.get(cap, 0) for cap in state.cover or NO_GROUP)

    def _missed(self, state: _Tenant) -> int:
        """How many of its visits the frontier has passed."""
        return max(0, self._passed(state) - state.ahead + 1)

    def _owe(self, state: _Tenant, served: bool = False) -> None:
        """What passed it is owed, and queues with what was: at the end; when it is served, see ``_front``."""
        missed = self._missed(state)
        if not (state.owed or missed):
            return
        state.owed = min(BANKED, state.owed + missed)
        state.ahead += missed
        front = self._front(state) if served else self._frontier[:2]
        if front is not None:
            self._queued += 1
            state.back = (*front, self._queued)
        for cap in state.cover:
            self._last_owed[cap] = max(state.back, self._last_owed.get(cap, state.back))

    def _front(self, state: _Tenant) -> Rank | None:
        """Where one that is served queues: how its rank begins. None: it keeps its place."""
        end = self._frontier[:2]
        if state.late is None:
            return end
        caps = state.cover or NO_GROUP
        leads = [cap for cap in caps if state.begun >= self._most.get(cap, 0)]
        if len(leads) == len(caps):
            return end
        last = max((self._last_owed[cap] for cap in leads if cap in self._last_owed), default=state.back)
        return last[:3] if last > state.back else None

    def _end_turn(self, last: _Tenant, gate: Gate | None) -> None:
        """Another tenant is served: the last one's visit ends, unless it is held with credit left."""
        head = last.head(gate) or last.head()
        if head is not None and last.deficit < head.cost:
            last.open = False
            if not last.exact:
                self._pool.place(last, self._floor(last))

    def _catch_up(self, state: _Tenant) -> None:
        """Add the gains of the visits that passed without effect, its head being unaffordable."""
        idle = self._idle(state)
        if idle:
            gained = _times(idle, state.gain)
            state.deficit += gained
            state.saved += gained
            state.idle += idle
            state.ahead += idle
            state.round, state.late, state.open = state.ahead - 1, None, False

    def _idle(self, state: _Tenant) -> int:
        """How many visits the frontier has passed in which its head was unaffordable."""
        when = self._when(state, state.head().cost)  # type: ignore[union-attr]
        if when[2] != RING:
            return 0
        return min(self._missed(state), max(0, when[0] - state.ahead))

    def _adjust(self, state: _Tenant, difference: Number) -> None:
        state.deficit -= difference
        if not state.waiting and state.deficit > 0:
            state.deficit = 0  # an empty line keeps its debt and no credit

    def _lost(self, state: _Tenant) -> None:
        """What visits gained for the one that gave up, and the next does not need, is forfeited."""
        head = state.head()
        if head is not None and state.deficit > head.cost:
            spare = min(state.saved, state.deficit - head.cost)
            state.deficit -= spare
            state.saved -= spare

    def _lapse(self, state: _Tenant) -> None:
        """A visit that a cap interrupted, and that can no longer pay for the head, is over: what it missed is
        owed from here.
        """
        head = state.head() if state.open and state is not self._turn else None
        if head is not None and state.deficit < head.cost:
            state.open = False
            self._owe(state)

    def _blank(self, state: _Tenant) -> bool:
        return bool(state.deficit == 0)

    # -- the ring -------------------------------------------------------------------------------

    def _enlist(self, state: _Tenant, cost: Number) -> Rank:
        """At the back of the ring: just before the tenant whose turn is on or next."""
        after = self._cut
        before = self._last if after is None else after.before
        if after is None:
            place = 0 if before is None else before.place + GAP
            self._last = state
        else:
            room = 2 * GAP if before is None else after.place - before.place
            if room < 2:
                self._spread()
                room = GAP
            place = after.place - room + (STEP if room > 2 * STEP else room // 2)
            after.before = state
        if before is not None:
            before.after = state
        state.before, state.after, state.place = before, after, place
        round_ = self._frontier[0]
        state.open, state.owed, state.idle, state.saved, state.ahead = False, 0, 0, 0, round_ + 1
        state.begun = self._level(state) if self._most else 0
        visits = 1 if cost - state.deficit <= state.gain else self._visits(state, cost)
        return round_ + visits, place, RING

    def _emptied(self, state: _Tenant) -> None:
        before, after = state.before, state.after
        if before is not None:
            before.after = after
        if after is None:
            self._last = before
        else:
            after.before = before
        if self._cut is state:
            self._cut = after
        if self._turn is state:
            self._turn = None
        state.before = state.after = None
        state.open = False
        if state.deficit > 0:
            state.deficit = 0

    def _spread(self) -> None:
        """Number the places anew when there is no room between two of them; the order stays."""
        ring: list[_Tenant] = []
        state = self._last
        while state is not None:
            ring.append(state)
            state = state.before
        ring.reverse()
        ranks = [
            self._frontier,
            *self._last_owed.values(),
            *(rank for s in ring for rank in (s.turn, s.back)),
        ]
        used = {rank[1] for rank in ranks} | {s.place for s in ring}
        anew = {place: number * GAP for number, place in enumerate(sorted(used))}

        def moved(rank: Rank) -> Rank:
            return rank[0], anew[rank[1]], *rank[2:]

        for state in ring:
            state.place, state.back = anew[state.place], moved(state.back)
            state.late = state.late and moved(state.late)
        self._frontier = moved(self._frontier)
        self._last_owed = {cap: moved(rank) for cap, rank in self._last_owed.items()}
        for state in ring:
            if state.entry is not None:
                self._pool.place(state, self._floor(state))

    def __deepcopy__(self, memo: dict[int, Any]) -> DRR:
        # Neighbours hold each other: without shells made first, a copy would recurse along the ring.
        twin = copy.copy(self)
        memo[id(self)] = twin
        states = list(self._tenants.values())
        for state in states:
            memo[id(state)] = _Tenant.__new__(_Tenant)
        for state in states:
            shell = memo[id(state)]
            for name in _FIELDS:
                setattr(shell, name, copy.deepcopy(getattr(state, name), memo))
        vars(twin).update(copy.deepcopy(vars(self), memo))
        return twin

    # -- explaining -----------------------------------------------------------------------------

    def _joined(self) -> DRR:
        """A copy in which the one who is alone has joined the ring: to look changes nothing."""
        twin = copy.deepcopy(self)
        twin._admit_lone()
        return twin

    def _accounts(self) -> dict[str, dict[str, Any]]:
        """Per tenant: ``weight, gain`` (per visit), ``deficit`` now, ``round`` and ``open`` of its last
        visit, ``due``: the round in which it sends its head (``None`` when nothing waits), ``place``:
        its place among those waiting, in the order of their next useful visits.
        """
        if self._lone is not None:
            return self._joined()._accounts()
        waiting = [s for s in self._tenants.values() if s.waiting]
        ranks = {s.name: s.rank(None) for s in waiting}
        order = sorted(ranks, key=ranks.__getitem__)
        accounts = {}
        for name, state in self._tenants.items():
            idle = self._idle(state) if state.waiting else 0
            accounts[name] = {
                "weight": self.weight(name),
                "gain": state.gain,
                "deficit": state.deficit + _times(idle, state.gain),
                "round": state.ahead - 1 + idle if idle else state.round,
                "open": state.open,
                "due": ranks[name][0] if state.waiting else None,
                "place": order.index(name) if state.waiting else None,
            }
        return accounts

    def _why(self, request: Request, now: Number | None) -> str:
        if self._lone is not None:
            return self._joined()._why(request, now)
        state = self._tenants[request.tenant]
        cost, name = request.cost, request.tenant
        if state.open and state.deficit >= cost:
            left = f"its deficit {show(state.deficit)} covers the cost {show(cost)}"
            return f"{name}'s visit of round {state.round} goes on: {left}."
        visits, when = self._visits(state, cost), self._when(state, cost)
        idle = min(self._idle(state), visits - 1)  # passed without effect: ``_accounts`` counts them too
        deficit, visits = state.deficit + _times(idle, state.gain), visits - idle
        total = max(cost, deficit + _times(visits, state.gain))
        turns = "visit" if visits == 1 else f"{visits} visits"
        late = when[2] != RING or when[0] <= self._passed(state)
        note = " It makes up a visit that a cap made it miss." if late else ""
        return (
            f"{name}'s turn in round {when[0]}: deficit {show(deficit)} + {turns} of "
            f"{show(state.gain)} = {show(total)} covers the cost {show(cost)}.{note}"
        )
