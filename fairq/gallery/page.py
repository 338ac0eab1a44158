"""What the gallery's charts share: the page, labels at the end of lines, claims that are checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from fairq.gallery.core import GalleryError
from fairq.plots.style import (
    INK,
    PAD,
    WIDTH_IN,
    Chart,
    TenantStyle,
    heading,
    heading_height,
    place,
    tenant_styles,
    text_width,
    tick,
    wrap,
)

LABEL_PT = 8.6


def claim(text: str, *facts: bool) -> str:
    """The text, where all the facts hold. Raises GalleryError otherwise."""
    if not all(facts):
        raise GalleryError(f"the data do not show: {text}")
    return text


def sheet(title: str, subtitle: str, body_in: float, alt: str = "") -> tuple[Chart, float]:
    """A page with its heading, and where the body begins (inches from the top).

    Raises
    ------
    GalleryError : a title or subtitle of more than two lines.
    """
    width = WIDTH_IN - 2 * PAD
    named, title, subtitle = title, unbroken(title), unbroken(subtitle)
    for text, size, weight in ((title, 11.5, "bold"), (subtitle, 8.8, "normal")):
        if len(wrap(text, width, size, weight)) > 2:
            raise GalleryError(f"does not fit on two lines: {text}")
    head = heading_height(title, subtitle)
    chart = Chart(head + body_in)
    heading(chart, title, subtitle)
    chart.alt = f"{named}. {alt}" if alt else named
    chart.data["title"] = named
    return chart, head


def unbroken(text: str) -> str:
    """A number stays on one line with its unit, and with what it is the number of."""
    text = re.sub(r"(?<=\d) (?=(?:s|min|%|tokens|GB|times)\b|%)", "\u00a0", text)
    return re.sub(r"\b(round|CV|\+) (?=\d)", "\\1\u00a0", text)


def looks(names: Sequence[str]) -> dict[str, TenantStyle]:
    """A look per tenant as in the kit's charts, with dots that keep an SVG small."""
    made = tenant_styles(names)
    return {
        name: replace(made[name], hatch=".." if "." in made[name].hatch else made[name].hatch)
        for name in names
    }


def panel(chart: Chart, left: float, top: float, width: float, height: float, title: str = "") -> Axes:
    """Axes at a place in inches, with an optional bold title above."""
    axes = place(chart, left, top, width, height)
    if title:
        axes.set_title(title, loc="left", color=INK, fontsize=9.2, fontweight="bold", pad=5)
    return axes


def lone_panel(chart: Chart, head: float, body: float, left: float, labels: Sequence[str] = ()) -> Axes:
    """The one panel of a sheet, ``body`` inches high: ``left`` inches for its axis, room for end labels."""
    right = labels_in(labels) if labels else 0.0
    return panel(chart, PAD + left, head + 0.12, WIDTH_IN - 2 * PAD - left - right, body)


def log_axis(axes: Axes, which: str, ticks: Sequence[float], low: float, high: float) -> None:
    """A log axis with exactly these ticks."""
    set_scale, set_limits = (
        (axes.set_xscale, axes.set_xlim) if which == "x" else (axes.set_yscale, axes.set_ylim)
    )
    set_scale("log")
    set_limits(low, high)
    target = axes.xaxis if which == "x" else axes.yaxis
    target.set_major_locator(FixedLocator(list(ticks)))
    target.set_minor_locator(NullLocator())
    target.set_minor_formatter(NullFormatter())
    target.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))


def thousands(axes: Axes, which: str) -> None:
    """Tick labels with thousands apart and no exponents."""
    target = axes.xaxis if which == "x" else axes.yaxis
    target.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))


def end_labels(axes: Axes, labels: Mapping[str, tuple[float, float, str]], gap_pt: float = 11.0) -> None:
    """Names at the right ends of lines, pushed apart where they would touch.

    ``labels``: text → (x, y, colour). Limits and scale of the axes must be set before.
    """
    box = axes.get_window_extent()
    gap = gap_pt / 72 * axes.figure.dpi
    at = {text: axes.transData.transform((x, y)) for text, (x, y, _) in labels.items()}
    order = sorted(at, key=lambda text: at[text][1])
    ys = spread([float(at[text][1]) for text in order], gap, box.y0 + gap / 2, box.y1 - gap / 4)
    for text, y in zip(order, ys, strict=True):
        x = float(at[text][0]) + 5 / 72 * axes.figure.dpi
        inside = axes.transAxes.inverted().transform((x, y))
        axes.text(
            inside[0],
            inside[1],
            plain_line(text),
            transform=axes.transAxes,
            va="center",
            fontsize=LABEL_PT,
            color=text_color(labels[text][2]),
        )


def spread(ys: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near ``ys`` (both increasing) that are ``gap`` apart, within [low, high] where they fit."""
    made: list[float] = []
    for y in ys:
        made.append(max(y, made[-1] + gap) if made else max(y, low))
    over = made[-1] - high if made else 0.0
    if over > 0:
        made[-1] = high
        for i in range(len(made) - 2, -1, -1):
            made[i] = min(made[i], made[i + 1] - gap)
    return made


def labels_in(texts: Sequence[str], size: float = LABEL_PT) -> float:
    """Inches that names at line ends need on the right."""
    return max(text_width(text, size) for text in texts) + 0.12


def text_color(color: str) -> str:
    """A colour dark enough for text on white: the light ones of the palette are darkened."""
    channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    while _luminance(channels) > 0.27:
        channels = channels * 0.93
    return "#" + "".join(f"{round(float(c) * 255):02X}" for c in channels)


def _luminance(channels: Any) -> float:
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def plain_line(text: str) -> str:
    """Text that matplotlib does not read as mathematics, of any length."""
    return text.replace("$", r"\$")


def minutes(seconds: float) -> str:
    """ "58 min" or "41 s", as a person would say it."""
    return f"{seconds / 60:.0f} min" if seconds >= 100 else f"{seconds:.0f} s"


def times(factor: float) -> str:
    """ "19 times", "1.5 times"."""
    return f"{factor:.0f} times" if factor >= 10 else f"{factor:.1f} times"
