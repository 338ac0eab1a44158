"""The options with which a command reads a log, defined once: which column is what."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from secrets import token_hex
from typing import Annotated, Any

import typer

from fairq.files import InputError

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
        bool,
        typer.Option(
            "--hash-keys", help="Log: hide the names of tenants and keys, so that it can be shared."
        ),
    ],
    "secret": Annotated[
        Text,
        typer.Option(help="With --hash-keys: hash under this text (default: a random one, kept nowhere)."),
    ],
}
"""Name of a setting of ``Scenario.from_log`` → its option; ``secret`` comes with ``hash_keys``."""

FLAGS = ("skip_bad", "hash_keys")


def takes_columns(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with a parameter ``columns``: it is offered these options, and gets what was given."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        parameters = [each for each in own.parameters.values() if each.name != "columns"]
        offered = [*names, "secret"] if "hash_keys" in names else names
        for name in offered:
            kind, default = inspect.Parameter.KEYWORD_ONLY, False if name in FLAGS else None
            parameters.append(inspect.Parameter(name, kind, default=default, annotation=OPTIONS[name]))

        @wraps(command)
        def run(**given: Any) -> None:
            columns = {name: given.pop(name) for name in offered}
            columns["skip_bad"] = columns["skip_bad"] or None
            if "hash_keys" in columns:
                columns["hash_keys"] = _hashed_under(columns["hash_keys"], columns.pop("secret"))
            command(**given, columns=columns)

        # Typer reads both.
        ordered = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        run.__signature__ = own.replace(parameters=ordered)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in ordered}
        return run

    return decorate


def _hashed_under(asked: bool, secret: str | None) -> str | None:
    if secret is not None and not asked:
        raise InputError("--secret needs --hash-keys")
    return (secret or token_hex(16)) if asked else None
