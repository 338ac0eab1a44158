"""Where a card's memory goes: weights, engine overhead, KV, and what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fairq.plots.style import (
    INK,
    PAD,
    SOFT,
    WIDTH_IN,
    Chart,
    TenantStyle,
    hatch_ink,
    heading,
    heading_height,
    legend_rows,
    place,
    plain,
    styled,
    tenant_legend,
    text_width,
    tick,
    write,
)

LOOKS = {
    "weights": TenantStyle("#0072B2", "", "o", "-"),
    "engine": TenantStyle("#E69F00", "////", "s", "-"),
    "KV cache": TenantStyle("#009E73", "....", "^", "-"),
    "kept free": TenantStyle("#D9DEE3", "", "D", "-"),
    "does not fit": TenantStyle("#D55E00", "xxxx", "X", "-"),
}
ROW_IN = 0.24


@styled
def memory_bars(rows: Sequence[Mapping[str, Any]], *, note: str = "") -> Chart:
    """A bar as long as the card per (model, way), cut into its parts; what it says beside it.

    Parameters
    ----------
    rows : as ``fairq.memory.memory_rows`` gives them: ``title, way, parts, part_gb, unused_gb, weights_gb,
        overhead_gb, kv_gb, kv_tokens, context, fits, says`` (GB of one part).
    note : put at the end of the subtitle.

    Raises
    ------
    ValueError : no rows.
    """
    if not rows:
        raise ValueError("nothing to draw: give at least one row")
    models = list(dict.fromkeys(str(row["title"]) for row in rows))
    card = max(float(row["part_gb"]) * int(row["parts"]) for row in rows)
    title = _finding(rows)
    subtitle = (
        f"Memory of a card of {card:.1f} GB, per model and way to share it.{' ' + note if note else ''}"
    )
    head = heading_height(title, subtitle)
    keys = [name for name in LOOKS if name != "does not fit" or not all(row["fits"] for row in rows)]
    legend = 0.19 * len(legend_rows(keys, WIDTH_IN - 2 * PAD)) + 0.05
    says_in = max(text_width(_short(row), 8.2) for row in rows) + 0.08
    label_in = max(text_width(_label(row), 8.4) for row in rows) + 0.1
    body = len(rows) * ROW_IN + len(models) * 0.3 + 0.02
    chart = Chart(head + legend + body + 0.5)
    heading(chart, title, subtitle)
    tenant_legend(chart, head, keys, LOOKS, lines=False)
    top, left = head + legend + 0.04, PAD + label_in
    width = WIDTH_IN - PAD - says_in - left
    axes = place(chart, left, top, width, body)
    axes.set_ylim(top + body, top)
    axes.set_xlim(0, card)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
    axes.set_xlabel("GB on the card")
    y = top
    for model in models:
        write(chart, PAD, y + 0.07, plain(model), fontsize=9.0, fontweight="bold", color=INK)
        y += 0.3
        for row in (row for row in rows if row["title"] == model):
            middle = y + ROW_IN / 2 - 0.02
            _bar(axes, row, middle)
            write(chart, PAD, middle, _label(row), fontsize=8.4, color=SOFT, va="center")
            color = INK if row["fits"] else LOOKS["does not fit"].color
            write(chart, left + width + 0.07, middle, _short(row), fontsize=8.2, color=color, va="center")
            y += ROW_IN
    chart.data["rows"] = [dict(row) for row in rows]
    chart.alt = f"{title}. " + " ".join(f"{row['title']}, {_label(row)}: {row['says']}." for row in rows)
    return chart


def _bar(axes: Axes, row: Mapping[str, Any], y: float) -> None:
    size = float(row["part_gb"])
    for i in range(int(row["parts"])):
        at = i * size
        for name, length in _pieces(row, size):
            look = LOOKS[name]
            drawn = min(length, (i + 1) * size - at)
            if drawn > 0:
                axes.barh(
                    y,
                    drawn,
                    ROW_IN * 0.72,
                    left=at,
                    facecolor=look.color,
                    edgecolor=hatch_ink(look.color),
                    hatch=look.hatch,
                    linewidth=0.0,
                )
            at += length
        border = (i + 1) * size
        # Between MIG slices there is a wall; between processes only what each was told to take.
        soft = row["way"] in ("MPS", "time-slicing") and i < int(row["parts"]) - 1
        axes.plot(
            [border, border],
            [y - ROW_IN * 0.42, y + ROW_IN * 0.42],
            color=INK,
            linewidth=1.4,
            linestyle=(0, (1.2, 1)) if soft else "-",
        )


def _pieces(row: Mapping[str, Any], size: float) -> list[tuple[str, float]]:
    if not row["fits"]:
        return [("does not fit", size)]
    return [
        ("weights", float(row["weights_gb"])),
        ("engine", float(row["overhead_gb"])),
        ("KV cache", float(row["kv_gb"])),
        ("kept free", float(row["unused_gb"])),
    ]


def _label(row: Mapping[str, Any]) -> str:
    parts = int(row["parts"])
    return plain(row["way"]) if parts == 1 else f"{plain(row['way'])} × {parts}"


def _short(row: Mapping[str, Any]) -> str:
    """What it says, on one line: what does not fit has its reason in the table."""
    words = str(row["says"])
    return words.partition(",")[0] if not row["fits"] and "KV for" not in words else _kv_words(row, words)


def _kv_words(row: Mapping[str, Any], words: str) -> str:
    return words if row["fits"] else f"does not fit: KV for {row['kv_tokens']:,} of {row['context']:,} tokens"


def _finding(rows: Sequence[Mapping[str, Any]]) -> str:
    """Which models fit only whole; else what cutting costs."""
    split = [row for row in rows if int(row["parts"]) > 1]
    whole = {str(row["title"]): row for row in rows if int(row["parts"]) == 1}
    parts = min((int(row["parts"]) for row in split if not row["fits"]), default=0)
    unfit = (row["title"] for row in split if not row["fits"] and int(row["parts"]) == parts)
    bad = [plain(title) for title in dict.fromkeys(unfit)]
    if bad:
        size = "half" if parts == 2 else f"1/{parts}"
        verb = "does" if len(bad) == 1 else "do"
        return f"{' and '.join(bad)} {verb} not fit {size} of this card"
    if split and str(split[0]["title"]) in whole:
        row = split[0]
        one = float(whole[str(row["title"])]["kv_tokens"])
        lost = 100 * (1 - float(row["kv_tokens_card"]) / one)
        return f"Cut in {row['parts']}, {plain(row['title'])} has {lost:.0f} % less room for KV in all"
    return "What is left for KV"
