"""Levels and nests: who goes before whom between them, and the shares within.

``Nested`` counts a branch as VTC counts a tenant, so two branches with work throughout keep VTC's bound, and
the users of one keep the inner policy's among themselves, in what their branch is sent. ``Levels`` orders
levels as ``Priority`` orders requests; within a level the inner policy's bound holds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from fairq.policies.base import Policy
from fairq.policies.drr import DRR
from fairq.policies.fifo import FIFO
from fairq.policies.levels import Levels
from fairq.policies.nested import Nested
from fairq.policies.vtc import VTC
from fairq.prove.agree import random_case
from fairq.prove.line import Line, number
from fairq.prove.loop import backlogged, serve
from fairq.prove.traffic import Demand, spread
from fairq.request import Number, Request

QUANTUM = 10
SEEDS = range(60)

MakeNest = Callable[[dict[str, str], dict[str, int], dict[str, int]], Policy]
"""Tenant → branch, weights of the branches, weights of the tenants → a fresh policy."""


def nest_of_drr(of: dict[str, str], branches: dict[str, int], users: dict[str, int]) -> Policy:
    return Nested(of, lambda branch: DRR(QUANTUM, users), branches)


def nest_of_vtc(of: dict[str, str], branches: dict[str, int], users: dict[str, int]) -> Policy:
    return Nested(of, lambda branch: VTC(users), branches)


# -- shares of shares --------------------------------------------------------------------------------


def parts(make: MakeNest, dispatches: int = 9_000) -> dict[str, int]:
    """How many each user is sent: physics (three users) weighs two, biology (dan) one; all send units."""
    of = {"ann": "physics", "bob": "physics", "cy": "physics", "dan": "biology"}

    def feed(user: str, now: Number) -> Request:
        return Request(user, 1, service=1, arrival=now)

    served = backlogged(make(of, {"physics": 2}, {}), 4, of, feed, dispatches=dispatches)
    return {user: sum(s.request.tenant == user for s in served) for user in of}


def worst_nest(make: MakeNest, inner: Number, seeds: range = SEEDS) -> tuple[float, float]:
    """The largest difference over its bound, between branches and within one; D dispatched.

    Between: |Dᵢ/wᵢ − Dⱼ/wⱼ| / (Lᵢ/wᵢ + Lⱼ/wⱼ); within, of users: the same with ``inner`` added to the bound.
    """
    between = within = Fraction(0)
    for seed in seeds:
        draw = random.Random(seed)
        demand = Demand(seed)
        of = {tenant: draw.choice("xy") for tenant in demand.weights}
        branches = {"x": draw.randint(1, 4), "y": draw.randint(1, 4)}
        served = demand.serve(lambda users: make(of, branches, users), 400)  # noqa: B023
        users = [(s.request.tenant, s.request.cost) for s in served]
        if len(set(of.values())) == 2:
            steps = [(of[user], cost) for user, cost in users]
            largest = {b: max(demand.costs[t] for t in of if of[t] == b) for b in branches}
            bound = sum(Fraction(largest[b], branches[b]) for b in branches)
            between = max(between, spread(steps, branches, "x", "y") / bound)
        for one, other in demand.pairs():
            if of[one] == of[other]:
                limit = inner + demand.per_weight(one) + demand.per_weight(other)
                within = max(within, spread(users, demand.weights, one, other) / limit)
    return float(between), float(within)


def part_of_many(make: MakeNest, users: int = 50, dispatches: int = 5_100) -> float:
    """What an organisation of many users is sent, as a part, beside one of a single user; all weights 1."""
    of = {**{f"user {k}": "many" for k in range(users)}, "single": "one"}

    def feed(user: str, now: Number) -> Request:
        return Request(user, 1, service=1, arrival=now)

    served = backlogged(make(of, {}, {}), 8, of, feed, dispatches=dispatches)
    return sum(of[s.request.tenant] == "many" for s in served) / len(served)


NESTS: list[tuple[str, MakeNest, int, str]] = [
    ("Nested, DRR inside", nest_of_drr, QUANTUM, "<"),
    ("Nested, VTC inside", nest_of_vtc, 0, "≤"),
]

FLAT: MakeNest = lambda of, branches, users: VTC(users)  # noqa: E731


def nest_lines(seeds: range = SEEDS) -> list[Line]:
    lines = []
    for name, make, inner, sign in NESTS:
        got = parts(make)
        lines.append(
            Line(
                f"{name}: organisations 2:1 get 2:1, and the users of one get equal parts",
                "by hand",
                "three users and one, requests of 1, 4 slots, 9,000 dispatches, all backlogged",
                ", ".join(map(str, got.values())),
                "2000, 2000, 2000, 3000",
                list(got.values()) == [2_000, 2_000, 2_000, 3_000],
            )
        )
        between, within = worst_nest(make, inner, seeds)
        how = f"{len(seeds)} random demands of two organisations, 1–16 slots, costs 1–30; every interval"
        lines.append(
            Line(
                f"{name}: between organisations |Dᵢ/wᵢ − Dⱼ/wⱼ| ≤ Lᵢ/wᵢ + Lⱼ/wⱼ",
                "Sheng et al. 2024, of branches",
                how,
                f"{number(between)} of the bound",
                "≤ 1",
                0 < between <= 1,  # at 0 nothing was compared
            )
        )
        lines.append(
            Line(
                f"{name}: between users of one organisation the inner policy's bound",
                "Shreedhar & Varghese 1996, theorem 1" if inner else "Sheng et al. 2024",
                how,
                f"{number(within)} of the bound",
                f"{sign} 1",
                0 < within < 1 or (not inner and within == 1),
            )
        )
    part, flat = part_of_many(nest_of_vtc), part_of_many(FLAT)
    how = "50 users against one, all backlogged, requests of 1, 5,100 dispatches"
    lines.append(
        Line(
            "Nested: an organisation gains nothing by spreading over 50 users",
            "by hand: 1/2",
            how,
            f"{number(100 * part)} %",
            "50 ± 0.1 %",
            abs(part - 1 / 2) <= 0.001,
        )
    )
    lines.append(
        Line(
            "VTC without a nest gives it 50 parts of 51",
            "null policy; by hand: 50/51",
            how,
            f"{number(100 * flat)} %",
            f"{number(100 * 50 / 51)} ± 0.1 %",
            abs(flat - 50 / 51) <= 0.001,
        )
    )
    return lines


# -- levels ------------------------------------------------------------------------------------------

AGEING = 5


def passed_over(make: Callable[[], Policy], ageing: Number | None, workloads: int = 150) -> tuple[int, int]:
    """How often a request began while one with a claim to go first waited, and how often two levels met.

    With a claim: of a level above; with ageing, one with a smaller ``arrival + ageing·level``. From the
    schedule alone: what came by the time a request began, and began after it, had waited.
    """
    wrong = met = 0

    def claim(request: Request) -> Any:
        arrival: Any = request.arrival
        return request.priority if ageing is None else arrival + ageing * request.priority

    for seed in range(workloads):
        case = random_case(seed)
        served = serve(make(), case.slots, case.requests)
        for place, (request, start, _) in enumerate(served):
            for other in served[place + 1 :]:
                arrival: Any = other.request.arrival
                if arrival <= start and other.request.priority != request.priority:
                    met += 1
                    wrong += claim(other.request) < claim(request)
    return wrong, met


LAST, DEPTH = 150, 8
"""Requests that a tenant of level 0 sends in all, and how many of a tenant's wait at any time."""


