"""Slides from a notebook: one HTML file, pictures included.

    uv run python notebooks/teacher/slides.py 05 --out slides
    uv run python notebooks/teacher/slides.py 05 --solutions --code --reveal ../reveal.js

The notebook is run first. Each heading begins a slide; the widgets give way to their pictures, since no
kernel runs behind a slide.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import SlidesExporter

from fairq.files import write_whole

NOTEBOOKS = Path(__file__).parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"


def with_slides(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Says which cell begins a slide, and drops what needs a kernel or repeats a picture."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        begins = cell.cell_type == "markdown" and cell.source.startswith("#")
        kind = "slide" if begins else "fragment" if cell.cell_type == "markdown" else "-"
        if "exercise" in cell.metadata.get("tags", []):
            kind = "skip"
        cell.metadata["slideshow"] = {"slide_type": kind}
        for output in cell.get("outputs", []):
            if WIDGET in output.get("data", {}):
                output.data.pop(WIDGET)
    return notebook


def find(number: str, solutions: bool) -> Path:
    """The notebook of a number such as "05". Raises ValueError where there is none."""
    folder = NOTEBOOKS / "solutions" if solutions else NOTEBOOKS
    found = sorted(folder.glob(f"{number}_*.ipynb"))
    if len(found) != 1:
        there = ", ".join(path.name[:2] for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")))
        raise ValueError(f"notebook must be one of {there}, got {number!r}")
    return found[0]


def slides(path: Path, *, code: bool, reveal: str | None, run: bool = True) -> str:
    """The HTML of one notebook's slides."""
    notebook = nbformat.read(path, as_version=4)
    if run:
        with tempfile.TemporaryDirectory() as folder:
            resources = {"metadata": {"path": folder}}
            NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    exporter = SlidesExporter(exclude_input=not code)
    if reveal is not None:
        exporter.reveal_url_prefix = reveal
    text, _ = exporter.from_notebook_node(with_slides(notebook))
    return str(text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Slides from a notebook.")
    parser.add_argument("notebook", help="its number, such as 05")
    parser.add_argument("--out", type=Path, default=Path("slides"), help="folder for the HTML file")
    parser.add_argument("--solutions", action="store_true", help="with the solutions")
    parser.add_argument("--code", action="store_true", help="show the code as well")
    parser.add_argument("--reveal", help="where reveal.js is; default: on the network")
    given = parser.parse_args(arguments)
    try:
        path = find(given.notebook, given.solutions)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    text = slides(path, code=given.code, reveal=given.reveal)
    print(write_whole(given.out / f"{path.stem}.slides.html", text.encode("utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
