"""A log of real requests as a workload: replayed as it was (``fairq.workload.readers`` reads files).

A row that cannot be read stops the reading with its file and line: a log that is silently short of its
strangest rows tells a nicer story than the truth.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairq.files import unreadable
from fairq.request import Request
from fairq.workload.check import number
from fairq.workload.tenants import ClosedLoopSource


class TraceError(ValueError):
    """A log that cannot be read: ``file:line: what is wrong, and the value``."""


@contextmanager
def readable(path: str | PathLike[str]) -> Iterator[None]:
    """Around the reading of a file: what is no text, or no CSV, is a TraceError that names it."""
    try:
        yield
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(unreadable(path, error)) from None


@dataclass(frozen=True)
class Trace:
    """Requests that were really made. Replayed as they were: seed and replication change nothing.

    ``arrivals`` in seconds since the first one (of fairq's own run: since it began), shape (n,), in order
    (rows of one instant keep the file's order); ``prompt_tokens``, ``output_tokens``, ``priorities`` of that
    shape, ``tenants`` and ``keys`` as long. A row costs prompt + output tokens.
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

    def scaled(self, load: float = 1, burst: float = 1) -> Trace:
        """The same requests, ``load`` times as dense (every arrival divided by it), in larger clumps.

        ``burst`` (>= 1): about that many requests of a tenant, one after the other, come together at the time
        of the first of them; nobody asks for more in all.
        """
        number("load", load, above=0)
        number("burst", burst, least=1)
        arrivals = self.arrivals / load
        if burst == 1:
            return replace(self, arrivals=arrivals)
        clumped = arrivals.copy()
        codes, names = pd.factorize(np.array(self.tenants, dtype=object))
        for code in range(len(names)):
            mine = np.flatnonzero(codes == code)
            each = np.arange(len(mine))
            first = np.ceil(np.floor(each / burst) * burst).astype(np.int64)
            clumped[mine] = arrivals[mine[np.minimum(first, each)]]
        order = np.argsort(clumped, kind="stable")
        return self._taken(order, clumped[order])

    def _taken(self, rows: NDArray[np.int64], arrivals: NDArray[np.float64]) -> Trace:
        """These rows, in this order, at these arrivals."""

        def taken(names: Sequence[str]) -> list[str]:
            picked: list[str] = np.array(names, dtype=object)[rows].tolist()
            return picked

        return replace(
            self,
            arrivals=arrivals,
            prompt_tokens=self.prompt_tokens[rows],
            output_tokens=self.output_tokens[rows],
            tenants=taken(self.tenants),
            keys=None if self.keys is None else taken(self.keys),
            priorities=None if self.priorities is None else self.priorities[rows],
        )
