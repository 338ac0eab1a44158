"""Exercises that check themselves: a question with your own numbers, a verdict, a hint, a worked trace.

>>> from fairq.check import question
>>> q = question("busy/slots_needed", seed=1)
>>> q.check(None)
Not answered yet.

A right answer is never stored: it is reckoned afresh from a closed form or a simulation each time, from the
numbers that the seed drew. Files: ``question`` (how a question behaves), ``answers`` (how an answer is
judged), ``catalogue`` (which questions there are), then one file per notebook.
"""

from fairq.check.catalogue import names, question
from fairq.check.question import Question, Verdict
from fairq.check.size import size

__all__ = ["Question", "Verdict", "names", "question", "size"]
