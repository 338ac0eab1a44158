"""Notebook 05, what is a fair turn: deficit round robin by hand, visits, shares."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from fairq import DRR, VTC, Request
from fairq.check.answers import Number, Order, Whole, per_cent
from fairq.check.question import Question
from fairq.prove.maxmin import fill


def turn_order(name: str, seed: int, rng: np.random.Generator) -> Question:
    quantum = int(rng.choice([300, 400, 500]))
    while True:
        lines = {
            who: [100 * int(rng.integers(1, 8)) for _ in range(n)]
            for who, n in (("ana", 2), ("ben", 2), ("eva", 2))
        }
        order = drr_order(quantum, lines)
        # Not simply one after the other, and not one line after the other.
        if order not in (["ana", "ben", "eva"] * 2, ["ana", "ana", "ben", "ben", "eva", "eva"]):
            break
    listed = "; ".join(f"{who}: {', '.join(map(str, costs))}" for who, costs in lines.items())
    return Question(
        name,
        seed,
        f"Deficit round robin with a quantum of {quantum} tokens, equal weights, one slot. Waiting, in "
        "the order of "
        f"the ring, cost of each request in tokens: {listed}. In which order are the six requests served? "
        "(a list "
        "of tenants, with repetitions)",
        {"quantum": quantum, "lines": lines},
        Order(lambda: drr_order(quantum, lines)),
        "Walk round the ring. At each visit add the quantum to the tenant's credit, send while the credit "
        "covers the "
        "next request, keep what is left. Whoever has nothing left to send leaves.",
        lambda: drr_walk(quantum, lines),
        points=4,
    )


def drr_order(quantum: int, lines: dict[str, list[int]]) -> list[str]:
    """Tenants in the order in which the policy serves the lines."""
    queue = DRR(quantum)
    for who, costs in lines.items():
        for cost in costs:
            queue.put(Request(who, cost))
    served: list[Any] = [queue.get() for _ in range(sum(map(len, lines.values())))]
    return [request.tenant for request in served]


def drr_walk(quantum: int, lines: dict[str, list[int]]) -> str:
    """The same walk by hand, visit by visit."""
    left, credit, said = {who: list(costs) for who, costs in lines.items()}, dict.fromkeys(lines, 0), []
    round_ = 0
    while any(left.values()):
        round_ += 1
        for who in [w for w in left if left[w]]:
            credit[who] += quantum
            words = f"round {round_}, {who}: credit {credit[who]}"
            sent = []
            while left[who] and left[who][0] <= credit[who]:
                sent.append(left[who].pop(0))
                credit[who] -= sent[-1]
            words += f", sends {' and '.join(map(str, sent))}" if sent else ", cannot pay yet"
            said.append(words + (f", keeps {credit[who]}" if left[who] else ", leaves the ring"))
    return "\n".join(said)


def visits(name: str, seed: int, rng: np.random.Generator) -> Question:
    quantum = int(rng.choice([50, 100, 200, 300]))
    weight = int(rng.choice([1, 2, 3]))
    cost = int(rng.integers(4, 40)) * 50 + 10

    def truth() -> int:
        # The other tenant sends one small request each round and counts the rounds.
        queue = DRR(quantum, weights={"eva": weight})
        queue.put(Request("eva", cost))
        for _ in range(1000):
            queue.put(Request("clock", quantum))
        rounds = 1
        while (request := queue.get()) is not None and request.tenant != "eva":
            rounds += 1
        return rounds

    return Question(
        name,
        seed,
        f"Eva (weight {weight}) has a request of {cost} tokens in line, others keep the ring busy, and "
        "the quantum is "
        f"{quantum} tokens. At which of her visits is it sent: the 1st, the 2nd, …? (a whole number)",
        {"quantum": quantum, "weight": weight, "cost": cost},
        Whole(truth, "visits", ordinal=True),
        f"Each visit brings {quantum} × {weight} tokens of credit.",
        lambda: (
            f"{cost} / ({quantum} × {weight}) = {cost / quantum / weight:.3g}, rounded up: "
            f"{ceil(cost / quantum / weight)}"
        ),
    )


def shares(name: str, seed: int, rng: np.random.Generator) -> Question:
    weights = {"ana": int(rng.integers(1, 5)), "ben": int(rng.integers(1, 5)), "eva": int(rng.integers(1, 4))}
    small = round(weights["eva"] / sum(weights.values()) / 2, 2)
    demands = {"ana": 1.0, "ben": 1.0, "eva": small}

    def truth() -> float:
        return float(fill(1.0, demands, weights)["ana"])

    listed = ", ".join(f"{who} {w}" for who, w in weights.items())
    rest = 1 - small
    return Question(
        name,
        seed,
        f"Weighted fair shares with weights {listed}. Ana and Ben always have work waiting; Eva asks only "
        "for "
        f"{per_cent(small)} of what the card can do, less than her share. What part of the card does Ana "
        "get, in per cent?",
        {"weights": weights, "eva_asks": small},
        Number(lambda: 100 * truth(), "%", 0.02),
        "Whoever asks for less than a share gets all of it; the others divide what is left in proportion "
        "to weights.",
        lambda: (
            f"Eva gets {per_cent(small)}; {per_cent(rest)} are left\n"
            f"Ana: {per_cent(rest)} × {weights['ana']} / ({weights['ana']} + {weights['ben']})"
        ),
    )


def debt(name: str, seed: int, rng: np.random.Generator) -> Question:
    declared = int(rng.choice([50, 100, 200]))
    true = declared * int(rng.integers(3, 9))
    other = 100 * int(rng.integers(1, 4))

    def truth() -> int:
        queue = VTC()
        for _ in range(400):
            queue.put(Request("ben", other))
        for _ in range(2):
            queue.put(Request("eva", declared))
        while (first := queue.get()) is not None and first.tenant != "eva":
            queue.done(first)
        assert first is not None
        queue.done(first, true)
        between = 0
        while (request := queue.get()) is not None and request.tenant != "eva":
            queue.done(request)
            between += 1
        return between

    return Question(
        name,
        seed,
        f"Least charged first (VTC), equal weights, one slot. Ben's requests cost {other} tokens, and he "
        "always has "
        f"more. Eva declares {declared} tokens, her request makes {true}, and the account is settled when "
        "it is done. "
        "Ben was served once before her. How many of Ben's requests go before Eva's next one? (At equal "
        "counts Ben "
        "goes first: he came first.)",
        {"declared": declared, "true": true, "ben_cost": other},
        Whole(truth, "requests"),
        f"Her counter stands at {true}, his at {other}. He goes while his is not above hers.",
        lambda: (
            f"Eva's counter after settling: {true}; Ben's: {other}\n"
            f"Ben goes while {other} × (1 + n) ≤ {true}: n = 0 … {true // other - 1}"
        ),
        points=3,
    )


QUESTIONS = {"turn_order": turn_order, "visits": visits, "shares": shares, "debt": debt}
