"""A log file → its requests, and an account of what was read, dropped and skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairq.files import separated
from fairq.workload.check import number, whole
from fairq.workload.readers.cells import (
    TIME_UNITS,
    Times,
    Values,
    hint,
    maybe_numbers,
    names,
    numbers,
    tokens,
)
from fairq.workload.readers.forms import Columns, Form, find_form, known_as, unread
from fairq.workload.readers.tables import Chunk, Table, open_table, place
from fairq.workload.seeds import stream
from fairq.workload.trace import Trace, TraceError

_MOMENTS = ("start", "first_token", "finish")
_SPANS = ("ttft", "latency")
_MORE = ("key", "priority", *_MOMENTS, *_SPANS)
"""Columns that need not be there: where one is, the account names it."""


@dataclass
class Account:
    """What became of the rows of a file. ``dropped`` and ``skipped``: why → how many."""

    source: str
    form: str
    columns: Columns
    time_unit: str = ""
    rows: int = 0
    read: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    first_skipped: dict[str, str] = field(default_factory=dict)
    begin: str | None = None
    """The moment of the first arrival, ISO 8601 in UTC, where the times are dates."""
    horizon_s: float = 0.0
    tenants: int = 0
    notes: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    """Fields that nobody named → a column that is called like one (``fairq.workload.readers.forms``)."""

    def lines(self) -> list[str]:
        """The account for people."""
        used = self.columns
        tenant = " or ".join(used.tenant) or "no column"
        named = {name.replace("_", " "): getattr(used, name) for name in _MORE}
        more = "".join(f", {name} = {column}" for name, column in named.items() if column)
        text = [
            f"{self.source}: {self.form}; arrival = {used.arrival} ({self.time_unit}),"
            f" prompt = {used.prompt_tokens}, output = {used.output_tokens}, tenant = {tenant}{more}",
            *self.counts(),
        ]
        since = "" if self.begin is None else f" from {self.begin}"
        text.append(f"{self.tenants:,} tenants over {self.horizon_s:,.1f} s{since}")
        return [*text, *self.notes]

    def counts(self) -> list[str]:
        """How many rows were read, and which were not, and why."""
        text = [
            f"{self.rows:,} rows: {self.read:,} read, {sum(self.dropped.values()):,} dropped,"
            f" {sum(self.skipped.values()):,} skipped"
        ]
        text += [f"  dropped {count:,}: {why}" for why, count in self.dropped.items()]
        text += [
            f"  skipped {count:,}: {why} (first at {self.first_skipped[why]})"
            for why, count in self.skipped.items()
        ]
        return text

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        shown = dict(vars(self))
        return shown | {"columns": {k: v for k, v in vars(self.columns).items() if v}}


@dataclass(frozen=True)
class Log:
    """``trace``: the requests; ``account``: of the reading; ``served``: what the log says became of them.

    ``served`` has a row per request whose end is known: ``tenant, arrival, start, first_token, finish``
    (seconds since the first arrival, or since fairq's own run began; NaN: not in the log),
    ``prompt_tokens, output_tokens``; or None.
    """

    trace: Trace
    account: Account
    served: pd.DataFrame | None = None

    def in_service(self) -> pd.DataFrame | None:
        """``served`` where every row says when service began: its start, or else its first token.

        None where the log says neither. For a capacity card (``fairq.capacity.from_served``).
        """
        if self.served is None:
            return None
        began = self.served["start"].fillna(self.served["first_token"])
        table = self.served.assign(start=began)[began.notna()]
        usable = (table["start"] >= table["arrival"]) & (table["start"] <= table["finish"])
        return pd.DataFrame(table[usable].reset_index(drop=True)) if usable.any() else None


def read_log(
    path: str | PathLike[str],
    *,
    form: str | None = None,
    arrival: str | None = None,
    prompt_tokens: str | None = None,
    output_tokens: str | None = None,
    tenant: str | None = None,
    constant: str = "all",
    tenants: int | None = None,
    zipf: float = 1.0,
    seed: int = 0,
    key: str | None = None,
    priority: str | None = None,
    start: str | None = None,
    first_token: str | None = None,
    finish: str | None = None,
    time_unit: str | None = None,
    weights: Mapping[str, float] | None = None,
    skip_bad: bool = False,
    hash_keys: str | None = None,
) -> Log:
    """Reads a CSV, JSONL, JSON or Parquet file; known forms are recognised by their columns.

    Parameters
    ----------
    form : a name in ``FORMS``; None: recognised. Columns given here go before the form's.
    arrival : column of the arrival time: numbers, or ISO 8601 (without a zone: UTC).
    prompt_tokens, output_tokens : columns of whole numbers >= 0, not both 0 in one row.
    tenant : column of the tenant. Without one every row is ``constant``'s, or
    tenants, zipf, seed : each row goes to one of ``tenant-1`` … ``tenant-N``, drawn with chances ∝ 1/i^zipf.
    key, priority : columns of the API key (default: the tenant) and the level (default: 0).
    start, first_token, finish : columns of times like ``arrival``.
    time_unit : ``s``, ``ms``, ``us``, ``ns`` or ``iso``; None: as the first value looks.
    weights : weight per tenant, default 1.
    skip_bad : leave out rows that cannot be read, and count them; otherwise the first one is an error.
    hash_keys : replaces names of tenants and keys by keyed hashes (BLAKE2b under this text): the same name
        is the same hash, and nobody without the text can tell whose. Dates become seconds in any case.

    Raises
    ------
    TraceError : a missing column, a malformed row, no rows; names file and line.
    OSError : the file cannot be opened.
    """
    file, source = Path(path), str(path)
    if tenant is not None and tenants is not None:
        raise TraceError(f"{source}: give a tenant column or a number of tenants, not both")
    if time_unit is not None and time_unit not in (*TIME_UNITS, "iso"):
        raise TraceError(
            f"{source}: time_unit must be one of {', '.join(TIME_UNITS)}, iso, got {time_unit!r}"
        )
    table = open_table(file)
    given = {
        "arrival": arrival,
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "key": key,
        "priority": priority,
        "start": start,
        "first_token": first_token,
        "finish": finish,
    }
    found, columns = _columns(table, source, form, given)
    if tenant is not None or tenants is not None:
        columns = replace(columns, tenant=() if tenant is None else (tenant,))
    unit = time_unit or (found.time_unit if found is not None and arrival is None else None)
    account = Account(source, "columns as given" if found is None else found.name, columns)
    account.unread = unread(columns, table.header)
    if tenants is not None:
        account.unread.pop("tenant", None)
    rows = _Reader(file, table, columns, found, unit, skip_bad, account).read()
    as_it_is = found is not None and found.as_it_is
    return _log(rows, account, columns, constant, tenants, zipf, seed, weights, hash_keys, as_it_is)


def _columns(
    table: Table, source: str, named: str | None, given: Mapping[str, str | None]
) -> tuple[Form | None, Columns]:
    """The form, if there is one, and the columns: those given, then the form's."""
    chosen: dict[str, Any] = {name: column for name, column in given.items() if column is not None}
    needed = ("arrival", "prompt_tokens", "output_tokens")
    missing = [name for name in needed if name not in chosen]
    form = find_form(table.header, table.shape, source, named) if missing or named is not None else None
    if form is None:
        if missing:
            there = f"{', '.join(table.header[:20]) or 'nothing'}{separated(table.header)}"
            lacking = next((name for name in missing if not known_as(name, table.header)), missing[0])
            raise TraceError(f"{source}: {lacking}: which column? It has: {there}")
        return None, Columns(**chosen)
    columns = form.columns(table.header)
    assert columns is not None
    return form, replace(columns, **chosen)


class _Reader:
    """Reads the chunks of one table; what each column becomes is settled once."""

    def __init__(
        self,
        path: Path,
        table: Table,
        columns: Columns,
        form: Form | None,
        unit: str | None,
        skip_bad: bool,
        account: Account,
    ) -> None:
        self._path = path
        self._table = table
        self._columns = columns
        self._skip = skip_bad
        self._account = account
        self._drops = [rule for rule in (form.drop if form else ()) if rule.column in table.header]
        self._one_run = [name for name in (form.one_run if form else ()) if name in table.header]
        self._first_run: dict[str, Any] = {}
        self._as_it_is = form is not None and form.as_it_is
        # A gateway also logs calls that have no tokens (health checks, pictures).
        self._drop_empty = form is not None and "log" in form.name
        self._arrival = Times(unit)
        self._unclear = dict.fromkeys(_MOMENTS, 0)
        self._refused_rows: list[tuple[int, str]] = []

    def read(self) -> dict[str, NDArray[Any]]:
        """All columns that there are, shape (rows read,), in the order of the file."""
        drops = [*(rule.column for rule in self._drops), *self._one_run]
        wanted = list(dict.fromkeys([*self._columns.used(), *drops]))
        parts: dict[str, list[NDArray[Any]]] = {}
        for chunk in self._table.chunks(wanted):
            for name, values in self._values(chunk).items():
                parts.setdefault(name, []).append(values)
        account = self._account
        account.time_unit = self._arrival.unit or ""
        for name, count in self._unclear.items():
            if count:
                account.notes.append(f"{count:,} rows without {getattr(self._columns, name)}")
        if not account.read:
            what = (
                "rows below the header" if self._table.shape == "rows" and not account.rows else "usable rows"
            )
            raise TraceError(f"{self._path}:1: no {what}" + self._because())
        return {name: np.concatenate(each) for name, each in parts.items()}

    def _because(self) -> str:
        account = self._account
        lost = [f"{count:,} {why}" for why, count in {**account.dropped, **account.skipped}.items()]
        return f" ({'; '.join(lost)})" if lost else ""

    def _values(self, chunk: Chunk) -> dict[str, NDArray[Any]]:
        account, columns, n = self._account, self._columns, len(chunk.lines)
        account.rows += n + len(chunk.bad)
        for bad in chunk.bad:
            self._refuse(bad.line, bad.why, bad.why.partition(",")[0].partition(":")[0])
        keep = np.ones(n, dtype=bool)
        for rule in self._drops:
            mine = keep & np.fromiter((cell in rule.values for cell in chunk.columns[rule.column]), bool, n)
            self._count(account.dropped, rule.why, int(mine.sum()))
            keep &= ~mine
        for name in self._one_run if n else ():
            cells = chunk.columns[name]
            first = self._first_run.setdefault(name, cells[0])
            mine = keep & np.fromiter((cell != first for cell in cells), bool, n)
            self._count(account.dropped, f"another {name} than {first}", int(mine.sum()))
            keep &= ~mine
        values: dict[str, NDArray[Any]] = {}
        for field_name, convert in (
            ("arrival", self._arrival),
            ("prompt_tokens", tokens),
            ("output_tokens", tokens),
            ("key", names),
            ("priority", numbers),
        ):
            column = getattr(columns, field_name)
            if not column:
                continue
            cells = chunk.columns[column]
            found = convert(cells)
            if field_name == "key" and len(columns.tenant) > 1:
                # Where several columns may say who it was, some are empty; the tenant stands in.
                values[field_name] = found.values
                continue
            keep &= ~self._refused(found.bad & keep, chunk, column, found.should, cells)
            values[field_name] = found.values
        if columns.tenant:
            values["tenant"], nameless, should = _first_name(chunk, columns.tenant)
            column = "/".join(columns.tenant)
            cells = chunk.columns[columns.tenant[0]]
            keep &= ~self._refused(nameless & keep, chunk, column, should, cells)
            if "key" in values:
                blank = np.array([not each.strip() for each in values["key"]], dtype=bool)
                values["key"] = np.where(blank, values["tenant"], values["key"])
        nothing = keep & (values["prompt_tokens"] + values["output_tokens"] == 0)
        if nothing.any():
            if self._drop_empty:
                self._count(account.dropped, "no tokens", int(nothing.sum()))
            else:
                why = f"{columns.prompt_tokens} and {columns.output_tokens} are both 0"
                for row in np.flatnonzero(nothing):
                    self._refuse(int(chunk.lines[row]), why, why)
            keep &= ~nothing
        served = self._served(chunk, keep)
        if self._as_it_is:
            keep &= ~self._out_of_order(chunk, keep, values["arrival"], served)
        if self._refused_rows:  # columns are looked at one after the other: name the first row, not column
            line, message = min(self._refused_rows)
            # One thing to try at a time: a column in another unit is bad in every row.
            advice = "" if "(--" in message else "; skip_bad (--skip-bad) leaves such rows out"
            raise TraceError(f"{place(self._path, self._table, line)}: {message}{advice}")
        values |= served
        account.read += int(keep.sum())
        return {name: each[keep] for name, each in values.items()}

    def _served(self, chunk: Chunk, keep: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """What the log says of the answer; NaN (or the least integer, among dates) where it says nothing."""
        values = {}
        for name in _MOMENTS:
            column = getattr(self._columns, name)
            if column:
                found = Times(self._arrival.unit)(chunk.columns[column])
                cells = chunk.columns[column]
                if self._as_it_is:  # empty: it did not happen; anything else is damage
                    damaged = (
                        found.bad & keep & np.array([_text_of(cell) != "" for cell in cells], dtype=bool)
                    )
                    keep &= ~self._refused(damaged, chunk, column, found.should, cells)
                else:
                    self._unclear[name] += int((found.bad & keep).sum())
                values[name] = np.where(
                    found.bad, _NEVER if found.values.dtype == np.int64 else np.nan, found.values
                )
        for name in _SPANS:
            column = getattr(self._columns, name)
            if column:
                scale = self._columns.durations if name == "latency" else 1.0
                values[name] = maybe_numbers(chunk.columns[column]).values * scale
        return values

    def _out_of_order(
        self, chunk: Chunk, keep: NDArray[np.bool_], arrival: Any, served: Mapping[str, NDArray[Any]]
    ) -> NDArray[np.bool_]:
        """Rows of fairq's own that began before they came, or ended before they began."""
        start, finish = served["start"], served["finish"]
        wrong: NDArray[np.bool_] = keep & ((start < arrival) | (finish < start))
        why = "arrival, start and finish are out of order"
        for row in np.flatnonzero(wrong):
            self._refuse(int(chunk.lines[row]), why, why)
        return wrong

    def _refused(
        self, bad: NDArray[np.bool_], chunk: Chunk, column: str, should: str, cells: Any
    ) -> NDArray[np.bool_]:
        for n, row in enumerate(np.flatnonzero(bad)):
            more = "" if n else hint(should, cells[row])  # one is shown: the first
            self._refuse(
                int(chunk.lines[row]),
                f"{column} must be {should}, got {_shown(cells[row])}{more}",
                f"{column} must be {should}",
            )
        return bad

    def _refuse(self, line: int, message: str, why: str) -> None:
        if not self._skip:
            self._refused_rows.append((line, message))
            return
        self._count(self._account.skipped, why, 1)
        self._account.first_skipped.setdefault(why, place(self._path, self._table, line))

    @staticmethod
    def _count(counts: dict[str, int], why: str, n: int) -> None:
        if n:
            counts[why] = counts.get(why, 0) + n


_NEVER = np.iinfo(np.int64).min


def _text_of(cell: Any) -> str:
    return "" if cell is None or cell != cell else str(cell).strip()


def _shown(cell: Any) -> str:
    text = repr(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) <= 60 else text[:57] + "..."


def _first_name(chunk: Chunk, columns: tuple[str, ...]) -> Values:
    found = names(chunk.columns[columns[0]])
    values, nameless = found.values, found.bad
    for column in columns[1:]:
        if not nameless.any():
            break
        other = names(chunk.columns[column])
        values = np.where(nameless, other.values, values)
        nameless = nameless & other.bad
    return Values(values, nameless, found.should)


# -- rows → a log -------------------------------------------------------------------------------------


def _log(
    rows: dict[str, NDArray[Any]],
    account: Account,
    columns: Columns,
    constant: str,
    tenants: int | None,
    zipf: float,
    seed: int,
    weights: Mapping[str, float] | None,
    hash_keys: str | None,
    as_it_is: bool,
) -> Log:
    times = rows["arrival"]
    begin = 0.0 if as_it_is else times.min()
    seconds = _since(times, begin)
    order = np.argsort(seconds, kind="stable")
    n = len(order)
    if tenants is not None:
        # Drawn by place in time, so that the order of rows in the file does not matter.
        who = _draw_tenants(n, tenants, zipf, seed)
    else:
        who = rows["tenant"][order] if columns.tenant else np.full(n, constant, dtype=object)
    keys = rows["key"][order] if columns.key else None
    if hash_keys is not None:
        who = _hashed(who, hash_keys)
        keys = None if keys is None else _hashed(keys, hash_keys)
    trace = Trace(
        source=account.source,
        arrivals=seconds[order],
        prompt_tokens=rows["prompt_tokens"][order],
        output_tokens=rows["output_tokens"][order],
        tenants=who.tolist(),
        keys=None if keys is None else keys.tolist(),
        priorities=rows["priority"][order] if columns.priority else None,
        weights=weights or {},
    )
    account.begin = None if hash_keys is not None else _moment(begin, account.time_unit)
    account.horizon_s = float(trace.arrivals[-1])
    account.tenants = len(trace.weights)
    return Log(trace, account, _served_table(rows, begin, order, trace, account, as_it_is))


def _served_table(
    rows: dict[str, NDArray[Any]],
    begin: Any,
    order: NDArray[np.int64],
    trace: Trace,
    account: Account,
    as_it_is: bool,
) -> pd.DataFrame | None:
    if not {"finish", "latency"} & set(rows):
        return None
    nothing = np.full(len(order), np.nan)
    moments = {name: _since(rows[name], begin)[order] if name in rows else nothing for name in _MOMENTS}
    first, finish = moments["first_token"], moments["finish"]
    if "ttft" in rows:
        first = trace.arrivals + rows["ttft"][order]
    if "latency" in rows and "finish" not in rows:
        finish = trace.arrivals + rows["latency"][order]
    # Some gateways write the end of an answer as its first token when it was not streamed.
    table = pd.DataFrame(
        {
            "tenant": pd.Series(trace.tenants, dtype=object),
            "arrival": trace.arrivals,
            "start": moments["start"],
            "first_token": first if as_it_is else np.where(first < finish, first, np.nan),
            "finish": finish,
            "prompt_tokens": trace.prompt_tokens,
            "output_tokens": trace.output_tokens,
        }
    )
    ended = (table["finish"] >= table["arrival"]).to_numpy(dtype=bool)
    lost = int((~ended).sum())
    if lost:
        account.notes.append(f"{lost:,} requests without an end after their arrival (not in the card)")
    return pd.DataFrame(table[ended].reset_index(drop=True)) if ended.any() else None


def _since(times: NDArray[Any], begin: Any) -> NDArray[np.float64]:
    """Seconds since ``begin``; integers are nanoseconds."""
    if times.dtype != np.int64:
        seconds: NDArray[np.float64] = times - begin
        return seconds
    never = times == _NEVER
    return np.where(never, np.nan, (np.where(never, begin, times) - begin) / 1e9)


def _moment(begin: Any, unit: str) -> str | None:
    epoch = float(begin) / 1e9 if unit == "iso" else float(begin)
    if unit != "iso" and not 1e8 < epoch < 1e11:
        return None  # seconds since something else
    return datetime.fromtimestamp(epoch, UTC).isoformat(timespec="milliseconds")


def _hashed(texts: NDArray[Any], salt: str) -> NDArray[Any]:
    codes, found = pd.factorize(texts)
    secret = blake2b(salt.encode("utf-8")).digest()
    hashed = np.empty(len(found), dtype=object)
    hashed[:] = [
        "k-" + blake2b(str(each).encode("utf-8"), key=secret, digest_size=6).hexdigest() for each in found
    ]
    made: NDArray[Any] = hashed[codes]
    return made


def _draw_tenants(n: int, tenants: int, zipf: float, seed: int) -> NDArray[Any]:
    """Names, shape (n,), drawn with chances ∝ 1/i^zipf."""
    whole("tenants", tenants, least=1)
    number("zipf", zipf, least=0)
    chances = np.arange(1, tenants + 1, dtype=float) ** -zipf
    upto = np.cumsum(chances) / chances.sum()
    drawn = np.searchsorted(upto[:-1], stream(seed, 0, "", "tenant").random(n), side="right")
    return np.array([f"tenant-{i}" for i in range(1, tenants + 1)], dtype=object)[drawn]
