"""How long one iteration of one GPU takes, as five numbers.

``step_ms = o + max(a + b·B, p·T) + c·KV``: B sequences in the step, T prompt tokens computed in it, KV
context tokens resident. Reading the weights (a) and computing the prompts (p·T) overlap, so the longer one
counts; reading the context (c·KV) comes on top, and so does the time the GPU idles between steps (o).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Any

COEFFICIENTS = ("a_ms", "b_ms", "c_ms", "p_ms", "o_ms")


@dataclass(frozen=True)
class Profile:
    """One GPU with one model.

    Parameters
    ----------
    a_ms : ms to read the weights once; each step pays it at least.
    b_ms : ms per sequence in the step.
    c_ms : ms per context token resident in the KV cache.
    p_ms : ms per prompt token computed in the step.
    o_ms : ms the GPU idles between steps; 0 where the engine schedules asynchronously.
    kv_tokens : tokens the KV cache holds on that card, where the source states it.
    name, gpu, model, source : where the numbers are from.
    kind : ``"measured"`` or ``"modelled"`` (or ``"given"`` for numbers typed in).

    Raises
    ------
    ValueError : a coefficient that is negative or not finite, or a step that would take no time.
    """

    a_ms: float
    b_ms: float
    c_ms: float
    p_ms: float
    o_ms: float = 0.0
    kv_tokens: int | None = None
    name: str = "given"
    gpu: str = ""
    model: str = ""
    kind: str = "given"
    source: str = ""

    def __post_init__(self) -> None:
        for field in COEFFICIENTS:
            value = getattr(self, field)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not isfinite(value)
                or value < 0
            ):
                raise ValueError(
                    f"profile {self.name!r}: {field} must be a finite number >= 0, got {value!r}"
                )
        if self.a_ms + self.b_ms + self.o_ms <= 0:
            raise ValueError(
                f"profile {self.name!r}: a_ms, b_ms and o_ms are all 0, so a step would take no time"
            )
        if self.kv_tokens is not None and self.kv_tokens < 1:
            raise ValueError(f"profile {self.name!r}: kv_tokens must be >= 1, got {self.kv_tokens!r}")

    def step_ms(self, sequences: int, prompt_tokens: int, context_tokens: int) -> float:
        """Milliseconds of one step with B = sequences, T = prompt_tokens, KV = context_tokens."""
        work = max(self.a_ms + self.b_ms * sequences, self.p_ms * prompt_tokens)
        return self.o_ms + work + self.c_ms * context_tokens

    def with_(self, **changes: Any) -> Profile:
        """A changed copy, checked again."""
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, without the fields that say nothing."""
        return {
            f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) not in (None, "")
        }
