"""Notebook 01, how busy is busy: utilisation, Little's law, Erlang C."""

from __future__ import annotations

from math import ceil

import numpy as np

from fairq.check.answers import Number, Whole, per_cent
from fairq.check.question import Question
from fairq.prove.waits import erlang_c


def slots_needed(name: str, seed: int, rng: np.random.Generator) -> Question:
    needed = 0.0
    # Not a whole number: there a computer's 8.000000000000002 would be rounded up to 9.
    while abs(needed - round(needed)) < 0.05:
        rate = float(rng.integers(4, 25)) / 10
        service = float(rng.integers(3, 13))
        most = float(rng.choice([0.6, 0.7, 0.8]))
        needed = rate * service / most
    return Question(
        name,
        seed,
        f"People send {rate:g} request{'s' if rate != 1 else ''} per second, and each holds a slot for "
        f"{service:g} s on average. How many slots must the card have so that at most {per_cent(most)} of "
        "them are busy on average?",
        {"rate_per_s": rate, "service_s": service, "most": most},
        Whole(lambda: ceil(needed), "slots"),
        "Busy slots on average = requests per second × seconds each. Divide by the part that may be busy, "
        "round up.",
        lambda: (
            f"busy slots = {rate:g} /s × {service:g} s = {rate * service:g}\n"
            f"slots ≥ {rate * service:g} / {most:g} = {needed:.4g}, rounded up"
        ),
    )


def littles_law(name: str, seed: int, rng: np.random.Generator) -> Question:
    rate = float(rng.integers(2, 20)) / 10
    waiting = float(rng.integers(3, 40))
    return Question(
        name,
        seed,
        f"Over the last hour, {waiting:g} requests were waiting on average, and {rate:g} "
        f"request{'s' if rate != 1 else ''} per second came "
        "(and left). How long did a request wait on average, in seconds?",
        {"waiting": waiting, "rate_per_s": rate},
        Number(lambda: waiting / rate, "s"),
        "Little's law: how many = how often × how long. You know two of the three.",
        lambda: f"W = L / λ = {waiting:g} / {rate:g} per second",
    )


def hockey_stick(name: str, seed: int, rng: np.random.Generator) -> Question:
    slots = int(rng.choice([2, 4, 8]))
    service = float(rng.integers(2, 9))
    low, high = 0.6, float(rng.choice([0.9, 0.95]))

    def wait(load: float) -> float:
        return erlang_c(slots, load * slots) * service / (slots * (1 - load))

    chances = {load: erlang_c(slots, load * slots) for load in (low, high)}
    return Question(
        name,
        seed,
        f"A card of {slots} slots, Poisson arrivals, exponential service of {service:g} s on average. By "
        "what factor "
        f"does the mean wait grow when the load goes from {per_cent(low)} to {per_cent(high)} busy? (The "
        f"load grows by a factor of {high / low:.2g}. All slots are taken with probability C, Erlang's: "
        f"{chances[low]:.4f} at {per_cent(low)}, {chances[high]:.4f} at {per_cent(high)}.)",
        {"slots": slots, "service_s": service, "low": low, "high": high},
        Number(lambda: wait(high) / wait(low), "times"),
        "The mean wait is W = C·S / (c·(1 − ρ)) at each of the two loads; S and c are the same at both.",
        lambda: "\n".join(
            f"at {per_cent(load)}: C = {chances[load]:.4f}, W = C · {service:g} / ({slots} · "
            f"{1 - load:.2g})"
            f" = {wait(load):.4g} s"
            for load in (low, high)
        ),
        points=3,
    )


QUESTIONS = {"slots_needed": slots_needed, "littles_law": littles_law, "hockey_stick": hockey_stick}
