"""Cards from what was measured: a log of served requests, or speeds at several numbers of streams.

The time a stream needs per token grows with the number of streams, ``A + k·n`` (reading the weights once for
all, plus a part for each), so a line through the measured levels says what other numbers would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairq.capacity.card import Card, Limits, make_card
from fairq.capacity.modelled import Speed
from fairq.capacity.shape import Shape

QUEUED = 0.05
"""Part of the time with somebody waiting below which nothing can be said about what binds."""

SELDOM = 0.01
"""Part of the time below which a number of streams counts as not measured."""


class Level(NamedTuple):
    """What was made while so many streams ran: over ``seconds`` in all, ``tokens`` generated."""

    streams: float
    seconds: float
    tokens: float


@dataclass(frozen=True)
class Fit:
    """Seconds per token of one stream among n: ``base + each·n``; ``error``: rms of the relative misfit."""

    base: float
    each: float
    error: float
    levels: int

    def token_s(self, n: float) -> float:
        return self.base + self.each * n


def fit_levels(levels: Sequence[Level]) -> Fit:
    """The line through the levels, weighted by their time. Neither term below 0.

    Raises
    ------
    ValueError : no level with tokens.
    """
    used = [each for each in levels if each.tokens > 0 and each.seconds > 0 and each.streams > 0]
    if not used:
        raise ValueError("nothing was generated, so there is no speed to report")
    n = np.array([each.streams for each in used])
    seconds = np.array([each.seconds for each in used])
    per_token = n * seconds / np.array([each.tokens for each in used])
    # The tokens of a level are what is compared in the end: weigh errors relative to the value.
    weight = np.sqrt(seconds) / per_token
    base, each = _line(n, per_token, weight)
    if each < 0 or base < 0:
        flat = float((weight**2 * per_token).sum() / (weight**2).sum())
        through = float((weight**2 * per_token * n).sum() / (weight**2 * n * n).sum())
        base, each = (flat, 0.0) if each < 0 else (0.0, through)
    misfit = (base + each * n) / per_token - 1
    error = float(np.sqrt((seconds * misfit**2).sum() / seconds.sum()))
    return Fit(base, each, error, len(used))


def _line(n: NDArray[Any], y: NDArray[Any], weight: NDArray[Any]) -> tuple[float, float]:
    if np.ptp(n) == 0:
        return float((weight**2 * y).sum() / (weight**2).sum()), 0.0
    each, base = np.polyfit(n, y, 1, w=weight)
    return float(base), float(each)


def from_levels(
    levels: Sequence[Level],
    shape: Shape,
    limits: Limits,
    *,
    first_part: float = 0.0,
    most_streams: int | None = None,
    notes: Sequence[str] = (),
    **asked: Any,
) -> Card:
    """The card of a box measured at these levels.

    Parameters
    ----------
    limits : as far as known. first_part : part of the time in service before the first token (0 to 1).
    most_streams : how far the rows go where no limit is known; default: the highest level.
    asked : ``source, kind, users, ttft_s, tpot_s, think_s`` of ``make_card``.

    Raises
    ------
    ValueError : nothing was generated.
    """
    fit = fit_levels(levels)
    seen = max(each.streams for each in levels if each.tokens > 0)

    def point(n: int) -> Speed:
        service = fit.token_s(n) * shape.output_tokens
        first = service * first_part
        rest = shape.output_tokens - 1
        return Speed(first if rest > 0 else service, (service - first) / rest if rest > 0 else 0.0)

    words = [
        f"measured at {fit.levels} numbers of streams: a token takes {fit.base * 1000:.2f} ms"
        f" + {fit.each * 1000:.3f} ms per stream (rms misfit {100 * fit.error:.0f} %)"
    ]
    seldom = _hardly_seen(levels)
    if fit.levels < 2:
        words.append("one number of streams says nothing about others: they are given the same speed each")
    elif seldom > 1:
        words.append(
            f"hardly ever did fewer than {seldom} run: rows of fewer carry the line on, and are not measured"
        )
    card = make_card(
        point,
        shape,
        limits,
        arithmetic=lambda n: words,
        notes=notes,
        most_streams=max(round(most_streams or seen), 1),
        **asked,
    )
    extra = {"fit": vars(fit), "measured_from": seldom}
    return replace(card, by_streams=_with_measured(card.by_streams, levels), extra=extra)


def _hardly_seen(levels: Sequence[Level]) -> int:
    """The number below which so few streams ran that a hundredth of the time is not reached in all."""
    used = sorted(each for each in levels if each.tokens > 0 and each.seconds > 0)
    upto = np.cumsum([each.seconds for each in used])
    return max(round(used[int(np.searchsorted(upto, SELDOM * upto[-1]))].streams), 1)


def _with_measured(rows: Sequence[Any], levels: Sequence[Level]) -> list[Any]:
    seen: dict[int, list[Level]] = {}
    for each in levels:
        if each.seconds > 0:
            seen.setdefault(round(each.streams), []).append(each)
    marked = []
    for row in rows:
        mine = seen.get(int(row.streams))
        if mine:
            seconds = sum(each.seconds for each in mine)
            made = sum(each.tokens for each in mine) / seconds
            row = replace(row, measured_tokens_per_s=made, measured_s=seconds)
        marked.append(row)
    return marked


def from_served(
    table: pd.DataFrame,
    *,
    source: str,
    kv_tokens: int | None = None,
    notes: Sequence[str] = (),
    caveats: Sequence[str] = (),
    **asked: Any,
) -> Card:
    """The card of a box from its log.

    What binds is what stays the same while people wait: if the tokens held stay the same and the number in
    service varies, it is the KV cache; if the number in service does, it is slots.

    Parameters
    ----------
    table : ``arrival, start, first_token, finish`` in seconds (``first_token`` may be NaN: the answer came as
        a whole), ``prompt_tokens, output_tokens``; one row per finished request.
    kv_tokens : what the KV cache holds, if known. notes, caveats : to be said on the card, caveats first.

    Raises
    ------
    ValueError : no row, or nothing generated.
    """
    if table.empty:
        raise ValueError("no finished request in the log")
    time = timeline(table)
    shape = Shape.from_sizes(table["prompt_tokens"], table["output_tokens"])
    start, finish = (table[name].to_numpy(dtype=float) for name in ("start", "finish"))
    first = table["first_token"].to_numpy(dtype=float)
    service, to_first = (finish - start), (first - start)
    known = ~np.isnan(to_first)
    first_part = float(to_first[known].sum() / service[known].sum()) if known.any() else 0.0
    limits, notes, most = Limits(), [*notes], high(time.running, time.dt)
    queue = queue_of(time)
    if queue.share >= QUEUED:
        words = f"while people waited ({queue.share:.0%} of the time), {queue.words}"
        if queue.kv_binds:
            limits = Limits(kv=max(round(queue.running), 1))
            notes.append(f"KV binds: {words}: the tokens stay the same, the number of streams does not")
            kv_tokens = round(queue.held) if kv_tokens is None else kv_tokens
        else:
            limits = Limits(slots=max(queue.most, 1))
            notes.append(f"slots bind: {words}: the number of streams stays the same")
    else:
        notes.append(
            f"somebody waited in {100 * queue.share:.0f} % of the time: the log does not show what would bind"
        )
    return from_levels(
        levels_of(table),
        shape,
        limits,
        first_part=first_part,
        most_streams=most,
        kind="log",
        source=source,
        kv_tokens=kv_tokens,
        notes=notes,
        caveats=caveats,
        **asked,
    )


class Queue(NamedTuple):
    """While people waited (``share`` of the time): mean number in service and tokens held, and how much each
    varied (as a part of it); ``most``: the number in service that was exceeded in 1 % of that time.
    """

    share: float
    running: float
    spread: float
    held: float
    held_spread: float
    most: int

    @property
    def kv_binds(self) -> bool:
        """Whether the tokens held stayed the same while the number in service varied."""
        return self.share >= QUEUED and self.held_spread < self.spread

    @property
    def words(self) -> str:
        """How many ran, and what they held."""
        return (
            f"{self.running:.1f} ran (± {self.spread:.0%}) and held {self.held:,.0f} tokens"
            f" (± {self.held_spread:.0%})"
        )


def queue_of(time: Timeline) -> Queue:
    """What ran while people waited; zeros where nobody did."""
    queued = time.waiting > 0
    if not queued.any():
        return Queue(0.0, 0.0, 0.0, 0.0, 0.0, 0)
    dt = time.dt[queued]
    running, held = _mean_cv(time.running[queued], dt), _mean_cv(time.held[queued], dt)
    return Queue(float(dt.sum() / time.dt.sum()), *running, *held, high(time.running[queued], dt))


def levels_of(table: pd.DataFrame) -> list[Level]:
    """The levels at which a log's requests ran (columns as in ``from_served``): one per number in service.

    An answer's tokens are spread evenly from its first token to its finish.
    """
    time = timeline(table)
    numbers = np.unique(time.running[time.running > 0])
    return [
        Level(float(n), float(time.dt[at].sum()), float((time.rate[at] * time.dt[at]).sum()))
        for n in numbers
        for at in [time.running == n]
    ]


class Timeline(NamedTuple):
    """Stretches of time between two events, from ``t`` on for ``dt`` seconds: shape (stretches,).

    ``rate``: tokens per second of all; ``held``: tokens in the KV cache, in the middle of the stretch.
    """

    t: NDArray[np.float64]
    dt: NDArray[np.float64]
    waiting: NDArray[np.float64]
    running: NDArray[np.float64]
    rate: NDArray[np.float64]
    held: NDArray[np.float64]


def timeline(table: pd.DataFrame) -> Timeline:
    """Who waited, ran and made tokens when (columns as in ``from_served``)."""
    arrival, start, first, finish = (
        table[name].to_numpy(dtype=float) for name in ("arrival", "start", "first_token", "finish")
    )
    prompt, output = (table[name].to_numpy(dtype=float) for name in ("prompt_tokens", "output_tokens"))
    # An answer that comes as a whole was made all the time.
    began = np.where(np.isnan(first) | (first >= finish), start, first)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(finish > began, output / (finish - began), 0.0)
    one = np.ones_like(arrival)
    steps: list[tuple[Any, ...]] = [
        # when, waiting, running, rate, prompt tokens held, rate · when it began
        (arrival, one, 0, 0, 0, 0),
        (start, -one, one, 0, prompt, 0),
        (began, 0, 0, rate, 0, rate * began),
        (finish, 0, -one, -rate, -prompt, -rate * began),
    ]
    when = np.concatenate([step[0] for step in steps])
    order = np.argsort(when, kind="stable")
    when = when[order]
    columns = [
        np.cumsum(np.concatenate([np.broadcast_to(step[i], arrival.shape) for step in steps])[order])[:-1]
        for i in range(1, 6)
    ]
    dt = np.diff(when)
    some = dt > 0
    waiting, running, rates, prompts, offset = (column[some] for column in columns)
    middle = (when[:-1] + np.diff(when) / 2)[some]
    return Timeline(when[:-1][some], dt[some], waiting, running, rates, prompts + rates * middle - offset)


def _mean_cv(values: NDArray[Any], dt: NDArray[Any]) -> tuple[float, float]:
    """Mean over time, and the standard deviation as a part of it."""
    mean = float((values * dt).sum() / dt.sum())
    variance = float((values**2 * dt).sum() / dt.sum()) - mean**2
    return mean, max(variance, 0.0) ** 0.5 / mean if mean else 0.0


def high(values: NDArray[Any], dt: NDArray[Any]) -> int:
    """Of a number that holds for ``dt`` seconds each time: the value that is exceeded in 1 % of the time."""
    order = np.argsort(values)
    upto = np.cumsum(dt[order]) / dt.sum()
    return int(values[order][np.searchsorted(upto, 0.99)])
