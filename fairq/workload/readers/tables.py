"""Rows of a file, some at a time, with the place of each: CSV, JSON lines, Parquet, and rows inside one JSON.

A table is opened once: its header (or the fields of its first object) is read, then chunks of the columns
that are wanted. Never more than ``CHUNK`` rows are held as text.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairq.files import separated
from fairq.workload.trace import TraceError, readable

CHUNK = 20_000

_BREAK = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Bad:
    """A row that cannot even be taken apart."""

    line: int
    why: str


@dataclass(frozen=True)
class Chunk:
    """Some rows: a sequence per wanted column, their places, and the rows that could not be taken apart."""

    columns: dict[str, Sequence[Any]]
    lines: NDArray[np.int64]
    bad: tuple[Bad, ...] = ()


@dataclass(frozen=True)
class Table:
    """``header``: column names; ``chunks(wanted)``: the rows; ``unit``: what a place counts (line, row)."""

    header: list[str]
    chunks: Callable[[list[str]], Iterator[Chunk]]
    shape: str = "rows"
    unit: str = ""


def open_table(path: Path) -> Table:
    """The table in a file, by the file's ending and first character.

    Raises
    ------
    TraceError : a header or first object that cannot be read. OSError : the file cannot be read.
    """
    ending = path.suffix.lower()
    if ending in (".parquet", ".pq"):
        return _parquet(path)
    if ending in (".jsonl", ".ndjson", ".json"):
        return _json(path)
    return _csv(path)


def place(path: Path, table: Table, line: int) -> str:
    """Where a row is, for a message."""
    return f"{path}:{table.unit}{line}"


# -- CSV ----------------------------------------------------------------------------------------------


def _csv(path: Path) -> Table:
    with readable(path), _text(path) as file:
        rows, reason = _some(csv.reader(file, strict=True), 1)
    if reason:
        raise TraceError(f"{path}:1: cannot be read as CSV: {reason}")
    header = [name.strip() for name in rows[0]] if rows else []
    return Table(header, lambda wanted: _csv_chunks(path, header, wanted))


def _csv_chunks(path: Path, header: list[str], wanted: list[str]) -> Iterator[Chunk]:
    places = [_column(path, header, name) for name in wanted]
    width = len(header)
    with readable(path), _text(path) as file:
        reader = csv.reader(file, strict=True)
        line = 1 + _span(next(reader, []))
        blank = 0
        while True:
            before = reader.line_num
            rows, reason = _some(reader, CHUNK)
            if reader.line_num - before == len(rows) and not reason:
                lines = np.arange(line, line + len(rows))
                line += len(rows)
            else:
                spans = np.array([_span(row) for row in rows], dtype=np.int64)
                lines = line + np.concatenate([[0], np.cumsum(spans)[:-1]]) if len(rows) else spans
                line += int(spans.sum())
            if reason:
                raise TraceError(f"{path}:{line}: cannot be read as CSV: {reason}")
            if not rows:
                return
            bad: list[Bad] = []
            if set(map(len, rows)) != {width}:
                rows, lines, bad, blank = _right_width(path, rows, lines, width, blank)
            elif blank:
                raise TraceError(f"{path}:{blank}: an empty line between rows")
            columns: dict[str, Sequence[Any]] = {
                name: [row[i] for row in rows] for name, i in zip(wanted, places, strict=True)
            }
            yield Chunk(columns, lines, tuple(bad))


def _some(reader: Any, n: int) -> tuple[list[list[str]], str]:
    """Up to n rows, and what stopped the reading early (nothing: "")."""
    rows: list[list[str]] = []
    try:
        rows.extend(islice(reader, n))
    except csv.Error as error:
        return rows, str(error) or type(error).__name__
    return rows, ""


def _right_width(
    path: Path, rows: list[list[str]], lines: NDArray[np.int64], width: int, blank: int
) -> tuple[list[list[str]], NDArray[np.int64], list[Bad], int]:
    """The rows of the right width, and those that are not. Blank lines are allowed at the very end alone."""
    good, bad = [], []
    for i, row in enumerate(rows):
        if not row:
            blank = blank or int(lines[i])
            continue
        if blank:
            raise TraceError(f"{path}:{blank}: an empty line between rows")
        if len(row) == width:
            good.append(i)
        else:
            got = f"{len(row)} fields where the header has {width}: {','.join(row)[:80]!r}"
            bad.append(Bad(int(lines[i]), got))
    return [rows[i] for i in good], lines[good], bad, blank


def _span(row: list[str]) -> int:
    """How many lines of the file a row takes."""
    return 1 + sum(len(_BREAK.findall(cell)) for cell in row)


def _column(path: Path, header: list[str], name: str) -> int:
    if header.count(name) != 1:
        problem = "no column" if name not in header else "more than one column"
        there = f"{', '.join(header) or 'nothing'}{separated(header)}"
        raise TraceError(f"{path}:1: {problem} {name!r}; the header has: {there}")
    return header.index(name)


def _text(path: Path) -> Any:
    # utf-8-sig: spreadsheets put a byte-order mark in front of the first column's name.
    return path.open(encoding="utf-8-sig", newline="")


# -- JSON ---------------------------------------------------------------------------------------------


def _json(path: Path) -> Table:
    with readable(path), _text(path) as file:
        first = next((line for line in file if line.strip()), "")
        more = next((line for line in file if line.strip()), "")
    if first.lstrip().startswith("["):
        return _inside(path, _whole(path), "rows")
    try:
        row = _loads(first)
    except ValueError as error:
        # An object over several lines: one JSON document.
        if more and first.strip() == "{":
            return _document(path, _whole(path))
        raise TraceError(f"{path}:1: not JSON: {error}") from None
    if not isinstance(row, dict):
        raise TraceError(f"{path}:1: must be an object, got {first.strip()[:40]}")
    if not more and (_responses(row) is not None or _arrays(row) is not None):
        return _document(path, row)
    if more and _responses(row) is not None:
        raise TraceError(f"{path}:2: more than one run in this file; keep one line")
    header = _fields(row)
    return Table(header, lambda wanted: _jsonl_chunks(path, wanted))


def _document(path: Path, document: Any) -> Table:
    if isinstance(document, dict):
        responses = _responses(document)
        if responses is not None:
            return _inside(path, responses, "responses")
        arrays = _arrays(document)
        if arrays is not None:
            return _inside(path, arrays, "arrays")
        for name in ("data", "logs", "requests", "results"):
            if isinstance(document.get(name), list):
                return _inside(path, document[name], "rows")
    raise TraceError(f"{path}:1: no list of requests in this JSON file")


def _inside(path: Path, rows: Any, shape: str) -> Table:
    """Rows that are already in memory: a JSON list cannot be read in parts. Places count from 1."""
    if not isinstance(rows, list):
        raise TraceError(f"{path}:1: must be a list of objects, got {str(rows)[:40]}")
    first = next((row for row in rows if isinstance(row, dict)), {})

    def chunks(wanted: list[str]) -> Iterator[Chunk]:
        for begin in range(0, len(rows), CHUNK):
            some = rows[begin : begin + CHUNK]
            yield _picked(some, np.arange(begin + 1, begin + 1 + len(some)), wanted, [])

    return Table(_fields(first), chunks, shape, "item ")


def _responses(row: Any) -> list[Any] | None:
    """The rows of a VTC-artifact result."""
    result = row.get("result")
    found = result.get("responses") if isinstance(result, dict) else None
    return found if isinstance(found, list) else None


def _arrays(row: Any) -> list[Any] | None:
    """The rows of a result that holds one array per column (``vllm bench serve --save-detailed``).

    ``ttfts+itls``, where both are there: the time to the last token, the first one's and the gaps after it.
    """
    names = ("start_times", "input_lens", "output_lens", "ttfts")
    columns = {name: row[name] for name in names if isinstance(row.get(name), list)}
    if not {"input_lens", "output_lens"} <= set(columns):
        return None
    gaps = row.get("itls")
    if "ttfts" in columns and isinstance(gaps, list):
        columns["ttfts+itls"] = [
            _ended(first, each) for first, each in zip(columns["ttfts"], gaps, strict=False)
        ]
    return [dict(zip(columns, values, strict=False)) for values in zip(*columns.values(), strict=False)]


def _ended(first: Any, gaps: Any) -> float | None:
    """Seconds to the last token; None for a request that failed (no first token) or what is no number."""
    try:
        return float(first) + float(sum(gaps)) if float(first) > 0 else None
    except (TypeError, ValueError):
        return None


def _whole(path: Path) -> Any:
    with readable(path):
        text = path.read_text(encoding="utf-8-sig")
    try:
        return _loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise TraceError(f"{path}:{line}: not JSON: {getattr(error, 'msg', error)}") from None


def _jsonl_chunks(path: Path, wanted: list[str]) -> Iterator[Chunk]:
    with readable(path), _text(path) as file:
        numbered = enumerate(file, 1)
        while True:
            lines: list[int] = []
            rows: list[Any] = []
            bad: list[Bad] = []
            for line, text in islice(numbered, CHUNK):
                if text.isspace():
                    continue
                try:
                    rows.append(_loads(text))
                except ValueError as error:
                    bad.append(Bad(line, f"not JSON: {getattr(error, 'msg', error)}"))
                else:
                    lines.append(line)
            if not rows and not bad:
                return
            yield _picked(rows, np.array(lines, dtype=np.int64), wanted, bad)


def _picked(rows: list[Any], lines: NDArray[np.int64], wanted: list[str], bad: list[Bad]) -> Chunk:
    good = rows
    if set(map(type, rows)) - {dict}:
        odd = [i for i, row in enumerate(rows) if not isinstance(row, dict)]
        bad = [*bad, *(Bad(int(lines[i]), f"must be an object, got {str(rows[i])[:40]}") for i in odd)]
        keep = [i for i, row in enumerate(rows) if isinstance(row, dict)]
        good, lines = [rows[i] for i in keep], lines[keep]
    return Chunk({name: _pick(good, name) for name in wanted}, lines, tuple(bad))


def _pick(rows: list[Any], name: str) -> list[Any]:
    """One field of every object, None where it is not there."""
    if not rows or "." not in name or name in rows[0]:
        return [row.get(name) for row in rows]
    first, *rest = name.split(".")
    values = [row.get(first) for row in rows]
    for part in rest:
        values = [value.get(part) if isinstance(value, dict) else None for value in values]
    return values


def _fields(row: Any, before: str = "", depth: int = 3) -> list[str]:
    """The names of an object's fields, those of nested objects dotted."""
    names = []
    for name, value in row.items():
        names.append(before + name)
        if isinstance(value, dict) and depth > 1:
            names += _fields(value, f"{before}{name}.", depth - 1)
    return names


