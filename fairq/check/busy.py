"""Notebook 01, how busy is busy: utilisation, Little's law, Erlang C."""

from __future__ import annotations

from math import ceil

import numpy as np

from fairq.check.answers import Number, Whole
from fairq.check.question import Question
from fairq.prove.waits import erlang_c


def slots_needed(name: str, seed: int, rng: np.random.Generator) -> Question:
    rate = float(rng.integers(4, 25)) / 10
    service = float(rng.integers(3, 13))
    most = float(rng.choice([0.6, 0.7, 0.8]))
    needed = rate * service / most
    return Question(
        name,
        seed,
        f"People send {rate:g} requests per second, and each holds a slot for {service:g} s on average. "
        "How many "
        f"slots must the card have so that at most {most:.0%} of them are busy on average?",
        {"rate_per_s": rate, "service_s": service, "most": most},
        Whole(lambda: ceil(round(needed, 9)), "slots"),
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
        f"Over the last hour, {waiting:g} requests were waiting on average, and {rate:g} requests per "
        "second came "
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

    return Question(
        name,
        seed,
        f"A card of {slots} slots, Poisson arrivals, exponential service of {service:g} s on average. By "
        "what factor "
        f"does the mean wait grow when the load goes from {low:.0%} to {high:.0%} busy? (The load grows "
        "by a factor "
        f"of {high / low:.2g}.)",
        {"slots": slots, "service_s": service, "low": low, "high": high},
        Number(lambda: wait(high) / wait(low), "times"),
        "Erlang C at both loads: W = C(c, ρ)·S / (c·(1 − ρ)). `erlang_c(slots, slots * load)` gives C.",
        lambda: "\n".join(
            f"at {load:.0%}: C = {erlang_c(slots, load * slots):.4f}, W = C · {service:g} / ({slots} · "
            f"{1 - load:.2g})"
            f" = {wait(load):.4g} s"
            for load in (low, high)
        ),
        points=3,
    )


QUESTIONS = {"slots_needed": slots_needed, "littles_law": littles_law, "hockey_stick": hockey_stick}
