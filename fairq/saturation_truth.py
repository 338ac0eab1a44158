"""Is the verdict right? Simulated boxes whose trouble is known, over a grid of loads.

The truth is not read off the curves that the verdict sees. It comes from other runs of the same requests:

* capacity: what the box serves per second while everything has come at once; the same with twice the KV
  cache, with twice the slots, and with both (*relief*);
* load: what comes per second over that capacity (for closed loops: what all would be served at if all ran);
* saturated: load >= relief. KV-bound or slot-bound: 0.9 <= load < relief, by which of the two relieves more.
  bursty: load < 0.9. fine: nine of ten requests wait less than a tenth of their time in service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fairq import FIFO
from fairq.profiles import load_profile
from fairq.saturation import BURSTY, FINE, KV, SATURATED, SLOTS, VERDICTS, judge, series_of
from fairq.sim import simulate
from fairq.sim.batching import BatchingEngine
from fairq.workload import ClosedLoop, Fixed, Lognormal, OnOff, Poisson, Tenant, Workload

SPARE = 0.9
"""Load from which a box has nothing left to catch up with."""


@dataclass(frozen=True)
class Box:
    """An engine with its requests. ``streams``: about how many run when it is full."""

    name: str
    slots: int
    kv_tokens: int
    prompt: float
    output: float
    streams: int

    def relieved(self, slots: int = 1, kv: int = 1) -> Box:
        return replace(self, slots=self.slots * slots, kv_tokens=self.kv_tokens * kv)

    def engine(self) -> BatchingEngine:
        return BatchingEngine(
            load_profile("rtx4090-llama31-8b"),
            max_num_seqs=self.slots,
            kv_tokens=self.kv_tokens,
            gateway_slots=0,
        )

    def tenant(self, arrivals: Any) -> Tenant:
        return Tenant(
            "all", "all", arrivals, Lognormal(self.prompt, 0.4), Lognormal(self.output, 0.4), keys=None
        )


BOXES = (
    Box("KV cache of 16k tokens, 256 slots", 256, 16_384, 600, 150, 20),
    Box("8 slots, KV cache of 41k tokens", 8, 41_408, 400, 150, 8),
)
LOADS = (0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 4.0)
CROWDS = (0.5, 1.25, 1.5, 1.75, 3.0, 5.0)
"""Users of a closed loop per stream."""
HORIZON_S = 400.0


@dataclass(frozen=True)
class Case:
    """One run and its truth: what comes, over what is served; the relief; the verdicts."""

    box: str
    pattern: str
    load: float
    relief: float
    truth: str
    verdict: str

    @property
    def near(self) -> bool:
        """Whether its load is within 15 % of where the truth changes."""
        return any(abs(self.load / edge - 1) < 0.15 for edge in (SPARE, self.relief))


def cases(
    boxes: Sequence[Box] = BOXES,
    loads: Sequence[float] = LOADS,
    crowds: Sequence[float] = CROWDS,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Case]:
    """Runs the grid: every box under steady arrivals and under bursts at every load, and with every crowd."""
    total = len(boxes) * (2 * len(loads) + len(crowds))
    found: list[Case] = []
    for box in boxes:
        capacity = _capacity(box, seed)
        kv, slots = (_capacity(box.relieved(**how), seed) / capacity for how in ({"kv": 2}, {"slots": 2}))
        relief = _capacity(box.relieved(slots=2, kv=2), seed) / capacity
        bound = KV if kv > slots else SLOTS
        for pattern, load, arrivals in _demands(box, loads, crowds, capacity):
            result = simulate(
                Workload([box.tenant(arrivals)], HORIZON_S), FIFO(), box.engine(), seed=seed, until=HORIZON_S
            )
            if pattern == "closed loop":
                load = _unhindered(box, round(load * box.streams), seed) / capacity
            truth = _truth(result.requests, load, relief, bound)
            verdict = judge(series_of(result), slots=box.slots)
            found.append(Case(box.name, pattern, load, relief, truth, verdict.name))
            if progress is not None:
                progress(len(found), total)
    return found


def confusion(found: Sequence[Case]) -> pd.DataFrame:
    """How often which truth got which verdict: rows truth, columns verdict, both in the table's order."""
    order = [FINE, BURSTY, KV, SLOTS, SATURATED]
    assert set(order) == set(VERDICTS)
    counts = [
        [sum(case.truth == truth and case.verdict == verdict for case in found) for verdict in order]
        for truth in order
    ]
    return pd.DataFrame(counts, index=pd.Index(order, name="truth"), columns=pd.Index(order, name="verdict"))


def _demands(
    box: Box, loads: Sequence[float], crowds: Sequence[float], capacity: float
) -> Iterator[tuple[str, float, Any]]:
    for load in loads:
        yield "steady", load, Poisson(load * capacity)
    for load in loads:
        # Ten seconds of every forty, four times as fast.
        yield "bursts", load, OnOff(4 * load * capacity, 10, 30)
    for crowd in crowds:
        yield "closed loop", crowd, ClosedLoop(max(round(crowd * box.streams), 1), Fixed(0.5))


def _truth(requests: pd.DataFrame, load: float, relief: float, bound: str) -> str:
    done = requests[requests["finish"].notna()]
    scheduled = done["scheduled"].to_numpy(dtype=float)
    wait = scheduled - done["arrival"].to_numpy(dtype=float)
    service = done["finish"].to_numpy(dtype=float) - scheduled
    if load < 1 and np.mean(wait < 0.1 * service.mean()) >= 0.9:
        return FINE
    if load >= relief:
        return SATURATED
    return bound if load >= SPARE else BURSTY


def _capacity(box: Box, seed: int) -> float:
    """Requests per second while everybody has come: without the filling and the emptying of the box."""
    n = 40 * box.streams
    workload = Workload([box.tenant(Poisson(n / 1.0))], 1.0)
    return _rate(simulate(workload, FIFO(), box.engine(), seed=seed + 1).requests["finish"])


def _unhindered(box: Box, users: int, seed: int) -> float:
    """Requests per second of a closed loop in a box where all of them run."""
    room = replace(box, slots=max(users, 1), kv_tokens=max(users, 2) * 8_192)
    workload = Workload([room.tenant(ClosedLoop(max(users, 1), Fixed(0.5)))], 120.0)
    return _rate(simulate(workload, FIFO(), room.engine(), seed=seed + 1).requests["finish"])


def _rate(finishes: Any) -> float:
    times = np.sort(np.asarray(finishes, dtype=float))
    times = times[~np.isnan(times)]
    low, high = len(times) // 5, 4 * len(times) // 5
    return float((high - low) / (times[high] - times[low]))
