"""Where the notebooks are, and the scripts beside them as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import nbformat

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SOLUTIONS = NOTEBOOKS / "solutions"
STUDENTS = sorted(NOTEBOOKS.glob("0[0-9]_*.ipynb"))


def exercises(path: Path) -> int:
    """How many a notebook has: the first, for people who have never met a queue, has fewer."""
    return 2 if path.name.startswith("00_") else 3


def script(path: str) -> ModuleType:
    """A script of ``notebooks/`` as a module."""
    name = f"course_{Path(path).stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, NOTEBOOKS / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def code_of(notebook: nbformat.NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def prose_of(notebook: nbformat.NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
