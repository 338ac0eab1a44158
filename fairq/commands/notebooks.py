"""``fairq notebooks``: the notebooks of the course, to copy and to put back as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairq.files import InputError


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="The notebooks of the course: list, copy, put one back as it was.")
    group.command("list")(list_)
    group.command("copy")(copy)
    group.command("reset")(reset)
    app.add_typer(group, name="notebooks", no_args_is_help=True)


def list_() -> None:
    """Name them."""
    from fairq.notebooks import names

    for name in names():
        typer.echo(name)


def copy(
    folder: Annotated[Path, typer.Argument(help="Where to; made when it is missing.")],
) -> None:
    """Copy the notebooks to a folder to work in. What is there already stays as it is."""
    from fairq.notebooks import copy_all, names

    try:
        made = copy_all(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    for path in made:
        typer.echo(path)
    if not made:
        typer.echo(f"all {len(names())} are in {folder} already; `fairq notebooks reset NAME` puts one back")


def reset(
    name: Annotated[str, typer.Argument(help="Such as 03, or its file name.")],
    folder: Annotated[Path, typer.Option("--in", help="The folder with notebooks/ in it.")] = Path(),
) -> None:
    """Put one notebook back as it was. What you had is kept beside it."""
    from fairq.notebooks import reset as put_back

    try:
        path, kept = put_back(name, folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    if kept is not None:
        typer.echo(f"yours is kept: {kept}")
    typer.echo(f"as it was: {path}")
