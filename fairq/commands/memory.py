"""``fairq memory``: what each model leaves of a card, whole, cut in slices or shared by processes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairq.files import InputError


def register(app: typer.Typer) -> None:
    app.command("memory")(memory)


def memory(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="Shipped models or YAML files (default: all that are shipped)."),
    ] = None,
    card_gib: Annotated[float, typer.Option(help="Memory the card shows, GiB (24 GB cards: 23.5).")] = 23.5,
    parts: Annotated[
        list[int] | None, typer.Option(help="Cut in so many parts; may be repeated (default: 1, 2).")
    ] = None,
    way: Annotated[str, typer.Option(help="How it is cut: MIG, MPS or time-slicing.")] = "MIG",
    context: Annotated[int, typer.Option(help="The longest request, tokens (--max-model-len).")] = 4096,
    utilisation: Annotated[float, typer.Option(help="vLLM's --gpu-memory-utilization.")] = 0.9,
    overhead_gib: Annotated[float, typer.Option(help="What one engine takes beside weights and KV.")] = 1.15,
    json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
    out: Annotated[
        list[Path] | None, typer.Option(help="Also write .csv, .json, .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Weights, engine overhead, and what is left for KV; what does not fit says so."""
    from fairq.commands import _rows
    from fairq.memory import WAYS, memory_rows
    from fairq.models import load_model, model_names
    from fairq.plots.memory import memory_bars

    files = out or []
    _rows.check_out(files)
    known = {each.lower(): each for each in WAYS[1:]}
    if way.lower() not in known:
        raise InputError(f"--way must be one of {', '.join(WAYS[1:])}, got {way!r}")
    splits = [(WAYS[0] if n == 1 else known[way.lower()], n) for n in parts or [1, 2]]
    try:
        rows = memory_rows(
            [load_model(name) for name in models or model_names()],
            splits,
            card_gib=card_gib,
            context=context,
            utilisation=utilisation,
            overhead_gib=overhead_gib,
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
    written = _rows.write(files, rows, lambda: memory_bars(rows))
    if json:
        typer.echo(_rows.as_json(rows))
    else:
        columns = {
            "title": "model",
            "way": "way",
            "parts": "parts",
            "part_gb": "GB each",
            "weights_gb": "weights",
            "overhead_gb": "engine",
            "kv_gb": "KV",
            "kv_tokens_card": "KV tokens in all",
            "says": "",
        }
        gb = dict.fromkeys(("part_gb", "weights_gb", "overhead_gb", "kv_gb"), "{:.1f}".format)
        _rows.show(_rows.terminal(rows, columns, gb))
        typer.echo(
            f"GB (10⁹ bytes) of one part; KV = {utilisation:g} · part − weights − engine."
            f" An engine starts where one request of {context:,} tokens fits."
        )
    for path in written:
        typer.echo(f"wrote {path}", err=json)
