"""How large: distributions of tokens or seconds, and estimates that differ from the truth.

Every ``sample(rng, n)`` draws one after the other, so that the first n of a longer draw are the same n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fairq.workload.check import number

MOST_TOKENS = 2**53
"""Whole numbers above this are not exact as floats; no request is that large."""


@dataclass(frozen=True)
class Fixed:
    """Always ``value`` (>= 0; an int stays an int)."""

    value: float

    def __post_init__(self) -> None:
        number("value", self.value, least=0)

    def sample(self, rng: Generator, n: int) -> NDArray[Any]:
        return np.full(n, self.value)


@dataclass(frozen=True)
class Lognormal:
    """exp(N(ln median, sigma²)), cut off at ``max`` when given. Mean (no cut): median·exp(sigma²/2)."""

    median: float
    sigma: float
    max: float | None = None

    def __post_init__(self) -> None:
        number("median", self.median, above=0)
        number("sigma", self.sigma, least=0)
        if self.max is not None:
            number("max", self.max, above=0)

    def sample(self, rng: Generator, n: int) -> NDArray[Any]:
        drawn = self.median * np.exp(self.sigma * rng.standard_normal(n))
        return drawn if self.max is None else np.minimum(drawn, self.max)


@dataclass(frozen=True)
class Exponential:
    """Memoryless with the given ``mean``: the M of M/M/c, and of think times."""

    mean: float

    def __post_init__(self) -> None:
        number("mean", self.mean, above=0)

    def sample(self, rng: Generator, n: int) -> NDArray[Any]:
        return self.mean * rng.standard_exponential(n)


@dataclass(frozen=True)
class Empirical:
    """Drawn from ``values`` with replacement: your own measured sizes.

    With equal chance, or in proportion to ``chances`` (> 0, one for each value).
    """

    values: tuple[float, ...]
    chances: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise ValueError("values must not be empty, got ()")
        for place, value in enumerate(self.values):
            number(f"values[{place}]", value, least=0)
        if self.chances is None:
            return
        object.__setattr__(self, "chances", tuple(self.chances))
        if len(self.chances) != len(self.values):
            raise ValueError(
                f"chances must be as many as values ({len(self.values)}), got {len(self.chances)}"
            )
        for place, chance in enumerate(self.chances):
            number(f"chances[{place}]", chance, above=0)

    def sample(self, rng: Generator, n: int) -> NDArray[Any]:
        drawn = rng.random(n)
        if self.chances is None:
            return np.asarray(self.values)[(drawn * len(self.values)).astype(np.int64)]
        upto = np.cumsum(self.chances)
        # The last end is left out: whatever is drawn, it is one of the values.
        places = np.searchsorted(upto[:-1], drawn * upto[-1], side="right")
        values: NDArray[Any] = np.asarray(self.values)[places]
        return values


Distribution: TypeAlias = Fixed | Lognormal | Exponential | Empirical


def tokens(sizes: Distribution, rng: Generator, n: int) -> NDArray[np.int64]:
    """``n`` whole token counts, shape (n,): rounded, and at least 1 unless the size drawn is 0 itself."""
    drawn = np.minimum(sizes.sample(rng, n), MOST_TOKENS)
    return np.where(drawn > 0, np.maximum(np.rint(drawn), 1), 0).astype(np.int64)


def may_be_zero(sizes: Distribution) -> bool:
    """Whether no token at all can be drawn. A request of nothing has no cost, and queues refuse it."""
    return sizes == Fixed(0) or (isinstance(sizes, Empirical) and 0 in sizes.values)


@dataclass(frozen=True)
class Estimate:
    """What the gateway believes the cost to be: true cost · factor · exp(N(0, sigma²)), whole tokens, >= 1.

    ``factor`` 2: a client that asks for twice the ``max_tokens`` it uses; ``sigma`` 0.2: off by some 20 %.
    The noise has median 1. Factor 1 with sigma 0 is the exact cost.
    """

    factor: float = 1.0
    sigma: float = 0.0

    def __post_init__(self) -> None:
        number("factor", self.factor, above=0)
        number("sigma", self.sigma, least=0)

    def costs(self, true: NDArray[np.int64], rng: Generator) -> NDArray[np.int64]:
        """Estimated costs in tokens for the true costs, same shape."""
        guess: NDArray[np.floating[Any]] = true * self.factor
        if self.sigma:
            guess = guess * np.exp(self.sigma * rng.standard_normal(true.shape))
        costs: NDArray[np.int64] = np.clip(np.rint(guess), 1, MOST_TOKENS).astype(np.int64)
        return costs
