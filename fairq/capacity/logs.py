"""Logs that say when each request was served, as the table that a card is made from."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fairq.files import InputError
from fairq.workload.readers import read_log

SERVED = ("arrival", "start", "first_token", "finish", "prompt_tokens", "output_tokens")
"""Columns of the table that comes out: times in seconds, sizes in tokens."""


def read_served(path: str | Path) -> tuple[pd.DataFrame, Sequence[str]] | None:
    """The finished requests of a log with ``SERVED`` columns, and what to know about them; or None.

    None: the log says what was asked, not when it was served. A file of ``fairq run --out`` (all its policies
    and replications) gives its first run; every other form is that of ``fairq.workload.readers``.

    Raises
    ------
    InputError : the file cannot be read; names file and line or row.
    """
    path = Path(path)
    if path.suffix.lower() == ".csv" and set(SERVED) <= set(_header(path)):
        return _own(path), []
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


def _header(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [name.strip() for name in next(csv.reader(file), [])]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _own(path: Path) -> pd.DataFrame:
    """A table as ``Result.to_csv`` and ``fairq run --out`` write it."""
    try:
        rows = pd.read_csv(path, encoding="utf-8-sig")
    except ValueError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None
    for name in ("policy", "replication"):
        if name in rows:
            rows = rows[rows[name] == rows[name].iloc[0]]
    table = pd.DataFrame({name: rows[name] for name in SERVED})
    done = table["finish"].notna().to_numpy()
    for name in SERVED:
        values = pd.to_numeric(table[name], errors="coerce")
        bad = values.isna().to_numpy() & done & (name != "first_token")
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            line = int(table.index[at]) + 2
            raise InputError(f"{path}:{line}: {name} must be a number, got {table[name].iloc[at]!r}")
        table[name] = values
    table = table[done]
    wrong = (table["finish"] < table["start"]) | (table["start"] < table["arrival"])
    if wrong.any():
        line = int(table.index[int(np.flatnonzero(wrong.to_numpy())[0])]) + 2
        raise InputError(f"{path}:{line}: arrival, start and finish are out of order")
    if table.empty:
        raise InputError(f"{path}: no finished request")
    return table.reset_index(drop=True)
