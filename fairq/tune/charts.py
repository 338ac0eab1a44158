"""The pictures of a tuning: what each setting gives and costs, and who pays for the chosen one."""

from __future__ import annotations

from itertools import pairwise
from math import hypot, isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from fairq.plots.style import (
    INK,
    OKABE_ITO,
    PAD,
    SOFT,
    WIDTH_IN,
    Chart,
    heading,
    heading_height,
    number,
    place,
    plain,
    ratio_words,
    shorten,
    styled,
    text_width,
    tick,
    value_axis,
    wants_log,
)
from fairq.tune.words import records, value

if TYPE_CHECKING:
    from fairq.tune.decide import Tuning

MEETS, PERHAPS, MISSES = OKABE_ITO[2], OKABE_ITO[4], "#9AA5AE"
LOOKS = {"meets": (MEETS, "o"), "perhaps": (PERHAPS, "D"), "misses": (MISSES, "X")}
LABELS = 7
BODY_IN = 3.6

Area: TypeAlias = tuple[float, float, float, float]
"""x, y of two corners, in inches: those of a box, or the ends of a line."""


@styled
def pareto(made: Tuning) -> Chart:
    """Every setting: how near the target (across) and what the others pay (up). Left and low is good.

    ``data["points"]``: (setting, of_target, price, verdict).
    """
    table = made.table
    shown = table[[isfinite(v) and v > 0 for v in table["of_target"]]]
    single = len(made.targets) == 1
    scale = made.targets[0].bound_s if single else 1.0
    title = _title(made)
    subtitle = (
        "Each mark is a setting: across what it gives, up what the others pay. On the line nothing is better"
        " in both."
    )
    if made.replay:
        subtitle = f"One complete replay, n = {made.requests:,}: facts of this run, no interval. {subtitle}"
    head = heading_height(title, subtitle)
    chart = Chart(head + 0.32 + BODY_IN + 0.55)
    heading(chart, title, subtitle)
    left = PAD + 0.5
    axes = place(chart, left, head + 0.32, WIDTH_IN - left - PAD - 0.1, BODY_IN)
    x, y = shown["of_target"].to_numpy(dtype=float) * scale, shown["price"].to_numpy(dtype=float)
    low = _log_axis(axes, "x", [*x, scale])
    _log_axis(axes, "y", [*y, 1.0])
    axes.grid(True)
    axes.axvspan(low, scale, color=MEETS, alpha=0.08, linewidth=0)
    axes.axvline(scale, color=MEETS, linewidth=1.4)
    axes.axhline(1.0, color=SOFT, linewidth=0.8, linestyle=(0, (4, 3)))
    what = f"{made.targets[0]}: value in s" if single else "worst value ÷ its bound"
    axes.set_xlabel(f"{what}, log scale")
    axes.set_ylabel("price: worst mean latency of the others ÷ today's", fontsize=8.5)
    front = shown[shown["front"].to_numpy(dtype=bool)].sort_values("of_target")
    axes.plot(front["of_target"] * scale, front["price"], color=INK, linewidth=1.0, alpha=0.6, zorder=2)
    for row in records(shown):
        color, marker = LOOKS[row["verdict"]]
        big = row["setting"] in (made.best.name, made.today.name)
        at = row["of_target"] * scale
        if isfinite(row["low"]) and isfinite(row["high"]):
            ends = (
                [max(end / row["value"] * at, low) for end in (row["low"], row["high"])]
                if row["value"]
                else []
            )
            axes.plot(ends, [row["price"]] * len(ends), color=color, linewidth=1.0, alpha=0.7, zorder=2)
        axes.plot(
            [at],
            [row["price"]],
            marker=marker,
            markersize=10 if big else 6,
            color=color,
            markeredgecolor=INK if big or row["front"] else "white",
            markeredgewidth=1.4 if big else 0.7,
            linestyle="none",
            zorder=4 if big else 3,
        )
    _labels(axes, made, shown, front, scale)
    _key(chart, head + 0.08)
    chart.data["points"] = list(
        zip(shown["setting"], shown["of_target"], shown["price"], shown["verdict"], strict=True)
    )
    best = made.row(made.best)
    chart.alt = (
        f"{title}. {len(shown)} settings; on the front: "
        + "; ".join(f"{row['setting']} {value(row)}, price ×{number(row['price'])}" for row in records(front))
        + f". {'Chosen' if made.chosen else 'Nearest'}: {made.best.name}, {value(best)}."
    )
    return chart


