"""The policies under contract: one row each, with its own traits. A new policy is one row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fairq import DRR, FIFO, SFQ, VTC, AccumulatingPriority, Levels, Nested, Policy, Priority, Shortest
from fairq.counterexamples import ChargeAtTheEnd, DeficitWithoutQuantum, NoLift, RoundRobin


@dataclass(frozen=True)
class Row:
    """A policy and what is special about it.

    ``make(weights)``: a fresh policy. ``rank(request)``: requests of one tenant and key with equal rank leave
    first in, first out. ``spread``: for fair policies, Q in the bound on the difference of dispatched cost
    over weight between two backlogged tenants, Q + L_i/w_i + L_j/w_j; ``None`` promises no shares.
    ``earliest``: among a tenant's keys that may run, the earliest request goes first.
    """

    make: Callable[[dict[str, Any]], Policy]
    rank: Callable[[Any], Any] = lambda request: 0
    spread: Any = None
    weights: bool = False
    needs_arrival: bool = False
    earliest: bool = True


def fair(make: Callable[[dict[str, Any]], Policy], spread: Any) -> Row:
    return Row(make, spread=spread, weights=True)


ROWS: dict[str, Row] = {
    "FIFO": Row(lambda w: FIFO()),
    "strict priority": Row(lambda w: Priority(ageing=None), rank=lambda r: r.priority, earliest=False),
    "ageing 3": Row(
        lambda w: Priority(ageing=3), rank=lambda r: r.priority, needs_arrival=True, earliest=False
    ),
    "ageing 0": Row(lambda w: Priority(ageing=0), needs_arrival=True),
    "DRR 10": fair(lambda w: DRR(10, w), 10),
    "DRR 1": fair(lambda w: DRR(1, w), 1),
    "DRR 5/2": fair(lambda w: DRR(Fraction(5, 2), w), Fraction(5, 2)),
    "VTC": fair(lambda w: VTC(w), 0),
    "SFQ": fair(lambda w: SFQ(w), 0),
    "accumulating priority": Row(
        lambda w: AccumulatingPriority({0: 4, 1: 2, 2: 1}),
        rank=lambda r: r.priority,
        needs_arrival=True,
        earliest=False,
    ),
    "levels": Row(
        lambda w: Levels({0: DRR(10, w), 1: VTC(w), 2: FIFO()}),
        rank=lambda r: r.priority,
        weights=True,
        earliest=False,
    ),
    "levels that age": Row(
        lambda w: Levels({0: FIFO(), 1: SFQ(w), 2: AccumulatingPriority({2: 1})}, ageing=3),
        rank=lambda r: r.priority,
        weights=True,
        needs_arrival=True,
        earliest=False,
    ),
    "nested": Row(
        lambda w: Nested({"a": "org", "b": "org"}, lambda branch: DRR(10, w), {"org": 2}), weights=True
    ),
    "nested twice": Row(
        lambda w: Nested(
            {"a": "firm", "b": "firm"},
            lambda branch: Nested({}, lambda tenant: DRR(5)) if branch == "firm" else VTC(),
        ),
        weights=True,
    ),
    "shortest": Row(lambda w: Shortest(), rank=lambda r: r.cost, earliest=False),
    # what not to do keeps the verbs all the same
    "no lift": Row(lambda w: NoLift(w), weights=True),
    "charge at the end": Row(lambda w: ChargeAtTheEnd(w), weights=True),
    "round robin": Row(lambda w: RoundRobin()),
    "deficit without quantum": Row(lambda w: DeficitWithoutQuantum(w), weights=True),
}

FAIR = {name: row for name, row in ROWS.items() if row.spread is not None}
