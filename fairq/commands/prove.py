"""``fairq prove``: every claim checked anew, as a table; fails when one does not hold."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from fairq.files import InputError, nearest

if TYPE_CHECKING:
    from fairq.prove.line import Line


def register(app: typer.Typer) -> None:
    app.command("prove")(prove)


def prove(
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="Only fair, nests, caps, price, agree, calls, others, laws or waits (repeat for more)."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes (default: one per processor).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as JSON.")] = False,
) -> None:
    """Check every bound and law that fairq claims, and print claim, source, how, measured, bound, holds.

    Ends with 1 when a line does not hold. One that was not checked, because a package that only development
    needs is missing, says so and does not count as one that holds. Takes a minute or two on two processors.
    """
    from rich.console import Console
    from rich.progress import Progress

    from fairq.prove.run import MODULES
    from fairq.prove.run import prove as check

    unknown = [name for name in part or () if name not in MODULES]
    if unknown:
        raise InputError(
            f"--part must be one of {', '.join(MODULES)}, got {unknown[0]!r}{nearest(unknown[0], MODULES)}"
        )
    parts = tuple(name for name in MODULES if not part or name in part)
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("checking", total=None)
        lines = list(check(parts, jobs, lambda done, total: bar.update(task, completed=done, total=total)))
    if as_json:
        typer.echo(json.dumps([asdict(line) for line in lines], indent=1, ensure_ascii=False))
    else:
        _show(lines)
    if any(line.holds is False for line in lines):
        raise typer.Exit(1)


def _show(lines: list[Line]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table("claim", "source", "how it was checked", "measured", "bound", "holds", box=box.SIMPLE)
    for line in lines:
        holds = {True: "yes", False: "[bold red]NO[/]", None: "[bold]–[/]"}[line.holds]
        table.add_row(line.claim, line.source, line.how, line.measured, line.bound, holds)
    console = Console()
    if not console.is_terminal:  # in a file or a pipe no line is cut
        console = Console(width=220)
    console.print(table)
    held = sum(line.holds is True for line in lines)
    unchecked = sum(line.holds is None for line in lines)
    console.print(f"{held} of {len(lines)} lines hold{f', {unchecked} not checked' if unchecked else ''}.")
    for line in lines:
        if line.holds is False:
            console.print(f"Does not hold: {line.claim}: {line.measured}, claimed {line.bound}")
