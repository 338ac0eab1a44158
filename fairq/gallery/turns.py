"""Fair turns seen from close by: weights, quantum, credit round by round, estimates, the lift. No engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fairq import DRR, VTC, Policy, Request
from fairq.counterexamples import NoLift
from fairq.gallery.page import (
    claim,
    end_labels,
    log_axis,
    lone_panel,
    looks,
    panel,
    sheet,
    text_color,
    thousands,
)
from fairq.gallery.runs import cell
from fairq.plots import Chart
from fairq.plots.style import INK, OKABE_ITO, PAD, SOFT, WIDTH_IN, hatch_ink, styled

SIZES = {"ana": 200, "ben": 500, "eva": 900}
"""Tokens of a request of each."""


def backlog(policy: Policy, sizes: Mapping[str, int], requests: int) -> Iterator[Request]:
    """One slot serves so many requests of each, all there from the start, while all have some waiting."""
    for tenant, tokens in sizes.items():
        for _ in range(requests):
            policy.put(Request(tenant, tokens))
    while all(policy.waiting(tenant) for tenant in sizes):
        served = policy.get()
        assert served is not None
        yield served
        policy.done(served, served.cost)


# -- weights → shares ---------------------------------------------------------------------------------------


def weights_to_shares() -> pd.DataFrame:
    """Shares of tokens while all are backlogged, for weights of ana from 1/2 to 8."""
    rows = []
    for weight in (0.5, 1, 2, 3, 4, 6, 8):
        weights = {"ana": weight, "ben": 1, "eva": 2}
        tokens = dict.fromkeys(SIZES, 0.0)
        for served in backlog(DRR(900, weights), SIZES, 1500):
            tokens[served.tenant] += served.cost
        for tenant, got in tokens.items():
            rows.append(
                {
                    "weight_of_ana": weight,
                    "tenant": tenant,
                    "weight": weights[tenant],
                    "share": got / sum(tokens.values()),
                    "formula": weights[tenant] / sum(weights.values()),
                }
            )
    return pd.DataFrame(rows)


@styled
def draw_weights_to_shares(table: pd.DataFrame) -> Chart:
    """Lines: the formula; marks: what was handed out."""
    off = float((table["share"] - table["formula"]).abs().max())
    title = claim(
        "A weight is a share of the tokens, whatever the requests' size: no measured share is more than"
        f" {100 * off:.1f} points off w / Σw",
        off < 0.01,
    )
    sizes = ", ".join(f"{t}: {n}" for t, n in SIZES.items())
    subtitle = (
        f"Everybody has work waiting; requests have {sizes} tokens. Weights: ben 1, eva 2, and ana's across."
        " Lines: w / Σw; marks: deficit round robin."
    )
    body = 2.3
    names = list(SIZES)
    shown = looks(names)
    ends = table[table["weight_of_ana"] == table["weight_of_ana"].max()]
    chart, head = sheet(
        title,
        subtitle,
        0.12 + body + 0.52,
        " ".join(
            f"At weight {row['weight_of_ana']:g} of ana, {row['tenant']} has {100 * row['share']:.1f} %."
            for row in table.to_dict("records")
            if row["weight_of_ana"] in (1, 8)
        ),
    )
    axes = lone_panel(chart, head, body, 0.52, [f"{n}: weight 2" for n in names])
    axes.set_xlim(0, 8)
    axes.set_ylim(0, 80)
    axes.set_xlabel("weight of ana")
    axes.set_ylabel("share of the tokens (%)")
    axes.grid(True, axis="y")
    labels = {}
    for name in names:
        mine = table[table["tenant"] == name]
        look = shown[name]
        x = np.linspace(0.5, 8, 100)
        weight = {"ana": x, "ben": 1 + 0 * x, "eva": 2 + 0 * x}[name]
        axes.plot(x, 100 * weight / (x + 3), color=look.color, linestyle=look.dash, linewidth=1.6)
        axes.plot(
            mine["weight_of_ana"],
            100 * mine["share"],
            linestyle="none",
            marker=look.marker,
            markersize=7,
            color=look.color,
            markeredgecolor="white",
            markeredgewidth=0.7,
            clip_on=False,
        )
        last = cell(ends, "share", tenant=name)
        words = {"ana": "ana: weight 8", "ben": "ben: weight 1", "eva": "eva: weight 2"}[name]
        labels[words] = (8.15, 100 * last, look.color)
    end_labels(axes, labels)
    return chart


# -- quantum ------------------------------------------------------------------------------------------------

QUANTA = (100, 200, 400, 800, 1600, 3200, 6400, 12800)


def quantum_lag() -> pd.DataFrame:
    """The largest difference between the tokens of two backlogged tenants, by quantum; and its bound."""
    sizes = {"ana": 200, "ben": 500}
    rows = []
    for quantum in QUANTA:
        got = dict.fromkeys(sizes, 0)
        lag = 0
        for served in backlog(DRR(quantum), sizes, 1500):
            got[served.tenant] += served.cost
            lag = max(lag, abs(got["ana"] - got["ben"]))
        bound = quantum + sum(sizes.values())
        rows.append({"quantum": quantum, "lag_tokens": lag, "bound_tokens": bound})
    return pd.DataFrame(rows)


@styled
def draw_quantum_lag(table: pd.DataFrame) -> Chart:
    """Lag and bound over the quantum, both axes logarithmic."""
    first, last = table.iloc[0], table.iloc[-1]
    title = claim(
        f"The quantum sets how rough the turns are: from {QUANTA[0]} to {QUANTA[-1]:,} tokens the lag grows"
        f" from {int(first['lag_tokens']):,} to {int(last['lag_tokens']):,}",
        bool((table["lag_tokens"] < table["bound_tokens"]).all()),
        float(last["lag_tokens"]) > 5 * float(first["lag_tokens"]),
    )
    subtitle = (
        "Largest difference between the tokens of two backlogged tenants (requests of 200 and 500 tokens)."
        " Line: the bound, quantum + 200 + 500."
    )
    body = 2.3
    names = ["bound", "largest lag"]
    chart, head = sheet(
        title,
        subtitle,
        0.12 + body + 0.52,
        " ".join(
            f"Quantum {int(row['quantum']):,}: lag {int(row['lag_tokens']):,} of at most"
            f" {int(row['bound_tokens']):,} tokens."
            for row in table.to_dict("records")
        ),
    )
    axes = lone_panel(chart, head, body, 0.6, names)
    log_axis(axes, "x", QUANTA, 85, 13500)
    log_axis(axes, "y", (200, 500, 1000, 2000, 5000, 10000), 150, 18000)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(True, axis="y")
    axes.set_xlabel("quantum (tokens), log scale")
    axes.set_ylabel("tokens, log scale")
    x = np.geomspace(100, 12800, 60)
    axes.plot(x, x + 700, color=INK, linewidth=1.3, linestyle=(0, (4, 2)))
    axes.plot(
        table["quantum"],
        table["lag_tokens"],
        color=OKABE_ITO[1],
        marker="s",
        markersize=6,
        markeredgecolor="white",
        linewidth=1.2,
    )
    end_labels(
        axes,
        {
            names[0]: (13600, float(last["bound_tokens"]) * 1.1, INK),
            names[1]: (13600, float(last["lag_tokens"]), OKABE_ITO[1]),
        },
    )
    return chart


# -- credit round by round ----------------------------------------------------------------------------------

BURST = (("nightly", (400,) * 6), ("ana", (200, 200, 200)), ("ben", (500, 300)))
QUANTUM = 400


def deficits() -> pd.DataFrame:
    """Had + gained − sent = left, per round and tenant: the burst of ``python -m fairq.demo``."""
    policy = DRR(QUANTUM)
    for tenant, sizes in BURST:
        for size in sizes:
            policy.put(Request(tenant, size))
    rows: list[dict[str, Any]] = []
    left = {tenant: 0.0 for tenant, _ in BURST}
    seen = dict.fromkeys(left, 0)
    while len(policy):
        before = policy.snapshot()
        account = before["accounts"][before["next"]["tenant"]]
        served = policy.get()
        assert served is not None
        tenant, number_ = served.tenant, int(account["due"])
        row = next((r for r in rows if r["tenant"] == tenant and r["round"] == number_), None)
        # Rounds in which it could not pay show too: there it only gains.
        for missed in range(seen[tenant] + 1, number_ + (row is None)):
            row = {"round": missed, "tenant": tenant, "had": left[tenant], "gained": QUANTUM, "sent": 0.0}
            rows.append(row)
            left[tenant] += QUANTUM
        seen[tenant] = number_
        assert row is not None
        row["sent"] += served.cost
        left[tenant] -= served.cost
        policy.done(served, served.cost)
    table = pd.DataFrame(rows).sort_values(["round"], kind="stable").reset_index(drop=True)
    return table.assign(left=table["had"] + table["gained"] - table["sent"])


@styled
def draw_deficits(table: pd.DataFrame) -> Chart:
    """A column per tenant, a bar per round: what it sent and what it kept."""
    waits = table[(table["sent"] == 0) & (table["left"] > 0)]
    who, when = str(waits["tenant"].iloc[0]), int(waits["round"].iloc[0])
    kept = float(waits["left"].iloc[0])
    paid = table[(table["tenant"] == who) & (table["round"] == when + 1)].iloc[0]
    title = claim(
        f"Credit that does not suffice is kept: {who} cannot pay in round {when}, keeps {kept:.0f} tokens"
        f" and sends {paid['sent']:.0f} in round {when + 1}",
        len(waits) == 1,
        bool((table["left"] == table["had"] + table["gained"] - table["sent"]).all()),
    )
    subtitle = (
        f"Deficit round robin, quantum {QUANTUM}: each bar is what a tenant could spend in a round (kept +"
        f" {QUANTUM}). An empty line forfeits what is left."
    )
    tenants = list(dict.fromkeys(table["tenant"]))
    shown = looks(tenants)
    body, gap = 1.85, 0.2
    chart, head = sheet(
        title,
        subtitle,
        0.32 + body + 0.5,
        " ".join(
            f"Round {int(r['round'])}, {r['tenant']}: {r['had']:.0f} + {r['gained']:.0f} − {r['sent']:.0f} ="
            f" {r['left']:.0f}."
            for r in table.to_dict("records")
        ),
    )
    left = PAD + 0.5
    most = float((table["had"] + table["gained"]).max())
    rounds = {t: int(table.loc[table["tenant"] == t, "round"].max()) for t in tenants}
    unit = (WIDTH_IN - left - PAD - gap * (len(tenants) - 1)) / sum(n + 0.5 for n in rounds.values())
    at = left
    for i, tenant in enumerate(tenants):
        look, last = shown[tenant], rounds[tenant]
        axes = panel(chart, at, head + 0.32, unit * (last + 0.5), body, tenant)
        at += unit * (last + 0.5) + gap
        axes.set_ylim(0, most * 1.14)
        axes.set_xlim(0.5, last + 0.55)
        axes.set_xticks(range(1, last + 1))
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel("round")
        axes.set_yticks(np.arange(0, most + 1, 200))
        axes.grid(True, axis="y")
        if i == 0:
            axes.set_ylabel("tokens of credit")
        else:
            axes.tick_params(labelleft=False)
        for row in table[table["tenant"] == tenant].to_dict("records"):
            x, kept, sent = row["round"], row["left"], row["sent"]
            axes.bar(x, kept, width=0.72, color="white", edgecolor=text_color(look.color), linewidth=1.1)
            axes.bar(
                x,
                sent,
                bottom=kept,
                width=0.72,
                color=look.color,
                hatch=look.hatch,
                edgecolor=hatch_ink(look.color),
                linewidth=0,
            )
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            if sent:
                axes.text(x, kept + sent / 2, f"{sent:.0f}", ha="center", va="center", fontsize=8, bbox=box)
            if kept:
                words = f"{kept:.0f}" + ("\nlost" if x == last else "")
                axes.text(
                    x, kept / 2, words, ha="center", va="center", fontsize=8, color=SOFT, linespacing=0.95
                )
    # A key without colour: full is sent, hollow is kept.
    chart.axes[0].text(1, most * 1.06, "full: sent; hollow: kept", va="top", fontsize=8.8, color=SOFT)
    return chart


# -- estimates ----------------------------------------------------------------------------------------------

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)


def wrong_estimates() -> pd.DataFrame:
    """ben says his requests cost ``factor`` times the truth: his share with and without true-up."""
    rows = []
    for factor in FACTORS:
        for settled in (False, True):
            policy = VTC()
            for _ in range(1000):
                policy.put(Request("ana", 400))
                policy.put(Request("ben", round(400 * factor)))
            tokens = {"ana": 0, "ben": 0}
            while all(policy.waiting(tenant) for tenant in tokens):
                served = policy.get()
                assert served is not None
                tokens[served.tenant] += 400  # the truth
                policy.done(served, 400 if settled else None)
            rows.append(
                {
                    "factor": factor,
                    "settled": "with true-up" if settled else "without",
                    "share_of_ben": tokens["ben"] / sum(tokens.values()),
                    "formula": 0.5 if settled else 1 / (1 + factor),
                }
            )
    return pd.DataFrame(rows)


@styled
def draw_wrong_estimates(table: pd.DataFrame) -> Chart:
    """ben's share over what he claims; lines: the formula."""
    lie = cell(table, "share_of_ben", factor=FACTORS[0], settled="without")
    honest = cell(table, "share_of_ben", factor=FACTORS[0], settled="with true-up")
    title = claim(
        f"Who claims a quarter of the cost gets {100 * lie:.0f} % instead of half, until the true cost is"
        f" settled: then {100 * honest:.0f} %",
        lie > 0.75,
        abs(honest - 0.5) < 0.01,
    )
    subtitle = (
        "ben's share of the tokens beside one honest tenant, both backlogged; across, what he says his"
        " requests cost, as a part of the truth. Lines: 1 / (1 + f), and ½."
    )
    body = 2.2
    names = {"without": "without true-up", "with true-up": "with true-up"}
    chart, head = sheet(
        title,
        subtitle,
        0.12 + body + 0.52,
        " ".join(
            f"Claiming {row['factor']:g} times the truth, {row['settled']}:"
            f" {100 * row['share_of_ben']:.0f} %."
            for row in table.to_dict("records")
        ),
    )
    axes = lone_panel(chart, head, body, 0.52, list(names.values()))
    log_axis(axes, "x", FACTORS, 0.23, 4.4)
    axes.set_ylim(0, 100)
    axes.grid(True, axis="y")
    axes.set_xlabel("claimed cost ÷ true cost, log scale")
    axes.set_ylabel("ben's share of the tokens (%)")
    labels = {}
    x = np.geomspace(0.25, 4, 60)
    for settled, color, marker, curve in (
        ("without", OKABE_ITO[1], "s", 100 / (1 + x)),
        ("with true-up", OKABE_ITO[0], "o", 50 + 0 * x),
    ):
        mine = table[table["settled"] == settled]
        axes.plot(x, curve, color=color, linewidth=1.4, linestyle="-" if marker == "o" else (0, (5, 1.5)))
        axes.plot(
            mine["factor"],
            100 * mine["share_of_ben"],
            linestyle="none",
            marker=marker,
            markersize=7,
            color=color,
            markeredgecolor="white",
        )
        labels[names[settled]] = (4.5, 100 * float(mine["share_of_ben"].iloc[-1]), color)
    end_labels(axes, labels)
    return chart


