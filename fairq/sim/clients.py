"""Clients that do more than send: they wait for an answer before they ask again, or lose patience."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from fairq.request import Number, Request, as_time

Patience: TypeAlias = Callable[[Request], Number | None] | Mapping[str, Number] | Number
LineLimit: TypeAlias = Mapping[str, int] | int


class ClosedLoopSource(Protocol):
    """The workers of one tenant: request ``n`` of a worker is the same whatever the policy."""

    @property
    def workers(self) -> int: ...

    @property
    def horizon_s(self) -> Number: ...

    def draw(self, worker: int, n: int) -> Any: ...

    def request(self, worker: int, n: int, arrival: Number) -> Request: ...


class Clients:
    """Closed loops, patience and full lines.

    Parameters
    ----------
    loops : sources of closed-loop requests. A worker starts at ``start_s``, thinks ``draw(k, 0).think_s``
        seconds before its request 0 and ``draw(k, n).think_s`` after request n - 1 left (served or not).
    patience : seconds a request waits before it gives up: for all, per tenant, or a function of the request
        (``None``: for ever). A request that gets a slot at the very end of its patience is served.
    line_limit : how many requests of a tenant may wait (beyond those that idle slots will take at once); one
        more is refused. For every tenant, or per tenant.

    Raises
    ------
    ValueError : names the field and the value.
    """

    def __init__(
        self,
        loops: Iterable[ClosedLoopSource] = (),
        patience: Patience | None = None,
        line_limit: LineLimit | None = None,
        start_s: Number = 0,
    ) -> None:
        self._loops = list(loops)
        self._patience = _patience(patience)
        self._limits = _limits(line_limit)
        self._start_s = start_s
        self._worker: dict[Request, tuple[ClosedLoopSource, int, int]] = {}

    def first(self) -> list[Request]:
        """The first request of every worker, in the order of sources and workers."""
        asked = [
            self._ask(source, worker, 0, self._start_s)
            for source in self._loops
            for worker in range(source.workers)
        ]
        return [request for request in asked if request is not None]

    def after(self, request: Request, now: Number) -> Request | None:
        """``request`` left at ``now``: the next one of its worker, if any."""
        place = self._worker.pop(request, None)
        if place is None:
            return None
        source, worker, n = place
        another = self._ask(source, worker, n + 1, now)
        if another is not None and another.arrival == request.arrival:
            raise ValueError(
                f"worker {worker} would ask for ever at {now!r} s: its think time and its time in the system"
                f" are 0 after {request!r}"
            )
        return another

    def patience(self, request: Request) -> Number | None:
        """Seconds that it waits at most; ``None``: for ever."""
        patience = self._patience(request)
        if patience is not None and not _at_least_0(patience):
            raise ValueError(f"patience must be a finite number >= 0, got {patience!r} for {request!r}")
        return patience

    def full(self, request: Request, waiting: Callable[[str], int], free: int) -> bool:
        """Whether it is turned away. ``free``: idle slots beyond those that waiting requests will take."""
        if free > 0:
            return False
        limit = self._limits(request.tenant)
        return limit is not None and waiting(request.tenant) >= limit

    def _ask(self, source: ClosedLoopSource, worker: int, n: int, now: Number) -> Request | None:
        arrival = now + source.draw(worker, n).think_s
        if arrival >= source.horizon_s:
            return None
        request = source.request(worker, n, arrival)
        self._worker[request] = (source, worker, n)
        return request


def _patience(patience: Patience | None) -> Callable[[Request], Number | None]:
    if callable(patience):
        return patience
    if isinstance(patience, Mapping):
        per_tenant = dict(patience)
        return lambda request: per_tenant.get(request.tenant)
    if patience is not None and not _at_least_0(patience):
        raise ValueError(f"patience must be a finite number >= 0, got {patience!r}")
    return lambda request: patience


def _limits(limit: LineLimit | None) -> Callable[[str], int | None]:
    limits = limit if isinstance(limit, Mapping) else {"every tenant": limit}
    for whose, value in limits.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise ValueError(f"line_limit of {whose} must be a whole number >= 0, got {value!r}")
    if isinstance(limit, Mapping):
        return dict(limit).get
    return lambda tenant: limit


def _at_least_0(value: Any) -> bool:
    number = as_time(value)
    return number is not None and number >= 0
