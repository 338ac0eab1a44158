"""A line of the table: what is claimed, by whom, how it was checked, what came out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One claim. ``measured`` and ``bound`` are shown as they are; ``holds`` was decided on the numbers.

    ``holds`` is ``None`` where nothing was measured; then ``measured`` says why.
    """

    claim: str
    source: str
    how: str
    measured: str
    bound: str
    holds: bool | None


def not_checked(claim: str, source: str, why: str) -> Line:
    """A line that says that its claim was not looked at: neither held nor broken, but not silent either."""
    return Line(claim, source, "", f"not checked: {why}", "", None)


def number(value: float) -> str:
    """Four significant figures, without a needless exponent."""
    value = float(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:.4g}"
