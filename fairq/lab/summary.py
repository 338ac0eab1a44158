"""Runs → one row per policy and tenant: the table behind the bars.

p50 and p99 are taken per run, then averaged with a t-interval over the runs (the runs are independent, the
requests of one run are not). One run alone has no interval, and below 368 finished requests no p99,
unless every run would be that one (the replay of a log): then it is a fact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fairq import metrics
from fairq.plots import fold_tenants, rest_name

MEASURES = ("latency", "wait", "ttft")
QUANTILES = (50, 99)
UNSERVED = ("unfinished", "cancelled", "refused")


def labelled(
    requests: pd.DataFrame, by: str, named: Sequence[str] | None, rest: str | None = None
) -> pd.DataFrame:
    """The rows with ``tenant`` replaced by what they are counted under: tenant, group or ``rest``."""
    if by not in ("tenant", "group"):
        raise ValueError(f"by must be tenant or group, got {by!r}")
    rows = requests if by == "tenant" else requests.assign(tenant=requests["group"])
    return rows if named is None else fold_tenants(rows, named, rest)


def run_numbers(requests: pd.DataFrame) -> dict[str, dict[str, float]]:
    """label → counts, tokens and percentiles (seconds) of one run."""
    codes, names = pd.factorize(requests["tenant"])
    status = requests["status"].to_numpy()
    finished = status == "finished"
    cost = requests["cost"].to_numpy(dtype=float)
    times = {measure: requests[measure].to_numpy(dtype=float) for measure in MEASURES}
    numbers: dict[str, dict[str, float]] = {}
    for code, name in enumerate(names):
        mine = codes == code
        done = mine & finished
        n = int(done.sum())
        row = {"n": float(n), "tokens": float(cost[done].sum())}
        row |= {name: float((mine & (status == name)).sum()) for name in UNSERVED}
        for measure, values in times.items():
            row |= {f"{measure}_p{q}": metrics.percentile(values[done], q) for q in QUANTILES}
        numbers[str(name)] = row
    return numbers


def combine(
    policy: str,
    runs: Sequence[Mapping[str, Mapping[str, float]]],
    labels: Sequence[str],
    replay: bool = False,
) -> list[dict[str, Any]]:
    """Rows of the summary for one policy from the numbers of its runs; ``replay`` as in :func:`summary`."""
    rows: list[dict[str, Any]] = []
    for label in labels:
        mine = [numbers[label] for numbers in runs if label in numbers]
        if not mine:
            continue
        row: dict[str, Any] = {
            "policy": policy,
            "tenant": label,
            "n": int(sum(m["n"] for m in mine)),
            **{name: int(sum(m[name] for m in mine)) for name in UNSERVED},
            "runs": len(runs),
            "tokens": sum(m["tokens"] for m in mine) / len(runs),
        }
        for measure in MEASURES:
            for q in QUANTILES:
                name = f"{measure}_p{q}"
                mean, low, high = metrics.t_interval([m[name] for m in mine])
                if len(runs) == 1 and not replay and q == 99 and metrics.too_few(row["n"]):
                    mean = math.nan
                row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return rows


def summary(
    runs: Mapping[str, Sequence[Any]],
    *,
    by: str = "tenant",
    named: Sequence[str] | None = None,
    replay: bool = False,
) -> pd.DataFrame:
    """One row per (policy, tenant) from the Results of each policy, as ``lab.table``.

    Parameters
    ----------
    runs : policy → its Results, one per replication.
    by : "tenant" or "group".
    named : labels to keep, in that order; the others are counted together as "others". Default: all, as they
        come.
    replay : the one run is all there is (a log): its p99 is a fact, however few requests stand behind it.

    Returns
    -------
    DataFrame with ``policy, tenant, n, unfinished, cancelled, refused, runs, tokens`` (counts over all runs,
    tokens per run) and for latency, wait and ttft ``_p50, _p50_low, _p50_high, _p99, …`` in seconds with the
    ends of their 95 % intervals.
    """
    rows: list[dict[str, Any]] = []
    labels: dict[str, None] = {}
    numbers = {}
    rest = rest_name(
        {
            str(name)
            for results in runs.values()
            for result in results
            for name in result.requests[by].unique()
        }
    )
    for policy, results in runs.items():
        numbers[policy] = [run_numbers(labelled(result.requests, by, named, rest)) for result in results]
        labels |= {label: None for run in numbers[policy] for label in run}
    first = labels if named is None else named
    order = [*(label for label in first if label != rest), *([rest] if rest in labels else [])]
    for policy, per_run in numbers.items():
        rows += combine(policy, per_run, order, replay)
    return pd.DataFrame(rows)
