"""``fairq figures``: the gallery, made again from its seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.files import InputError, write_whole

if TYPE_CHECKING:
    from fairq.gallery import Idea


def register(app: typer.Typer) -> None:
    app.command("figures")(figures)


def figures(
    names: Annotated[list[str] | None, typer.Argument(help="Only these (default: all).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the PNG, SVG and CSV files.")] = Path("figures"),
    show: Annotated[bool, typer.Option("--list", help="Name the figures and leave.")] = False,
) -> None:
    """Make the gallery: a chart per idea as PNG and SVG, the data behind it as CSV, and an index."""
    from fairq.gallery import IDEAS, idea_named, make
    from fairq.gallery.index import index

    if show:
        for idea in IDEAS:
            typer.echo(f"{idea.name:<20}  {idea.question}")
        return
    try:
        wanted = [idea_named(name) for name in names] if names else list(IDEAS)
    except KeyError as error:
        raise InputError(str(error.args[0])) from None
    made = []
    try:
        for idea in _with_bar(wanted):
            made.append(make(idea))
            for name, content in made[-1].files().items():
                path = write_whole(out / name, content)
                if path.suffix == ".png":
                    typer.echo(f"{path}: {made[-1].title}")
        if not names:
            typer.echo(write_whole(out / "README.md", index(made)))
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror}") from None


def _with_bar(ideas: Sequence[Idea]) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(ideas))
        for idea in ideas:
            bar.update(task, description=idea.name)
            yield idea
            bar.advance(task)
