"""What every policy promises, in prose first.

A policy is a queue that chooses: it holds waiting requests and says which goes next. It has no clock,
no thread, no randomness and no I/O; the caller runs the work. One dispatcher per queue (it is not
thread-safe), nothing is persisted, running work is never interrupted.

The life of a request is ``put`` → ``get`` → ``charge``* → ``done``, or ``put`` → ``cancel``.

* ``put(request)``: it waits in its tenant's line. A request that already waits or runs here raises.
* ``get(eligible=None, now=None)``: takes out the request to run next, or returns ``None`` when nothing
  may run. ``eligible(key)`` narrows the choice to the keys it accepts. ``None`` is not "empty": look at
  ``len(queue)`` for that. ``now`` (seconds) is for policies whose order depends on time: those have
  ``needs_now = True`` and raise without it.
* ``peek(...)``: what ``get`` would return; changes nothing.
* ``charge(request, cost)``: the true cost so far, absolute, while it runs. The estimate was charged at
  ``get``; what goes above it is charged at once.
* ``done(request, cost=None)``: it left service. With ``cost`` the account is settled exactly. For a
  request that is not running (never handed out, or done twice) it raises.
* ``cancel(request)``: it gave up waiting. True if it was still waiting.

Order is total and stated: equal rank → earlier arrival → order of ``put``; a request is never compared
with another. A request without ``arrival`` counts as arriving when it is put: no earlier than any put
before it. Within one tenant and key, requests of equal rank leave in that order.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from fairq.policies.lines import Cover, CoverOf, Entry, Gate, gate_of
from fairq.request import Number, Request, as_number

Eligible = Callable[[str], bool]


class Policy(ABC):
    """The verbs, and the questions one may ask."""

    needs_now: bool = False
    """True when the order depends on the time: ``get`` and ``peek`` then raise without ``now``."""

    _inside = False
    """True once another policy was put around it."""

    _waiting: dict[Request, Any]
    _running: dict[Request, Number]

    # -- the verbs ------------------------------------------------------------------------------

    @abstractmethod
    def put(self, request: Request) -> None:
        """Let a request wait. Raises ``ValueError`` when it already waits or runs here."""

    @abstractmethod
    def get(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        """Take out the request to run next; ``None`` when nothing eligible waits."""

    @abstractmethod
    def peek(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        """What ``get`` would return with the same arguments; changes nothing."""

    @abstractmethod
    def charge(self, request: Request, cost: Number) -> None:
        """Report the true cost so far (absolute, in tokens) of a running request."""

    @abstractmethod
    def done(self, request: Request, cost: Number | None = None) -> None:
        """A running request left service; with ``cost`` its account is settled exactly."""

    @abstractmethod
    def cancel(self, request: Request) -> bool:
        """Drop a waiting request; false when it does not wait (it runs, has left, or never came)."""

    def set_weight(self, tenant: str, weight: Number) -> None:
        """Change a tenant's weight from its next turn on (policies with shares)."""
        raise TypeError(f"{type(self).__name__} has no weights: cannot set the weight of {tenant!r}")

    def set_cap(self, key: str, limit: int | None) -> None:
        """Change how many requests of a key may run at once (policies with caps)."""
        raise TypeError(f"{type(self).__name__} has no caps: cannot set the cap of {key!r}")

    # -- questions ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._waiting)

    def __bool__(self) -> bool:
        return True  # an empty queue is still a queue

    @property
    @abstractmethod
    def used(self) -> bool:
        """True once anything was put: a policy object serves one run."""

    @property
    @abstractmethod
    def cancelled(self) -> int:
        """How many gave up waiting."""

    @property
    def running(self) -> int:
        """How many requests were handed out and are not done."""
        return len(self._running)

    @abstractmethod
    def waiting(self, tenant: str) -> int:
        """How many requests of a tenant wait."""

    def position(self, request: Request, now: Number | None = None) -> int:
        """How many would be served before it if nothing else came.

        Counted on a copy that hands out one request after the other, each done at its estimate before
        the next is chosen; what runs now ends when nothing else may start. Order by time is taken at
        ``now``. Costs a copy of the queue. Raises ``ValueError`` when the request does not wait, or
        when a cap of 0 keeps it from ever being served.
        """
        if request not in self._waiting:
            raise ValueError(f"request does not wait here: {request!r}")
        trial = copy.deepcopy(self)
        ahead = 0
        while True:
            served = trial.get(now=now)
            if served is request:
                return ahead
            if served is not None:
                trial.done(served)
                ahead += 1
            elif trial._running:
                for running in list(trial._running):
                    trial.done(running)
            else:
                raise ValueError(f"request is never served under the present caps: {request!r}")

    def snapshot(self, now: Number | None = None) -> dict[str, Any]:
        """Plain data that explains the next decision.

        ``policy``; ``lines``: per tenant with waiting work the waiting requests in put order, each a
        dict of ``id, key, cost, arrival, priority``; ``running``: the same and ``tenant, charged`` for
        work in service; ``accounts``: per tenant what the policy remembers of it; ``next``: the request
        ``get`` would return, or ``None``; ``why``: that decision in a sentence; wrappers add theirs.
        """
        lines: dict[str, list[dict[str, Any]]] = {}
        for request in self._waiting:
            lines.setdefault(request.tenant, []).append(_plain(request))
        running = [
            {"tenant": r.tenant, **_plain(r), "charged": charged} for r, charged in self._running.items()
        ]
        blind = self.needs_now and now is None
        chosen = None if blind else self.peek(now=now)
        if blind:
            why = f"{type(self).__name__} orders by time: say when (now=…)."
        elif chosen is None:
            why = "Nothing may run: every waiting key is held back." if self._waiting else "Nothing waits."
        else:
            why = self._why(chosen, now)
        return {
            "policy": type(self).__name__,
            "lines": lines,
            "running": running,
            "accounts": self._accounts(),
            "next": None if chosen is None else {"tenant": chosen.tenant, **_plain(chosen)},
            "why": why,
        }

    def _accounts(self) -> dict[str, dict[str, Any]]:
        return {}

    @abstractmethod
    def _why(self, request: Request, now: Number | None) -> str:
        """Why this one, in a sentence."""

    @abstractmethod
    def _stand_under(self, cover_of: CoverOf) -> None:
        """A wrapper says which of its holds each key stands under for good."""


