"""Priority levels with a policy inside each: urgent before patient, and fair among equals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairq.policies.base import Policy, check_inner, check_mapping, check_number, no_request, show
from fairq.policies.composite import Composite
from fairq.policies.lines import Gate
from fairq.request import Number, Request


class Levels(Composite):
    """Strict or aged priority between levels; inside each level, any policy.

    Parameters
    ----------
    levels : level → policy for its requests; a request's level is its ``priority``, lower first.
    ageing : ``None``: strict, the lowest level that has something that may run goes; a busy level starves
        those below. Seconds, finite and >= 0: each level offers the request it would send next, and the
        smallest ``arrival + ageing·level`` goes; ties: earlier arrival, order of put.

    ``Levels({0: DRR(500), 1: VTC()}, ageing=600)`` is what most shared machines want: chat before batch,
    neither for ever, each fair among its tenants.

    With ageing a request that its own level would send next waits behind a level above for no request that
    came more than ``ageing`` seconds per level later. Raises ``ValueError`` at ``put`` for a level that has
    no policy, and with ageing for a request without ``arrival``. Accounts are per level: what a tenant gets
    in one is not held against it in another.
    """

    def __init__(self, levels: Mapping[Number, Policy], ageing: Number | None = None) -> None:
        super().__init__()
        levels = check_mapping("levels", levels)
        if not levels:
            raise ValueError(f"levels must name at least one, got {levels!r}")
        self.ageing = None if ageing is None else check_number("ageing", ageing)
        ordered = sorted(check_number(f"level {n!r}", n, least=float("-inf")) for n in levels)
        for level in ordered:
            check_inner(f"level {show(level)} needs", levels[level])
        if len(set(map(id, levels.values()))) < len(levels):
            raise ValueError(f"each level needs a policy of its own, got {levels!r}")
        self.levels = {level: self._adopt(levels[level], f"level {show(level)}") for level in ordered}
        self.needs_now = any(inner.needs_now for inner in self.levels.values())

    def put(self, request: Request) -> None:
        if not isinstance(request, Request):
            raise no_request(request)
        if request.priority not in self.levels:
            known = ", ".join(show(level) for level in self.levels)
            raise ValueError(f"priority must be one of the levels ({known}), got {request!r}")
        if self.ageing is not None and request.arrival is None:
            raise ValueError(f"arrival is needed for ageing, got None in {request!r}")
        super().put(request)

    def _route(self, request: Request) -> Policy:
        return self.levels[request.priority]

    def _inners(self) -> Iterator[tuple[str, Policy]]:
        return ((f"level {show(level)}", inner) for level, inner in self.levels.items())

    def _pick(self, gate: Gate | None, now: Number | None) -> Policy | None:
        best, best_rank = None, None
        for level, inner in self.levels.items():
            head = inner.peek(gate, now) if len(inner) else None
            if head is None:
                continue
            if self.ageing is None:
                return inner
            arrival, order, _ = self._waiting[head]
            rank = (arrival + self.ageing * level, arrival, order)
            if best_rank is None or rank < best_rank:
                best, best_rank = inner, rank
        return best

    def _why(self, request: Request, now: Number | None) -> str:
        level = request.priority
        inside = self.levels[level]._why(request, now)
        if self.ageing is None:
            return f"Level {show(level)} is the most urgent with work that may run. In it: {inside}"
        rank = request.arrival + self.ageing * level
        return (
            f"Level {show(level)}'s next request has the smallest arrival + ageing·level: "
            f"{show(request.arrival)} + {show(self.ageing)}·{show(level)} = {show(rank)} s. In it: {inside}"
        )

    def snapshot(self, now: Number | None = None) -> dict[str, Any]:
        """As every policy's; ``inside``: the snapshot of each level (``level 0``, …)."""
        return super().snapshot(now)
