"""``fairq log``: what is in a log, the log in one form (to share), the log as a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.commands._columns import takes_columns, tell_lost, tell_mixed
from fairq.files import InputError, write_out

if TYPE_CHECKING:
    from fairq.scenario import Scenario
    from fairq.workload.readers import Log

log = typer.Typer(no_args_is_help=True, help="Request logs: look, convert (and hide names), fit a model.")

File = Annotated[str, typer.Argument(help="A log: CSV, JSONL, JSON or Parquet; or a fetched trace's name.")]


FIELDS = (
    *("arrival", "prompt_tokens", "output_tokens", "tenant", "key", "priority"),
    *("start", "first_token", "finish", "ttft", "latency"),
)


def register(app: typer.Typer) -> None:
    app.add_typer(log, name="log")


@log.command("forms")
def forms() -> None:
    """The kinds of log that are recognised, and their columns."""
    from fairq.workload.readers import FORMS

    for form in FORMS.values():
        typer.echo(f"{form.name}\n  {form.source}")
        for field in FIELDS:
            names = getattr(form, field)
            if names:
                typer.echo(f"  {field}: {' or '.join(names)}")


@log.command("show")
@takes_columns()
def show(
    file: File,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    *,
    columns: dict[str, Any],
) -> None:
    """What was read, dropped and skipped, and who asks: rate, burstiness (CV) and sizes per tenant."""
    from fairq.capacity.words import number
    from fairq.workload.fit import fit

    scenario = _open(file, columns)
    read = scenario.read()
    tell_lost(scenario, counts=False)
    fits = fit(read.trace)
    if as_json:
        document = read.account.as_dict() | {
            "by_tenant": {
                name: {
                    "requests": each.requests,
                    "rate_per_s": each.rate_per_s,
                    "cv": each.cv,
                    "prompt_tokens_mean": float(each.prompt_tokens.mean()),
                    "output_tokens_mean": float(each.output_tokens.mean()),
                }
                for name, each in fits.items()
            }
        }
        typer.echo(json.dumps(document, indent=1, ensure_ascii=False))
        return
    for line in read.account.lines():
        typer.echo(line)
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for heading in ("tenant", "requests", "per s", "CV of gaps", "prompt mean", "output mean"):
        table.add_column(heading, justify="left" if heading == "tenant" else "right")
    largest = sorted(fits, key=lambda name: -fits[name].requests)
    for name in largest[:30]:
        each = fits[name]
        sizes = (float(each.prompt_tokens.mean()), float(each.output_tokens.mean()))
        cells = [number(each.rate_per_s), number(each.cv), *map(number, sizes)]
        table.add_row(Text(name), f"{each.requests:,}", *cells)
    console = Console()
    (console if console.is_terminal else Console(width=110)).print(table)
    if len(largest) > 30:
        typer.echo(f"and {len(largest) - 30} more tenants (--json has all)")


@log.command("convert")
@takes_columns()
def convert(
    file: File,
    out: Annotated[Path, typer.Option(help="The CSV file to write.")],
    *,
    columns: dict[str, Any],
) -> None:
    """Write the log in the plain form that every command reads: seconds from the first, tokens, who."""
    scenario = _open(file, columns)
    read = scenario.read()
    path = write_out(out, converted(read))
    tell_lost(scenario, counts=False)
    for line in [*read.account.lines()[1:], *left_out(read)]:
        typer.echo(line, err=True)
    typer.echo(path)


@log.command("fit")
@takes_columns()
def fit_model(
    file: File,
    out: Annotated[Path, typer.Option(help="The scenario file to write.")],
    users: Annotated[int, typer.Option(min=1, help="So many of every user.")] = 1,
    sizes: Annotated[
        str, typer.Option(help="empirical (50 groups of the log's own) or lognormal.")
    ] = "empirical",
    *,
    columns: dict[str, Any],
) -> None:
    """Write a scenario with the log's tenants as a model: rate, CV and sizes of each; `fairq run` runs it."""
    if sizes not in ("empirical", "lognormal"):
        raise InputError(f"--sizes must be empirical or lognormal, got {sizes!r}")
    replayed = _open(file, columns)
    tell_lost(replayed)
    tell_mixed(replayed)
    scenario = replayed.fitted(users, sizes)
    try:
        typer.echo(scenario.dump(out))
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror}") from None


def _open(file: str, columns: dict[str, Any]) -> Scenario:
    from fairq.commands.run import open_scenario

    scenario = open_scenario(file, columns)
    if scenario.log is None:
        raise InputError(f"{file}: is a scenario without a log")
    return scenario


def converted(read: Log) -> str:
    """A log as CSV text in the form "vtc arena"; what became of the requests is in it where it is known."""
    import pandas as pd

    trace = read.trace
    table = pd.DataFrame(
        {
            "arrived_s": trace.arrivals,
            "tenant": trace.tenants,
            "key": trace.tenants if trace.keys is None else trace.keys,
            **({} if trace.priorities is None else {"priority_level": trace.priorities}),
            "input_tokens": trace.prompt_tokens,
            "output_tokens": trace.output_tokens,
        }
    )
    served = read.served
    if served is not None and len(served) == len(table):
        if served["start"].notna().all():
            table["start_s"] = served["start"]
        table["first_token_s"] = served["first_token"] - served["arrival"]
        table["latency_s"] = served["finish"] - served["arrival"]
    return table.to_csv(index=False, lineterminator="\n", float_format="%.9g")


def left_out(read: Log) -> list[str]:
    """What a log says and ``converted`` does not."""
    trace, served, words = read.trace, read.served, []
    if any(weight != 1 for weight in trace.weights.values()):
        words.append("left out: the weights, for which the form has no column")
    if served is not None and len(served) != len(trace):
        words.append(f"left out: when requests were served, which {len(served):,} of {len(trace):,} say")
    elif served is not None and served["start"].notna().any() and not served["start"].notna().all():
        known = int(served["start"].notna().sum())
        words.append(f"left out: when service began, which {known:,} of {len(trace):,} say")
    return words
