"""Small exact event loops around a policy: fast, with slots, without SimPy and without tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, NamedTuple

from fairq.policies.base import Policy
from fairq.request import Number, Request

Feed = Callable[[str, Number], Request | None]
"""(tenant, now) → its next request, or ``None`` when it has no more."""


class Served(NamedTuple):
    """A request and when it was in service (the caller's time unit)."""

    request: Request
    start: Number
    finish: Number


def serve(
    policy: Policy,
    slots: int,
    requests: Iterable[Request],
    done: Callable[[Request], None] | None = None,
) -> list[Served]:
    """Serve requests that come at their ``arrival``; in order of dispatch, through the end.

    At one instant: finishes in order of dispatch, arrivals in input order, then dispatching.
    ``done``: how an end is reported to the policy; default ``policy.done(request)``.
    """
    coming: list[Any] = sorted(requests, key=attrgetter("arrival"))
    end_of = policy.done if done is None else done
    served: list[Served] = []
    running: list[tuple[Number, int, Request]] = []
    came, total = 0, len(coming)
    get, put, needs_now = policy.get, policy.put, policy.needs_now
    while came < total or running:
        if not running or (came < total and coming[came].arrival < running[0][0]):
            now = coming[came].arrival
        else:
            now = running[0][0]
        while running and running[0][0] == now:
            end_of(heappop(running)[2])
        while came < total and coming[came].arrival == now:
            put(coming[came])
            came += 1
        while len(running) < slots and len(policy):
            request = get(None, now) if needs_now else get()
            if request is None:
                break
            finish = now + (request.service or 0)
            heappush(running, (finish, len(served), request))
            served.append(Served(request, now, finish))
    return served


def backlogged(
    policy: Policy,
    slots: int,
    tenants: Iterable[str],
    feed: Feed,
    *,
    depth: int = 8,
    until: Number | None = None,
    dispatches: int | None = None,
    line: Callable[[Request], str] = attrgetter("tenant"),
) -> list[Served]:
    """Keep ``depth`` requests of every tenant waiting, until a time or a number of dispatches.

    ``line(request)``: whose next request is put when this one is dispatched, one of ``tenants``; with
    ``attrgetter("key")`` those are keys.
    """
    served: list[Served] = []
    running: list[tuple[Number, int, Request]] = []
    now: Number = 0

    def more(tenant: str) -> None:
        request = feed(tenant, now)
        if request is not None:
            policy.put(request)

    for _ in range(depth):
        for tenant in tenants:
            more(tenant)
    while True:
        while len(running) < slots:
            request = policy.get(None, now) if policy.needs_now else policy.get()
            if request is None:
                break
            finish = now + (request.service or 0)
            heappush(running, (finish, len(served), request))
            served.append(Served(request, now, finish))
            if dispatches is not None and len(served) >= dispatches:
                return served
            more(line(request))
        if not running:
            return served
        now = running[0][0]
        if until is not None and now >= until:
            return served
        while running and running[0][0] == now:
            policy.done(heappop(running)[2])


def held_slots(served: Iterable[Served], start: Number, end: Number) -> dict[str, Number]:
    """Tenant → mean number of slots it held between two times."""
    held: dict[str, Number] = {}
    for request, began, finished in served:
        inside = min(finished, end) - max(began, start)
        if inside > 0:
            held[request.tenant] = held.get(request.tenant, 0) + inside
    return {tenant: time / (end - start) for tenant, time in held.items()}
