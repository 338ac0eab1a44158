"""The lab's engines as a reader meets them: a question, a failing replica, another engine, a log."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.slow

PICTURE = ".fairq-lab .fairq-picture img"
STATUS = "document.querySelector('.fairq-lab [role=status]').textContent"
LOG = "arrived_s,tenant,input_tokens,output_tokens\n" + "".join(
    f"{0.4 * i:.1f},{'ada' if i % 3 else 'bob'},{50 + i},{20 + i % 7}\n" for i in range(90)
)


def test_a_reader_asks_which_replica_lets_one_fail_and_opens_a_log(browser_page, tmp_path: Path) -> None:
    at, page = browser_page, browser_page.page
    cell = nbformat.v4.new_code_cell(
        "from fairq.lab import Lab\nlab = Lab('noisy_burst', replications=1)\nlab"
    )
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    nbformat.write(notebook, at.project / "notebooks" / "fleet.ipynb")
    at.open("fleet.ipynb")
    at.run_all()
    lab = page.locator(".fairq-lab")
    picture = lab.locator(".fairq-picture img")

    def settled(alt: str) -> None:
        page.wait_for_function(
            f"([q, alt]) => document.querySelector(q).alt.includes(alt) && !/follow|Error/.test({STATUS})",
            arg=[PICTURE, alt],
            timeout=120_000,
        )

    lab.get_by_label("Preset").select_option("Which replica?")
    settled("Routers compared")
    assert lab.get_by_label("Router", exact=True).input_value()
    lab.get_by_label("Runs", exact=True).fill("1")
    page.keyboard.press("Enter")
    old = picture.get_attribute("src")
    lab.get_by_role("button", name="Healthy again").click()
    lab.get_by_role("button", name="Unhealthy now").wait_for(timeout=60_000)
    page.wait_for_function(
        "([q, old]) => document.querySelector(q).src !== old", arg=[PICTURE, old], timeout=120_000
    )
    settled("Routers compared")
    page.set_viewport_size({"width": 1280, "height": 1500})
    page.screenshot(path=tmp_path / "routers.png")
    cut = lab.evaluate(
        "e => [...e.querySelectorAll('.widget-label,button')].filter(l => l.offsetParent"
        " && l.scrollWidth > l.clientWidth + 1).map(l => l.textContent)"
    )
    assert cut == []
    assert lab.evaluate("e => e.scrollWidth <= e.clientWidth + 1")

    lab.get_by_label("Engine", exact=True).select_option("continuous batching")
    lab.get_by_label("Gateway releases").wait_for(timeout=60_000)
    lab.get_by_role("button", name="Batch and KV").click()
    settled("Engine over time")
    lab.get_by_text("Under fair: KV-bound").wait_for(timeout=60_000)
    page.screenshot(path=tmp_path / "batch.png")

    (tmp_path / "mine.csv").write_text(LOG)
    with page.expect_file_chooser() as chosen:
        lab.get_by_role("button", name="Open a log").click()
    chosen.value.set_files(tmp_path / "mine.csv")
    lab.get_by_text("90 rows: 90 read").wait_for(timeout=60_000)
    page.screenshot(path=tmp_path / "log.png")
    assert (at.project / "figures" / "exports" / "logs" / "mine.csv").read_text() == LOG
    assert page.locator(".fairq-lab [title='null']").count() == 0
    assert at.outside() == []
