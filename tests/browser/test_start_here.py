"""The first notebook as a reader meets it: JupyterLab in Chromium, run, slide by keyboard, export."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest
from lab_server import ERRORS

pytestmark = pytest.mark.slow

PICTURE = ".fairq-lab .fairq-picture img"


def test_a_reader_runs_it_moves_a_slider_and_takes_the_chart_home(browser_page, tmp_path: Path) -> None:
    at, page = browser_page, browser_page.page
    at.open("00_start_here.ipynb")
    at.run_all()
    assert page.locator(ERRORS).count() == 0

    # The pictures in the prose are there too, folded in as they are.
    assert all(width > 100 for width in at.widths_of_pictures_in_prose())

    lab = page.locator(".fairq-lab").first
    picture = lab.locator(".fairq-picture img")
    before = picture.get_attribute("src")
    assert before.startswith("data:image/png;base64,")
    assert "p99" in picture.get_attribute("alt")
    picture.scroll_into_view_if_needed()
    page.screenshot(path=tmp_path / "lab.png")

    # The number box is found by its label, the slider beside it is moved by keyboard alone.
    box = lab.get_by_label("Slots")
    assert box.input_value() == "8"
    handle = box.locator("xpath=ancestor::*[contains(@class,'widget-hbox')][1]").locator(".noUi-handle")
    handle.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "([q, old]) => document.querySelector(q).src !== old", arg=[PICTURE, before], timeout=60_000
    )
    assert box.input_value() == "9"
    # First a quick picture, then the confident one.
    page.wait_for_function(
        "() => /^10 runs of 4 policies/.test(document.querySelector('.fairq-lab [role=status]').textContent)"
        " && !/follow/.test(document.querySelector('.fairq-lab [role=status]').textContent)",
        timeout=60_000,
    )

    for label in ("Distribution", "Queue", "p50 and p99", "Slots"):
        old = picture.get_attribute("src")
        lab.get_by_role("button", name=label, exact=True).click()
        page.wait_for_function(
            "([q, old]) => document.querySelector(q).src !== old", arg=[PICTURE, old], timeout=60_000
        )
        page.screenshot(path=tmp_path / f"chart-{label.split()[0].lower()}.png")
        # Its name says which one is pressed, also where no colour is seen.
        shown = lab.get_by_role("button", name=re.compile(r"\(shown\)$"))
        assert shown.count() == 1
        assert shown.text_content() == label
        assert lab.get_by_role("button", name=f"{label} (shown)", exact=True).count() == 1

    lab.get_by_role("button", name="All files").click()
    link = lab.get_by_role("link", name="Download noisy-burst_slots.svg")
    link.wait_for(timeout=60_000)
    with page.expect_download() as download:
        link.click()
    exports = at.project / "figures" / "exports"
    assert Path(download.value.path()).read_bytes() == (exports / "noisy-burst_slots.svg").read_bytes()
    # The rows are too many for the page as they are, not zipped.
    with page.expect_download() as download:
        lab.get_by_role("link", name="Download noisy-burst_slots_rows.csv.zip").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        rows = archive.read("noisy-burst_slots_rows.csv")
    assert rows == (exports / "noisy-burst_slots_rows.csv").read_bytes()
    for suffix in (".png", ".svg", ".pdf", "_table.csv", "_rows.csv", ".json"):
        assert (exports / f"noisy-burst_slots{suffix}").stat().st_size > 0
    assert json.loads((exports / "noisy-burst_slots.json").read_text())["settings"]["slots"] == 9
    assert (exports / "it_was_fine_last_week.png").exists()

    lab.get_by_role("button", name="Show code").click()
    lab.locator("pre").wait_for()
    assert "'engine.slots': 9" in lab.locator("pre").inner_text()
    page.screenshot(path=tmp_path / "exported.png")

    # Nothing is cut off or scrolls sideways at this width, and no label is shortened by the page.
    assert lab.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    cut = lab.evaluate(
        "e => [...e.querySelectorAll('.widget-label,button')].filter(l => l.offsetParent"
        " && l.scrollWidth > l.clientWidth + 1).map(l => l.textContent)"
    )
    assert cut == []
    # No tooltip reads "null".
    assert page.locator(".fairq-lab [title='null']").count() == 0
    assert at.outside() == []
