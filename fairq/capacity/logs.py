"""Logs that say when each request was served, as the table that a card is made from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fairq.capacity.card import Card
from fairq.capacity.in_flight import from_ends
from fairq.capacity.measured import from_served
from fairq.files import InputError
from fairq.workload.readers import Log, read_log


class Served(NamedTuple):
    """What a log says of its finished requests.

    ``table``: ``arrival, start, first_token, finish`` in seconds, ``prompt_tokens, output_tokens``;
    ``caveats``: what to know before anything else; ``in_service``: whether the log tells when service began
    (where it does not, ``start`` is NaN).
    """

    table: pd.DataFrame
    caveats: Sequence[str]
    in_service: bool


def served_of(log: Log) -> Served | None:
    """The finished requests of a log; None: it says what was asked, not when it was served."""
    served = _served(log)
    skipped = sum(log.account.skipped.values())
    if served is None or not skipped:
        return served
    return served._replace(caveats=[*served.caveats, f"bad rows left out: {skipped:,}"])


def _served(log: Log) -> Served | None:
    table = log.in_service()
    if table is not None:
        seen = table["first_token"].to_numpy() == table["start"].to_numpy()
        if seen.all():
            words = "the log does not say when service began: it is counted from the first token"
            return Served(table, [words], True)
        return Served(table, [], True)
    if log.served is None or log.served.empty:
        return None
    words = (
        "the log says neither when service began nor when the first token came, so it does not tell who"
        " waited and who was in service: rows count requests in flight, and no limit can be named"
    )
    return Served(log.served, [words], False)


def read_served(path: str | Path, **settings: Any) -> Served | None:
    """The same, of a file; ``settings`` of ``read_log``.

    Raises
    ------
    InputError : the file cannot be read. TraceError : a bad row; names file and line.
    """
    path = Path(path)
    try:
        log = read_log(path, **settings)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return served_of(log)


def card_of_served(served: Served, *, source: str, kv_tokens: int | None = None, **asked: Any) -> Card:
    """The card of a log, as far as it tells. ``asked``: as ``make_card`` takes it. Raises ValueError."""
    if served.in_service:
        return from_served(served.table, source=source, kv_tokens=kv_tokens, caveats=served.caveats, **asked)
    return from_ends(served.table, source=source, caveats=served.caveats, users=asked.get("users"))
