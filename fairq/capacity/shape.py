"""What a typical request looks like: the three means that a card needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Shape:
    """Mean prompt and answer, and the mean context of a request while it is in service (all in tokens).

    ``context_tokens`` is a mean over *time*: long answers stay longer, so it is above prompt + output / 2 as
    soon as answers differ in length.

    Raises
    ------
    ValueError : a size that is not finite, a negative prompt, an answer below one token.
    """

    prompt_tokens: float
    output_tokens: float
    context_tokens: float
    requests: int | None = None
    """How many requests it was taken from; None: a size as given."""

    def __post_init__(self) -> None:
        for name, least in (("prompt_tokens", 0), ("output_tokens", 1), ("context_tokens", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isfinite(value) or value < least:
                raise ValueError(f"{name} must be a finite number >= {least}, got {value!r}")

    @classmethod
    def of(cls, prompt_tokens: float, output_tokens: float) -> Shape:
        """Every request alike."""
        return cls(prompt_tokens, output_tokens, prompt_tokens + output_tokens / 2)

    @classmethod
    def from_sizes(cls, prompt_tokens: ArrayLike, output_tokens: ArrayLike) -> Shape:
        """Of requests with these sizes (arrays of one shape). Raises ValueError when there are none."""
        prompt = np.asarray(prompt_tokens, dtype=float)
        output = np.asarray(output_tokens, dtype=float)
        if prompt.size == 0 or not output.sum() > 0:
            raise ValueError(f"a card needs requests that generate tokens, got {prompt.size} requests")
        # A request is in service about as long as its answer, so it counts that often.
        context = float((output * (prompt + output / 2)).sum() / output.sum())
        return cls(float(prompt.mean()), max(float(output.mean()), 1.0), context, int(prompt.size))
