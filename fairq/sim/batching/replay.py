"""Requests straight into an engine, without a gateway: how a run of a real engine is replayed."""

from __future__ import annotations

from collections.abc import Sequence as Several

from fairq.sim.batching.core import EPS, BatchCore
from fairq.sim.batching.sequence import Sequence


def replay(core: BatchCore, arrivals: Several[tuple[float, Sequence]]) -> list[Sequence]:
    """Feed sequences at their arrival times (seconds, in order) and run until all are done.

    Returns the sequences, in input order, with ``scheduled``, ``first``, ``finish`` and ``preemptions``
    filled. Raises ``ValueError`` before anything runs when an arrival is out of order or a sequence can never
    be served.
    """
    latest = float("-inf")
    for row, (arrival, sequence) in enumerate(arrivals):
        if not arrival >= latest:
            raise ValueError(
                f"arrivals must be in order: entry {row} comes at {arrival!r} s, after {latest!r} s"
            )
        latest = arrival
        try:
            core.limits.check(sequence.prompt, sequence.output)
        except ValueError as error:
            raise ValueError(f"entry {row} ({sequence.tag!r}): {error}") from None
    at, total = 0, len(arrivals)
    while True:
        upcoming = core.next_change() if at == total or arrivals[at][0] > core.at + EPS else None
        if at < total and (upcoming is None or arrivals[at][0] <= upcoming):
            core.add(arrivals[at][1], arrivals[at][0])
            at += 1
        elif upcoming is None:
            return [sequence for _, sequence in arrivals]
        else:
            core.advance()
