"""Logs that say when each request was served: which columns mean what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairq.files import InputError

SERVED = ("arrival", "start", "first_token", "finish", "prompt_tokens", "output_tokens")
"""Columns of the table that comes out: times in seconds, sizes in tokens."""

FORMS: Mapping[str, Mapping[str, str]] = {
    "fairq run": {name: name for name in SERVED},
    "vLLM run": {
        "arrival": "queued_ts",
        "start": "scheduled_ts",
        "first_token": "first_token_ts",
        "finish": "last_token_ts",
        "prompt_tokens": "input_toks",
        "output_tokens": "output_toks",
    },
}
"""Kinds of log with all six times and sizes, by their columns."""

ARENA = ("arrived_s", "input_tokens", "output_tokens", "first_token_s", "latency_s")
"""A log with durations in place of times; who is in service is seen from the first token on."""


def read_served(path: str | Path) -> pd.DataFrame | None:
    """The finished requests of a log with ``SERVED`` columns; None for a log that says only what was asked.

    A log of several runs (``fairq run --out``: policies and replications) gives the first of them.

    Raises
    ------
    InputError : the file cannot be read, or a row has no number where there must be one; names file and row.
    """
    path = Path(path)
    rows = _read(path)
    served = _served(rows)
    if served is None:
        return None
    done = served["finish"].notna().to_numpy()
    for name in SERVED:
        values = pd.to_numeric(served[name], errors="coerce")
        bad = values.isna().to_numpy() & done & (name != "first_token")
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"{path}: request {row + 1}: {name} must be a number, got {served[name].iloc[row]!r}"
            )
        served[name] = values
    served = served[done].reset_index(drop=True)
    wrong = (served["finish"] < served["start"]) | (served["start"] < served["arrival"])
    if wrong.any():
        row = int(np.flatnonzero(wrong.to_numpy())[0])
        raise InputError(f"{path}: finished request {row + 1}: arrival, start and finish are out of order")
    if served.empty:
        raise InputError(f"{path}: no finished request")
    return served


def _read(path: Path) -> pd.DataFrame:
    try:
        if path.suffix.lower() in (".jsonl", ".ndjson"):
            return pd.read_json(path, lines=True, dtype=False)
        return pd.read_csv(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None


def _served(rows: pd.DataFrame) -> pd.DataFrame | None:
    there = set(rows.columns)
    for form in FORMS.values():
        if set(form.values()) <= there:
            for name in ("policy", "replication"):
                if name in there:
                    rows = rows[rows[name] == rows[name].iloc[0]]
            return pd.DataFrame({name: rows[column] for name, column in form.items()}).reset_index(drop=True)
    if set(ARENA) <= there:
        arrived: Any = rows["arrived_s"]
        first = arrived + rows["first_token_s"]
        return pd.DataFrame(
            {
                "arrival": arrived,
                "start": first,
                "first_token": first,
                "finish": arrived + rows["latency_s"],
                "prompt_tokens": rows["input_tokens"],
                "output_tokens": rows["output_tokens"],
            }
        )
    return None
