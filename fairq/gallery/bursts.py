"""A burst meets FIFO, caps and fair shares: who waits, who pays, what stands idle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairq.gallery.page import claim, log_axis, looks, panel, plain_line, sheet, text_color, times
from fairq.gallery.runs import cell, group_table, run_scenario
from fairq.plots import Chart
from fairq.plots.style import (
    INK,
    OKABE_ITO,
    PAD,
    SOFT,
    WIDTH_IN,
    hatch_ink,
    number,
    plus_minus,
    styled,
    tenant_legend,
    text_width,
    value_axis,
)
from fairq.scenario import Scenario

WINDOW = (50.0, 110.0)
"""Seconds of the noisy burst that the slots are shown for: the nightly job comes at 60 s."""
BIN_S = 10.0
GROUPS = ("chat", "code", "notebook", "agent", "nightly")
"""Of the noisy burst; in this order in every chart, so that each keeps its colour."""


# -- FIFO or fair -------------------------------------------------------------------------------------------


def fifo_or_fair() -> pd.DataFrame:
    """p50 and p99 latency per group under FIFO and DRR, ten runs."""
    return group_table(run_scenario(Scenario.load("noisy_burst"), ("FIFO", "fair")))


@styled
def draw_fifo_or_fair(table: pd.DataFrame) -> Chart:
    """A row per group: hollow where it was, full where it is."""
    groups = [name for name in GROUPS if name in set(table["tenant"])]

    def at(policy: str, group: str, quantile: str = "p99") -> float:
        return cell(table, f"latency_{quantile}", policy=policy, tenant=group)

    gain = at("FIFO", "chat") / at("fair", "chat")
    price = at("fair", "nightly") / at("FIFO", "nightly")
    title = claim(
        f"Same card, same requests: chat's slowest answers come {times(gain)} sooner,"
        f" the nightly job's {times(price)} later",
        gain > 2,
        1 < price < 3,
    )
    subtitle = (
        "Latency (arrival to finish) under FIFO (hollow) and deficit round robin (full). Mean of"
        f" {int(table['runs'].max())} runs; lines: 95 % confidence interval."
    )
    row_in, left = 0.42, PAD + 0.78
    chart, head = sheet(
        title,
        subtitle,
        0.28 + row_in * len(groups) + 0.5,
        " ".join(
            f"{g}: p50 {number(at('FIFO', g, 'p50'))} to {number(at('fair', g, 'p50'))} s, p99"
            f" {number(at('FIFO', g))} to {number(at('fair', g))} s."
            for g in groups
        ),
    )
    shown = looks(groups)
    width = (WIDTH_IN - left - 0.26 - PAD - 0.1) / 2
    values = [float(v) for q in ("p50", "p99") for v in table[f"latency_{q}"]]
    low_end, high_end = min(values) / 2, max(values) * 1.6
    for i, quantile in enumerate(("p50", "p99")):
        words = {"p50": "p50: half are faster", "p99": "p99: 1 in 100 is slower"}[quantile]
        axes = panel(chart, left + i * (width + 0.26), head + 0.28, width, row_in * len(groups), words)
        ticks = [t for t in (2, 5, 20, 100, 500, 2000) if low_end < t < high_end]
        log_axis(axes, "x", ticks, low_end, high_end)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_yticks(range(len(groups)), groups if i == 0 else [""] * len(groups))
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_visible(False)
        axes.grid(True, axis="x")
        axes.set_xlabel("latency (s), log scale")
        for y, group in enumerate(groups):
            was, now = at("FIFO", group, quantile), at("fair", group, quantile)
            look = shown[group]
            axes.annotate(
                "",
                (now, y),
                (was, y),
                arrowprops={"arrowstyle": "-|>", "color": SOFT, "lw": 1.0, "shrinkA": 4, "shrinkB": 5},
            )
            for policy, face in (("FIFO", "white"), ("fair", look.color)):
                low, high = (
                    cell(table, f"latency_{quantile}_{end}", policy=policy, tenant=group)
                    for end in ("low", "high")
                )
                x = at(policy, group, quantile)
                axes.plot([max(low, low_end), high], [y, y], color=INK, linewidth=0.9, zorder=3)
                axes.plot(
                    x,
                    y,
                    marker=look.marker,
                    markersize=7,
                    color=face,
                    markeredgecolor=text_color(look.color),
                    markeredgewidth=1.4,
                    zorder=4,
                )
            factor = was / now
            words = f"{max(factor, 1 / factor):.1f}× {'less' if factor > 1 else 'more'}"
            middle = float(np.sqrt(was * now))
            axes.text(middle, y - 0.2, words, ha="center", va="bottom", fontsize=8, color=INK)
    return chart


# -- the slots ----------------------------------------------------------------------------------------------


def slots_over_time() -> pd.DataFrame:
    """Which group held which slot while the nightly job came: one run under FIFO and DRR."""
    runs = run_scenario(Scenario.load("noisy_burst"), ("FIFO", "fair"), replications=1)
    parts = []
    for policy, (result,) in runs.items():
        rows = result.requests
        seen = (rows["finish"] >= WINDOW[0]) & (rows["start"] <= WINDOW[1])
        part = rows[seen.to_numpy(dtype=bool)].sort_values(["start", "slot"])
        parts.append(
            pd.DataFrame(
                {
                    "policy": policy,
                    "tenant": part["group"].astype(str),
                    "slot": part["slot"],
                    "start": part["start"],
                    "finish": part["finish"],
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


@styled
def draw_slots_over_time(table: pd.DataFrame) -> Chart:
    """A panel per policy, a row per slot, a bar per request; the minute in which the nightly job comes."""
    parts = {str(policy): rows for policy, rows in table.groupby("policy", sort=False)}
    others = {
        policy: rows[(rows["tenant"] != "nightly") & (rows["start"] > 60)] for policy, rows in parts.items()
    }
    first = float(others["fair"]["start"].min()) - 60
    title = claim(
        f"FIFO: once the pile is there nobody else gets a slot for {WINDOW[1] - 60:.0f} s;"
        f" fair: the next one does after {first:.0f} s",
        others["FIFO"].empty,
        0 < first < 30,
    )
    subtitle = (
        "Each row is a slot, each bar a request; one run of the noisy burst. The nightly job comes at 60 s."
    )
    shown = {name: look for name, look in looks(GROUPS).items() if name in set(table["tenant"])}
    height, gap = 1.25, 0.32
    held = {
        policy: rows[rows["start"] >= 60].groupby("tenant", sort=False).size()
        for policy, rows in parts.items()
    }
    chart, head = sheet(
        title,
        subtitle,
        0.46 + 2 * height + gap + 0.5,
        " ".join(
            f"Begun from 60 to {WINDOW[1]:.0f} s under {policy}: "
            + ", ".join(f"{count} of {name}" for name, count in counts.items())
            + "."
            for policy, counts in held.items()
        ),
    )
    tenant_legend(chart, head, list(shown), shown, lines=False)
    for i, (policy, rows) in enumerate(parts.items()):
        words = {"FIFO": "FIFO", "fair": "fair (deficit round robin)"}[policy]
        axes = panel(
            chart, PAD + 0.42, head + 0.46 + i * (height + gap), WIDTH_IN - 2 * PAD - 0.5, height, words
        )
        for name, look in shown.items():
            mine = rows[rows["tenant"] == name]
            axes.barh(
                mine["slot"] + 1,
                mine["finish"] - mine["start"],
                left=mine["start"],
                height=0.8,
                color=look.color,
                hatch=look.hatch,
                edgecolor=hatch_ink(look.color),
                linewidth=0,
            )
            # A white edge, so that one request ends where the next begins.
            axes.barh(
                mine["slot"] + 1,
                mine["finish"] - mine["start"],
                left=mine["start"],
                height=0.8,
                color="none",
                edgecolor="white",
                linewidth=0.9,
            )
        axes.axvline(60, color=INK, linewidth=1.0, linestyle=(0, (3, 2)))
        axes.set_xlim(*WINDOW)
        axes.set_ylim(8.55, 0.45)
        axes.set_yticks([1, 3, 5, 7])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_ylabel("slot")
        axes.set_xticks(np.arange(WINDOW[0], WINDOW[1] + 1, 10))
        if i:
            axes.set_xlabel("time (s)")
        else:
            axes.tick_params(labelbottom=False)
    return chart


# -- who pays -----------------------------------------------------------------------------------------------


def who_pays() -> pd.DataFrame:
    """Seconds waited per group in the published burst under FIFO and DRR: all together, and per request."""
    runs = run_scenario(Scenario.load("published_burst"), ("fifo", "drr"), replications=1)
    rows = []
    for group in ("small", "noisy"):
        waits = {
            policy: results[0].requests.loc[results[0].requests["group"] == group, "wait"]
            for policy, results in runs.items()
        }
        rows.append(
            {
                "group": group,
                "requests": len(waits["fifo"]),
                "fifo_wait_s": float(waits["fifo"].sum()),
                "drr_wait_s": float(waits["drr"].sum()),
            }
        )
    return pd.DataFrame(rows)


@styled
def draw_who_pays(table: pd.DataFrame) -> Chart:
    """The change of waiting: equal and opposite in all, very unequal per request."""
    change = {row["group"]: row["drr_wait_s"] - row["fifo_wait_s"] for row in table.to_dict("records")}
    count = {row["group"]: int(row["requests"]) for row in table.to_dict("records")}
    each = {group: change[group] / count[group] for group in change}
    title = claim(
        f"A fair queue makes no time, it moves it: {count['small']} requests wait"
        f" {-each['small']:.0f} s less each, {count['noisy']:,} wait {each['noisy']:.1f} s more",
        abs(change["small"] + change["noisy"]) < 1e-6 * abs(change["noisy"]),
        change["small"] < 0,
    )
    subtitle = (
        "Change in waiting from FIFO to deficit round robin. One tenant sends 1,000 equal requests, nine"
        " others five each; 8 slots, nothing is random."
    )
    body = 0.9
    chart, head = sheet(
        title,
        subtitle,
        0.3 + body + 0.5,
        " ".join(
            f"{group}: {change[group]:+,.0f} s in all, {each[group]:+.2f} s per request." for group in change
        ),
    )
    left = PAD + 1.1
    width = (WIDTH_IN - left - 0.3 - PAD) / 2
    shown = looks(["small", "noisy"])
    names = {"small": f"small\n{count['small']} requests", "noisy": f"noisy\n{count['noisy']:,} requests"}
    for i, (words, values, form) in enumerate(
        (("all together", change, "{:+,.0f} s"), ("per request", each, "{:+.1f} s"))
    ):
        axes = panel(chart, left + i * (width + 0.3), head + 0.3, width, body, words)
        most = max(map(abs, values.values()))
        axes.set_xlim(-3.1 * most, 2.7 * most)
        axes.set_ylim(1.5, -0.5)
        axes.axvline(0, color=SOFT, linewidth=0.8)
        axes.set_yticks([0, 1], [names[g] for g in values] if i == 0 else ["", ""])
        axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=8.8)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("change in waiting (s)", fontsize=8.4)
        axes.xaxis.set_major_locator(_even(most))
        axes.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}".replace("-", "−"))
        for y, (group, value) in enumerate(values.items()):
            look = shown[group]
            axes.barh(
                y,
                value,
                height=0.6,
                color=look.color,
                hatch=look.hatch,
                edgecolor=hatch_ink(look.color),
                lw=0,
            )
            axes.annotate(
                form.format(value).replace("-", "−"),
                (value, y),
                (6 if value > 0 else -6, 0),
                textcoords="offset points",
                ha="left" if value > 0 else "right",
                va="center",
                fontsize=9,
                fontweight="bold",
            )
    return chart


def _even(most: float) -> Any:
    from matplotlib.ticker import FixedLocator

    step = 10.0 ** np.floor(np.log10(most))
    top = np.floor(most / step) * step
    return FixedLocator([-2 * top, 0, 2 * top])


# -- caps and idle slots ------------------------------------------------------------------------------------


def caps_idle_slots() -> pd.DataFrame:
    """Mean busy slots per group and mean slots idle while somebody waited, per ten seconds; one run."""
    runs = run_scenario(Scenario.load("noisy_burst"), ("capped", "fair"), replications=1)
    end = max(result.makespan for (result,) in runs.values())
    edges = np.arange(0.0, np.ceil(end / BIN_S) * BIN_S + BIN_S / 2, BIN_S)
    parts = []
    for policy, (result,) in runs.items():
        rows, queue = result.requests, result.queue
        columns: dict[str, Any] = {"policy": policy, "t": edges[:-1]}
        for group in dict.fromkeys(rows["group"].astype(str)):
            mine = (rows["group"] == group).to_numpy()
            start, finish = (rows.loc[mine, name].to_numpy(dtype=float) for name in ("start", "finish"))
            held = [
                np.clip(np.minimum(finish, b) - np.maximum(start, a), 0, None).sum() for a, b in _pairs(edges)
            ]
            columns[group] = np.array(held) / BIN_S
        idle = np.where(queue["waiting"] > 0, 8 - queue["running"], 0).astype(float)
        some = (queue["waiting"] > 0).to_numpy(dtype=float)
        t = queue["t"].to_numpy(dtype=float)
        columns["idle_while_waiting"] = [_mean(t, idle, a, b) for a, b in _pairs(edges)]
        columns["somebody_waits"] = [_mean(t, some, a, b) for a, b in _pairs(edges)]
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _pairs(edges: Any) -> list[tuple[float, float]]:
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _mean(t: Any, values: Any, start: float, end: float) -> float:
    from fairq.metrics import time_mean

    return time_mean(t, values, start, end)


@styled
def draw_caps_idle_slots(table: pd.DataFrame) -> Chart:
    """Busy slots stacked by group over time, and the idle ones above them while somebody waits."""
    groups = [name for name in GROUPS if name in table.columns]
    parts = {str(policy): rows for policy, rows in table.groupby("policy", sort=False)}
    wasted = {
        policy: rows["idle_while_waiting"].sum() / (8 * rows["somebody_waits"].sum())
        for policy, rows in parts.items()
    }
    done = {
        policy: float(rows.loc[rows[groups].sum(axis=1) > 0, "t"].max()) + BIN_S
        for policy, rows in parts.items()
    }
    title = claim(
        f"Caps leave {100 * wasted['capped']:.0f} % of the slots idle while requests wait,"
        f" and finish {done['capped'] / done['fair']:.1f} times as late",
        wasted["capped"] > 0.3,
        wasted["fair"] < 0.005,
        done["capped"] > 1.5 * done["fair"],
    )
    subtitle = (
        "Busy slots by group, mean of each 10 s; one run of the noisy burst. Top: two requests per key,"
        " two of all batch keys. Bottom: deficit round robin."
    )
    shown = looks(groups)
    height, top_gap = 1.15, 0.3
    chart, head = sheet(
        title,
        subtitle,
        0.46 + 2 * height + top_gap + 0.5,
        " ".join(
            f"{policy}: {100 * wasted[policy]:.0f} % of slot time idle while somebody waits, done after"
            f" {done[policy]:.0f} s."
            for policy in parts
        ),
    )
    tenant_legend(chart, head, groups, shown, lines=False)
    for i, (policy, rows) in enumerate(parts.items()):
        words = {"capped": "caps per key", "fair": "fair shares"}[policy]
        axes = panel(
            chart, PAD + 0.42, head + 0.46 + i * (height + top_gap), WIDTH_IN - 2 * PAD - 0.5, height, words
        )
        x = np.append(rows["t"].to_numpy(dtype=float), rows["t"].max() + BIN_S)
        below = np.zeros(len(rows))
        for group in groups:
            above = below + rows[group].to_numpy(dtype=float)
            look = shown[group]
            axes.fill_between(
                x,
                np.append(below, below[-1]),
                np.append(above, above[-1]),
                step="post",
                facecolor=look.color,
                hatch=look.hatch,
                edgecolor=hatch_ink(look.color),
                linewidth=0,
            )
            below = above
        idle = below + rows["idle_while_waiting"].to_numpy(dtype=float)
        axes.fill_between(
            x,
            np.append(below, below[-1]),
            np.append(idle, idle[-1]),
            step="post",
            facecolor="white",
            edgecolor=SOFT,
            hatch="..",
            linewidth=0.6,
        )
        if wasted[policy] > 0.05:
            axes.text(
                0.52 * float(x[-1]),
                5.6,
                "idle, and somebody waits",
                ha="center",
                fontsize=9,
                fontweight="bold",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},
            )
        else:
            axes.text(done[policy] + 12, 3.6, "all done", fontsize=9, color=INK)
        axes.set_xlim(0, float(x[-1]))
        axes.set_ylim(0, 8)
        axes.set_yticks([0, 4, 8])
        axes.set_ylabel("slots")
        if i == 1:
            axes.set_xlabel("time (s)")
        else:
            axes.tick_params(labelbottom=False)
    return chart


# -- fifty keys ---------------------------------------------------------------------------------------------


def fifty_keys() -> pd.DataFrame:
    """p50 and p99 per group beside a tenant with fifty keys, under six policies; ten runs."""
    scenario = Scenario.load("fifty_keys")
    return group_table(run_scenario(scenario, list(scenario.policies)))


@styled
def draw_fifty_keys(table: pd.DataFrame) -> Chart:
    """Bars of chat's p99, a row per policy."""
    policies = list(dict.fromkeys(table["policy"]))

    def p99(policy: str, group: str = "chat", end: str = "") -> float:
        return cell(table, f"latency_p99{end}", policy=policy, tenant=group)

    fair = ("DRR", "VTC", "SFQ")
    title = claim(
        f"Fifty keys walk around a cap per key: p99 of the others {p99('capped per key'):.0f} s;"
        f" fair shares count tenants: {max(map(p99, fair)):.0f} s",
        p99("capped per key") > 0.8 * p99("FIFO"),
        max(map(p99, fair)) < 0.25 * p99("capped per key"),
    )
    subtitle = (
        "p99 latency of four chat users with one key each, beside one tenant who spreads 500 requests over 50"
        f" keys; 8 slots. Mean of {int(table['runs'].max())} runs, 95 % confidence interval."
    )
    row_in = 0.31
    left = PAD + max(text_width(p, 9.0) for p in policies) + 0.12
    chart, head = sheet(
        title,
        subtitle,
        0.1 + row_in * len(policies) + 0.5,
        "p99 of chat: " + ", ".join(f"{p} {number(p99(p))} s" for p in policies) + ".",
    )
    axes = panel(chart, left, head + 0.1, WIDTH_IN - left - PAD, row_in * len(policies))
    values = [p99(p, end="_high") for p in policies]
    value_axis(axes, values, log=False, room=0.17)
    axes.set_ylim(len(policies) - 0.5, -0.5)
    axes.set_yticks(range(len(policies)), [plain_line(p) for p in policies])
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=9)
    axes.grid(True, axis="x")
    axes.set_xlabel("p99 latency of chat (s)")
    kinds = {"FIFO": 0, "capped per key": 1, "capped as a group": 1}
    for y, policy in enumerate(policies):
        color = OKABE_ITO[kinds.get(policy, 2)]
        hatch = ("", "////", "..")[kinds.get(policy, 2)]
        mean, low, high = p99(policy), p99(policy, end="_low"), p99(policy, end="_high")
        axes.barh(y, mean, height=0.66, color=color, hatch=hatch, edgecolor=hatch_ink(color), linewidth=0)
        axes.plot([low, high], [y, y], color=INK, linewidth=1.2)
        axes.annotate(
            f"{plus_minus(mean, (high - low) / 2)} s",
            (high, y),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.8,
        )
    return chart
