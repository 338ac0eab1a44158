"""From a log of one's own to a setting, in JupyterLab in Chromium: upload, promise, button, files."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.slow

CELL = "from fairq.lab import Lab\nlab = Lab('published_burst', replications=1, controls=('slots',))\nlab"


def log() -> str:
    """A pile of long requests from one tenant at second 5, a short one from another every second."""
    rows = [(5 + 0.01 * i, "reports", 400, 200) for i in range(60)]
    rows += [(1.0 * i, "desk", 100, 20) for i in range(60)]
    lines = [",".join(map(str, row)) for row in sorted(rows)]
    return "\n".join(["arrived_s,tenant,input_tokens,output_tokens", *lines]) + "\n"


def test_a_reader_opens_a_log_and_takes_the_setting_home(browser_page, tmp_path: Path) -> None:
    at, page = browser_page, browser_page.page
    page.set_viewport_size({"width": 1280, "height": 2600})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    nbformat.write(notebook, at.project / "notebooks" / "mine.ipynb")
    (tmp_path / "my box.csv").write_text(log())
    at.open("mine.ipynb")
    at.run_all()
    lab, finder = page.locator(".fairq-lab").first, page.locator(".fairq-find").first
    assert not finder.is_visible(), "a lesson with few knobs has none"

    with page.expect_file_chooser() as chooser:
        lab.get_by_role("button", name="Open a log").click()
    chooser.value.set_files(tmp_path / "my box.csv")
    promise = finder.get_by_label("Promise")
    promise.wait_for(timeout=60_000)
    page.wait_for_function(
        "() => /^desk p99 ttft < /.test(document.querySelector('.fairq-find input').value)", timeout=60_000
    )

    status, button = finder.locator("[role=status]"), finder.get_by_role("button", name="Find a setting")
    promise.fill("desc p99 ttft < 2 s")
    button.click()
    finder.get_by_text("did you mean 'desk'?").wait_for(timeout=60_000)
    promise.fill("desk p99 ttft < 2 s")
    button.click()
    finder.get_by_role("button", name="Stop").click()
    finder.get_by_text("Stopped.").wait_for(timeout=60_000)
    button.click()
    finder.get_by_text("Trying").wait_for(timeout=60_000)
    finder.locator(".fairq-found .lead").wait_for(timeout=180_000)
    assert finder.locator(".lead").inner_text().startswith("Apply '")
    assert "settings tried on 120 requests, once each" in status.inner_text()
    picture = finder.locator(".fairq-found > * img, .fairq-found img").first
    assert "settings reach desk p99 ttft < 2 s" in picture.get_attribute("alt")
    assert picture.evaluate("e => e.complete && e.naturalWidth > 600")
    assert finder.get_by_text("Who pays (mean latency): reports").count() == 1
    shots = Path(os.environ.get("FAIRQ_SCREENSHOTS", tmp_path))
    finder.screenshot(path=shots / "found.png")
    for folded in finder.locator("summary").all():
        folded.click()
    page.screenshot(path=shots / "unfolded.png")
    assert finder.get_by_text("--max-num-seqs 8").count() == 1

    folder = at.project / "figures" / "exports" / "my-box_setting"
    for name in ("policy.yaml", "report.html", "how_to_type_it.md"):
        with page.expect_download() as download:
            finder.get_by_role("link", name=f"Download {name}").click()
        assert Path(download.value.path()).read_bytes() == (folder / name).read_bytes()
    assert "policy: " in (folder / "policy.yaml").read_text()

    assert lab.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    cut = finder.evaluate(
        "e => [...e.querySelectorAll('.widget-label,button')].filter(l => l.offsetParent"
        " && l.scrollWidth > l.clientWidth + 1).map(l => l.textContent)"
    )
    assert cut == []
    assert finder.locator("[title='null']").count() == 0
    assert at.outside() == []
