"""Who holds which slot, when."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fairq.plots.panels import panel_page, prepare, span
from fairq.plots.style import (
    INK,
    OTHERS,
    Chart,
    TenantStyle,
    hatch_ink,
    number,
    plain,
    styled,
    tick,
    time_unit,
)

BAR = 0.8


@styled
def slot_gantt(
    requests: Mapping[str, pd.DataFrame],
    *,
    slots: int | None = None,
    styles: dict[str, TenantStyle] | None = None,
    window: tuple[float, float] | None = None,
    note: str = "",
) -> Chart:
    """A panel per policy, a row per slot, a bar per request in its tenant's colour and hatch. One run each.

    Parameters
    ----------
    requests : policy name → rows of ONE run (``tenant, slot, start, finish``; seconds; slots count from 0).
    slots : how many rows to draw; default: the highest slot used.
    window : (from, to) in seconds; default the whole run.

    Returns
    -------
    Chart; ``data["bars"]`` maps (policy, tenant) to an array of (slot, start, finish), one row per request;
    ``data["window"]`` is (from, to) in seconds.
    """
    folded, names, looks = prepare(requests, styles)
    low, high = span(folded, window)
    unit, unit_name = time_unit(high - low)
    ran = {
        p: rows[rows["start"].notna() & rows["slot"].notna() & (rows["slot"] >= 0)]
        for p, rows in folded.items()
    }
    used = max((int(rows["slot"].max()) + 1 for rows in ran.values() if len(rows)), default=1)
    count = used if slots is None else max(int(slots), used)
    bars = {}
    for policy, rows in ran.items():
        ends = rows["finish"].fillna(high)
        inside = (ends >= low) & (rows["start"] <= high)
        for tenant in names:
            mine = inside & (rows["tenant"] == tenant)
            bars[policy, tenant] = np.column_stack(
                [
                    rows.loc[mine, "slot"].to_numpy(dtype=float),
                    rows.loc[mine, "start"].to_numpy(dtype=float),
                    ends[mine].to_numpy(dtype=float),
                ]
            )
    title = _finding(bars, list(folded), names)
    subtitle = f"Each row is a slot, each bar a request; one run.{' ' + note if note else ''}"
    panel_in = (
        float(np.clip(0.115 * count + 0.1, 0.42, 3.2))
        if len(folded) > 1
        else float(np.clip(0.22 * count, 0.8, 4.0))
    )
    shown = [t for t in names if any(len(bars[p, t]) for p in folded)] or names
    chart, panels = panel_page(
        list(folded), shown, looks, title=title, subtitle=subtitle, columns=1, panel_in=panel_in, lines=False
    )
    pixel = (high - low) / 700
    for axes, policy in zip(panels, folded, strict=True):
        for tenant in names:
            own = bars[policy, tenant]
            if not len(own):
                continue
            look = looks[tenant]
            # Bars wide enough get a white edge, so that one request ends where the next begins.
            wide = float(np.median(own[:, 2] - own[:, 1])) > 8 * pixel
            shape = _rectangles(own, pixel, unit)
            patch = PathPatch(
                shape, facecolor=look.color, hatch=look.hatch, edgecolor=hatch_ink(look.color), linewidth=0.0
            )
            patch.set_gid(f"gantt:{policy}:{tenant}")
            # Not add_patch, which would go through every corner to find limits that are set below.
            axes.add_artist(patch)
            if wide:
                axes.add_artist(PathPatch(shape, facecolor="none", edgecolor="white", linewidth=0.9))
        axes.set_xlim(low / unit, high / unit)
        axes.set_ylim(count - 0.5, -0.5)
        axes.set_yticks(_slot_ticks(count))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v + 1:.0f}"))
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
        axes.set_ylabel("slot")
        axes.spines["left"].set_visible(False)
    if panels:
        panels[-1].set_xlabel(f"time ({unit_name})", color=INK)
    chart.data.update(bars=bars, window=(low, high))
    chart.alt = f"Slots over time from {number(low)} to {number(high)} s, one run. " + " ".join(
        f"{p}: "
        + ", ".join(
            f"{t} {_slot_seconds(bars[p, t], low, high):.0f} slot-seconds" for t in names if len(bars[p, t])
        )
        + "."
        for p in folded
    )
    return chart


def _slot_ticks(count: int) -> list[int]:
    step = max(1, -(-count // 6))
    return sorted({*range(0, count, step)})


def _rectangles(bars: np.ndarray, least: float, unit: float) -> Path:
    """All bars of one tenant as one compound path: a single patch draws them, hatch included."""
    slot, start, finish = bars.T
    # A bar thinner than a pixel would vanish.
    finish = np.maximum(finish, start + least)
    top, bottom = slot - BAR / 2, slot + BAR / 2
    corners = np.stack(
        [
            np.stack([start, bottom], 1),
            np.stack([start, top], 1),
            np.stack([finish, top], 1),
            np.stack([finish, bottom], 1),
            np.stack([start, bottom], 1),
        ],
        axis=1,
    )
    corners[:, :, 0] /= unit
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(bars))
    return Path(corners.reshape(-1, 2), codes)


def _slot_seconds(bars: np.ndarray, low: float, high: float) -> float:
    if not len(bars):
        return 0.0
    return float(np.sum(np.clip(bars[:, 2], low, high) - np.clip(bars[:, 1], low, high)))


def _finding(bars: Mapping[tuple[str, str], np.ndarray], policies: list[str], names: list[str]) -> str:
    """Who holds the largest part of the slots under the first policy."""
    first = policies[0]
    held = {
        t: float(np.sum(bars[first, t][:, 2] - bars[first, t][:, 1])) if len(bars[first, t]) else 0.0
        for t in names
    }
    whole = sum(held.values())
    if whole <= 0:
        return f"No slot is used under {plain(first)}"
    most = max(held, key=lambda t: held[t])
    hold = "hold" if most == OTHERS or most.startswith("all others") else "holds"
    return f"{plain(most)} {hold} {100 * held[most] / whole:.0f} % of the slot time under {plain(first)}"
