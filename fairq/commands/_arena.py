"""The VTC paper's real trace (27 tenants on an A10G), replayed, and its measures of fairness.

The measures are those of the artifact's own tables (github.com/Ying1123/VTC-artifact, fair_bench/plot,
Apache-2.0), written down from their definition: throughput is input + output tokens over the whole run, to
the last finish; service is input + 2·output tokens, spread evenly from a request's first token to its last;
at 100 moments of the arrivals' span, over a window of 60 s around each, a tenant's service falls short of the
best-served tenant's, or of what it asked for, whichever is less; these shortfalls are summed over tenants.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from fairq.files import check_columns, read_csv
from fairq.policies.base import Policy
from fairq.policies.fifo import FIFO
from fairq.request import Request
from fairq.sim import Result, simulate
from fairq.sim.batching import BatchingEngine, Profile
from fairq.workload.trace import TraceError

Array = NDArray[np.float64]

OUTPUT_PRICE = 2
"""An output token counts as two, here as in that paper."""

COLUMNS = ("arrived_s", "tenant", "input_tokens", "output_tokens")
MEASURED = ("first_token_s", "latency_s")


@dataclass(frozen=True)
class Arena:
    """The requests, in order of arrival, each array of shape (n,); times in seconds.

    ``first_token`` and ``finish`` are what the real system measured, or ``None`` where the file has no
    such columns.
    """

    source: str
    tenants: tuple[str, ...]
    arrival: Array
    prompt_tokens: Array
    output_tokens: Array
    first_token: Array | None
    finish: Array | None


@dataclass(frozen=True)
class Served:
    """One row of the table: throughput (tokens/s), service differences (tokens/s), mean TTFT (s)."""

    name: str
    tokens_per_s: float
    difference_max: float
    difference_mean: float
    difference_variance: float
    ttft_mean: float


def read_arena(path: str | PathLike[str]) -> Arena:
    """Read the CSV. Raises InputError or TraceError (file:line, field, value); times must not go back."""
    header, found = read_csv(path)
    check_columns(path, header, COLUMNS, MEASURED)
    measured = all(name in header for name in MEASURED)
    tenants: list[str] = []
    rows: list[list[float]] = []
    for line, row in found:
        place = f"{path}:{line}"
        if not row["tenant"]:
            raise TraceError(f"{place}: tenant must not be empty")
        tenants.append(row["tenant"])
        numbers = [_number(row, "arrived_s", place)]
        numbers += [_tokens(row, name, place) for name in ("input_tokens", "output_tokens")]
        numbers += [_number(row, name, place) for name in (MEASURED if measured else ())]
        if rows and numbers[0] < rows[-1][0]:
            raise TraceError(f"{place}: arrived_s goes back in time: {numbers[0]!r} after {rows[-1][0]!r}")
        rows.append(numbers)
    if not rows:
        raise TraceError(f"{path}: no requests in it")
    columns = np.array(rows).T
    first, finish = (columns[0] + columns[3], columns[0] + columns[4]) if measured else (None, None)
    return Arena(str(path), tuple(tenants), columns[0], columns[1], columns[2], first, finish)


def replay_arena(
    arena: Arena, policy: Policy, profile: Profile, *, gateway_slots: int | None = None
) -> Result:
    """Serve the trace as that system did: admission by peak, prompts in steps of their own.

    The policy is built into the engine and charged token by token; with ``gateway_slots`` it stands at a
    gateway instead, which releases that many requests at once (0: no limit).
    """
    inside = gateway_slots is None
    requests = [
        Request(
            tenant,
            # What is known when it starts; at a gateway nobody counts tokens as they come.
            int(prompt) if inside else int(prompt) + OUTPUT_PRICE * int(output),
            arrival=float(arrival),
            prompt_tokens=int(prompt),
            output_tokens=int(output),
            id=row,
        )
        for row, (tenant, arrival, prompt, output) in enumerate(
            zip(arena.tenants, arena.arrival, arena.prompt_tokens, arena.output_tokens, strict=True)
        )
    ]
    engine = BatchingEngine(
        profile,
        max_num_seqs=1000,
        max_num_batched_tokens=3072,
        block_tokens=1,
        admission="peak",
        chunked_prefill=False,
        scheduling=policy if inside else "fcfs",
        gateway_slots=gateway_slots,
        token_prices=(1, OUTPUT_PRICE),
    )
    return simulate(requests, FIFO() if inside else policy, engine)


def served(name: str, arena: Arena, first_token: Array, finish: Array) -> Served:
    """The measures of one run, real or replayed."""
    differences = service_differences(arena, first_token, finish)
    tokens = float((arena.prompt_tokens + arena.output_tokens).sum())
    return Served(
        name,
        tokens / float(finish.max()),
        float(differences.max()),
        float(differences.mean()),
        float(differences.var()),
        float((first_token - arena.arrival).mean()),
    )


def service_differences(
    arena: Arena, first_token: Array, finish: Array, *, moments: int = 100, window_s: float = 60.0
) -> Array:
    """How far tenants fall short of the best-served one (or of their demand), summed, at each moment.

    Weighted tokens per second, shape (moments,); see the module's text.
    """
    weight = arena.prompt_tokens + OUTPUT_PRICE * arena.output_tokens
    # The artifact rounds the span down to a tenth of a second like this.
    ticks = int(arena.arrival.max()) / 10 * 10 / moments * np.arange(moments)
    low, high = ticks - window_s / 2, ticks + window_s / 2
    names, tenant = np.unique(np.array(arena.tenants), return_inverse=True)
    service, demand = np.zeros((2, len(names), moments))
    for row, who in enumerate(tenant):
        demand[who] += np.where((low <= arena.arrival[row]) & (arena.arrival[row] <= high), weight[row], 0.0)
        span = finish[row] - first_token[row]
        if span > 1e-5:
            overlap = np.minimum(high, finish[row]) - np.maximum(low, first_token[row])
            service[who] += weight[row] * np.clip(overlap, 0.0, None) / span
    service, demand = service / window_s, demand / window_s
    short = np.minimum(service.max(axis=0) - service, np.abs(demand - service))
    total: Array = short.sum(axis=0)
    return total


def _number(row: dict[str, str], name: str, place: str) -> float:
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        value = float("nan")
    if not isfinite(value) or value < 0:
        raise TraceError(f"{place}: {name} must be a finite number >= 0, got {row[name]!r}")
    return value


def _tokens(row: dict[str, str], name: str, place: str) -> float:
    value = _number(row, name, place)
    if value < 1 or value != int(value):
        raise TraceError(f"{place}: {name} must be a whole number >= 1, got {row[name]!r}")
    return value
