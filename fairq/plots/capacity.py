"""The capacity card as a picture: how fast alone, how fast together, for how many."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

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
    styled,
    tick,
    wrap,
    write,
)

BIG_IN = 0.86
"""Height of the row of big figures."""
PANEL_IN = 1.95
ROW_IN = 0.2
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128, 256)

TOTAL, EACH, WAIT = OKABE_ITO[0], OKABE_ITO[1], OKABE_ITO[3]

BINDS = {
    "slots": "run at once: the engine's slots bind",
    "gateway": "run at once: the gateway's limit binds",
    "KV": "run at once: the KV cache binds",
    "compute": "run at once: the GPU itself binds",
    "": "run at once (no limit seen)",
}
_TOGETHER = re.compile(r"(?<=≤) |(?<=\d) (?=(?:s|ms|streams|users|tokens/s)\b)")


@styled
def capacity_card(card: Mapping[str, Any]) -> Chart:
    """A page to pin on the wall: big figures, tokens/s in all and each against users, and the arithmetic.

    Parameters
    ----------
    card : ``fairq.capacity.Card.as_dict()``: ``source, max_streams, binds``, ``target`` and ``shape`` (or
        None), ``by_streams``, and ``by_users`` with rows of ``users, streams, tokens_per_s,
        tokens_per_s_per_user, ttft_s, time_per_output_token_s, latency_s``.

    Returns
    -------
    Chart; ``data["users"]``, ``data["total"]``, ``data["each"]`` (tokens/s) hold what is drawn.
    """
    users = list(card["by_users"])
    rows = [row for row in users if row["users"] in _marks(card)][:10]
    title = _title(card)
    subtitle = _subtitle(card)
    head = heading_height(title, subtitle)
    notes = [line for note in _notes(card) for line in wrap(_joined(note), WIDTH_IN - 2 * PAD, 8.4)]
    table_in = (len(rows) + 1) * ROW_IN + 0.16
    height = head + BIG_IN + 0.3 + PANEL_IN + 0.5 + table_in + 0.17 * len(notes) + 0.16
    chart = Chart(height)
    heading(chart, title, subtitle)
    _big(chart, head + 0.04, _figures(card))

    top = head + BIG_IN + 0.3
    gap, left = 0.62, PAD + 0.46
    width = (WIDTH_IN - left - gap - PAD) / 2
    x = np.array([row["users"] for row in users], dtype=float)
    total = np.array([row["tokens_per_s"] for row in users], dtype=float)
    each = np.array([row["tokens_per_s_per_user"] for row in users], dtype=float)
    panels = (("tokens/s in all", total, TOTAL, "-"), ("tokens/s for each user", each, EACH, (0, (5, 1.5))))
    for i, (name, values, color, dash) in enumerate(panels):
        axes = place(chart, left + i * (width + gap), top, width, PANEL_IN)
        axes.plot(x, values, color=color, linestyle=dash, linewidth=2.0)
        axes.set_title(name, loc="left", color=INK, fontsize=9.2, fontweight="bold", pad=4)
        axes.set_xlabel("users at once (one request each)")
        axes.set_xlim(1 if len(x) > 1 else 0, max(float(x.max()), 2.0))
        axes.set_ylim(0, float(values.max()) * 1.12)
        axes.grid(True, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
        _limits(axes, card, x, values)
    _table(chart, top + PANEL_IN + 0.5, rows)
    y = top + PANEL_IN + 0.5 + table_in
    for line in notes:
        write(chart, PAD, y, plain_line(line), fontsize=8.4, color=SOFT)
        y += 0.17
    chart.data = {"users": x.tolist(), "total": total.tolist(), "each": each.tolist()}
    chart.alt = f"{title}. {subtitle} " + " ".join(
        f"{row['users']} users: {number(row['tokens_per_s'])} tokens/s in all,"
        f" {number(row['tokens_per_s_per_user'])} each, first token after {number(row['ttft_s'])} s."
        for row in rows
    )
    return chart


def plain_line(text: str) -> str:
    """Text that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")


def _joined(text: str) -> str:
    """The text, with no line broken between a sign, its number and its unit."""
    return _TOGETHER.sub("\u00a0", text)


def _title(card: Mapping[str, Any]) -> str:
    alone = card["by_streams"][0]
    last = card["by_streams"][-1]
    target = card["target"]
    if target is not None and target["users"] > 0:
        row = card["by_users"][min(target["users"], len(card["by_users"])) - 1]
        return (
            f"{target['users']:,} users at once get {number(row['tokens_per_s_per_user'])} tokens/s each;"
            f" alone it is {number(alone['tokens_per_s'])}"
        )
    return (
        f"Alone {number(alone['tokens_per_s'])} tokens/s; {last['streams']:g} at once"
        f" {number(last['tokens_per_s_per_stream'])} each"
    )


