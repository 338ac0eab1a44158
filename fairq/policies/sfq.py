"""Start-time fair queueing.

Goyal, Vin & Cheng, "Start-time fair queuing: a scheduling algorithm for integrated services packet
switching networks", SIGCOMM 1996, section 2. On many slots it is SFQ(D): Jin, Chase & Kaur, "Interposed
proportional sharing for a storage service utility", SIGMETRICS 2004.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairq.policies.base import show
from fairq.policies.counters import Account, Counting
from fairq.policies.lines import Gate
from fairq.request import Number, Request


class SFQ(Counting):
    """Shares in proportion to weights, by tags: the least start tag goes next.

    A request's start tag is the finish tag of its tenant's request before it; the finish tag adds
    ``cost / weight``. A tenant whose line was empty starts no earlier than the virtual time, which is the
    start tag of the request handed out last; once nothing waits and nothing runs, it is the largest finish
    tag given out. A tenant's counter is the start tag of its head. True-up moves the tags still to come.
    One that its caps held back does not turn the virtual time back when it is served, and may catch up with
    a few requests only (``lift.py``).

    Parameters
    ----------
    weights : tenant → weight, finite and > 0; default 1.

    Bounds, for two tenants with waiting work throughout an interval: the costs D dispatched differ by
    ``|Dᵢ/wᵢ − Dⱼ/wⱼ| ≤ Lᵢ/wᵢ + Lⱼ/wⱼ``, L the largest cost, on any number of slots (Goyal, theorem 1); the
    costs of finished work, on D slots, by ``(D + 1)(Lᵢ/wᵢ + Lⱼ/wⱼ)`` (Jin, theorem 1).
    """

    def __init__(self, weights: Mapping[str, Number] | None = None) -> None:
        super().__init__(weights)
        self._virtual: Number = 0
        self._finish: Number = 0  # the largest finish tag given out

    def _level(self) -> Number:
        return self._virtual

    def _rescale(self, factor: int) -> None:
        self._virtual *= factor
        self._finish *= factor
        super()._rescale(factor)

    def _join(self, state: Account) -> None:
        if not self._waiting and not self._running:  # the busy period has ended
            self._virtual = max(self._virtual, self._finish)
        super()._join(state)

    def _serve(self, state: Account, request: Request, gate: Gate | None) -> None:
        super()._serve(state, request, gate)
        self._finish = max(self._finish, state.counter)

    def _served(self, state: Account) -> None:
        self._virtual = state.counter

    def _accounts(self) -> dict[str, dict[str, Any]]:
        """Per tenant: ``weight``; ``start``: the start tag of its next request; ``place`` among those
        waiting.
        """
        accounts = super()._accounts()
        for account in accounts.values():
            account["start"] = account.pop("counter")
        return accounts

    def _why(self, request: Request, now: Number | None) -> str:
        state, units = self._tenants[request.tenant], self._units
        cost, weight = request.cost, self.weight(state.name)
        start = show(units.tokens(state.counter))
        finish = show(units.tokens(state.counter + units.of(cost, weight)))
        return (
            f"{state.name}'s head has the least start tag among those that may run, {start}; "
            f"its finish tag is {start} + {show(cost)}/{show(weight)} = {finish}."
        )
