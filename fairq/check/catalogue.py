"""Which questions there are. A new one: a function in its notebook's file, and a row in that file's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from fairq.check import ageing, burst, busy, caps, card, own_box, people, replicas, start, turns
from fairq.check.question import Question
from fairq.files import nearest

Maker: TypeAlias = Callable[[str, int, np.random.Generator], Question]

TOPICS: Mapping[str, Mapping[str, Maker]] = {
    "start": start.QUESTIONS,
    "busy": busy.QUESTIONS,
    "burst": burst.QUESTIONS,
    "caps": caps.QUESTIONS,
    "ageing": ageing.QUESTIONS,
    "turns": turns.QUESTIONS,
    "card": card.QUESTIONS,
    "replicas": replicas.QUESTIONS,
    "people": people.QUESTIONS,
    "own_box": own_box.QUESTIONS,
}
"""Topic (of notebooks 00 to 09, in this order) → its questions."""


def names() -> list[str]:
    """All questions, as ``topic/question``."""
    return [f"{topic}/{name}" for topic, made in TOPICS.items() for name in made]


def question(name: str, seed: int = 1) -> Question:
    """A question with the numbers of a seed: another seed, other numbers; the same seed, the same.

    Raises
    ------
    ValueError : no such question (the message lists them), or a seed that is no whole number >= 0.
    """
    if name not in names():
        raise ValueError(
            f"question must be one of {', '.join(names())}, got {name!r}{nearest(name, names())}"
        )
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed must be a whole number >= 0, got {seed!r}")
    topic, _, short = name.partition("/")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(name.encode())))
    return TOPICS[topic][short](name, seed, rng)
