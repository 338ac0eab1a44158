"""How an answer is judged. Each judge reckons the truth when it is asked, and says what is wrong in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any, Protocol


class Judge(Protocol):
    def answer(self) -> Any:
        """A right answer, reckoned now."""

    def problem(self, answer: Any) -> str | None:
        """What is wrong with an answer; None: nothing."""

    def show(self, answer: Any) -> str:
        """An answer as text."""


@dataclass(frozen=True)
class Number:
    """A number within ``within`` of the truth (a part of it). ``unit``: as in "3.2 s"."""

    truth: Callable[[], float]
    unit: str
    within: float = 0.03

    def answer(self) -> float:
        return float(self.truth())

    def problem(self, answer: Any) -> str | None:
        value = _number(answer)
        if value is None:
            return f"the answer is a number ({self.unit}), got {answer!r}"
        truth = self.answer()
        if abs(value - truth) <= self.within * abs(truth) + 1e-12:
            return None
        if truth and value and 900 < abs(value / truth) < 1100:
            return f"{self.show(value)} is a thousand times too much: seconds or milliseconds?"
        if truth and value and 900 < abs(truth / value) < 1100:
            return f"{self.show(value)} is a thousand times too little: seconds or milliseconds?"
        return f"{self.show(value)} is too {'high' if value > truth else 'low'}"

    def show(self, answer: Any) -> str:
        value = _number(answer)
        return repr(answer) if value is None else f"{value:,.4g} {self.unit}".strip()


@dataclass(frozen=True)
class Whole:
    """A whole number, exactly."""

    truth: Callable[[], int]
    unit: str

    def answer(self) -> int:
        return int(self.truth())

    def problem(self, answer: Any) -> str | None:
        value = _number(answer)
        if value is None or not float(value).is_integer():
            return f"the answer is a whole number ({self.unit}), got {answer!r}"
        truth = self.answer()
        if value == truth:
            return None
        return f"{self.show(value)} is too {'many' if value > truth else 'few'}"

    def show(self, answer: Any) -> str:
        value = _number(answer)
        return repr(answer) if value is None else f"{value:,.0f} {self.unit}".strip()


@dataclass(frozen=True)
class Choice:
    """One of ``options``, as text."""

    truth: Callable[[], str]
    options: Sequence[str]

    def answer(self) -> str:
        return self.truth()

    def problem(self, answer: Any) -> str | None:
        if not isinstance(answer, str) or answer.strip().lower() not in [o.lower() for o in self.options]:
            return f"the answer is one of {', '.join(map(repr, self.options))}, got {answer!r}"
        return None if answer.strip().lower() == self.answer().lower() else f"it is not {answer!r}"

    def show(self, answer: Any) -> str:
        return repr(answer)


@dataclass(frozen=True)
class Order:
    """Names in their order: a list, or text with blanks or commas between them."""

    truth: Callable[[], Sequence[str]]

    def answer(self) -> list[str]:
        return list(self.truth())

    def problem(self, answer: Any) -> str | None:
        given = answer.replace(",", " ").split() if isinstance(answer, str) else answer
        if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
            return f"the answer is a list of names, got {answer!r}"
        truth = self.answer()
        if sorted(given) != sorted(truth):
            return f"the answer has each of {', '.join(sorted(truth))} once as often as it is served"
        for place, (mine, right) in enumerate(zip(given, truth, strict=True), 1):
            if mine != right:
                return f"right up to place {place - 1}; at place {place} it is not {mine}"
        return None

    def show(self, answer: Any) -> str:
        return answer if isinstance(answer, str) else ", ".join(map(str, answer))


def _number(answer: Any) -> float | None:
    """The answer as a finite number, or None. True is no number, "3" is none either."""
    if isinstance(answer, bool) or not isinstance(answer, Real) or not isfinite(float(answer)):
        return None
    return float(answer)
