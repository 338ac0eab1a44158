"""A simulated run as a film: what the box looked like at any moment, per tenant, counters and all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

BUCKETS = tuple(
    float(f"{digits}e{power}")
    for power in range(-2, 4)
    for digits in (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8)
    if (power, digits) <= (3, 5)
)
"""Upper ends of the histograms' buckets, in seconds, 10 ms to 5,000 s; one more has no end. Ten a decade, so
that a quantile read from them is at most 28 % off; engines' own pages have coarser ones."""

TOKEN_BUCKETS = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5)

HISTOGRAMS: Mapping[str, Sequence[float]] = {"ttft": BUCKETS, "tpot": TOKEN_BUCKETS, "latency": BUCKETS}


@dataclass
class Histogram:
    """Counts per bucket (not cumulated; the last has no upper end) and the sum of what was observed."""

    counts: NDArray[np.int64]
    total: float

    def plus(self, other: Histogram) -> Histogram:
        return Histogram(self.counts + other.counts, self.total + other.total)


@dataclass
class TenantState:
    """One tenant at one moment. Counts since the start of the film."""

    waiting: int = 0
    running: int = 0
    arrived: int = 0
    finished: int = 0
    cancelled: int = 0
    refused: int = 0
    prompted: int = 0
    generated: int = 0
    preemptions: int = 0
    histograms: dict[str, Histogram] = field(default_factory=dict)

    def plus(self, counted: TenantState) -> TenantState:
        """With the counters of an earlier run added; what waits and runs is now's."""
        names = ("arrived", "finished", "cancelled", "refused", "prompted", "generated", "preemptions")
        sums = {name: getattr(self, name) + getattr(counted, name) for name in names}
        histograms = {
            name: each.plus(counted.histograms[name]) if name in counted.histograms else each
            for name, each in self.histograms.items()
        }
        return TenantState(self.waiting, self.running, **sums, histograms=histograms)


@dataclass
class State:
    """The box at one moment: ``t`` simulated seconds since the start, ``kv`` 0 to 1 (None: no KV cache)."""

    t: float
    tenants: dict[str, TenantState]
    kv: float | None


class Film:
    """One run (a ``fairq.result.Result``), to be looked at in any order.

    Whoever was released by the gateway but waits inside the engine waits, too. An answer's tokens come
    evenly between its first token and its finish; preemptions are counted when the request finishes.
    """

    def __init__(self, result: Any) -> None:
        rows: pd.DataFrame = result.all_requests
        self.end = float(result.end)
        self.tenants = list(dict.fromkeys(map(str, rows["tenant"])))
        engine = result.engine
        self._kv = None
        if engine is not None and "kv_pct" in engine:
            self._kv = engine["t"].to_numpy(dtype=float), engine["kv_pct"].to_numpy(dtype=float) / 100
        labels = rows["tenant"].astype(str).to_numpy()
        self._rows = {name: _Rows(rows[labels == name]) for name in self.tenants}

    def at(self, t: float) -> State:
        """The state right after everything that happens at ``t`` (seconds of the run)."""
        return State(t, {name: rows.at(t) for name, rows in self._rows.items()}, self._kv_at(t))

    def _kv_at(self, t: float) -> float | None:
        if self._kv is None:
            return None
        times, kv = self._kv
        place = int(np.searchsorted(times, t, side="right")) - 1
        return float(kv[place]) if place >= 0 else 0.0