@styled
def who_pays(made: Tuning) -> Chart:
    """Mean latency of every party, today (hollow) and under the best setting (full).

    ``data["parties"]``: party → (before, after) in seconds.
    """
    rows = made.payers[made.payers["setting"] == made.best.name]
    rows = pd.concat([rows[rows["promised"]], rows[~rows["promised"]]])
    parties = [str(name) for name in rows["party"]]
    pairs = {str(r["party"]): (float(r["before"]), float(r["after"])) for r in records(rows)}
    title = f"Who gains and who pays under {plain_name(made.best.name)}"
    interval = "" if made.runs == 1 else f", mean of {made.runs} runs"
    today = plain_name(made.today.name)
    subtitle = f"Mean latency in seconds{interval}. Hollow: today ({today}). Full: under that setting."
    head = heading_height(title, subtitle)
    row_in = 0.34
    body = len(parties) * row_in
    chart = Chart(head + body + 0.62)
    heading(chart, title, subtitle)
    left = PAD + min(1.7, max(text_width(plain(name), 9.0, "bold") for name in parties) + 0.14)
    axes = place(chart, left, head + 0.08, WIDTH_IN - left - PAD, body)
    axes.set_ylim(len(parties) - 0.5, -0.5)
    axes.set_yticks([])
    every = [v for pair in pairs.values() for v in pair if isfinite(v)]
    log = wants_log(every)
    axes.set_xlabel(f"mean latency (s){', log scale' if log else ''}")
    axes.grid(True, axis="x")
    words = {name: _pair_words(*pair) for name, pair in pairs.items()}
    longest = max(text_width(text, 8.4) for text in words.values()) + 0.2
    start, _ = value_axis(axes, every, log=log, room=longest / (WIDTH_IN - left - PAD))
    for i, name in enumerate(parties):
        before, after = (max(v, start) if isfinite(v) else v for v in pairs[name])
        color = OKABE_ITO[1] if after > before * 1.05 else (MEETS if after < before * 0.95 else SOFT)
        if isfinite(before) and isfinite(after):
            axes.plot([before, after], [i, i], color=color, linewidth=2.4, alpha=0.55, zorder=2)
        for v, fill in ((before, "white"), (after, color)):
            if isfinite(v):
                axes.plot(
                    [v], [i], marker="o", markersize=7, markerfacecolor=fill, markeredgecolor=color,
                    markeredgewidth=1.6, linestyle="none", zorder=3,
                )  # fmt: skip
        right = max((v for v in (before, after) if isfinite(v)), default=start)
        axes.annotate(
            words[name],
            (right, i),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.4,
            color=SOFT,
        )
    page_h = chart.get_size_inches()[1]
    for i, name in enumerate(parties):
        y = head + 0.08 + (i + 0.5) * row_in
        label = shorten(plain(name), left - PAD - 0.1, 9.0, "bold")
        chart.text(
            PAD / WIDTH_IN, 1 - y / page_h, label, va="center", fontsize=9, fontweight="bold", color=INK
        )
    chart.data["parties"] = pairs
    chart.alt = f"{title}. " + " ".join(f"{name}: {text}." for name, text in words.items())
    return chart


def plain_name(name: str) -> str:
    """A setting's name as matplotlib text (settings have longer names than tenants)."""
    return " ".join(name.split()).replace("$", r"\$")


def _title(made: Tuning) -> str:
    promise = " and ".join(map(str, made.targets))
    if made.chosen is None:
        return f"No setting reaches {plain_name(promise)}"
    good = int((made.table["verdict"] == "meets").sum())
    return f"{good} of {len(made.table)} settings reach {plain_name(promise)}"


def _pair_words(before: float, after: float) -> str:
    if not (isfinite(before) and isfinite(after)):
        return "not all served"
    change = ratio_words(before, after)
    return f"{number(before)} → {number(after)} s" + (f" ({change})" if change else "")


def _log_axis(axes: Any, axis: str, values: list[float]) -> float:
    """A log axis round the values, with few plain ticks. Returns where it begins."""
    known = [v for v in values if isfinite(v) and v > 0]
    low, high = min(known) / 1.5, max(known) * 1.6
    target = axes.xaxis if axis == "x" else axes.yaxis
    (axes.set_xscale if axis == "x" else axes.set_yscale)("log")
    (axes.set_xlim if axis == "x" else axes.set_ylim)(low, high)
    wide = high / low > 300
    steps = (1,) if wide else (1, 2, 5) if high / low > 4 else (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8)
    ticks = [m * 10.0**e for e in range(-6, 8) for m in steps if low <= m * 10.0**e <= high]
    target.set_major_locator(FixedLocator(ticks))
    target.set_minor_locator(NullLocator())
    target.set_minor_formatter(NullFormatter())
    target.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
    return low


