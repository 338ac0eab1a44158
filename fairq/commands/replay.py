"""``fairq replay``: a real engine's run beside the model's, as a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.files import InputError, write_out

if TYPE_CHECKING:
    from fairq.sim.batching import Profile

DEFAULT = "shared/traces/vllm_rtx4090_llama31_8b_requests.jsonl"
"""Looked for beside the project and in the folder above where the command runs."""


def register(app: typer.Typer) -> None:
    app.command("replay")(replay)


def replay(
    path: Annotated[
        Path | None,
        typer.Argument(help="A vLLM run (…requests.jsonl) or the VTC arena (CSV with arrived_s, tenant, …)."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Shipped profile or YAML file (rtx4090-llama31-8b; the arena: a10g-llama-7b)."),
    ] = None,
    o_ms: Annotated[float | None, typer.Option(help="Idle between steps, instead of the profile's.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="Instead of the run's (256).")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="Instead of the run's (2048).")] = None,
    kv_tokens: Annotated[int | None, typer.Option(help="Instead of the run's or the profile's.")] = None,
    gateway_slots: Annotated[
        int | None,
        typer.Option(help="Arena: the policy at a gateway that releases so many at once (0: no limit)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the table to this CSV file.")] = None,
) -> None:
    """Replay a real run and print how far the model is from it."""
    from fairq.commands._rows import show
    from fairq.workload.trace import TraceError

    file = _found(path)
    changes = {"o_ms": o_ms, "kv_tokens": kv_tokens}
    try:
        if file.suffix == ".csv":
            title, rows, notes = _arena(file, profile or "a10g-llama-7b", changes, gateway_slots)
        else:
            settings = {
                "max_num_seqs": max_num_seqs,
                "max_num_batched_tokens": max_num_batched_tokens,
                "kv_tokens": kv_tokens,
            }
            title, rows, notes = _run(file, profile or "rtx4090-llama31-8b", changes, settings)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except TraceError as error:
        raise InputError(str(error)) from None
    written = None if out is None else write_out(out, _csv(rows))
    typer.echo(title)
    show(_table(rows))
    for note in notes:
        typer.echo(note)
    if written is not None:
        typer.echo(f"wrote {written}")


Rows = list[dict[str, Any]]


def _run(
    file: Path, name: str, changes: dict[str, Any], settings: dict[str, int | None]
) -> tuple[str, Rows, list[str]]:
    from fairq.sim.batching.agreement import STATISTICS, replay_run
    from fairq.workload.vllm_run import read_run

    run = read_run(file)
    profile = _profile(name, changes)
    limits = run_limits(run.settings, settings, profile)
    try:
        replayed = replay_run(run.requests, profile, limits)
    except ValueError as error:
        raise InputError(f"{file}: {error}") from None
    rows: Rows = [
        {
            "measure": each.measure,
            "statistic": statistic,
            "real_s": float(each.real[i]),
            "model_s": float(each.model[i]),
            "error_pct": 100 * float(each.error[i]),
        }
        for each in replayed.compared()
        for i, statistic in enumerate(STATISTICS)
    ]
    worst = max(abs(row["error_pct"]) for row in rows)
    core = replayed.core
    notes = [
        f"largest error {worst:.1f} %; {sum(s.preemptions for s in replayed.sequences)} preemptions, "
        f"{core.steps} steps in {core.changes} stretches"
    ]
    if run.series:
        at = replayed.at_seconds([row[0] for row in run.series])
        for column, what in ((1, "running"), (2, "waiting"), (3, "KV %")):
            real = [float(row[column]) for row in run.series]
            model = [float(row[column - 1]) for row in at]
            off = sum(abs(x - y) for x, y in zip(real, model, strict=True)) / len(real)
            notes.append(
                f"{what}, each second: peak {max(real):g} real, {max(model):.4g} model; "
                f"mean {sum(real) / len(real):.1f} real, {sum(model) / len(model):.1f} model; "
                f"mean distance {off:.1f}"
            )
    title = f"{len(run.requests)} requests of {file.name}, {profile.name} ({profile.kind}), {_shown(limits)}"
    return title, rows, notes


def _arena(
    file: Path, name: str, changes: dict[str, Any], gateway_slots: int | None
) -> tuple[str, Rows, list[str]]:
    from dataclasses import asdict

    from fairq.commands._arena import read_arena, replay_arena, served
    from fairq.policies.fifo import FIFO
    from fairq.policies.vtc import VTC

    arena = read_arena(file)
    profile = _profile(name, changes)
    table = []
    if arena.first_token is not None and arena.finish is not None:
        table.append(served("real (VTC)", arena, arena.first_token, arena.finish))
    for policy in (VTC(), FIFO()):
        try:
            result = replay_arena(arena, policy, profile, gateway_slots=gateway_slots)
        except ValueError as error:
            raise InputError(f"{file}: {error}") from None
        requests = result.requests
        times = (requests[column].to_numpy(dtype=float) for column in ("first_token", "finish"))
        table.append(served(f"{type(policy).__name__}, model", arena, *times))
    rows: Rows = []
    for each in table:
        off = 100 * (each.tokens_per_s / table[0].tokens_per_s - 1)
        rows.append(asdict(each) | ({"throughput_error_pct": off} if arena.finish is not None else {}))
    notes = [
        "service difference: weighted tokens/s (input + 2·output) by which tenants fall short of the "
        "best-served one, summed; its maximum, mean and variance over the run"
    ]
    where = (
        "in the engine" if gateway_slots is None else f"at a gateway of {gateway_slots or 'unlimited'} slots"
    )
    title = f"{len(arena.tenants)} requests of {file.name}, {profile.name} ({profile.kind}), policy {where}"
    return title, rows, notes


def run_limits(stated: dict[str, int], given: dict[str, int | None], profile: Profile) -> Any:
    """The engine's limits: as given, else as the run states, else vLLM's defaults and the profile's cache."""
    from fairq.sim.batching import Limits

    settings: dict[str, Any] = {"max_num_seqs": 256, "max_num_batched_tokens": 2048}
    if profile.kv_tokens is not None:
        settings["kv_tokens"] = profile.kv_tokens
    settings |= stated | {name: value for name, value in given.items() if value is not None}
    if "kv_tokens" not in settings:
        raise InputError(f"neither the run nor profile {profile.name!r} states kv_tokens; give --kv-tokens")
    try:
        return Limits(**settings)
    except ValueError as error:
        raise InputError(str(error)) from None


