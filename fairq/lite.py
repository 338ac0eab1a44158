"""The course as a static site: JupyterLite with the kit's wheels inside. Built from a clone, with a network.

The site needs no server of its own and no Python on the learner's machine; but the learner's browser fetches
Pyodide (Python itself, numpy, pandas, matplotlib) from a public CDN the first time.

JupyterLite takes along every lab extension of the environment that it is built in, so it is built in one of
its own, made for the purpose and thrown away.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairq.files import InputError
from fairq.notebooks import clone, copy_all

TOOLS = (
    # The pair that goes with JupyterLab 4.6 and Pyodide 314.
    "jupyterlite-core[lab]>=0.8,<0.9",
    "jupyterlite-pyodide-kernel>=0.8,<0.9",
    "jupyterlab-widgets>=3.0.17,<4",
    "pip",
)
SHIPPED = (
    "simpy>=4.1,<5",
    "ipywidgets>=8.1.9,<9",
    "jupyterlab-widgets>=3.0.17,<4",
    "comm>=0.2",
    "prometheus-client>=0.21",
)
"""Pure wheels that Pyodide does not bring."""

FIRST_CELL = """\
# In the browser (JupyterLite) the packages come first; anywhere else this does nothing.
import sys

if sys.platform == "emscripten":
    %pip install -q numpy pandas matplotlib pydantic pyyaml joblib simpy ipywidgets prometheus-client
    %pip install -q --no-deps fairq"""

Report = Callable[[str], None]


def build(out: Path, report: Report = lambda step: None) -> list[str]:
    """Build the site into ``out`` (replaced when it is such a site already); the wheels inside.

    Raises
    ------
    InputError : not run from a clone; ``out`` holds something else; a step failed, with what it said last.
    """
    root = clone()
    if root is None:
        raise InputError("the site is built from a clone: its wheel is made on the way")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, where the folder of the site should be")
    if out.exists() and any(out.iterdir()) and not (out / "jupyter-lite.json").is_file():
        raise InputError(f"{out} is not empty, and no JupyterLite site: choose another folder")
    _check_place(out)
    with tempfile.TemporaryDirectory(prefix="fairq-lite-") as made:
        work = Path(made)
        report("an environment for JupyterLite")
        python = _environment(work / "tools")
        report("the wheels of the kit")
        wheels = work / "lite" / "pypi"
        wheels.mkdir(parents=True)
        _run([str(python), "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(wheels), str(root)])
        _run([str(python), "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), *SHIPPED])
        report("the notebooks")
        content = work / "content"
        for path in copy_all(content):
            path.write_text(prepared(path.read_text(encoding="utf-8")), encoding="utf-8")
        report("the site")
        site = work / "site"
        _run(
            [
                *(str(python), "-m", "jupyter", "lite", "build"),
                *("--lite-dir", str(work / "lite")),
                *("--contents", str(content)),
                *("--output-dir", str(site)),
            ],
            work,
        )
        inside = check(site)
        if out.exists():
            shutil.rmtree(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(site, out)
    return inside


def _check_place(out: Path) -> None:
    """Before minutes of work: can the site be put there? Raises InputError."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from None


def check(site: Path) -> list[str]:
    """The wheels that a built site offers to the browser.

    Raises
    ------
    InputError : a page, a notebook or a wheel is missing.
    """
    for page in ("index.html", "lab/index.html", "jupyter-lite.json", "files/notebooks/00_start_here.ipynb"):
        if not (site / page).is_file():
            raise InputError(f"{site}: the site has no {page}")
    # piplite looks packages up here; wheels of extensions stand beside ours.
    offered: set[str] = set()
    for listing in site.rglob("pypi/all.json"):
        packages: dict[str, Any] = json.loads(listing.read_text(encoding="utf-8"))
        offered |= {
            file["filename"]
            for package in packages.values()
            for files in package["releases"].values()
            for file in files
        }
    for name in ("fairq", "simpy", "ipywidgets", "jupyterlab_widgets", "comm"):
        if not any(wheel.startswith(f"{name}-") for wheel in offered):
            raise InputError(f"{site}: the site offers no wheel of {name}")
    return sorted(offered)


def prepared(notebook: str) -> str:
    """A notebook whose first code cell fetches the packages when it runs in a browser."""
    document = json.loads(notebook)
    cell: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "id": "packages",
        "metadata": {},
        "outputs": [],
        "source": FIRST_CELL.splitlines(keepends=True),
    }
    cells = document["cells"]
    first = next((i for i, each in enumerate(cells) if each["cell_type"] == "code"), len(cells))
    cells.insert(first, cell)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _environment(folder: Path) -> Path:
    """A fresh environment with the tools; its Python."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    uv = shutil.which("uv")
    if uv is not None:
        _run([uv, "venv", "-q", "--no-project", "--python", sys.executable, str(folder)])
        _run([uv, "pip", "install", "-q", "--python", str(python), *TOOLS])
    else:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "-q", *TOOLS])
    return python


def _run(command: Sequence[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise InputError(f"{' '.join(command[:5])} … failed: {' / '.join(said[-3:])}")
