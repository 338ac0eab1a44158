"""The options with which a command reads a log, defined once: which column is what; and what was not read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from pathlib import Path
from secrets import token_hex
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.files import InputError

if TYPE_CHECKING:
    from fairq.scenario import Scenario
    from fairq.workload.readers.read import Account

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

LOG_ENDINGS = (".csv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq")

FLAGS = ("skip_bad", "hash_keys")


def takes_columns(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with a parameter ``columns``: it is offered all these options, and gets what was given.

    ``without``: those whose name means something else in this command.
    """
    offered = [name for name in OPTIONS if name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        parameters = [each for each in own.parameters.values() if each.name != "columns"]
        for name in offered:
            kind, default = inspect.Parameter.KEYWORD_ONLY, False if name in FLAGS else None
            parameters.append(inspect.Parameter(name, kind, default=default, annotation=OPTIONS[name]))

        @wraps(command)
        def run(**given: Any) -> None:
            columns = {name: given.pop(name) for name in offered}
            columns["skip_bad"] = columns["skip_bad"] or None
            columns["hash_keys"] = _hashed_under(columns["hash_keys"], columns.pop("secret"))
            if columns["zipf"] is not None and columns["tenants"] is None:
                raise InputError("--zipf needs --tenants")
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


def only_for_logs(columns: dict[str, Any] | None, file: str | None = None, what: str = "") -> None:
    """Raises InputError when one of the options was given where no log is read, but ``what`` is."""
    given = next((name for name, value in (columns or {}).items() if value is not None), None)
    if given is not None:
        option = f"--{given.replace('_', '-')} is for logs"
        raise InputError(option if file is None else f"{file}: {option}, this is {what}")


def tell_lost(
    scenario: Scenario, *, counts: bool = True, notes: bool = False, without: Collection[str] = ()
) -> None:
    """Says (on stderr) what of a log was not read, and why; see ``tell``."""
    if scenario.log is not None:
        in_file = Path(scenario.source).suffix.lower() not in LOG_ENDINGS
        tell(scenario.read().account, counts=counts, notes=notes, without=without, in_file=in_file)


def tell(
    account: Account,
    *,
    counts: bool = True,
    notes: bool = False,
    without: Collection[str] = (),
    in_file: bool = False,
) -> None:
    """The same of a log's account: columns that nobody named, and

    ``counts``: the rows that were not read; ``notes``: which requests do not say when they were served.
    ``without``: as ``takes_columns`` was told. ``in_file``: a scenario file names the columns, not options.
    """
    lost = account.counts() if counts and (account.dropped or account.skipped) else []
    for line in [*lost, *(account.notes if notes else [])]:
        typer.echo(line, err=True)
    for field, column in account.unread.items():
        if field in without:
            continue
        how = f"log.{field}: {column}" if in_file else f"--{field.replace('_', '-')} {quote(column)}"
        what = "API key" if field == "key" else field.replace("_", " ")
        words = f"column {column!r} is not read: {how} takes it for the {what}"
        typer.echo(f"fairq: {account.source}: {words}", err=True)


def tell_mixed(scenario: Scenario) -> None:
    """Says (on stderr) of whom a fitted model keeps one priority of several."""
    trace: Any = scenario.workload()
    levels: dict[str, set[float]] = {}
    for name, level in zip(trace.tenants, [] if trace.priorities is None else trace.priorities, strict=False):
        levels.setdefault(name, set()).add(float(level))
    mixed = [name for name, found in levels.items() if len(found) > 1]
    if mixed:
        some = ", ".join(mixed[:5]) + (", …" if len(mixed) > 5 else "")
        words = f"several priorities of one tenant become that of its first request ({some})"
        typer.echo(f"fairq: {trace.source}: {words}", err=True)
