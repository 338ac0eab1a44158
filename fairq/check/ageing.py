"""Notebook 04, what if chat always wins: priority, ageing, Cobham's formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairq import Priority, Request
from fairq.check.answers import Number, Order, per_cent
from fairq.check.question import Question
from fairq.prove.waits import cobham


def who_is_next(name: str, seed: int, rng: np.random.Generator) -> Question:
    ageing = int(rng.choice([60, 120, 300, 600]))
    levels = {"chat": 0, "code": 1, "nightly": 2}
    while True:
        arrivals = {who: int(rng.integers(0, 3 * ageing)) for who in levels}
        ranks = [arrivals[who] + ageing * level for who, level in levels.items()]
        # Another order than both first come and strict priority, so that the rule is needed.
        by_rank = [who for _, who in sorted(zip(ranks, levels, strict=True))]
        if len(set(ranks)) == 3 and by_rank not in (sorted(levels, key=lambda w: arrivals[w]), list(levels)):
            break

    def truth() -> list[str]:
        queue = Priority(ageing=ageing)
        for who, level in sorted(levels.items(), key=lambda item: arrivals[item[0]]):
            queue.put(Request(who, 1, arrival=arrivals[who], priority=level))
        order: list[Any] = [queue.get() for _ in levels]
        return [request.tenant for request in order]

    came = ", ".join(
        f"{who} (level {levels[who]}) at {arrivals[who]} s"
        for who in sorted(levels, key=lambda w: arrivals[w])
    )
    return Question(
        name,
        seed,
        f"Priority with ageing: {ageing} s of waiting are worth one level, lower levels go first. {came} "
        "came in; at "
        f"{3 * ageing} s a single slot becomes free and serves all three. In which order? (a list of names)",
        {"ageing_s": ageing, "arrivals": arrivals, "levels": levels},
        Order(truth),
        "Order by arrival + ageing × level: who comes out lowest goes first.",
        lambda: "\n".join(
            f"{who}: {arrivals[who]} + {ageing} × {level} = {arrivals[who] + ageing * level}"
            for who, level in levels.items()
        ),
    )


def cobham_wait(name: str, seed: int, rng: np.random.Generator) -> Question:
    service = float(rng.integers(1, 6))
    high, low = float(rng.integers(3, 6)) / 10, float(rng.integers(2, 5)) / 10

    def waits() -> list[float]:
        return cobham((high + low) * service, [high, low])

    return Question(
        name,
        seed,
        f"One slot, Poisson arrivals, exponential service of {service:g} s on average, strict priority "
        "without "
        f"interruption. Chat (level 0) keeps the slot busy {per_cent(high)} of the time, the nightly job "
        f"(level 1) {per_cent(low)}. What is the nightly job's mean wait, in seconds?",
        {"service_s": service, "chat_load": high, "nightly_load": low},
        Number(lambda: waits()[1], "s"),
        "Cobham: W = W0 / ((1 − ρ₀)(1 − ρ₀ − ρ₁)), where W0 = (ρ₀ + ρ₁)·S for exponential service.",
        lambda: (
            f"W0 = {high + low:g} × {service:g} s = {(high + low) * service:g} s\n"
            f"W = {(high + low) * service:g} / ((1 − {high:g}) · (1 − {high:g} − {low:g})) s"
        ),
        points=3,
    )


def ageing_for(name: str, seed: int, rng: np.random.Generator) -> Question:
    minutes = int(rng.choice([3, 5, 8, 10, 15, 20]))
    levels = int(rng.choice([1, 2, 3]))
    return Question(
        name,
        seed,
        f"The nightly job stands {levels} level{'s' if levels > 1 else ''} below chat. You promise: once "
        "one of its requests has "
        f"waited {minutes} minutes, it goes before every chat request that arrives from then on, and not "
        "a minute "
        "earlier than necessary. Which ageing (seconds of waiting worth one level) do you set?",
        {"minutes": minutes, "levels": levels},
        Number(lambda: minutes * 60 / levels, "s per level", 1e-6),
        f"It must make up {levels} level{'s' if levels > 1 else ''} in {minutes * 60} s.",
        lambda: f"{levels} × ageing = {minutes} × 60 s, so ageing = {minutes * 60} / {levels} s",
    )


QUESTIONS = {"who_is_next": who_is_next, "cobham": cobham_wait, "ageing_for": ageing_for}
