"""The results of several policies as one table, and as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from fairq import metrics
from fairq.capacity.words import number
from fairq.sim import Result

COUNTS = ("n", "unfinished", "cancelled", "refused")
TERMINAL = ("wait_p50", "ttft_p50", "latency_p50", "latency_p99", "tokens", "share")
"""What fits on a line; the CSV has all. No share where the tenants were never all backlogged at once."""

Results = Mapping[str, Sequence[Result]]
"""Policy → its results, one per replication."""


def table(results: Results, by: str, order: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per (policy, value of ``by``), in the ``order`` given (default: most tokens first).

    Counts (``n`` finished, ``unfinished, cancelled, refused``) are of all ``runs`` together. Every other
    column of ``Result.latency`` (s, tokens, shares) is a mean over the runs, the ends of its 95 % interval
    in ``…_low, …_high`` (NaN for one run).
    """
    latency = {policy: [run.latency(by) for run in runs] for policy, runs in results.items()}
    names = _by_tokens([each for tables in latency.values() for each in tables])
    if order is not None:
        names = [name for name in order if name in set(names)]
    return pd.DataFrame(
        [
            {"policy": policy, by: name, "runs": len(tables), **_combined(tables, name)}
            for policy, tables in latency.items()
            for name in names
            if any(name in each.index for each in tables)
        ]
    )


def _by_tokens(tables: Sequence[pd.DataFrame]) -> list[str]:
    total: dict[str, float] = {}
    for each in tables:
        for name, tokens in each["tokens"].items():
            total[str(name)] = total.get(str(name), 0) + float(tokens)
    return sorted(total, key=lambda name: -total[name])


def _combined(tables: Sequence[pd.DataFrame], name: str) -> dict[str, Any]:
    mine: list[Any] = [each.loc[name].to_dict() for each in tables if name in each.index]
    row: dict[str, Any] = {count: sum(int(each.get(count, 0)) for each in mine) for count in COUNTS}
    for column in mine[0]:
        if column not in COUNTS:
            mean, low, high = metrics.t_interval([each[column] for each in mine])
            row |= {column: mean, f"{column}_low": low, f"{column}_high": high}
    return row


def overall(results: Results) -> dict[str, dict[str, float]]:
    """Policy → what the box did as a whole, mean over the runs."""
    figures = ("requests_per_s", "tokens_per_s", "utilisation", "makespan")
    return {
        policy: {
            figure: metrics.t_interval([getattr(run, figure) for run in runs]).mean for figure in figures
        }
        for policy, runs in results.items()
    }


def headline(policy: str, whole: Mapping[str, float]) -> str:
    """One policy's box as a whole, in a line."""
    return (
        f"{policy}: {number(whole['requests_per_s'])} requests/s, {number(whole['tokens_per_s'])} tokens/s,"
        f" slots {_percent(whole['utilisation'])} busy, all done after {number(whole['makespan'])} s"
    )


def terminal(rows: pd.DataFrame, by: str, replay: bool, most: int | None, shares: bool) -> Table:
    """One policy's part of the table, for people.

    ``replay``: the one run is all there is (a log), so its p99 is a fact, not an estimate. ``most``: show
    that many, those with the most tokens. Counts are per run here. ``shares``: every policy has them.
    """
    runs = int(rows["runs"].iloc[0])
    shown = rows
    if most is not None and len(rows) > most:
        shown = rows.loc[rows["tokens"].nlargest(most).index.sort_values()]
    made = Table(caption_justify="left")
    made.add_column(by, no_wrap=True)
    # Who was not served is counted beside the percentiles, where there is any.
    counts = [count for count in COUNTS if count == "n" or rows[count].any()]
    columns = [column for column in TERMINAL if shares or column != "share"]
    for column in (*counts, *columns):
        made.add_column(_heading(column), justify="right", no_wrap=column not in counts)
    for _, row in shown.iterrows():
        cells = [_count(row[count] / runs) for count in counts]
        made.add_row(Text(str(row[by])), *cells, *(_cell(row, column, runs, replay) for column in columns))
    if len(shown) < len(rows):
        made.caption = f"and {len(rows) - len(shown)} more with fewer tokens (--all shows them)"
    return made


def note(rows: Iterable[int], replay: bool) -> str:
    """How sure the numbers are, in a sentence."""
    runs = max(rows, default=1)
    if runs > 1:
        return (
            f"times in s; counts, tokens and times per run: mean of {runs} runs, ± half of its 95 % interval"
        )
    if replay:
        return "times in s; every run would be this one: its percentiles are facts, without an interval"
    few = f"below {metrics.enough()} finished requests a p99 says nothing"
    return f"times in s; one run: {few} (--replications 10)"


def _count(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def _cell(row: pd.Series, column: str, runs: int, replay: bool) -> str:
    value, low, high = (float(row[f"{column}{end}"]) for end in ("", "_low", "_high"))
    if column == "share":
        return _percent(value)
    if column == "tokens":
        return number(value)
    if runs == 1 and not replay and column.endswith("_p99") and metrics.too_few(row["n"]):
        return "too few"
    half = (high - low) / 2
    # Equal runs differ in the last digit of a sum; that is no spread.
    return number(value) if not half > 1e-9 * abs(value) else f"{number(value)} ±{number(half)}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %" if math.isfinite(value) else "–"


def _heading(column: str) -> str:
    return column.replace("_", " ")
