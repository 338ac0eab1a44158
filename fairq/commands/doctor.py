"""``fairq doctor``: what is wrong with this installation, and how to mend it."""

from __future__ import annotations

from typing import Annotated

import typer

from fairq.files import InputError


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    purpose: Annotated[
        str, typer.Option("--for", help="What you want to do: library, sim (model, charts), lab (notebooks).")
    ] = "lab",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is wrong with this installation and how to mend it; exit code 1 when there is a problem."""
    from fairq import doctor as looks

    if purpose not in looks.PURPOSES:
        raise InputError(f"--for must be one of {', '.join(looks.PURPOSES)}, got {purpose!r}")
    findings = looks.examine(purpose)
    typer.echo(looks.as_json(findings) if as_json else looks.report(findings))
    raise typer.Exit(1 if looks.sick(findings) else 0)
