"""Slides from a notebook: what begins one, what is left out, and that they need no network."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import nbformat
import pytest

from .books import NOTEBOOKS, STUDENTS, prose_of, read, script

slides = script("teacher/slides.py")
CHROMIUM = os.environ.get("FAIRQ_CHROMIUM", "/usr/bin/chromium")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def small_notebook(folder: Path) -> Path:
    """What the course's notebooks are made of, in four cells."""
    picture = {slides.WIDGET: {"model_id": "x"}, "image/png": PIXEL, "text/plain": "A picture in words."}
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell(
                "# A queue\n\n← [before](00_x.ipynb) · [Glossary](glossary.md)\n\nFirst.\n\n"
                "## 1. A part\n\nSome *words* of [another](01_x.ipynb).\n\n$$\\rho = \\frac{a}{b}$$\n\n"
                "> **Predict.** How many?\n\nThe answer is seven.\n\n"
                "<details><summary>Nothing runs here?</summary>\n\n![x](../figures/x.png)\n\n</details>\n\n"
                "```python\n# no heading\n```\n\n![Dots in words.](attachment:dot.png)",
                attachments={"dot.png": {"image/png": PIXEL}},
            ),
            nbformat.v4.new_code_cell("lab", outputs=[nbformat.v4.new_output("display_data", picture)]),
            nbformat.v4.new_code_cell("answer = None", metadata={"tags": ["exercise"]}),
            nbformat.v4.new_markdown_cell("## Long\n\n" + "\n\n".join(["word " * 60] * 9)),
        ]
    )
    path = folder / "05_x.ipynb"
    nbformat.write(notebook, path)
    return path


def pages(text: str) -> list[str]:
    """What stands on each slide, as text with its tags."""
    # A slide is a section in a section.
    return text.split("<section")[2::2]


def test_slides_begin_at_headings_predictions_and_pictures(tmp_path: Path) -> None:
    text = slides.slides(small_notebook(tmp_path), code=False, run=False)
    made = pages(text)
    assert "A queue" in made[0]
    assert "First." in made[0]
    assert "rho" in made[1]
    assert "How many?" in made[2]
    assert "The answer is seven" in made[3], "not beside the question"
    assert f'alt="Dots in words." src="data:image/png;base64,{PIXEL}"' in made[3], "a cell's own picture"
    assert PIXEL in made[4]
    assert 'alt="A picture in words."' in made[4]
    assert "1. A part" in made[4], "each slide says which part it belongs to"
    assert all(len(re.findall(r"\bword\b", page)) < 60 * 5 for page in made), "no slide is too long"
    assert len(re.findall(r"\bword\b", "".join(made))) == 60 * 9
    for gone in (
        "model_id",
        "answer = None",
        "Glossary",
        "Nothing runs here",
        "../figures",
        "attachment:",
        "¶",
        ".ipynb",
    ):
        assert gone not in text, gone
    assert "<script src" not in text
    assert not re.search(r'(?:src|href)="https?:', text), "one file, no network"


def test_every_formula_of_the_course_can_be_set() -> None:
    seen = 0
    for path in STUDENTS:
        for block in slides._DISPLAY.findall(prose_of(read(path))):
            assert "data:image/svg+xml;base64," in slides.formula(block, 20)
            seen += 1
    assert seen >= 8


def test_slides_need_no_network(tmp_path: Path) -> None:
    if importlib.util.find_spec("playwright") is None or not Path(CHROMIUM).exists():
        assert not os.environ.get("CI"), "in CI the slides must be looked at"
        pytest.skip(f"no playwright or no Chromium at {CHROMIUM} (set FAIRQ_CHROMIUM)")
    from playwright.sync_api import Route, sync_playwright

    page_file = tmp_path / "slides.html"
    page_file.write_text(slides.slides(small_notebook(tmp_path), code=False, run=False), encoding="utf-8")
    asked: list[str] = []
    errors: list[str] = []

    def answer(route: Route) -> None:
        if route.request.url.startswith(("file:", "data:")):
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.route("**/*", answer)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(page_file.as_uri())
        shown = page.locator("section section.now")
        assert shown.count() == 1
        assert "A queue" in shown.inner_text()
        assert "Predict" not in page.locator("main").inner_text(), "the others are hidden"
        count = page.locator("section section").count()
        seen = []
        for _ in range(count):
            box = shown.bounding_box()
            assert box["height"] > 20
            assert box["y"] + box["height"] <= 720, "cut off"
            seen.append(shown.inner_text())
            page.keyboard.press("ArrowRight")
        assert len(set(seen)) > 4
        assert page.locator(".turn span").inner_text() == f"{count} of {count}"
        page.keyboard.press("Home")
        assert "A queue" in shown.inner_text()
        page.get_by_role("button", name="Next slide").click()
        assert page.evaluate("location.hash") == "#2"
        browser.close()
    assert asked == []
    assert errors == []


def test_a_notebook_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert slides.main(["17"]) == 2
    assert "notebook must be one of 00, 01, 02" in capsys.readouterr().err
    assert slides.find("05", solutions=True).parent.name == "solutions"


@pytest.mark.slow
def test_slides_of_a_real_notebook(tmp_path: Path) -> None:
    assert slides.main(["05", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "05_what_is_a_fair_turn.slides.html").read_text("utf-8")
    assert len(pages(text)) > 14
    assert "widget-view+json" not in text
    assert text.count("data:image/png;base64") >= 3
    for part in re.findall(r"^## (.+)$", prose_of(read(NOTEBOOKS / "05_what_is_a_fair_turn.ipynb")), re.M):
        assert re.search(rf"<h2[^>]*>{re.escape(part)}", text), f"{part} begins no slide"
