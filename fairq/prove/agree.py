"""Every policy against its plain second implementation: equal starts and finishes, in exact arithmetic."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from fairq.policies.accumulating import AccumulatingPriority
from fairq.policies.base import Policy
from fairq.policies.caps import KeyCaps
from fairq.policies.drr import DRR
from fairq.policies.fifo import FIFO
from fairq.policies.levels import Levels
from fairq.policies.nested import Nested
from fairq.policies.priority import Priority
from fairq.policies.sfq import SFQ
from fairq.policies.shortest import Shortest
from fairq.policies.vtc import VTC
from fairq.prove import plain
from fairq.prove.line import Line
from fairq.request import Request
from fairq.sim import SlotEngine, simulate


@dataclass(frozen=True)
class Case:
    """A small random workload, with everything a policy may be told."""

    requests: list[Request]
    slots: int
    weights: dict[str, int]
    quantum: Any
    ageing: Any
    caps: dict[str, int]  # key → limit
    groups: dict[str, tuple[list[str], int]]


def random_case(seed: int) -> Case:
    """Up to 40 requests of up to five tenants with up to two keys each; many come at one instant.

    Times are whole numbers or thirds, so sums are exact and ties are real. Costs differ from the truth.
    """
    draw = random.Random(seed)
    tenants = "abcde"[: draw.randint(1, 5)]
    unit: Any = draw.choice([1, 1, Fraction(1, 3)])
    requests, now = [], 0
    for number in range(draw.randint(1, 40)):
        now += draw.choice([0, 0, 1, 1, 2, 7])
        tenant = draw.choice(tenants)
        cost = draw.choice([1, 1, 5, draw.randint(1, 25)])
        truth = cost if draw.random() < 0.7 else draw.randint(0, 50)
        requests.append(
            Request(
                tenant,
                cost,
                arrival=now * unit,
                priority=draw.randint(0, 2),
                key=tenant + draw.choice(["", "", "2"]),
                service=draw.randint(0, 6) * unit,
                prompt_tokens=truth,
                output_tokens=0,
                id=number,
            )
        )
    keys = sorted({request.key for request in requests})
    return Case(
        requests,
        draw.randint(1, 4),
        {tenant: draw.randint(1, 4) for tenant in tenants},
        draw.choice([1, 2, 5, 10, 30, Fraction(7, 3)]),
        draw.choice([0, 1, 2, 5, Fraction(5, 2)]),
        {key: draw.randint(1, 2) for key in keys if draw.random() < 0.6},
        {"g": (draw.sample(keys, draw.randint(1, len(keys))), draw.randint(1, 3))},
    )


Pair = tuple[Callable[[Case], Policy], Callable[[Case], plain.Plain]]

RATES = {0: 4, 1: 2, 2: 1}
FIRMS = {"a": "ab", "b": "ab", "d": "de", "e": "de"}

PAIRS: Mapping[str, Pair] = {
    "FIFO": (lambda c: FIFO(), lambda c: plain.PlainFIFO()),
    "strict priority": (lambda c: Priority(ageing=None), lambda c: plain.PlainPriority(None)),
    "priority with ageing": (lambda c: Priority(ageing=c.ageing), lambda c: plain.PlainPriority(c.ageing)),
    "accumulating priority": (
        lambda c: AccumulatingPriority(RATES),
        lambda c: plain.PlainAccumulating(RATES),
    ),
    "shortest": (lambda c: Shortest(), lambda c: plain.PlainShortest()),
    "DRR": (lambda c: DRR(c.quantum, c.weights), lambda c: plain.PlainDRR(c.quantum, c.weights)),
    "VTC": (lambda c: VTC(c.weights), lambda c: plain.PlainVTC(c.weights)),
    "SFQ": (lambda c: SFQ(c.weights), lambda c: plain.PlainSFQ(c.weights)),
    "levels, strict": (
        lambda c: Levels({0: DRR(c.quantum, c.weights), 1: VTC(c.weights), 2: FIFO()}),
        lambda c: plain.PlainLevels(
            {
                0: plain.PlainDRR(c.quantum, c.weights),
                1: plain.PlainVTC(c.weights),
                2: plain.PlainFIFO(),
            },
            None,
        ),
    ),
    "levels, ageing": (
        lambda c: Levels({level: DRR(c.quantum, c.weights) for level in range(3)}, ageing=c.ageing),
        lambda c: plain.PlainLevels(
            {level: plain.PlainDRR(c.quantum, c.weights) for level in range(3)}, c.ageing
        ),
    ),
    "nested": (
        lambda c: Nested(FIRMS, lambda firm: DRR(c.quantum, c.weights), {"ab": 2}),
        lambda c: plain.PlainNested(FIRMS, lambda firm: plain.PlainDRR(c.quantum, c.weights), {"ab": 2}),
    ),
}

UNDER_CAPS = [
    "FIFO",
    "strict priority",
    "priority with ageing",
    "accumulating priority",
    "shortest",
    "DRR",
    "VTC",
    "SFQ",
]
"""The plain levels and the plain shares of shares know no caps."""


def differs(name: str, case: Case, capped: bool) -> dict[Any, Any]:
    """id → (schedule of the policy, schedule of the plain one), where they differ; start and finish."""
    make, make_plain = PAIRS[name]
    policy = make(case)
    caps, groups = (case.caps, case.groups) if capped else ({}, {})
    if capped:
        policy = KeyCaps(policy, per_key=caps, groups=groups)
    rows = simulate(case.requests, policy, SlotEngine(case.slots)).requests
    ours = dict(zip(rows["id"], zip(rows["start"], rows["finish"], strict=True), strict=True))
    theirs = plain.plain_serve(
        make_plain(case),
        case.slots,
        case.requests,
        caps,
        groups.values(),
        true_cost=lambda r: r.prompt_tokens,
    )
    return {
        number: (ours.get(number), theirs.get(number))
        for number in ours.keys() | theirs.keys()
        if ours.get(number) != theirs.get(number)
    }


Twins = tuple[Policy, plain.Plain]

QUEUES: Mapping[str, Callable[[Any, dict[str, int]], Twins]] = {
    "FIFO": lambda q, w: (FIFO(), plain.PlainFIFO()),
    "strict priority": lambda q, w: (Priority(ageing=None), plain.PlainPriority(None)),
    "priority with ageing": lambda q, w: (Priority(ageing=q), plain.PlainPriority(q)),
    "accumulating priority": lambda q, w: (
        AccumulatingPriority(RATES),
        plain.PlainAccumulating(RATES),
    ),
    "shortest": lambda q, w: (Shortest(), plain.PlainShortest()),
    "DRR": lambda q, w: (DRR(q, w), plain.PlainDRR(q, w)),
    "VTC": lambda q, w: (VTC(w), plain.PlainVTC(w)),
    "SFQ": lambda q, w: (SFQ(w), plain.PlainSFQ(w)),
    "levels, strict": lambda q, w: (
        Levels({0: DRR(q, w), 1: VTC(w), 2: FIFO()}),
        plain.PlainLevels({0: plain.PlainDRR(q, w), 1: plain.PlainVTC(w), 2: plain.PlainFIFO()}, None),
    ),
    "levels, ageing": lambda q, w: (
        Levels({level: DRR(q, w) for level in range(3)}, ageing=q),
        plain.PlainLevels({level: plain.PlainDRR(q, w) for level in range(3)}, q),
    ),
    "nested": lambda q, w: (
        Nested(FIRMS, lambda firm: DRR(q, w), {"ab": 2}),
        plain.PlainNested(FIRMS, lambda firm: plain.PlainDRR(q, w), {"ab": 2}),
    ),
}


def random_request(draw: random.Random, tenants: str, arrival: int, number: int) -> Request:
    """One of a tenant with two keys; any cost and level."""
    tenant = draw.choice(tenants)
    return Request(
        tenant,
        draw.randint(1, 25),
        arrival=arrival,
        priority=draw.randint(0, 2),
        key=tenant + draw.choice(["", "2"]),
        id=number,
    )


def random_limit(draw: random.Random) -> int | None:
    """How many may run at once: few, so that it binds."""
    return draw.choice([None, 0, 1, 1, 2, 3])


def random_calls(name: str, seed: int, steps: int = 60, capped: bool = False) -> None:
    """The same random calls on a policy and on its plain twin.

    Puts (some late), gets, cancels, charges, ends with and without a true cost, changed weights; ``capped``:
    under caps per key, which change as well. Raises ``AssertionError`` when a ``get`` gives another request
    than the twin's, or a request is lost.
    """
    draw = random.Random(seed)
    tenants = "abcde"[: draw.randint(1, 5)]
    quantum: Any = draw.choice([1, 2, 3, 5, 10, 30, Fraction(7, 3)])
    policy, twin = QUEUES[name](quantum, {t: draw.randint(1, 4) for t in tenants})
    has_weights = hasattr(twin, "weights") or name.startswith("levels")
    waiting: list[Request] = []
    running: dict[Request, Any] = {}
    limits: dict[str, int | None] = {}
    if capped:
        limits = {t + more: random_limit(draw) for t in tenants for more in ("", "2")}
        policy = KeyCaps(policy, limits)

    def allowed(key: str) -> bool:
        limit = limits.get(key)
        return limit is None or sum(request.key == key for request in running) < limit

    for step in range(steps):
        if capped and draw.random() < 0.15:
            key, limit = draw.choice(list(limits)), random_limit(draw)
            policy.set_cap(key, limit)
            limits[key] = limit
        verb = draw.random()
        if verb < 0.45:
            arrival = step - draw.choice([0] * 9 + [draw.randint(1, 9)])
            request = random_request(draw, tenants, arrival, step)
            policy.put(request)
            twin.put(request)
            waiting.append(request)
        elif verb < 0.72:
            peeked = policy.peek(now=step)
            given = policy.get(now=step)
            assert given is twin.get(allowed, step), f"{name}, seed {seed}, step {step}"
            assert peeked is given
            if given is not None:
                waiting.remove(given)
                running[given] = given.cost
        elif verb < 0.78 and waiting:
            request = waiting.pop(draw.randrange(len(waiting)))
            assert policy.cancel(request)
            twin.cancel(request)
        elif verb < 0.86 and running:
            request = draw.choice(list(running))
            cost = draw.randint(0, 60)
            policy.charge(request, cost)
            if cost > running[request]:
                twin.settle(request, cost - running[request])
                running[request] = cost
        elif verb < 0.96 and running:
            request = draw.choice(list(running))
            charged = running.pop(request)
            true: int | None = draw.choice([None, draw.randint(0, 60)])
            policy.done(request, true)
            if true is not None and true != charged:
                twin.settle(request, true - charged)
            twin.ended(request)
        elif verb >= 0.96 and has_weights:
            tenant, weight = draw.choice(tenants), draw.randint(1, 4)
            policy.set_weight(tenant, weight)
            twin.set_weight(tenant, weight)
    for key in limits:
        policy.set_cap(key, None)
    while (last := policy.get(now=steps)) is not None:
        assert last is twin.get(now=steps), f"{name}, seed {seed}, at the end"
        waiting.remove(last)
    assert not waiting, f"{name}, seed {seed}: {waiting} lost"
    assert twin.get(now=steps) is None


def schedule_lines(name: str, workloads: int = 2_000) -> list[Line]:
    wrong = sum(bool(differs(name, random_case(seed), False)) for seed in range(workloads))
    how = f"{workloads:,} random workloads, 1–4 slots, whole numbers and fractions, ties"
    if name in UNDER_CAPS:
        capped = workloads // 4
        wrong += sum(bool(differs(name, random_case(seed), True)) for seed in range(capped))
        how += f"; {capped} of them again under caps"
    return [_line(f"{name}: every start and finish as in a plain second implementation", how, wrong)]


def call_lines(name: str, sequences: int = 500) -> list[Line]:
    capped = sequences // 2 if name in UNDER_CAPS else 0
    wrong = 0
    for seed in range(sequences + capped):
        try:
            random_calls(name, seed, capped=seed >= sequences)
        except AssertionError:
            wrong += 1
    how = f"{sequences:,} × 60 puts, gets, cancels, charges, ends, new weights; against the plain twin"
    how += f"; {capped} more under caps that change" if capped else ""
    return [_line(f"{name}: no request lost, doubled or out of order under random calls", how, wrong)]


def _line(claim: str, how: str, wrong: int) -> Line:
    return Line(claim, "this project", how, f"{wrong} differ", "0", wrong == 0)


CHECKS: list[Callable[[], list[Line]]] = [
    *(partial(schedule_lines, name) for name in PAIRS),
    *(partial(call_lines, name) for name in QUEUES),
]
