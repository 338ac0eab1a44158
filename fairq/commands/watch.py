"""``fairq watch``: a live engine's queue in the terminal, then its card and the verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.files import InputError

if TYPE_CHECKING:
    from fairq.live.scrape import Snapshot

BARS = " ▁▂▃▄▅▆▇█"
KEPT = 20_000
"""Scrapes that are remembered: half a day at two seconds."""


def register(app: typer.Typer) -> None:
    app.command("watch")(watch)


def watch(
    url: Annotated[str, typer.Argument(help="Of the engine's metrics page: http://localhost:8000/metrics")],
    interval: Annotated[float, typer.Option(help="Seconds between scrapes.")] = 2.0,
    seconds: Annotated[
        float | None, typer.Option("--for", help="End after so many seconds (default: at Ctrl-C).")
    ] = None,
    slots: Annotated[int | None, typer.Option(help="How many the engine can run at once.")] = None,
    profile: Annotated[str | None, typer.Option(help="Hardware profile to compare with.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a page.")] = 5.0,
) -> None:
    """Queue depth, running and waiting over time; at the end (Ctrl-C) the verdict and the card.

    A page that cannot be read is said and tried again.
    """
    from fairq.live.scrape import metrics_url

    for name, value in (("--interval", interval), ("--for", seconds), ("--timeout", timeout)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} must be a finite number > 0, got {value!r}")
    if slots is not None and slots < 1:
        raise InputError(f"--slots must be >= 1, got {slots}")
    model = None
    if profile is not None:
        from fairq.profiles import load_profile

        model = load_profile(profile)
    address = metrics_url(url)
    seen = _watch(address, interval, seconds, slots, timeout)
    _sum_up(address, seen, slots, model)


def _watch(
    url: str, interval: float, seconds: float | None, slots: int | None, timeout: float
) -> list[Snapshot]:
    """Scrapes until the time is over or Ctrl-C; returns what was seen."""
    from rich.console import Console
    from rich.live import Live

    from fairq.live.scrape import ScrapeError, scrape

    console = Console()
    seen: list[Snapshot] = []
    trouble = ""
    began = time.monotonic()
    # Where nobody watches, a line per scrape says the same.
    live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    try:
        if live is not None:
            live.start()
        for n in _ticks(began, interval, seconds):
            try:
                seen = [*seen[-KEPT:], scrape(url, timeout)]
                said, trouble = trouble, ""
                if said and live is None:
                    console.print("answers again", highlight=False)
            except ScrapeError as error:
                if str(error) != trouble and live is None:
                    console.print(
                        f"{error} (trying again every {interval:g} s)",
                        style="red",
                        highlight=False,
                        markup=False,
                    )
                trouble = str(error)
            if live is not None:
                live.update(_screen(url, seen, trouble, slots, console.width), refresh=True)
            elif not trouble:
                console.print(_line(seen, n), highlight=False, markup=False)
    except KeyboardInterrupt:
        pass
    finally:
        if live is not None:
            live.stop()
    return seen


def _ticks(began: float, interval: float, seconds: float | None) -> Iterator[int]:
    """0, 1, 2, … at their times: a slow page delays its own tick, not all later ones."""
    n = 0
    while True:
        yield n
        now = time.monotonic() - began
        n = max(n + 1, math.ceil(now / interval))
        if seconds is not None and n * interval > seconds:
            return
        time.sleep(max(n * interval - now, 0.0))


def _line(seen: Sequence[Snapshot], n: int) -> str:
    last = seen[-1]
    parts = [f"{last.at - seen[0].at:7.1f} s  running {last.running:4.0f}  waiting {last.waiting:5.0f}"]
    if not math.isnan(last.kv):
        parts.append(f"KV {100 * last.kv:5.1f} %")
    rate = _rate(seen)
    if rate is not None:
        parts.append(f"{rate:8,.1f} tokens/s")
    if n == 0 and last.missing:
        parts.append(f"({last.engine}: no {', '.join(last.missing)} on this page)")
    return "  ".join(parts)


def _screen(url: str, seen: Sequence[Snapshot], trouble: str, slots: int | None, width: int) -> Any:
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    if not seen:
        return Panel(Text(trouble or "waiting for the first page", style="red" if trouble else ""), title=url)
    last = seen[-1]
    cells = max(20, width - 30)
    rows = [
        _spark("waiting", [each.waiting for each in seen], cells, "red"),
        _spark("running", [each.running for each in seen], cells, "green"),
    ]
    if not math.isnan(last.kv):
        rows.append(_spark("KV %", [100 * each.kv for each in seen], cells, "yellow", top=100))
    rate = _rate(seen)
    words = f"{last.engine}, {last.at - seen[0].at:,.0f} s"
    if last.speed != 1:
        words += f" of a simulation at {last.speed:g} times real time"
    if rate is not None and last.running:
        words += f"; {rate:,.0f} tokens/s in all, {rate / last.running:,.1f} each"
    verdict = _verdict(seen, slots)
    if verdict is not None:
        words += f"\n{verdict.advice}"
    if last.missing:
        words += f"\nnot on this page: {', '.join(last.missing)}"
    rows.append(Text(words))
    if trouble:
        rows.append(Text(f"{trouble}; trying again", style="bold red"))
    return Panel(Group(*rows), title=url, subtitle="Ctrl-C: the card")


def _spark(name: str, values: Sequence[float], cells: int, style: str, top: float | None = None) -> Any:
    from rich.text import Text

    shown = list(values[-cells:])
    highest = max(top or 0.0, *shown) or 1.0
    bars = "".join(BARS[min(math.ceil(value / highest * (len(BARS) - 1)), len(BARS) - 1)] for value in shown)
    return Text.assemble(f"{name:>8} ", (bars, style), f" {shown[-1]:,.0f} (most {max(shown):,.0f})")


def _rate(seen: Sequence[Snapshot]) -> float | None:
    """Tokens per second since the last page."""
    from fairq.live.cards import window

    if len(seen) < 2 or not seen[-1].at > seen[-2].at:
        return None
    last = window(seen[-2], seen[-1])
    return None if last is None or math.isnan(last.tokens) else last.tokens_per_s


def _verdict(seen: Sequence[Snapshot], slots: int | None, model: Any = None) -> Any:
    from fairq.live.cards import relief_from, series_from
    from fairq.saturation import judge

    if len(seen) < 5:
        return None
    try:
        series = series_from(seen)
    except ValueError:
        return None
    known = slots or (None if math.isnan(seen[-1].slots) or seen[-1].slots < 1 else seen[-1].slots)
    return judge(series, slots=known, relief=relief_from(seen, model, slots))


def _sum_up(url: str, seen: Sequence[Snapshot], slots: int | None, model: Any) -> None:
    from fairq.commands.capacity import show as show_card
    from fairq.commands.saturation import show as show_verdict
    from fairq.live.cards import card_of

    if len(seen) < 2:
        raise InputError(f"{url}: fewer than two pages were read: no card")
    verdict = _verdict(seen, slots, model)
    if verdict is not None:
        show_verdict(verdict, url)
    try:
        card = card_of(seen, source=url, profile=model, engine={"max_num_seqs": slots} if slots else {})
    except ValueError as error:
        typer.echo(f"no card: {error}", err=True)
        return
    show_card(card)
