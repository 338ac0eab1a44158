"""Tables → numbers. Pure functions; units in each docstring.

Where an interval or an inference comes from, and when there is none:

* p50 and p99 are taken per replication; over replications a t-interval (``t_interval``). The requests of
  one run wait behind each other, so they are no sample: never bootstrap them.
* Below 368 finished requests no distribution-free 95 % limit for a p99 exists (``too_few``).
* Two policies that met the same requests are compared by their differences (``paired_difference``).
* A share of tokens means: while all those compared were backlogged (``backlogged_shares``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import ceil, cos, inf, log, nan, pi, sin, sqrt
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

TIMES = ("wait", "ttft", "latency")


class Interval(NamedTuple):
    """A mean with its confidence interval; ``low`` and ``high`` are NaN when one value is all there is."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


# -- percentiles ----------------------------------------------------------------------------------


def percentile(values: ArrayLike, q: float) -> float:
    """The q-th percentile (0 to 100), linear between neighbours (numpy's default); NaN of nothing."""
    numbers = np.asarray(values, dtype=float)
    return float(np.percentile(numbers, q)) if numbers.size else nan


def latency_table(requests: pd.DataFrame, by: str = "tenant") -> pd.DataFrame:
    """One row per value of column ``by``, in order of first appearance, as the index.

    Parameters
    ----------
    requests : rows as in ``Result.requests``.

    Returns
    -------
    DataFrame with ``n`` (finished requests), ``unfinished``, percentiles of the finished ones in seconds
    (``wait_p50, wait_p99, ttft_p50, ttft_p99, latency_p50, latency_p90, latency_p99, latency_mean,
    latency_max``), ``tokens`` (true cost of the finished ones), ``share`` (of the tokens handed out while
    all rows of this table were backlogged; NaN when they never were), and, where there are any,
    ``cancelled`` and ``refused``.
    """
    codes, names = pd.factorize(requests[by])
    status = requests["status"].to_numpy()
    finished = status == "finished"
    times = {name: requests[name].to_numpy(dtype=float) for name in TIMES}
    cost = requests["cost"].to_numpy(dtype=float)
    shares = backlogged_shares(requests, by)
    gone = [name for name in ("cancelled", "refused") if (status == name).any()]
    rows = []
    for code, name in enumerate(names):
        mine = codes == code
        done = mine & finished
        wait, ttft, latency = (times[column][done] for column in TIMES)
        rows.append(
            {
                "n": int(done.sum()),
                "unfinished": int((mine & (status == "unfinished")).sum()),
                "wait_p50": percentile(wait, 50),
                "wait_p99": percentile(wait, 99),
                "ttft_p50": percentile(ttft, 50),
                "ttft_p99": percentile(ttft, 99),
                "latency_p50": percentile(latency, 50),
                "latency_p90": percentile(latency, 90),
                "latency_p99": percentile(latency, 99),
                "latency_mean": float(latency.mean()) if latency.size else nan,
                "latency_max": float(latency.max()) if latency.size else nan,
                "tokens": float(cost[done].sum()),
                "share": float(shares[name]),
                **{other: int((mine & (status == other)).sum()) for other in gone},
            }
        )
    columns = list(rows[0]) if rows else _LATENCY_COLUMNS
    return pd.DataFrame(rows, index=pd.Index(list(names), name=by), columns=columns)


_LATENCY_COLUMNS = [
    *("n", "unfinished", "wait_p50", "wait_p99", "ttft_p50", "ttft_p99", "latency_p50", "latency_p90"),
    *("latency_p99", "latency_mean", "latency_max", "tokens", "share"),
]


# -- fairness -------------------------------------------------------------------------------------


def backlogged_shares(
    requests: pd.DataFrame, by: str = "tenant", compared: Iterable[Any] | None = None
) -> pd.Series:
    """Shares of the tokens handed out while all those compared were backlogged.

    A dispatch counts when, at that moment, every one of them had a request waiting (the one handed out
    included), and not for that moment alone: then the policy had a choice between them all. Over a whole
    drained run the shares would only repeat the demand.

    Parameters
    ----------
    requests : rows as in ``Result.requests``; all of them, or those after a warm-up.
    by : column whose values are compared. compared : those values; default: all that occur.

    Returns
    -------
    Series indexed by the values compared; sums to 1, or NaN when they were never backlogged together.
    """
    names = list(dict.fromkeys(requests[by])) if compared is None else list(compared)
    counted = _all_backlogged(requests, by, names)
    cost = requests["cost"].to_numpy(dtype=float)
    labels = requests[by].to_numpy()
    tokens = np.array([cost[counted & (labels == name)].sum() for name in names])
    total = tokens.sum()
    shares = tokens / total if total > 0 else np.full(len(names), nan)
    return pd.Series(shares, index=pd.Index(names, name=by), name="share", dtype=float)