def worst_level(make: Callable[[dict[str, int]], Policy], seeds: range = SEEDS) -> tuple[float, float]:
    """The largest difference between tenants of one level over its bound, per level: 0 is DRR's, 1 VTC's.

    Level 0 stops after ``LAST`` requests a tenant, so that strict levels both have their time.
    """
    worst = [Fraction(0), Fraction(0)]
    inner = (QUANTUM, 0)  # what the policy of a level adds to the bound
    for seed in seeds:
        demand = Demand(seed)
        tenants = list(demand.weights)
        level = {tenant: k % 2 for k, tenant in enumerate(tenants)}
        sent = dict.fromkeys(tenants, 0)

        def feed(tenant: str, now: Number) -> Request | None:
            sent[tenant] += 1  # noqa: B023
            if not level[tenant] and sent[tenant] > LAST:  # noqa: B023
                return None
            request = demand.feed(tenant, now)  # noqa: B023
            return Request(
                tenant,
                request.cost,
                service=request.cost,
                arrival=now,
                priority=level[tenant],  # noqa: B023
            )

        assert demand.slots is not None
        served = backlogged(make(demand.weights), demand.slots, tenants, feed, depth=DEPTH, dispatches=600)
        # A tenant that sends no more is backlogged no more: only what was served until the first did so.
        for n in (0, 1):
            mine = [s for s in served if level[s.request.tenant] == n]
            count = dict.fromkeys(tenants, 0)
            steps = []
            for s in mine:
                count[s.request.tenant] += 1
                if n == 0 and count[s.request.tenant] > LAST - DEPTH:
                    break
                steps.append((s.request.tenant, s.request.cost))
            for one, other in demand.pairs():
                if level[one] == level[other] == n:
                    bound = inner[n] + demand.per_weight(one) + demand.per_weight(other)
                    worst[n] = max(worst[n], spread(steps, demand.weights, one, other) / bound)
    return float(worst[0]), float(worst[1])


def strict_levels(weights: dict[str, int] | None = None) -> Policy:
    return Levels({0: DRR(QUANTUM, weights), 1: VTC(weights), 2: FIFO()})


def aged_levels(weights: dict[str, int] | None = None) -> Policy:
    return Levels({0: DRR(QUANTUM, weights), 1: VTC(weights)}, ageing=60)


def aged_fifo_levels() -> Policy:
    return Levels({level: FIFO() for level in range(3)}, ageing=AGEING)


def level_lines() -> list[Line]:
    lines = []
    orders: list[tuple[str, str, Callable[[], Policy], Number | None]] = [
        (
            "Levels, strict: nothing begins while something of a level above waits",
            "Cobham 1954 (the order)",
            strict_levels,
            None,
        ),
        (
            "Levels, ageing: nothing waits for what came more than ageing seconds per level later",
            "Goldberg 1977 (a head start)",
            aged_fifo_levels,
            AGEING,
        ),
    ]
    for claim, source, make, ageing in orders:
        wrong, met = passed_over(make, ageing)
        lines.append(
            Line(
                claim,
                source,
                f"150 random workloads of three levels, 1–4 slots; {met:,} meetings of two levels",
                f"{wrong} passed over",
                "0; > 1,000 meetings",
                not wrong and met > 1_000,
            )
        )
    for name, fair in (("strict", strict_levels), ("ageing 60 s", aged_levels)):
        drr, vtc = worst_level(fair)
        lines.append(
            Line(
                f"Levels, {name}: the tenants of a level keep the bound of the policy inside, DRR or VTC",
                "Shreedhar & Varghese 1996; Sheng et al. 2024",
                f"{len(SEEDS)} random demands of two levels, 1–16 slots, costs 1–30; every interval",
                f"{number(drr)}, {number(vtc)} of the bound",
                "< 1, ≤ 1",
                0 < drr < 1 and 0 < vtc <= 1,
            )
        )
    return lines


CHECKS: list[Callable[[], list[Line]]] = [nest_lines, level_lines]
