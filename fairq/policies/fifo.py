"""First in, first out: what a shared engine does when nobody chose anything.

Source: Erlang, "Sandsynlighedsregning og Telefonsamtaler" (1909), for the waits this order gives.
"""

from __future__ import annotations

from fairq.policies.base import show
from fairq.policies.ranked import Ranked
from fairq.request import Number, Request


class FIFO(Ranked):
    """Serves in order of arrival; under caps the earliest among the keys that may run.

    It keeps no shares: whoever submits most gets most. That is the fault the other policies mend.
    """

    def _rank(self, request: Request, arrival: Number) -> Number:
        return arrival

    def _why(self, request: Request, now: Number | None) -> str:
        when = (
            "is first in line" if request.arrival is None else f"arrived first, at {show(request.arrival)} s"
        )
        return f"{request.tenant}'s request {when}."
