"""Laws that hold path by path, starvation and its end, and the work a decision costs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from types import FrameType
from typing import Any

from fairq.policies.base import Policy
from fairq.policies.drr import DRR
from fairq.policies.levels import Levels
from fairq.policies.nested import Nested
from fairq.policies.priority import Priority
from fairq.policies.vtc import VTC
from fairq.prove.agree import PAIRS, Case, random_case
from fairq.prove.line import Line, number
from fairq.prove.loop import Served, serve
from fairq.request import Number, Request
from fairq.sim import SlotEngine, simulate

POLICIES: dict[str, Callable[[Case], Policy]] = {
    **{name: make for name, (make, _) in PAIRS.items()},
    "levels": lambda c: Levels({0: DRR(c.quantum, c.weights), 1: VTC(c.weights), 2: DRR(1)}),
    "levels that age": lambda c: Levels({level: VTC(c.weights) for level in range(3)}, ageing=c.ageing),
    "nested": lambda c: Nested({"a": "org", "b": "org"}, lambda org: DRR(c.quantum, c.weights)),
}


def one_slot_waits(requests: list[Request]) -> Number:
    """Σ service·wait on one slot, from the work left in the system alone: no order enters.

    Each request finds V units of work; Σ service·(V + service) is twice the area under the work curve, so
    Σ service·wait = area − Σ service²/2 (Kleinrock 1965).
    """
    area: Number = 0
    work: Number = 0
    now: Number = 0
    for request in requests:
        arrival: Any = request.arrival
        done = min(work, arrival - now)
        area += done * work - Fraction(done * done, 2)
        work -= done
        now = arrival
        work += request.service
    area += Fraction(work * work, 2)
    return area - sum((Fraction(s * s, 2) for s in _services(requests)), Fraction(0))


def _services(requests: list[Request]) -> list[Any]:
    return [request.service for request in requests]


def _waits(served: list[Served]) -> list[Any]:
    return [s.start - s.request.arrival for s in served]


def conservation_lines(workloads: int = 300) -> list[Line]:
    wrong = 0
    for seed in range(workloads):
        case = random_case(seed)
        wanted = one_slot_waits(case.requests)
        for make in POLICIES.values():
            served = serve(make(case), 1, case.requests)
            total = sum(s.request.service * w for s, w in zip(served, _waits(served), strict=True))
            wrong += total != wanted or len(served) != len(case.requests)
    return [
        Line(
            "Σ service·wait on one slot is the same under every policy, path by path",
            "Kleinrock 1965 (conservation law)",
            f"{len(POLICIES)} policies × {workloads} random workloads, exact, from the work left",
            f"{wrong} differ",
            "0",
            wrong == 0,
        )
    ]


def idle_moments(make: Callable[[Case], Policy], workloads: int) -> int:
    """How often a slot stood free while something waited, judged from the schedule alone."""
    idle = 0
    for seed in range(workloads):
        case = random_case(seed)
        served = serve(make(case), case.slots, case.requests)
        for late in served:
            arrival: Any = late.request.arrival
            moments = {arrival, *(s.finish for s in served if arrival <= s.finish < late.start)}
            for moment in moments:
                if arrival <= moment < late.start:
                    busy = sum(s.start <= moment < s.finish for s in served)
                    idle += busy < case.slots
    return idle


def idle_lines(workloads: int = 150) -> list[Line]:
    idle = {name: idle_moments(make, workloads) for name, make in POLICIES.items()}
    return [
        Line(
            "No policy leaves a slot idle while something waits",
            "the contract",
            f"{len(POLICIES)} policies × {workloads} random workloads, every moment of every wait",
            f"{sum(idle.values())} idle moments",
            "0",
            not any(idle.values()),
        )
    ]


def little_lines(workloads: int = 60) -> list[Line]:
    """Little's law, from the model's own queue curve and rows."""
    wrong = 0
    for seed in range(workloads):
        case = random_case(seed)
        for make in POLICIES.values():
            result = simulate(case.requests, make(case), SlotEngine(case.slots))
            curve = result.queue
            times, levels = list(curve["t"]), list(curve["waiting"])
            steps = zip(times[1:], times, levels, strict=False)
            area = sum(((after - before) * int(n) for after, before, n in steps), Fraction(0))
            rows = result.requests
            wrong += area != sum(rows["wait"], Fraction(0))
    return [
        Line(
            "Little's law: the area under the queue is the sum of waits (L = λW)",
            "Little 1961",
            f"{len(POLICIES)} policies × {workloads} random workloads through the model, exact",
            f"{wrong} differ",
            "0",
            wrong == 0,
        )
    ]


# -- starvation --------------------------------------------------------------------------------------


def waits_beside_a_full_level(ageing: Number | None, seconds: int, clients: int = 6) -> tuple[Any, int]:
    """(longest wait of level 1, how many of it were served) in so many seconds; one slot, service 1 s.

    Level 0 is ``clients`` clients that ask again as soon as they are served: always more than the slot can
    do. A request of level 1 comes every 50 s.
    """
    policy = Priority(ageing=ageing)
    longest, served = 0, 0
    for client in range(clients):
        policy.put(Request(f"client {client}", 1, arrival=0))
    for now in range(seconds):
        if now % 50 == 0:
            policy.put(Request("batch", 1, arrival=now, priority=1))
        request = policy.get()
        assert request is not None
        policy.done(request)
        if request.priority:
            longest, served = max(longest, now - (request.arrival or 0)), served + 1
        else:
            policy.put(Request(request.tenant, 1, arrival=now + 1))
    return longest, served


def starvation_lines() -> list[Line]:
    ageing, clients = 30, 6
    longest, served = waits_beside_a_full_level(ageing, 20_000, clients)
    _, strict = waits_beside_a_full_level(None, 20_000, clients)
    return [
        Line(
            "Ageing: level 1 waits at most ageing + what of level 0 waits then, under overload from level 0",
            "Goldberg 1977 (a head start)",
            f"{clients} clients of level 0 that never stop, ageing {ageing} s, 20,000 s; {served} served",
            f"{longest} s",
            f"≤ {ageing + clients + 1} s",
            longest <= ageing + clients + 1 and served > 350,
        ),
        Line(
            "Without ageing level 1 waits for ever beside it",
            "Cobham 1954 (load of level 0 ≥ 1)",
            "the same, strict",
            f"{strict} of 400 served",
            "0",
            strict == 0,
        ),
    ]


# -- the work of a decision ----------------------------------------------------------------------------


def operations(tenants: int, dispatches: int = 3_000) -> float:
    """Lines of Python run and calls made by DRR per put and get, tenants all backlogged."""
    policy = DRR(10)
    requests = [
        Request(f"t{k % tenants}", 1 + (7 * k) % 10, arrival=k) for k in range(4 * tenants + dispatches)
    ]
    for request in requests[: 4 * tenants]:
        policy.put(request)
    counted = 0

    def watch(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal counted
        counted += 1
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        for request in requests[4 * tenants :]:
            policy.get()
            policy.put(request)
    finally:
        sys.settrace(before)
    return counted / dispatches


def operation_lines() -> list[Line]:
    few = operations(10)
    most = max(operations(tenants) for tenants in (100, 1_000, 10_000))
    return [
        Line(
            "DRR: O(1) work per dispatch when the quantum is ≥ the largest cost",
            "Shreedhar & Varghese 1996, section III",
            "lines run per put and get, counted; 10 against 100, 1,000 and 10,000 tenants",
            f"{number(few)} → {number(most)}",
            "≤ 1.5 ×",
            most <= 1.5 * few,
        )
    ]


CHECKS: list[Callable[[], list[Line]]] = [
    conservation_lines,
    idle_lines,
    little_lines,
    starvation_lines,
    operation_lines,
]
