"""The step-through in JupyterLab in Chromium: by keyboard, and by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CELL = """from fairq import DRR, Request
from fairq.lab import StepLab
asks = [Request(t, 1, arrival=0, service=1, id=f"{t}{i}") for t in "ABC" for i in range(1, 7)]
StepLab(DRR(1, {"A": 1, "B": 2, "C": 3}), asks)"""
STATUS = "document.querySelector('.fairq-lab [role=status]').textContent"


def notebook(source: str) -> str:
    cell = {"cell_type": "code", "id": "one", "metadata": {}, "outputs": [], "execution_count": None}
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    page = {"cells": [{**cell, "source": source}], "metadata": {"kernelspec": kernel}}
    return json.dumps({**page, "nbformat": 4, "nbformat_minor": 5})


def test_a_reader_steps_by_keyboard_and_lets_it_play(browser_page, tmp_path: Path) -> None:
    at, page = browser_page, browser_page.page
    (at.project / "notebooks" / "step.ipynb").write_text(notebook(CELL), encoding="utf-8")
    at.open("step.ipynb")
    at.run_all()
    lab = page.locator(".fairq-lab").first
    lab.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {STATUS}.startsWith('1 of 18 decisions')", timeout=60_000)
    lab.get_by_label("Step").locator("xpath=ancestor::*[contains(@class,'widget-hbox')][1]").locator(
        ".noUi-handle"
    ).focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => {STATUS}.startsWith('2 of 18 decisions')", timeout=60_000)
    assert "B2 into slot 1" in lab.locator(".fairq-picture img").get_attribute("alt")

    lab.get_by_role("button", name="Play").click()
    page.wait_for_function(f"() => /^[4-9] of 18/.test({STATUS})", timeout=60_000)
    lab.get_by_role("button", name="Pause").click()
    lab.get_by_role("button", name="Play").wait_for(timeout=60_000)
    lab.get_by_role("button", name="Reset").click()
    page.wait_for_function(f"() => {STATUS}.startsWith('0 of 18 decisions')", timeout=60_000)
    lab.get_by_role("button", name="Next").click()
    page.wait_for_function(f"() => {STATUS}.startsWith('1 of 18 decisions')", timeout=60_000)
    page.screenshot(path=tmp_path / "step.png")
    assert page.locator(".fairq-lab [title='null']").count() == 0
    assert lab.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
