"""The box itself: memory, replicas, users, where it saturates, and the queue that no policy reaches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairq import FIFO
from fairq.capacity import Shape, from_profile
from fairq.gallery.page import claim, log_axis, panel, plain_line, sheet, text_color, thousands, times
from fairq.gallery.runs import cell, group_table, run_scenario
from fairq.memory import memory_rows
from fairq.models import load_model, model_names
from fairq.plots import Chart
from fairq.plots.style import (
    INK,
    OKABE_ITO,
    PAD,
    SOFT,
    WIDTH_IN,
    hatch_ink,
    number,
    styled,
    text_width,
    value_axis,
)
from fairq.profiles import load_profile
from fairq.saturation import judge, series_of
from fairq.scenario import Scenario
from fairq.sim import simulate
from fairq.sim.batching import BatchingEngine
from fairq.sim.replicas.routers import LABELS, ROUTERS
from fairq.workload import ClosedLoop, Fixed, Lognormal, OnOff, Poisson, Tenant, Workload

# -- memory -------------------------------------------------------------------------------------------------

SPLITS = (("one engine", 1), ("MIG", 2))
PARTS = {
    "weights_gb": ("weights", OKABE_ITO[0], ""),
    "overhead_gb": ("engine", OKABE_ITO[3], "\\\\\\\\"),
    "kv_gb": ("KV cache", OKABE_ITO[4], ".."),
}


def partition_memory() -> pd.DataFrame:
    """Weights, engine overhead and KV cache on a 24 GB card: one engine, and two halves; GB of the card."""
    rows = memory_rows([load_model(name) for name in model_names()], SPLITS)
    table = pd.DataFrame(rows)
    columns = ["model", "title", "way", "parts", "part_gb", *PARTS, "kv_tokens_card", "fits", "says"]
    return table[columns]


@styled
def draw_partition_memory(table: pd.DataFrame) -> Chart:
    """A pair of stacked bars per model: one engine above, two halves below."""
    names = list(dict.fromkeys(table["title"]))
    fit = {(row["title"], int(row["parts"])): int(row["kv_tokens_card"]) for row in table.to_dict("records")}
    largest = max(names, key=lambda n: cell(table, "weights_gb", title=n, parts=1))
    # Of those that fit in halves, the one that loses most.
    both = [n for n in names if fit[n, 2] > 0]
    worst = min(both, key=lambda n: fit[n, 2] / fit[n, 1])
    title = claim(
        f"Two halves hold the weights twice: {largest} no longer fits, {worst} keeps"
        f" {100 * fit[worst, 2] / fit[worst, 1]:.0f} % of its KV cache",
        fit[largest, 1] > 0,
        fit[largest, 2] == 0,
        all(fit[n, 2] < fit[n, 1] for n in names),
    )
    subtitle = (
        "Memory of a 24 GB card in GB; each model as one engine (above) and as two equal MIG slices, both"
        " parts added up (below). Right: KV tokens on the card."
    )
    row_in, gap = 0.27, 0.14
    left = PAD + max(text_width(plain_line(n), 8.8) for n in names) + 0.12
    right = 1.42
    body = len(names) * (2 * row_in + gap)
    chart, head = sheet(
        title,
        subtitle,
        0.3 + body + 0.5,
        " ".join(f"{r['title']}, {r['way']}: {r['says']}." for r in table.to_dict("records")),
    )
    axes = panel(chart, left, head + 0.3, WIDTH_IN - left - right - PAD, body)
    card = float(table["part_gb"].max())
    axes.set_xlim(0, card)
    axes.set_ylim(body, 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("GB of the card (white: not used, or lost)")
    axes.grid(True, axis="x")
    for i, name in enumerate(names):
        for j, parts in enumerate((1, 2)):
            row = table[(table["title"] == name) & (table["parts"] == parts)].iloc[0]
            y = i * (2 * row_in + gap) + gap / 2 + (j + 0.5) * row_in
            at = 0.0
            for column, (_, color, hatch) in PARTS.items():
                size = parts * float(row[column])
                size = min(size, card - at)
                if size <= 0:
                    continue
                axes.barh(
                    y,
                    size,
                    left=at,
                    height=row_in * 0.8,
                    color=color,
                    hatch=hatch,
                    edgecolor=hatch_ink(color),
                    linewidth=0,
                )
                at += size
            words = f"{int(row['kv_tokens_card']):,} tokens" if row["fits"] else "does not fit"
            axes.text(
                card * 1.015,
                y,
                ("1 engine  " if parts == 1 else "2 halves  ") + words,
                va="center",
                fontsize=8.2,
                color=INK if row["fits"] else "#9C1C1C",
                fontweight="normal" if row["fits"] else "bold",
                clip_on=False,
            )
        page_h = chart.get_size_inches()[1]
        chart.text(
            PAD / WIDTH_IN,
            1 - (head + 0.3 + i * (2 * row_in + gap) + gap / 2 + row_in) / page_h,
            plain_line(name),
            va="center",
            fontsize=8.8,
            color=INK,
        )
    _key(chart, head + 0.02, left)
    return chart


def _key(chart: Chart, y: float, left: float) -> None:
    """What the parts of the memory bars are."""
    from matplotlib.patches import Rectangle

    page_w, page_h = (float(v) for v in chart.get_size_inches())
    x = left
    for name, color, hatch in PARTS.values():
        chart.add_artist(
            Rectangle(
                (x / page_w, 1 - (y + 0.16) / page_h),
                0.24 / page_w,
                0.12 / page_h,
                facecolor=color,
                hatch=hatch,
                edgecolor=hatch_ink(color),
                linewidth=0.0,
                transform=chart.transFigure,
            )
        )
        chart.text((x + 0.3) / page_w, 1 - (y + 0.1) / page_h, name, va="center", fontsize=8.8, color=INK)
        x += 0.46 + text_width(name, 8.8)


# -- replicas -----------------------------------------------------------------------------------------------


def replica_routers() -> pd.DataFrame:
    """Three replicas, long conversations: what each router finds in the cache, and time to first token."""
    scenario = Scenario.load("replicas")
    rows = []
    for name in ROUTERS:
        one = scenario.with_({"engine.router": name, "engine.outages": []})
        result = simulate(one.workload(), one.policy("FIFO"), one.engine(), seed=one.seed)
        done = result.requests[(result.requests["status"] == "finished").to_numpy()]
        rows.append(
            {
                "router": LABELS[name],
                "finished": len(done),
                "hit_rate": done["cached_tokens"].sum() / done["prompt_tokens"].sum(),
                "ttft_p50": done["ttft"].median(),
                "ttft_mean": done["ttft"].mean(),
            }
        )
    return pd.DataFrame(rows)


@styled
def draw_replica_routers(table: pd.DataFrame) -> Chart:
    """Two panels of bars: the part of the prompts found in a cache, and the mean time to first token."""
    routers = list(table["router"])

    def value(router: str, column: str) -> float:
        return cell(table, column, router=router)

    session, blind, pure = "session affinity", "round robin", "longest prefix, pure"
    title = claim(
        f"Go where the history is: by session {100 * value(session, 'hit_rate'):.0f} % is cached, in turns"
        f" {100 * value(blind, 'hit_rate'):.0f} %; longest prefix alone jams one replica",
        value(session, "hit_rate") > 1.5 * value(blind, "hit_rate"),
        value(session, "ttft_mean") < value(blind, "ttft_mean"),
        value(pure, "ttft_mean") > 5 * value(session, "ttft_mean"),
    )
    subtitle = (
        "Three replicas with prefix caches, 30 people in conversations that begin with 6,000 tokens; ten"
        f" minutes, {int(table['finished'].min()):,} to {int(table['finished'].max()):,} requests per router."
    )
    row_in = 0.36
    left = PAD + max(text_width(r, 9.0) for r in routers) + 0.12
    body = row_in * len(routers)
    chart, head = sheet(
        title,
        subtitle,
        0.3 + body + 0.5,
        " ".join(
            f"{r}: {100 * value(r, 'hit_rate'):.0f} % cached, mean first token"
            f" {number(value(r, 'ttft_mean'))} s."
            for r in routers
        ),
    )
    gap = 0.34
    width = (WIDTH_IN - left - gap - PAD - 0.05) / 2
    for i, (words, column, factor, form) in enumerate(
        (
            ("found in the cache", "hit_rate", 100.0, "{:.0f} %"),
            ("mean time to first token", "ttft_mean", 1.0, "{:.2f} s"),
        )
    ):
        axes = panel(chart, left + i * (width + gap), head + 0.3, width, body, words)
        values = [factor * value(r, column) for r in routers]
        if column == "hit_rate":
            axes.set_xlim(0, 128)
            axes.set_xticks([0, 50, 100])
        else:
            log_axis(axes, "x", (0.3, 1, 3, 10), 0.15, 80)
        axes.set_ylim(len(routers) - 0.5, -0.5)
        axes.set_yticks(range(len(routers)), routers if i == 0 else [""] * len(routers))
        axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=9)
        axes.grid(True, axis="x")
        axes.set_xlabel("share of the prompt tokens (%)" if column == "hit_rate" else "time (s), log scale")
        color, hatch = (OKABE_ITO[2], "") if i == 0 else (OKABE_ITO[1], "////")
        for y, v in enumerate(values):
            axes.barh(y, v, height=0.66, color=color, hatch=hatch, edgecolor=hatch_ink(color), linewidth=0)
            axes.annotate(
                form.format(v), (v, y), (5, 0), textcoords="offset points", va="center", fontsize=8.6
            )
    return chart


# -- capacity -----------------------------------------------------------------------------------------------

PROMPT, OUTPUT = Lognormal(480, 0.4), Lognormal(240, 0.4)
USERS = 96
RUN_AT = (1, 2, 4, 8, 16, 32, 48, 64, 96)
PROFILE = "rtx4090-llama31-8b"


def capacity_by_users() -> pd.DataFrame:
    """tokens/s in all and each, by users with one request each: the closed form, and the simulated engine."""
    rng = np.random.default_rng(0)
    shape = Shape.from_sizes(*(sizes.sample(rng, 20_000) for sizes in (PROMPT, OUTPUT)))
    card = from_profile(load_profile(PROFILE), shape, users=USERS)
    simulated = {n: _closed_loop(n) for n in RUN_AT}
    return pd.DataFrame(
        [
            {
                "users": row.users,
                "running": row.streams,
                "tokens_per_s": row.tokens_per_s,
                "tokens_per_s_per_user": row.tokens_per_s_per_user,
                "simulated_tokens_per_s": simulated.get(row.users, float("nan")),
                "runs_at_most": card.max_streams,
            }
            for row in card.by_users
        ]
    )


def _closed_loop(users: int) -> float:
    """Generated tokens/s of the batching engine while so many people each keep one request in it."""
    horizon, warmup = 300.0, 60.0
    # All begin at once, but answers differ in length: after the warm-up they are at different places.
    tenant = Tenant("all", "all", ClosedLoop(users, Fixed(0)), PROMPT, OUTPUT)
    engine = BatchingEngine(load_profile(PROFILE))
    rows = simulate(Workload([tenant], horizon), FIFO(), engine, seed=0, until=horizon).requests
    done = rows[((rows["finish"] > warmup) & (rows["finish"] <= horizon)).to_numpy(dtype=bool)]
    return float(done["output_tokens"].sum()) / (horizon - warmup)


@styled
def draw_capacity_by_users(table: pd.DataFrame) -> Chart:
    """Two panels: all together, and each."""
    most = int(table["runs_at_most"].iloc[0])
    one, full = table.iloc[0], table[table["users"] == most].iloc[0]
    seen = table[table["simulated_tokens_per_s"].notna()]
    off = float((seen["simulated_tokens_per_s"] / seen["tokens_per_s"] - 1).abs().max())
    title = claim(
        f"{most} users get {times(full['tokens_per_s'] / one['tokens_per_s'])} the tokens of one, and"
        f" each {number(full['tokens_per_s_per_user'])} tokens/s instead of"
        f" {number(one['tokens_per_s_per_user'])}",
        full["tokens_per_s"] > 3 * one["tokens_per_s"],
        off < 0.15,
    )
    subtitle = (
        "RTX 4090, Llama-3.1-8B in bf16; a request: about 520 prompt and 260 generated tokens. Curves:"
        f" from the profile; marks: the simulated engine (within {100 * off:.0f} %)."
    )
    body, gap = 2.0, 0.62
    chart, head = sheet(
        title,
        subtitle,
        0.3 + body + 0.52,
        " ".join(
            f"{int(r['users'])} users: {number(r['tokens_per_s'])} tokens/s in all,"
            f" {number(r['tokens_per_s_per_user'])} each."
            for r in seen.to_dict("records")
        ),
    )
    left = PAD + 0.5
    width = (WIDTH_IN - left - gap - PAD - 0.05) / 2
    for i, (words, column, color, dash, marker) in enumerate(
        (
            ("tokens/s in all", "tokens_per_s", OKABE_ITO[0], "-", "o"),
            ("tokens/s for each user", "tokens_per_s_per_user", OKABE_ITO[1], (0, (5, 1.5)), "s"),
        )
    ):
        axes = panel(chart, left + i * (width + gap), head + 0.3, width, body, words)
        top = float(table[column].max()) * 1.2
        axes.set_xlim(0, USERS + 5)
        axes.set_ylim(0, top)
        axes.grid(True, axis="y")
        thousands(axes, "y")
        axes.set_xlabel("users at once")
        axes.axvline(most, color=SOFT, linewidth=1.0, linestyle=(0, (4, 2)))
        # In the corner that the curve leaves empty.
        axes.text(
            most + 2,
            top * (0.95 if i else 0.06),
            f"KV cache full:\n{most} run",
            fontsize=8.2,
            color=SOFT,
            va="top" if i else "bottom",
        )
        axes.plot(table["users"], table[column], color=color, linestyle=dash, linewidth=2)
        part = 1 if i == 0 else seen["users"]
        axes.plot(
            seen["users"],
            seen["simulated_tokens_per_s"] / part,
            linestyle="none",
            marker=marker,
            markersize=6,
            color="white",
            markeredgecolor=color,
            markeredgewidth=1.4,
        )
    return chart


# -- saturation ---------------------------------------------------------------------------------------------

HORIZON_S = 400.0
SLOTS = 8


def saturation_verdicts() -> pd.DataFrame:
    """Waiting and running over time on 8 slots of the batching engine, three demands; and the verdict."""
    card = from_profile(load_profile(PROFILE), Shape.of(400, 150), max_num_seqs=SLOTS)
    served = card.at(SLOTS).requests_per_s
    demands: dict[str, Any] = {
        "bursts, 60 % on average": OnOff(4 * 0.6 * served, 10, 30),
        "steady, 115 %": Poisson(1.15 * served),
        "steady, 250 %": Poisson(2.5 * served),
    }
    parts = []
    for name, arrivals in demands.items():
        engine = BatchingEngine(load_profile(PROFILE), max_num_seqs=SLOTS, kv_tokens=41_408, gateway_slots=0)
        tenant = Tenant("all", "all", arrivals, Fixed(400), Fixed(150))
        result = simulate(Workload([tenant], HORIZON_S), FIFO(), engine, seed=4, until=HORIZON_S)
        series = series_of(result)
        verdict = judge(series, slots=SLOTS)
        parts.append(
            pd.DataFrame(
                {
                    "demand": name,
                    "verdict": verdict.name,
                    "t": series.t,
                    "running": series.running,
                    "waiting": series.waiting,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


@styled
def draw_saturation_verdicts(table: pd.DataFrame) -> Chart:
    """A panel per demand: how many wait over time, and what follows from it."""
    parts = {str(name): rows for name, rows in table.groupby("demand", sort=False)}
    verdicts = {name: str(rows["verdict"].iloc[0]) for name, rows in parts.items()}
    title = claim(
        "How the queue looks says what helps: fairness for bursts, slots if it creeps up,"
        " a bigger box if it soars",
        list(verdicts.values()) == ["bursty", "slot-bound", "saturated"],
    )
    subtitle = (
        f"Requests that wait, and the verdict of fairq saturation; {SLOTS} slots of an RTX 4090 with"
        " Llama-3.1-8B. Demand as a part of what 8 slots serve."
    )
    helps = {
        "bursty": "a fair queue helps",
        "slot-bound": "more slots help",
        "saturated": "only more box helps",
    }
    body, gap = 1.75, 0.46
    chart, head = sheet(
        title,
        subtitle,
        0.62 + body + 0.52,
        " ".join(
            f"{name}: {verdicts[name]}, at most {rows['waiting'].max():.0f} wait,"
            f" {rows['waiting'].iloc[-1]:.0f} at the end."
            for name, rows in parts.items()
        ),
    )
    left = PAD + 0.45
    width = (WIDTH_IN - left - PAD - 2 * gap) / 3
    for i, (name, rows) in enumerate(parts.items()):
        axes = panel(chart, left + i * (width + gap), head + 0.62, width, body)
        color = (OKABE_ITO[0], OKABE_ITO[4], OKABE_ITO[1])[i]
        axes.text(
            0,
            1.21,
            verdicts[name],
            transform=axes.transAxes,
            fontsize=11,
            fontweight="bold",
            color=text_color(color),
        )
        axes.text(0, 1.115, helps[verdicts[name]], transform=axes.transAxes, fontsize=8.8, color=INK)
        axes.text(0, 1.03, name, transform=axes.transAxes, fontsize=8.2, color=SOFT)
        axes.fill_between(rows["t"], rows["waiting"], step="post", color=color, linewidth=0, alpha=0.85)
        axes.step(rows["t"], rows["waiting"], where="post", color=INK, linewidth=0.8)
        axes.set_xlim(0, HORIZON_S)
        axes.set_ylim(0, max(float(rows["waiting"].max()) * 1.1, 10))
        axes.set_xticks([0, 150, 300])
        axes.set_xlabel("time (s)")
        axes.grid(True, axis="y")
        thousands(axes, "y")
        if i == 0:
            axes.set_ylabel("requests that wait")
    return chart


# -- the hidden queue ---------------------------------------------------------------------------------------

RELEASED = (256, 40)


def hidden_queue() -> pd.DataFrame:
    """chat's latency under FIFO and fair, when the gateway releases 256 requests or 40; ten runs."""
    scenario = Scenario.load("hidden_queue")
    parts = []
    for released in RELEASED:
        runs = run_scenario(scenario.with_({"engine.gateway_slots": released}), ("FIFO", "fair"))
        parts.append(group_table(runs).assign(released=released))
    return pd.concat(parts, ignore_index=True)


