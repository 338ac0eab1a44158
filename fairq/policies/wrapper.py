"""A policy around a policy: it decides which keys may run and leaves the order to the one inside."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from fairq.policies.base import Eligible, Policy, check_inner, check_name, no_request
from fairq.policies.lines import CoverOf, Gate, gate_of
from fairq.request import Number, Request


class Wrapper(Policy):
    """Hands the verbs on to the inner policy, whose accounts it shares, and narrows what may run."""

    def __init__(self, inner: Policy) -> None:
        check_inner(f"{type(self).__name__} wraps", inner)
        inner._inside = True
        self.inner = inner
        self.needs_now = inner.needs_now
        self._waiting = inner._waiting
        self._running = inner._running

    @abstractmethod
    def _gate(self, outer: Gate | None) -> Gate:
        """Which keys may run, given what the caller accepts."""

    @abstractmethod
    def _started(self, request: Request) -> None:
        """It was handed out."""

    @abstractmethod
    def _ended(self, request: Request) -> None:
        """It left service."""

    def put(self, request: Request) -> None:
        try:
            self.inner.put(request)
        except (AttributeError, TypeError):
            if isinstance(request, Request):
                raise
            raise no_request(request) from None

    def get(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        request = self.inner.get(self._gate(gate_of(eligible)), now)
        if request is not None:
            self._started(request)
        return request

    def peek(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        return self.inner.peek(self._gate(gate_of(eligible)), now)

    def charge(self, request: Request, cost: Number) -> None:
        self.inner.charge(request, cost)

    def done(self, request: Request, cost: Number | None = None) -> None:
        self.inner.done(request, cost)
        self._ended(request)

    def cancel(self, request: Request) -> bool:
        return self.inner.cancel(request)

    def set_weight(self, tenant: str, weight: Number) -> None:
        self.inner.set_weight(check_name("the tenant of a weight", tenant), weight)

    @property
    def used(self) -> bool:
        return self.inner.used

    @property
    def cancelled(self) -> int:
        return self.inner.cancelled

    def waiting(self, tenant: str) -> int:
        return self.inner.waiting(tenant)

    def snapshot(self, now: Number | None = None) -> dict[str, Any]:
        """As every policy's, with what the inner one adds to it."""
        return {**self.inner.snapshot(now), **super().snapshot(now)}

    def _stand_under(self, cover_of: CoverOf) -> None:
        self.inner._stand_under(cover_of)

    def _accounts(self) -> dict[str, dict[str, Any]]:
        return self.inner._accounts()

    def _why(self, request: Request, now: Number | None) -> str:
        return self.inner._why(request, now)


def group_of_keys(where: str, name: Any, pair: Any) -> tuple[list[str], Any]:
    """A named group as it was given, (keys, number): its keys without doubles, and the number unchecked.

    Raises ``TypeError`` for what is no such pair, ``ValueError`` for a bad name; both say where.
    """
    check_name(f"the name of {where}", name)
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"{where}: must be a pair (keys, number), got {pair!r}")
    keys, number = pair
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        what = f"the string {keys!r}" if isinstance(keys, str) else repr(keys)
        raise TypeError(f"{where}: keys must be a collection of keys, got {what}")
    return [check_name(f"a key of {where}", key) for key in dict.fromkeys(keys)], number
