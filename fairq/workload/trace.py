"""A log of real requests as a workload: read strictly, replayed as it was.

A row that cannot be read stops the reading with its file and line: a log that is silently short of its
strangest rows tells a nicer story than the truth.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairq.request import Request
from fairq.workload.check import number, whole
from fairq.workload.seeds import stream
from fairq.workload.tenants import ClosedLoopSource

TIME_UNITS: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds per unit of a numeric time column; ``iso`` is the other choice."""

_CHUNK = 50_000
"""Rows held as text at one time."""


class TraceError(ValueError):
    """A log that cannot be read: ``file:line: what is wrong, and the value``."""


@dataclass(frozen=True)
class Form:
    """The columns of a known kind of log, recognised by its header."""

    arrival: str
    prompt_tokens: str
    output_tokens: str
    tenant: str | None = None


FORMS: Mapping[str, Form] = {
    "azure 2023": Form("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "vtc arena": Form("arrived_s", "input_tokens", "output_tokens", "tenant"),
}


def form_of(path: str | PathLike[str]) -> Form | None:
    """The known form whose columns are all in the file's header, or None. Raises TraceError, OSError."""
    header = _header(Path(path))
    for form in FORMS.values():
        if {form.arrival, form.prompt_tokens, form.output_tokens} <= set(header):
            return form if form.tenant in header else replace(form, tenant=None)
    return None


@dataclass(frozen=True)
class Trace:
    """Requests that were really made. Replayed as they were: seed and replication change nothing.

    ``arrivals`` in seconds since the first one, shape (n,), in order (rows of one instant keep the file's
    order); ``prompt_tokens``, ``output_tokens``, ``priorities`` of that shape, ``tenants`` and ``keys`` as
    long. A row costs prompt + output tokens.
    """

    source: str
    arrivals: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    tenants: Sequence[str]
    keys: Sequence[str] | None = None
    priorities: NDArray[np.float64] | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weight of every tenant (1 unless told otherwise)."""

    def __post_init__(self) -> None:
        names = dict.fromkeys(self.tenants)
        for name, weight in self.weights.items():
            if name not in names:
                raise TraceError(f"{self.source}: weights: no tenant {name!r} in this log")
            number(f"weight of {name!r}", weight, above=0)
        object.__setattr__(self, "weights", {name: self.weights.get(name, 1) for name in names})

    def __len__(self) -> int:
        return len(self.arrivals)

    @property
    def horizon_s(self) -> float:
        """Just after the last arrival, in seconds from the first."""
        return float(np.nextafter(self.arrivals[-1], np.inf))

    @property
    def group_of(self) -> dict[str, str]:
        """Every tenant is its own group."""
        return {name: name for name in self.weights}

    @property
    def patience_s(self) -> dict[str, float]:
        """Nobody in a log is known to give up."""
        return {}

    @property
    def keys_of(self) -> dict[str, tuple[str, ...]]:
        """The API keys of every tenant, in the order of their first use."""
        keys: dict[str, dict[str, None]] = {name: {} for name in self.weights}
        for tenant, key in zip(self.tenants, self.keys or self.tenants, strict=True):
            keys[tenant][key] = None
        return {tenant: tuple(used) for tenant, used in keys.items()}

    def requests(self, seed: int = 0, replication: int = 0) -> list[Request]:
        """One request per row, by arrival; ``id`` counts from 0 in that order."""
        n = len(self)
        columns = zip(
            self.tenants,
            (self.prompt_tokens + self.output_tokens).tolist(),
            self.arrivals.tolist(),
            [0] * n if self.priorities is None else self.priorities.tolist(),
            self.tenants if self.keys is None else self.keys,
            self.prompt_tokens.tolist(),
            self.output_tokens.tolist(),
            range(n),
            strict=True,
        )
        return [
            Request(
                tenant,
                cost,
                arrival=at,
                priority=level,
                key=key,
                prompt_tokens=prompt,
                output_tokens=output,
                id=n,
            )
            for tenant, cost, at, level, key, prompt, output, n in columns
        ]

    def closed_loops(self, seed: int = 0, replication: int = 0) -> list[ClosedLoopSource]:
        """None: a log says when its requests came, whatever happened to the ones before."""
        return []

    def scaled(self, load: float) -> Trace:
        """The same requests, ``load`` times as dense (every arrival divided by it)."""
        number("load", load, above=0)
        return replace(self, arrivals=self.arrivals / load)


def read_csv(
    path: str | PathLike[str],
    *,
    arrival: str,
    prompt_tokens: str,
    output_tokens: str,
    tenant: str | None = None,
    constant: str = "all",
    tenants: int | None = None,
    zipf: float = 1.0,
    seed: int = 0,
    key: str | None = None,
    priority: str | None = None,
    time_unit: str | None = None,
    weights: Mapping[str, float] | None = None,
) -> Trace:
    """Reads a CSV file (with a header) whose columns are named here.

    Parameters
    ----------
    arrival : column of the arrival time: numbers, or ISO 8601 (without a zone: UTC).
    prompt_tokens, output_tokens : columns of whole numbers >= 0, not both 0 in one row.
    tenant : column of the tenant. Without it every row is ``constant``'s, or
    tenants, zipf, seed : each row goes to one of ``tenant-1`` … ``tenant-N``, drawn with chances ∝ 1/i^zipf.
    key, priority : columns of the API key (default: the tenant) and the level (default: 0).
    time_unit : ``s``, ``ms``, ``us``, ``ns`` or ``iso``; None: ``s`` where the first value is a number.
    weights : weight per tenant, default 1.

    Raises
    ------
    TraceError : a missing column, a malformed row, no rows; names file and line.
    OSError : the file cannot be opened.
    """
    if tenant is not None and tenants is not None:
        raise TraceError(f"{path}: give a tenant column or a number of tenants, not both")
    if time_unit is not None and time_unit not in (*TIME_UNITS, "iso"):
        raise TraceError(f"{path}: time_unit must be one of {', '.join(TIME_UNITS)}, iso, got {time_unit!r}")
    source = str(path)
    used = dict.fromkeys((arrival, prompt_tokens, output_tokens, tenant, key, priority))
    converters: dict[str, _Convert] = {name: _names for name in used if name is not None}
    if priority is not None:
        converters[priority] = _numbers
    converters |= {arrival: _times(time_unit), prompt_tokens: _tokens, output_tokens: _tokens}
    columns, lines = _read(Path(path), converters)
    empty = np.flatnonzero(columns[prompt_tokens] + columns[output_tokens] == 0)
    if empty.size:
        raise TraceError(f"{source}:{lines[empty[0]]}: {prompt_tokens} and {output_tokens} are both 0")
    seconds = _since_first(columns[arrival])
    order = np.argsort(seconds, kind="stable")
    if tenants is not None:
        # Drawn by place in time, so that the order of rows in the file does not matter.
        names = _draw_tenants(len(order), tenants, zipf, seed)
    else:
        names = columns[tenant][order] if tenant else np.full(len(order), constant, dtype=object)
    return Trace(
        source=source,
        arrivals=seconds[order],
        prompt_tokens=columns[prompt_tokens][order],
        output_tokens=columns[output_tokens][order],
        tenants=names.tolist(),
        keys=columns[key][order].tolist() if key else None,
        priorities=columns[priority][order] if priority else None,
        weights=weights or {},
    )


def _draw_tenants(n: int, tenants: int, zipf: float, seed: int) -> NDArray[Any]:
    """Names, shape (n,), drawn with chances ∝ 1/i^zipf."""
    whole("tenants", tenants, least=1)
    number("zipf", zipf, least=0)
    chances = np.arange(1, tenants + 1, dtype=float) ** -zipf
    upto = np.cumsum(chances) / chances.sum()
    drawn = np.searchsorted(upto[:-1], stream(seed, 0, "", "tenant").random(n), side="right")
    return np.array([f"tenant-{i}" for i in range(1, tenants + 1)], dtype=object)[drawn]


# -- reading ------------------------------------------------------------------------------------------

_Convert: TypeAlias = Callable[["pd.Series[Any]"], tuple[NDArray[Any], NDArray[np.bool_], str]]
"""Text of one column → values, which of them are bad, and what they should have been."""


def _read(
    path: Path, converters: Mapping[str, _Convert]
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """The columns named, as arrays of shape (rows,), and the line of every row."""
    wanted = list(converters)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in wanted}
    lines: list[NDArray[np.int64]] = []
    with _open(path) as file:
        for rows, at in _chunks(path, file, wanted):
            lines.append(np.array(at))
            for name, cells in zip(wanted, zip(*rows, strict=True), strict=True):
                values, bad, should = converters[name](pd.Series(cells, dtype=object))
                if bad.any():
                    row = int(np.flatnonzero(bad)[0])
                    raise TraceError(f"{path}:{at[row]}: {name} must be {should}, got {cells[row]!r}")
                parts[name].append(values)
    if not lines:
        raise TraceError(f"{path}:1: no rows below the header")
    return {name: np.concatenate(chunks) for name, chunks in parts.items()}, np.concatenate(lines)


def _chunks(path: Path, file: Any, wanted: list[str]) -> Iterator[tuple[list[tuple[str, ...]], list[int]]]:
    """Rows of the wanted columns and their line numbers, some at a time."""
    rows = _rows(path, file)
    _, header = next(rows, (1, []))
    places = [_place(path, header, name) for name in wanted]
    pick, width = itemgetter(*places), len(header)
    while True:
        cells: list[tuple[str, ...]] = []
        lines: list[int] = []
        for line, row in islice(rows, _CHUNK):
            if len(row) != width:
                got = f"{len(row)} fields where the header has {width}: {','.join(row)[:80]!r}"
                raise TraceError(f"{path}:{line}: {got}")
            cells.append(pick(row))
            lines.append(line)
        if not cells:
            return
        yield cells, lines


def _rows(path: Path, file: Any) -> Iterator[tuple[int, list[str]]]:
    """Every row with the line it starts on. Blank lines at the very end are no rows; elsewhere they are."""
    reader = csv.reader(file, strict=True)
    blank: list[int] = []
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except (csv.Error, UnicodeDecodeError) as error:
            raise TraceError(f"{path}:{line}: cannot be read as CSV: {error}") from None
        if row is None:
            return
        if not row:
            blank.append(line)
            continue
        if blank:
            raise TraceError(f"{path}:{blank[0]}: an empty line between rows")
        yield line, row


def _place(path: Path, header: list[str], name: str) -> int:
    if header.count(name) != 1:
        problem = "no column" if name not in header else "more than one column"
        raise TraceError(f"{path}:1: {problem} {name!r}; the header has: {', '.join(header) or 'nothing'}")
    return header.index(name)


def _header(path: Path) -> list[str]:
    with _open(path) as file:
        return next(_rows(path, file), (1, []))[1]


def _open(path: Path) -> Any:
    # utf-8-sig: spreadsheets put a byte-order mark in front of the first column's name.
    return path.open(encoding="utf-8-sig", newline="")


# -- text → values ------------------------------------------------------------------------------------


def _names(cells: pd.Series[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    return cells.to_numpy(dtype=object), (cells.str.strip() == "").to_numpy(dtype=bool), "a name"


def _numbers(cells: pd.Series[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    values = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=float)
    return values, ~np.isfinite(values), "a finite number"


def _tokens(cells: pd.Series[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    values, bad, _ = _numbers(cells)
    with np.errstate(invalid="ignore"):
        bad = bad | (values < 0) | (values != np.floor(values)) | (values > 2**53)
    return np.where(bad, 0, values).astype(np.int64), bad, "a whole number >= 0"


def _times(unit: str | None) -> _Convert:
    """The converter of a time column. ``None`` settles at the first value seen, for the whole file."""
    settled = unit

    def convert(cells: pd.Series[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
        nonlocal settled
        if settled is None:
            settled = "iso" if _numbers(cells[:1])[1].any() else "s"
        if settled == "iso":
            return _instants(cells)
        values, bad, _ = _numbers(cells)
        return values * TIME_UNITS[settled], bad, f"a number ({settled})"

    return convert


def _instants(cells: pd.Series[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    """ISO 8601 → whole nanoseconds since 1970, so that no digit is lost before the first is subtracted."""
    values = pd.to_datetime(cells, format="ISO8601", errors="coerce", utc=True)
    bad = values.isna().to_numpy(dtype=bool)
    return (
        values.dt.tz_localize(None).to_numpy(dtype="datetime64[ns]").astype(np.int64),
        bad,
        "a time (ISO 8601)",
    )


def _since_first(times: NDArray[Any]) -> NDArray[np.float64]:
    """Seconds since the earliest; integers are nanoseconds."""
    since = times - times.min()
    seconds: NDArray[np.float64] = since / 1e9 if times.dtype == np.int64 else since
    return seconds
