"""Priority with ageing: levels, and a wait that is worth a level.

One rate of ageing for all makes the order by ``arrival + ageing·priority`` the same at every instant,
so no clock is needed: it is earliest-deadline-first in disguise, a head start of ``ageing`` seconds per
level (Goldberg, "Analysis of dynamic priority queues", 1977). It is not Kleinrock's accumulating
priority, where each level gains at a rate of its own.
"""

from __future__ import annotations

from typing import Any

from fairq.policies.base import check_number, show
from fairq.policies.ranked import Ranked
from fairq.request import Number, Request


class Priority(Ranked):
    """Lower level first; waiting ``ageing`` seconds makes up for one level.

    Parameters
    ----------
    ageing : seconds of waiting worth one level, finite and >= 0; 0 is FIFO. ``None``: strict levels,
        under which a busy level 0 starves level 1 for ever.

    A request that has waited exactly ``ageing`` seconds one level down goes before a fresh one (the
    ranks tie and the earlier arrival wins), so keep times that should tie exactly representable.
    With ageing, ``put`` raises ``ValueError`` for a request without ``arrival``.
    """

    def __init__(self, ageing: Number | None) -> None:
        super().__init__()
        self.ageing = None if ageing is None else check_number("ageing", ageing)

    def _rank(self, request: Request, arrival: Number) -> Number:
        if self.ageing is None:
            return request.priority
        return arrival + self.ageing * request.priority

    def put(self, request: Request) -> None:
        if self.ageing is not None and isinstance(request, Request) and request.arrival is None:
            raise ValueError(f"arrival is needed for ageing, got None in {request!r}")
        super().put(request)

    def _line_of(self, request: Request) -> Any:
        return request.key, request.priority

    def _why(self, request: Request, now: Number | None) -> str:
        if self.ageing is None:
            return (
                f"{request.tenant}'s request has the most urgent level that waits, {show(request.priority)}."
            )
        rank = self._rank(request, request.arrival)
        return (
            f"{request.tenant}'s request has the smallest arrival + ageing·level: "
            f"{show(request.arrival)} + {show(self.ageing)}·{show(request.priority)} = {show(rank)} s."
        )
