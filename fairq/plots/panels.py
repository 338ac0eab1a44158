"""A panel per policy on shared scales: the page that the ECDF, queue and slot charts have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fairq.plots.fold import fold_tenants, rest_name, top_tenants
from fairq.plots.style import (
    INK,
    PAD,
    WIDTH_IN,
    Chart,
    TenantStyle,
    heading,
    heading_height,
    legend_rows,
    place,
    plain,
    tenant_legend,
    tenant_styles,
)

LEGEND_ROW_IN = 0.19


def prepare(
    requests: Mapping[str, pd.DataFrame], styles: dict[str, TenantStyle] | None
) -> tuple[dict[str, pd.DataFrame], list[str], dict[str, TenantStyle]]:
    """Rows per policy with few enough tenants to draw, their names in order, and a look for each.

    Raises
    ------
    ValueError : no policy given, or a policy without rows.
    """
    if not requests:
        raise ValueError("no policy to draw: give at least one table of requests")
    for policy, rows in requests.items():
        if rows.empty:
            raise ValueError(f"no requests under policy {policy!r}: nothing to draw")
    first = next(iter(requests.values()))
    named = top_tenants(first) if styles is None else [t for t in styles if t in set(first["tenant"])]
    everyone = set().union(*(set(rows["tenant"]) for rows in requests.values()))
    rest = rest_name(everyone)
    looks = tenant_styles(named, rest) if styles is None else {**tenant_styles([], rest), **styles}
    folded = {policy: fold_tenants(rows, named, rest) for policy, rows in requests.items()}
    present = set().union(*(set(rows["tenant"]) for rows in folded.values()))
    names = [name for name in looks if name in present and name != rest]
    return folded, [*names, *([rest] if rest in present else [])], looks


def panel_page(
    policies: Sequence[str],
    names: Sequence[str],
    looks: dict[str, TenantStyle],
    *,
    title: str,
    subtitle: str,
    columns: int,
    panel_in: float,
    lines: bool,
    left_in: float = 0.62,
) -> tuple[Chart, list[Axes]]:
    """The page with heading, one legend of tenants, and an empty panel per policy (its name above it)."""
    rows = -(-len(policies) // columns)
    head = heading_height(title, subtitle)
    legend = LEGEND_ROW_IN * len(legend_rows(names, WIDTH_IN - 2 * PAD)) + 0.05
    gap_x, gap_y = 0.28, 0.34
    height = head + legend + 0.24 + rows * panel_in + (rows - 1) * gap_y + 0.52
    chart = Chart(height)
    heading(chart, title, subtitle)
    tenant_legend(chart, head, names, looks, lines=lines)
    top = head + legend + 0.24
    width = (WIDTH_IN - left_in - PAD - (columns - 1) * gap_x) / columns
    panels = []
    for i, policy in enumerate(policies):
        row, column = divmod(i, columns)
        axes = place(
            chart, left_in + column * (width + gap_x), top + row * (panel_in + gap_y), width, panel_in
        )
        axes.set_title(plain(policy), loc="left", color=INK, fontsize=9.2, fontweight="bold", pad=4)
        # Shared scales: numbers on the left and lower edge only.
        axes.tick_params(labelleft=column == 0, labelbottom=i + columns >= len(policies))
        panels.append(axes)
    return chart, panels


def edge_labels(panels: Sequence[Axes], columns: int, x: str, y: str) -> None:
    """What the axes are, on the left and lower edge of a page of panels."""
    for i, axes in enumerate(panels):
        if i % columns == 0:
            axes.set_ylabel(y)
        if i + columns >= len(panels):
            axes.set_xlabel(x)


def steps(events: pd.Series, grid: np.ndarray) -> np.ndarray:
    """How many of the times in ``events`` lie at or before each grid time."""
    times = np.sort(events.to_numpy(dtype=float))
    times = times[np.isfinite(times)]
    return np.searchsorted(times, grid, side="right")


def span(requests: Mapping[str, pd.DataFrame], window: tuple[float, float] | None) -> tuple[float, float]:
    """The time to draw, in seconds: the window asked for, or from 0 to the last thing that happened."""
    if window is not None:
        low, high = window
        if not low < high:
            raise ValueError(f"window must be (from, to) with from < to, got {window!r}")
        return float(low), float(high)
    last = 0.0
    for rows in requests.values():
        for column in ("arrival", "finish"):
            values = rows[column].to_numpy(dtype=float)
            if np.isfinite(values).any():
                last = max(last, float(np.nanmax(values)))
    return 0.0, last if last > 0 else 1.0