def _loads(text: str) -> Any:
    return _DECODER.decode(text)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


# -- Parquet ------------------------------------------------------------------------------------------


def _parquet(path: Path) -> Table:
    try:
        import pyarrow.parquet as parquet  # type: ignore[import-untyped]
    except ImportError:
        raise TraceError(f"{path}: Parquet needs pyarrow: install fairq[parquet]") from None
    from pyarrow import ArrowInvalid

    with path.open("rb"):  # an unreadable file is an OSError, as for the other kinds
        pass
    try:
        file = parquet.ParquetFile(path)
    except ArrowInvalid as error:
        raise TraceError(f"{path}: not a Parquet file: {error}") from None
    header = list(dict.fromkeys([*file.schema_arrow.names, *_leaves(file.schema_arrow)]))
    return Table(header, lambda wanted: _parquet_chunks(path, file, header, wanted), unit="row ")


def _leaves(schema: Any) -> Iterator[str]:
    for column in schema:
        if hasattr(column.type, "names"):
            yield from (f"{column.name}.{name}" for name in column.type.names)


def _parquet_chunks(path: Path, file: Any, header: list[str], wanted: list[str]) -> Iterator[Chunk]:
    for name in wanted:
        if name not in header:
            raise TraceError(f"{path}: no column {name!r}; the file has: {', '.join(header)}")
    tops = list(
        dict.fromkeys(name if name in file.schema_arrow.names else name.split(".")[0] for name in wanted)
    )
    row = 1
    for batch in file.iter_batches(batch_size=CHUNK, columns=tops):
        columns = {name: _arrow_values(batch, name) for name in wanted}
        yield Chunk(columns, np.arange(row, row + batch.num_rows))
        row += batch.num_rows


def _arrow_values(batch: Any, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    if name in batch.schema.names:
        column = batch.column(batch.schema.get_field_index(name))
    else:
        top, _, leaf = name.partition(".")
        column = pc.struct_field(batch.column(batch.schema.get_field_index(top)), leaf)
    if pa.types.is_timestamp(column.type):
        # Whole nanoseconds since 1970; a missing time stays missing.
        return column.cast(pa.timestamp("ns")).to_numpy(zero_copy_only=False)
    if pa.types.is_integer(column.type) and column.null_count == 0:
        return column.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        return column.to_numpy(zero_copy_only=False)
    return column.to_pylist()
