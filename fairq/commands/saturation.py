"""``fairq saturation``: is the box too small, or is the queue unfair? And how often is the verdict right?"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fairq.commands._columns import only_for_logs, takes_columns, tell_lost
from fairq.files import InputError

if TYPE_CHECKING:
    from fairq.capacity.logs import Served
    from fairq.saturation import Series, Verdict
    from fairq.scenario import Scenario


class Box(NamedTuple):
    """What was said of the box that a log was, or is to be, served by."""

    slots: int | None
    profile: str | None
    kv_tokens: int | None


def register(app: typer.Typer) -> None:
    app.command("saturation")(saturation)


@takes_columns()
def saturation(
    file: Annotated[
        str | None,
        typer.Argument(
            help="A CSV of t, running, waiting (kv_cache_pct, finished, preemptions), a log, or a scenario."
        ),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(help="How many can run at once (default: the most that were seen).")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Log: the hardware profile of the box that served it.")
    ] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(help="Log: what the KV cache holds (default: as far as the log shows it).")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Of the scenario (default: its first); a log is replayed under it.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Judge simulated boxes whose trouble is known; count the errors.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of --check.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    columns: dict[str, Any] | None = None,
) -> None:
    """The verdict on a window of time: fine, bursty, KV-bound, slot-bound or saturated; and the evidence.

    A log that says when each request was served is judged by that; one that does not is replayed on the box
    that --slots or --profile names.
    """
    if check == (file is not None):
        raise InputError("give a FILE to judge, or --check")
    if check:
        only_for_logs(columns)
        _check(seed, as_json)
        return
    for name, value in (("--slots", slots), ("--kv-tokens", kv_tokens)):
        if value is not None and value < 1:
            raise InputError(f"{name} must be >= 1, got {value}")
    verdict, notes = _judged(str(file), Box(slots, profile, kv_tokens), policy, columns)
    if as_json:
        document = _document(verdict) | {"notes": notes}
        typer.echo(json.dumps(document, indent=1, ensure_ascii=False))
        return
    show(verdict, str(file), notes)


def show(verdict: Verdict, source: str, notes: Sequence[str] = ()) -> None:
    """Prints a verdict with what it rests on and its table."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    console.print(f"{source}: {verdict.name}", style="bold", highlight=False, markup=False)
    console.print(verdict.advice, highlight=False, markup=False)
    for note in notes:
        console.print(f"· {note}", highlight=False, markup=False)
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


def _judged(
    file: str, box: Box, policy: str | None, columns: dict[str, Any] | None = None
) -> tuple[Verdict, list[str]]:
    """The verdict, and what was assumed or counted for it."""
    from fairq.capacity.logs import served_of
    from fairq.commands.run import open_scenario
    from fairq.saturation import is_series, judge, read_series

    path = Path(file)
    if path.suffix.lower() == ".csv" and path.exists() and is_series(path):
        only_for_logs(columns, file, "a series of what was running and waiting")
        return judge(_only(read_series(path), file, policy, box), slots=box.slots), []
    scenario = open_scenario(file, columns)
    tell_lost(scenario, notes=True)
    log = scenario.log
    if log is None or "engine" in scenario.spec.model_fields_set:
        if box.profile is not None or box.kv_tokens is not None:
            raise InputError(f"{file}: --profile and --kv-tokens are for logs: this says its engine itself")
        return _of_run(scenario, policy, box.slots), []
    served = served_of(scenario.read())
    if served is not None and served.in_service and policy is None:
        return _of_log(file, served, box)
    return _of_replay(file, scenario, box, policy, served)


def _only(series: Series, file: str, policy: str | None, box: Box) -> Series:
    for name, value in (("--policy", policy), ("--profile", box.profile), ("--kv-tokens", box.kv_tokens)):
        if value is not None:
            raise InputError(f"{file}: {name} is not for a series of what was running and waiting")
    return series


def _of_log(file: str, served: Served, box: Box) -> tuple[Verdict, list[str]]:
    """By the log's own times."""
    from fairq.capacity import Shape, relief
    from fairq.capacity.verdicts import queue_words, series_of_served
    from fairq.profiles import load_profile
    from fairq.saturation import RELIEF, judge

    table = served.table
    notes = [f"counted from the times of {len(table):,} requests in the log", *served.caveats]
    notes.append(queue_words(table, box.kv_tokens))
    try:
        gain = RELIEF
        if box.profile is not None:
            shape = Shape.from_sizes(table["prompt_tokens"], table["output_tokens"])
            engine: dict[str, Any] = {"kv_tokens": box.kv_tokens}
            gain = relief(
                load_profile(box.profile),
                shape,
                **(engine if box.slots is None else engine | {"max_num_seqs": box.slots}),
            )
        series = series_of_served(table, kv_tokens=box.kv_tokens)
        return judge(series, slots=box.slots, relief=gain), notes
    except ValueError as error:
        raise InputError(f"{file}: {error}") from error


def _of_replay(
    file: str, scenario: Scenario, box: Box, policy: str | None, served: Served | None
) -> tuple[Verdict, list[str]]:
    """On the box that was named, or else on the one that the log shows."""
    from fairq.tune.engine import as_served, engine_words

    if box.profile is not None:
        engine: dict[str, Any] = {"kind": "batching", "profile": box.profile}
        engine |= {} if box.slots is None else {"max_num_seqs": box.slots}
        engine |= {} if box.kv_tokens is None else {"kv_tokens": box.kv_tokens}
        words = f"the box as given: profile {box.profile}"
        words += "" if box.slots is None else f" with {box.slots} slots"
    elif box.slots is not None:
        engine = {"kind": "slots", "slots": box.slots}
        spec: Any = scenario.with_({"engine": engine}).engine_spec
        words = (
            f"assumed, for the log does not tell: {box.slots} slots (as given) of"
            f" {spec.decode_tokens_per_s:g} tokens/s, prompts at {spec.prefill_tokens_per_s:,.0f} tokens/s"
        )
    else:
        seen = as_served(scenario)
        if seen is scenario:
            why = "when it was served" if served is None else "who waited and who was in service"
            raise InputError(
                f"{file}: does not say {why}: name the box to replay it on, --slots N or --profile NAME"
            )
        return _of_run(seen, policy, None), [_under(seen, policy), engine_words(seen)]
    replayed = scenario.with_({"engine": engine})
    return _of_run(replayed, policy, None), [_under(replayed, policy), words]


def _under(scenario: Scenario, policy: str | None) -> str:
    return f"replayed under {policy or next(iter(scenario.policies))}"


def _of_run(scenario: Scenario, policy: str | None, slots: int | None) -> Verdict:
    """Of a simulated run."""
    from fairq.capacity.verdicts import verdict_of
    from fairq.sim import simulate

    name = policy or next(iter(scenario.policies))
    chosen = scenario.policy(name)
    try:
        result = simulate(scenario.workload(), chosen, scenario.engine(), seed=scenario.seed)
    except ValueError as error:
        raise InputError(f"{scenario.source}: {name}: {error}") from error
    try:
        return verdict_of(scenario, result, slots)
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
