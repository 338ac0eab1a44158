"""Every notebook of the course as a learner meets it: run all, move the first slider by keyboard, look."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lab_server import ERRORS, NOTEBOOKS

pytestmark = pytest.mark.slow

COURSE = sorted(path.name for path in NOTEBOOKS.glob("0[1-9]_*.ipynb"))


@pytest.mark.parametrize("name", COURSE, ids=lambda name: name[:2])
def test_a_learner_runs_it_and_moves_the_first_slider(browser_page, tmp_path: Path, name: str) -> None:
    at, page = browser_page, browser_page.page
    at.open(name)
    at.run_all()
    assert page.locator(ERRORS).count() == 0

    lab = page.locator(".fairq-lab").first
    picture = lab.locator(".fairq-picture img")
    before = picture.get_attribute("src")
    handle = lab.locator(".noUi-handle").first
    handle.scroll_into_view_if_needed()
    handle.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "old => document.querySelector('.fairq-lab .fairq-picture img').src !== old",
        arg=before,
        timeout=90_000,
    )
    assert len(picture.get_attribute("alt")) > 40
    assert lab.locator(".fairq-lab [role=status]", has_text="Error").count() == 0

    # Every picture is there, has words, and is neither blank nor wider than the page.
    pictures = page.locator(".jp-Notebook img")
    for shown in pictures.all():
        assert len(shown.get_attribute("alt") or "") > 40
        if shown.is_visible():
            assert shown.evaluate("e => e.naturalWidth > 100 && e.getBoundingClientRect().right <= 1280")
    assert all(width > 100 for width in at.widths_of_pictures_in_prose())
    wide = page.evaluate(
        "() => [...document.querySelectorAll('.jp-Cell')].filter(e => e.scrollWidth > e.clientWidth + 2)"
        ".map(e => e.innerText.slice(0, 60))"
    )
    assert wide == []
    assert lab.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    assert page.locator(".fairq-lab [title='null']").count() == 0
    assert at.outside() == []

    folder = Path(os.environ.get("FAIRQ_SCREENSHOTS", tmp_path)) / name[:2]
    folder.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": 1280, "height": 2600})
    for number, cell in enumerate(page.locator(".jp-Notebook .jp-Cell").all()):
        cell.screenshot(path=folder / f"cell-{number:02d}.png")
    assert len(list(folder.glob("*.png"))) >= 15
