"""The verdict of ``fairq.saturation`` on a log, by its own times, and on a simulated run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairq.capacity.measured import QUEUED, Queue, queue_of, timeline
from fairq.capacity.modelled import relief_of
from fairq.result import Result
from fairq.saturation import RELIEF, Series, Verdict, judge, series_of
from fairq.scenario import Scenario
from fairq.scenario.fleets import CardSpec

SAMPLES = 1000


def series_of_served(table: pd.DataFrame, *, kv_tokens: float | None = None) -> Series:
    """What scrapes of the box would have seen while a log was served, a thousand from first to last.

    Parameters
    ----------
    table : ``arrival, start, first_token, finish`` in seconds, ``prompt_tokens, output_tokens``.
    kv_tokens : what the KV cache holds. None: as much as was held while people waited, where that stayed the
        same and the number in service did not (as on the card: then KV binds); else KV is not known.

    Raises
    ------
    ValueError : no row, or a log without length.
    """
    if table.empty:
        raise ValueError("no finished request in the log")
    time = timeline(table)
    if not time.dt.size:
        raise ValueError("all of the log is one moment: a verdict needs some time")
    t = np.linspace(time.t[0], time.t[-1] + time.dt[-1], SAMPLES + 1)
    at = np.searchsorted(time.t, t, side="right") - 1
    over = t >= t[-1]
    queue = queue_of(time)
    full = kv_tokens if kv_tokens is not None else queue.held if queue.kv_binds else None

    def seen(values: Any) -> Any:
        return np.where(over, 0.0, np.maximum(values[at], 0.0))

    finish = np.sort(table["finish"].to_numpy(dtype=float))
    return Series(
        t,
        seen(time.running),
        seen(time.waiting),
        None if full is None else np.minimum(seen(time.held) / full, 1.0),
        np.searchsorted(finish, t, side="right").astype(float),
    )


def queue_words(table: pd.DataFrame, kv_tokens: float | None = None) -> str:
    """What is known of the KV cache, in a line."""
    queue: Queue = queue_of(timeline(table))
    if kv_tokens is not None:
        return f"KV cache as given: {kv_tokens:,.0f} tokens"
    if queue.share < QUEUED:
        return "hardly anybody waited: the log does not show what the KV cache holds"
    words = f"while people waited, {queue.words}"
    if queue.kv_binds:
        return f"{words}: the tokens stay the same, so they are taken for a full KV cache"
    return f"{words}: the log does not show what the KV cache holds"


def verdict_of(scenario: Scenario, result: Result, slots: float | None = None) -> Verdict:
    """The verdict on a run, seen as a scrape every half a per cent of the time would see it.

    ``slots``: how many can run, where it is not what the engine has.

    Raises
    ------
    ValueError : a run without length.
    """
    known = slots or result.slots
    if isinstance(scenario.engine_spec, CardSpec):
        # The series of several engines are not one; what waits and runs can be counted from the requests.
        seen = Result(result.all_requests, slots=result.slots, until=result.until)
        return judge(series_of(seen), slots=known, relief=RELIEF)
    return judge(series_of(result), slots=known, relief=relief_of(scenario))
