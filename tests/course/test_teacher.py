"""The teacher's tools: an exam is its seed, the guide has what the exam has not, plans name what exists."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from fairq.capacity.modelled import from_profile
from fairq.capacity.shape import Shape
from fairq.check import names, question
from fairq.plots import number
from fairq.profiles import load_profile
from fairq.scenario import Scenario
from fairq.sim import simulate

from .books import NOTEBOOKS, STUDENTS, code_of, prose_of, read, script

exam = script("teacher/exam.py")


def test_an_exam_is_its_seed(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        assert exam.main(["--seed", "7", "--points", "24", "--out", str(tmp_path / folder)]) == 0
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["exam_7.md", "exam_7_marking_guide.md"]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    exam.main(["--seed", "8", "--points", "24", "--out", str(tmp_path / "a")])
    assert (tmp_path / "a/exam_8.md").read_text("utf-8") != (tmp_path / "a/exam_7.md").read_text("utf-8")


@pytest.mark.parametrize("seed", range(5))
def test_the_guide_has_the_answers_and_the_exam_has_not(seed: int) -> None:
    questions = exam.choose(seed, 20)
    text, guide = exam.exam_text(questions, seed), exam.guide_text(questions, seed)
    assert 20 <= sum(q.points for q in questions) <= 24
    topics = {q.name.partition("/")[0] for q in questions}
    assert len(topics) >= min(len(questions), 8), "no topic is asked twice before the others were asked"
    assert len({q.name for q in questions}) == len(questions)
    for q in questions:
        fresh = question(q.name, seed)
        assert fresh.text in text
        assert fresh.text in guide
        assert f"**Answer: {fresh.judge.show(fresh.answer())}**" in guide
        assert fresh.trace() in guide
        assert fresh.hint not in text
    assert "Worked" not in text
    assert text.count("Answer: ____") == len(questions)


def test_points_that_cannot_be_met_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    most = sum(question(name, 1).points for name in names())
    assert exam.main(["--points", str(most + 1), "--out", str(tmp_path)]) == 2
    assert f"points must be between 3 and {most}, got {most + 1}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert len(exam.choose(1, most)) == len(names())


def test_a_seed_below_zero_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert exam.main(["--seed", "-1", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.strip() == "seed must be a whole number >= 0, got -1"
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_the_teacher_is_told() -> None:
    def page(name: str) -> str:
        return (NOTEBOOKS / "teacher" / name).read_text(encoding="utf-8")

    box = Scenario.load("noisy_burst")
    rows = simulate(box.workload(), box.policy("FIFO"), box.engine(), seed=box.seed).requests
    asked = rows[(rows["group"] == "chat") & rows["arrival"].between(85, 90)]
    assert f"(it is {asked['wait'].mean():.0f} s;" in page("plan_90_minutes.md")
    card = from_profile(load_profile("rtx4090-llama31-8b"), Shape.of(600, 180), ttft_s=2, tpot_s=0.05)
    total, alone = number(card.top.tokens_per_s), card.at(1).tokens_per_s_per_stream
    assert f'"{total} tokens/s, so {alone:.0f} for each of us."' in page("misconceptions.md")
    seeded = [path.name[:2] for path in STUDENTS if "SEED = 1 " in "\n".join(code_of(read(path)))]
    assert seeded == [f"0{n}" for n in range(10)]
    blocks = re.findall(r"^\| (?:\d+–\d+|after) \| [^|]+ \| ([^|]+) \|", page("plan_half_day.md"), flags=re.M)
    assert sum(bool(re.match(r"0\d", block)) for block in blocks) == 9, "eight, and 09 as a project"


def test_plans_add_up_and_name_what_exists() -> None:
    for name, minutes in (("plan_90_minutes.md", 90), ("plan_half_day.md", 240)):
        text = (NOTEBOOKS / "teacher" / name).read_text(encoding="utf-8")
        spans = [(int(a), int(b)) for a, b in re.findall(r"^\| (\d+)–(\d+) \|", text, flags=re.M)]
        assert spans[0][0] == 0
        assert spans[-1][1] == minutes
        assert all(before[1] == after[0] for before, after in pairwise(spans))


def test_each_misconception_points_to_a_part_that_exists() -> None:
    text = (NOTEBOOKS / "teacher" / "misconceptions.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith('| "')]
    assert len(rows) >= 15
    books = {path.name[:2]: path for path in STUDENTS}
    for row in rows:
        for book, rest in re.findall(r"(0\d)([^;|]*)", row.rsplit("|", 2)[1]):
            notebook = read(books[book])
            for part in re.findall(r"\d", rest.partition("exercise")[0]):
                assert re.search(rf"^## {part}\.", prose_of(notebook), flags=re.M), f"{row}: {book} {part}"
            for exercise in re.findall(r"exercise (\d)", rest):
                assert f"q{exercise} = question(" in "\n".join(code_of(notebook))