class Queue(Policy):
    """A policy of its own: keeps who waits, who runs and what was charged; an order is four hooks."""

    def __init__(self) -> None:
        self._waiting = {}
        self._running = {}
        self._puts = 0
        self._cancelled = 0
        self._latest: Number = float("-inf")
        self._covers: list[CoverOf] = []

    def put(self, request: Request) -> None:
        try:
            if request in self._waiting or request in self._running:
                raise ValueError(f"request was put twice: {request!r}")
            arrival = request.arrival
            if arrival is None:
                arrival = self._latest
            elif arrival > self._latest:
                self._latest = arrival
        except (AttributeError, TypeError):
            raise no_request(request) from None
        self._waiting[request] = self._enter(request, arrival, self._puts)
        self._puts += 1

    def get(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        gate = None if eligible is None else gate_of(eligible)
        if self.needs_now:
            self._need(now)
        request = self._choose(gate, now)
        if request is None:
            return None
        del self._waiting[request]
        self._running[request] = request.cost
        self._leave(request, gate)
        return request

    def peek(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        if self.needs_now:
            self._need(now)
        return self._choose(gate_of(eligible), now)

    def charge(self, request: Request, cost: Number) -> None:
        charged = self._charged(request, "charge")
        cost = _cost(cost, request)
        if cost > charged:
            self._running[request] = cost
            self._true_up(request, cost - charged)

    def done(self, request: Request, cost: Number | None = None) -> None:
        if cost is None:
            if self._running.pop(request, None) is None:
                self._charged(request, "done")
            return
        charged = self._charged(request, "done")
        cost = _cost(cost, request)
        del self._running[request]
        if cost != charged:
            self._true_up(request, cost - charged)

    def cancel(self, request: Request) -> bool:
        if request not in self._waiting:
            return False
        del self._waiting[request]
        self._cancelled += 1
        self._drop(request)
        return True

    @property
    def used(self) -> bool:
        return self._puts > 0

    @property
    def cancelled(self) -> int:
        return self._cancelled

    # -- what a policy writes -------------------------------------------------------------------

    @abstractmethod
    def _enter(self, request: Request, arrival: Number, order: int) -> Entry:
        """Put it in line; returns its entry: its rank there, the order of put, and itself."""

    @abstractmethod
    def _choose(self, gate: Gate | None, now: Number | None) -> Request | None:
        """The next request, without any change an outsider could see."""

    @abstractmethod
    def _leave(self, request: Request, gate: Gate | None) -> None:
        """The chosen request was handed out: take it from its line and charge its estimate."""

    @abstractmethod
    def _drop(self, request: Request) -> None:
        """A waiting request was cancelled; it is no longer in ``_waiting``."""

    def _true_up(self, request: Request, difference: Number) -> None:
        """The true cost differs from what was charged by this much. Default: the order ignores cost."""

    # -- helpers --------------------------------------------------------------------------------

    def _stand_under(self, cover_of: CoverOf) -> None:
        self._covers.append(cover_of)

    def _cover(self, key: str) -> Cover:
        """The lasting holds a key stands under, of all wrappers."""
        if not self._covers:
            return ()
        return tuple(hold for cover_of in self._covers for hold in cover_of(key))

    def _need(self, now: Number | None) -> None:
        if now is None:
            raise ValueError(f"{type(self).__name__} orders by time: get and peek need now (seconds)")

    def _charged(self, request: Request, verb: str) -> Number:
        try:
            return self._running[request]
        except KeyError:
            raise ValueError(f"{verb} for a request that is not running here: {request!r}") from None


def show(value: Any) -> str:
    """A number for a sentence: short, and exact for fractions (which have no ``:g`` before 3.12)."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def check_number(field: str, value: Any, *, least: Number = 0, above: bool = False) -> Any:
    """A finite number >= least (or > least), as ``as_number`` gives it; otherwise a ``ValueError`` that
    names the field.
    """
    number = as_number(value)
    if number is None or not (number > least if above else number >= least):
        sign = ">" if above else ">="
        raise ValueError(f"{field} must be a finite number {sign} {least}, got {value!r}")
    return number


def check_name(field: str, value: Any) -> str:
    """A non-empty string, as the tenant and the key of a request are; otherwise a ``ValueError``."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{field} must be a non-empty string, got {value!r}")
    return value


def no_request(value: Any) -> TypeError:
    """The error for what was put and is no request (found out late: a look at each would cost time)."""
    return TypeError(f"a queue holds requests: put a Request, got {value!r}")


def check_mapping(field: str, value: Any) -> Mapping[Any, Any]:
    """A mapping, empty for ``None``; otherwise a ``TypeError``."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{field} must be a mapping, got {value!r}")
    return value


def check_weights(weights: Mapping[str, Number] | None) -> dict[str, Number]:
    """Weights per tenant, each finite and > 0; a copy."""
    given = check_mapping("weights", weights)
    for tenant in given:
        check_name("the tenant of a weight", tenant)
    return {t: check_number(f"weight of {t!r}", w, above=True) for t, w in given.items()}


def check_inner(whose: str, inner: Any) -> Policy:
    """What a policy is put around must be a policy, unused, and in nothing else: it has one set of books.

    Raises ``TypeError`` or ``ValueError``.
    """
    if isinstance(inner, type) and issubclass(inner, Policy):
        raise TypeError(f"{whose} a policy, got the class {inner.__name__}: make one, {inner.__name__}(…)")
    if not isinstance(inner, Policy):
        raise TypeError(f"{whose} a policy, got {inner!r}")
    if inner.used:
        raise ValueError(f"{whose} an unused policy, got a used {inner!r}")
    if inner._inside:
        raise ValueError(f"{whose} a policy of its own, got {inner!r}, which is inside another already")
    return inner


def _cost(cost: Any, request: Request) -> Number:
    try:
        return check_number("cost", cost)
    except ValueError as error:
        raise ValueError(f"{error} for {request!r}") from None


def _plain(request: Request) -> dict[str, Any]:
    fields = ("id", "key", "cost", "arrival", "priority")
    return {field: getattr(request, field) for field in fields}
