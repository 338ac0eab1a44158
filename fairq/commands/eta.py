"""``fairq eta``: for the one who waits. Position and start, with a spread."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.files import InputError, nearest, readable

if TYPE_CHECKING:
    from fairq.eta import Eta


def register(app: typer.Typer) -> None:
    app.command("eta")(eta)


def eta(
    state: Annotated[
        Path | None,
        typer.Argument(help="JSON: policy, slots, now, running and waiting (tenant, cost, id, elapsed_s)."),
    ] = None,
    me: Annotated[
        str | None, typer.Option(help="The id of my request (default: the last that waits).")
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(help="In place of a state: how many wait in front of me (first come first served)."),
    ] = None,
    streams: Annotated[int | None, typer.Option(help="How many are served at once.")] = None,
    service_s: Annotated[float | None, typer.Option(help="Mean time in service, in seconds.")] = None,
    cv: Annotated[float, typer.Option(help="Coefficient of variation of the time in service.")] = 1.0,
    card: Annotated[
        Path | None,
        typer.Option(help="A card (`fairq capacity … --json`): streams, speed and sizes from it."),
    ] = None,
    tokens_per_s: Annotated[float | None, typer.Option(help="Of one stream, where there is no card.")] = None,
    sigma: Annotated[
        float,
        typer.Option(help="How far sizes are off their estimates (0.5: half of them by more than 40 %)."),
    ] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """My position in the queue and when it is my turn, with its spread."""
    known = None if card is None else _card(card)
    if (state is None) == (position is None):
        raise InputError("give a state file or --position, one of them")
    try:
        if position is not None:
            found = _in_line(position, streams, service_s, cv, known)
        else:
            assert state is not None
            found = _in_state(state, me, streams, tokens_per_s, sigma, known)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error) if state is None else f"{state}: {error}") from None
    if as_json:
        plain = {
            name: v if not isinstance(v, float) or isfinite(v) else None for name, v in asdict(found).items()
        }
        typer.echo(json.dumps(plain))
    else:
        typer.echo(found)


def _in_line(
    position: int, streams: int | None, service_s: float | None, cv: float, card: dict[str, Any] | None
) -> Eta:
    from fairq.eta import eta_in_line

    if card is not None:
        streams = card["streams"] if streams is None else streams
        service_s = card["service_s"] if service_s is None else service_s
    for name, value in (("--streams", streams), ("--service-s", service_s)):
        if value is None:
            raise InputError(f"{name}: is missing (or give --card)")
    assert streams is not None
    assert service_s is not None
    return eta_in_line(position, streams, service_s, cv)


def _in_state(
    path: Path,
    me: str | None,
    streams: int | None,
    tokens_per_s: float | None,
    sigma: float,
    card: dict[str, Any] | None,
) -> Eta:
    from fairq.eta import eta, slot_speed, state_from_data
    from fairq.scenario import policy_from_data

    data = _json(path)
    queue = policy_from_data(data.get("policy", {"policy": "fifo"}), source=str(path))
    read = state_from_data(data, queue)
    if not read.waiting:
        raise InputError(f"{path}: waiting: nobody waits")
    name = list(read.waiting)[-1] if me is None else me
    if name not in read.waiting:
        raise InputError(
            f"{path}: nobody with id {name!r} waits; there are: {', '.join(list(read.waiting)[:10])}"
            f"{nearest(name, read.waiting)}"
        )
    slots = streams or data.get("slots") or (card["streams"] if card else None)
    if slots is None:
        raise InputError(f"{path}: slots: is missing (or give --streams or --card)")
    if card is None and tokens_per_s is None:
        raise InputError("--tokens-per-s: is missing (or give --card)")
    if tokens_per_s is not None and not tokens_per_s > 0:
        raise InputError(f"--tokens-per-s must be > 0, got {tokens_per_s!r}")
    speed = (
        slot_speed(float("inf"), tokens_per_s)
        if tokens_per_s is not None
        else slot_speed(card["prefill_tokens_per_s"], card["decode_tokens_per_s"])  # type: ignore[index]
    )
    return eta(queue, read.waiting[name], read.running, slots, speed, sigma=sigma, now=read.now)


def _card(path: Path) -> dict[str, Any]:
    """Streams, mean time in service and speeds of the row with the most streams."""
    data = _json(path)
    try:
        row = max(data["by_streams"], key=lambda each: each["streams"])
        shape = data["shape"]
        first, each = float(row["first_token_s"]), float(row["time_per_output_token_s"])
        prompt, output = float(shape["prompt_tokens"]), float(shape["output_tokens"])
        return {
            "streams": int(data["max_streams"]),
            "service_s": first + (output - 1) * each,
            "prefill_tokens_per_s": prompt / first if first > 0 else float("inf"),
            "decode_tokens_per_s": 1 / each if each > 0 else float("inf"),
        }
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: is no card (`fairq capacity … --json` writes one)") from None


def _json(path: Path) -> dict[str, Any]:
    try:
        with readable(path):
            data = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{path}: not JSON: nested too deeply") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: must be an object, got {str(data)[:40]}")
    return data
