"""The ``fairq`` command. Each file in ``fairq/commands`` is one group of commands and registers itself."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

try:
    import typer
    from typer.core import TyperGroup
except ModuleNotFoundError as missing:
    # The library alone needs nothing, and has the demo and the doctor; the commands need more.
    sys.exit(
        f"fairq: the commands need the model, which is not installed ({missing}).\n"
        "  install it:        pip install 'fairq[sim]'      (notebooks too: 'fairq[lab]')\n"
        "  what is missing:   python -m fairq.doctor\n"
        "  without anything:  python -m fairq.demo"
    )

from fairq import commands
from fairq.files import InputError


class _OneLine(TyperGroup):
    """Bad input is one line and exit code 2, not a traceback; anything else that goes wrong stays loud."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            typer.echo(f"fairq: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(2) from None
        except ModuleNotFoundError as missing:
            if (missing.name or "fairq").partition(".")[0] == "fairq":
                raise
            typer.echo(f"fairq: {missing}; `fairq doctor` says what to install", err=True)
            raise typer.Exit(1) from None
        except (BrokenPipeError, SystemExit) as left:
            # The reader of our output (`| head`) has left; that is no error of ours. From rich it is an exit,
            # and any other exit keeps its code.
            if isinstance(left, SystemExit) and not isinstance(left.__context__, BrokenPipeError):
                raise
            # What is still to be printed goes nowhere, or Python would complain of it at its own end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None


app = typer.Typer(
    cls=_OneLine,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Fair queues for a shared GPU: see why a queue went bad, and what a fair one does.",
)


@app.callback()
def _root() -> None:
    """Fair queues for a shared GPU: see why a queue went bad, and what a fair one does."""


for _module in sorted(m.name for m in iter_modules(commands.__path__) if not m.name.startswith("_")):
    import_module(f"fairq.commands.{_module}").register(app)


def main() -> None:
    """Entry point of the ``fairq`` script."""
    app()


if __name__ == "__main__":
    main()
