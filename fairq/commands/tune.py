"""``fairq tune``: from a log or scenario and a promise to a setting, its price, and how to type it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.commands._columns import takes_columns, tell_lost, tell_mixed
from fairq.files import InputError

if TYPE_CHECKING:
    from fairq.scenario import Scenario
    from fairq.tune import Tuning

JOURNAL = "journal.jsonl"


def register(app: typer.Typer) -> None:
    app.command("tune")(tune)


@takes_columns()
def tune(
    file: Annotated[str, typer.Argument(help="A log, a scenario file, or a shipped scenario (noisy_burst).")],
    target: Annotated[
        list[str],
        typer.Option(help='The promise: "chat p99 ttft < 2 s" (who: a group or tenant, all, each).'),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the report, the policy file and the journal.")] = Path(
        "tuned"
    ),
    today: Annotated[
        str | None, typer.Option(help="The policy in use (a name in the file; default: its first).")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--try", help="Only these: as written, fifo, caps, ageing, shares, weights, …"),
    ] = None,
    replications: Annotated[
        int | None, typer.Option(min=1, help="Independent runs (default 10; a log: 1).")
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="A log: tune on a model fitted to it (sizes: 50 groups of its own).")
    ] = False,
    users: Annotated[int, typer.Option(min=1, help="With --fit: so many of every user.")] = 1,
    load: Annotated[float, typer.Option(help="Times the steady demand.")] = 1.0,
    burst: Annotated[float, typer.Option(help="Times the size of bursts.")] = 1.0,
    slots: Annotated[
        int | None, typer.Option(help="Slots of the engine (default: the file's, or 8).")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a field: engine.slots=4.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes (default: one per core).")] = None,
    backend: Annotated[str | None, typer.Option(help="dask://HOST:PORT for more than one machine.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an earlier call was stopped.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    *,
    columns: dict[str, Any],
) -> None:
    """Find the setting that keeps a promise at the lowest price to the others.

    Prices within 2 % count as the same: of those it names the setting with the
    least to set up, such as one that is in the file already.
    """
    from fairq.commands.run import open_scenario
    from fairq.scenario.yaml_files import parse_yaml
    from fairq.sweep import SweepError, aside
    from fairq.tune import FAMILIES
    from fairq.tune import tune as find
    from fairq.tune.engine import kv_of

    scenario = open_scenario(file, columns)
    tell_lost(scenario)
    scenario = _as_served(scenario, [*(changes or []), *([] if slots is None else ["engine.slots"])])
    for change in [*(changes or []), *([] if slots is None else [f"engine.slots={slots}"])]:
        field, equals, text = change.partition("=")
        if not equals:
            raise InputError(f"--set must be PATH=VALUE, got {change!r}")
        scenario = scenario.with_({field: parse_yaml(text, f"--set {field}")})
    scenario = scenario.with_(load=load, burst=burst)
    if users > 1 and not fit:
        raise InputError(f"--users needs --fit (a replay has the users it has), got {users}")
    kv_tokens = kv_of(scenario)
    if fit:
        if scenario.log is not None:
            tell_mixed(scenario)
        scenario = scenario.fitted(users)
    journal = out / JOURNAL
    kept = aside(journal)
    try:
        with _progress() as progress:
            made = find(
                scenario,
                target,
                today=today,
                families=only or FAMILIES,
                replications=replications,
                jobs=jobs,
                backend=backend,
                journal=journal,
                resume=resume,
                kv_tokens=kv_tokens,
                progress=progress,
            )
    except KeyboardInterrupt:
        typer.echo(
            f"fairq: stopped; what is done is in {journal}: the same call with --resume goes on", err=True
        )
        raise typer.Exit(130) from None
    except SweepError as error:
        typer.echo(f"fairq: {error}; the same call with --resume goes on", err=True)
        raise typer.Exit(1) from None
    finally:
        if kept.exists():
            typer.echo(f"fairq: the journal of an earlier call is kept as {kept}", err=True)
    try:
        paths = made.save(out)
        scenario.dump(out / "scenario.yaml")
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror}") from None
    if as_json:
        typer.echo(json.dumps(document(made), indent=1, ensure_ascii=False))
    else:
        _show(made)
    for path in paths[:1] if not as_json else paths:
        typer.echo(path, err=as_json)


def _as_served(scenario: Scenario, changes: list[str]) -> Scenario:
    """A log's own engine, unless somebody says which it is; says so (on stderr)."""
    if any(change.startswith("engine") for change in changes):
        return scenario
    from fairq.tune.engine import as_served, engine_words

    served = as_served(scenario)
    words = engine_words(served)
    if words:
        hint = "" if served is not scenario else " (--slots, --set engine.decode_tokens_per_s=…)"
        typer.echo(f"fairq: {words}{hint}", err=True)
    return served


def document(made: Tuning) -> dict[str, Any]:
    """A tuning as plain data."""
    from fairq.tune.report import hows
    from fairq.tune.words import records

    return {
        "scenario": made.scenario.name,
        "targets": [str(target) for target in made.targets],
        "verdict": made.lines(),
        "meets": made.chosen is not None,
        "setting": made.best.name,
        "policy": dict(made.best.policy),
        "engine": dict(made.best.engine),
        "runs": made.runs,
        "requests": made.requests,
        "settings": [_plain(row) for row in records(made.table)],
        "payers": [_plain(row) for row in records(made.payers) if row["setting"] == made.best.name],
        "model_of_the_log": None if made.check is None else [_plain(row) for row in records(made.check)],
        "kv_tokens": made.kv_tokens,
        "capacity": [vars(each) for each in made.capacity],
        "how_to_type_it": [vars(each) for each in hows(made)],
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    # JSON has no NaN and no infinity.
    made = {name: cell.item() if hasattr(cell, "item") else cell for name, cell in row.items()}
    return {name: None if isinstance(v, float) and not isfinite(v) else v for name, v in made.items()}


def _show(made: Tuning) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fairq.tune.words import price, records, value

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    first, *rest = made.lines()
    console.print(Text(first, style="bold"))
    for line in rest:
        console.print(Text(line))
    table = Table()
    for heading in ("setting", *(str(t) for t in made.targets[:1]), "verdict", "price"):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    shown = made.table[
        made.table["front"] | made.table["setting"].isin([made.best.name, made.today.name])
    ].sort_values("of_target")
    for row in records(shown):
        style = "bold" if row["setting"] == made.best.name else ""
        table.add_row(Text(row["setting"]), value(row), row["verdict"], price(row), style=style)
    console.print(table)
    console.print(
        Text(
            "Shown: the settings that no other beats in both, the one of the first line (bold) and today's."
        ),
        style="dim",
    )
    console.print(
        Text("Price: the others' worst mean latency, times today's. The report has all, and how to type it."),
        style="dim",
    )


@contextmanager
def _progress() -> Iterator[Any]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def tell(what: str, done: int, of: int) -> None:
            bar.update(task, description=escape(what), completed=done, total=of)

        yield tell