class _Rows:
    """One tenant's requests, as sorted times."""

    def __init__(self, rows: pd.DataFrame) -> None:
        def column(name: str) -> NDArray[np.float64]:
            return rows[name].to_numpy(dtype=float)

        began = column("scheduled") if "scheduled" in rows else column("start")
        status = rows["status"].astype(str).to_numpy()
        first, finish = column("first_token"), column("finish")
        output = np.nan_to_num(_numbers(rows["output_tokens"]))
        prompt = np.nan_to_num(_numbers(rows["prompt_tokens"]))
        self._arrived = np.sort(column("arrival"))
        self._began = _times(began)
        self._finished = _times(finish)
        self._gone = {what: _times(column("left")[status == what]) for what in ("cancelled", "refused")}
        known = ~np.isnan(first)
        order = np.argsort(first[known], kind="stable")
        self._first = first[known][order]
        self._first_prompt = np.concatenate([[0.0], np.cumsum(prompt[known][order])])
        self._speaking = first[known][order], finish[known][order], output[known][order]
        done = ~np.isnan(finish)
        by_finish = np.argsort(finish[done], kind="stable")
        if "preemptions" in rows:
            counts = _numbers(rows["preemptions"])[done][by_finish]
            self._preempted = np.concatenate([[0.0], np.cumsum(np.nan_to_num(counts))])
        else:
            self._preempted = np.zeros(int(done.sum()) + 1)
        rest = output - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            tpot = np.where(rest > 0, (finish - first) / rest, np.nan)
        arrival = column("arrival")
        self._observed = {
            "ttft": _Observed(first, first - arrival, BUCKETS),
            "tpot": _Observed(finish, tpot, TOKEN_BUCKETS),
            "latency": _Observed(finish, finish - arrival, BUCKETS),
        }

    def at(self, t: float) -> TenantState:
        arrived, began, finished = (_by(t, each) for each in (self._arrived, self._began, self._finished))
        gone = {what: _by(t, times) for what, times in self._gone.items()}
        return TenantState(
            waiting=arrived - began - sum(gone.values()),
            running=began - finished,
            arrived=arrived,
            finished=finished,
            cancelled=gone["cancelled"],
            refused=gone["refused"],
            prompted=int(self._first_prompt[_by(t, self._first)]),
            generated=self._generated(t),
            preemptions=int(self._preempted[finished]),
            histograms={name: each.at(t) for name, each in self._observed.items()},
        )

    def _generated(self, t: float) -> int:
        first, finish, output = (each[: _by(t, self._first)] for each in self._speaking)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(finish > first, (t - first) / (finish - first), 1.0)
        # An answer that is never finished in this run has no end to count towards.
        part = np.where(np.isnan(finish), 0.0, np.minimum(part, 1.0))
        return int(np.floor(np.minimum(1, output) + np.maximum(output - 1, 0) * part + 1e-9).sum())


class _Observed:
    """Values and when each was observed."""

    def __init__(
        self, when: NDArray[np.float64], values: NDArray[np.float64], buckets: Sequence[float]
    ) -> None:
        known = ~(np.isnan(when) | np.isnan(values))
        order = np.argsort(when[known], kind="stable")
        self._when = when[known][order]
        values = values[known][order]
        self._bucket = np.searchsorted(np.asarray(buckets), values, side="left")
        self._sum = np.concatenate([[0.0], np.cumsum(values)])
        self._size = len(buckets) + 1

    def at(self, t: float) -> Histogram:
        n = _by(t, self._when)
        return Histogram(np.bincount(self._bucket[:n], minlength=self._size), float(self._sum[n]))


class Playback:
    """Films one after another, as one that never ends (or, ``once``, that stops at its last picture).

    Parameters
    ----------
    film : makes the film of replication r = 0, 1, 2, …
    clock : simulated seconds since the start; never goes back.
    once : stay at the end of the first film.
    """

    def __init__(
        self, film: Callable[[int], Film], clock: Callable[[], float], *, once: bool = False
    ) -> None:
        self._make = film
        self._clock = clock
        self._once = once
        self._lock = threading.Lock()
        self._number, self._begin = 0, 0.0
        self._film = film(0)
        self._before: dict[str, TenantState] = {}

    def now(self) -> State:
        """The state at the clock's time. Safe to call from several threads."""
        with self._lock:
            t = self._clock()
            while not self._once and t - self._begin > self._film.end > 0:
                self._next()
            state = self._film.at(min(t - self._begin, self._film.end))
            tenants = {
                name: each.plus(self._before[name]) if name in self._before else each
                for name, each in state.tenants.items()
            }
            return State(t, tenants, state.kv)

    def _next(self) -> None:
        ended = self._film.at(self._film.end).tenants
        self._before = {
            name: each.plus(self._before[name]) if name in self._before else each
            for name, each in ended.items()
        }
        self._begin += self._film.end
        self._number += 1
        self._film = self._make(self._number)


def _numbers(values: Any) -> NDArray[np.float64]:
    return np.asarray(pd.to_numeric(values, errors="coerce"), dtype=float)


def _times(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sort(values[~np.isnan(values)])


def _by(t: float, times: NDArray[np.float64]) -> int:
    """How many of the sorted times have come by t."""
    return int(np.searchsorted(times, t, side="right"))
