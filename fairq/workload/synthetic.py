"""A synthetic log that looks like one of a shared model server: 27 tenants, ten minutes, one in bursts.

No row of it was ever sent by anybody. It is here so that a clone without network has a log to load, and looks
like the public VTC arena trace: tenant sizes fall like 1/rank, answers are lognormal. The largest tenant
sends most of its requests in three bursts, as a script does.

Only ``random.random`` is used, whose stream Python keeps for ever, so that the file can be remade byte for
byte (``fairq traces synthetic``).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log
from random import Random
from statistics import NormalDist
from typing import NamedTuple

NAME = "synthetic_27_tenants.csv"
SEED = 2023
TENANTS = 27
HORIZON_S = 600.0
RATE_PER_S = 1.6
"""Of all tenants together, outside the bursts."""

BURSTS_AT_S = (90.0, 270.0, 450.0)
BURST_REQUESTS = 130
BURST_WITHIN_S = 10.0


class Row(NamedTuple):
    """One request: seconds from the start, who, and its true sizes in tokens."""

    arrived_s: float
    tenant: str
    input_tokens: int
    output_tokens: int


def rows(seed: int = SEED) -> list[Row]:
    """The requests in order of arrival."""
    made = [*_steady(Random(f"{seed} steady")), *_bursts(Random(f"{seed} bursts"))]
    return sorted(made, key=lambda row: row.arrived_s)


def csv_text(seed: int = SEED) -> str:
    """The log as the text of a CSV file with a header, lines ending in a newline."""
    lines = [f"{row.arrived_s:.3f},{row.tenant},{row.input_tokens},{row.output_tokens}" for row in rows(seed)]
    return "\n".join([",".join(Row._fields), *lines, ""])


def _steady(rng: Random) -> Iterator[Row]:
    """Poisson arrivals; tenant i with chance ∝ 1/i."""
    now = 0.0
    while (now := now + _exponential(rng, 1 / RATE_PER_S)) < HORIZON_S:
        yield Row(round(now, 3), _tenant(rng), _lognormal(rng, 60, 1.2), _lognormal(rng, 80, 0.8))


def _bursts(rng: Random) -> Iterator[Row]:
    """The largest tenant's script: a long prompt and a long answer, many at once."""
    for start in BURSTS_AT_S:
        for _ in range(BURST_REQUESTS):
            now = start + BURST_WITHIN_S * rng.random()
            yield Row(round(now, 3), "tenant-1", _lognormal(rng, 300, 0.5), _lognormal(rng, 150, 0.4))


def _tenant(rng: Random) -> str:
    left = rng.random() * sum(1 / rank for rank in range(1, TENANTS + 1))
    for rank in range(1, TENANTS):
        left -= 1 / rank
        if left < 0:
            return f"tenant-{rank}"
    return f"tenant-{TENANTS}"


def _exponential(rng: Random, mean: float) -> float:
    return -mean * log(1 - rng.random())


def _lognormal(rng: Random, median: float, sigma: float) -> int:
    # Between the two: inv_cdf has no value at 0.
    chance = (rng.random() + 2**-54) / (1 + 2**-53)
    return max(1, round(median * exp(sigma * NormalDist().inv_cdf(chance))))