def _all_backlogged(requests: pd.DataFrame, by: str, names: Sequence[Any]) -> NDArray[np.bool_]:
    """Which rows were dispatched while each of ``names`` had a request waiting."""
    order = requests["dispatch"].to_numpy()
    served = np.flatnonzero(order >= 0)
    served = served[np.argsort(order[served], kind="stable")]  # in dispatch order
    start = requests["start"].to_numpy(dtype=float)[served]
    arrival = requests["arrival"].to_numpy(dtype=float)
    status = requests["status"].to_numpy()
    left = requests["left"].to_numpy(dtype=float)
    labels = requests[by].to_numpy()
    now, before, after = (np.ones(len(served), dtype=bool) for _ in range(3))
    for name in names:
        if not now.any():
            break
        mine = labels == name
        came = np.sort(arrival[mine & (status != "refused")])
        gave_up = np.sort(left[mine & (status == "cancelled")])
        taken = labels[served] == name
        began = start[taken]
        came_by = np.searchsorted(came, start, side="right")
        # At this dispatch, and just before and just after its instant.
        now &= came_by - np.searchsorted(gave_up, start) - (np.cumsum(taken) - taken) > 0
        before &= _count_before(came, start) - _count_before(gave_up, start) - _count_before(began, start) > 0
        gone_by = np.searchsorted(gave_up, start, side="right") + np.searchsorted(began, start, side="right")
        after &= came_by - gone_by > 0
    counted = np.zeros(len(requests), dtype=bool)
    counted[served[now & (before | after)]] = True
    return counted


def _count_before(times: NDArray[Any], moments: NDArray[Any]) -> NDArray[np.intp]:
    return np.searchsorted(times, moments, side="left")


