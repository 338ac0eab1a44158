"""Shortest job first, by the estimate.

Cobham's priority queue with the cost as the level; it has the least mean wait of all policies that do not
interrupt work (Conway, Maxwell & Miller, "Theory of scheduling", 1967, chapter 8), and pays with the long.
"""

from __future__ import annotations

from typing import Any

from fairq.policies.base import show
from fairq.policies.ranked import Ranked
from fairq.request import Number, Request


class Shortest(Ranked):
    """The smallest estimated cost goes next; ties: earlier arrival, order of put.

    Least mean wait when estimates are right. It keeps no shares, a tenant gains by declaring less than it
    needs, and a long request can starve while short ones keep coming: there is no bound on its wait.
    """

    def _rank(self, request: Request, arrival: Number) -> Number:
        return request.cost

    def _line_of(self, request: Request) -> Any:
        return request.key, request.cost  # a line per cost stays in order of arrival

    def _why(self, request: Request, now: Number | None) -> str:
        return f"{request.tenant}'s request is the shortest that may run: {show(request.cost)} tokens."
