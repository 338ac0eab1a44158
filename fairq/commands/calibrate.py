"""``fairq calibrate``: a profile from measured steps, or from whole runs of a real engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairq.files import InputError, check_columns, read_csv, write_out

if TYPE_CHECKING:
    from fairq.sim.batching.calibrate import Fit

COLUMNS = ("B", "T", "KV", "step_ms")


def register(app: typer.Typer) -> None:
    app.command("calibrate")(calibrate)


def calibrate(
    paths: Annotated[
        list[Path],
        typer.Argument(help="One CSV of steps (columns B, T, KV, step_ms), or runs (…requests.jsonl)."),
    ],
    profile: Annotated[
        str, typer.Option(help="Runs: where to start, and the coefficients that are not fitted.")
    ] = "rtx4090-llama31-8b",
    fit: Annotated[str, typer.Option(help="Runs: coefficients to fit, such as o, or a,o; or all.")] = "o",
    max_num_seqs: Annotated[int | None, typer.Option(help="Instead of the run's (256).")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="Instead of the run's (2048).")] = None,
    kv_tokens: Annotated[int | None, typer.Option(help="Instead of the run's or the profile's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the profile to this YAML file.")] = None,
) -> None:
    """Fit the step-time coefficients, with the error of the fit and what the data cannot tell."""
    for path in paths:
        if not path.is_file():
            raise InputError(f"no file {path}")
    if paths[0].suffix == ".csv":
        if len(paths) > 1:
            raise InputError(f"one table of steps at a time, got {len(paths)} files")
        found = _from_steps(paths[0])
    else:
        settings = {
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max_num_batched_tokens,
            "kv_tokens": kv_tokens,
        }
        found = _from_runs(paths, profile, fit, settings)
    written = None
    if out is not None:
        from fairq.profiles import dump_profile

        made = found.profile.with_(source=f"fairq calibrate {' '.join(path.name for path in paths)}")
        written = write_out(out, dump_profile(made))
    for line in _report(found):
        typer.echo(line)
    if written is not None:
        typer.echo(f"wrote {written}")


def _from_steps(path: Path) -> Fit:
    import numpy as np

    from fairq.sim.batching.calibrate import fit_steps

    header, found = read_csv(path)
    check_columns(path, header, COLUMNS)
    rows = []
    for line, row in found:
        try:
            rows.append([float(row[name]) for name in COLUMNS])
        except ValueError:
            raise InputError(f"{path}:{line}: needs four numbers, got {row!r}") from None
    if len(rows) < 2:
        raise InputError(f"{path}: a fit needs at least 2 steps, got {len(rows)}")
    try:
        return fit_steps(*np.array(rows).T)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def _from_runs(paths: list[Path], name: str, fit: str, settings: dict[str, int | None]) -> Fit:
    from fairq.commands.replay import run_limits
    from fairq.profiles import load_profile
    from fairq.sim.batching.calibrate import fit_runs
    from fairq.sim.batching.profile import COEFFICIENTS
    from fairq.workload.trace import TraceError
    from fairq.workload.vllm_run import read_run

    short = {each.removesuffix("_ms"): each for each in COEFFICIENTS}
    asked = list(short) if fit == "all" else [each.strip() for each in fit.split(",")]
    unknown = [each for each in asked if each not in short]
    if unknown:
        raise InputError(f"--fit takes all or some of {', '.join(short)}, got {unknown[0]!r}")
    start = load_profile(name)
    try:
        runs = [read_run(path) for path in paths]
        work = [(run.requests, run_limits(run.settings, settings, start)) for run in runs]
        return fit_runs(work, start, [short[each] for each in asked])
    except TraceError as error:
        raise InputError(str(error)) from None
    except ValueError as error:
        raise InputError(f"{paths[0]}: {error}") from None


def _report(found: Fit) -> list[str]:
    from math import isfinite

    lines = [
        f"fitted to {found.n} measurements: {100 * found.rms:.2g} % rms, {100 * found.worst:.2g} % at most"
    ]
    for name in found.fitted:
        error = found.error[name]
        sure = f"± {1.96 * error:.2g} (95 %)" if isfinite(error) else "(not determined)"
        lines.append(f"  {name} = {getattr(found.profile, name):.6g} {sure}")
    for name in found.unseen:
        lines.append(f"  {name}: nothing here depends on it")
    for group in found.together:
        lines.append(
            f"cannot tell {' and '.join(group)} apart: the data look the same when one takes what another "
            "gives; measure other steps, or fix all but one"
        )
    return lines
