"""Every notebook runs from top to bottom: solutions in full, students' files with little work."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from nbclient import NotebookClient

from .books import SOLUTIONS, STUDENTS, read

pytestmark = pytest.mark.slow
SLOWER = float(os.environ.get("FAIRQ_SLOWER", "1"))
LIMIT_S, ALL_S = 60.0 * SLOWER, 330.0 * SLOWER
"""For one notebook; for these nine (the first one has the rest of the six minutes)."""

took: dict[str, float] = {}


def run(path: Path, folder: Path) -> list[dict]:
    """Executes a copy in an empty folder; returns all outputs."""
    notebook = read(path)
    NotebookClient(
        notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    return outputs


@pytest.mark.parametrize("path", [SOLUTIONS / p.name for p in STUDENTS], ids=lambda p: p.stem)
def test_solutions_run_in_full(path: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    outputs = run(path, tmp_path)
    took[path.name] = time.monotonic() - began
    assert took[path.name] < LIMIT_S
    shown = [str(o["data"].get("text/plain", "")) for o in outputs if "data" in o]
    assert sum(text.startswith("Right:") for text in shown) == 3
    pictures = [o["data"] for o in outputs if "image/png" in o.get("data", {})]
    assert len(pictures) >= 3
    assert all(len(data["text/plain"]) > 40 for data in pictures), "words for every picture"


def test_all_of_them_in_under_six_minutes() -> None:
    if len(took) < len(STUDENTS):
        pytest.skip("not all of them ran in this process")
    assert sum(took.values()) < ALL_S, took


@pytest.mark.parametrize("path", STUDENTS, ids=lambda p: p.stem)
def test_students_files_run_with_little_work(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRQ_FAST", "1")
    outputs = run(path, tmp_path)
    shown = [str(o["data"].get("text/plain", "")) for o in outputs if "data" in o]
    assert shown.count("Not answered yet.") == 3, "an open question stops nobody"