@styled
def draw_hidden_queue(table: pd.DataFrame) -> Chart:
    """p99 of chat: four bars."""

    def p99(released: int, policy: str, end: str = "") -> float:
        return cell(table, f"latency_p99{end}", released=released, policy=policy, tenant="chat")

    wide, tight = RELEASED
    title = claim(
        f"A policy rules only what still waits: with {wide} released to the engine fair is no fairer"
        f" ({p99(wide, 'fair'):.0f} s), with {tight} it is ({p99(tight, 'fair'):.0f} s)",
        p99(wide, "fair") > 0.9 * p99(wide, "FIFO"),
        p99(tight, "fair") < 0.6 * p99(tight, "FIFO"),
    )
    subtitle = (
        "p99 latency of chat while a nightly job sends 250 requests; the engine's KV cache holds some 40 at"
        f" once, the rest queue inside it. Mean of {int(table['runs'].max())} runs, 95 % interval."
    )
    rows = [(released, policy) for released in RELEASED for policy in ("FIFO", "fair")]
    row_in, gap = 0.3, 0.14
    labels = {wide: f"gateway releases {wide}", tight: f"gateway releases {tight}"}
    left = PAD + max(text_width(t, 9.0) for t in labels.values()) + 0.62
    body = 4 * row_in + gap
    chart, head = sheet(
        title,
        subtitle,
        0.12 + body + 0.5,
        " ".join(
            f"{released} released, {policy}: p99 {number(p99(released, policy))} s."
            for released, policy in rows
        ),
    )
    axes = panel(chart, left, head + 0.12, WIDTH_IN - left - PAD, body)
    value_axis(axes, [p99(r, p, "_high") for r, p in rows], log=False, room=0.17)
    axes.set_ylim(body, 0)
    axes.set_yticks([])
    axes.grid(True, axis="x")
    axes.set_xlabel("p99 latency of chat (s)")
    page_h = chart.get_size_inches()[1]
    for i, (released, policy) in enumerate(rows):
        y = (i + 0.5) * row_in + (gap if i > 1 else 0)
        color, hatch = (OKABE_ITO[0], "") if policy == "FIFO" else (OKABE_ITO[2], "..")
        mean, low, high = (p99(released, policy, end) for end in ("", "_low", "_high"))
        axes.barh(
            y, mean, height=row_in * 0.72, color=color, hatch=hatch, edgecolor=hatch_ink(color), linewidth=0
        )
        axes.plot([low, high], [y, y], color=INK, linewidth=1.2)
        axes.annotate(
            f"{mean:.0f} ±{(high - low) / 2:.0f} s",
            (high, y),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.8,
        )
        at = 1 - (head + 0.12 + y) / page_h
        chart.text((left - 0.08) / WIDTH_IN, at, policy, ha="right", va="center", fontsize=9, color=INK)
        if policy == "FIFO":
            chart.text(
                PAD / WIDTH_IN,
                at - row_in / 2 / page_h,
                labels[released],
                va="center",
                fontsize=9,
                color=SOFT,
            )
    return chart
