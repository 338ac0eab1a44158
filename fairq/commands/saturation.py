"""``fairq saturation``: is the box too small, or is the queue unfair? And how often is the verdict right?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.files import InputError

if TYPE_CHECKING:
    from fairq.saturation import Series, Verdict


def register(app: typer.Typer) -> None:
    app.command("saturation")(saturation)


def saturation(
    file: Annotated[
        str | None,
        typer.Argument(
            help="A CSV of t, running, waiting (and kv_cache_pct, finished, preemptions), or a scenario."
        ),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(help="How many can run at once (default: the most that were seen).")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="Of the scenario (default: its first).")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Judge simulated boxes whose trouble is known; count the errors.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of --check.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """The verdict on a window of time: fine, bursty, KV-bound, slot-bound or saturated; and the evidence."""
    if check == (file is not None):
        raise InputError("give a FILE to judge, or --check")
    if check:
        _check(seed, as_json)
        return
    from fairq.saturation import judge

    series, known, relief = _series(str(file), policy)
    if slots is not None and slots < 1:
        raise InputError(f"--slots must be >= 1, got {slots}")
    verdict = judge(series, slots=slots or known, relief=relief)
    if as_json:
        typer.echo(json.dumps(_document(verdict), indent=1, ensure_ascii=False))
        return
    show(verdict, str(file))


def show(verdict: Verdict, source: str) -> None:
    """Prints a verdict with its table."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    console.print(f"{source}: {verdict.name}", style="bold", highlight=False, markup=False)
    console.print(verdict.advice, highlight=False, markup=False)
    console.print(evidence(verdict))


def evidence(verdict: Verdict) -> Any:
    """The decision table as it was read."""
    from rich.table import Table

    made = Table()
    for name in ("verdict", "condition", "measured", "wanted", ""):
        made.add_column(
            name,
            justify="right" if name == "measured" else "left",
            no_wrap=name in ("verdict", "measured", ""),
        )
    for each in verdict.evidence:
        style = "bold" if each.verdict == verdict.name else ""
        made.add_row(
            each.verdict, each.what, _measured(each), each.wanted, "✓" if each.holds else "–", style=style
        )
    return made


def _measured(each: Any) -> str:
    value = float(each.measured)
    if math.isnan(value):
        return "not known"
    return f"{value:.0%}" if each.wanted.rstrip().endswith("%") else f"{value:.3g}"


def _series(file: str, policy: str | None) -> tuple[Series, float | None, float]:
    """What to judge, how many can run, and what relief would give."""
    from fairq.capacity import relief_of
    from fairq.saturation import RELIEF, read_series, series_of

    if Path(file).suffix.lower() == ".csv" and policy is None:
        return read_series(file), None, RELIEF
    from fairq.commands.run import open_scenario
    from fairq.sim import simulate

    scenario = open_scenario(file)
    name = policy or next(iter(scenario.policies))
    try:
        result = simulate(scenario.workload(), scenario.policy(name), scenario.engine(), seed=scenario.seed)
    except ValueError as error:
        raise InputError(f"{scenario.source}: {name}: {error}") from error
    try:
        return series_of(result), result.slots, relief_of(scenario)
    except ValueError as error:
        raise InputError(f"{scenario.source}: {error}") from error


def _check(seed: int, as_json: bool) -> None:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from fairq.saturation_truth import cases, confusion

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("simulating", total=None)
        found = cases(seed=seed, progress=lambda done, total: bar.update(task, completed=done, total=total))
    counts = confusion(found)
    right = sum(case.truth == case.verdict for case in found)
    clear = [case for case in found if not case.near]
    clearly = sum(case.truth == case.verdict for case in clear)
    wrong = [case for case in found if case.truth != case.verdict]
    if as_json:
        document = {
            "cases": [vars(case) | {"near": case.near} for case in found],
            "confusion": {str(truth): row.to_dict() for truth, row in counts.iterrows()},
            "right": right / len(found),
            "right_away_from_edges": clearly / len(clear),
        }
        typer.echo(json.dumps(document, indent=1))
        return
    table = Table(title="simulated truth (rows) against verdict (columns)")
    table.add_column("truth")
    for name in counts.columns:
        table.add_column(str(name), justify="right")
    for truth, row in counts.iterrows():
        table.add_row(str(truth), *(str(n) if n else "·" for n in row))
    out = Console(width=120)
    out.print(table)
    out.print(
        f"{right} of {len(found)} right; {clearly} of {len(clear)} where no edge is within 15 % of the load",
        highlight=False,
    )
    for case in wrong:
        edge = " (near an edge)" if case.near else ""
        out.print(
            f"· {case.box}, {case.pattern}, load {case.load:.2f}, relief {case.relief:.2f}: {case.truth},"
            f" judged {case.verdict}{edge}",
            highlight=False,
        )


def _document(verdict: Verdict) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {
        "verdict": verdict.name,
        "advice": verdict.advice,
        "binds": verdict.binds,
        "measures": {name: plain(value) for name, value in verdict.measures.items()},
        "evidence": [{name: plain(value) for name, value in vars(each).items()} for each in verdict.evidence],
    }
