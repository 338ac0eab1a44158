"""The whole distribution: what part of a tenant's requests was done within x seconds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from fairq.plots.bars import MEASURES, SHORT
from fairq.plots.panels import edge_labels, panel_page, prepare
from fairq.plots.style import (
    GRID,
    SOFT,
    Chart,
    TenantStyle,
    number,
    outline,
    plain,
    styled,
    value_axis,
    wants_log,
)

POINTS = 300


@styled
def latency_ecdf(
    requests: Mapping[str, pd.DataFrame],
    *,
    measure: str = "latency",
    styles: dict[str, TenantStyle] | None = None,
    log: bool | None = None,
    note: str = "",
) -> Chart:
    """A panel per policy, a line per tenant; the finished requests of all runs taken together.

    Parameters
    ----------
    requests : policy name → rows (``tenant, status`` and the measure, seconds).

    Returns
    -------
    Chart; ``data["lines"]`` maps (policy, tenant) to (x, y) arrays, y in percent.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(MEASURES)}, got {measure!r}")
    folded, names, looks = prepare(requests, styles)
    curves = {}
    for policy, rows in folded.items():
        done = rows[rows["status"] == "finished"]
        for tenant, values in done.groupby("tenant", observed=True, sort=False)[measure]:
            curves[policy, str(tenant)] = _curve(values.to_numpy(dtype=float))
    title = _finding(curves, list(folded), measure)
    subtitle = (
        f"Share of finished requests whose {SHORT[measure]} is at most x. Dotted: p50 and p99."
        f"{' ' + note if note else ''}"
    )
    columns = min(len(folded), 2)
    chart, panels = panel_page(
        list(folded),
        names,
        looks,
        title=title,
        subtitle=subtitle,
        columns=columns,
        panel_in=1.75 if len(folded) > 1 else 2.8,
        lines=True,
    )
    every = np.concatenate([x for x, _ in curves.values()]) if curves else np.array([1.0])
    # The least few values decide nothing; a log axis that shows them all would squeeze the rest.
    positive = every[every > 0]
    floor = float(np.quantile(positive, 0.02)) if positive.size else 1.0
    shown = [floor, float(every.max()) if every.size else 1.0]
    as_log = wants_log(shown) if log is None else log
    for axes, policy in zip(panels, folded, strict=True):
        for level in (50, 99):
            axes.axhline(level, color=SOFT if level == 99 else GRID, linewidth=0.8, linestyle=(0, (1, 2)))
        for tenant in names:
            if (policy, tenant) not in curves:
                continue
            x, y = curves[policy, tenant]
            look = looks[tenant]
            start = max(shown[0], 1e-12) if as_log else 0.0
            (line,) = axes.step(
                np.maximum(np.concatenate([x[:1], x]), start),
                np.concatenate([[0.0], y]),
                where="post",
                color=look.color,
                linestyle=look.dash,
            )
            outline(line)
            line.set_gid(f"ecdf:{policy}:{tenant}")
            at = min(int(np.searchsorted(y, 50.0)), len(x) - 1)
            axes.plot(
                [max(x[at], start)],
                [y[at]],
                marker=look.marker,
                color=look.color,
                markersize=5.5,
                markeredgecolor="white",
                markeredgewidth=0.5,
                linestyle="none",
            )
        value_axis(axes, shown, log=as_log, room=0.02)
        axes.set_ylim(0, 101)
        axes.set_yticks([0, 25, 50, 75, 99], labels=["0 %", "25 %", "50 %", "75 %", "99 %"])
        axes.grid(True, axis="x")
    edge_labels(
        panels, columns, f"{SHORT[measure]} (s){', log scale' if as_log else ''}", "finished within x"
    )
    chart.data["lines"] = curves
    chart.alt = f"Cumulative distribution of {SHORT[measure]}. " + " ".join(
        f"{policy}, {tenant}: half within {number(_at(curve, 50))} s, 99 % within {number(_at(curve, 99))} s."
        for (policy, tenant), curve in curves.items()
    )
    return chart


def _curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted values and the percentage at or below each; thinned, with more points kept in the tail."""
    values = np.sort(values[np.isfinite(values)])
    n = len(values)
    if n > POINTS:
        tail = np.unique(
            np.concatenate(
                [np.linspace(0, n - 1, POINTS * 2 // 3), n - 1 - np.geomspace(1, n - 1, POINTS // 3)]
            )
        )
        keep = np.unique(np.clip(np.round(tail).astype(int), 0, n - 1))
        keep = np.unique(np.concatenate([keep, [n - 1]]))
        return values[keep], 100.0 * (keep + 1) / n
    return values, 100.0 * np.arange(1, n + 1) / max(n, 1)


def _at(curve: tuple[np.ndarray, np.ndarray], level: float) -> float:
    x, y = curve
    return float(x[min(int(np.searchsorted(y, level)), len(x) - 1)])


def _finding(
    curves: Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]], policies: list[str], measure: str
) -> str:
    """The tenant that the policies treat most differently, at the median."""
    best: tuple[float, str, str, str] = (0.0, "", "", "")
    for tenant in dict.fromkeys(t for _, t in curves):
        halves = {p: _at(curves[p, tenant], 50) for p in policies if (p, tenant) in curves}
        halves = {p: v for p, v in halves.items() if v > 0}
        if len(halves) > 1:
            low, high = min(halves, key=lambda p: halves[p]), max(halves, key=lambda p: halves[p])
            if halves[high] / halves[low] > best[0]:
                best = (halves[high] / halves[low], tenant, low, high)
    if best[0] > 1.05:
        _, tenant, low, high = best
        return (
            f"{plain(tenant)}: half done within {number(_at(curves[low, tenant], 50))} s under {plain(low)}, "
            f"{number(_at(curves[high, tenant], 50))} s under {plain(high)}"
        )
    return f"How {SHORT[measure]} is spread over the requests of each tenant"
