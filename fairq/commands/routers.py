"""``fairq routers``: which replica? The same conversations, or a trace of prompts, under every router."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairq.files import InputError


def register(app: typer.Typer) -> None:
    app.command("routers")(routers)


def routers(
    scenario: Annotated[str, typer.Argument(help="A scenario with replicas: replicas, or a file.")] = (
        "replicas"
    ),
    trace: Annotated[
        Path | None,
        typer.Option(help="A trace of prompts in blocks (Mooncake's JSONL) instead of the scenario."),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(help="How many (trace: 4; default: the scenario's).")
    ] = None,
    cache_blocks: Annotated[
        int, typer.Option(help="Trace: prefix cache of each, blocks of 512 tokens.")
    ] = 3000,
    prefill_tokens_per_s: Annotated[
        float, typer.Option(help="Trace: prompt tokens a replica computes per second.")
    ] = 32_000,
    slack: Annotated[
        float | None, typer.Option(help="Longest prefix: requests more than the least busy one.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Of the one queue before all replicas (default: the scenario's last).")
    ] = None,
    outages: Annotated[bool, typer.Option(help="With the scenario's failures, or without.")] = True,
    json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
    out: Annotated[
        list[Path] | None, typer.Option(help="Also write .csv, .json, .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Prompt tokens computed, hit rate, time to first token and imbalance per router."""
    from fairq.commands import _rows
    from fairq.plots.routers import router_bars
    from fairq.scenario import Scenario
    from fairq.scenario.alternatives import router_table

    files = out or []
    _rows.check_out(files)
    if trace is not None:
        title, rows = _of_trace(trace, replicas or 4, cache_blocks, prefill_tokens_per_s, slack)
    else:
        changes: dict[Any, Any] = {}
        if replicas is not None:
            changes["engine.replicas"] = replicas
        if slack is not None:
            changes["engine.slack"] = slack
        loaded = Scenario.load(scenario)
        if changes:
            loaded = loaded.with_(changes)
        rows = router_table(loaded, policy, failing=outages)
        title = f"{loaded.name}: {len(rows[0]['requests'])} replicas behind one queue"
    written = _rows.write(files, rows, lambda: router_bars(rows))
    if json:
        typer.echo(_rows.as_json(rows))
    else:
        typer.echo(title)
        columns = {
            "router": "router",
            "served": "requests",
            "prefill_tokens": "prompt tokens computed",
            "hit_rate": "found",
            "ttft_mean": "TTFT mean",
            "ttft_p50": "p50",
            "ttft_p99": "p99",
            "imbalance": "busiest/mean",
            "requests": "per replica",
        }
        if "retries" in rows[0]:
            columns["retries"] = "retried"
        words = {
            "hit_rate": lambda v: f"{100 * v:.1f} %",
            "imbalance": "{:.2f}".format,
            "prefill_tokens": "{:,.0f}".format,
            "requests": lambda each: " ".join(map(str, each)),
        }
        _rows.show(_rows.terminal(rows, columns, words))
        typer.echo("found: share of prompt tokens that a prefix cache gave; times in s; one run each")
    for path in written:
        typer.echo(f"wrote {path}", err=json)


def _of_trace(
    path: Path, replicas: int, cache_blocks: int, speed: float, slack: float | None
) -> tuple[str, list[dict[str, Any]]]:
    from fairq.sim.replicas import LABELS, make_router
    from fairq.sim.replicas.figures import replay_row
    from fairq.sim.replicas.replay import replay_prefixes
    from fairq.workload.prefixes import read_prefixes
    from fairq.workload.trace import TraceError

    try:
        trace = read_prefixes(path)
        rows = []
        for name, label in LABELS.items():
            outcome = replay_prefixes(
                trace,
                make_router(name, slack),
                replicas=replicas,
                cache_blocks=cache_blocks,
                prefill_tokens_per_s=speed,
            )
            rows.append({"router": label, **replay_row(outcome, replicas)})
    except TraceError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    title = f"{len(trace):,} requests of {path.name}: {replicas} replicas of {cache_blocks:,} blocks"
    return title, rows
