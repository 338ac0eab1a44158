"""An exam from a seed: questions for the students, and a marking guide with worked traces for you.

    uv run python notebooks/teacher/exam.py --seed 2027 --points 24 --out exams

The same seed makes the same two files. Questions are those of ``fairq.check``, with numbers of that seed;
topics take turns, so that each is asked about before one is asked about twice.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from fairq.check import Question, names, question
from fairq.check.answers import Choice, Number
from fairq.files import write_whole

LEAST = 3


def choose(seed: int, points: int) -> list[Question]:
    """Questions of all topics in turn, chosen by the seed, until the points are reached.

    Raises
    ------
    ValueError : more points than there are questions for, or too few for one; or no seed.
    """
    if seed < 0:
        raise ValueError(f"seed must be a whole number >= 0, got {seed}")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(101,)))
    left: dict[str, list[str]] = {}
    for name in names():
        left.setdefault(name.partition("/")[0], []).append(name)
    chosen: list[Question] = []
    total = 0
    most = sum(question(name, seed).points for name in names())
    if not LEAST <= points <= most:
        raise ValueError(f"points must be between {LEAST} and {most}, got {points}")
    while total < points:
        for topic in [topic for topic in left if left[topic]]:
            if total >= points:
                break
            picked = left[topic].pop(int(rng.integers(len(left[topic]))))
            chosen.append(question(picked, seed))
            total += chosen[-1].points
    order = names()
    return sorted(chosen, key=lambda q: order.index(q.name))


def exam_text(questions: list[Question], seed: int) -> str:
    """What the students get, as Markdown."""
    total = sum(q.points for q in questions)
    parts = [
        f"# Queues for a shared card: exam {seed}",
        f"{len(questions)} questions, {total} points. A pocket calculator is allowed. Show how you got "
        "there: a "
        "right way with a slip in the arithmetic gets most of the points.",
        "Name: ______________________________",
    ]
    for number, q in enumerate(questions, 1):
        parts.append(f"**{number}.** ({q.points} points) {q.text}\n\nAnswer: ____________________")
    return "\n\n".join(parts) + "\n"


def guide_text(questions: list[Question], seed: int) -> str:
    """What you get: answers, tolerance, the worked way, how to give points."""
    total = sum(q.points for q in questions)
    parts = [
        f"# Marking guide: exam {seed}",
        f"{len(questions)} questions, {total} points. Answers are reckoned by `fairq.check` from the "
        "same "
        "seed.",
        "For each question: all points for a right answer with a way that leads there; all but one for "
        "the right way with a slip; one for the right formula alone (of two points that is the same); "
        "none for a right number without any way, except "
        "where one of a few words is asked for.",
    ]
    for number, q in enumerate(questions, 1):
        answer = q.judge.show(q.answer())
        within = f" (± {q.judge.within:.1%} of it counts)" if isinstance(q.judge, Number) else ""
        if isinstance(q.judge, Choice):
            within = f" (of {', '.join(q.judge.options)})"
        parts.append(
            f"## {number}. {q.name}, {q.points} points\n\n{q.text}\n\n**Answer: {answer}**{within}\n\n"
            f"```\n{q.trace()}\n```\n\nIf they are stuck: {q.hint}"
        )
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="An exam and its marking guide.")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another exam")
    parser.add_argument("--points", type=int, default=24, help="how many points in all, at least")
    parser.add_argument("--out", type=Path, default=Path("exams"), help="folder for the two files")
    given = parser.parse_args(arguments)
    try:
        questions = choose(given.seed, given.points)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for name, text in (
        (f"exam_{given.seed}.md", exam_text(questions, given.seed)),
        (f"exam_{given.seed}_marking_guide.md", guide_text(questions, given.seed)),
    ):
        print(write_whole(given.out / name, text.encode("utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
