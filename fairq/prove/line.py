"""A line of the table: what is claimed, by whom, how it was checked, what came out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One claim. ``measured`` and ``bound`` are shown as they are; ``holds`` was decided on the numbers."""

    claim: str
    source: str
    how: str
    measured: str
    bound: str
    holds: bool


def number(value: float) -> str:
    """Four significant figures, without a needless exponent."""
    value = float(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:.4g}"
