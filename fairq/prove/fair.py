"""Shares: the bounds between backlogged tenants, and that unfair policies break them."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from fairq.counterexamples import ChargeAtTheEnd, DeficitWithoutQuantum, NoLift, RoundRobin
from fairq.policies.base import Policy
from fairq.policies.drr import DRR
from fairq.policies.fifo import FIFO
from fairq.policies.sfq import SFQ
from fairq.policies.vtc import VTC
from fairq.prove.line import Line, number
from fairq.prove.loop import backlogged, serve
from fairq.prove.maxmin import fill
from fairq.prove.traffic import Demand, MakeFair, received, spread
from fairq.request import Number, Request

QUANTA = (1, 10, 30)
SEEDS = range(60)
DRR_1996 = "Shreedhar & Varghese 1996"


def worst_pair(make: MakeFair, quantum: Number, seeds: range = SEEDS, dispatches: int = 400) -> float:
    """The largest |Dᵢ/wᵢ − Dⱼ/wⱼ| / (Q + Lᵢ/wᵢ + Lⱼ/wⱼ) over all intervals and pairs; D dispatched."""
    worst = Fraction(0)
    for seed in seeds:
        demand = Demand(seed)
        steps = [(s.request.tenant, s.request.cost) for s in demand.serve(make, dispatches)]
        for one, other in demand.pairs():
            if one in demand.costs and other in demand.costs:
                bound = quantum + demand.per_weight(one) + demand.per_weight(other)
                worst = max(worst, spread(steps, demand.weights, one, other) / bound)
    return float(worst)


def worst_maxmin(make: MakeFair, quantum: Number, seeds: range = range(30)) -> float:
    """A backlog that stands at 0 against weighted max-min filling, at every dispatch.

    The largest |Dᵢ − share of i| / (wᵢ·bound), bound = Q + the largest Lᵢ/wᵢ + Lⱼ/wⱼ: tenants that still
    wait are within that of each other, so of the level to which the filling has risen.
    """
    worst = Fraction(0)
    for seed in seeds:
        draw = random.Random(seed)
        weights = {t: draw.randint(1, 4) for t in "abcdef"[: draw.randint(2, 6)]}
        policy = make(weights)
        demand = dict.fromkeys(weights, 0)
        largest = dict.fromkeys(weights, 0)
        for tenant in weights:
            for _ in range(draw.randint(1, 30)):
                cost = draw.choice([1, 10, draw.randint(1, 30)])
                policy.put(Request(tenant, cost, arrival=0))
                demand[tenant] += cost
                largest[tenant] = max(largest[tenant], cost)
        tops = sorted(Fraction(largest[t], weights[t]) for t in weights)
        bound = quantum + tops[-1] + tops[-2]
        sent = dict.fromkeys(weights, 0)
        while (request := policy.get()) is not None:
            policy.done(request)
            sent[request.tenant] += request.cost
            shares = fill(Fraction(sum(sent.values())), demand, weights)
            for tenant in weights:
                worst = max(worst, abs(sent[tenant] - shares[tenant]) / (weights[tenant] * bound))
    return float(worst)


def pair_lines() -> list[Line]:
    lines = []
    how = f"{len(SEEDS)} random demands, 1–16 slots, weights 1–4, costs 1–30; every interval, every pair"
    rows: list[tuple[str, MakeFair, int, str]] = [
        (f"DRR, quantum {q}", lambda w, q=q: DRR(q, w), q, f"{DRR_1996}, theorem 1, per weight")  # type: ignore[misc]
        for q in QUANTA
    ]
    rows.append(("VTC", VTC, 0, "Sheng et al. 2024, charged at get"))
    rows.append(("SFQ", SFQ, 0, "Goyal, Vin & Cheng 1996, theorem 1"))
    for name, make, quantum, source in rows:
        sign, plus = ("<", "Q + ") if quantum else ("≤", "")
        worst = worst_pair(make, quantum)
        lines.append(
            Line(
                f"{name}: |Dᵢ/wᵢ − Dⱼ/wⱼ| {sign} {plus}Lᵢ/wᵢ + Lⱼ/wⱼ, dispatched cost, any number of slots",
                source,
                how,
                f"{number(worst)} of the bound",
                f"{sign} 1",
                worst < 1 or (not quantum and worst == 1),
            )
        )
        worst = worst_maxmin(make, quantum)
        lines.append(
            Line(
                f"{name}: within the bound of weighted max-min filling at every dispatch",
                "max-min fairness (Demers, Keshav & Shenker 1989)",
                "30 backlogs that drain, 2–6 tenants, against progressive filling",
                f"{number(worst)} of the bound",
                "≤ 1",
                worst <= 1,
            )
        )
    return lines


def null_lines() -> list[Line]:
    """What must fail, or the test of pairs says nothing."""
    nulls: list[tuple[str, MakeFair]] = [
        ("FIFO", lambda w: FIFO()),
        ("round robin by request", lambda w: RoundRobin()),
        ("deficit without quantum", DeficitWithoutQuantum),
        ("charge at the end", ChargeAtTheEnd),
    ]
    lines = []
    for name, make in nulls:
        worst = worst_pair(make, 30)
        lines.append(
            Line(
                f"{name} fails the same test",
                "null policy",
                "as above, against the widest bound (quantum 30)",
                f"{number(worst)} of the bound",
                "> 1",
                worst > 1,
            )
        )
    return lines


# -- deficit round robin -----------------------------------------------------------------------------


def drr_books(seeds: range = SEEDS, dispatches: int = 300) -> dict[str, float]:
    """What DRR's own accounts say after every dispatch, as ratios to what theory allows.

    ``least``: the least deficit; ``end``: the largest deficit over the head's cost when no visit is open;
    ``inside``: the largest deficit over quantum·weight + L; ``visits``: the largest |service − m·gain| / L.
    """
    seen = {"least": 0.0, "end": 0.0, "inside": 0.0, "visits": 0.0}
    for seed in seeds:
        demand = Demand(seed)
        quantum = random.Random(seed).choice(QUANTA)
        policy = DRR(quantum, demand.weights)
        heads: dict[str, list[Request]] = {t: [] for t in demand.weights}
        for tenant in demand.weights:
            for _ in range(3):
                heads[tenant].append(demand.feed(tenant, 0))
                policy.put(heads[tenant][-1])
        sent = dict.fromkeys(demand.weights, 0)
        first: dict[str, int] = {}
        for _ in range(dispatches):
            request = policy.get()
            assert request is not None
            tenant = request.tenant
            heads[tenant].pop(0)
            sent[tenant] += request.cost
            policy.done(request)
            heads[tenant].append(demand.feed(tenant, 0))
            policy.put(heads[tenant][-1])
            for name, account in policy.snapshot()["accounts"].items():
                deficit, gain = account["deficit"], account["gain"]
                first.setdefault(name, 1)
                seen["least"] = min(seen["least"], deficit)
                seen["inside"] = max(seen["inside"], deficit / (gain + demand.costs[name]))
                if not account["open"]:
                    seen["end"] = max(seen["end"], deficit / heads[name][0].cost)
                    visits = account["round"]
                    off = abs(sent[name] - visits * gain) / demand.costs[name]
                    seen["visits"] = max(seen["visits"], off)
    return seen


def drr_book_lines() -> list[Line]:
    seen = drr_books()
    how = f"accounts after every dispatch, {len(SEEDS)} random demands, quanta {QUANTA}"
    return [
        Line(
            "DRR: 0 ≤ deficit < cost of the head at every visit's end (no true-up)",
            f"{DRR_1996}, lemma 1",
            how,
            f"least {number(seen['least'])}, largest {number(seen['end'])} of the head's cost",
            "≥ 0, < 1",
            seen["least"] >= 0 and seen["end"] < 1,
        ),
        Line(
            "DRR: deficit < quantum·weight + largest cost inside a visit",
            f"{DRR_1996}, lemma 1",
            how,
            f"{number(seen['inside'])} of the bound",
            "< 1",
            seen["inside"] < 1,
        ),
        Line(
            "DRR: service in m visits is m·quantum·weight ± largest cost",
            f"{DRR_1996}, lemma 2",
            how,
            f"off by {number(seen['visits'])} of the largest cost",
            "< 1",
            seen["visits"] < 1,
        ),
    ]


def slot_seconds(seeds: range, slots: int = 16) -> tuple[float, float]:
    """DRR's slot-seconds received: the worst ratio to the one-server bound, and to that for c slots."""
    single = many = 0.0
    for seed in seeds:
        demand = Demand(seed, slots=slots)
        quantum = QUANTA[seed % len(QUANTA)]
        served = demand.serve(lambda w: DRR(quantum, w), 1_000)  # noqa: B023
        rows = received(served, served[-1].start)
        for one, other in demand.pairs():
            li, lj = demand.per_weight(one), demand.per_weight(other)
            w = demand.weights
            lead = [Fraction(row[one], w[one]) - Fraction(row[other], w[other]) for row in rows]
            width = max(lead) - min(lead)
            single = max(single, float(width / (quantum + li + lj)))
            many = max(many, float(width / (quantum + (1 + slots) * (li + lj))))
    return single, many


