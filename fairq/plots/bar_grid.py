"""Rows of bars under several headings: what the charts of routers and of shared cards have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from fairq.plots.style import (
    INK,
    PAD,
    WIDTH_IN,
    Chart,
    TenantStyle,
    hatch_ink,
    heading,
    heading_height,
    legend_rows,
    number,
    place,
    plain,
    rim,
    tenant_legend,
    text_width,
    value_axis,
    wants_log,
    wrap,
    write,
)

ROW_IN = 0.185
GAP_IN = 0.11


@dataclass(frozen=True)
class Panel:
    """One measure: ``values[row][series]``, written with ``words``. Bars start at 0, or at the left of a log
    axis, named as such, where they spread far. Panels of one ``scale`` have the same axis, so that bars of
    the same length mean the same.
    """

    title: str
    values: Mapping[str, Mapping[str, float]]
    words: Callable[[float], str] = number
    linear: bool = False
    scale: str = ""


def bar_grid(
    rows: Sequence[str],
    series: Sequence[str],
    panels: Sequence[Panel],
    looks: Mapping[str, TenantStyle],
    *,
    title: str,
    subtitle: str,
    columns: int = 2,
    legend: bool = True,
) -> Chart:
    """The page: ``panels`` in so many ``columns``, each with a block per row and in it a bar per series.

    ``data["bars"]``: (panel's title, row, series) → the value drawn.
    """
    head = heading_height(title, subtitle)
    keys = 0.19 * len(legend_rows(list(series), WIDTH_IN - 2 * PAD)) + 0.05 if legend else 0.0
    block = len(series) * ROW_IN + GAP_IN
    body = len(rows) * block + 0.06
    label_in = min(1.5, max(text_width(plain(row), 8.6) for row in rows) + 0.12)
    shared = [
        [each for each in panels if each is panel or (panel.scale and each.scale == panel.scale)]
        for panel in panels
    ]
    values = [[p.values[row][name] for p in same for row in rows for name in series] for same in shared]
    logs = [wants_log(every) and not panel.linear for every, panel in zip(values, panels, strict=True)]
    gap_x, gap_y, title_in = 0.3, 0.44 if any(logs) else 0.3, 0.34
    lines = -(-len(panels) // columns)
    chart = Chart(head + keys + lines * (title_in + body + gap_y) + 0.06)
    heading(chart, title, subtitle)
    if legend:
        tenant_legend(chart, head, list(series), dict(looks), lines=False)
    width = (WIDTH_IN - 2 * PAD - label_in - (columns - 1) * gap_x) / columns
    bars = {}
    for i, panel in enumerate(panels):
        line, column = divmod(i, columns)
        top = head + keys + line * (title_in + body + gap_y)
        left = PAD + label_in + column * (width + gap_x)
        heads = wrap(panel.title, width, 8.8, "bold")[:2]
        for k, words in enumerate(heads):
            y = top + 0.16 * (k + 2 - len(heads)) - 0.02
            write(chart, left, y, words, fontsize=8.8, fontweight="bold", color=INK)
        axes = place(chart, left, top + title_in, width, body)
        axes.set_ylim(top + body, top)
        axes.set_yticks([])
        labels = {(row, name): panel.words(panel.values[row][name]) for row in rows for name in series}
        longest = max(
            text_width(p.words(p.values[row][name]), 8.2) for p in shared[i] for row, name in labels
        )
        log = logs[i]
        low, _ = value_axis(axes, values[i], log=log, room=(longest + 0.12) / width)
        if log:
            axes.set_xlabel("log scale", fontsize=7.8, labelpad=1)
        axes.spines["left"].set_visible(not log)
        if not log:
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes.grid(True, axis="x")
        axes.tick_params(axis="x", length=0, labelsize=7.8)
        for j, row in enumerate(rows):
            base = top + 0.05 + j * block
            if column == 0:
                middle = base + title_in + len(series) * ROW_IN / 2
                write(chart, PAD, middle, plain(row), fontsize=8.6, color=INK, va="center")
            for k, name in enumerate(series):
                value, y = panel.values[row][name], base + (k + 0.5) * ROW_IN
                look = looks[name]
                bars[panel.title, row, name] = value
                if value > low:
                    axes.barh(
                        y,
                        value - low,
                        ROW_IN * 0.76,
                        left=low,
                        facecolor=look.color,
                        edgecolor=hatch_ink(look.color) if look.hatch else rim(look.color),
                        hatch=look.hatch,
                        linewidth=0.0 if look.hatch else 0.5,
                    )
                axes.text(
                    max(value, low) if value == value else low,
                    y,
                    labels[row, name],
                    va="center",
                    fontsize=8.2,
                    color=INK,
                    transform=axes.transData + ScaledTranslation(0.05, 0, chart.dpi_scale_trans),
                )
    chart.data["bars"] = bars
    return chart