def _subtitle(card: Mapping[str, Any]) -> str:
    shape = card["shape"]
    text = f"{card['source']}."
    if shape is not None:
        text += (
            f" A request: {number(shape['prompt_tokens'])} prompt and {number(shape['output_tokens'])}"
            " generated tokens; rates count generated tokens."
        )
    return text


def _figures(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    top = max(card["by_streams"], key=lambda row: row["tokens_per_s"])
    target = card["target"]
    figures = [
        (number(card["by_streams"][0]["tokens_per_s"]), "tokens/s alone"),
        (number(top["tokens_per_s"]), f"tokens/s in all, {top['streams']:g} streams"),
        (f"{card['max_streams']:,}", BINDS[card["binds"]]),
    ]
    if target is not None:
        figures.append(
            (
                f"{target['users']:,}",
                f"users: first token ≤ {target['ttft_s']:g} s,"
                f" then ≤ {target['time_per_output_token_s'] * 1000:g} ms",
            )
        )
    return figures


def _big(chart: Chart, top: float, figures: Sequence[tuple[str, str]]) -> None:
    width = (WIDTH_IN - 2 * PAD) / len(figures)
    for i, (value, words) in enumerate(figures):
        x = PAD + i * width
        write(chart, x, top, plain_line(value), fontsize=21, fontweight="bold", color=INK)
        for j, line in enumerate(wrap(_joined(words), width - 0.12, 8.2)[:2]):
            write(chart, x, top + 0.4 + 0.15 * j, plain_line(line), fontsize=8.2, color=SOFT)


def _limits(axes: Axes, card: Mapping[str, Any], x: Any, values: Any) -> None:
    """Where all run that can, and where the promise ends."""
    marks: list[tuple[Any, str, str, Any]] = [(card["max_streams"], "all that can run", SOFT, (0, (4, 2)))]
    target = card["target"]
    if target is not None and 0 < target["users"] <= x.max():
        marks.append((target["users"], "promise ends", WAIT, (0, (1.2, 1.2))))
    falling = values[-1] < values[0]
    for i, (at, words, color, dash) in enumerate(marks):
        if not x.min() < at <= x.max():
            continue
        axes.axvline(at, color=color, linestyle=dash, linewidth=1.2)
        # In the corner that the curve leaves empty.
        axes.text(
            0.985,
            (0.94 if falling else 0.17) - 0.1 * i,
            f"{words}: {at:,}",
            transform=axes.transAxes,
            ha="right",
            va="center",
            fontsize=8,
            color=color,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        )


def _marks(card: Mapping[str, Any]) -> set[int]:
    marks = {*SHOWN, card["max_streams"], len(card["by_users"])}
    if card["target"] is not None:
        marks.add(card["target"]["users"])
    return marks


def _table(chart: Chart, top: float, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = (
        ("users", 0.07),
        ("running × each = tokens/s in all", 0.41),
        ("each user gets", 0.58),
        ("first token", 0.72),
        ("per token", 0.85),
        ("whole answer", 1.0),
    )
    width = WIDTH_IN - 2 * PAD
    for name, right in columns:
        write(chart, PAD + width * right, top, name, fontsize=7.8, color=SOFT, ha="right")
    for i, row in enumerate(rows):
        y = top + (i + 1) * ROW_IN
        each = row["tokens_per_s"] / row["streams"]
        cells = (
            f"{row['users']:,}",
            f"{row['streams']:,} × {each:.1f} = {row['tokens_per_s']:,.0f}",
            f"{number(row['tokens_per_s_per_user'])} tokens/s",
            f"{number(row['ttft_s'])} s",
            f"{number(1000 * row['time_per_output_token_s'])} ms",
            f"{number(row['latency_s'])} s",
        )
        for text, (_, right) in zip(cells, columns, strict=True):
            write(chart, PAD + width * right, y, text, fontsize=8.2, color=INK, ha="right")


def _notes(card: Mapping[str, Any]) -> list[str]:
    top = max(card["by_streams"], key=lambda row: row["tokens_per_s"])
    few = card["by_streams"][min(8, len(card["by_streams"])) - 1]
    sums = [
        f"{row['streams']:g} × {row['tokens_per_s_per_stream']:.1f} = {row['tokens_per_s']:,.0f}"
        for row in (top, few)
    ]
    other = f", but {sums[1]}" if few["streams"] != top["streams"] else ""
    notes = [
        f"A total belongs to its number of streams: {sums[0]} tokens/s{other}. Beyond"
        f" {card['max_streams']:,} users the others wait their turn."
    ]
    target = card["target"]
    if target is not None and target["why"]:
        notes.append(f"Promise (averages): {target['why']}.")
    return notes
