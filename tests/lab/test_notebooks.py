"""The first notebook runs from top to bottom in a folder of its own; all are committed without outputs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from fairq import plots
from fairq.lab import Lab
from fairq.scenario import Scenario
from fairq.sim import simulate

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = [path for path in sorted(FOLDER.rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts]
START = FOLDER / "00_start_here.ipynb"
LIMIT_S = 60.0


@pytest.mark.slow
def test_the_first_notebook_runs_top_to_bottom(tmp_path: Path) -> None:
    copy = Path(shutil.copy(START, tmp_path))
    notebook = nbformat.read(copy, as_version=4)
    began = time.monotonic()
    # Sockets in the file system: kernels that start at the same time would race for the same free ports.
    socket = {"transport": "ipc", "ip": str(tmp_path / "socket")} if os.name == "posix" else {}
    manager = AsyncKernelManager(kernel_name="python3", **socket)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, km=manager, timeout=120, resources=resources).execute()
    took = time.monotonic() - began
    assert took < LIMIT_S, f"{took:.0f} s"
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    # Every picture has words for those who cannot see it.
    pictures = [o["data"] for o in outputs if "image/png" in o.get("data", {})]
    assert pictures
    assert all(len(data["text/plain"]) > 40 and not data["text/plain"].startswith("<") for data in pictures)


def test_the_first_notebook_exports_a_chart_and_has_15_to_20_cells() -> None:
    cells = nbformat.read(START, as_version=4).cells
    assert 15 <= len(cells) <= 20
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    assert ".save(" in code
    assert 'data_path("logs/' in code


def test_the_first_notebook_leads_on_as_the_others_do() -> None:
    cells = nbformat.read(START, as_version=4).cells
    title, links = cells[0].source.split("\n\n")[:2]
    assert title.startswith("# 00 ")
    assert links == "[How busy is busy?](01_how_busy_is_busy.ipynb) → · [Glossary](glossary.md)"
    assert cells[-1].source.endswith("**Next: [How busy is busy?](01_how_busy_is_busy.ipynb)** →")


def test_a_tenant_looks_the_same_in_the_cells_and_in_the_lab() -> None:
    code = "\n".join(c.source for c in nbformat.read(START, as_version=4).cells if c.cell_type == "code")
    assert code.count("styles=looks)") == code.count("plots.") - 1 == 2
    assert "looks = plots.tenant_styles(first.weights)" in code
    box = Scenario.load("noisy_burst")
    lab = Lab(box, replications=1)
    session, plan = lab._session, lab._plan()
    first = simulate(box.workload(), box.policy("FIFO"), box.engine(), seed=box.seed)
    looks = plots.tenant_styles(first.weights)
    assert {name: looks[name] for name in first.weights} == {
        name: look for name, look in session.styles(plan, "tenant").items() if name in first.weights
    }
    assert list(looks) == list(session.styles(plan, "tenant"))


def test_notebooks_are_committed_without_outputs() -> None:
    command = [sys.executable, "-m", "nbstripout", "--verify", *map(str, NOTEBOOKS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
