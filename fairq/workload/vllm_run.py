"""What a real vLLM did: one JSON line per request, as its bench recorders write them.

Fields: ``input_toks, output_toks, queued_ts, first_token_ts, last_token_ts`` (seconds on one clock; the wall
clock's ``arrival_time``, when there is one, is another clock and not used), ``request_id`` optional. Settings
come from the ``…_meta.json`` beside it and the 1-second series from ``…_timeseries.csv``.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from fairq.workload.trace import TraceError, readable


@dataclass(frozen=True)
class RealRequest:
    """Times in seconds since the run's first request; sizes in tokens."""

    id: Any
    prompt_tokens: int
    output_tokens: int
    arrival: float
    first_token: float
    finish: float

    @property
    def ttft(self) -> float:
        """Seconds to the first token."""
        return self.first_token - self.arrival

    @property
    def tpot(self) -> float | None:
        """Seconds per output token after the first; ``None`` for a single one."""
        return (self.finish - self.first_token) / (self.output_tokens - 1) if self.output_tokens > 1 else None

    @property
    def latency(self) -> float:
        """Seconds to the last token."""
        return self.finish - self.arrival


@dataclass(frozen=True)
class RealRun:
    """A run: its requests in order of arrival, the settings it ran with, and what it logged each second.

    ``settings``: those of ``max_num_seqs, max_num_batched_tokens, kv_tokens, block_tokens`` that the meta
    file states. ``series``: rows (t seconds, running, waiting, KV in per cent), empty without the file.
    """

    source: str
    requests: tuple[RealRequest, ...]
    settings: dict[str, int] = field(default_factory=dict)
    series: tuple[tuple[float, int, int, float], ...] = ()


def read_run(path: str | PathLike[str]) -> RealRun:
    """Read a run's requests, and the meta and series files beside it when they are there.

    Raises
    ------
    TraceError : a line that cannot be read, or that goes back in time; names file, line, field and value.
    OSError : the file cannot be read.
    """
    path = Path(path)
    rows = list(_rows(path))
    if not rows:
        raise TraceError(f"{path}: no requests in it")
    start = rows[0].arrival
    requests = tuple(
        RealRequest(
            r.id, r.prompt_tokens, r.output_tokens, r.arrival - start, r.first_token - start, r.finish - start
        )
        for r in rows
    )
    meta = _beside(path, "meta.json")
    series = _beside(path, "timeseries.csv")
    return RealRun(
        str(path),
        requests,
        {} if meta is None else _settings(meta),
        () if series is None else tuple(_series(series)),
    )


def _beside(path: Path, ending: str) -> Path | None:
    if not path.name.endswith("requests.jsonl"):
        return None
    other = path.with_name(path.name.removesuffix("requests.jsonl") + ending)
    return other if other.is_file() else None


def _rows(path: Path) -> Iterator[RealRequest]:
    latest = float("-inf")
    with readable(path), path.open(encoding="utf-8-sig") as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            place = f"{path}:{line}"
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                raise TraceError(f"{place}: not JSON: {error.msg}") from None
            if not isinstance(row, dict):
                raise TraceError(f"{place}: must be an object, got {text.strip()[:40]}")
            arrival, first, last = (_time(row, name, place) for name in ("queued_ts", *_TIMES))
            if arrival < latest:
                raise TraceError(f"{place}: queued_ts goes back in time: {arrival!r} after {latest!r}")
            if not arrival <= first <= last:
                raise TraceError(
                    f"{place}: must be queued_ts <= first_token_ts <= last_token_ts, "
                    f"got {arrival!r}, {first!r}, {last!r}"
                )
            latest = arrival
            yield RealRequest(
                row.get("request_id", line - 1),
                _tokens(row, "input_toks", place),
                _tokens(row, "output_toks", place),
                arrival,
                first,
                last,
            )


_TIMES = ("first_token_ts", "last_token_ts")


def _time(row: dict[str, Any], name: str, place: str) -> float:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise TraceError(f"{place}: {name} must be a finite number of seconds, got {value!r}")
    return float(value)


def _tokens(row: dict[str, Any], name: str, place: str) -> int:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TraceError(f"{place}: {name} must be a whole number >= 1, got {value!r}")
    return value


def _settings(path: Path) -> dict[str, int]:
    try:
        with readable(path):
            meta = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise TraceError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    if not isinstance(meta, dict):
        raise TraceError(f"{path}: must be an object, got {str(meta)[:40]}")
    engine, cache = meta.get("engine_kwargs") or {}, meta.get("kv_cache") or {}
    for name, part in (("engine_kwargs", engine), ("kv_cache", cache)):
        if not isinstance(part, dict):
            raise TraceError(f"{path}: {name} must be an object, got {str(part)[:40]}")
    found = {
        "max_num_seqs": engine.get("max_num_seqs"),
        "max_num_batched_tokens": engine.get("max_num_batched_tokens"),
        "kv_tokens": cache.get("num_kv_tokens"),
        "block_tokens": cache.get("block_size"),
    }
    return {name: value for name, value in found.items() if isinstance(value, int)}


def _series(path: Path) -> Iterator[tuple[float, int, int, float]]:
    with readable(path), path.open(encoding="utf-8-sig", newline="") as file:
        for line, row in enumerate(csv.DictReader(file), 2):
            try:
                yield float(row["t"]), int(row["running"]), int(row["waiting"]), float(row["kv_cache_pct"])
            except (KeyError, TypeError, ValueError):
                raise TraceError(
                    f"{path}:{line}: needs numbers t, running, waiting, kv_cache_pct, got {dict(row)!r}"
                ) from None