def jain_index(values: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Jain's fairness index (Σx)²/(n·Σx²) of ``values / weights``: 1 = equal, 1/n = one has all.

    Source: Jain, Chiu & Hawe, "A quantitative measure of fairness…" (DEC TR-301, 1984).
    """
    x = np.asarray(values, dtype=float)
    if weights is not None:
        x = x / np.asarray(weights, dtype=float)
    square = float((x**2).sum())
    return float(x.sum()) ** 2 / (x.size * square) if square > 0 else nan


# -- load -----------------------------------------------------------------------------------------


def queue_series(requests: pd.DataFrame) -> pd.DataFrame:
    """How many wait and run: ``t`` (seconds), ``waiting``, ``running`` right after each change.

    One row per instant at which something happened, after all of it; the values hold until the next row.
    """
    arrival, start, finish = (requests[name].to_numpy() for name in ("arrival", "start", "finish"))
    status = requests["status"].to_numpy()
    came = _sorted(arrival[status != "refused"])
    started, finished = _sorted(start), _sorted(finish)
    gave_up = _sorted(requests["left"].to_numpy()[status == "cancelled"])
    parts = [part for part in (came, started, finished, gave_up) if len(part)]
    t = np.unique(np.concatenate(parts)) if parts else np.empty(0)
    by_then = {
        name: np.searchsorted(times, t, side="right") if len(times) else np.zeros(len(t), dtype=int)
        for name, times in (("came", came), ("started", started), ("finished", finished), ("left", gave_up))
    }
    return pd.DataFrame(
        {
            "t": t,
            "waiting": by_then["came"] - by_then["started"] - by_then["left"],
            "running": by_then["started"] - by_then["finished"],
        }
    )


def time_mean(t: ArrayLike, values: ArrayLike, start: float, end: float) -> float:
    """Mean over the time from ``start`` to ``end`` (seconds) of a step function, 0 before ``t[0]``."""
    at, height = np.asarray(t, dtype=float), np.asarray(values, dtype=float)
    if not end > start:
        return nan
    edges = np.concatenate([[start], at[(at > start) & (at < end)], [end]])
    place = np.searchsorted(at, edges[:-1], side="right") - 1
    steps = np.where(place >= 0, height[np.maximum(place, 0)] if height.size else 0.0, 0.0)
    return float((steps * np.diff(edges)).sum() / (end - start))


def utilisation(requests: pd.DataFrame, slots: int, start: float, end: float) -> float:
    """Share of the slot time from ``start`` to ``end`` (seconds) in which a slot was held, 0 to 1."""
    began = requests["start"].to_numpy(dtype=float)
    ended = requests["finish"].to_numpy(dtype=float)
    began, ended = began[~np.isnan(began)], ended[~np.isnan(began)]
    ended = np.where(np.isnan(ended), inf, ended)  # still running
    held = np.clip(np.minimum(ended, end) - np.maximum(began, start), 0, None).sum()
    return float(held / (slots * (end - start))) if end > start else nan


# -- inference ------------------------------------------------------------------------------------


def enough(quantile: float = 0.99, confidence: float = 0.95) -> int:
    """Least n of independent values at which a distribution-free upper limit for a quantile exists.

    The largest of n values is above the quantile with probability 1 - quantileⁿ, which must reach the upper
    end (1 + confidence)/2 of a two-sided interval: 368 for p99 at 95 %.
    """
    return ceil(log((1 - confidence) / 2) / log(quantile))


def too_few(n: float, quantile: float = 0.99) -> bool:
    """True when ``n`` finished requests of one run say nothing about that quantile (p99: n < 368)."""
    return n < enough(quantile)


def t_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean and Student t-interval of independent values, such as one p99 per replication.

    NaN among the values (a replication without finished requests) is left out. No interval from fewer than
    two values.
    """
    x = np.asarray(values, dtype=float)
    x = x[~np.isnan(x)]
    if x.size == 0:
        return Interval(nan, nan, nan)
    mean = float(x.mean())
    if x.size == 1:
        return Interval(mean, nan, nan)
    half = t_quantile((1 + confidence) / 2, x.size - 1) * float(x.std(ddof=1)) / sqrt(x.size)
    return Interval(mean, mean - half, mean + half)


def paired_difference(after: ArrayLike, before: ArrayLike, confidence: float = 0.95) -> Interval:
    """t-interval of ``after - before`` where value i of both met the same requests (replication i).

    Raises
    ------
    ValueError : different lengths.
    """
    a, b = np.asarray(after, dtype=float), np.asarray(before, dtype=float)
    if a.shape != b.shape:
        raise ValueError(f"pairs need as many values on both sides, got {a.size} and {b.size}")
    return t_interval(a - b, confidence)


@cache
def t_quantile(p: float, df: int) -> float:
    """The p-quantile (0.5 <= p < 1) of Student's t with ``df`` >= 1 degrees of freedom.

    By bisection on the exact distribution function for whole df (Abramowitz & Stegun 26.7.3–4).
    """
    if not 0.5 <= p < 1:
        raise ValueError(f"p must be in [0.5, 1), got {p!r}")
    if df < 1:
        raise ValueError(f"df must be >= 1, got {df!r}")
    low, high = 0.0, pi / 2  # of theta = atan(t/√df)
    for _ in range(80):
        middle = (low + high) / 2
        if (1 + _central_t(middle, df)) / 2 < p:
            low = middle
        else:
            high = middle
    return sqrt(df) * sin(low) / cos(low)


def _central_t(theta: float, df: int) -> float:
    """P(|T| < √df·tan(theta))."""
    c, s = cos(theta), sin(theta)
    total, term = 0.0, c if df % 2 else 1.0
    for k in range(1 + df % 2, df, 2):
        total += term
        term *= c * c * k / (k + 1)
    return 2 / pi * (theta + s * total) if df % 2 else s * total


# -- comparisons ----------------------------------------------------------------------------------


def over_replications(results: Mapping[str, Sequence[Any]], column: str, by: str = "tenant") -> pd.DataFrame:
    """One column of ``Result.latency(by)`` with its 95 % interval over replications.

    ``results``: policy → its results, one per replication. Returns a row per (policy, value of ``by``) with
    ``mean, low, high, runs`` and the counts ``n, unfinished`` over all runs.
    """
    rows = []
    for policy, runs in results.items():
        tables = [run.latency(by) for run in runs]
        names = list(dict.fromkeys(name for table in tables for name in table.index))
        for name in names:
            mine = [table.loc[name] for table in tables if name in table.index]
            mean, low, high = t_interval([row[column] for row in mine])
            counts = {count: int(sum(row[count] for row in mine)) for count in ("n", "unfinished")}
            rows.append(
                {
                    "policy": policy,
                    by: name,
                    "mean": mean,
                    "low": low,
                    "high": high,
                    "runs": len(mine),
                    **counts,
                }
            )
    return pd.DataFrame(rows, columns=["policy", by, "mean", "low", "high", "runs", "n", "unfinished"])


def _sorted(values: NDArray[Any]) -> NDArray[Any]:
    """Without what never happened."""
    happened = values[~pd.isna(values)]
    return np.sort(happened) if len(happened) else np.empty(0)
