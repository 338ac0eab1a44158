"""``fairq capacity``: the card of a box: how fast, for how many, and what binds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.commands._columns import only_for_logs, takes_columns, tell, tell_lost
from fairq.files import InputError, readable, write_out

if TYPE_CHECKING:
    from fairq.capacity import Card, Shape

PROMPT, OUTPUT = 512.0, 256.0
"""Tokens of a request where nobody says otherwise."""

FORMATS = (".png", ".svg", ".pdf")


def register(app: typer.Typer) -> None:
    app.command("capacity")(capacity)


@takes_columns("prompt_tokens", "output_tokens")
def capacity(
    file: Annotated[
        str | None,
        typer.Argument(
            help="A scenario, or a log: with served times it is measured, else it gives the sizes."
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="A shipped hardware profile, or a YAML file of one.")
    ] = None,
    prompt_tokens: Annotated[
        str | None,
        typer.Option(help=f"Of a request (default {PROMPT:g}, or the log's mean). Or the log's column."),
    ] = None,
    output_tokens: Annotated[
        str | None,
        typer.Option(help=f"Of an answer (default {OUTPUT:g}, or the log's mean). Or the log's column."),
    ] = None,
    max_num_seqs: Annotated[int, typer.Option(help="Slots of the engine.")] = 256,
    max_num_batched_tokens: Annotated[int, typer.Option(help="Tokens of one step.")] = 2048,
    kv_tokens: Annotated[
        int | None, typer.Option(help="What the KV cache holds (default: the profile's).")
    ] = None,
    gateway_slots: Annotated[
        int | None, typer.Option(help="How many the gateway releases at once (default: no limit).")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Scrape a live engine, every second.")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="How long, or between the two pages (with --url: default 30).")
    ] = None,
    scrape: Annotated[
        list[Path] | None, typer.Option(help="A saved /metrics page (give two, the earlier first).")
    ] = None,
    ttft: Annotated[float, typer.Option(help="Promise: mean seconds to the first token.")] = 2.0,
    tpot: Annotated[float, typer.Option(help="Promise: mean seconds per output token.")] = 0.1,
    users: Annotated[int | None, typer.Option(help="Rows go this far (default: twice what can run).")] = None,
    think: Annotated[
        float | None, typer.Option(help="Mean seconds that a person pauses before the next request.")
    ] = None,
    claim: Annotated[
        str | None, typer.Option(help="Check a note: TOTAL,EACH,USERS such as 1500,25,8.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="The card as a picture: FILE.png, .svg or .pdf.")] = None,
    columns: dict[str, Any] | None = None,
) -> None:
    """The capacity card: tokens/s in all and each, how many users fit, and what binds.

    From a hardware profile (--profile), a scenario, a log, or a live engine (--url, or two --scrape).
    """
    sources = [name for name, given in (("FILE", file), ("--url", url), ("--scrape", scrape)) if given]
    if len(sources) > 1:
        raise InputError(f"give one of FILE, --url and --scrape, got {' and '.join(sources)}")
    if out is not None and out.suffix.lower() not in FORMATS:
        raise InputError(f"--out must end in {', '.join(FORMATS)}, got {str(out)!r}")
    said = _claim(claim)
    engine = {
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "kv_tokens": kv_tokens,
        "gateway_slots": gateway_slots,
    }
    asked = {"ttft_s": ttft, "tpot_s": tpot, "users": users, "think_s": think}
    given = dict(columns or {})
    sizes = (_size("prompt_tokens", prompt_tokens, given), _size("output_tokens", output_tokens, given))
    with _input_errors():
        if not file:
            for name in ("prompt_tokens", "output_tokens"):
                if name in given:
                    option = f"--{name.replace('_', '-')}"
                    raise InputError(f"{option} must be a number where there is no log, got {given[name]!r}")
            only_for_logs(given)
        if url or scrape:
            card = _live(url, scrape or [], seconds, profile, engine, asked)
        elif file:
            card = _from_file(file, profile, sizes, engine, asked, given)
        elif profile:
            card = _from_profile(profile, _shape(*sizes), engine, asked)
        else:
            raise InputError("say what the card is of: --profile NAME, a scenario, a log, --url or --scrape")
    # The file first: whoever reads what is printed (`| head`) may leave in the middle.
    written = None if out is None else _picture(card, out)
    show(card, as_json, said)
    if written is not None:
        typer.echo(written, err=as_json)


def show(card: Card, as_json: bool = False, said: tuple[float, float, int] | None = None) -> None:
    """Prints a card."""
    from rich.console import Console

    from fairq.capacity.words import claim_lines, headline, lines
    from fairq.commands._card import table

    if as_json:
        document = _plain(card.as_dict())
        if said is not None:
            document["claim"] = list(claim_lines(card, *said))
        typer.echo(json.dumps(document, indent=1, ensure_ascii=False))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    console.print(f"{card.source}: {headline(card)}", style="bold", highlight=False, markup=False)
    console.print(table(card))
    for line in lines(card):
        console.print(f"· {line}", highlight=False, markup=False)
    if said is not None:
        for line in claim_lines(card, *said):
            console.print(f"! {line}", highlight=False, markup=False)


def _size(name: str, text: str | None, columns: dict[str, Any]) -> float | None:
    """So many tokens; or None, and the text goes to the ``columns`` of the log."""
    try:
        return None if text is None else float(text)
    except ValueError:
        columns[name] = text
        return None


def _from_profile(name: str, shape: Shape, engine: dict[str, Any], asked: dict[str, Any]) -> Card:
    from fairq.capacity import from_profile
    from fairq.profiles import load_profile

    return from_profile(load_profile(name), shape, **engine, **asked)


def _from_file(
    file: str,
    profile: str | None,
    sizes: tuple[float | None, float | None],
    engine: dict[str, Any],
    asked: dict[str, Any],
    columns: dict[str, Any],
) -> Card:
    from fairq.capacity import from_scenario
    from fairq.capacity.logs import card_of_served, served_of
    from fairq.commands.run import log_file, open_scenario
    from fairq.workload.readers import read_log

    path = log_file(file)
    if path is None:
        scenario = open_scenario(file, columns)
        tell_lost(scenario, notes=True)
        return from_scenario(scenario, **asked)
    with readable(path):
        log = read_log(path, **{name: value for name, value in columns.items() if value is not None})
    tell(log.account, notes=True)
    served = served_of(log)
    if served is not None and profile is None:
        source = f"log {path.name}"
        return card_of_served(served, source=source, kv_tokens=engine["kv_tokens"], **asked)
    if profile is None:
        raise InputError(f"{file}: says what was asked, not when it was served: give --profile for the speed")
    note = {"source": f"profile {profile} with the requests of {path.name}"}
    shape = _shape(*sizes, log.trace.prompt_tokens, log.trace.output_tokens)
    return _from_profile(profile, shape, engine, {**asked, **note})


def _shape(prompt: float | None, output: float | None, prompts: Any = None, outputs: Any = None) -> Shape:
    from fairq.capacity import Shape

    if prompts is not None and prompt is None and output is None:
        return Shape.from_sizes(prompts, outputs)
    if prompts is not None:
        found = Shape.from_sizes(prompts, outputs)
        return Shape.of(found.prompt_tokens if prompt is None else prompt, output or found.output_tokens)
    return Shape.of(PROMPT if prompt is None else prompt, OUTPUT if output is None else output)


def _live(
    url: str | None,
    pages: list[Path],
    seconds: float | None,
    profile: str | None,
    engine: dict[str, Any],
    asked: dict[str, Any],
) -> Card:
    from fairq.live.cards import card_of
    from fairq.live.scrape import read_page, scrape_for

    if url:
        seen = scrape_for(url, 30.0 if seconds is None else seconds)
    else:
        if len(pages) != 2:
            raise InputError(f"--scrape must be given twice (the earlier page first), got {len(pages)}")
        if seconds is None:
            raise InputError("--seconds: two saved pages do not say how long lies between them")
        seen = [read_page(pages[0], 0.0), read_page(pages[1], seconds)]
    model = None
    if profile is not None:
        from fairq.profiles import load_profile

        model = load_profile(profile)
    return card_of(
        seen,
        source=url or f"{pages[0].name} … {pages[1].name}",
        profile=model,
        engine=engine,
        **asked,
    )


def _claim(text: str | None) -> tuple[float, float, int] | None:
    if text is None:
        return None
    try:
        total, each, users = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--claim must be TOTAL,EACH,USERS such as 1500,25,8, got {text!r}") from None
    if not all(math.isfinite(part) and part > 0 for part in (total, each, users)) or users != int(users):
        raise InputError(f"--claim must be three numbers > 0, the users a whole one, got {text!r}")
    return total, each, int(users)


def _picture(card: Card, path: Path) -> Path:
    from fairq.capacity.words import in_service
    from fairq.plots.capacity import capacity_card

    if not in_service(card):
        raise InputError(f"--out: no picture of {card.source}: the log does not tell how many ran at once")
    chart = capacity_card(card.as_dict())
    return write_out(path, chart.to_bytes(path.suffix[1:].lower()))


@contextmanager
def _input_errors() -> Iterator[None]:
    """What a card refuses is what a person handed in."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def _plain(value: Any) -> Any:
    """JSON has no infinity, nor NaN."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
