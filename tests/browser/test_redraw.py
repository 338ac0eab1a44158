"""What a browser shows in the hard cases: a busy kernel, a notebook that was never run here."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from lab_server import ERRORS
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

BUSY = """
import time, matplotlib
matplotlib.use("agg")
from matplotlib.figure import Figure
import io
began, drawn = time.monotonic(), 0
while time.monotonic() - began < 8:
    figure = Figure()
    axes = figure.add_subplot()
    axes.loglog([1, 10, 100], [1, 5, 3])
    axes.set_title("$x^2$")
    figure.savefig(io.BytesIO())
    drawn += 1
print("drawn", drawn > 3)
"""


# The number box that has this label.
BOX = "[...document.querySelectorAll('.fairq-lab label')].find(e => e.textContent === 'Slots').control"


def write(path: Path, *cells: str) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    nbformat.write(notebook, path)


def test_sliders_moved_while_a_cell_draws_harm_neither(browser_page, tmp_path: Path) -> None:
    at, page = browser_page, browser_page.page
    write(
        at.project / "notebooks" / "busy.ipynb",
        "from fairq.lab import Lab\nlab = Lab('noisy_burst', replications=4)\nlab",
        BUSY,
        "print('slots', lab.settings['slots'], sorted(set(lab.table['runs'])))",
    )
    at.open("busy.ipynb")
    page.locator(".jp-CodeCell").first.click()
    page.keyboard.press("Shift+Enter")
    lab = page.locator(".fairq-lab")
    lab.wait_for(timeout=60_000)
    box = lab.get_by_label("Slots", exact=True)
    handle = box.locator("xpath=ancestor::*[contains(@class,'widget-hbox')][1]").locator(".noUi-handle")
    # From the second message on, JupyterLab sends them to a thread of their own, also while a cell runs.
    handle.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => {BOX}.value === '9'", timeout=60_000)
    page.locator(".jp-CodeCell").nth(1).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    page.get_by_text("Python 3 (ipykernel) | Busy").wait_for(timeout=30_000)
    handle.focus()
    for _ in range(11):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => {BOX}.value === '20'", timeout=60_000)
    assert page.get_by_text("drawn True").count() == 0, "the values should arrive while the cell runs"
    page.get_by_text("drawn True").wait_for(timeout=60_000)
    # The newest value wins, and the picture is the confident one of that value.
    page.wait_for_function(
        "() => /^4 runs of 4 policies.*drawn in [0-9,]+ ms\\.$/.test("
        "document.querySelector('.fairq-lab [role=status]').textContent)",
        timeout=60_000,
    )
    page.locator(".jp-CodeCell").nth(2).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    page.get_by_text("slots 20 [4]").wait_for(timeout=60_000)
    assert page.locator(ERRORS).count() == 0
    assert at.outside() == []


def test_a_cell_that_fails_is_seen(browser_page) -> None:
    """Else no page here could be told to have none."""
    at, page = browser_page, browser_page.page
    write(at.project / "notebooks" / "wrong.ipynb", "1 / 0")
    at.open("wrong.ipynb")
    page.locator(".jp-CodeCell").first.click()
    page.keyboard.press("Shift+Enter")
    page.locator(ERRORS).wait_for(timeout=60_000)


def test_a_notebook_that_was_not_run_here_shows_the_picture(browser_page, tmp_path: Path) -> None:
    at, page = browser_page, browser_page.page
    path = at.project / "notebooks" / "cold.ipynb"
    write(path, "from fairq.lab import Lab\nLab('published_burst', replications=1)")
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3", store_widget_state=False).execute()
    nbformat.write(notebook, path)
    at.open("cold.ipynb")
    picture = page.locator(".jp-OutputArea img").first
    picture.wait_for(timeout=30_000)
    assert picture.evaluate("e => e.naturalWidth") > 500
    assert page.get_by_text("Error displaying widget").count() == 0
    page.screenshot(path=tmp_path / "cold.png")
