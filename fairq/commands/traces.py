"""``fairq traces``: public traces, fetched with a checksum, and the synthetic log, made again."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairq.files import InputError, write_whole

if TYPE_CHECKING:
    from fairq.commands._catalog import Public

traces = typer.Typer(
    no_args_is_help=True, help="Public traces (with licence and checksum) and the synthetic log."
)


def register(app: typer.Typer) -> None:
    app.add_typer(traces, name="traces")


@traces.command("list")
def list_traces() -> None:
    """Names, what they are, licence, address and checksum."""
    from fairq.commands._catalog import PUBLIC

    for trace in PUBLIC.values():
        typer.echo(f"{trace.name}\n  {trace.about}\n  licence {trace.licence}, {trace.address}")
        typer.echo(f"  sha256 {trace.sha256}")


@traces.command("get")
def get(
    name: Annotated[str, typer.Argument(help="A name that `fairq traces list` shows.")],
    local: Annotated[
        Path | None, typer.Option("--from", help="Take this copy instead of downloading.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder to keep it in (default: the user's cache).")
    ] = None,
) -> None:
    """Fetch one public trace, check it, and print its path."""
    from fairq.commands._catalog import public

    trace = public(name)
    folder = trace_folder() if to is None else to
    typer.echo(_download(trace, folder) if local is None else _copy(trace, local, folder))


@traces.command("synthetic")
def synthetic(
    to: Annotated[Path, typer.Option("--to", help="Folder to write it to.")] = Path("data/logs"),
) -> None:
    """Make the synthetic 27-tenant log again, byte for byte, and print its path."""
    from fairq.workload.synthetic import NAME, csv_text

    typer.echo(_write(to / NAME, csv_text().encode()))


def trace_folder() -> Path:
    """Where traces are kept unless told otherwise."""
    import pooch  # type: ignore[import-untyped]

    return Path(pooch.os_cache("fairq")) / "traces"


def _copy(trace: Public, local: Path, folder: Path) -> Path:
    try:
        content = local.read_bytes()
    except OSError as error:
        raise InputError(f"{local}: cannot be read: {error.strerror}") from None
    try:
        trace.check(content, str(local))
    except InputError as error:
        from fairq.commands._columns import LOG_ENDINGS

        if local.suffix.lower() not in LOG_ENDINGS:
            raise
        # Another copy, or the same requests in another form: a log all the same.
        raise InputError(f"{error}; to replay it as it is: `fairq run {local}`") from None
    return _write(folder / trace.file_name, content)


def _download(trace: Public, folder: Path) -> Path:
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.WARNING)
    fetch = pooch.HTTPDownloader(timeout=30)
    try:
        # Checked by pooch before it takes its final name, and kept from an earlier call when it still fits.
        path = pooch.retrieve(
            trace.address, f"sha256:{trace.sha256}", fname=trace.file_name, path=folder, downloader=fetch
        )
    except requests.RequestException as error:
        # A refused connection says nothing in many words; a status says it in one line.
        reason = str(error) if isinstance(error, requests.HTTPError) else type(error).__name__
        typer.echo(f"fairq: {trace.address} could not be downloaded ({reason}); see `--from FILE`", err=True)
        raise typer.Exit(1) from None
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{trace.address}: wrong checksum for {trace.name}, nothing was kept: {reason}"
        ) from None
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    return Path(path)


def _write(path: Path, content: bytes) -> Path:
    try:
        return write_whole(path, content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
