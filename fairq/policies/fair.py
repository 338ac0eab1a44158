"""What the policies with shares have in common: a tenant's lines, its weight, its turn in a pool."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from fairq.policies.base import Queue, check_name, check_number, check_weights
from fairq.policies.lines import Entry, Gate, Pool, TenantLines
from fairq.request import Number, Request

T = TypeVar("T", bound=TenantLines)


class Fair(Queue, Generic[T]):
    """Chooses a tenant by its rank, then the earliest request among its keys that may run.

    Weights are per tenant, finite and > 0, default 1.
    """

    def __init__(self, weights: Mapping[str, Number] | None = None) -> None:
        super().__init__()
        self._weights = check_weights(weights)
        self._tenants: dict[str, T] = {}
        self._pool = Pool()
        self._room = 2048  # accounts there may be before the idle ones are closed

    def weight(self, tenant: str) -> Number:
        """The tenant's weight."""
        return self._weights.get(tenant, 1)

    def set_weight(self, tenant: str, weight: Number) -> None:
        check_name("the tenant of a weight", tenant)
        check_number(f"weight of {tenant!r}", weight, above=True)
        state = self._tenants.get(tenant)
        if state is None:
            self._weights[tenant] = weight
            return
        if state.waiting:
            self._catch_up(state)
        self._weights[tenant] = weight
        self._weigh(state)
        if state.waiting:
            self._pool.place(state, self._floor(state))

    def waiting(self, tenant: str) -> int:
        state = self._tenants.get(tenant)
        return 0 if state is None else state.waiting

    def _enter(self, request: Request, arrival: Number, order: int) -> Entry:
        # With the cost: what a tenant's next one costs is asked at every turn, and a look at that request
        # would be one more place in memory.
        entry = (arrival, order, request.cost, request)
        state = self._tenants.get(request.tenant)
        if state is None:
            state = self._open_account(request.tenant)
            state.key = request.key
            if self._covers:
                state.cover = self._cover(state.key)
        if state.key == request.key and state.exact:
            if not state.waiting:
                state.queue.append(entry)
                state.waiting = 1
                rank = self._enlist(state, request.cost)
                if state.cover or state.home is not None:
                    self._pool.place(state, rank)
                else:
                    self._pool.put(state, rank)
                return entry
            if arrival >= self._latest:  # the last of all, so behind its head: nothing else changes
                state.push(entry)
                state.waiting += 1
                return entry
        if state.waiting:
            self._catch_up(state)
            state.enter(entry)
            self._lapse(state)
            self._pool.place(state, self._floor(state))
        else:
            state.enter(entry)
            self._pool.place(state, self._enlist(state, request.cost))
        return entry

    def _open_account(self, tenant: str) -> T:
        if len(self._tenants) >= self._room:
            self._close_accounts()
        state = self._tenants[tenant] = self._new(tenant)
        return state

    def _close_accounts(self) -> None:
        """Forget, in bulk, the tenants that have nothing waiting and nothing to remember."""
        kept = {name: s for name, s in self._tenants.items() if s.waiting or not self._blank(s)}
        self._tenants = kept
        self._room = max(2048, 2 * len(kept))

    def _choose(self, gate: Gate | None, now: Number | None) -> Request | None:
        state: T | None = self._pool.best(gate)
        if state is None:
            return None
        if not state.exact:
            return state.head(gate)
        request: Request = state.queue[0][3]
        return request

    def _leave(self, request: Request, gate: Gate | None) -> None:
        state = self._tenants[request.tenant]
        self._serve(state, request, gate)
        if len(state.queue) > 1 and not state.ghosts:
            del state.queue[0]
            state.waiting -= 1
            self._pool.place(state, self._floor(state))
            return
        state.leave(request)
        self._settle(state)

    def _drop(self, request: Request) -> None:
        state = self._tenants[request.tenant]
        self._catch_up(state)
        state.lose(request)
        self._lost(state)
        self._lapse(state)
        self._settle(state)

    def _settle(self, state: T) -> None:
        if state.waiting:
            self._pool.place(state, self._floor(state))
        else:
            self._pool.remove(state)
            self._emptied(state)

    def _true_up(self, request: Request, difference: Number) -> None:
        name = request.tenant
        state = self._tenants.get(name)
        if state is None:
            state = self._open_account(name)
        if state.waiting:
            self._catch_up(state)
        self._adjust(state, difference)
        self._lapse(state)
        if state.waiting:
            self._pool.place(state, self._floor(state))

    # -- what a policy writes -------------------------------------------------------------------

    @abstractmethod
    def _new(self, name: str) -> T:
        """The account of a tenant not seen before, or forgotten."""

    @abstractmethod
    def _blank(self, state: T) -> bool:
        """True when an idle account says no more than a new one would."""

    @abstractmethod
    def _floor(self, state: T) -> Any:
        """The least rank a waiting tenant can have, whichever of its keys may run."""

    @abstractmethod
    def _serve(self, state: T, request: Request, gate: Gate | None) -> None:
        """Charge the estimate; the request is still in its line, the gate that of the choice."""

    @abstractmethod
    def _adjust(self, state: T, difference: Number) -> None:
        """Charge (or give back, if negative) what the estimate was wrong by."""

    def _enlist(self, state: T, cost: Number) -> Any:
        """Its line was empty and now has a head of this cost: join, and say its rank (see ``_floor``)."""
        self._join(state)
        return self._floor(state)

    def _join(self, state: T) -> None:
        """Its line was empty and now is not."""

    def _emptied(self, state: T) -> None:
        """Its last waiting request was handed out or gave up."""

    def _lost(self, state: T) -> None:
        """One of its waiting requests gave up."""

    def _lapse(self, state: T) -> None:
        """Its head or its account has changed, and not by a turn of its own."""

    def _weigh(self, state: T) -> None:
        """Its weight has changed."""

    def _catch_up(self, state: T) -> None:
        """Its head, its account or its weight is about to change: settle what came before."""
