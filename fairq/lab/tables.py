"""The chart's numbers as an HTML table, readable by a screen reader."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from numbers import Integral
from typing import Any

import pandas as pd

from fairq.plots import TenantStyle, number
from fairq.plots.bars import SHORT
from fairq.plots.style import plus_minus

CSS = """
.fairq-lab .fairq-table{overflow:auto;max-height:800px;line-height:1.35;font-size:12.5px;scrollbar-width:thin}
/* A table that goes on is shaded at that edge: some browsers show no bar until one scrolls. */
.fairq-lab .fairq-table{background:
  linear-gradient(var(--jp-layout-color0,#fff) 30%,transparent) top/100% 40px no-repeat local,
  linear-gradient(transparent,var(--jp-layout-color0,#fff) 70%) bottom/100% 40px no-repeat local,
  linear-gradient(#0003,transparent) top/100% 10px no-repeat scroll,
  linear-gradient(transparent,#0003) bottom/100% 10px no-repeat scroll}
.fairq-lab .fairq-table table{border-collapse:collapse}
.fairq-lab .fairq-table caption{text-align:left;padding:2px 0 4px;font-weight:600}
.fairq-lab .fairq-table th,.fairq-lab .fairq-table td{padding:2px 12px 2px 0;text-align:right;
  white-space:nowrap;font-variant-numeric:tabular-nums}
.fairq-lab .fairq-table thead th{border-bottom:1px solid #9AA5AE}
.fairq-lab .fairq-table .fairq-name{text-align:left}
.fairq-lab .fairq-table [rowspan]{vertical-align:top}
.fairq-lab .fairq-table .fairq-policy{font-weight:normal}
.fairq-lab .fairq-table tr.fairq-first th,.fairq-lab .fairq-table tr.fairq-first td{
  border-top:1px solid #D9DEE3}
.fairq-lab .fairq-swatch{display:inline-block;width:.7em;height:.7em;margin-right:.5em}
"""


def table_html(table: pd.DataFrame, measure: str, styles: Mapping[str, TenantStyle]) -> str:
    """A row per tenant and policy: counts, p50 and p99 with their intervals, tokens served.

    ``table``: see :func:`fairq.lab.summary.summary`; seconds.
    """
    runs = int(table["runs"].max())
    names = ("Tenant", "Policy")
    heads = (
        "Finished",
        "Not served",
        f"{SHORT[measure]} p50 (s)",
        f"{SHORT[measure]} p99 (s)",
        "Tokens served",
    )
    top = "".join(f'<th scope="col" class="fairq-name">{head}</th>' for head in names)
    top += "".join(f'<th scope="col">{head}</th>' for head in heads)
    body = []
    for tenant in dict.fromkeys(table["tenant"]):
        mine = table[table["tenant"] == tenant].to_dict("records")
        name = swatch(styles[tenant].color) + escape(str(tenant))
        head = f'<th scope="rowgroup" rowspan="{len(mine)}" class="fairq-name">{name}</th>'
        rows = [_row(row, measure, runs, "" if i else head) for i, row in enumerate(mine)]
        body.append(f"<tbody>{''.join(rows)}</tbody>")
    how = f"per run, mean of {runs} runs ± half of the 95 % interval" if runs > 1 else "one run, no interval"
    return (
        f'<div class="fairq-table"><table><caption>The same numbers ({how})</caption>'
        f"<thead><tr>{top}</tr></thead>{''.join(body)}</table></div>"
    )


def rows_html(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], caption: str) -> str:
    """Plain rows as a table; ``columns``: name in a row → words above it."""
    words = {name: any(isinstance(row[name], str) for row in rows) for name in columns}
    heads = "".join(
        f'<th scope="col"{_name(words[name])}>{escape(head)}</th>' for name, head in columns.items()
    )
    first, *others = columns
    body = "".join(
        f'<tr><th scope="row"{_name(True)}>{_cell(first, row[first])}</th>'
        + "".join(f"<td{_name(words[name])}>{_cell(name, row[name])}</td>" for name in others)
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="fairq-table"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _name(words: bool) -> str:
    return ' class="fairq-name"' if words else ""


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Integral):
        return f"{value:,}"
    if not math.isfinite(value):
        return "–"
    return f"{100 * value:.1f} %" if name.endswith("_rate") else number(value)


def swatch(color: str) -> str:
    """A square in a tenant's color, before its name."""
    return f'<span aria-hidden="true" class="fairq-swatch" style="background:{color}"></span>'


def _row(row: Mapping[Any, Any], measure: str, runs: int, head: str) -> str:
    """``head``: HTML of the cell that names the tenant, spanning its rows; empty but in the first of them."""
    values = (
        _count(row["n"] / runs),
        _count((row["unfinished"] + row["cancelled"] + row["refused"]) / runs),
        _seconds(row, measure, "p50"),
        _seconds(row, measure, "p99"),
        f"{row['tokens']:,.0f}",
    )
    return (
        f'<tr class="{"fairq-first" if head else ""}">{head}'
        f'<th scope="row" class="fairq-name fairq-policy">{escape(str(row["policy"]))}</th>'
        + "".join(f"<td>{value}</td>" for value in values)
        + "</tr>"
    )


def _count(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def _seconds(row: Mapping[Any, Any], measure: str, quantile: str) -> str:
    value, low, high = (float(row[f"{measure}_{quantile}{end}"]) for end in ("", "_low", "_high"))
    if not math.isfinite(value):
        return "too few" if row["n"] > 0 else "–"
    if math.isfinite(low) and math.isfinite(high) and high > low:
        return plus_minus(value, (high - low) / 2)
    return number(value)
