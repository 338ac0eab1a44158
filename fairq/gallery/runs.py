"""Runs of scenarios → tables per group, with intervals over replications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fairq import metrics
from fairq.scenario import Scenario
from fairq.sim import Result, simulate


def run_scenario(
    scenario: Scenario, policies: Sequence[str], replications: int = 10
) -> dict[str, list[Result]]:
    """Policy → one result per replication; result i of every policy met the same requests."""
    workload = scenario.workload()
    return {
        name: [
            simulate(
                workload,
                scenario.policy(name),
                scenario.engine(),
                seed=scenario.seed,
                replication=replication,
            )
            for replication in range(replications)
        ]
        for name in policies
    }


def group_table(runs: Mapping[str, Sequence[Result]], measure: str = "latency") -> pd.DataFrame:
    """A row per (policy, group), in the form of :func:`fairq.plots.latency_bars` (``tenant`` is the group).

    p50 and p99 of ``measure`` (s) are taken per run, then averaged with a 95 % t-interval over the runs.
    """
    rows: list[dict[str, Any]] = []
    for policy, results in runs.items():
        tables = [result.latency("group") for result in results]
        for group in tables[0].index:
            mine = [table.loc[group] for table in tables if group in table.index]
            row: dict[str, Any] = {
                "policy": policy,
                "tenant": str(group),
                "n": int(sum(each["n"] for each in mine)),
                "runs": len(results),
            }
            for quantile in ("p50", "p99"):
                name = f"{measure}_{quantile}"
                mean, low, high = metrics.t_interval([each[name] for each in mine])
                row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
            rows.append(row)
    return pd.DataFrame(rows)


def cell(table: pd.DataFrame, column: str, **where: Any) -> float:
    """The one value of a column where other columns have these values. Raises KeyError otherwise."""
    chosen = table
    for name, value in where.items():
        chosen = chosen[chosen[name] == value]
    if len(chosen) != 1:
        raise KeyError(f"{len(chosen)} rows have {where}")
    return float(chosen[column].iloc[0])
