"""A card from a log that has only arrivals and ends: what was in flight, not what was in service.

Nothing is carried on beyond what was seen. An answer is counted at its end, over the shortest time in which
its tokens can have been made: nobody's came faster than those of the quickest answers of the log. Spread from
its arrival, an answer that waited would seem to be made while others were.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairq.capacity.card import Card, Limits, StreamRow, UserRow
from fairq.capacity.measured import high, levels_of, timeline
from fairq.capacity.shape import Shape

QUICKEST = 0.01
"""Part of the answers that may be quicker than the speed at which tokens are taken to be made."""
WINDOW_S = 60.0


def from_ends(
    table: pd.DataFrame, *, source: str, caveats: Sequence[str] = (), users: int | None = None
) -> Card:
    """The card of a box from arrivals, ends and sizes: how much it made with so many requests in flight.

    No row is above the busiest minute. Times to the first token are NaN, nothing binds, no promise is judged.

    Parameters
    ----------
    table : ``arrival, finish`` in seconds, ``prompt_tokens, output_tokens``; a row per finished request.
    users : leave out rows above this; default: none.

    Raises
    ------
    ValueError : no row, nothing generated, users below 1.
    """
    if table.empty:
        raise ValueError("no finished request in the log")
    if users is not None and users < 1:
        raise ValueError(f"users must be >= 1, got {users!r}")
    shape = Shape.from_sizes(table["prompt_tokens"], table["output_tokens"])
    made = _made(table)
    busiest = busiest_minute(made)
    time = timeline(made)
    most = max(high(time.running[time.running > 0], time.dt[time.running > 0]), 1)
    levels = [each for each in levels_of(made) if each.streams <= most and each.seconds > 0]
    n = np.array([each.streams for each in levels])
    seconds = np.array([each.seconds for each in levels])
    tokens = np.array([each.tokens for each in levels])
    totals = np.minimum(_rising(tokens / seconds, seconds), busiest)
    numbers = np.arange(n[0], n[-1] + 1)
    seen = {int(each.streams): each for each in levels}
    rows = [
        _stream_row(int(count), float(total), shape, seen.get(int(count)))
        for count, total in zip(numbers, np.interp(numbers, n, totals), strict=True)
        if total > 0
    ]
    if not rows:
        raise ValueError("nothing was generated, so there is no speed to report")
    return Card(
        source=source,
        kind="log",
        shape=shape,
        limits=Limits(),
        max_streams=int(rows[-1].streams),
        binds="",
        by_streams=rows,
        by_users=[_user_row(row, shape) for row in rows if row.streams <= (users or inf)],
        target=None,
        caveats=list(caveats),
        arithmetic=[
            f"the busiest minute: {busiest:,.1f} tokens/s, each answer counted at its end; no row is above it"
        ],
        extra={"in_service": False, "busiest_tokens_per_s": busiest},
    )


def busiest_minute(table: pd.DataFrame) -> float:
    """Tokens per second in the minute (or all the time there is, if less) in which most were made."""
    time = timeline(table)
    upto = np.concatenate([[0.0], np.cumsum(time.rate * time.dt)])
    edges = np.append(time.t, time.t[-1] + time.dt[-1])
    span = min(WINDOW_S, float(edges[-1] - edges[0]))
    # What is made changes its rate only at edges: the best window begins or ends at one.
    begins = np.concatenate([edges, edges - span])
    begins = begins[(begins >= edges[0]) & (begins <= edges[-1] - span + 1e-9)]
    within = np.interp(begins + span, edges, upto) - np.interp(begins, edges, upto)
    return float(within.max() / span)


def _made(table: pd.DataFrame) -> pd.DataFrame:
    """The table with everybody in flight since the arrival, and tokens made just before the end."""
    arrival, finish, output = (
        table[name].to_numpy(dtype=float) for name in ("arrival", "finish", "output_tokens")
    )
    some = output > 0
    per_token = np.where(some, (finish - arrival) / np.where(some, output, 1.0), 0.0)
    quickest = float(np.quantile(per_token[some], QUICKEST)) if some.any() else 0.0
    began = np.maximum(arrival, finish - output * quickest)
    return table.assign(start=table["arrival"], first_token=began)


def _rising(values: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """The nearest values (weighted squares) that never fall: neighbours that do are pooled."""
    pools: list[list[float]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append([float(value), float(weight), 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            last, before = pools.pop(), pools.pop()
            weight = before[1] + last[1]
            pools.append([(before[0] * before[1] + last[0] * last[1]) / weight, weight, before[2] + last[2]])
    return np.repeat([each[0] for each in pools], [int(each[2]) for each in pools])


def _stream_row(n: int, total: float, shape: Shape, level: Any) -> StreamRow:
    return StreamRow(
        streams=n,
        tokens_per_s=total,
        tokens_per_s_per_stream=total / n,
        time_per_output_token_s=nan,
        first_token_s=nan,
        requests_per_s=total / shape.output_tokens,
        measured_tokens_per_s=None if level is None else level.tokens / level.seconds,
        measured_s=None if level is None else level.seconds,
    )


def _user_row(row: StreamRow, shape: Shape) -> UserRow:
    return UserRow(
        users=int(row.streams),
        streams=int(row.streams),
        waiting=0,
        tokens_per_s=row.tokens_per_s,
        tokens_per_s_per_user=row.tokens_per_s_per_stream,
        ttft_s=nan,
        time_per_output_token_s=nan,
        latency_s=row.streams * shape.output_tokens / row.tokens_per_s,
    )
