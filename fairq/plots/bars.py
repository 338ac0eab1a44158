"""p50 and p99 per tenant, the policies side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.transforms import ScaledTranslation

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
    number,
    place,
    plain,
    plus_minus,
    rim,
    shorten,
    styled,
    tenant_styles,
    text_width,
    value_axis,
    wants_log,
)

MEASURES = {
    "latency": "latency (arrival to finish)",
    "wait": "wait (arrival to start)",
    "ttft": "time to first token",
}
SHORT = {"latency": "latency", "wait": "wait", "ttft": "time to first token"}
"""What is measured, on axes and in titles."""
ROW_IN = 0.185
GAP_IN = 0.13
BAR = 0.74
"""Height of a bar as a part of its row."""

ENOUGH = 368
"""As ``fairq.metrics.enough()``; charts are given tables and import no statistics."""


@styled
def latency_bars(
    table: pd.DataFrame,
    *,
    measure: str = "latency",
    styles: dict[str, TenantStyle] | None = None,
    log: bool | None = None,
    note: str = "",
) -> Chart:
    """Two panels, p50 and p99; a block per tenant, in it a bar per policy, named beside the bar.

    Parameters
    ----------
    table : one row per (policy, tenant): ``policy, tenant, n, runs`` and, for the measure, ``<m>_p50``,
        ``<m>_p50_low``, ``<m>_p50_high`` and the same for p99, in seconds. ``low``/``high`` are the ends
        of the confidence interval over replications; NaN draws none. A NaN p99 of finished requests is
        written "too few" (the one run of a model: the caller decides). Rows with ``runs == 1`` are hatched:
        one run has no interval.
    measure : "latency", "wait" or "ttft".
    styles : look per tenant, from :func:`tenant_styles`; default by order of appearance.
    log : force the kind of axis; default: log when the values spread over more than a factor of 30.
    note : what was simulated, put at the end of the subtitle.

    Returns
    -------
    Chart; ``data["p50"]`` and ``data["p99"]`` map (policy, tenant) to the length drawn.
    """
    check_table(table, measure)
    tenants = list(dict.fromkeys(table["tenant"]))
    policies = list(dict.fromkeys(table["policy"]))
    looks = styles or tenant_styles(tenants)
    cells = {(str(row["policy"]), str(row["tenant"])): dict(row) for row in table.to_dict("records")}

    single = bool((table["runs"] == 1).all())
    title = finding(table, measure)
    sure = statistics_words(table, measure)
    subtitle = f"{MEASURES[measure].capitalize()} in seconds. {sure}{' ' + note if note else ''}"
    head = heading_height(title, subtitle)
    block = len(policies) * ROW_IN + GAP_IN
    body = len(tenants) * block - GAP_IN + 0.12
    chart = Chart(head + 0.24 + body + 0.52)
    heading(chart, title, subtitle)

    tenant_in = min(1.3, max(text_width(plain(t), 9.0, "bold") for t in tenants) + 0.1)
    # Where tenants have short names, policies may have longer ones.
    policy_in = min(2.4 - tenant_in, max(text_width(plain(p), 8.2) for p in policies) + 0.12)
    left = PAD + tenant_in + policy_in
    gap = 0.22
    width = (WIDTH_IN - left - gap - PAD) / 2
    top = head + 0.24

    bars = _bars(cells, measure)
    every = [bar.value for group in bars.values() for bar in group.values()]
    every += [bar.high for bar in bars["p99"].values()]
    as_log = wants_log(every) if log is None else log
    room = (
        max(text_width(bar.label, 8.4) for group in bars.values() for bar in group.values()) + 0.12
    ) / width
    rows = {
        (policy, tenant): top + 0.06 + i * block + (j + 0.5) * ROW_IN
        for i, tenant in enumerate(tenants)
        for j, policy in enumerate(policies)
    }
    for panel, quantile in enumerate(("p50", "p99")):
        axes = place(chart, left + panel * (width + gap), top, width, body)
        axes.set_ylim(top + body, top)
        axes.set_yticks([])
        axes.spines["left"].set_visible(not as_log)
        words = {"p50": "p50: half are faster", "p99": "p99: 1 in 100 is slower"}[quantile]
        axes.set_title(
            f"{quantile} of this run" if single else words,
            loc="left",
            color=INK,
            fontsize=9.2,
            fontweight="bold",
            pad=4,
        )
        axes.set_xlabel(f"{SHORT[measure]} (s){', log scale' if as_log else ''}")
        axes.grid(True, axis="x")
        start, _ = value_axis(axes, every, log=as_log, room=room)
        _draw(axes, bars[quantile], rows, looks, start, quantile)
        chart.data[quantile] = {
            place_: bar.value for place_, bar in bars[quantile].items() if math.isfinite(bar.value)
        }

    page_h = chart.get_size_inches()[1]
    for i, tenant in enumerate(tenants):
        y = top + 0.06 + i * block + len(policies) * ROW_IN / 2
        label = shorten(plain(tenant), tenant_in - 0.08, 9.0, "bold")
        chart.text(
            PAD / WIDTH_IN, 1 - y / page_h, label, va="center", fontsize=9, fontweight="bold", color=INK
        )
    for (policy, _), y in rows.items():
        label = shorten(plain(policy), policy_in - 0.08, 8.2)
        chart.text(
            (left - 0.06) / WIDTH_IN, 1 - y / page_h, label, va="center", ha="right", fontsize=8.2, color=SOFT
        )
    chart.alt = bars_alt(table, measure)
    return chart


@dataclass(frozen=True)
class _Bar:
    value: float
    low: float
    high: float
    single: bool
    label: str


def _bars(
    cells: Mapping[tuple[str, str], Mapping[Any, Any]], measure: str
) -> dict[str, dict[tuple[str, str], _Bar]]:
    bars: dict[str, dict[tuple[str, str], _Bar]] = {"p50": {}, "p99": {}}
    for quantile, group in bars.items():
        for place_, row in cells.items():
            value, low, high = (float(row[f"{measure}_{quantile}{end}"]) for end in ("", "_low", "_high"))
            single = int(row["runs"]) == 1
            group[place_] = _Bar(
                value, low, high, single, bar_label(value, low, high, int(row["n"]), single, quantile)
            )
    return bars


def _draw(
    axes: Axes,
    bars: dict[tuple[str, str], _Bar],
    rows: dict[tuple[str, str], float],
    looks: dict[str, TenantStyle],
    start: float,
    quantile: str,
) -> None:
    """All bars in one call and all whiskers in another: artists cost more than what they draw."""
    known = [(place_, bar) for place_, bar in bars.items() if math.isfinite(bar.value)]
    if known:
        colors = [looks[tenant].color for (_, tenant), _ in known]
        container = axes.barh(
            [rows[place_] for place_, _ in known],
            [max(bar.value - start, 0.0) for _, bar in known],
            height=BAR * ROW_IN,
            left=start,
            color=colors,
            edgecolor=[rim(color) for color in colors],
            linewidth=0.6,
        )
        for patch, (place_, bar) in zip(container, known, strict=True):
            patch.set_gid(f"bar:{quantile}:{place_[0]}:{place_[1]}")
            if bar.single:
                patch.set_hatch("////")
                patch.set_edgecolor(hatch_ink(looks[place_[1]].color))
                patch.set_linewidth(0.0)
    sure = [(place_, bar) for place_, bar in known if math.isfinite(bar.low) and bar.high > bar.low]
    if sure:
        axes.errorbar(
            [bar.value for _, bar in sure],
            [rows[place_] for place_, _ in sure],
            xerr=[
                [bar.value - max(bar.low, start) for _, bar in sure],
                [bar.high - bar.value for _, bar in sure],
            ],
            fmt="none",
            ecolor=INK,
            elinewidth=1.0,
            capsize=2.0,
            capthick=1.0,
        )
    beside = axes.transData + ScaledTranslation(4 / 72, 0, axes.figure.dpi_scale_trans)
    for place_, bar in bars.items():
        ends = [v for v in (bar.value, bar.high) if math.isfinite(v)]
        axes.text(
            max([start, *ends]),
            rows[place_],
            bar.label,
            transform=beside,
            va="center",
            fontsize=8.4,
            color=INK if math.isfinite(bar.value) else SOFT,
        )


def bar_label(value: float, low: float, high: float, n: int, single: bool, quantile: str) -> str:
    """The words beside a bar: "31.9 ±0.4", "8.2  n=412" for one run, "too few (n=120)", "none finished"."""
    if not math.isfinite(value):
        return "none finished" if n == 0 else f"too few (n={n})"
    if single:
        return f"{number(value)}  n={n}" if quantile == "p99" else number(value)
    if math.isfinite(low) and math.isfinite(high) and high > low:
        return plus_minus(value, (high - low) / 2)
    return number(value)


def check_table(table: pd.DataFrame, measure: str) -> None:
    """Raise a ValueError that names what is missing, before anything is drawn."""
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(MEASURES)}, got {measure!r}")
    needed = ["policy", "tenant", "n", "runs"]
    needed += [f"{measure}_{q}{end}" for q in ("p50", "p99") for end in ("", "_low", "_high")]
    missing = [column for column in needed if column not in table.columns]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    if table.empty:
        raise ValueError("the table has no rows: nothing to draw")
    if table.duplicated(["policy", "tenant"]).any():
        raise ValueError("the table has two rows for one policy and tenant")


def statistics_words(table: pd.DataFrame, measure: str) -> str:
    """How sure the numbers are, as a sentence."""
    runs = int(table["runs"].max())
    if runs == 1:
        few = (table[f"{measure}_p99"].isna() & (table["n"] > 0)).any()
        why = f"; too few: below {ENOUGH} finished requests it says nothing about p99" if few else ""
        return f"Hatched: one run, so no interval{why}."
    return f"Mean of {runs} runs; whiskers: 95 % confidence interval over the runs."


def finding(table: pd.DataFrame, measure: str) -> str:
    """A title that says what is seen: the tenant whose p99 (else p50) the choice of policy changes most."""
    values = {
        q: {
            (str(t), str(p)): float(v)
            for t, p, v in zip(table["tenant"], table["policy"], table[f"{measure}_{q}"], strict=True)
        }
        for q in ("p99", "p50")
    }
    compared = False
    for quantile, cells in values.items():
        best = ("", "", "", 0.0, 0.0)
        for tenant in dict.fromkeys(name for name, _ in cells):
            mine = {p: v for (t, p), v in cells.items() if t == tenant and math.isfinite(v) and v > 0}
            if len(mine) < 2:
                continue
            low, high = min(mine, key=lambda p: mine[p]), max(mine, key=lambda p: mine[p])
            if best[3] == 0 or mine[high] / mine[low] > best[4] / best[3]:
                best = (tenant, low, high, mine[low], mine[high])
        tenant, low, high, least, most = best
        compared = compared or least > 0
        if least > 0 and most / least >= 1.05:
            return (
                f"{plain(tenant)}: {quantile} {number(most)} s under {plain(high)}, "
                f"{number(least)} s under {plain(low)}"
            )
    if compared:
        return f"The policies differ by less than 5 % in {SHORT[measure]}"
    names = list(dict.fromkeys(table["policy"]))
    return f"{SHORT[measure].capitalize()} per tenant under {', '.join(plain(n) for n in names)}"


def bars_alt(table: pd.DataFrame, measure: str) -> str:
    """One sentence per policy with every number drawn."""
    parts = []
    for policy, rows in table.groupby("policy", sort=False):
        numbers = "; ".join(
            f"{row.tenant} p50 {number(getattr(row, f'{measure}_p50'))} s, p99 "
            + (f"{number(p99)} s" if math.isfinite(p99 := getattr(row, f"{measure}_p99")) else "too few")
            for row in rows.itertuples()
        )
        parts.append(f"{policy}: {numbers}.")
    return f"Bars of {SHORT[measure]} by tenant. " + " ".join(parts)


__all__ = ["MEASURES", "latency_bars"]
