"""The charts of a run as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from fairq.commands._tables import Results, table
from fairq.files import write_whole
from fairq.metrics import latency_table, too_few
from fairq.plots import (
    Chart,
    before_after,
    fold_tenants,
    latency_bars,
    latency_ecdf,
    queue_depth,
    rest_name,
    slot_gantt,
    tenant_styles,
    top_tenants,
)
from fairq.sim import Result


def write_charts(
    results: Results, by: str, order: Sequence[str] | None, replay: bool, folder: Path, formats: list[str]
) -> list[Path]:
    """Writes every chart in every format; returns the paths. ``order``: of the names. Raises OSError."""
    return [
        write_whole(folder / f"{name}.{format}", chart.to_bytes(format))
        for name, chart in _charts(results, by, order, replay)
        for format in formats
    ]


def _charts(
    results: Results, by: str, order: Sequence[str] | None, replay: bool
) -> Iterator[tuple[str, Chart]]:
    rows = {policy: [_named_by(run.requests, by) for run in runs] for policy, runs in results.items()}
    # The same names and looks on every chart; the small ones are "others" on all of them.
    largest = set(top_tenants(next(iter(rows.values()))[0]))
    known = order or list(table(results, by)[by].unique())
    named = [name for name in known if name in largest]
    rest = rest_name(known)
    looks = tenant_styles(named, rest)
    folded = {policy: [fold_tenants(run, named, rest) for run in runs] for policy, runs in rows.items()}
    numbers = table(
        {policy: [_Folded(run) for run in runs] for policy, runs in folded.items()},
        "tenant",
        [*named, rest],
    )
    if not replay:
        few = (numbers["runs"] == 1) & numbers["n"].map(too_few)
        p99 = [column for column in numbers.columns if "_p99" in str(column)]
        numbers.loc[few, p99] = float("nan")
    policies = list(results)
    yield "latency", latency_bars(numbers, styles=looks)
    if len(policies) > 1:
        yield "before_after", before_after(numbers, policies[0], policies[-1], styles=looks)
    together = {policy: pd.concat(runs, ignore_index=True) for policy, runs in folded.items()}
    yield "ecdf", latency_ecdf(together, styles=looks)
    first = {policy: runs[0] for policy, runs in folded.items()}
    yield "queue_depth", queue_depth(first, styles=looks)
    slots = next(iter(results.values()))[0].slots
    if slots is not None:
        yield "slots", slot_gantt(first, slots=slots, styles=looks)


class _Folded(Result):
    """A result whose small tenants are counted together."""

    def __init__(self, rows: pd.DataFrame) -> None:
        super().__init__(rows, slots=None)

    def latency(self, by: str = "tenant") -> pd.DataFrame:
        return latency_table(self.all_requests, by)


def _named_by(requests: pd.DataFrame, by: str) -> pd.DataFrame:
    names = requests["group" if by == "group" else "tenant"].astype(str)
    return requests.assign(tenant=names)