def slot_second_lines() -> list[Line]:
    single, many = slot_seconds(range(60))
    how = "60 random demands, 16 slots, costs 1–30, quanta 1, 10, 30; every interval"
    return [
        Line(
            "DRR on many slots: the one-server bound is passed fourfold in slot-seconds received",
            "this project; counter-example",
            how,
            f"{number(single)} of Q + Lᵢ/wᵢ + Lⱼ/wⱼ",
            "> 4",
            single > 4,
        ),
        Line(
            "DRR on c slots: slot-seconds received differ by ≤ Q + (1+c)(Lᵢ/wᵢ + Lⱼ/wⱼ)",
            "dispatch bound + what c slots hold",
            how,
            f"{number(many)} of the bound",
            "< 1",
            many < 1,
        ),
    ]


def drr_latency(seeds: range) -> float:
    """How late a newly backlogged tenant's service is, as a share of the latency bound; one server.

    The bound is that of a latency-rate server: service received by t ≥ φᵢ/F·(t − τ − Θ) from the moment τ
    at which it became backlogged, as long as it stays so. The worst moments are starts of its service.
    """
    worst = 0.0
    for seed in seeds:
        draw = random.Random(seed)
        demand = Demand(seed, slots=1)
        quantum = draw.choice([5, 30, 60])
        others = list(demand.weights)
        joins = draw.randint(50, 400)
        rivals = [demand.feed(draw.choice(others[1:]), 0) for _ in range(600)]
        mine = [demand.feed(others[0], joins) for _ in range(60)]
        mine = [Request(r.tenant, r.cost, service=r.cost, arrival=joins) for r in mine]
        policy = DRR(quantum, demand.weights)
        gains = {t: quantum * demand.weights[t] for t in demand.costs}
        total, gain = sum(gains.values()), gains[others[0]]
        longest = demand.costs[others[0]]
        bound = (total - gain) * (1 + Fraction(longest, gain)) + sum(demand.costs.values())
        got = 0
        for request, start, _ in serve(policy, 1, rivals + mine):
            if request.tenant == others[0]:
                late = start - joins - Fraction(got * total, gain)
                worst = max(worst, float(late / bound))
                got += request.cost
    return worst


