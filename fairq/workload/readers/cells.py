"""Cells → values: each converter says which cells are bad and what they should have been."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairq.workload.check import CONTROL

TIME_UNITS: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds per unit of a numeric time column; ``iso`` is the other choice."""

_EPOCHS = (("ns", 1e17), ("us", 1e14), ("ms", 1e11))
"""A number above this is an epoch in that unit: as seconds it would be after the year 5000."""


class Values(NamedTuple):
    """``values`` of shape (n,), which of them are ``bad``, and what they ``should`` have been."""

    values: NDArray[Any]
    bad: NDArray[np.bool_]
    should: str


Convert = Callable[[Sequence[Any]], Values]


def numbers(cells: Sequence[Any]) -> Values:
    """Finite numbers; text that reads as one, too."""
    values = _floats(cells)
    return Values(values, ~np.isfinite(values), "a finite number")


def tokens(cells: Sequence[Any]) -> Values:
    """Whole numbers from 0 to 2**53."""
    values = _floats(cells)
    with np.errstate(invalid="ignore"):
        bad = ~np.isfinite(values) | (values < 0) | (values != np.floor(values)) | (values > 2**53)
    return Values(np.where(bad, 0, values).astype(np.int64), bad, "a whole number >= 0")


def maybe_numbers(cells: Sequence[Any]) -> Values:
    """Numbers, NaN where there is none (nothing is bad)."""
    values = _floats(cells)
    return Values(np.where(np.isfinite(values), values, np.nan), np.zeros(len(values), dtype=bool), "")


def names(cells: Sequence[Any]) -> Values:
    """Text with something in it; equal texts become one object, so that a million rows cost little."""
    codes, found = pd.factorize(_objects(cells), use_na_sentinel=False)
    texts = np.empty(len(found), dtype=object)
    texts[:] = [_text(each) for each in found]
    empty = np.array([not text.strip() for text in texts], dtype=bool)
    control = np.array([CONTROL.search(text) is not None for text in texts], dtype=bool)
    should = "a name without control characters" if control.any() else "a name"
    return Values(texts[codes], (empty | control)[codes], should)


class Times:
    """The converter of a time column: seconds as floats, or, from dates, whole nanoseconds since 1970.

    ``unit`` None settles at the first value seen, for the whole file: dates where it is no number; else the
    unit in which the number is a date of this era, or seconds.
    """

    def __init__(self, unit: str | None) -> None:
        self.unit = unit

    def __call__(self, cells: Sequence[Any]) -> Values:
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
            self.unit = "iso"
            bad = np.isnat(cells)
            return Values(np.where(bad, 0, cells.astype(np.int64)), bad, "a time")
        if self.unit is None:
            self.unit = _unit_of(cells[0]) if len(cells) else "s"
        if self.unit == "iso":
            return _instants(cells)
        values = _floats(cells)
        return Values(values * TIME_UNITS[self.unit], ~np.isfinite(values), f"a number ({self.unit})")


def hint(should: str, cell: Any) -> str:
    """What to try, where a number was wanted and a date is there; else nothing."""
    if not should.startswith("a number (") or _instants([cell]).bad[0]:
        return ""
    return ": dates are read with time_unit iso (--time-unit iso)"


def _unit_of(cell: Any) -> str:
    first = float(_floats([cell])[0])
    if not np.isfinite(first):
        return "iso"
    return next((unit for unit, least in _EPOCHS if abs(first) >= least), "s")


def _instants(cells: Sequence[Any]) -> Values:
    """ISO 8601 → whole nanoseconds since 1970, so that no digit is lost before the first is subtracted."""
    texts = pd.Series(_objects(cells), dtype=object)
    # A bare number would be taken for nanoseconds.
    texts = texts.where(texts.map(lambda cell: isinstance(cell, str)))
    times = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    bad = times.isna().to_numpy(dtype=bool)
    values = times.dt.tz_localize(None).to_numpy(dtype="datetime64[ns]").astype(np.int64)
    return Values(np.where(bad, 0, values), bad, "a time (ISO 8601)")


def _floats(cells: Sequence[Any]) -> NDArray[np.float64]:
    """Numbers as floats; NaN for what is none."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        return cells.astype(float)
    kinds = set(map(type, cells))
    if kinds <= {int, float}:
        return np.array(cells, dtype=float)
    if kinds == {str}:
        try:
            values = np.array(cells, dtype=object).astype(float)
        except (ValueError, OverflowError):
            return _one_by_one(cells)
        # float() allows 1_000, which no log means.
        return _one_by_one(cells) if "_" in "".join(cells) else values
    return _one_by_one(cells)


def _one_by_one(cells: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([_float(cell) for cell in cells], dtype=float)


def _float(cell: Any) -> float:
    if isinstance(cell, bool) or cell is None or (isinstance(cell, str) and "_" in cell):
        return float("nan")
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _objects(cells: Sequence[Any]) -> NDArray[Any]:
    made = np.empty(len(cells), dtype=object)
    made[:] = cells
    return made
