"""Logs that say when each request was served, as the table that a card is made from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fairq.files import InputError
from fairq.workload.readers import read_log


def read_served(path: str | Path) -> tuple[pd.DataFrame, Sequence[str]] | None:
    """The finished requests of a log (``arrival, start, first_token, finish`` in seconds, ``prompt_tokens,
    output_tokens``), and what to know about them; or None.

    None: the log says what was asked, not when it was served.

    Raises
    ------
    InputError : the file cannot be read. TraceError : a bad row; names file and line.
    """
    path = Path(path)
    try:
        log = read_log(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    table = log.in_service()
    if table is not None:
        seen = table["first_token"].to_numpy() == table["start"].to_numpy()
        if seen.all():
            return table, ["the log does not say when service began: it is counted from the first token"]
        return table, []
    if log.served is None or log.served.empty:
        return None
    note = "the log says neither when service began nor when the first token came: waiting counts as service"
    return log.served.assign(start=log.served["arrival"]), [note]
