"""A queue in front of some slots, in twenty plain lines; queues that have to answer alike; and the spread of
what two tenants got.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from fairq import Policy, Request


def serve(
    policy: Policy, requests: list[Request], slots: int, until: Any = None
) -> list[tuple[Any, Any, Request]]:
    """(start, finish, request) in the order of starts. A request takes ``service``; its true cost is
    ``output_tokens``, or its estimate. At one instant: finishes, then arrivals, then starts.
    """
    coming = sorted(requests, key=lambda r: r.arrival)[::-1]
    ends: list[tuple[Any, int, Request]] = []
    served: list[tuple[Any, Any, Request]] = []
    while coming or ends:
        now = min(([coming[-1].arrival] if coming else []) + ([ends[0][0]] if ends else []))
        if until is not None and now > until:
            break
        while ends and ends[0][0] == now:
            request = heappop(ends)[2]
            policy.done(request, request.cost if request.output_tokens is None else request.output_tokens)
        while coming and coming[-1].arrival == now:
            policy.put(coming.pop())
        while len(ends) < slots:
            request = policy.get(now=now)
            if request is None:
                break
            heappush(ends, (now + request.service, len(served), request))
            served.append((now, now + request.service, request))
    return served


class Alike:
    """Queues that get the same calls and must give the same answers; who waits in them and who runs."""

    def __init__(self, *queues: Policy) -> None:
        self.queues = queues
        self.waiting: list[Request] = []
        self.running: list[Request] = []

    def each(self, call: Callable[[Policy], Any]) -> Any:
        """What they all answer."""
        first, *others = (call(queue) for queue in self.queues)
        assert all(other is first for other in others), (first, *others)
        return first

    def put(self, request: Request) -> None:
        self.waiting.append(request)
        self.each(lambda queue: queue.put(request))

    def get(self, eligible: Any = None) -> None:
        request = self.each(lambda queue: queue.get(eligible))
        if request is not None:
            self.waiting.remove(request)
            self.running.append(request)

    def done(self, draw: random.Random, costs: Sequence[Any] = (None,)) -> None:
        """One of those that run, at one of these costs."""
        request, cost = self.running.pop(draw.randrange(len(self.running))), draw.choice(costs)
        self.each(lambda queue: queue.done(request, cost))

    def cancel(self, draw: random.Random) -> None:
        """One of those that wait."""
        request = self.waiting.pop(draw.randrange(len(self.waiting)))
        assert self.each(lambda queue: queue.cancel(request)) is True


def spread(gains: list[tuple[str, Any]], i: str, j: str) -> Any:
    """The largest ``|gain_i − gain_j|`` over all stretches of a list of (tenant, gain)."""
    low = high = at = worst = 0
    for tenant, gain in gains:
        at += gain if tenant == i else -gain if tenant == j else 0
        worst = max(worst, at - low, high - at)
        low, high = min(low, at), max(high, at)
    return worst


def order(policy: Policy, eligible: Any = None) -> str:
    """Who is handed out, one done after the other, until nothing may run: ``"abca"``."""
    names = []
    while (request := policy.get(eligible)) is not None:
        names.append(request.tenant)
        policy.done(request)
    return "".join(names)
