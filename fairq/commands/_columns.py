"""The options with which a command reads a log, defined once: which column is what."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

Text = str | None


def _column(of: str) -> Any:
    return Annotated[Text, typer.Option(help=f"Log: column of the {of}.")]


OPTIONS: dict[str, Any] = {
    "arrival": _column("arrival time"),
    "prompt_tokens": Annotated[Text, typer.Option(help="Log: column of prompt tokens.")],
    "output_tokens": Annotated[Text, typer.Option(help="Log: column of output tokens.")],
    "tenant": _column("tenant"),
    "tenants": Annotated[int | None, typer.Option(help="Log: draw that many tenants instead.")],
    "zipf": Annotated[float | None, typer.Option(help="Log: tenant i has chance 1/i^zipf (default 1).")],
    "key": _column("API key"),
    "priority": _column("priority level"),
    "start": _column("start of service"),
    "first_token": _column("first token's time"),
    "finish": _column("last token's time"),
    "time_unit": Annotated[Text, typer.Option(help="Log: s, ms, us, ns or iso.")],
    "form": Annotated[
        Text, typer.Option(help="Log: its kind, where it is not recognised (`fairq log forms`).")
    ],
    "skip_bad": Annotated[bool, typer.Option("--skip-bad", help="Log: leave out and count bad rows.")],
    "hash_keys": Annotated[
        Text, typer.Option(metavar="SECRET", help="Log: names as keyed hashes under this text.")
    ],
}
"""Name of a setting of ``Scenario.from_log`` → its option."""


def takes_columns(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with a parameter ``columns``: it is offered these options, and gets what was given."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        parameters = [each for each in own.parameters.values() if each.name != "columns"]
        for name in names:
            kind, default = inspect.Parameter.KEYWORD_ONLY, False if name == "skip_bad" else None
            parameters.append(inspect.Parameter(name, kind, default=default, annotation=OPTIONS[name]))

        @wraps(command)
        def run(**given: Any) -> None:
            columns = {name: given.pop(name) for name in names}
            columns["skip_bad"] = columns["skip_bad"] or None
            command(**given, columns=columns)

        # Typer reads both.
        ordered = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        run.__signature__ = own.replace(parameters=ordered)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in ordered}
        return run

    return decorate
