"""The lab's charts: a name, a label, and how to draw it from what is there. A new chart is one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairq import plots
from fairq.plots import Chart, TenantStyle
from fairq.plots.before_after import Differences

BARS_PER_SLOT = 30


@dataclass(frozen=True)
class View:
    """What a chart may draw from: the summary table, the rows of each policy, and the reader's choices.

    ``table``: one row per (policy, tenant), see :func:`fairq.plots.latency_bars`.
    ``pooled``: policy → rows of all its runs; ``single``: policy → rows of the first run. Tenants beyond the
    largest are already called "others". ``differences(measure, before, after)``: run by run, with intervals.
    """

    table: pd.DataFrame
    pooled: Callable[[], Mapping[str, pd.DataFrame]]
    single: Callable[[], Mapping[str, pd.DataFrame]]
    styles: dict[str, TenantStyle]
    differences: Callable[[str, str, str], Differences]
    choices: Mapping[str, Any]
    slots: int | None
    note: str


@dataclass(frozen=True)
class ChartSpec:
    """One entry of the lab's chart chooser."""

    name: str
    label: str
    tooltip: str
    draw: Callable[[View], Chart]
    controls: tuple[str, ...] = ()


def _bars(view: View) -> Chart:
    return plots.latency_bars(view.table, measure=view.choices["measure"], styles=view.styles, note=view.note)


def _before_after(view: View) -> Chart:
    measure, before, after = (view.choices[name] for name in ("measure", "before", "after"))
    differences = view.differences(measure, before, after)
    return plots.before_after(
        view.table,
        before,
        after,
        measure=measure,
        differences=differences,
        styles=view.styles,
        note=view.note,
    )


def _ecdf(view: View) -> Chart:
    return plots.latency_ecdf(
        view.pooled(), measure=view.choices["measure"], styles=view.styles, note=view.note
    )


def _queue(view: View) -> Chart:
    return plots.queue_depth(view.single(), styles=view.styles, window=_window(view), note=view.note)


def _slots(view: View) -> Chart:
    rows = view.single()
    window = _window(view) or _readable(next(iter(rows.values())), view.slots or 8)
    return plots.slot_gantt(rows, slots=view.slots, styles=view.styles, window=window, note=view.note)


def _window(view: View) -> tuple[float, float] | None:
    start, end = view.choices["time_from"], view.choices["time_to"]
    if end > start:
        return start, end
    return None if start == 0 else (start, start + 60.0)


def _readable(rows: pd.DataFrame, slots: int) -> tuple[float, float] | None:
    """The time from 0 in which each slot serves about thirty requests: nobody can read more bars."""
    starts = np.sort(rows["start"].dropna().to_numpy(dtype=float))
    most = BARS_PER_SLOT * slots
    if len(starts) <= most or starts[most] <= 0:
        return None
    step = 10.0 ** np.floor(np.log10(starts[most]))
    return 0.0, float(np.ceil(starts[most] / step * 2) / 2 * step)


CHARTS: tuple[ChartSpec, ...] = (
    ChartSpec(
        "bars",
        "p50 and p99",
        "Bars of p50 and p99 per tenant, the policies side by side",
        _bars,
        ("measure",),
    ),
    ChartSpec(
        "before_after",
        "Before → after",
        "What a change of policy does to each tenant",
        _before_after,
        ("measure", "before", "after"),
    ),
    ChartSpec("ecdf", "Distribution", "The share of requests finished within x seconds", _ecdf, ("measure",)),
    ChartSpec(
        "queue", "Queue", "How many requests of each tenant wait, over time", _queue, ("time_from", "time_to")
    ),
    ChartSpec("slots", "Slots", "Which tenant holds which slot, over time", _slots, ("time_from", "time_to")),
)


def chart_named(name: str) -> ChartSpec:
    """Raises ValueError for a name that is not in :data:`CHARTS`."""
    for chart in CHARTS:
        if chart.name == name:
            return chart
    raise ValueError(f"chart must be one of {', '.join(c.name for c in CHARTS)}, got {name!r}")
