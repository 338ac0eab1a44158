"""Rows → Result: what happened in one run, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import nan
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairq import metrics
from fairq.request import Number, Request

_EXACT_INT = 2**53
"""Whole numbers up to this size are exact as floats too."""


class Result:
    """One run.

    Attributes
    ----------
    requests : DataFrame, one row per request that arrived at or after ``warmup``, in order of arrival:
        ``id, tenant, group, key, priority, conversation, arrival, start, first_token, finish, wait, ttft,
        latency, cost_estimate, cost, prompt_tokens, output_tokens, status``, then ``slot`` (which slot served
        it, from 0; -1: none), ``dispatch`` (place in dispatch order of the whole run; -1: never), ``left``
        (when it was cancelled or refused) and what the engine counts. Times in seconds; NaN: did not happen.
        ``status``: finished, cancelled, refused, unfinished. ``cost``: true tokens (prompt + output where
        both are known, else the estimate).
    all_requests : the same with those of the warm-up.
    engine : time series of the engine (``t`` in seconds first), or ``None``.
    slots : of the engine; ``None``: no limit. policy : its name. weights : tenant → weight, as far as given.
    seed, replication, until, warmup : as given to ``simulate``.
    """

    def __init__(
        self,
        all_requests: pd.DataFrame,
        *,
        slots: int | None,
        policy: str = "",
        engine: pd.DataFrame | None = None,
        weights: Mapping[str, float] | None = None,
        seed: int = 0,
        replication: int = 0,
        until: Number | None = None,
        warmup: Number = 0.0,
    ) -> None:
        self.all_requests = all_requests
        self.slots = slots
        self.policy = policy
        self.engine = engine
        self.weights = dict(weights or {})
        self.seed = seed
        self.replication = replication
        self.until = until
        self.warmup = warmup

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {status}" for status, n in self.counts().items() if n)
        return f"Result({self.policy}: {counts or 'no requests'})"

    @cached_property
    def requests(self) -> pd.DataFrame:
        rows = self.all_requests
        if not self.warmup:
            return rows
        late = (rows["arrival"] >= self.warmup).to_numpy(dtype=bool)
        return pd.DataFrame(rows[late].reset_index(drop=True))

    @cached_property
    def queue(self) -> pd.DataFrame:
        """``t`` (seconds), ``waiting``, ``running`` after each instant at which something happened."""
        return metrics.queue_series(self.all_requests)

    def latency(self, by: str = "tenant") -> pd.DataFrame:
        """Percentiles, counts and token shares per value of a column; see ``metrics.latency_table``."""
        return metrics.latency_table(self.requests, by)

    def shares(self, by: str = "tenant", compared: Sequence[Any] | None = None) -> pd.Series:
        """Shares of tokens while all those compared were backlogged; see ``metrics.backlogged_shares``."""
        return metrics.backlogged_shares(self.requests, by, compared)

    def counts(self) -> dict[str, int]:
        """Requests per status."""
        counts = self.requests["status"].value_counts()
        return {status: int(counts.get(status, 0)) for status in STATUSES}

    @property
    def end(self) -> float:
        """Seconds: ``until``, or the last thing that happened."""
        if self.until is not None:
            return float(self.until)
        rows = self.all_requests
        last = [rows[name].max() for name in ("arrival", "finish", "left") if rows[name].notna().any()]
        return float(max(last, default=0.0))

    @property
    def makespan(self) -> float:
        """Seconds from the first arrival to the last finish; NaN when nothing finished."""
        rows = self.all_requests
        return float(rows["finish"].max() - rows["arrival"].min()) if rows["finish"].notna().any() else nan

    @property
    def requests_per_s(self) -> float:
        """Finished requests of the whole run per second of makespan."""
        return self._per_s((self.all_requests["status"] == "finished").sum())

    @property
    def tokens_per_s(self) -> float:
        """True tokens of the finished requests of the whole run per second of makespan."""
        rows = self.all_requests
        return self._per_s(rows.loc[(rows["status"] == "finished").to_numpy(), "cost"].sum())

    @property
    def utilisation(self) -> float:
        """Share of slot time in use from ``warmup`` to ``end``; NaN for an engine without a limit."""
        if self.slots is None:
            return nan
        return metrics.utilisation(self.all_requests, self.slots, float(self.warmup), self.end)

    @property
    def waiting_mean(self) -> float:
        """Waiting requests, mean over the time from ``warmup`` to ``end``."""
        queue = self.queue
        return metrics.time_mean(queue["t"], queue["waiting"], float(self.warmup), self.end)

    def to_csv(self, path: str | Path) -> None:
        """Write ``requests`` as CSV (times in seconds)."""
        self.requests.to_csv(path, index=False, lineterminator="\n")

    def _per_s(self, amount: Any) -> float:
        makespan = self.makespan
        return float(amount) / makespan if makespan > 0 else nan


STATUSES = ("finished", "cancelled", "refused", "unfinished")


def from_rows(
    rows: Any,
    *,
    policy: Any,
    series: Mapping[str, Sequence[Any]] | None,
    unserved: Mapping[str, Any],
    group_of: Mapping[str, str],
    **about: Any,
) -> Result:
    """A Result from the record of a run (``fairq.sim.rows.Rows``), which is used up."""
    table = _table(rows, group_of, unserved)
    engine = None if series is None else pd.DataFrame({name: list(values) for name, values in series.items()})
    return Result(table, policy=type(policy).__name__, engine=engine, **about)


def _table(rows: Any, group_of: Mapping[str, str], unserved: Mapping[str, Any]) -> pd.DataFrame:
    """One row per request that arrived, in order of arrival."""
    arrived: list[Request] = rows.arrived
    n = len(arrived)
    place = _places(arrived, rows.request)
    rows.request = []
    dispatch = np.full(n, -1, dtype=np.int32)
    dispatch[place] = np.arange(len(place), dtype=np.int32)
    slot = np.full(n, -1, dtype=np.int32)
    slot[place] = rows.slot
    rows.slot = []
    status = np.full(n, STATUSES.index("unfinished"), dtype=np.int8)
    finish = _times(rows.finish)
    # An answer that comes as a whole has its first token at the finish.
    first = _times([f if t is None else t for t, f in zip(rows.first_token, rows.finish, strict=True)])
    rows.first_token = rows.finish = []
    status[place[~pd.isna(finish)]] = STATUSES.index("finished")
    start = _spread(_times(rows.start), place, n)
    rows.start = []
    finish, first = _spread(finish, place, n), _spread(first, place, n)
    left = _left(rows.left, arrived, status)

    tenants = [request.tenant for request in arrived]
    groups = {tenant: group_of.get(tenant, tenant) for tenant in dict.fromkeys(tenants)}
    arrival = _times([request.arrival for request in arrived])
    prompt = _times([request.prompt_tokens for request in arrived])
    output = _times([request.output_tokens for request in arrived])
    estimate = _times([request.cost for request in arrived])
    known = ~(pd.isna(prompt) | pd.isna(output))
    cost = estimate
    if known.all():
        cost = prompt + output
    elif known.any():
        cost = np.where(known, prompt + output, estimate)
    columns: dict[str, Any] = {
        "id": _plain([row if r.id is None else r.id for row, r in enumerate(arrived)]),
        "tenant": _category(tenants),
        "group": _category([groups[tenant] for tenant in tenants]),
        "key": _category([request.key for request in arrived]),
        "priority": _plain([request.priority for request in arrived]),
        "conversation": _category([request.conversation for request in arrived]),
        "arrival": arrival,
        "start": start,
        "first_token": first,
        "finish": finish,
        "wait": start - arrival,
        "ttft": first - arrival,
        "latency": finish - arrival,
        "cost_estimate": estimate,
        "cost": cost,
        "prompt_tokens": prompt,
        "output_tokens": output,
        "status": _coded(status, STATUSES),
        "slot": slot,
        "dispatch": dispatch,
        "left": left,
    }
    for name, values in rows.extra.items():
        column = [unserved[name]] * n
        for row, value in zip(place.tolist(), values, strict=True):
            column[row] = value
        columns[name] = _plain(column)
    return pd.DataFrame(columns, copy=False)


def _places(arrived: list[Request], served: list[Request]) -> NDArray[np.int64]:
    """For each of ``served`` its place in ``arrived`` (the very same objects, each there once)."""
    known = np.fromiter(map(id, arrived), dtype=np.int64, count=len(arrived))
    order = np.argsort(known, kind="stable")
    wanted = np.fromiter(map(id, served), dtype=np.int64, count=len(served))
    return order[np.searchsorted(known, wanted, sorter=order)]


def _left(
    left: Mapping[Request, tuple[str, Number]], arrived: list[Request], status: NDArray[np.int8]
) -> NDArray[Any]:
    """When the unserved went away; marks their status."""
    if not left:
        return np.full(len(arrived), nan)
    times: list[Number | None] = [None] * len(arrived)
    for row, request in enumerate(arrived):
        if request in left:
            name, times[row] = left[request]
            status[row] = STATUSES.index(name)
    return _times(times)


def _times(values: Sequence[Number | None]) -> NDArray[Any]:
    """Numbers with every value kept: int64, float64, or objects where neither holds them exactly."""
    kinds = set(map(type, values))
    missing = type(None) in kinds
    kinds.discard(type(None))
    if not kinds:
        return np.full(len(values), nan)
    if kinds <= {float}:
        return np.array([nan if v is None else v for v in values] if missing else values, dtype=float)
    if all(issubclass(kind, Integral) for kind in kinds):
        largest = max(abs(v) for v in values if v is not None)
        if not missing and largest < 2**63:
            return np.array(values, dtype=np.int64)
        if largest <= _EXACT_INT:
            return np.array([nan if v is None else v for v in values], dtype=float)
    elif all(issubclass(kind, (float, Integral, np.floating)) for kind in kinds):
        return np.array([nan if v is None else v for v in values], dtype=float)
    exact = np.empty(len(values), dtype=object)
    exact[:] = [nan if v is None else v for v in values]
    return exact


def _spread(values: NDArray[Any], place: NDArray[np.int64], n: int) -> NDArray[Any]:
    """``values[i]`` at ``place[i]`` of n; the rest NaN."""
    if len(values) == n:
        out = np.empty(n, dtype=values.dtype)
    elif values.dtype == np.int64 and (not len(values) or np.abs(values).max() > _EXACT_INT):
        out = np.full(n, nan, dtype=object)
    else:
        out = np.full(n, nan, dtype=object if values.dtype == object else float)
    out[place] = values
    return out


def _plain(values: list[Any]) -> Any:
    """Whole numbers as int64, numbers as float64, texts as text; anything else as it is."""
    kinds = set(map(type, values))
    if kinds <= {int} and all(-(2**63) <= v < 2**63 for v in values):
        return np.array(values, dtype=np.int64)
    if kinds <= {int, float, type(None)} and float in kinds:
        return np.array([nan if v is None else v for v in values], dtype=float)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _category(values: list[Any]) -> Any:
    """Categories in order of first appearance; ``None`` is missing."""
    codes, categories = pd.factorize(np.fromiter(values, dtype=object, count=len(values)))
    return _coded(codes, categories)


def _coded(codes: Any, categories: Any) -> Any:
    names: Any = list(categories)
    return pd.Categorical.from_codes(codes, categories=names)
