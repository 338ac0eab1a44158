"""A narrow window: JupyterLab's file browser takes a third of 800 pixels, the labs keep to their cells."""

from __future__ import annotations

import nbformat
import pytest
from lab_server import ERRORS
from test_find import log

pytestmark = pytest.mark.slow

CELLS = (
    "from fairq.lab import Lab, StepLab\nLab(replications=1)",
    "Lab('mine.csv', chart='before_after')",
    "Lab('replicas', replications=1, policies=['FIFO'], chart='routers')",
    "from fairq import DRR, Request\n"
    "requests = [Request(who, 300, arrival=0, service=3) for who in ('ana', 'ben')]\n"
    "StepLab(DRR(500), requests)",
)

TOO_WIDE = """cell => {
  const wide = [];
  const edge = cell.getBoundingClientRect().right + 1;
  // What stands in a table that scrolls by itself is seen by scrolling it.
  for (const e of [cell, ...cell.querySelectorAll('*')].filter(e => !e.closest('table')))
    if (e.offsetParent && (e.getBoundingClientRect().right > edge
        || (e.scrollWidth > e.clientWidth + 1 && !e.matches('.fairq-table, pre, select, input')
            && getComputedStyle(e).overflowX !== 'visible')))
      wide.push(`${e.tagName}.${e.className}: ${e.scrollWidth} in ${e.clientWidth}`);
  for (let e = cell; !e.matches('.jp-Notebook'); e = e.parentElement)
    if (e.scrollWidth > e.clientWidth + 1) wide.push(`around it ${e.className}`);
  return wide;
}"""


def test_labs_are_as_narrow_as_their_cells(browser_page) -> None:
    at, page = browser_page, browser_page.page
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    folder = at.project / "notebooks"
    nbformat.write(notebook, folder / "narrow.ipynb")
    (folder / "mine.csv").write_text(log())
    at.open("narrow.ipynb")
    at.run_all()
    assert page.locator(ERRORS).count() == 0
    assert page.locator("#filebrowser").is_visible()
    labs = page.locator(".jp-OutputArea-output:has(.fairq-lab)")
    page.wait_for_function(
        f"() => document.querySelectorAll('.fairq-lab .fairq-picture :is(img, svg)').length >= {len(CELLS)}",
        timeout=60_000,
    )
    assert labs.count() == len(CELLS)
    for width in (800, 1000, 1400):
        page.set_viewport_size({"width": width, "height": 1000})
        page.wait_for_function(f"() => document.documentElement.clientWidth === {width}")
        for cell in labs.all():
            assert cell.evaluate(TOO_WIDE) == [], width
    assert labs.first.evaluate("e => e.clientWidth") > 900, "the last of these windows has room"
    # In the narrow one it is the table that scrolls, and the rest is there at a glance.
    page.set_viewport_size({"width": 800, "height": 1000})
    page.wait_for_function("() => document.documentElement.clientWidth === 800")
    assert labs.first.evaluate("e => e.clientWidth") < 500
    table = labs.first.locator(".fairq-table").first
    assert table.evaluate("e => e.scrollWidth > e.clientWidth")
    assert table.evaluate("e => { e.scrollLeft = 1000; return e.scrollLeft > 0 }")
