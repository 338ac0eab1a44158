"""Slides from a notebook: one HTML file that needs no network, pictures and formulas included.

    uv run python notebooks/teacher/slides.py 05 --out slides
    uv run python notebooks/teacher/slides.py 05 --solutions --code

The notebook is run first. Each heading, each prediction and each picture begins a slide; the widgets give
way to their pictures, since no kernel runs behind a slide.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
from jinja2 import FileSystemLoader
from matplotlib.mathtext import math_to_image
from nbclient import NotebookClient
from nbconvert import SlidesExporter

from fairq.files import write_whole

NOTEBOOKS = Path(__file__).parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"
FULL = 900
"""How much goes on a slide, in characters of prose."""
TABLE_ROW, LIST_ROW, FORMULA = 100, 75, 220
"""What a row of a table or list and a formula take at least, in the same measure."""

_FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
_WAY = re.compile(r"^(?:←|\*\*Next:|.*\[Glossary\]\().*$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]+\)")
_HEADING = re.compile(r"#{1,6} ")
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"(?<![\\$`\w])\$([^$\n`]+)\$(?![\w`])")


# -- from cells to slides -------------------------------------------------------------------------------


def with_slides(notebook: nbformat.NotebookNode, *, code: bool = True) -> nbformat.NotebookNode:
    """The same notebook in cells of one slide or less, each saying whether it begins one.

    Left out: exercises, what a reader folds out, the way to other notebooks, and what needs a kernel.
    """
    pages: list[list[nbformat.NotebookNode]] = []
    heading, room = "", 0

    def put(cell: nbformat.NotebookNode, takes: int) -> None:
        nonlocal room
        if takes > room:
            where = f'<p class="where">{html.escape(heading)}</p>'
            pages.append([nbformat.v4.new_markdown_cell(where)] if heading else [])
            room = FULL
        pages[-1].append(cell)
        room -= takes

    for cell in notebook.cells:
        if "exercise" in cell.metadata.get("tags", []):
            continue
        if cell.cell_type == "code":
            seen = _seen(cell, code)
            if seen:
                put(cell, seen)
            continue
        for block in blocks(cell.source):
            if _HEADING.match(block):
                heading, room = "", 0
                put(_prose(block, cell), 90)
                heading = re.sub(r"[`*]", "", _HEADING.sub("", block))
                continue
            guess = block.startswith("> **Predict.**")
            room = 0 if guess else room
            put(_prose(block, cell), _weight(block))
            # What follows a question is its answer: on another slide.
            room = 0 if guess else room
    made = nbformat.v4.new_notebook(metadata={"title": notebook.metadata.get("title", "")})
    for page in pages:
        for place, cell in enumerate(page):
            cell.metadata["slideshow"] = {"slide_type": "-" if place else "slide"}
            made.cells.append(cell)
    return made


def _prose(block: str, cell: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A block of ``cell`` as a cell of its own, with the pictures that it shows."""
    shown = {
        name: data
        for name, data in cell.get("attachments", {}).items()
        if f"(attachment:{name})" in block
    }
    return nbformat.v4.new_markdown_cell(
        _with_formulas(block), **({"attachments": shown} if shown else {})
    )


def blocks(prose: str) -> list[str]:
    """Headings, paragraphs, lists, tables and fenced code of a cell, without what slides do not show."""
    text = _LINK.sub(r"\1", _WAY.sub("", _FOLDED.sub("", prose)))
    found, fenced = [""], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if not fenced and (not line.strip() or _HEADING.match(line) or _HEADING.match(found[-1])):
            found.append("")
        found[-1] += f"{line}\n"
    return [block.strip("\n") for block in found if block.strip()]


def _weight(block: str) -> int:
    rows = block.splitlines()
    if rows[0].startswith("|"):
        return TABLE_ROW * len(rows)
    if re.match(r"- |\d+\. ", rows[0]):
        return sum(max(LIST_ROW, len(row)) for row in rows)
    return FORMULA if block.startswith("$$") else len(block) + 60


