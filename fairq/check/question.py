"""A question, and what comes back when it is answered."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairq.check.answers import Judge

HINT_AFTER, TRACE_AFTER = 2, 3
"""Wrong answers until the hint, and until the worked trace, are shown with the verdict.

The same wrong answer once more counts as well: some questions have a single one, and whoever runs a cell
again wants to hear more than the same sentence.
"""


@dataclass(frozen=True)
class Verdict:
    """What a checker says: ``right``, one sentence, and after more than one try a hint, then a trace."""

    right: bool
    words: str
    hint: str = ""
    trace: str = ""

    def __repr__(self) -> str:
        parts = [self.words]
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        if self.trace:
            parts.append(f"Worked trace:\n{self.trace}")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        color, mark = ("#00664B", "✓") if self.right else ("#8A4500", "✗")
        if self == UNANSWERED:
            color, mark = "#5B6770", "…"
        inside = f"<strong>{mark} {html.escape(self.words)}</strong>"
        if self.hint:
            inside += f"<br>Hint: {html.escape(self.hint)}"
        if self.trace:
            inside += f"<br>Worked trace:<pre style='margin:4px 0 0'>{html.escape(self.trace)}</pre>"
        style = f"border-left:4px solid {color};padding:4px 12px;color:var(--jp-ui-font-color1,#1F2933)"
        return f'<div role="status" style="{style}">{inside}</div>'


UNANSWERED = Verdict(False, "Not answered yet.")


@dataclass
class Question:
    """One exercise with one student's numbers.

    ``given``: the numbers that stand in the text. ``judge``: reckons the answer afresh and compares.
    ``answer()``: a right answer; ``work()``: how one gets there, line by line. ``points``: in an exam.
    """

    name: str
    seed: int
    text: str
    given: Mapping[str, Any]
    judge: Judge
    hint: str
    work: Callable[[], str]
    points: int = 2
    _wrong: int = field(default=0, repr=False)

    def answer(self) -> Any:
        """A right answer, reckoned now."""
        return self.judge.answer()

    def trace(self) -> str:
        """The worked solution with this question's numbers."""
        return f"{self.work()}\nAnswer: {self.judge.show(self.answer())}"

    def check(self, answer: Any) -> Verdict:
        """Compare an answer. The second wrong one brings the hint, the third the worked trace."""
        if answer is None:
            return UNANSWERED
        problem = self.judge.problem(answer)
        if problem is None:
            return Verdict(True, f"Right: {self.judge.show(answer)}.")
        self._wrong += 1
        return Verdict(
            False,
            f"Not yet: {problem}{'' if problem.endswith('?') else '.'}",
            self.hint if self._wrong >= HINT_AFTER else "",
            self.trace() if self._wrong >= TRACE_AFTER else "",
        )

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return f"**Question.** {self.text}"
