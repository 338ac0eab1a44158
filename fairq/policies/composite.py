"""A policy of policies: requests are shared out among inner policies, and one of these is asked next.

What priority levels and shares of shares have in common: the inner policies keep the lines and accounts of
what they hold, the outer one keeps which request is where. Caps go inside, around, or both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from fairq.policies.base import Eligible, Policy, Queue, check_inner, check_name
from fairq.policies.lines import CoverOf, Entry, Gate, gate_of
from fairq.policies.wrapper import Wrapper
from fairq.request import Number, Request


class Composite(Queue):
    """Routes each verb to the inner policy that holds the request."""

    def __init__(self) -> None:
        super().__init__()
        self._home: dict[Request, Policy] = {}
        self._counts: dict[str, int] = {}

    def get(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        if self.needs_now:
            self._need(now)
        gate = gate_of(eligible)
        inner = self._pick(gate, now)
        request = None if inner is None else inner.get(gate, now)
        if request is None:
            return None
        del self._waiting[request]
        self._running[request] = request.cost
        self._leave(request, gate)
        return request

    def charge(self, request: Request, cost: Number) -> None:
        super().charge(request, cost)
        self._home[request].charge(request, cost)

    def done(self, request: Request, cost: Number | None = None) -> None:
        super().done(request, cost)
        self._home.pop(request).done(request, cost)

    def set_weight(self, tenant: str, weight: Number) -> None:
        """Change a tenant's weight in every inner policy that has weights; ``TypeError`` when none has."""
        self._tell("set_weight", check_name("the tenant of a weight", tenant), weight)

    def set_cap(self, key: str, limit: int | None) -> None:
        """Change a key's cap in every inner policy that has caps; ``TypeError`` when none has."""
        self._tell("set_cap", check_name("the key of a cap", key), limit)

    def waiting(self, tenant: str) -> int:
        return self._counts.get(tenant, 0)

    # -- what a policy of policies writes -------------------------------------------------------

    @abstractmethod
    def _route(self, request: Request) -> Policy:
        """The inner policy that a request goes to."""

    @abstractmethod
    def _pick(self, gate: Gate | None, now: Number | None) -> Policy | None:
        """The inner policy to ask next, of those that have something that may run."""

    @abstractmethod
    def _inners(self) -> Iterator[tuple[str, Policy]]:
        """All inner policies, with what to call them in a sentence."""

    # -- the books ------------------------------------------------------------------------------

    def _enter(self, request: Request, arrival: Number, order: int) -> Entry:
        inner = self._route(request)
        _catch_up(inner, self._latest)
        inner.put(request)
        self._home[request] = inner
        self._counts[request.tenant] = self._counts.get(request.tenant, 0) + 1
        return arrival, order, request

    def _choose(self, gate: Gate | None, now: Number | None) -> Request | None:
        inner = self._pick(gate, now)
        return None if inner is None else inner.peek(gate, now)

    def _leave(self, request: Request, gate: Gate | None) -> None:
        self._counts[request.tenant] -= 1
        if not self._counts[request.tenant]:
            del self._counts[request.tenant]

    def _drop(self, request: Request) -> None:
        self._home.pop(request).cancel(request)
        self._leave(request, None)

    def _adopt(self, inner: Any, name: str) -> Policy:
        """An inner policy, checked, under the holds of the wrappers around."""
        policy = check_inner(f"{name} needs", inner)
        policy._inside = True
        for cover_of in self._covers:
            policy._stand_under(cover_of)
        return policy

    def _stand_under(self, cover_of: CoverOf) -> None:
        super()._stand_under(cover_of)
        for _, inner in self._inners():
            inner._stand_under(cover_of)

    def _tell(self, verb: str, name: str, value: Any) -> None:
        told = False
        for _, inner in self._inners():
            try:
                getattr(inner, verb)(name, value)
                told = True
            except TypeError:
                continue
        if not told:
            getattr(super(), verb)(name, value)

    # -- explaining -----------------------------------------------------------------------------

    def snapshot(self, now: Number | None = None) -> dict[str, Any]:
        """As every policy's, with ``inside``: the snapshot of each inner policy, by name."""
        view = super().snapshot(now)
        view["inside"] = {name: inner.snapshot(now) for name, inner in self._inners()}
        return view

    def _accounts(self) -> dict[str, dict[str, Any]]:
        """The inner accounts, each with where it is (``in``); a tenant in several is named with each."""
        found = [
            (tenant, name, account)
            for name, inner in self._inners()
            for tenant, account in inner._accounts().items()
        ]
        names = [tenant for tenant, _, _ in found]
        return {
            tenant if names.count(tenant) == 1 else f"{tenant} in {name}": {"in": name, **account}
            for tenant, name, account in found
        }


def _catch_up(inner: Policy, latest: Number) -> None:
    """A request without arrival comes after all that were put before it, in other policies too."""
    while isinstance(inner, Wrapper):
        inner = inner.inner
    if isinstance(inner, Queue) and inner._latest < latest:
        inner._latest = latest
