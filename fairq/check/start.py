"""Notebook 00, it was fine last week: how long you wait behind a pile, and who pays when it stands aside."""

from __future__ import annotations

import numpy as np

from fairq import FIFO, Request
from fairq.check.answers import Number, per_cent
from fairq.check.burst import wait_behind
from fairq.check.question import Question
from fairq.sim import SlotEngine, simulate

WITHIN = 0.05
"""Room for whoever counts the requests in service as done, or as waiting: that is off by less."""


def behind_the_pile(name: str, seed: int, rng: np.random.Generator) -> Question:
    slots = int(rng.choice([4, 6, 8, 12]))
    service = float(rng.integers(3, 13))
    rounds = int(rng.integers(32, 49))
    pile = slots * rounds
    # Late enough that it shows when it is forgotten, with more than twenty rounds still to go.
    later = float(round(rng.uniform(0.15, 0.33) * rounds * service))

    return Question(
        name,
        seed,
        f"A card has {slots} slots, all free. A job puts {pile} requests of {service:g} s each in line at "
        f"one moment; you ask {later:g} s later, and nobody else in between. First come, first served: how "
        f"many seconds do you wait until your request gets a slot? (Within {per_cent(WITHIN)} counts.)",
        {"slots": slots, "service_s": service, "pile": pile, "later_s": later},
        Number(lambda: wait_behind(pile, service, slots, later), "s", WITHIN),
        "All slots work at the pile: when is the whole pile done? You do not wait from the moment of the "
        "pile on, but from the moment you ask.",
        lambda: (
            f"the whole pile: {pile} / {slots} slots × {service:g} s = {pile * service / slots:g} s\n"
            f"of these {later:g} s are over when you ask: {pile * service / slots:g} − {later:g}"
        ),
    )


def stands_aside(name: str, seed: int, rng: np.random.Generator) -> Question:
    slots = int(rng.choice([6, 8, 12]))
    short, long = float(rng.integers(2, 6)), float(rng.integers(8, 16))
    # The pile itself takes longer than the others do: the two times are never mistaken for each other.
    others, pile = slots * int(rng.integers(10, 20)), slots * int(rng.integers(14, 21))

    def pile_done(others_first: bool) -> float:
        nightly = [Request("nightly", 1, arrival=0.0, service=long) for _ in range(pile)]
        rest = [Request("others", 1, arrival=0.0, service=short) for _ in range(others)]
        requests = rest + nightly if others_first else nightly + rest
        rows = simulate(requests, FIFO(), SlotEngine(slots)).requests
        return float(rows.loc[rows["tenant"] == "nightly", "finish"].max())

    judge = Number(lambda: pile_done(others_first=True) - pile_done(others_first=False), "s")
    return Question(
        name,
        seed,
        f"A pile of {pile} requests of {long:g} s each stands in line for {slots} slots, and right behind it "
        f"{others} requests of other people, {short:g} s each. Now the other people are served first. By how "
        f"many seconds is the pile done later than before? (Within {per_cent(judge.within)} counts.)",
        {"slots": slots, "pile": pile, "long_s": long, "others": others, "short_s": short},
        judge,
        "The slots do the same work in another order. How much of their time do the others take, and how "
        "many slots share that?",
        lambda: (
            f"the others take {others} × {short:g} s = {others * short:g} seconds of slot time\n"
            f"{slots} slots share it: {others * short:g} / {slots} = {others * short / slots:g} s"
        ),
    )


QUESTIONS = {"behind_the_pile": behind_the_pile, "stands_aside": stands_aside}