def _profile(name: str, changes: dict[str, Any]) -> Profile:
    from fairq.profiles import load_profile

    return load_profile(name, **changes)


def _found(path: Path | None) -> Path:
    if path is not None:
        if not path.is_file():
            raise InputError(f"no file {path}")
        return path
    places = [Path("..") / DEFAULT, Path(__file__).resolve().parents[3] / DEFAULT]
    for place in places:
        if place.is_file():
            return place
    raise InputError(
        f"no run to replay: {places[0]} is not there; give the path of a requests.jsonl "
        "(`fairq traces get vllm-rtx4090` fetches one)"
    )


def _shown(limits: Any) -> str:
    return (
        f"{limits.max_num_seqs} seqs, {limits.max_num_batched_tokens} tokens per step, "
        f"{limits.kv_tokens} KV tokens"
    )


HEADINGS = {
    "real_s": "real, s",
    "model_s": "model, s",
    "error_pct": "error, %",
    "name": "served by",
    "tokens_per_s": "tokens/s",
    "difference_max": "diff max",
    "difference_mean": "diff mean",
    "difference_variance": "diff var",
    "ttft_mean": "TTFT, s",
    "throughput_error_pct": "tokens/s error, %",
}


def _table(rows: Rows) -> Any:
    from rich.table import Table

    table = Table()
    for name, value in rows[0].items():
        table.add_column(HEADINGS.get(name, name), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    return table


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if name.endswith("_pct"):
        return f"{value:+.1f}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _csv(rows: Rows) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
