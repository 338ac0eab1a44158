"""Notebook 09, your own box: who pays, how large a quantum, what a promise costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairq import DRR, FIFO, Request
from fairq.check.answers import Choice, Number
from fairq.check.question import Question
from fairq.sim import SlotEngine, simulate


def who_pays(name: str, seed: int, rng: np.random.Generator) -> Question:
    slots = int(rng.choice([2, 4]))
    service = float(rng.integers(1, 5))
    piles = [int(rng.integers(2, 5)), int(rng.integers(6, 12)), int(rng.integers(60, 120))]
    asks = dict(zip(("ana", "ben", "eva"), rng.permutation(piles).tolist(), strict=True))

    def mean_waits(policy: Any) -> dict[str, float]:
        # The largest first in line, then the others.
        line = sorted(asks, key=lambda who: -asks[who])
        requests = [Request(who, 1, arrival=0.0, service=service) for who in line for _ in range(asks[who])]
        rows = simulate(requests, policy, SlotEngine(slots)).requests
        return {str(who): float(mine["wait"].mean()) for who, mine in rows.groupby("tenant", observed=True)}

    def truth() -> str:
        before, after = mean_waits(FIFO()), mean_waits(DRR(1))
        return max(asks, key=lambda who: after[who] - before[who])

    listed = ", ".join(f"{who} {asks[who]}" for who in sorted(asks, key=lambda who: -asks[who]))

    def work() -> str:
        before, after = mean_waits(FIFO()), mean_waits(DRR(1))
        return "\n".join(
            f"{who}: mean wait {before[who]:.1f} s under FIFO, {after[who]:.1f} s under fair turns"
            for who in asks
        )

    return Question(
        name,
        seed,
        f"Equal requests of {service:g} s on {slots} slots, all in line at once, the largest pile first: "
        f"{listed}. The "
        "queue changes from first come, first served to fair turns. Whose mean wait grows most?",
        {"slots": slots, "service_s": service, "asks": asks},
        Choice(truth, ("ana", "ben", "eva")),
        "The card is no faster. Somebody waits for what the others gain.",
        work,
    )


def quantum_for(name: str, seed: int, rng: np.random.Generator) -> Question:
    largest = 50 * int(rng.integers(20, 160))
    weights = sorted(float(w) for w in rng.choice([0.5, 1.0, 2.0, 4.0], size=2, replace=False))
    return Question(
        name,
        seed,
        f"The largest request in your log has {largest:,} tokens; your tenants have weights "
        f"{weights[0]:g} and "
        f"{weights[1]:g}. What is the smallest quantum with which every visit of every tenant sends "
        "something?",
        {"largest": largest, "weights": weights},
        Number(lambda: largest / weights[0], "tokens", 1e-3),
        "A visit brings quantum × weight. Who gains least per visit?",
        lambda: f"quantum × {weights[0]:g} ≥ {largest:,}",
    )


def zero_sum(name: str, seed: int, rng: np.random.Generator) -> Question:
    few, many = int(rng.integers(20, 60)), 100 * int(rng.integers(3, 12))
    gain = float(rng.integers(10, 40))
    return Question(
        name,
        seed,
        f"All requests hold a slot for the same time. Under a fair queue {few} small requests wait "
        f"{gain:g} s less on "
        f"average. The other {many:,} requests are the nightly job's, and the slots are as busy as "
        "before. By how many "
        "seconds does the mean wait of a nightly request grow?",
        {"few": few, "many": many, "gain_s": gain},
        Number(lambda: few * gain / many, "s"),
        "With equal service times the sum of all waits stays the same: what the small ones gain the "
        "others wait.",
        lambda: f"{few} × {gain:g} s = {few * gain:g} s gained; {few * gain:g} / {many:,} each",
    )


QUESTIONS = {"who_pays": who_pays, "quantum_for": quantum_for, "zero_sum": zero_sum}
