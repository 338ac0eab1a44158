"""Inside the engines over time: running, waiting in their own queues, KV cache in use."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from fairq.plots.style import (
    INK,
    PAD,
    WIDTH_IN,
    Chart,
    heading,
    heading_height,
    legend_rows,
    number,
    outline,
    place,
    styled,
    tenant_legend,
    tenant_styles,
    tick,
    time_unit,
)

PANELS = {
    "running": "running",
    "waiting": "waiting in the engine's own queue",
    "kv_pct": "KV cache in use, %",
}
BINS = 180
PANEL_IN = 1.0


@styled
def batch_chart(
    series: pd.DataFrame,
    *,
    member_words: str = "part",
    window: tuple[float, float] | None = None,
    note: str = "",
) -> Chart:
    """Three panels over time, a line per engine.

    Parameters
    ----------
    series : ``t`` (seconds), ``running``, ``waiting``, ``kv_pct``, and ``member`` where there are several
        (``Result.engine`` of a batching engine or a fleet).
    member_words : what a member is called: "part", "replica".
    window : (from, to) in seconds; default all.

    Returns
    -------
    Chart; ``data["grid"]`` in seconds, shape (bins + 1,), and ``data["lines"]``: (panel, member) → the mean
    in each bin of it, shape (bins,); ``data["window"]``: (from, to) in seconds.

    Raises
    ------
    ValueError : no rows, or an empty window.
    """
    if series.empty:
        raise ValueError("no engine series to draw")
    low, high = window if window is not None else (float(series["t"].min()), float(series["t"].max()))
    if not low < high:
        raise ValueError(f"window must be (from, to) with from < to, got {window!r}")
    members = [0] if "member" not in series else sorted(int(m) for m in series["member"].unique())
    names = {member: f"{member_words} {member}" for member in members}
    looks = tenant_styles(names.values())
    grid = np.linspace(low, high, BINS + 1)
    lines = {}
    for member in members:
        mine = series if "member" not in series else series[(series["member"] == member).to_numpy()]
        for column in PANELS:
            lines[column, member] = _bin_means(
                mine["t"].to_numpy(dtype=float), mine[column].to_numpy(dtype=float), grid
            )
    title, alt = _finding(series, members, names)
    step = number((high - low) / BINS)
    subtitle = f"What the engine itself reports, means over {step} s; one run.{' ' + note if note else ''}"
    head = heading_height(title, subtitle)
    several = len(members) > 1
    keys = list(names.values())
    legend = 0.19 * len(legend_rows(keys, WIDTH_IN - 2 * PAD)) + 0.05 if several else 0.0
    chart = Chart(head + legend + len(PANELS) * (PANEL_IN + 0.34) + 0.42)
    heading(chart, title, subtitle)
    if several:
        tenant_legend(chart, head, keys, looks, lines=True)
    unit, unit_name = time_unit(high - low)
    for i, (column, words) in enumerate(PANELS.items()):
        top = head + legend + 0.26 + i * (PANEL_IN + 0.34)
        axes = place(chart, 0.62, top, WIDTH_IN - 0.62 - PAD, PANEL_IN)
        axes.set_title(words, loc="left", color=INK, fontsize=9.0, fontweight="bold", pad=3)
        for member in members:
            look = looks[names[member]]
            (line,) = axes.plot(
                (grid[:-1] + grid[1:]) / 2 / unit,
                lines[column, member],
                color=look.color,
                linestyle=look.dash,
                linewidth=1.4,
            )
            outline(line)
        most = max(float(lines[column, member].max()) for member in members)
        axes.set_xlim(low / unit, high / unit)
        axes.set_ylim(0, 104 if column == "kv_pct" else max(1.0, most * 1.08))
        percent = FixedLocator([0, 25, 50, 75, 100])
        axes.yaxis.set_major_locator(percent if column == "kv_pct" else MaxNLocator(4, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
        axes.xaxis.set_major_locator(MaxNLocator(7))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
        axes.grid(True, axis="y")
        last = i == len(PANELS) - 1
        axes.tick_params(labelbottom=last)
        if last:
            axes.set_xlabel(f"time ({unit_name})")
    chart.data.update(grid=grid, lines=lines, window=(low, high))
    chart.alt = alt
    return chart


def _bin_means(times: np.ndarray, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Time means between the edges of what holds ``values[i]`` from ``times[i]`` on, and 0 before."""
    moments = np.concatenate([[min(times[0], edges[0])], times, [max(times[-1], edges[-1])]])
    held = np.concatenate([[0.0], values])
    area = np.concatenate([[0.0], np.cumsum(held * np.diff(moments))])
    means: np.ndarray = np.diff(np.interp(edges, moments, area)) / np.diff(edges)
    return means


def _finding(series: pd.DataFrame, members: list[int], names: dict[int, str]) -> tuple[str, str]:
    running, waiting = int(series["running"].max()), int(series["waiting"].max())
    full = float(series["kv_pct"].max())
    if waiting > running:
        title = f"Up to {waiting:,} requests wait inside the engine, where no policy reaches them"
    elif full > 95:
        title = f"The KV cache is what is full: {running} run at most"
    else:
        title = f"At most {running} run at once, {number(full)} % of the KV cache in use"
    alt = (
        f"Engine over time: at most {running} running, {waiting} waiting in its own queue,"
        f" {number(full)} % of the KV cache in use"
    )
    return title, alt + (
        f"; {len(members)} engines, {', '.join(names.values())}." if len(members) > 1 else "."
    )
