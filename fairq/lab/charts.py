"""The lab's charts: a name, a label, and how to draw it from what is there. A new chart is one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairq import plots
from fairq.lab import compare
from fairq.lab.compare import Alternative, Alternatives
from fairq.lab.report import card_of, draws_card
from fairq.memory import memory_rows
from fairq.models import load_model, model_names
from fairq.plots import Chart, TenantStyle
from fairq.plots.before_after import Differences, nothing_to_compare
from fairq.plots.capacity import capacity_card
from fairq.plots.engine import batch_chart
from fairq.plots.memory import memory_bars
from fairq.plots.partitions import partition_bars
from fairq.plots.routers import router_bars
from fairq.result import Result
from fairq.scenario import Scenario
from fairq.scenario.alternatives import WAYS
from fairq.scenario.engines import SlotsSpec
from fairq.scenario.fleets import CardSpec, PartsSpec, ReplicasSpec

BARS_PER_SLOT = 30


@dataclass(frozen=True)
class View:
    """What a chart may draw from: the summary table, the rows of each policy, and the reader's choices.

    ``table``: one row per (policy, tenant), see :func:`fairq.plots.latency_bars`.
    ``pooled``: policy → rows of all its runs; ``single``: policy → rows of the first run. Tenants beyond the
    largest are already called "others". ``differences(measure, before, after)``: run by run, with intervals.
    ``scenario``: with what was turned. ``engine()``: the series that the engine reported in the first run
    under the policy ``choices["under"]``. ``alternatives()``: the runs of a chart that compares engines.
    ``groups``: those that keep their names, with their looks.
    """

    table: pd.DataFrame
    pooled: Callable[[], Mapping[str, pd.DataFrame]]
    single: Callable[[], Mapping[str, pd.DataFrame]]
    styles: dict[str, TenantStyle]
    differences: Callable[[str, str, str], Differences]
    choices: Mapping[str, Any]
    slots: int | None
    note: str
    scenario: Scenario
    engine: Callable[[], pd.DataFrame | None]
    alternatives: Callable[[], Sequence[tuple[Alternative, Result]]]
    groups: Callable[[], dict[str, TenantStyle]]


Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RowTable:
    """The numbers of a chart of engines as rows, in place of the table of tenants.

    ``columns``: name in a row → words above it. ``code``: Python that makes ``rows`` from ``scenario``,
    with ``{policies}`` and ``{under}`` for the policies' names.
    """

    rows: Callable[[View], Rows]
    columns: Mapping[str, str]
    caption: str
    code: str = ""


@dataclass(frozen=True)
class ChartSpec:
    """One entry of the lab's chart chooser.

    ``applies``: whether it can be drawn for a scenario. ``alternatives``: the runs it needs beside those of
    the scenario itself. ``table``: its numbers, where they are not those of tenants. ``failing``: has a
    button that makes a part of the engine fail.
    """

    name: str
    label: str
    tooltip: str
    draw: Callable[[View], Chart]
    controls: tuple[str, ...] = ()
    applies: Callable[[Scenario], bool] = lambda scenario: True
    alternatives: Alternatives | None = None
    table: RowTable | None = None
    failing: bool = False


def _bars(view: View) -> Chart:
    return plots.latency_bars(view.table, measure=view.choices["measure"], styles=view.styles, note=view.note)


def _before_after(view: View) -> Chart:
    measure, before, after = (view.choices[name] for name in ("measure", "before", "after"))
    if before == after:
        return nothing_to_compare(before, view.table["policy"].nunique())
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


def _engine(view: View) -> Chart:
    series = view.engine()
    assert series is not None  # the chart applies only to engines that report
    return batch_chart(series, member_words=_member_word(view), window=_window(view), note=view.note)


def _engine_rows(view: View) -> Rows:
    series = view.engine()
    assert series is not None
    return compare.engine_rows(series, _member_word(view))


def _member_word(view: View) -> str:
    spec = view.scenario.engine_spec
    return (
        "replica" if isinstance(spec, ReplicasSpec) else "part" if isinstance(spec, PartsSpec) else "engine"
    )


def _memory_rows(view: View) -> Rows:
    """All shipped models on this card: whole, and cut as the scenario cuts it."""
    spec = view.scenario.engine_spec
    card: dict[str, Any] = {}
    splits = [("one engine", 1)]
    names = model_names()
    if isinstance(spec, CardSpec):
        settings = ("card_gib", "utilisation", "overhead_gib", "context", "block_tokens")
        card = {name: getattr(spec, name) for name in settings if getattr(spec, name) is not None}
        if spec.model is not None and spec.model not in names:
            names = [*names, spec.model]
    if isinstance(spec, PartsSpec):
        way = WAYS[spec.data()["kind"]]
        splits.append(("MIG", 2) if way == "one engine" else (way, max(2, spec.parts)))
    return memory_rows([load_model(name) for name in names], splits, **card)


def _memory(view: View) -> Chart:
    return memory_bars(_memory_rows(view))


def _way_rows(view: View) -> Rows:
    return compare.way_rows(view.alternatives(), list(view.groups())[:-1])


def _ways(view: View) -> Chart:
    return partition_bars(_way_rows(view), styles=view.groups(), note=view.note)


def _router_rows(view: View) -> Rows:
    return compare.router_rows(view.alternatives())


def _routers(view: View) -> Chart:
    return router_bars(_router_rows(view), note=view.note)


def _capacity(view: View) -> Chart:
    return capacity_card(card_of(view.scenario).as_dict())


def _capacity_rows(view: View) -> Rows:
    rows: Rows = card_of(view.scenario).as_dict()["by_users"]
    return rows


def _reports(scenario: Scenario) -> bool:
    return not isinstance(scenario.engine_spec, SlotsSpec)


def _one_card(scenario: Scenario) -> bool:
    return isinstance(scenario.engine_spec, PartsSpec)


def _has_replicas(scenario: Scenario) -> bool:
    return isinstance(scenario.engine_spec, ReplicasSpec)


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
    ChartSpec(
        "capacity",
        "Capacity card",
        "How many tokens/s in all and each, for how many users, and what binds",
        _capacity,
        applies=draws_card,
        table=RowTable(
            _capacity_rows,
            {
                "users": "Users at once",
                "streams": "Served at once",
                "waiting": "Waiting",
                "tokens_per_s": "Tokens/s in all",
                "tokens_per_s_per_user": "Each",
                "ttft_s": "First token (s)",
                "time_per_output_token_s": "Token every (s)",
            },
            "The same in numbers (means)",
        ),
    ),
    ChartSpec(
        "batch",
        "Batch and KV",
        "What runs, what waits inside the engine and how full the KV cache is, over time",
        _engine,
        ("under", "time_from", "time_to"),
        applies=_reports,
        failing=True,
        table=RowTable(
            _engine_rows,
            {
                "engine": "Engine",
                "running": "Most running",
                "waiting": "Most waiting inside",
                "kv_pct": "Most KV, %",
            },
            "The same in numbers (one run)",
        ),
    ),
    ChartSpec(
        "memory",
        "Memory",
        "What weights and engine take of a card, what is left for KV, and what does not fit",
        _memory,
        applies=_reports,
        table=RowTable(
            _memory_rows,
            {
                "title": "Model",
                "way": "Way",
                "parts": "Parts",
                "part_gb": "GB each",
                "weights_gb": "Weights",
                "overhead_gb": "Engine",
                "kv_gb": "KV",
                "says": "Answer",
            },
            "The same in numbers (GB of one part)",
        ),
    ),
    ChartSpec(
        "ways",
        "Ways to share",
        "The same requests on one card: one engine, MIG, MPS, time-slicing",
        _ways,
        ("under",),
        applies=_one_card,
        alternatives=compare.ways,
        failing=True,
        table=RowTable(
            _way_rows,
            {
                "way": "Way",
                "group": "Tenants",
                "n": "Finished",
                "tokens_per_s": "Tokens/s",
                "latency_p50": "Latency p50 (s)",
                "latency_p99": "Latency p99 (s)",
                "ttft_p99": "First token p99 (s)",
                "retries": "Thrown back",
                "down_s": "Without service (s)",
            },
            "The same in numbers (one run each)",
            "from fairq.scenario.alternatives import named_ways, way_table\n\n"
            "rows = named_ways(way_table(scenario, {policies}))\n",
        ),
    ),
    ChartSpec(
        "routers",
        "Routers",
        "The same requests under every router: what is computed, found, waited for",
        _routers,
        ("under",),
        applies=_has_replicas,
        alternatives=compare.routers,
        failing=True,
        table=RowTable(
            _router_rows,
            {
                "router": "Router",
                "served": "Finished",
                "prefill_per_request": "Computed each",
                "hit_rate": "Found",
                "ttft_mean": "First token (s)",
                "ttft_p50": "p50 (s)",
                "ttft_p99": "p99 (s)",
                "imbalance": "Busiest",
                "retries": "Retried",
            },
            "The same in numbers (one run each)",
            "from fairq.scenario.alternatives import router_table\n\n"
            "rows = router_table(scenario, {under!r})\n",
        ),
    ),
)


def chart_named(name: str) -> ChartSpec:
    """Raises ValueError for a name that is not in :data:`CHARTS`."""
    for chart in CHARTS:
        if chart.name == name:
            return chart
    raise ValueError(f"chart must be one of {', '.join(c.name for c in CHARTS)}, got {name!r}")


def charts_for(scenario: Scenario) -> list[ChartSpec]:
    """The charts that can be drawn for a scenario."""
    return [chart for chart in CHARTS if chart.applies(scenario)]
