"""Notebook 07, where does my conversation live: affinity, what a failure costs, hit rates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from fairq.check.answers import Number
from fairq.check.question import Question
from fairq.sim.replicas import rendezvous


def home(conversation: str, replicas: Sequence[str]) -> str:
    """Where a conversation lives: on the replica with the largest number."""
    return max(replicas, key=lambda replica: rendezvous(conversation, replica))


@cache
def movers(replicas: int, conversations: int) -> int:
    """How many of so many conversations live on the last replica: those that move when it fails."""
    names = [f"replica-{n}" for n in range(replicas)]
    return sum(home(f"conversation-{n}", names) == names[-1] for n in range(conversations))


def who_moves(name: str, seed: int, rng: np.random.Generator) -> Question:
    replicas = int(rng.integers(3, 9))
    conversations = 500 * int(rng.integers(4, 9))
    return Question(
        name,
        seed,
        f"{conversations:,} conversations live on {replicas} replicas by rendezvous hashing. One replica "
        "fails. How "
        "many conversations move, roughly?",
        {"replicas": replicas, "conversations": conversations},
        Number(lambda: movers(replicas, conversations), "conversations", 0.2),
        "Only those that lived on the failed replica move, and the hash spreads conversations evenly.",
        lambda: (
            f"about 1 / {replicas} of {conversations:,} = {conversations / replicas:,.0f}; counted with "
            "the hash itself:"
        ),
    )


def one_off(name: str, seed: int, rng: np.random.Generator) -> Question:
    history = 500 * int(rng.integers(6, 24))
    # A tenth of the history at least: who counts the message, too, must not be right by the tolerance.
    message = 50 * int(np.ceil(history * float(rng.uniform(0.1, 0.25)) / 50))
    p_ms = float(rng.choice([0.031, 0.0405, 0.0932, 0.118]))
    return Question(
        name,
        seed,
        f"A conversation of {history:,} tokens comes back with a new message of {message:,} tokens. "
        "Computing a prompt "
        f"token takes {p_ms:g} ms. How many seconds later does the answer begin on a replica that does "
        "not have "
        "the history in its cache, compared with one that does?",
        {"history": history, "message": message, "p_ms": p_ms},
        Number(lambda: history * p_ms / 1000, "s"),
        "The new message must be computed on both; the history only where it is not cached.",
        lambda: (
            f"with the history cached: {message:,} × {p_ms:g} ms\n"
            f"without: ({history:,} + {message:,}) × {p_ms:g} ms\n"
            f"difference: {history:,} × {p_ms:g} ms"
        ),
    )


def hit_rate(name: str, seed: int, rng: np.random.Generator) -> Question:
    turns = int(rng.integers(3, 9))
    first = 100 * int(rng.integers(5, 30))
    step = 100 * int(rng.integers(2, 8))

    def truth() -> float:
        prompts = [first + turn * step for turn in range(turns)]
        cached = sum(prompts[turn - 1] for turn in range(1, turns))
        return 100 * cached / sum(prompts)

    return Question(
        name,
        seed,
        f"A conversation has {turns} turns. The first prompt has {first:,} tokens, and each later prompt "
        f"is the prompt before and {step} tokens more. It always comes to the same replica, which kept all "
        "earlier "
        "prompts. What part of all prompt tokens is found in the cache, in per cent?",
        {"turns": turns, "first": first, "step": step},
        Number(truth, "%"),
        "Turn n finds the prompt of turn n − 1. Add up what is found, divide by the sum of all prompts.",
        lambda: (
            f"prompts: {', '.join(str(first + turn * step) for turn in range(turns))}\n"
            f"found: all of them but the last, shifted by one turn: "
            f"{sum(first + turn * step for turn in range(turns - 1)):,} of "
            f"{sum(first + turn * step for turn in range(turns)):,}"
        ),
        points=3,
    )


QUESTIONS = {"who_moves": who_moves, "one_off": one_off, "hit_rate": hit_rate}