def latency_lines() -> list[Line]:
    worst = drr_latency(range(300))
    return [
        Line(
            "DRR: latency of a newly backlogged tenant ≤ [(F−φᵢ)(1+Lᵢ/φᵢ) + ΣLⱼ]/r on one server",
            "Lenzini, Mingozzi & Stea 2004",
            "300 random demands, the tenant joins a standing backlog; every start of its service",
            f"{number(worst)} of the bound",
            "≤ 1",
            worst <= 1,
        )
    ]


# -- counters ----------------------------------------------------------------------------------------


def sfq_finished(seeds: range) -> float:
    """SFQ(D): finished cost between two backlogged tenants, as a share of (D+1)(Lᵢ/wᵢ + Lⱼ/wⱼ)."""
    worst = 0.0
    for seed in seeds:
        demand = Demand(seed)
        served = demand.serve(SFQ, 500)
        last = served[-1].start
        ends = sorted((s for s in served if s.finish <= last), key=lambda s: s.finish)
        steps = [(s.request.tenant, s.request.cost) for s in ends]
        for one, other in demand.pairs():
            assert demand.slots is not None
            bound = (demand.slots + 1) * (demand.per_weight(one) + demand.per_weight(other))
            worst = max(worst, float(spread(steps, demand.weights, one, other) / bound))
    return worst


def token_by_token(make: Callable[[], Policy], seed: int, capacity: int = 2_000) -> tuple[float, float]:
    """Two backlogged tenants on a continuous batch of ``capacity`` tokens: (largest difference, bound).

    Each step adds a token to every running request; a prompt token costs 1, an output token 2. ``make``'s
    policy is charged the prompt at ``get`` and every output token as it is made. A request is admitted
    while its prompt and its longest possible output fit.
    """
    draw = random.Random(seed)
    w_p, w_q, longest_in, longest_out = 1, 2, 400, 300
    policy = make()
    true = {}

    def ask(tenant: str) -> None:
        prompt = (
            draw.choice([longest_in, draw.randint(1, longest_in)]) if tenant == "a" else draw.randint(1, 40)
        )
        request = Request(tenant, w_p * prompt, arrival=0)
        true[request] = prompt, draw.randint(1, longest_out if tenant == "b" else 40)
        policy.put(request)

    for _ in range(40):
        ask("a")
        ask("b")
    running: dict[Request, int] = {}
    lead = least = most = 0.0
    for _ in range(6_000):
        while (request := policy.peek()) is not None:
            held = sum(true[r][0] + longest_out for r in running)
            if held + true[request][0] + longest_out > capacity:
                break
            policy.get()
            running[request] = 0
            lead += w_p * true[request][0] * (1 if request.tenant == "a" else -1)
            least, most = min(least, lead), max(most, lead)
            ask(request.tenant)
        for request in list(running):
            running[request] += 1
            lead += w_q * (1 if request.tenant == "a" else -1)
            policy.charge(request, request.cost + w_q * running[request])
            if running[request] == true[request][1]:
                del running[request]
                policy.done(request, request.cost + w_q * true[request][1])
        least, most = min(least, lead), max(most, lead)
    return most - least, 2 * max(w_p * longest_in, w_q * capacity)


