"""``python -m fairq.bench [--json]``: two bursts under four policies, and who paid.

Everything is simulated time: the same figures on any machine, whatever its load. Needs ``fairq[sim]``.

``published_burst`` has figures to compare with: the page of the original fairq reports a small tenant's p50
falling from 32 s (first come first served) to 1.15 s (fair) at the same 31.9 requests/s. It does not give its
workload; the one shipped here is a natural one that gives all three. ``noisy_burst`` is this project's own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

try:
    from fairq.metrics import Interval, paired_difference, percentile, t_interval
    from fairq.scenario import Scenario
    from fairq.sim import Result, simulate
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(f"{missing}; the bench needs the model: pip install 'fairq[sim]'") from None

POLICIES = {"fifo": "fifo", "caps": "caps", "priority": "priority_ageing", "drr": "drr"}
"""What a policy is in a scenario file → what it is called here."""

FIGURES = ("small_p50_s", "small_p99_s", "noisy_p50_s", "noisy_p99_s", "requests_per_s", "makespan_s")


@dataclass(frozen=True)
class Case:
    """A shipped scenario and the roles of its groups; groups in neither role show in "who paid" alone."""

    scenario: str
    about: str
    small: tuple[str, ...]
    noisy: str
    replications: int
    """Independent runs; 1 where nothing is random."""


CASES = (
    Case(
        "published_burst",
        "one tenant sends 1,000 requests at 0 s, nine others (small)\n"
        "send 5 each at 0.1 s; every request holds one of 8 slots for 0.25 s. Nothing\n"
        "is random: one run.",
        ("small",),
        "noisy",
        1,
    ),
    Case(
        "noisy_burst",
        "ten minutes on 8 slots. People chat, code, use notebooks (small);\n"
        "a nightly job sends 300 long requests at once (noisy); somebody's agent asks in\n"
        "bursts, with twelve keys. Mean of 20 runs, ± half of its 95 % interval; p50 and\n"
        "p99 are taken within each run.",
        ("chat", "code", "notebook"),
        "nightly",
        20,
    ),
)


Runs = Mapping[str, Sequence[Result]]
"""Policy → one result per replication; result i of every policy met the same requests."""


def run(case: Case) -> dict[str, list[Result]]:
    """The case under each of its policies."""
    scenario = Scenario.load(case.scenario)
    workload = scenario.workload()
    return {
        POLICIES[spec["policy"]]: [
            simulate(
                workload,
                scenario.policy(name),
                scenario.engine(),
                seed=scenario.seed,
                replication=replication,
            )
            for replication in range(case.replications)
        ]
        for name, spec in scenario.data()["policies"].items()
    }


def figures(case: Case, runs: Runs) -> dict[str, dict[str, Any]]:
    """Policy → its figures, as ``--json`` prints them.

    Each of ``FIGURES`` is a mean over the runs (latencies and makespan in s, whole run in requests/s);
    ``interval95`` holds the ends of its 95 % interval where there are several. ``who_paid``: group → its
    ``p50_s`` and ``p50_change_s`` against fifo (differences run by run), with an interval likewise.
    """
    table = {}
    for policy, results in runs.items():
        values = {name: t_interval([_figure(case, name, result) for result in results]) for name in FIGURES}
        table[policy] = {
            **{name: value.mean for name, value in values.items()},
            "runs": len(results),
            "interval95": {name: _ends(value) for name, value in values.items() if len(results) > 1},
            "who_paid": {group: _paid(runs, policy, group) for group in groups(results)},
        }
    return table


def _paid(runs: Runs, policy: str, group: str) -> dict[str, Any]:
    before, after = ([_percentile(result, [group], 50) for result in runs[p]] for p in ("fifo", policy))
    change = paired_difference(after, before)
    paid = {"p50_s": t_interval(after).mean, "p50_change_s": change.mean}
    return paid if len(after) == 1 else {**paid, "p50_change_interval95": _ends(change)}


def _ends(interval: Interval) -> list[float]:
    return [interval.low, interval.high]


def groups(results: Sequence[Result]) -> list[str]:
    """The groups of a run, in order of first appearance."""
    return [str(group) for group in results[0].requests["group"].unique()]


def _figure(case: Case, name: str, result: Result) -> float:
    if name == "requests_per_s":
        return result.requests_per_s
    if name == "makespan_s":
        return result.makespan
    role, quantile, _ = name.split("_")
    members = case.small if role == "small" else (case.noisy,)
    return _percentile(result, members, float(quantile.removeprefix("p")))


def _percentile(result: Result, members: Sequence[str], q: float) -> float:
    """Of the latencies (s) of all requests of some groups in one run."""
    requests = result.requests
    return percentile(requests.loc[requests["group"].isin(members), "latency"], q)


def saved_and_paid(case: Case, runs: Runs, policy: str) -> tuple[float, float]:
    """Seconds the small tenants' requests together wait less than under fifo, and the noisy one's more."""

    def waited(results: Sequence[Result], members: Sequence[str]) -> float:
        rows = [result.requests for result in results]
        return float(sum(r.loc[r["group"].isin(members), "wait"].sum() for r in rows)) / len(rows)

    small = waited(runs["fifo"], case.small) - waited(runs[policy], case.small)
    return small, waited(runs[policy], [case.noisy]) - waited(runs["fifo"], [case.noisy])


# -- for people ---------------------------------------------------------------------------------------------


def page(results: Mapping[Case, Runs]) -> str:
    """Everything, with what is published by others and what is modelled here."""
    return "\n\n".join([PREFACE, *(report(case, runs) for case, runs in results.items()), SOURCES])


def report(case: Case, runs: Runs) -> str:
    """One case as text of at most 80 columns."""
    table = figures(case, runs)
    lines = [f"{case.scenario}: {case.about}", "", _row("", HEADINGS.values(), 13)]
    for policy, row in table.items():
        cells = (_cell(row[n], row["interval95"].get(n), decimals=DECIMALS.get(n)) for n in HEADINGS)
        lines.append(_row(policy, cells, 13))
    lines += ["", "who paid: p50 under fifo, and how much later it is under the others"]
    lines.append(_row("", table, 16))
    for group in groups(runs["fifo"]):
        paid = {policy: row["who_paid"][group] for policy, row in table.items()}
        changes = (_cell(p["p50_change_s"], p.get("p50_change_interval95"), "+") for p in paid.values())
        lines.append(_row(group, [_cell(paid["fifo"]["p50_s"]), *list(changes)[1:]], 16))
    return "\n".join([*lines, "", *_verdict(case, runs, table)])


HEADINGS = {
    "small_p50_s": "small p50",
    "small_p99_s": "small p99",
    "noisy_p50_s": "noisy p50",
    "requests_per_s": "requests/s",
    "makespan_s": "all done",
}


def _verdict(case: Case, runs: Runs, table: Mapping[str, Any]) -> list[str]:
    small, noisy = (
        (_cell(table["fifo"][name]), _cell(table["drr"][name])) for name in ("small_p50_s", "noisy_p50_s")
    )
    lost = _cell(table["drr"]["who_paid"][case.noisy]["p50_change_s"])
    lines = [
        f"fifo to drr: the small tenants' p50 goes from {small[0]} s to {small[1]} s;",
        f"{case.noisy} lost {lost} s of p50 (from {noisy[0]} s to {noisy[1]} s).",
    ]
    if case.replications == 1:
        saved, paid = saved_and_paid(case, runs, "drr")
        lines += [
            f"The small requests together wait {saved:,.2f} s less, the noisy ones {paid:,.2f} s",
            "more: where all requests are alike, a fair queue makes no time, it moves it.",
        ]
    return lines


def _row(first: str, cells: Iterable[str], width: int) -> str:
    return (f"{first:<15}" + "".join(f"{cell:>{width}}" for cell in cells)).rstrip()


DECIMALS = {"requests_per_s": 3}


def _cell(
    value: float, ends: Sequence[float] | None = None, sign: str = "", decimals: int | None = None
) -> str:
    """With two decimals, one from 100 on; and half the width of its interval where that is not nothing."""
    half = (ends[1] - ends[0]) / 2 if ends else 0.0
    if decimals is None:
        decimals = 1 if abs(value) >= 100 else 2
    shown = f"{value:{sign}.{decimals}f}"
    return shown if half < 0.005 else f"{shown} ±{half:.{decimals}f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(
        prog="python -m fairq.bench", description="Two bursts under four policies, in simulated time."
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = parser.parse_args(arguments)
    results = {case: run(case) for case in CASES}
    if asked.json:
        document = {case.scenario: figures(case, runs) for case, runs in results.items()}
        print(json.dumps(document, indent=2, allow_nan=False))
    else:
        print(page(results))


PREFACE = """\
Simulated time; every policy meets the same requests. Times in s; a latency goes
from arrival to finish."""

SOURCES = """\
Published by others: 32 s, 1.15 s and 31.9 requests/s (the page of the original
fairq, which does not give its workload). Modelled here: every figure above;
published_burst is one workload that has all three."""


if __name__ == "__main__":
    main()
