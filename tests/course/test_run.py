"""Every notebook runs from top to bottom: all ten in full, one after the other, and with little work."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from .books import SOLUTIONS, STUDENTS, exercises, read

pytestmark = pytest.mark.slow
SLOWER = float(os.environ.get("FAIRQ_SLOWER", "1"))
LIMIT_S, ALL_S = 60.0 * SLOWER, 360.0 * SLOWER
"""For one notebook; for all ten."""


def run(path: Path, folder: Path) -> list[Any]:
    """Executes a copy in an empty folder; returns all outputs. Nothing may fail or warn."""
    notebook = read(path)
    # Sockets in the file system: kernels that start at the same time would race for the same free ports.
    ipc = os.name == "posix"
    manager = AsyncKernelManager(
        kernel_name="python3",
        **({"transport": "ipc", "ip": str(folder / "socket")} if ipc else {}),  # type: ignore[arg-type]
    )
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, km=manager, timeout=200, resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"], path.name
    return outputs


def texts(outputs: list[Any]) -> list[str]:
    return [str(o["data"].get("text/plain", "")) for o in outputs if "data" in o]


def test_all_ten_run_in_full_in_six_minutes(tmp_path: Path) -> None:
    took: dict[str, float] = {}
    failed: dict[str, str] = {}
    for path in [SOLUTIONS / path.name for path in STUDENTS]:
        folder = tmp_path / path.stem[:2]
        folder.mkdir()
        began = time.monotonic()
        try:
            outputs = run(path, folder)
        except CellExecutionError as error:
            failed[path.name] = str(error)
            continue
        took[path.name] = time.monotonic() - began
        assert sum(text.startswith("Right:") for text in texts(outputs)) == exercises(path), path.name
        pictures = [o["data"] for o in outputs if "image/png" in o.get("data", {})]
        assert len(pictures) >= 3, path.name
        assert all(len(data["text/plain"]) > 40 for data in pictures), "words for every picture"
    assert not failed, "\n".join(f"{name}:\n{error}" for name, error in failed.items())
    assert {name: s for name, s in took.items() if s > LIMIT_S} == {}
    assert sum(took.values()) < ALL_S, took


@pytest.mark.parametrize("path", STUDENTS, ids=lambda path: path.stem)
def test_students_files_run_with_little_work(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRQ_FAST", "1")
    shown = texts(run(path, tmp_path))
    assert shown.count("Not answered yet.") == exercises(path), "an open question stops nobody"
