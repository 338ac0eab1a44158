"""Theory drawn over simulation: lines for what a formula says, points with intervals for what was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fairq.plots.style import (
    DASHES,
    INK,
    MARKERS,
    OKABE_ITO,
    PAD,
    SOFT,
    WIDTH_IN,
    Chart,
    heading,
    heading_height,
    number,
    outline,
    place,
    plain,
    styled,
    text_width,
    tick,
    value_axis,
    write,
)

PANEL_IN = 2.7


@dataclass(frozen=True)
class Curve:
    """One thing against x: ``theory`` is a line, ``measured`` points with the ends of their intervals.

    ``theory``: (x, y), shape (n,) each. ``measured``: (x, mean, low, high), shape (m,) each; low and high are
    NaN where a point has no interval.
    """

    theory: tuple[Sequence[float], Sequence[float]] | None = None
    measured: Sequence[tuple[float, float, float, float]] = field(default=())


@styled
def curves(
    series: Mapping[str, Curve],
    *,
    title: str,
    x: str,
    y: str,
    note: str = "",
    log: bool = False,
    top: float | None = None,
) -> Chart:
    """Lines (theory) and points (simulation) against one axis each.

    Parameters
    ----------
    series : label → its curve; at most eight.
    title : what is seen. x, y : axis labels with units. note : what is drawn, below the title.
    log : y on a log axis. top : where the y axis ends; default: fits. Where values lie below 0, so does the
    axis, with a line at 0.

    Returns
    -------
    Chart; ``data`` maps each label to its rows.

    Raises
    ------
    ValueError : nothing to draw, or more than eight series.
    """
    if not 1 <= len(series) <= len(OKABE_ITO):
        raise ValueError(f"series must have 1 to {len(OKABE_ITO)} curves, got {len(series)}")
    names = [plain(name) for name in series]
    theory = any(curve.theory is not None for curve in series.values())
    points = any(curve.measured for curve in series.values())
    kinds = "Lines: theory; points: simulation." if theory and points else ""
    subtitle = f"{note} {kinds}".strip()
    head = heading_height(title, subtitle)
    chart = Chart(head + PANEL_IN + 0.75)
    heading(chart, title, subtitle)
    # One curve needs no label: the title says what it is.
    right = max(text_width(name, 8.8) for name in names) + 0.2 if len(names) > 1 else 0.0
    axes = place(chart, PAD + 0.6, head + 0.22, WIDTH_IN - PAD - 0.6 - right - PAD, PANEL_IN)
    # The y axis is named above it, upright: nobody needs to turn the head.
    write(chart, PAD, head + 0.02, plain_axis(y), fontsize=9.0, color=SOFT)
    axes.set_xlabel(plain_axis(x))
    axes.grid(True, axis="y")
    ends: list[tuple[float, int]] = []
    heights: list[float] = []
    for i, curve in enumerate(series.values()):
        last = float("nan")
        if curve.theory is not None:
            at, value = (np.asarray(part, dtype=float) for part in curve.theory)
            (line,) = axes.plot(at, value, color=OKABE_ITO[i], linestyle=DASHES[i], linewidth=1.8, zorder=2)
            outline(line)
            last = float(value[-1])
            heights += [float(v) for v in value if np.isfinite(v)]
        if curve.measured:
            rows = np.asarray(curve.measured, dtype=float)
            low, high = rows[:, 1] - rows[:, 2], rows[:, 3] - rows[:, 1]
            bars = np.nan_to_num(np.vstack([low, high]))
            axes.errorbar(
                rows[:, 0],
                rows[:, 1],
                yerr=bars,
                fmt=MARKERS[i],
                color=OKABE_ITO[i],
                markeredgecolor="white",
                markeredgewidth=0.6,
                markersize=6.5,
                elinewidth=1.1,
                capsize=2.5,
                zorder=3,
            )
            last = float(rows[-1, 1]) if not np.isfinite(last) else last
            # A whisker below 0 round a mean above it says nothing that the axis must be longer for.
            least = -np.inf if np.nanmin(rows[:, 1]) < 0 else 0.0
            heights += [max(float(v), least) for v in rows[:, 1:].ravel() if np.isfinite(v)]
        ends.append((last, i))
    low_y, high_y = value_axis(axes, heights, log=log, axis="y")
    if top is not None:
        high_y = top
        axes.set_ylim(low_y, high_y)
    if low_y < 0 and not log:
        axes.axhline(0.0, color=INK, linewidth=0.9, zorder=1)
    whole = all(float(v).is_integer() for curve in series.values() for v in _across(curve))
    axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 2.5, 5, 10], integer=whole))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
    x_low, x_high = axes.get_xlim()
    for at_y, i in _apart(ends, low_y, high_y, log) if len(names) > 1 else []:
        part = np.log(at_y / low_y) / np.log(high_y / low_y) if log else (at_y - low_y) / (high_y - low_y)
        part = float(np.clip(part, 0.0, 1.0))
        only_line = not list(series.values())[i].measured
        axes.annotate(names[i], (1.035, part), xycoords="axes fraction", color=INK, fontsize=8.8, va="center")
        axes.plot(
            [1.008, 1.028] if only_line else [1.018],
            [part, part] if only_line else [part],
            transform=axes.transAxes,
            clip_on=False,
            color=OKABE_ITO[i],
            linestyle="-" if only_line else "none",
            marker="none" if only_line else MARKERS[i],
            markersize=5,
        )
    axes.set_xlim(x_low, x_high)
    chart.data = {
        name: {"theory": curve.theory, "measured": list(curve.measured)} for name, curve in series.items()
    }
    chart.alt = f"{title}. {subtitle} {y} against {x}. " + " ".join(_words(n, c) for n, c in series.items())
    return chart


def _across(curve: Curve) -> list[float]:
    """Every x of a curve."""
    return [*(curve.theory[0] if curve.theory is not None else ()), *(row[0] for row in curve.measured)]


def plain_axis(text: str) -> str:
    """A label that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")


def _apart(ends: list[tuple[float, int]], low: float, high: float, log: bool) -> list[tuple[float, int]]:
    """Label heights moved up so that no two touch, within the axis."""
    least = 0.17 / PANEL_IN
    scaled = []
    for value, i in ends:
        value = min(max(value if np.isfinite(value) else low, low), high)
        part = np.log(value / low) / np.log(high / low) if log else (value - low) / (high - low)
        scaled.append([float(part), i])
    scaled.sort()
    for before, after in pairwise(scaled):
        after[0] = max(after[0], before[0] + least)
    over = scaled[-1][0] - 1.0
    if over > 0:
        scaled[-1][0] = 1.0
        for k in range(len(scaled) - 2, -1, -1):
            scaled[k][0] = min(scaled[k][0], scaled[k + 1][0] - least)
    return [
        (float(low * (high / low) ** part) if log else float(low + part * (high - low)), int(i))
        for part, i in scaled
    ]


def _words(name: str, curve: Curve) -> str:
    """A curve in words: where it begins and ends."""
    parts = []
    if curve.theory is not None:
        at, value = curve.theory
        parts.append(
            f"theory from {number(float(value[0]))} at {number(float(at[0]))}"
            f" to {number(float(value[-1]))} at {number(float(at[-1]))}"
        )
    if curve.measured:
        first, last = curve.measured[0], curve.measured[-1]
        parts.append(
            f"simulated {number(first[1])} at {number(first[0])} and {number(last[1])} at {number(last[0])}"
        )
    return f"{name}: {'; '.join(parts)}."
