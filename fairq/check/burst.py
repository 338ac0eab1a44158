"""Notebook 02, who goes first: waiting behind a burst, percentiles, enough samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairq import FIFO, Request, metrics
from fairq.check.answers import Choice, Number, Whole, per_cent
from fairq.check.question import Question
from fairq.sim import SlotEngine, simulate


def wait_behind(pile: int, service: float, slots: int, later: float = 0.0) -> float:
    """How long (s) one waits who asks ``later`` s after a pile came to free slots, all requests alike."""
    requests = [Request("nightly", 1, arrival=0.0, service=service) for _ in range(pile)]
    requests.append(Request("you", 1, arrival=later, service=service))
    rows = simulate(requests, FIFO(), SlotEngine(slots)).requests
    return float(rows.loc[rows["tenant"] == "you", "wait"].iloc[0])


def behind_the_burst(name: str, seed: int, rng: np.random.Generator) -> Question:
    slots = int(rng.choice([4, 8, 16]))
    service = float(rng.integers(2, 11))
    pile = slots * int(rng.integers(8, 40))

    return Question(
        name,
        seed,
        f"{slots} slots, all free. A job puts {pile} requests of {service:g} s each in line at one "
        "moment, and yours "
        "comes right behind them. First come, first served: how many seconds until yours starts?",
        {"slots": slots, "service_s": service, "pile": pile},
        Number(lambda: wait_behind(pile, service, slots), "s"),
        f"The card does {slots} requests every {service:g} s. How long does it take for the pile?",
        lambda: (
            f"the card finishes {slots} / {service:g} s = {slots / service:.4g} requests per second\n"
            f"wait = {pile} / {slots / service:.4g} per second = {pile * service / slots:g} s"
        ),
    )


def enough(name: str, seed: int, rng: np.random.Generator) -> Question:
    percent = int(rng.choice([90, 95, 98, 99]))
    confidence = float(rng.choice([0.8, 0.9, 0.95, 0.99]))
    tail = (1 - confidence) / 2

    def work() -> str:
        n = metrics.enough(percent / 100, confidence)
        return (
            f"all n values lie below the true p{percent} with probability {percent / 100:g}^n\n"
            f"that must be at most (1 − {confidence:g}) / 2 = {tail:g}\n"
            f"{percent / 100:g}^{n - 1} = {(percent / 100) ** (n - 1):.5f}, "
            f"{percent / 100:g}^{n} = {(percent / 100) ** n:.5f}"
        )

    return Question(
        name,
        seed,
        f"You want a distribution-free {per_cent(confidence)} interval (two-sided) for the p{percent} of "
        "independent "
        "values. How many values do you need at least so that an upper limit exists at all?",
        {"quantile": percent / 100, "confidence": confidence},
        Whole(lambda: metrics.enough(percent / 100, confidence), "values"),
        "The largest of n values is the best upper limit there is. It fails when all n lie below the "
        "quantile: "
        "probability q^n. That may happen in (1 − confidence)/2 of the cases.",
        work,
    )


def what_changes(name: str, seed: int, rng: np.random.Generator) -> Question:
    part = float(rng.choice([0.004, 0.03, 0.08, 0.6, 0.75]))
    slow = int(rng.integers(40, 200))
    total = 1000

    def truth() -> str:
        before = np.ones(total)
        after = before.copy()
        after[: round(part * total)] = slow
        moved = [f"p{q}" for q in (50, 99) if metrics.percentile(after, q) > metrics.percentile(before, q)]
        return "both" if len(moved) == 2 else moved[0] if moved else "neither"

    def work() -> str:
        return (
            f"{per_cent(part)} of {total:,} requests are slow: {round(part * total)}\n"
            f"p50 moves when more than 50 % are slow, p99 when more than 1 % are"
        )

    return Question(
        name,
        seed,
        f"All of a tenant's {total:,} requests took 1 s. After a burst {per_cent(part)} of them take {slow} "
        "s, the others "
        'still 1 s. Which number shows it: "p50", "p99", "both" or "neither"?',
        {"part": part, "slow_s": slow, "requests": total},
        Choice(truth, ("p50", "p99", "both", "neither")),
        "p50 is the request in the middle when all are sorted; p99 has 1 % above it.",
        work,
    )


QUESTIONS: dict[str, Any] = {
    "behind_the_burst": behind_the_burst,
    "enough": enough,
    "what_changes": what_changes,
}