def _seen(cell: nbformat.NotebookNode, code: bool) -> int:
    """What a code cell takes on a slide; 0: nothing of it is seen. Widgets are taken out."""
    takes = LIST_ROW * len(cell.source.splitlines()) // 2 if code else 0
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        data.pop(WIDGET, None)
        if "image/png" in data and "text/html" not in data:
            # A picture takes its words along, for those who cannot see it.
            words = html.escape(data.get("text/plain", ""), quote=True)
            data["text/html"] = f'<img alt="{words}" src="data:image/png;base64,{data["image/png"]}">'
        if "<img" in data.get("text/html", ""):
            takes += FULL - 60
        elif "<table" in data.get("text/html", ""):
            takes += TABLE_ROW * data["text/html"].count("<tr") // 2
        else:
            words = output.get("text") or data.get("text/markdown") or data.get("text/plain", "")
            takes += sum(max(LIST_ROW // 2, len(row)) for row in words.splitlines())
    return min(takes, FULL)


# -- formulas -------------------------------------------------------------------------------------------


def _with_formulas(block: str) -> str:
    """Formulas as pictures, with their source as words: a script that sets them is on the network."""
    block = _DISPLAY.sub(lambda m: f'<p class="formula">{formula(m[1], 26)}</p>', block)
    return _INLINE.sub(lambda m: formula(m[1], 19), block)


def formula(latex: str, size: int) -> str:
    """An ``<img>`` of a formula, set by matplotlib.

    Raises
    ------
    ValueError : what matplotlib cannot set.
    """
    text = " ".join(latex.split())
    page = io.BytesIO()
    with mpl.rc_context({"mathtext.fontset": "cm", "svg.hashsalt": "fairq", "font.size": size}):
        math_to_image(f"${text}$", page, format="svg")
    picture = base64.b64encode(page.getvalue()).decode("ascii")
    words = html.escape(text, quote=True)
    return f'<img class="formula" alt="{words}" src="data:image/svg+xml;base64,{picture}">'


# -- the file -------------------------------------------------------------------------------------------


def find(number: str, solutions: bool) -> Path:
    """The notebook of a number such as "05". Raises ValueError where there is none."""
    folder = NOTEBOOKS / "solutions" if solutions else NOTEBOOKS
    found = sorted(folder.glob(f"{number}_*.ipynb"))
    if len(found) != 1:
        there = ", ".join(path.name[:2] for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")))
        raise ValueError(f"notebook must be one of {there}, got {number!r}")
    return found[0]


def slides(path: Path, *, code: bool, run: bool = True) -> str:
    """The HTML of one notebook's slides."""
    notebook = nbformat.read(path, as_version=4)
    if run:
        with tempfile.TemporaryDirectory() as folder:
            resources = {"metadata": {"path": folder}}
            NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    notebook.metadata["title"] = notebook.cells[0].source.partition("\n")[0].lstrip("# ")
    exporter = SlidesExporter(
        exclude_input=not code,
        exclude_anchor_links=True,
        embed_images=True,
        template_file="deck.html.j2",
        extra_loaders=[FileSystemLoader(Path(__file__).parent)],
    )
    about: dict[str, Any] = {"metadata": {"path": str(path.parent), "name": path.stem}}
    text, _ = exporter.from_notebook_node(with_slides(notebook, code=code), about)
    return str(text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Slides from a notebook.")
    parser.add_argument("notebook", help="its number, such as 05")
    parser.add_argument("--out", type=Path, default=Path("slides"), help="folder for the HTML file")
    parser.add_argument("--solutions", action="store_true", help="with the solutions")
    parser.add_argument("--code", action="store_true", help="show the code as well")
    given = parser.parse_args(arguments)
    try:
        path = find(given.notebook, given.solutions)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    text = slides(path, code=given.code)
    print(write_whole(given.out / f"{path.stem}.slides.html", text.encode("utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
