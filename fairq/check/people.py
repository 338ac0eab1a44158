"""Notebook 08, what do we tell people: tokens per second each, order or capacity, sums that must agree."""

from __future__ import annotations

import numpy as np

from fairq.capacity.shape import Shape
from fairq.check.answers import Choice, Number, Whole
from fairq.check.question import Question
from fairq.profiles import load_profile

CLOSE = 1.25
"""Two walls less than this factor apart are too close to ask about."""


def each_gets(name: str, seed: int, rng: np.random.Generator) -> Question:
    streams = int(rng.integers(4, 33))
    total = 10.0 * int(rng.integers(40, 140))
    return Question(
        name,
        seed,
        f"The card's page says: {total:,.0f} tokens per second in all, measured with {streams} requests "
        "running. How "
        f"many tokens per second does each of the {streams} get?",
        {"streams": streams, "tokens_per_s": total},
        Number(lambda: total / streams, "tokens/s"),
        "A total belongs to its number of streams.",
        lambda: f"{total:g} / {streams}",
        points=1,
    )


def order_or_capacity(name: str, seed: int, rng: np.random.Generator) -> Question:
    slots = int(rng.choice([8, 16, 32]))
    service = float(rng.integers(4, 13))
    load = float(rng.choice([0.5, 0.7, 0.8, 1.15, 1.3, 1.6]))
    rate = round(load * slots / service, 2)
    return Question(
        name,
        seed,
        f"{slots} slots; all tenants together send {rate:g} requests per second, day and night, of "
        f"{service:g} s each. "
        'People wait too long. Would another *order* help ("order"), or is only capacity or less demand left '
        '("capacity")?',
        {"slots": slots, "rate_per_s": rate, "service_s": service},
        Choice(lambda: "capacity" if rate * service >= slots else "order", ("order", "capacity")),
        "Compare what comes, in slots, with the slots there are.",
        lambda: f"{rate:g} /s × {service:g} s = {rate * service:.3g} slots wanted, {slots} there",
    )


def how_many(name: str, seed: int, rng: np.random.Generator) -> Question:
    exact = 0.0
    # Not near a whole number: there the digits that one carries along would decide.
    while abs(exact - round(exact)) < 0.2:
        profile = load_profile(str(rng.choice(["rtx4090-llama31-8b", "rtxpro6000-llama31-8b"])))
        context = 250 * int(rng.integers(2, 9))
        least = float(rng.choice([25, 30, 40, 45]))
        exact = (1000 / least - profile.a_ms) / (profile.b_ms + profile.c_ms * context)

    def step_ms(n: int) -> float:
        return profile.a_ms + profile.b_ms * n + profile.c_ms * n * context

    def truth() -> int:
        n = 1
        while 1000 / step_ms(n + 1) >= least:
            n += 1
        return n

    return Question(
        name,
        seed,
        f"On this card a step takes {profile.a_ms:g} + {profile.b_ms:g}·n + {profile.c_ms:g}·(context "
        "tokens of all) "
        f"ms with n requests running, each of them gets one token per step, and each holds {context:,} "
        "tokens of "
        f"context. How many can run at most so that each still gets {least:g} tokens per second?",
        {
            "a_ms": profile.a_ms,
            "b_ms": profile.b_ms,
            "c_ms": profile.c_ms,
            "context": context,
            "least": least,
        },
        Whole(truth, "requests"),
        f"{least:g} tokens per second means a step of at most {1000 / least:.5g} ms. Solve for n, round "
        "down.",
        lambda: (
            f"n · ({profile.b_ms:g} + {profile.c_ms:g} × {context:,}) ≤ {1000 / least:.5g} − "
            f"{profile.a_ms:g}\n"
            f"n ≤ {exact:.2f}, rounded down"
        ),
        points=3,
    )


def what_binds(name: str, seed: int, rng: np.random.Generator) -> Question:
    profile = load_profile("rtx4090-llama31-8b")
    held = profile.kv_tokens or 0
    fit = slots = 1.0
    # An engine keeps some of its KV free: too close a case would hang on that, and not on the two numbers.
    while CLOSE > fit / slots > 1 / CLOSE:
        prompt, output = 250 * int(rng.integers(1, 17)), 100 * int(rng.integers(2, 9))
        slots = int(rng.choice([8, 16, 256]))
        shape = Shape.of(prompt, output)
        fit = held / shape.context_tokens

    return Question(
        name,
        seed,
        f"An engine started with max_num_seqs = {slots} has room for {held:,} KV tokens. A "
        "request of "
        f"{prompt} prompt and {output} generated tokens holds {shape.context_tokens:,.0f} tokens on "
        "average while it "
        'runs. What is full first when more and more people come: "slots" or "KV"?',
        {"slots": slots, "kv_tokens": held, "context": shape.context_tokens},
        Choice(lambda: "slots" if slots < fit else "KV", ("slots", "KV")),
        "How many requests fit into the KV tokens? Compare with the slots.",
        lambda: f"{held:,} / {shape.context_tokens:,.0f} ≈ {fit:.0f} requests, {slots} slots",
    )


QUESTIONS = {
    "each_gets": each_gets,
    "order_or_capacity": order_or_capacity,
    "how_many": how_many,
    "what_binds": what_binds,
}
