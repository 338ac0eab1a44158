"""How long one waits: utilisation, burstiness, priorities, ageing, and how sure one run is."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log
from typing import Any

import numpy as np
import pandas as pd

from fairq import FIFO, Policy, Priority, metrics
from fairq.gallery.page import claim, end_labels, lone_panel, minutes, panel, sheet, thousands, times
from fairq.gallery.runs import cell, run_scenario
from fairq.plots import Chart
from fairq.plots.style import INK, OKABE_ITO, PAD, SOFT, WIDTH_IN, number, styled
from fairq.prove.waits import erlang_c, mmc_wait
from fairq.scenario import Scenario
from fairq.sim import SlotEngine, simulate
from fairq.workload import Dump, Exponential, Fixed, Gamma, Poisson, Tenant, Workload

RUNS = 8


# -- closed forms -------------------------------------------------------------------------------------------


def mean_wait(slots: int, busy: float) -> float:
    """Mean wait in M/M/c at utilisation ``busy``, in units of the mean service time."""
    return mmc_wait(slots, slots * busy)


def wait_quantile(slots: int, busy: float, q: float) -> float:
    """The q-quantile (0 to 1) of the wait in M/M/c, first come first served, in mean service times."""
    waits = erlang_c(slots, slots * busy)
    return max(0.0, log(waits / (1 - q)) / (slots * (1 - busy)))


def gamma_wait(cv: float, busy: float) -> float:
    """Mean wait in GI/M/1 with Gamma gaps of that CV, in mean service times: σ / (1 − σ).

    σ in (0, 1) solves σ = A*(1 − σ), A* the Laplace transform of the gaps (Kendall 1953).
    """
    low, high = 0.0, 1.0 - 1e-12
    for _ in range(200):
        middle = (low + high) / 2
        transform = (1 + cv**2 * (1 - middle) / busy) ** (-1 / cv**2)
        # Below the root A*(1 − σ) is above σ.
        low, high = (middle, high) if transform > middle else (low, middle)
    return low / (1 - low)


# -- the hockey stick ---------------------------------------------------------------------------------------

BUSY = (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
SLOTS = (1, 8)


def hockey_stick() -> pd.DataFrame:
    """Mean wait over utilisation for one slot and eight: eight runs each, and Erlang C."""
    rows = []
    for slots in SLOTS:
        for busy in BUSY:
            # More requests where the wait remembers for longer.
            requests = 2500 if busy < 0.8 else 6000 if busy < 0.95 else 12_000
            waits = [
                _mean_wait(Poisson(slots * busy), slots, requests, replication) for replication in range(RUNS)
            ]
            rows.append(_row(waits, mean_wait(slots, busy), slots=slots, utilisation=busy))
    return pd.DataFrame(rows)


def _mean_wait(arrivals: Any, slots: int, requests: int, replication: int) -> float:
    """Mean wait of one run with exponential service of mean 1 s, its first fifth left out."""
    horizon = requests / arrivals.rate_per_s
    tenant = Tenant("all", "all", arrivals, Fixed(0), Fixed(1), service=Exponential(1.0))
    result = simulate(
        Workload([tenant], horizon),
        FIFO(),
        SlotEngine(slots),
        seed=1,
        replication=replication,
        warmup=horizon / 5,
    )
    return float(result.requests["wait"].mean())


def _row(values: list[float], theory: float, **names: float) -> dict[str, float]:
    mean, low, high = metrics.t_interval(values)
    return {**names, "wait": mean, "low": low, "high": high, "runs": len(values), "theory": theory}


@styled
def draw_hockey_stick(table: pd.DataFrame) -> Chart:
    """Curves: Erlang C; marks with intervals: the simulation."""
    inside = (table["low"] <= table["theory"]) & (table["theory"] <= table["high"])
    one = {busy: mean_wait(1, busy) for busy in (0.8, 0.9, 0.95)}
    title = claim(
        f"The last few percent cost most: one slot 80 % busy waits {one[0.8]:.0f} service times, 90 %"
        f" {one[0.9]:.0f}, 95 % {one[0.95]:.0f}",
        int(inside.sum()) >= len(table) - 3,
    )
    subtitle = (
        "Mean wait in units of the mean service time; Poisson arrivals, exponential service. Curves: Erlang"
        f" C. Marks: {RUNS} simulated runs, 95 % confidence interval."
    )
    body = 2.5
    chart, head = sheet(
        title,
        subtitle,
        0.12 + body + 0.52,
        " ".join(
            f"{int(r['slots'])} slot{'s' if r['slots'] > 1 else ''} at {100 * r['utilisation']:.0f} %:"
            f" simulated {number(r['wait'])}, Erlang C {number(r['theory'])}."
            for r in table.to_dict("records")
            if r["utilisation"] in (0.5, 0.8, 0.95)
        ),
    )
    names = {1: "1 slot", 8: "8 slots"}
    axes = lone_panel(chart, head, body, 0.5, list(names.values()))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 26)
    thousands(axes, "y")
    axes.set_xlabel("utilisation of the slots (%)")
    axes.set_ylabel("mean wait ÷ mean service time")
    axes.grid(True, axis="y")
    ends = {}
    for slots, color, marker, dash in ((1, OKABE_ITO[1], "s", "-"), (8, OKABE_ITO[0], "o", (0, (5, 1.5)))):
        x = np.linspace(0.01, 0.955, 200)
        axes.plot(100 * x, [mean_wait(slots, b) for b in x], color=color, linestyle=dash, linewidth=1.8)
        _marks(axes, table[table["slots"] == slots], "utilisation", color, marker)
        ends[names[slots]] = (98.0, mean_wait(slots, 0.955), color)
    end_labels(axes, ends)
    return chart


def _marks(axes: Any, rows: pd.DataFrame, x: str, color: str, marker: str) -> None:
    axes.errorbar(
        100 * rows[x],
        rows["wait"],
        yerr=[rows["wait"] - rows["low"], rows["high"] - rows["wait"]],
        linestyle="none",
        marker=marker,
        markersize=6,
        color=color,
        markeredgecolor="white",
        ecolor=INK,
        elinewidth=1.0,
        capsize=2,
    )


# -- burstiness ---------------------------------------------------------------------------------------------

CVS = (0.5, 1.0, 2.0, 3.0)
BURSTY_BUSY = (0.3, 0.5, 0.7, 0.8, 0.9)


def bursty_or_poisson() -> pd.DataFrame:
    """Mean wait over utilisation on one slot for gaps of four CVs: eight runs each, and the closed form."""
    rows = []
    for cv in CVS:
        for busy in BURSTY_BUSY:
            requests = (2500 if busy < 0.8 else 5000) * (2 if cv > 1 else 1)
            waits = [_mean_wait(Gamma(busy, cv), 1, requests, replication) for replication in range(RUNS)]
            rows.append(_row(waits, gamma_wait(cv, busy), cv=cv, utilisation=busy))
    return pd.DataFrame(rows)


@styled
def draw_bursty_or_poisson(table: pd.DataFrame) -> Chart:
    """A curve per CV: the closed form; marks with intervals: the simulation."""
    inside = (table["low"] <= table["theory"]) & (table["theory"] <= table["high"])
    steady, bursty = gamma_wait(1.0, 0.7), gamma_wait(3.0, 0.7)
    title = claim(
        f"Bursts wait where the average does not: at 70 % busy, gaps of CV 3 wait {times(bursty / steady)}"
        " as long as Poisson",
        int(inside.sum()) >= len(table) - 4,
        bursty > 2 * steady,
    )
    subtitle = (
        "One slot, the same mean rates; gaps between requests with CV ½ (regular), 1 (Poisson), 2 and 3"
        f" (bursty). Curves: GI/M/1. Marks: {RUNS} runs, 95 % confidence interval."
    )
    body = 2.5
    chart, head = sheet(
        title,
        subtitle,
        0.12 + body + 0.52,
        " ".join(
            f"CV {r['cv']:g} at {100 * r['utilisation']:.0f} %: simulated {number(r['wait'])}, closed form"
            f" {number(r['theory'])}."
            for r in table.to_dict("records")
            if r["utilisation"] in (0.5, 0.7, 0.9)
        ),
    )
    names = {cv: f"CV {cv:g}" + (", Poisson" if cv == 1 else "") for cv in CVS}
    axes = lone_panel(chart, head, body, 0.5, list(names.values()))
    axes.set_xlim(0, 95)
    axes.set_ylim(0, 70)
    axes.set_xlabel("utilisation of the slot (%)")
    axes.set_ylabel("mean wait ÷ mean service time")
    axes.grid(True, axis="y")
    ends = {}
    looks: list[tuple[str, str, Any]] = [
        (OKABE_ITO[2], "^", (0, (1.2, 1.2))),
        (OKABE_ITO[0], "o", "-"),
        (OKABE_ITO[3], "D", (0, (5, 1.5))),
        (OKABE_ITO[1], "s", (0, (6, 1.5, 1.2, 1.5))),
    ]
    for cv, (color, marker, dash) in zip(CVS, looks, strict=True):
        x = np.linspace(0.02, 0.91, 150)
        axes.plot(100 * x, [gamma_wait(cv, b) for b in x], color=color, linestyle=dash, linewidth=1.8)
        _marks(axes, table[table["cv"] == cv], "utilisation", color, marker)
        ends[names[cv]] = (93.5, gamma_wait(cv, 0.91), color)
    end_labels(axes, ends)
    return chart


# -- starvation ---------------------------------------------------------------------------------------------

HOUR = 3600.0
LEVELS: dict[str, Callable[[], Policy]] = {
    "strict priority": lambda: Priority(ageing=None),
    "ageing 600 s": lambda: Priority(ageing=600),
    "first come first served": FIFO,
}


def starvation() -> pd.DataFrame:
    """For how long the oldest batch request has waited, every half minute, while chat asks for 105 %."""
    chat = Tenant("chat", "chat", Poisson(0.42), 0, 1, service=Exponential(10.0))
    batch = Tenant("nightly", "nightly", Dump(60, 60), 0, 1, priority=1, service=Exponential(10.0))
    rows = []
    for name, policy in LEVELS.items():
        result = simulate(Workload([chat, batch], HOUR), policy(), SlotEngine(4), seed=3)
        mine = result.requests[(result.requests["tenant"] == "nightly").to_numpy()]
        start, arrival = mine["start"].to_numpy(dtype=float), mine["arrival"].to_numpy(dtype=float)
        for t in np.arange(0, HOUR + 1, 30.0):
            waiting = (arrival <= t) & (start > t)
            oldest = t - arrival[waiting].min() if waiting.any() else 0.0
            rows.append({"policy": name, "t": t, "oldest_wait_s": oldest, "waiting": int(waiting.sum())})
    return pd.DataFrame(rows)


@styled
def draw_starvation(table: pd.DataFrame) -> Chart:
    """Left waiting of the nightly job over time, per policy."""
    stuck = int(cell(table, "waiting", t=HOUR, policy="strict priority"))
    gone = {
        str(name): float(rows.loc[rows["waiting"] > 0, "t"].max())
        for name, rows in table.groupby("policy", sort=False)
    }
    title = claim(
        f"Strict priority starves: after an hour {stuck} of 60 nightly requests have not begun; with ageing"
        f" all have after {minutes(gone['ageing 600 s'])}",
        stuck > 30,
        cell(table, "waiting", t=HOUR, policy="ageing 600 s") == 0,
        gone["first come first served"] < gone["ageing 600 s"],
    )
    subtitle = (
        "60 nightly requests come at 1 min, while chat (a higher level) asks for 105 % of 4 slots all the"
        " time. One run; requests last 10 s on average."
    )
    body = 2.2
    chart, head = sheet(
        title,
        subtitle,
        0.12 + body + 0.52,
        " ".join(
            f"{name}: "
            + (f"none waits after {minutes(t)}." if t < HOUR else f"{stuck} still wait after 60 min.")
            for name, t in gone.items()
        ),
    )
    axes = panel(chart, PAD + 0.5, head + 0.12, WIDTH_IN - 2 * PAD - 0.55, body)
    axes.set_xlim(0, 60)
    axes.set_ylim(0, 66)
    axes.set_xlabel("time (min)")
    axes.set_ylabel("nightly requests that wait")
    axes.grid(True, axis="y")
    looks = {
        "strict priority": (OKABE_ITO[1], "-"),
        "ageing 600 s": (OKABE_ITO[0], (0, (5, 1.5))),
        "first come first served": (SOFT, (0, (1.2, 1.2))),
    }
    for name, rows in table.groupby("policy", sort=False):
        color, dash = looks[str(name)]
        axes.step(rows["t"] / 60, rows["waiting"], where="post", color=color, linestyle=dash, linewidth=2)
    half = {
        name: float(rows.loc[rows["waiting"] >= 34, "t"].max()) / 60
        for name, rows in table.groupby("policy", sort=False)
    }
    axes.text(57, stuck + 3, "strict priority", ha="right", fontsize=9, color=looks["strict priority"][0])
    axes.text(half["ageing 600 s"] + 1.2, 34, "ageing 600 s", fontsize=9, color=looks["ageing 600 s"][0])
    axes.text(half["first come first served"] + 1.2, 20, "first come\nfirst served", fontsize=9, color=SOFT)
    return chart


# -- ageing -------------------------------------------------------------------------------------------------

AGEING: tuple[float, ...] = (0, 30, 60, 120, 300, 600, inf)


def ageing_price() -> pd.DataFrame:
    """chat's p99 and nightly's p50 wait by the seconds of waiting that are worth one level; ten runs."""
    scenario = Scenario.load("noisy_burst")
    rows = []
    for ageing in AGEING:
        spec: dict[str, Any] = {"policy": "priority", "ageing_s": ageing if ageing < inf else None}
        results = run_scenario(scenario.with_({"policies": {"aged": spec}}), ["aged"])["aged"]
        row: dict[str, Any] = {"ageing_s": "strict" if ageing == inf else f"{ageing:g}"}
        for group, column in (("chat", "wait_p99"), ("nightly", "wait_p50")):
            values = [float(result.latency("group")[column][group]) for result in results]
            mean, low, high = metrics.t_interval(values)
            row |= {f"{group}_{column}": mean, f"{group}_low": low, f"{group}_high": high}
        rows.append(row | {"runs": len(results)})
    return pd.DataFrame(rows)


@styled
def draw_ageing_price(table: pd.DataFrame) -> Chart:
    """Two lines over ageing, FIFO at the left and strict priority at the right."""
    first, last = table.iloc[0], table.iloc[-1]
    title = claim(
        f"Ageing turns FIFO into strict priority: chat's p99 wait falls from {first['chat_wait_p99']:.0f} to"
        f" {last['chat_wait_p99']:.0f} s, the nightly median rises to {last['nightly_wait_p50']:.0f} s",
        first["chat_wait_p99"] > 2 * last["chat_wait_p99"],
        last["nightly_wait_p50"] > first["nightly_wait_p50"],
    )
    subtitle = (
        "Across: seconds of waiting that lift a request by one level (0 is FIFO). The noisy burst, mean of"
        f" {int(table['runs'].max())} runs; lines: 95 % confidence interval."
    )
    body = 2.3
    names = {"chat_wait_p99": "chat, p99", "nightly_wait_p50": "nightly, p50"}
    chart, head = sheet(
        title,
        subtitle,
        0.12 + body + 0.66,
        " ".join(
            f"Ageing {r['ageing_s']}: chat p99 {number(r['chat_wait_p99'])} s, nightly p50"
            f" {number(r['nightly_wait_p50'])} s."
            for r in table.to_dict("records")
        ),
    )
    axes = lone_panel(chart, head, body, 0.5, list(names.values()))
    x = np.arange(len(table))
    words = [f"{a}" if a != "strict" else "strict" for a in table["ageing_s"].astype(str)]
    words[0] = "0\n(FIFO)"
    axes.set_xticks(x, words)
    axes.set_xlim(-0.3, len(table) - 0.85)
    top = float(max(table["chat_high"].max(), table["nightly_high"].max()))
    axes.set_ylim(0, top * 1.06)
    axes.set_xlabel("ageing (seconds per level)")
    axes.set_ylabel("wait (s)")
    axes.grid(True, axis="y")
    ends = {}
    for (column, name), color, marker, dash in zip(
        names.items(), (OKABE_ITO[0], OKABE_ITO[1]), ("o", "s"), ("-", (0, (5, 1.5))), strict=True
    ):
        group = column.split("_")[0]
        axes.errorbar(
            x,
            table[column],
            yerr=[table[column] - table[f"{group}_low"], table[f"{group}_high"] - table[column]],
            color=color,
            marker=marker,
            linestyle=dash,
            markersize=6,
            markeredgecolor="white",
            ecolor=INK,
            elinewidth=0.9,
            capsize=2,
            linewidth=1.8,
        )
        ends[name] = (len(table) - 0.85, float(table[column].iloc[-1]), color)
    end_labels(axes, ends)
    return chart


# -- one run ------------------------------------------------------------------------------------------------

SIZES = (50, 100, 368, 1000, 4000)
EACH = 40
SURE_BUSY = 0.8


def one_run() -> pd.DataFrame:
    """p99 of the wait of single runs with so many finished requests: forty runs each; 8 slots, 80 % busy."""
    rate = 8 * SURE_BUSY
    rows = []
    for n in SIZES:
        for replication in range(EACH):
            warmup = 60.0
            tenant = Tenant("all", "all", Poisson(rate), Fixed(0), Fixed(1), service=Exponential(1.0))
            result = simulate(
                Workload([tenant], warmup + 1.3 * n / rate + 20),
                FIFO(),
                SlotEngine(8),
                seed=2,
                replication=replication,
                warmup=warmup,
            )
            waits = result.requests["wait"].to_numpy(dtype=float)[:n]
            rows.append({"n": len(waits), "run": replication, "wait_p99": metrics.percentile(waits, 99)})
    return pd.DataFrame(rows)


@styled
def draw_one_run(table: pd.DataFrame) -> Chart:
    """A column of dots per number of requests, and the line of the true p99."""
    truth = wait_quantile(8, SURE_BUSY, 0.99)
    found = {n: table.loc[table["n"] == n, "wait_p99"] for n in SIZES}
    spans = {n: (float(values.min()), float(values.max())) for n, values in found.items()}
    # How many runs are off by more than a third of the truth.
    wrong = {n: int(((values - truth).abs() > truth / 3).sum()) for n, values in found.items()}
    title = claim(
        f"One run's p99 may say anything: {wrong[SIZES[1]]} of {EACH} runs with {SIZES[1]} requests are off"
        f" by more than a third, {wrong[SIZES[-1]]} of {EACH} with {SIZES[-1]:,}",
        wrong[SIZES[1]] > 3 * wrong[SIZES[-1]],
        spans[SIZES[-1]][0] < truth < spans[SIZES[-1]][1],
    )
    subtitle = (
        f"Each mark is the p99 wait of one run, {EACH} runs each; 8 slots, {100 * SURE_BUSY:.0f} % busy, mean"
        f" service 1 s. Line: the true p99, {truth:.2f} s (M/M/8). 368: fewer say nothing."
    )
    body = 2.3
    chart, head = sheet(
        title,
        subtitle,
        0.12 + body + 0.52,
        " ".join(f"n = {n:,}: {low:.2f} to {high:.2f} s." for n, (low, high) in spans.items())
        + f" True p99 {truth:.2f} s.",
    )
    axes = lone_panel(chart, head, body, 0.5)
    axes.set_ylim(0, float(table["wait_p99"].max()) * 1.08)
    axes.set_xlim(-0.6, len(SIZES) - 0.4)
    axes.axvspan(-0.6, 1.5, color="#EDEFF1", linewidth=0)
    axes.text(0.45, float(table["wait_p99"].max()) * 1.06, "too few", ha="center", va="top", color=SOFT)
    axes.axhline(truth, color=OKABE_ITO[1], linewidth=1.6, linestyle=(0, (5, 1.5)))
    axes.set_xticks(range(len(SIZES)), [f"{n:,}" for n in SIZES])
    axes.set_xlabel("finished requests in the run")
    axes.set_ylabel("p99 of the wait in that run (s)")
    axes.grid(True, axis="y")
    for i, n in enumerate(SIZES):
        rows = table[table["n"] == n]
        # A fixed jitter: the runs' own numbers, spread evenly.
        x = i + ((rows["run"] * 7919 % EACH) / EACH - 0.5) * 0.5
        axes.plot(
            x,
            rows["wait_p99"],
            linestyle="none",
            marker="o",
            markersize=4.2,
            color=OKABE_ITO[0],
            markeredgecolor="white",
            markeredgewidth=0.5,
        )
    axes.text(-0.55, truth * 1.03, "true p99", va="bottom", fontsize=8.6, color="#9C4500")
    return chart
