"""First in, first out: what a shared engine does when nobody chose anything.

Source: Erlang, "Sandsynlighedsregning og Telefonsamtaler" (1909), for the waits this order gives.
"""

from __future__ import annotations

from collections import deque

from fairq.policies.base import Eligible, no_request, show
from fairq.policies.lines import CoverOf, Gate
from fairq.policies.ranked import Ranked
from fairq.request import Number, Request


class FIFO(Ranked):
    """Serves in order of arrival; under caps the earliest among the keys that may run.

    It keeps no shares: whoever submits most gets most. That is the fault the other policies mend.
    """

    def __init__(self) -> None:
        super().__init__()
        # While all come in order and nobody asks about one key or tenant, a single line holds everybody;
        # from the first other call on there is a line per key, and here ``None``.
        self._single: deque[Request] | None = deque()

    def put(self, request: Request) -> None:
        single, waiting = self._single, self._waiting
        try:
            again = request in waiting or request in self._running
            arrival = request.arrival
            late = arrival is None or arrival < self._latest
        except (AttributeError, TypeError):
            raise no_request(request) from None
        if single is None or again or late:
            if single is not None and not again:
                self._split()
            super().put(request)
            return
        self._latest = arrival
        self._puts += 1
        waiting[request] = None
        single.append(request)

    def get(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        single = self._single
        if single is None or eligible is not None:
            self._split()
            return super().get(eligible, now)
        if not single:
            return None
        request = single.popleft()
        del self._waiting[request]
        self._running[request] = request.cost
        return request

    def cancel(self, request: Request) -> bool:
        if self._single is None or request not in self._waiting:
            return super().cancel(request)
        del self._waiting[request]
        self._cancelled += 1
        self._single.remove(request)
        return True

    def waiting(self, tenant: str) -> int:
        self._split()
        return super().waiting(tenant)

    def _rank(self, request: Request, arrival: Number) -> Number:
        return arrival

    def _choose(self, gate: Gate | None, now: Number | None) -> Request | None:
        if gate is not None:
            self._split()
        single = self._single
        if single is None:
            return super()._choose(gate, now)
        return single[0] if single else None

    def _stand_under(self, cover_of: CoverOf) -> None:
        self._split()
        super()._stand_under(cover_of)

    def _split(self) -> None:
        """Go over to a line per key."""
        single, self._single = self._single, None
        for order, request in enumerate(single or (), self._puts - len(single or ())):
            self._waiting[request] = self._enter(request, request.arrival, order)

    def _why(self, request: Request, now: Number | None) -> str:
        when = (
            "is first in line" if request.arrival is None else f"arrived first, at {show(request.arrival)} s"
        )
        return f"{request.tenant}'s request {when}."