def _labels(axes: Any, made: Tuning, shown: pd.DataFrame, front: pd.DataFrame, scale: float) -> None:
    """Names of the best, today's and the front's marks, each with a line to its own mark.

    A name keeps clear of all marks, whiskers, lines and other names; one without such a place is left out.
    """
    first = [made.best.name, made.today.name]
    names = list(dict.fromkeys([*first, *front["setting"]]))[:LABELS]
    box = axes.get_position()
    page_w, page_h = axes.figure.get_size_inches()
    wide, tall = box.width * page_w, box.height * page_h

    def inches(across: float, up: float) -> tuple[float, float]:
        fx, fy = axes.transLimits.transform(axes.transScale.transform((across, up)))
        return float(fx * wide), float(fy * tall)

    marks: dict[str, Area] = {}
    taken: list[Area] = []
    for row in records(shown):
        here = row["of_target"] * scale
        x, y = inches(here, row["price"])
        half = 0.09 if row["setting"] in first else 0.06
        marks[row["setting"]] = (x - half, y - half, x + half, y + half)
        if row["low"] > 0 and isfinite(row["high"]):
            ends = [inches(end / row["value"] * here, row["price"])[0] for end in (row["low"], row["high"])]
            taken.append((ends[0], y - 0.02, ends[1], y + 0.02))
    today = inches(scale, 1.0)[1]
    taken.append((0.0, today - 0.02, wide, today + 0.02))
    steps = [inches(row["of_target"] * scale, row["price"]) for row in records(front)]
    path: list[Area] = [(*start, *end) for start, end in pairwise(steps)]
    lines: list[Area] = []
    written: list[Area] = []
    for name in (name for name in names if name in marks):
        weight = "bold" if name in first else "normal"
        text = shorten(plain_name(name), 2.9, 8.2)
        for area, line in _places(marks[name], text_width(text, 8.2, weight)):
            inside = 0 <= area[0] and area[2] <= wide + 0.1 and 0 <= area[1] and area[3] <= tall
            others = [each for each in marks.values() if not _overlap(each, marks[name])]
            if (
                inside
                and not any(_overlap(area, each) for each in [*marks.values(), *taken, *written])
                and not any(_enters(line, each) for each in [*others, *written])
                and not any(_enters(each, area) for each in [*lines, *path])
                and not any(_cross(each, line) for each in lines)
            ):
                lines.append(line)
                written.append(area)
                axes.plot(
                    [line[0] / wide, line[2] / wide],
                    [line[1] / tall, line[3] / tall],
                    transform=axes.transAxes,
                    color=INK,
                    linewidth=0.6,
                    zorder=5,
                    gid=f"line to {name}",
                )
                axes.text(
                    area[0] / wide,
                    (area[1] + area[3]) / 2 / tall,
                    text,
                    transform=axes.transAxes,
                    va="center_baseline",
                    fontsize=8.2,
                    fontweight=weight,
                    color=INK,
                    zorder=6,
                    gid=name,
                    path_effects=[withStroke(linewidth=2.5, foreground="white", alpha=0.8)],
                )
                break


def _places(mark: Area, width: float) -> list[tuple[Area, Area]]:
    """Boxes for a name of that width round a mark, the nearest first, each with a line from mark to name."""
    x, y = (mark[0] + mark[2]) / 2, (mark[1] + mark[3]) / 2
    found = []
    for away in (0.14, 0.3, 0.5, 0.75, 1.0):
        for up in (0.0, 0.14, 0.28, 0.45, 0.65):
            for dy in {up, -up}:
                left, right = x - away - width, x + away
                for start, end in ((right, right - 0.03), (left, left + width + 0.03)):
                    area = (start, y + dy - 0.08, start + width, y + dy + 0.08)
                    found.append((hypot(away, 1.3 * dy), dy < 0, area, (x, y, end, y + dy)))
    return [(area, line) for _, _, area, line in sorted(found)]


def _overlap(a: Area, b: Area) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _enters(line: Area, box: Area) -> bool:
    """Whether a line goes through a box, looked at in fifty places of it."""
    parts = [k / 50 for k in range(51)]
    points = [(line[0] + p * (line[2] - line[0]), line[1] + p * (line[3] - line[1])) for p in parts]
    return any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points)


def _cross(a: Area, b: Area) -> bool:
    """Whether two lines cross: the ends of each lie on both sides of the other."""

    def side(line: Area, x: float, y: float) -> bool:
        return (line[2] - line[0]) * (y - line[1]) > (line[3] - line[1]) * (x - line[0])

    return side(a, *b[:2]) != side(a, *b[2:]) and side(b, *a[:2]) != side(b, *a[2:])


def _key(chart: Chart, y: float) -> None:
    page_w, page_h = (float(v) for v in chart.get_size_inches())
    x = PAD + 0.06
    for name, words in (
        ("meets", "meets the target"),
        ("perhaps", "perhaps (interval holds the bound)"),
        ("misses", "misses it"),
    ):
        color, marker = LOOKS[name]
        chart.add_artist(
            Line2D(
                [x / page_w],
                [1 - (y + 0.07) / page_h],
                color=color,
                marker=marker,
                markersize=6.5,
                linestyle="none",
            )
        )
        chart.text((x + 0.12) / page_w, 1 - y / page_h, words, va="top", fontsize=8.6, color=INK)
        x += 0.34 + text_width(words, 8.6)
