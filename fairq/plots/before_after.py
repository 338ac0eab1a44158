"""Before → after: what one change of policy did to each tenant."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import pandas as pd

from fairq.plots.bars import MEASURES, SHORT, check_table
from fairq.plots.style import (
    INK,
    PAD,
    SOFT,
    WIDTH_IN,
    Chart,
    TenantStyle,
    heading,
    heading_height,
    number,
    place,
    plain,
    ratio_words,
    rim,
    shorten,
    styled,
    tenant_styles,
    text_width,
    value_axis,
    wants_log,
)

ROW_IN = 0.42

Differences: TypeAlias = Mapping[str, Mapping[str, tuple[float, float, float]]]


@styled
def before_after(
    table: pd.DataFrame,
    before: str,
    after: str,
    *,
    measure: str = "latency",
    differences: Differences | None = None,
    styles: dict[str, TenantStyle] | None = None,
    log: bool | None = None,
    note: str = "",
) -> Chart:
    """A row per tenant: a hollow mark where it was under ``before``, a full one where it is under ``after``.

    Parameters
    ----------
    table : as for :func:`fairq.plots.latency_bars`.
    before, after : two names from the table's ``policy`` column.
    differences : tenant → "p50"/"p99" → (mean, low, high) of after - before in seconds, run by run on the
        same requests (``metrics.paired_difference``). Where that holds 0, "no clear change" is written.

    Returns
    -------
    Chart; ``data["p50"]`` and ``data["p99"]`` map a tenant to (before, after) in seconds.

    Raises
    ------
    ValueError : a policy that is not in the table.
    """
    check_table(table, measure)
    for role, policy in (("before", before), ("after", after)):
        if policy not in set(table["policy"]):
            known = ", ".join(dict.fromkeys(table["policy"]))
            raise ValueError(f"{role}: no policy {policy!r} in the table (there are {known})")
    tenants = list(dict.fromkeys(table["tenant"]))
    looks = styles or tenant_styles(tenants)
    was = table[table["policy"] == before].set_index("tenant")
    now = table[table["policy"] == after].set_index("tenant")
    pairs = {
        q: {t: (_cell(was, t, f"{measure}_{q}"), _cell(now, t, f"{measure}_{q}")) for t in tenants}
        for q in ("p50", "p99")
    }
    unclear = _unclear(differences)
    title = _finding(pairs, unclear, before, after, measure)
    subtitle = (
        f"Hollow: {plain(before)}. Full: {plain(after)}. {MEASURES[measure].capitalize()} in seconds. "
        f"{_statistics_words(table)}{' ' + note if note else ''}"
    )
    head = heading_height(title, subtitle)
    body = len(tenants) * ROW_IN
    chart = Chart(head + 0.24 + body + 0.52)
    heading(chart, title, subtitle)
    left = PAD + min(1.5, max(text_width(plain(t), 9.0, "bold") for t in tenants) + 0.14)
    gap = 0.25
    width = (WIDTH_IN - left - gap - PAD) / 2
    top = head + 0.24
    every = [v for q in pairs.values() for pair in q.values() for v in pair]
    as_log = wants_log(every) if log is None else log
    for panel, quantile in enumerate(("p50", "p99")):
        axes = place(chart, left + panel * (width + gap), top, width, body)
        axes.set_ylim(len(tenants) - 0.5, -0.5)
        axes.set_yticks([])
        axes.spines["left"].set_visible(not as_log)
        axes.set_title(quantile, loc="left", color=INK, fontsize=9.2, fontweight="bold", pad=4)
        axes.set_xlabel(f"{SHORT[measure]} (s){', log scale' if as_log else ''}")
        axes.grid(True, axis="x")
        start, _ = value_axis(axes, every, log=as_log, room=0.06)
        for i, tenant in enumerate(tenants):
            a, b = (max(v, start) if math.isfinite(v) else v for v in pairs[quantile][tenant])
            look = looks[tenant]
            if math.isfinite(a) and math.isfinite(b):
                axes.plot(
                    [a, b],
                    [i, i],
                    color=look.color,
                    linewidth=2.4,
                    alpha=0.55,
                    solid_capstyle="round",
                    zorder=2,
                )
            if math.isfinite(a):
                axes.plot(
                    [a],
                    [i],
                    marker="o",
                    markersize=7.5,
                    markerfacecolor="white",
                    markeredgecolor=look.color,
                    markeredgewidth=1.8,
                    linestyle="none",
                    zorder=3,
                    clip_on=False,
                )
            if math.isfinite(b):
                axes.plot(
                    [b],
                    [i],
                    marker="o",
                    markersize=7.5,
                    markerfacecolor=look.color,
                    markeredgecolor=rim(look.color),
                    markeredgewidth=0.6,
                    linestyle="none",
                    zorder=4,
                    clip_on=False,
                )
            words = _words(*pairs[quantile][tenant], quantile, (tenant, quantile) in unclear)
            # Left edge of the row, above the marks: never over them.
            axes.text(
                0.005,
                i - 0.33,
                words,
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=8.4,
                color=SOFT,
            )
    page_h = chart.get_size_inches()[1]
    for i, tenant in enumerate(tenants):
        y = top + (i + 0.5) * ROW_IN
        label = shorten(plain(tenant), left - PAD - 0.1, 9.0, "bold")
        chart.text(
            PAD / WIDTH_IN, 1 - y / page_h, label, va="center", fontsize=9, fontweight="bold", color=INK
        )
    chart.data.update(pairs)
    chart.alt = f"Change of {SHORT[measure]} from {before} to {after}. " + " ".join(
        f"{t}: p50 {_plain_pair(pairs['p50'][t])}, p99 {_plain_pair(pairs['p99'][t])}." for t in tenants
    )
    return chart


@styled
def nothing_to_compare(policy: str, ticked: int) -> Chart:
    """The same place where before and after are one policy, one of so many that are ticked: what to do."""
    if ticked > 1:
        title = f"Before and after are both {plain(policy)}: nothing to compare"
        subtitle = "Choose another policy for one of them."
    else:
        title = f"{plain(policy)} alone is ticked: nothing to compare it with"
        subtitle = (
            "Tick a second policy: the chart shows what the change from one to another does to each tenant."
        )
    chart = Chart(heading_height(title, subtitle) + 0.2, alt=f"{title}. {subtitle}")
    heading(chart, title, subtitle)
    return chart


def _statistics_words(table: pd.DataFrame) -> str:
    runs = int(table["runs"].max())
    return "One run, so no interval." if runs == 1 else f"Mean of {runs} runs."


def _cell(rows: pd.DataFrame, tenant: str, column: str) -> float:
    return float(rows[column][tenant]) if tenant in rows.index else math.nan


def _unclear(differences: Differences | None) -> set[tuple[str, str]]:
    """The (tenant, quantile) pairs whose interval of differences holds 0: chance may have made them."""
    return {
        (tenant, quantile)
        for tenant, by_quantile in (differences or {}).items()
        for quantile, (_, low, high) in by_quantile.items()
        if low <= 0 <= high
    }


def _words(a: float, b: float, quantile: str, unclear: bool) -> str:
    if not (math.isfinite(a) and math.isfinite(b)):
        return "too few requests" if quantile == "p99" else "none finished"
    change = "no clear change" if unclear and a != b else ratio_words(a, b)
    return f"{number(a)} → {number(b)} s" + (f"  ({change})" if change else "")


def _plain_pair(pair: tuple[float, float]) -> str:
    a, b = pair
    return f"{number(a)} to {number(b)} s" if math.isfinite(a) and math.isfinite(b) else "too few"


def _finding(
    pairs: dict[str, dict[str, tuple[float, float]]],
    unclear: set[tuple[str, str]],
    before: str,
    after: str,
    measure: str,
) -> str:
    for quantile in ("p99", "p50"):
        known = {t: p for t, p in pairs[quantile].items() if all(math.isfinite(v) and v > 0 for v in p)}
        if not known:
            continue
        change = f"{plain(before)} → {plain(after)}"
        known = {t: p for t, p in known.items() if (t, quantile) not in unclear}
        if not known:
            return f"{change}: no clear change in {quantile} {SHORT[measure]}"
        winner = min(known, key=lambda t: known[t][1] / known[t][0])
        loser = max(known, key=lambda t: known[t][1] / known[t][0])
        gain, loss = (ratio_words(*known[name]) for name in (winner, loser))
        if gain.endswith("less") and loss.endswith("more"):
            return f"{change}: {quantile} {gain} for {plain(winner)}, {loss} for {plain(loser)}"
        if gain.endswith("less"):
            return f"{change}: {quantile} {gain} for {plain(winner)}, nobody pays in {quantile}"
        if loss.endswith("more"):
            return f"{change}: {quantile} {loss} for {plain(loser)}, nobody gains"
        return f"{change}: no tenant's {quantile} {SHORT[measure]} changes"
    return f"{plain(before)} → {plain(after)}: {SHORT[measure]} per tenant"
