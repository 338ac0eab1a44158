"""When: arrival processes. ``times(rng, horizon_s)`` gives sorted seconds in [0, horizon_s).

A longer horizon keeps the earlier arrivals as they were, and a rate doubled halves every gap: moving a slider
changes one thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fairq.workload.check import number, whole
from fairq.workload.sizes import Distribution, Fixed

# Fixed, so that the floating-point sums do not depend on the horizon.
_BLOCK = 1024


@dataclass(frozen=True)
class Poisson:
    """Independent users: exponential gaps, CV 1, ``rate_per_s`` requests/s."""

    rate_per_s: float

    def __post_init__(self) -> None:
        number("rate_per_s", self.rate_per_s, above=0)

    def times(self, rng: Generator, horizon_s: float) -> NDArray[Any]:
        return _renewals(lambda n: rng.standard_exponential(n) / self.rate_per_s, 0.0, horizon_s)

    def expected(self, horizon_s: float) -> float:
        return self.rate_per_s * horizon_s


@dataclass(frozen=True)
class Gamma:
    """Burstier (``cv`` > 1) or more regular (``cv`` < 1) than Poisson: Gamma gaps, mean 1/rate and that CV.

    Shape 1/cv², scale cv²/rate. We look at the stream from a random moment on: the first gap has the residual
    law (uniform share of a length-biased gap, Gamma(shape + 1)), so that rate·T requests are expected in any
    T seconds, also right after the start.
    """

    rate_per_s: float
    cv: float

    def __post_init__(self) -> None:
        number("rate_per_s", self.rate_per_s, above=0)
        number("cv", self.cv, above=0)
        if self.cv > 100:
            # Beyond this nearly every gap underflows to 0 and one in 10,000 holds all the time.
            raise ValueError(f"cv must be <= 100, got {self.cv!r}")

    def times(self, rng: Generator, horizon_s: float) -> NDArray[Any]:
        shape = 1 / self.cv**2
        scale = self.cv**2 / self.rate_per_s
        first = float(rng.random() * rng.standard_gamma(shape + 1) * scale)
        return _renewals(lambda n: rng.standard_gamma(shape, n) * scale, first, horizon_s)

    def expected(self, horizon_s: float) -> float:
        return self.rate_per_s * horizon_s


@dataclass(frozen=True)
class OnOff:
    """Bursts on a clock: Poisson at ``rate_per_s`` for ``on_s``, silent for ``off_s``, and again; on at 0.

    Mean rate: rate_per_s · on_s / (on_s + off_s).
    """

    rate_per_s: float
    on_s: float
    off_s: float

    def __post_init__(self) -> None:
        number("rate_per_s", self.rate_per_s, above=0)
        number("on_s", self.on_s, above=0)
        number("off_s", self.off_s, least=0)

    def times(self, rng: Generator, horizon_s: float) -> NDArray[Any]:
        times = self.wall(Poisson(self.rate_per_s).times(rng, self.on_time(horizon_s)))
        # Rounding may carry the last moment of a period over the edge.
        return times[times < horizon_s]

    def wall(self, busy: NDArray[Any]) -> NDArray[Any]:
        """Seconds on the wall clock for seconds counted while on, same shape."""
        wall: NDArray[Any] = busy + np.floor_divide(busy, self.on_s) * self.off_s
        return wall

    def on_time(self, horizon_s: float) -> float:
        """How many of the first ``horizon_s`` seconds are on."""
        periods, rest = divmod(horizon_s, self.on_s + self.off_s)
        return float(periods * self.on_s + min(rest, self.on_s))

    def expected(self, horizon_s: float) -> float:
        return self.rate_per_s * self.on_time(horizon_s)


@dataclass(frozen=True)
class Dump:
    """All at once: ``requests`` requests at ``at_s`` seconds (kept as given, so integer times stay exact)."""

    at_s: float
    requests: int

    def __post_init__(self) -> None:
        number("at_s", self.at_s, least=0)
        whole("requests", self.requests, least=1)

    def times(self, rng: Generator, horizon_s: float) -> NDArray[Any]:
        return np.full(self.requests if self.at_s < horizon_s else 0, self.at_s)

    def expected(self, horizon_s: float) -> float:
        return self.requests


@dataclass(frozen=True)
class Times:
    """Exactly these seconds, in increasing order: small cases made by hand."""

    times_s: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "times_s", tuple(self.times_s))
        if not self.times_s:
            raise ValueError("times_s must not be empty, got ()")
        for place, value in enumerate(self.times_s):
            number(f"times_s[{place}]", value, least=0)
            if place and value < self.times_s[place - 1]:
                raise ValueError(f"times_s[{place}] must not be before times_s[{place - 1}], got {value!r}")

    def times(self, rng: Generator, horizon_s: float) -> NDArray[Any]:
        return np.asarray([t for t in self.times_s if t < horizon_s])

    def expected(self, horizon_s: float) -> float:
        return len(self.times_s)


@dataclass(frozen=True)
class ClosedLoop:
    """``workers`` that each wait for their answer, think for ``think_s`` seconds and ask again.

    ``think_s`` is a number or a distribution (``Exponential(mean)`` for the machine-repair model). They start
    thinking at 0, so that a fixed think time brings all first requests at once.
    """

    workers: int
    think_s: Distribution

    def __init__(self, workers: int, think_s: float | Distribution) -> None:
        whole("workers", workers, least=1)
        if isinstance(think_s, (int, float)):
            number("think_s", think_s, least=0)
            think_s = Fixed(think_s)
        object.__setattr__(self, "workers", workers)
        object.__setattr__(self, "think_s", think_s)


OpenLoop: TypeAlias = Poisson | Gamma | OnOff | Dump | Times
Arrivals: TypeAlias = OpenLoop | ClosedLoop


def _renewals(gaps: Callable[[int], NDArray[Any]], first: float, horizon_s: float) -> NDArray[Any]:
    """``first`` (when > 0) and the running sums of gaps from there, below ``horizon_s``."""
    parts = [np.array([first])] if first > 0 else []
    now = first
    while now < horizon_s:
        parts.append(now + np.cumsum(gaps(_BLOCK)))
        now = float(parts[-1][-1])
    times = np.concatenate(parts) if parts else np.empty(0)
    return times[times < horizon_s]
