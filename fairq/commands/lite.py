"""``fairq lite``: the course as a static site that runs in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("lite")(lite)


def lite(
    out: Annotated[Path, typer.Argument(help="Folder for the site.")] = Path("site"),
) -> None:
    """Build the course as a static site (JupyterLite): no server, no installation for the learner."""
    from fairq.lite import build

    wheels = build(out, report=lambda step: typer.echo(f"… {step}", err=True))
    typer.echo(f"{out / 'index.html'}, with the wheels {', '.join(w.partition('-')[0] for w in wheels)}")
    typer.echo(f"look at it:  python -m http.server --directory {out} 8000   then http://127.0.0.1:8000/lab/")
    typer.echo(
        "The learner's browser fetches Pyodide (some 30 MB) from a public CDN; nothing else leaves it."
    )
