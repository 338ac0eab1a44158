"""Is the box too small, or is the queue unfair? A decision table over what an engine reports about itself.

What is looked at, over a window of time: how often somebody waits; waiting per running request; whether the
queue grows to the end or drains; how full the KV cache and the slots are *while somebody waits*; preemptions.
The table is read from the top, the first row whose conditions all hold is the verdict:

=============  ==================================================================================
verdict        when
=============  ==================================================================================
fine           somebody waits in less than 10 % of the time, or fewer wait than 5 % of those running
saturated      the queue has not drained, and not even twice the slots and KV cache would serve all: it
               grows and 1.5 times as much comes as leaves, or it stands and more wait than run
KV-bound       somebody waits nearly all the time, and meanwhile the KV cache is full or requests are
               preempted: what it holds is what limits
slot-bound     somebody waits nearly all the time, and meanwhile all slots are taken
bursty         the rest: queues that come and go
=============  ==================================================================================

Each verdict names what would help; "saturated" is when neither memory nor slots would. ``demand / served``
comes from counting: what left, plus what the queue grew by, over what left. By Little's law waiting per
running request is the wait in units of the time in service, whatever the requests are like; so the ratio
needs no tokens, lengths or clocks.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairq.files import InputError, check_columns, read_csv, readable, separated

FINE, BURSTY, KV, SLOTS, SATURATED = "fine", "bursty", "KV-bound", "slot-bound", "saturated"
VERDICTS = (FINE, BURSTY, KV, SLOTS, SATURATED)

ADVICE: Mapping[str, str] = {
    FINE: "nothing to schedule: hardly anybody waits",
    BURSTY: "bursty: fairness helps. The box keeps up; a fair queue decides who waits out the bursts",
    KV: (
        "KV-bound: the KV cache is what limits. Shorter contexts, an fp8 KV cache, smaller weights or more"
        " memory let more run; more slots do not"
    ),
    SLOTS: (
        "slot-bound: all slots are taken while the rest has room. Raise max_num_seqs, -np or the gateway's"
        " limit, as far as the time per token allows"
    ),
    SATURATED: (
        "saturated: you ration a shortage; buy capacity or cap demand. A fair queue shares it fairly"
    ),
}

SOME = 0.10
"""Part of the time with somebody waiting from which a queue counts as one."""
FEW = 0.05
"""Waiting per running request below which a wait does not matter."""
NEARLY_ALWAYS = 0.75
"""Part of the time with somebody waiting from which a queue is standing."""
FULL = 0.90
"""KV cache or slots count as full from here (a long prompt waits for its blocks before 100 %)."""
MOSTLY = 0.5
"""Part of the waiting time in which KV or slots must be full to be what binds."""
DRAINED = 0.5
"""Part of its peak below which a queue has begun to drain at the end of the window."""
YOUNG = 0.25
"""A queue younger than this part of the window has no trend."""
RELIEF = 1.5
"""How much more a box serves with twice the slots and KV cache, unless a card says it for this box."""


@dataclass(frozen=True)
class Series:
    """What was seen, at times ``t`` (seconds, increasing); all arrays of shape (n,), n >= 2.

    ``running, waiting``: requests. ``kv``: part of the KV cache in use, 0 to 1. ``finished, preemptions``:
    counted since some start. A value holds from its time to the next one. None: not reported.

    Raises
    ------
    ValueError : fewer than two times, times that do not increase, lengths that differ, values out of range.
    """

    t: NDArray[np.float64]
    running: NDArray[np.float64]
    waiting: NDArray[np.float64]
    kv: NDArray[np.float64] | None = None
    finished: NDArray[np.float64] | None = None
    preemptions: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name in ("t", "running", "waiting", "kv", "finished", "preemptions"):
            values = getattr(self, name)
            if values is None:
                continue
            values = np.asarray(values, dtype=float)
            object.__setattr__(self, name, values)
            if values.shape != np.shape(self.t):
                raise ValueError(
                    f"{name} must have as many values as t ({np.size(self.t)}), got {values.size}"
                )
            least = -inf if name == "t" else 0
            if not np.isfinite(values).all() or (values < least).any():
                raise ValueError(f"{name} must be finite numbers{' >= 0' if name != 't' else ''}")
        if self.t.size < 2 or not (np.diff(self.t) > 0).all():
            raise ValueError("a verdict needs two times at least, each later than the one before")
        if self.kv is not None and self.kv.max() > 1.001:
            raise ValueError(f"kv must be between 0 and 1, got {self.kv.max():g}")

    @property
    def seconds(self) -> float:
        return float(self.t[-1] - self.t[0])

    def last(self, seconds: float) -> Series:
        """The latest part of it."""
        part = self.t >= self.t[-1] - seconds
        if part.sum() < 2:
            part[-2:] = True
        return Series(*(None if v is None else v[part] for v in self._columns()))  # type: ignore[arg-type]

    def _columns(self) -> tuple[NDArray[np.float64] | None, ...]:
        return (self.t, self.running, self.waiting, self.kv, self.finished, self.preemptions)


@dataclass(frozen=True)
class Evidence:
    """One condition of the table: what was measured, against what, and whether it holds."""

    verdict: str
    what: str
    measured: float
    wanted: str
    holds: bool


@dataclass(frozen=True)
class Verdict:
    """What is the matter, what would help, and all conditions that were looked at."""

    name: str
    advice: str
    evidence: Sequence[Evidence]
    measures: Mapping[str, float] = field(default_factory=dict)
    binds: str = ""
    """What was full while people waited: "KV", "slots" or ""; also where the verdict is another."""

    @property
    def because(self) -> list[Evidence]:
        """The conditions of this verdict that hold."""
        return [each for each in self.evidence if each.verdict == self.name and each.holds]


def judge(series: Series, *, slots: float | None = None, relief: float = RELIEF) -> Verdict:
    """The verdict on a window.

    Parameters
    ----------
    slots : how many can run at once, where known; default: the most that were seen running.
    relief : how much more the box would serve with twice the slots and twice the KV cache
        (``fairq.capacity.relief`` knows, from a profile).

    Raises
    ------
    ValueError : relief below 1, slots not positive.
    """
    if not relief >= 1:
        raise ValueError(f"relief must be >= 1, got {relief!r}")
    if slots is not None and not slots > 0:
        raise ValueError(f"slots must be > 0, got {slots!r}")
    m = measure(series, slots=slots)
    table = _table(m, relief)
    held = {name: _holds(table, name) for name in VERDICTS}
    name = next((each for each in (FINE, SATURATED, KV, SLOTS) if held[each]), BURSTY)
    binds = "KV" if _full_kv(m) else "slots" if m["slots_full"] >= MOSTLY else ""
    return Verdict(name, ADVICE[name], table, m, binds)


def measure(series: Series, *, slots: float | None = None) -> dict[str, float]:
    """The numbers behind a verdict; NaN where the series does not say.

    ``queued`` (part of the time with somebody waiting), ``ratio`` (mean waiting / mean running),
    ``waiting_mean, waiting_max, waiting_end``, ``left`` (waiting at the end as part of the peak), ``growth``
    (requests per minute since the queue was last empty), ``demand`` (what came / what left, of a queue that
    grows), ``crowd`` (waiting / running, of one that stands), and while somebody waited: ``kv_full``,
    ``slots_full`` (parts of that time), ``kv_mean``, ``running_mean``; ``preemptions`` (per finished request,
    or per minute where nobody counts those).
    """
    dt = np.diff(series.t)
    waiting, running = series.waiting[:-1], series.running[:-1]
    total = float(dt.sum())
    queue = waiting >= 1
    queued = float(dt[queue].sum())
    running_mean = float((running * dt).sum()) / total
    waiting_mean = float((waiting * dt).sum()) / total
    most = float(series.running.max()) if slots is None else float(slots)
    peak, end = float(series.waiting.max()), _late(series.waiting, series.t)
    m = {
        "queued": queued / total,
        "ratio": waiting_mean / running_mean if running_mean else (inf if waiting_mean else 0.0),
        "waiting_mean": waiting_mean,
        "waiting_max": peak,
        "waiting_end": end,
        "left": end / peak if peak else 0.0,
        **_trend(series),
        "kv_full": _part(dt, queue, None if series.kv is None else series.kv[:-1] >= FULL),
        "slots_full": _part(dt, queue, running >= FULL * most if most else None),
        "kv_mean": _mean(dt, queue, None if series.kv is None else series.kv[:-1]),
        "running_mean": _mean(dt, queue, running),
        "preemptions": _preemptions(series),
    }
    return m


def _table(m: Mapping[str, float], relief: float) -> list[Evidence]:
    def row(verdict: str, what: str, value: float, wanted: str, holds: bool) -> Evidence:
        return Evidence(verdict, what, value, wanted, bool(holds) and not isnan(value))

    standing = m["queued"] >= NEARLY_ALWAYS
    growing = m["left"] >= DRAINED
    return [
        row(FINE, "time with somebody waiting", m["queued"], f"< {SOME:.0%}", m["queued"] < SOME),
        row(FINE, "waiting per running", m["ratio"], f"< {FEW:g}", m["ratio"] < FEW),
        row(SATURATED, "queue at the end, of its peak", m["left"], f">= {DRAINED:.0%}", growing),
        row(
            SATURATED,
            "demand / served",
            m["demand"],
            f">= {relief:.2g} (what twice the slots and KV would serve)",
            m["demand"] >= relief,
        ),
        row(SATURATED, "waiting per running, for good", m["crowd"], ">= 1", m["crowd"] >= 1),
        row(KV, "time with somebody waiting", m["queued"], f">= {NEARLY_ALWAYS:.0%}", standing),
        row(KV, "KV full while waiting", m["kv_full"], f">= {MOSTLY:.0%}", m["kv_full"] >= MOSTLY),
        row(KV, "preemptions", m["preemptions"], ">= 0.1 per request", m["preemptions"] >= 0.1),
        row(SLOTS, "time with somebody waiting", m["queued"], f">= {NEARLY_ALWAYS:.0%}", standing),
        row(
            SLOTS, "slots full while waiting", m["slots_full"], f">= {MOSTLY:.0%}", m["slots_full"] >= MOSTLY
        ),
        row(
            BURSTY,
            "time with somebody waiting",
            m["queued"],
            f"{SOME:.0%} … {NEARLY_ALWAYS:.0%}",
            not standing,
        ),
    ]


def _holds(table: Sequence[Evidence], verdict: str) -> bool:
    rows = [each.holds for each in table if each.verdict == verdict]
    if verdict == FINE:
        return any(rows)
    if verdict in (KV, SATURATED):  # a queue that stays, and either sign of the rest
        return rows[0] and any(rows[1:])
    return all(rows)


def _full_kv(m: Mapping[str, float]) -> bool:
    return m["kv_full"] >= MOSTLY or m["preemptions"] >= 0.1


def _late(values: NDArray[np.float64], t: NDArray[np.float64]) -> float:
    """Mean over the last tenth of the window: one sample may be a lucky one."""
    part = t >= t[-1] - 0.1 * (t[-1] - t[0])
    return float(values[part].mean())


def _trend(series: Series) -> dict[str, float]:
    """Since the queue was last empty: does it grow, stand or drain, and against what.

    A queue grows when the line through those in the box rises by a quarter of the peak. One that stands,
    although it never empties, is made by people who ask again once they are served.
    """
    empty = np.flatnonzero(series.waiting < 1)
    begin = int(empty[-1]) if empty.size else 0
    t, waiting, running = series.t[begin:], series.waiting[begin:], series.running[begin:]
    young = t.size < 3 or t[-1] - t[0] < YOUNG * series.seconds
    if young:
        return {"growth": 0.0, "demand": nan, "crowd": nan}
    rise = float(np.polyfit(t - t[0], waiting + running, 1)[0]) * float(t[-1] - t[0])
    trend = {"growth": 60 * rise / float(t[-1] - t[0]), "demand": nan, "crowd": nan}
    step = 0.25 * float(waiting.max())
    busy = float(running.mean())
    if rise >= step and series.finished is not None:
        left = float(series.finished[begin:][-1] - series.finished[begin:][0])
        trend["demand"] = (left + rise) / left if left else inf
    elif rise > -step:
        # Nobody counts what left a growing queue: then its length has to do.
        trend["crowd"] = float(waiting.mean()) / busy if busy else inf
    return trend


def _preemptions(series: Series) -> float:
    if series.preemptions is None:
        return nan
    count = float(series.preemptions[-1] - series.preemptions[0])
    if series.finished is not None and series.finished[-1] > series.finished[0]:
        return count / float(series.finished[-1] - series.finished[0])
    return count / series.seconds * 60 if series.seconds else nan


def _part(dt: NDArray[Any], queue: NDArray[Any], full: NDArray[Any] | None) -> float:
    if full is None:
        return nan
    waited = float(dt[queue].sum())
    return float(dt[queue & full].sum()) / waited if waited else 0.0


def _mean(dt: NDArray[Any], queue: NDArray[Any], values: NDArray[Any] | None) -> float:
    waited = float(dt[queue].sum())
    return nan if values is None or not waited else float((values * dt)[queue].sum()) / waited


# -- where series come from -------------------------------------------------------------------------

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "t": ("t", "time", "time_s", "timestamp"),
    "running": ("running", "num_running"),
    "waiting": ("waiting", "num_waiting", "queued"),
    "kv": ("kv_cache_pct", "kv_pct", "kv"),
    "finished": ("finished", "requests_finished"),
    "preemptions": ("preemptions", "num_preemptions"),
}
"""Columns of a CSV that are understood, by what they hold. Names with ``pct`` are percentages."""


def read_series(path: str | Path) -> Series:
    """A series from a CSV file with a header; ``COLUMNS`` says which names.

    Raises
    ------
    InputError : a missing column, or a row without a number; names file and line.
    """
    path = Path(path)
    header, lines = read_csv(path)
    found = {what: next((name for name in names if name in header), None) for what, names in COLUMNS.items()}
    for what in ("t", "running", "waiting"):
        if found[what] is None:
            there = f"{', '.join(header)}{separated(header)}"
            raise InputError(f"{path}:1: no column {' or '.join(COLUMNS[what])}; there are: {there}")
    used = {what: name for what, name in found.items() if name is not None}
    check_columns(path, header, (), tuple(used.values()))
    rows = {what: [_cell(path, line, row, name) for line, row in lines] for what, name in used.items()}
    columns: dict[str, ArrayLike] = {
        what: np.array(values) / (100 if "pct" in str(found[what]) else 1) for what, values in rows.items()
    }
    try:
        return Series(**columns)  # type: ignore[arg-type]
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def is_series(path: str | Path) -> bool:
    """Whether a CSV file's header is one of a series (and not of a log): it has a column of ``COLUMNS`` that
    counts who runs or waits.

    Raises
    ------
    InputError : it cannot be read.
    """
    with readable(path), Path(path).open(encoding="utf-8-sig", newline="") as file:
        header = {name.strip() for name in next(csv.reader(file), [])}
    return bool(header.intersection((*COLUMNS["running"], *COLUMNS["waiting"])))


def _cell(path: Path, line: int, row: Mapping[str, str], name: str) -> float:
    text = row[name]
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise InputError(f"{path}:{line}: {name} must be a number, got {text!r}")
    return value


def series_of(result: Any, *, every_s: float | None = None, until: float | None = None) -> Series:
    """What a scrape of the box would have seen during a simulated run: every ``every_s`` seconds.

    ``result``: a ``fairq.result.Result``. Whoever waits at the gateway or in the engine's own queue waits.
    Default: 200 samples up to ``until`` (default: the end).
    """
    requests = result.all_requests
    end = float(result.end if until is None else until)
    begin = float(min(requests["arrival"].min(), 0)) if len(requests) else 0.0
    step = (end - begin) / 200 if every_s is None else every_s
    t = np.arange(begin, end + step / 2, step)
    arrived = _counted(requests["arrival"], t) - _counted(requests["left"], t)
    finished = _counted(requests["finish"], t)
    running = _counted(requests["start"], t) - finished
    kv = preemptions = None
    engine = result.engine
    if engine is not None and "kv_pct" in engine:
        place = np.searchsorted(engine["t"].to_numpy(dtype=float), t, side="right") - 1
        held = np.maximum(place, 0)
        kv = np.where(place >= 0, engine["kv_pct"].to_numpy(dtype=float)[held] / 100, 0.0)
        running = np.where(place >= 0, engine["running"].to_numpy(dtype=float)[held], 0.0)
    return Series(t, running, np.maximum(arrived - finished - running, 0), kv, finished, preemptions)


def _counted(times: Any, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many of ``times`` have come by each t."""
    values = np.asarray(times, dtype=float)
    return np.searchsorted(np.sort(values[~np.isnan(values)]), t, side="right").astype(float)
