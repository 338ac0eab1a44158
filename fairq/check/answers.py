"""How an answer is judged. Each judge reckons the truth when it is asked, and says what is wrong in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
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
            return f"the answer is a number ({self.unit}), got {_written(answer)}"
        truth = self.answer()
        if abs(value - truth) <= self.within * abs(truth) + 1e-12:
            return None
        slip, words, question = SLIPS.get(self.unit, (1000, "a thousand", ""))
        for ratio, too in ((value, truth), "much"), ((truth, value), "little"):
            if ratio[1] and 0.9 * slip < ratio[0] / ratio[1] < 1.1 * slip:
                return f"{self.show(value)} is {words} times too {too}{question}"
        return f"{self.show(value)} is too {'high' if value > truth else 'low'}"

    def show(self, answer: Any) -> str:
        value = _number(answer)
        return _written(answer) if value is None else f"{four_digits(value)} {self.unit}".strip()


SLIPS: Mapping[str, tuple[int, str, str]] = {
    "s": (1000, "a thousand", ": seconds or milliseconds?"),
    "s per level": (60, "sixty", ": seconds or minutes?"),
    "%": (100, "a hundred", ": is it in per cent?"),
    "thousand tokens": (1000, "a thousand", ": is it in thousand tokens?"),
}
"""Unit → the factor by which answers in the wrong unit are off, in words, and what to ask then."""


@dataclass(frozen=True)
class Whole:
    """A whole number, exactly. ``unit``: in the plural, such as "slots"; ``ordinal``: which, not how many."""

    truth: Callable[[], int]
    unit: str
    ordinal: bool = False

    def answer(self) -> int:
        return int(self.truth())

    def problem(self, answer: Any) -> str | None:
        value = _number(answer)
        if value is None or not float(value).is_integer():
            return f"the answer is a whole number ({self.unit}), got {_written(answer)}"
        truth = self.answer()
        if value == truth:
            return None
        if self.ordinal:
            return f"{self.show(value)} is too {'late' if value > truth else 'early'}"
        verb = "is" if value == 1 else "are"
        return f"{self.show(value)} {verb} too {'many' if value > truth else 'few'}"

    def show(self, answer: Any) -> str:
        value = _number(answer)
        if value is None:
            return _written(answer)
        number = f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
        if self.ordinal:
            return f"{self.unit.removesuffix('s')} {number}"
        return f"{number} {self.unit if value != 1 else self.unit.removesuffix('s')}".strip()


@dataclass(frozen=True)
class Choice:
    """One of ``options``, as text."""

    truth: Callable[[], str]
    options: Sequence[str]

    def answer(self) -> str:
        return self.truth()

    def problem(self, answer: Any) -> str | None:
        if not isinstance(answer, str) or answer.strip().lower() not in [o.lower() for o in self.options]:
            return f"the answer is one of {', '.join(map(repr, self.options))}, got {_written(answer)}"
        return None if answer.strip().lower() == self.answer().lower() else f"it is not {_written(answer)}"

    def show(self, answer: Any) -> str:
        return _written(answer)


@dataclass(frozen=True)
class Order:
    """Names in their order: a list, or text with blanks or commas between them."""

    truth: Callable[[], Sequence[str]]

    def answer(self) -> list[str]:
        return list(self.truth())

    def problem(self, answer: Any) -> str | None:
        given = answer.replace(",", " ").split() if isinstance(answer, str) else answer
        if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
            return f"the answer is a list of names, got {_written(answer)}"
        truth = self.answer()
        if sorted(given) != sorted(truth):
            times = Counter(sorted(truth))
            if max(times.values()) == 1:
                need = f"{', '.join(times)} once each"
            else:
                need = f"{', '.join(f'{who} {n}' for who, n in times.items())} times"
            return f"name {need}, got {', '.join(given)[:80] or 'nothing'}"
        for place, (mine, right) in enumerate(zip(given, truth, strict=True), 1):
            if mine != right:
                return (
                    f"the first is not {mine}"
                    if place == 1
                    else (f"right up to number {place - 1}; number {place} is not {mine}")
                )
        return None

    def show(self, answer: Any) -> str:
        return answer if isinstance(answer, str) else ", ".join(map(str, answer))


def four_digits(value: float) -> str:
    """Four significant digits, without an exponent where people write none: 0.1215, 31.43, 10,300."""
    if not 1e-4 <= abs(value) < 1e15:
        return f"{value:.4g}"
    digits = 3 - floor(log10(abs(value)))
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def per_cent(part: float) -> str:
    """A part as it is written in the text: 0.6 → "60 %"."""
    return f"{100 * part:.4g} %"


def _number(answer: Any) -> float | None:
    """The answer as a finite number, or None. True is no number, "3" is none, nor is one beyond a float."""
    if isinstance(answer, bool) or not isinstance(answer, Real):
        return None
    try:
        value = float(answer)
    except OverflowError:
        return None
    return value if isfinite(value) else None


def _written(answer: Any) -> str:
    """An answer as Python writes it, on one line at most."""
    try:
        text = repr(answer)
    except ValueError:  # a whole number of thousands of digits
        return "a number too long to write"
    return text if len(text) <= 80 else f"{text[:79]}…"
