"""Notebook 03, how many at once: slots under caps, the price of a cap, keys against tenants."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np

from fairq import FIFO, KeyCaps, Request
from fairq.check.answers import Number, Whole
from fairq.check.question import Question
from fairq.sim import SlotEngine, simulate


def started(waiting: Mapping[str, int], slots: int, default: int, batch: Mapping[str, Any]) -> int:
    """How many of the requests start at once on ``slots`` free slots."""
    queue = KeyCaps(FIFO(), default=default, groups=dict(batch))
    for key, n in waiting.items():
        for _ in range(n):
            queue.put(Request(key, 1, arrival=0.0))
    running = 0
    while running < slots and queue.get() is not None:
        running += 1
    return running


def busy_slots(name: str, seed: int, rng: np.random.Generator) -> Question:
    slots = int(rng.choice([8, 10, 12]))
    cap = int(rng.choice([2, 3]))
    limit = int(rng.choice([1, 2, 3]))
    people = {key: int(rng.integers(1, 6)) for key in ("ana", "ben")}
    waiting = {**people, "nightly": int(rng.integers(20, 90)), "reindex": int(rng.integers(20, 90))}
    batch = {"batch": (["nightly", "reindex"], limit)}
    listed = ", ".join(f"{key} {n}" for key, n in waiting.items())

    def work() -> str:
        parts = [f"{key}: min({n} waiting, cap {cap}) = {min(n, cap)}" for key, n in people.items()]
        total = sum(min(n, cap) for n in people.values()) + limit
        return "\n".join([*parts, f"batch group: {limit} in all", f"busy = min({slots}, {total})"])

    return Question(
        name,
        seed,
        f"{slots} free slots; each key may have {cap} requests in service, and the batch keys nightly and "
        "reindex "
        f"{limit} in total. Waiting: {listed}. How many slots are busy once everything that may start has "
        "started?",
        {"slots": slots, "cap": cap, "batch_limit": limit, "waiting": waiting},
        Whole(lambda: started(waiting, slots, cap, batch), "slots"),
        "For each person the lesser of what waits and the cap; for the batch keys the limit of their group.",
        work,
    )


def under_a_cap(name: str, seed: int, rng: np.random.Generator) -> Question:
    slots = int(rng.choice([8, 12, 16]))
    cap = int(rng.choice([1, 2, 3]))
    jobs = slots * cap * int(rng.integers(5, 20))
    service = float(rng.integers(2, 10))

    def truth() -> float:
        requests = [Request("nightly", 1, arrival=0.0, service=service) for _ in range(jobs)]
        return float(simulate(requests, KeyCaps(FIFO(), default=cap), SlotEngine(slots)).makespan)

    return Question(
        name,
        seed,
        f"A nightly job of {jobs} requests of {service:g} s each is alone on a card of {slots} slots, "
        "under a cap of "
        f"{cap} per key. After how many seconds is it done?",
        {"slots": slots, "cap": cap, "requests": jobs, "service_s": service},
        Number(truth, "s"),
        f"A cap counts also when nobody else is there. How many of the {slots} slots does the job hold?",
        lambda: (
            f"it holds {cap} of {slots} slots, so {jobs} / {cap} rounds of {service:g} s = "
            f"{jobs / cap * service:g} s\n"
            f"(without the cap it would be {jobs / slots * service:g} s)"
        ),
    )


def keys_for_half(name: str, seed: int, rng: np.random.Generator) -> Question:
    slots = int(rng.choice([8, 12, 16, 24, 32]))
    cap = int(rng.choice([1, 2, 3]))

    def truth() -> int:
        for keys in range(1, slots + 1):
            waiting = {f"key-{n}": 100 for n in range(keys)}
            if started(waiting, slots, cap, {}) >= slots / 2:
                return keys
        raise AssertionError("one key per slot is always enough")

    return Question(
        name,
        seed,
        f"A card of {slots} slots with a cap of {cap} per API key and no other limit. How many keys must "
        "one tenant "
        "use, with plenty of requests behind each, to be allowed to hold at least half of the slots?",
        {"slots": slots, "cap": cap},
        Whole(truth, "keys"),
        "Each key may hold as many slots as the cap says; nobody counts the tenant.",
        lambda: (
            f"half of {slots} is {slots / 2:g}; {slots / 2:g} / {cap} = {slots / 2 / cap:.3g} → "
            f"{ceil(slots / 2 / cap)}"
        ),
    )


QUESTIONS = {"busy_slots": busy_slots, "under_a_cap": under_a_cap, "keys_for_half": keys_for_half}