# -- the lift of VTC ----------------------------------------------------------------------------------------

AWAY_TOKENS = 40_000
COST = 200
LIFTS = {"lifted (VTC)": VTC, "not lifted": NoLift}


def vtc_lift() -> pd.DataFrame:
    """Two tenants; ben leaves for 40,000 tokens and comes back: what each has had, with and without lift."""
    rows = []
    for name, kind in LIFTS.items():
        policy: Policy = kind()
        got = {"ana": 0, "ben": 0}
        total = 0
        phases = ((("ana", "ben"), 20_000), (("ana",), 20_000 + AWAY_TOKENS), (("ana", "ben"), 120_000))
        for who, until in phases:
            while total < until:
                for tenant in who:
                    # Always two waiting, so that both are backlogged.
                    while policy.waiting(tenant) < 2:
                        policy.put(Request(tenant, COST))
                served = policy.get()
                assert served is not None
                got[served.tenant] += served.cost
                total += served.cost
                policy.done(served, served.cost)
                if total % 2000 == 0:
                    rows.append({"policy": name, "served_tokens": total, **got})
    return pd.DataFrame(rows)


@styled
def draw_vtc_lift(table: pd.DataFrame) -> Chart:
    """Tokens of each tenant over tokens served, two panels."""
    back = 20_000 + AWAY_TOKENS

    def window(policy: str) -> float:
        """ana's share of the first 20,000 tokens after ben came back."""
        mine = table[table["policy"] == policy].set_index("served_tokens")["ana"]
        return float(mine[back + 20_000] - mine[back]) / 20_000

    with_, without = (window(name) for name in LIFTS)
    title = claim(
        "Without the lift idle time is credit: when ben returns, ana gets"
        f" {100 * without:.0f} % for a while; with it {100 * with_:.0f} %",
        without < 0.05,
        abs(with_ - 0.5) < 0.05,
    )
    subtitle = (
        "Tokens that each has had, over tokens served in all; ben has nothing to send in the grey stretch."
        " Left: virtual token counter. Right: the same without its lift."
    )
    body, gap = 2.1, 0.34
    chart, head = sheet(
        title,
        subtitle,
        0.3 + body + 0.52,
        f"In the 20,000 tokens after ben's return ana gets {100 * with_:.0f} % with the lift and"
        f" {100 * without:.0f} % without.",
    )
    left = PAD + 0.52
    width = (WIDTH_IN - left - gap - PAD - 0.05) / 2
    shown = looks(["ana", "ben"])
    for i, name in enumerate(LIFTS):
        axes = panel(chart, left + i * (width + gap), head + 0.3, width, body, name)
        mine = table[table["policy"] == name]
        x = mine["served_tokens"] / 1000
        axes.axvspan(20, back / 1000, color="#E6E9EC", linewidth=0)
        axes.set_xlim(0, 120)
        axes.set_ylim(0, 85)
        thousands(axes, "y")
        axes.set_xlabel("tokens served in all (thousands)")
        if i == 0:
            axes.set_ylabel("tokens of each (thousands)")
        axes.grid(True, axis="y")
        for tenant in ("ana", "ben"):
            look = shown[tenant]
            axes.plot(x, mine[tenant] / 1000, color=look.color, linestyle=look.dash, linewidth=2)
        for tenant, x_, y_ in (("ana", 36.5, 32), ("ben", 40, 13)):
            axes.text(
                x_,
                y_,
                tenant,
                ha="right" if tenant == "ana" else "center",
                va="bottom",
                fontsize=9,
                fontweight="bold",
                color=text_color(shown[tenant].color),
            )
        axes.text(
            (20_000 + AWAY_TOKENS / 2) / 1000,
            80,
            "ben is away",
            ha="center",
            va="top",
            fontsize=8.2,
            color=SOFT,
        )
        if name == "not lifted":
            axes.annotate(
                "ana gets nothing",
                (72, float(mine.loc[mine["served_tokens"] == 72_000, "ana"].iloc[0]) / 1000),
                (63, 64),
                fontsize=8.4,
                arrowprops={"arrowstyle": "->", "color": SOFT},
            )
    return chart
