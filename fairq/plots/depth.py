"""The queue over time: how many requests of each tenant wait."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fairq.plots.panels import edge_labels, panel_page, prepare, span, steps
from fairq.plots.style import INK, Chart, TenantStyle, hatch_ink, number, plain, styled, tick, time_unit

POINTS = 360


@styled
def queue_depth(
    requests: Mapping[str, pd.DataFrame],
    *,
    styles: dict[str, TenantStyle] | None = None,
    window: tuple[float, float] | None = None,
    note: str = "",
) -> Chart:
    """A panel per policy; waiting requests stacked by tenant. One run each: a mean would hide the burst.

    Parameters
    ----------
    requests : policy name → rows of ONE run (``tenant, status, arrival, start, finish, left``; seconds). A
        request that never started waits until it ``left``, else to the end.
    window : (from, to) in seconds; default the whole run.

    Returns
    -------
    Chart; ``data["grid"]`` in seconds, ``data["waiting"]``: (policy, tenant) → counts on that grid, and
    ``data["window"]``: (from, to) in seconds.
    """
    folded, names, looks = prepare(requests, styles)
    low, high = span(folded, window)
    grid = np.linspace(low, high, POINTS)
    waiting = {}
    for policy, rows in folded.items():
        # Refused work never waited. Who was never served stops waiting when it left.
        left = rows["start"].where(rows["start"].notna(), rows["left"])
        waits = rows["status"] != "refused"
        for tenant in names:
            mine = waits & (rows["tenant"] == tenant)
            waiting[policy, tenant] = steps(rows.loc[mine, "arrival"], grid) - steps(left[mine], grid)
    total = {p: np.sum([waiting[p, t] for t in names], axis=0) for p in folded}
    peak = {p: int(values.max()) for p, values in total.items()}
    unit, unit_name = time_unit(high - low)
    title = _finding(folded, total, grid, waiting, names)
    subtitle = f"Waiting requests, stacked by tenant; one run.{' ' + note if note else ''}"
    columns = min(len(folded), 2)
    shown = [t for t in names if any((waiting[p, t] > 0).any() for p in folded)] or names
    chart, panels = panel_page(
        list(folded),
        shown,
        looks,
        title=title,
        subtitle=subtitle,
        columns=columns,
        panel_in=1.55 if len(folded) > 1 else 2.6,
        lines=False,
    )
    ceiling = max(1, *peak.values()) * 1.06 if peak else 1.0
    for axes, policy in zip(panels, folded, strict=True):
        base = np.zeros(len(grid))
        for tenant in names:
            upper = base + waiting[policy, tenant]
            look = looks[tenant]
            if (upper > base).any():
                area = axes.fill_between(
                    grid / unit,
                    base,
                    upper,
                    step="post",
                    facecolor=look.color,
                    edgecolor=hatch_ink(look.color),
                    hatch=look.hatch,
                    linewidth=0.0,
                )
                area.set_gid(f"depth:{policy}:{tenant}")
            base = upper
        axes.step(grid / unit, base, where="post", color=INK, linewidth=0.9)
        axes.set_xlim(low / unit, high / unit)
        axes.set_ylim(0, ceiling)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
        axes.grid(True, axis="y")
    edge_labels(panels, columns, f"time ({unit_name})", "waiting requests")
    chart.data.update(grid=grid, waiting=waiting, window=(low, high))
    chart.alt = "Requests waiting over time, one run. " + " ".join(
        _sentence(p, total[p], grid / unit, unit_name, {t: waiting[p, t] for t in names}) for p in folded
    )
    return chart


def _sentence(
    policy: str, total: np.ndarray, times: np.ndarray, unit: str, waiting: Mapping[str, np.ndarray]
) -> str:
    """The longest queue, at a time in the axis's unit, and of each tenant the most that ever waited."""
    at = int(total.argmax())
    if not total[at]:
        return f"{policy}: nobody waits."
    most = max(waiting, key=lambda t: int(waiting[t][at]))
    longest = f"{policy}: at most {int(total[at])} at {number(times[at])} {unit}, most of them from {most}"
    each = ", ".join(f"{tenant} {int(counts.max())}" for tenant, counts in waiting.items())
    return f"{longest}; at most of each: {each}." if len(waiting) > 1 else f"{longest}."


def _most(waiting: Mapping[tuple[str, str], np.ndarray], policy: str, names: list[str], at: int) -> str:
    return max(names, key=lambda t: int(waiting[policy, t][at]))


def _finding(
    folded: Mapping[str, pd.DataFrame],
    total: Mapping[str, np.ndarray],
    grid: np.ndarray,
    waiting: Mapping[tuple[str, str], np.ndarray],
    names: list[str],
) -> str:
    """Who is in the queue when it is longest, and who is not under another policy."""
    first = next(iter(folded))
    at = int(total[first].argmax())
    if total[first][at] == 0:
        return f"Nobody waits under {plain(first)}"
    owner = _most(waiting, first, names, at)
    all_of_them, mine = int(total[first][at]), int(waiting[first, owner][at])
    longest = f"Up to {all_of_them} requests wait under {plain(first)}"
    return f"{longest}, {'all' if mine == all_of_them else mine} of them from {plain(owner)}"
