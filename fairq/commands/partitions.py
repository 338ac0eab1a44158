"""``fairq partitions``: one engine or two halves? MPS? The same tenants on one card, shared in every way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairq.files import InputError

BATCHES = (2, 8, 32, 64, 128, 256)


def register(app: typer.Typer) -> None:
    app.command("partitions")(partitions)


def partitions(
    scenario: Annotated[str, typer.Argument(help="A scenario on one card: two_halves, mps, or a file.")] = (
        "two_halves"
    ),
    parts: Annotated[
        int | None, typer.Option(help="Cut in so many parts, instead of the scenario's.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model served, instead of the scenario's.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="Of the scenario's policies; may be repeated (default: all).")
    ] = None,
    outages: Annotated[bool, typer.Option(help="With the scenario's failures, or without.")] = True,
    by: Annotated[str, typer.Option(help="A row per group or per tenant.")] = "group",
    json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
    out: Annotated[
        list[Path] | None, typer.Option(help="Also write .csv, .json, .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Throughput, latency per tenant, and who survives a failure: one engine, MIG, MPS, time-slicing."""
    from fairq.commands import _rows
    from fairq.plots.partitions import partition_bars
    from fairq.scenario import Scenario
    from fairq.scenario.alternatives import named_ways, unfit_ways, way_table
    from fairq.sim.partitions import decode_table

    files = out or []
    _rows.check_out(files)
    if by not in ("group", "tenant"):
        raise InputError(f"--by must be group or tenant, got {by!r}")
    changes: dict[Any, Any] = {}
    if parts is not None:
        changes["engine.parts"] = parts
    if model is not None:
        changes["engine.model"] = model
    if not outages:
        changes["engine.outages"] = []
    loaded = Scenario.load(scenario)
    if changes:
        loaded = loaded.with_(changes)
    rows = way_table(loaded, policy or None, by=by)
    unfit = unfit_ways(loaded)
    engine: Any = loaded.spec.engine
    cut = max(2, engine.parts)
    decode = decode_table(engine.card_profile(), BATCHES, cut, 1024)
    written = _rows.write(files, rows, lambda: partition_bars(named_ways(rows, by)))
    if json:
        typer.echo(_rows.as_json({"ways": rows, "does_not_fit": unfit, "decode": decode}))
    else:
        typer.echo(f"{loaded.name}: one card, {engine.card_profile().name}, shared in every way")
        columns = {
            "way": "way",
            "policy": "policy",
            by: by,
            "n": "served",
            "tokens_per_s": "tokens/s",
            "ttft_p50": "TTFT p50",
            "ttft_p99": "TTFT p99",
            "latency_p50": "lat. p50",
            "latency_p99": "lat. p99",
            "retries": "thrown back",
            "down_s": "down, s",
        }
        _rows.show(_rows.terminal(rows, columns, {}))
        for way, why in unfit.items():
            typer.echo(f"{way}: {why}")
        typer.echo("times in s; tokens/s of each from its first arrival to its last finish; one run")
        typer.echo(f"everybody writing, 1,024 tokens of context each: one engine and {cut} MIG slices")
        heads = {
            "batch": "sequences",
            "one_tokens_per_s": "one, tokens/s",
            "mig_tokens_per_s": f"{cut} slices",
            "ratio": "ratio",
            "closed_form": "(W+Bk)/(nW+Bk)",
        }
        ratio = dict.fromkeys(("ratio", "closed_form"), "{:.3f}".format)
        _rows.show(_rows.terminal(decode, heads, ratio))
    for path in written:
        typer.echo(f"wrote {path}", err=json)
