"""Every policy against its plain second implementation: equal starts and finishes, in exact arithmetic."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fairq.policies.accumulating import AccumulatingPriority
from fairq.policies.base import Policy
from fairq.policies.caps import KeyCaps
from fairq.policies.drr import DRR
from fairq.policies.fifo import FIFO
from fairq.policies.priority import Priority
from fairq.policies.sfq import SFQ
from fairq.policies.shortest import Shortest
from fairq.policies.vtc import VTC
from fairq.prove import plain
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
    unit = draw.choice([1, 1, Fraction(1, 3)])
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
}

UNDER_CAPS = [name for name in PAIRS if name != "DRR"]
"""Under caps the schedule of DRR is not fixed by any paper; its outcomes are checked elsewhere."""


def differs(name: str, case: Case, capped: bool) -> dict[Any, Any]:
    """id → (schedule of the policy, schedule of the plain one), where they differ; start and finish."""
    make, make_plain = PAIRS[name]
    policy = make(case)
    caps: list[tuple[list[str], int]] = []
    if capped:
        policy = KeyCaps(policy, per_key=case.caps, groups=case.groups)
        caps = [*(([key], limit) for key, limit in case.caps.items()), *case.groups.values()]
    rows = simulate(case.requests, policy, SlotEngine(case.slots)).requests
    ours = dict(zip(rows["id"], zip(rows["start"], rows["finish"], strict=True), strict=True))
    theirs = plain.plain_serve(
        make_plain(case), case.slots, case.requests, caps, true_cost=lambda r: r.prompt_tokens
    )
    return {
        number: (ours.get(number), theirs.get(number))
        for number in ours.keys() | theirs.keys()
        if ours.get(number) != theirs.get(number)
    }
