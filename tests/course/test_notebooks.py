"""What stands in the notebooks, without running them: structure, links, words for pictures, no solutions."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
from nbstripout import strip_output  # type: ignore[import-untyped]

from fairq.check import names

from .books import NOTEBOOKS, SOLUTIONS, STUDENTS, code_of, exercises, prose_of, read, script

build = script("source/build.py")
IDS = [path.stem for path in STUDENTS]
PAIRS = [(path, SOLUTIONS / path.name) for path in STUDENTS]
BOTH = [path for pair in PAIRS for path in pair]


def test_there_are_ten() -> None:
    assert [path.name[:2] for path in STUDENTS] == [f"0{n}" for n in range(10)]
    assert [path.name for path in STUDENTS] == sorted(path.name for path in SOLUTIONS.glob("*.ipynb"))


def test_the_notebooks_are_what_their_sources_make() -> None:
    made = build.files()
    assert len(made) == 20
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run notebooks/source/build.py"


@pytest.mark.parametrize("path", STUDENTS, ids=IDS)
def test_the_rhythm(path: Path) -> None:
    notebook = read(path)
    prose, code = prose_of(notebook), "\n".join(code_of(notebook))
    assert 15 <= len(notebook.cells) <= 30
    first = notebook.cells[0].source
    assert first.startswith(f"# {path.name[:2]} ")
    assert re.search(r"\*\*In about \d+ minutes you (can|have)\*\*\n\n(- .*\n?){3,}", first), "goals"
    assert "**Predict.**" in prose
    assert "Play" in prose
    assert "lab = Lab(" in code
    assert re.search(r"controls=\(", code) or path.name[:2] == "00", "only this notebook's knobs"
    assert "$$" in prose, "the one formula"
    sourceless = ("00", "03", "06", "08")
    assert re.search(r"\b1[89]\d\d\b|\b20\d\d\b", prose) or path.name[:2] in sourceless, "its source"
    assert re.search(r"Nothing runs here\? (This is the picture|A picture of the same idea)", prose)
    assert "## Exercises" in prose
    assert "What this model leaves out" in notebook.cells[-1].source
    assert "assert " in code, "numbers in the prose are held to cells"
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@pytest.mark.parametrize("path", BOTH, ids=lambda p: f"{p.parent.name}-{p.stem[:2]}")
def test_links_lead_somewhere_and_pictures_have_words(path: Path) -> None:
    prose = prose_of(read(path))
    links = re.findall(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", prose)
    ways = 2 if path.name.startswith("00_") else 3
    assert len([link for link in links if link[2].endswith(".ipynb")]) >= ways, "back and on, top and bottom"
    for picture, words, target in links:
        if picture:
            assert len(words) > 60, f"{target}: words for those who cannot see it"
        elif not target.startswith(("http", "#")):
            assert (path.parent / target).exists(), target
    assert "[Glossary](" in prose
    assert "<img" not in prose


@pytest.mark.parametrize("path", BOTH, ids=lambda p: f"{p.parent.name}-{p.stem[:2]}")
def test_a_notebook_carries_its_pictures(path: Path) -> None:
    """A link to a file leads nowhere once the notebook's own folder is the server's root."""
    seen = 0
    for cell in read(path).cells:
        shown = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", cell.source) if cell.cell_type == "markdown" else []
        carried = cell.get("attachments", {})
        assert sorted(shown) == sorted(f"attachment:{name}" for name in carried)
        for name, content in carried.items():
            assert list(content) == ["image/png"]
            picture = base64.b64decode(content["image/png"], validate=True)
            assert picture == (NOTEBOOKS.parent / "figures" / name).read_bytes(), name
            seen += 1
    assert seen >= 1


def test_no_solution_stands_in_a_students_notebook() -> None:
    for path, solved in PAIRS:
        student, solution = read(path), read(solved)
        there = {cell.source for cell in student.cells}
        tagged = [cell.source for cell in solution.cells if "solution" in cell.metadata.get("tags", [])]
        assert len(tagged) == exercises(path)
        for source in tagged:
            assert source not in there
            for line in source.splitlines():
                if line.startswith("answer_"):
                    assert line not in "\n".join(there), f"{path.name}: {line}"
        assert "solution" not in [tag for c in student.cells for tag in c.metadata.get("tags", [])]
        assert "verdict.right" not in "\n".join(code_of(student))
        open_ones = [c.source for c in student.cells if "exercise" in c.metadata.get("tags", [])]
        assert len(open_ones) == exercises(path)
        assert all(re.match(r"answer_\d = None  # \S", source) for source in open_ones)
        # The same apart from that, in the same order.
        plain = [c.source for c in student.cells if c.cell_type == "code" and not c.metadata.get("tags")]
        assert plain == [
            c.source for c in solution.cells if c.cell_type == "code" and not c.metadata.get("tags")
        ]


def test_no_outputs_and_no_widget_state_are_committed() -> None:
    for path in BOTH:
        notebook, stripped = read(path), strip_output(read(path), False, False, False)
        assert notebook == stripped, path.name
        assert "widgets" not in notebook.metadata


def test_no_picture_or_table_shows_a_p99_of_one_run() -> None:
    """p99s come from the lab (intervals over runs, "too few") or from t-intervals and means over runs."""
    for path in STUDENTS:
        for source in code_of(read(path)):
            if re.search(r"percentile\(.*99", source):
                assert "t_interval(" in source or "single runs" in source, f"{path.name}: {source[:80]}"
            assert ".latency(" not in source, f"{path.name}: a single run's table holds bare p99s"


def run_cells(sources: list[str], seed: int) -> dict[str, Any]:
    space: dict[str, Any] = {}
    for source in sources:
        exec(compile(re.sub(r"^SEED = \d+", f"SEED = {seed}", source, flags=re.M), "cell", "exec"), space)
    return space


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_solutions_are_right_for_every_seed_and_wrong_answers_fail(pair: tuple[Path, Path]) -> None:
    student, solution = (read(path) for path in pair)

    def needed(notebook: Any) -> list[str]:
        imports = code_of(notebook)[0]
        asked = [c.source for c in notebook.cells if c.cell_type == "code" and " = question(" in c.source]
        # A solution may use a helper that the notebook defines above.
        return [imports, *asked]

    tagged = [c.source for c in solution.cells if "solution" in c.metadata.get("tags", [])]
    for seed in (1, 2, 3, 12):
        space = run_cells([*needed(solution), *tagged], seed)
        for n in range(1, exercises(pair[0]) + 1):
            q = space[f"q{n}"]
            assert q.seed == seed
            assert q.check(space[f"answer_{n}"]).right
    open_ones = [c.source for c in student.cells if "exercise" in c.metadata.get("tags", [])]
    for n, source in enumerate(open_ones, 1):
        for wrong in ("-17.25", '"nobody"'):
            space = run_cells([*needed(student), source.replace("= None", f"= {wrong}")], 1)
            verdict = space[f"q{n}"].check(space[f"answer_{n}"])
            assert not verdict.right
            assert "Not yet" in verdict.words
        assert run_cells([*needed(student), source], 1)[f"q{n}"].check(None).words == "Not answered yet."


def test_every_notebook_asks_its_own_topic() -> None:
    topics = list(dict.fromkeys(name.partition("/")[0] for name in names()))
    for path, topic in zip(STUDENTS, topics, strict=True):
        asked = re.findall(r'question\("([a-z_]+)/([a-z_]+)"', "\n".join(code_of(read(path))))
        assert len(asked) == exercises(path)
        assert {t for t, _ in asked} == {topic}
        assert all(f"{t}/{name}" in names() for t, name in asked)


def test_a_source_that_cannot_be_read_says_where() -> None:
    with pytest.raises(build.SourceError, match=r"x\.md:3: this code cell has no end"):
        build.cells("# A\n\n```{code-cell} python\nx = 1\n", "x.md")
    with pytest.raises(build.SourceError, match=r"x\.md:1: tags may be exercise, solution, got secret"):
        build.cells("```{code-cell} python\n:tags: [secret]\nx = 1\n```\n", "x.md")
    with pytest.raises(build.SourceError, match=r"no picture nothing_at_all\.png"):
        build.notebook("![@](../figures/nothing_at_all.png)", "x.md", solutions=False)
    found = build.cells("a\n\n+++\n\nb\n\n```{code-cell} python\nx = 1\n```\nc\n")
    assert [(cell.kind, cell.text) for cell in found] == [
        ("markdown", "a"),
        ("markdown", "b"),
        ("code", "x = 1"),
        ("markdown", "c"),
    ]


def test_the_glossary_names_notebooks_that_exist() -> None:
    text = (NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(rows) >= 40
    words = [row.split("**")[1].lower() for row in rows]
    assert words == sorted(words)
    for row in rows:
        assert re.search(r"\((0\d)(, 0\d)*\) \|$", row), row