def returning_share(make: MakeFair, idle: int = 10_000) -> float:
    """The share of the first 2,000 units that a tenant gets when it returns to one never away."""
    policy = make({})
    sent = []

    def feed(tenant: str, now: Number) -> Request | None:
        return Request(tenant, 1, service=1, arrival=now)

    first = backlogged(policy, 4, ["stays"], feed, dispatches=idle)
    running = [s.request for s in first[-4:]]
    for _ in range(2_000):
        policy.put(Request("returns", 1))
        policy.put(Request("stays", 1))
    for request in running:
        policy.done(request)
    for _ in range(2_000):
        chosen = policy.get()
        assert chosen is not None
        policy.done(chosen)
        sent.append(chosen.tenant)
    return sent.count("returns") / len(sent)


def under_declared(make: MakeFair, true_up: bool) -> float:
    """True cost served to a tenant that declares a tenth, over that of an honest one; both backlogged."""
    policy = make({})
    got = {"honest": 0, "liar": 0}
    for _ in range(2_100):
        policy.put(Request("honest", 100))
        policy.put(Request("liar", 10))
    while sum(got.values()) < 200_000:
        request = policy.get()
        assert request is not None
        policy.done(request, 100 if true_up else None)
        got[request.tenant] += 100
    return got["liar"] / got["honest"]


def counter_lines() -> list[Line]:
    finished = sfq_finished(SEEDS)
    batch = [token_by_token(lambda: VTC(), seed) for seed in range(5)]
    batched = max(difference / bound for difference, bound in batch)
    lines = [
        Line(
            "SFQ on D slots: finished cost differs by ≤ (D+1)(Lᵢ/wᵢ + Lⱼ/wⱼ)",
            "Jin, Chase & Kaur 2004, theorem 1",
            f"{len(SEEDS)} random demands, 1–16 slots; every interval",
            f"{number(finished)} of the bound",
            "≤ 1",
            finished <= 1,
        ),
        Line(
            "VTC charged token by token, w_p ≤ w_q: service differs by ≤ 2·max(w_p·L_in, w_q·M)",
            "Sheng et al. 2024, theorem 4.4",
            "5 × 6,000 steps of a batch of M = 2,000 tokens, w_p = 1, w_q = 2",
            f"{number(batched)} of the bound",
            "≤ 1",
            batched <= 1,
        ),
    ]
    for name, make in FAIR:
        share = returning_share(make)
        lines.append(
            Line(
                f"{name}: no credit is banked while idle: a tenant that returns takes half",
                "Sheng et al. 2024 (lift); the contract",
                "away for 10,000 units, then both backlogged for 2,000, cost 1",
                f"{number(100 * share)} %",
                "50 ± 2.5 %",
                abs(share - 0.5) <= 0.025,
            )
        )
    share = returning_share(NoLift)
    lines.append(
        Line(
            "least counter without lift: the one that returns takes most",
            "null policy",
            "the same",
            f"{number(100 * share)} %",
            "> 90 %",
            share > 0.9,
        )
    )
    for name, make in FAIR:
        gain = under_declared(make, true_up=True)
        without = under_declared(make, true_up=False)
        lines.append(
            Line(
                f"{name}: who declares a tenth gains nothing with true-up, tenfold without",
                "K8s API priority and fairness; this project",
                "two backlogged tenants, true cost 100 each, 200,000 tokens",
                f"× {number(gain)} with true-up, × {number(without)} without",
                "1 ± 5 %, 10 ± 5 %",
                abs(gain - 1) <= 0.05 and abs(without - 10) <= 0.5,
            )
        )
    return lines


FAIR: list[tuple[str, Any]] = [("DRR", lambda w: DRR(30, w)), ("VTC", VTC), ("SFQ", SFQ)]

CHECKS = [pair_lines, null_lines, drr_book_lines, slot_second_lines, latency_lines, counter_lines]
