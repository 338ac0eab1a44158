"""One source per notebook → the student's notebook and the one with solutions.

The sources are MyST Markdown notebooks (``NN_question.md``): prose, ``{code-cell}`` fences, and ``+++``
between two cells of prose. A cell tagged ``exercise`` stands in the student's notebook alone, one tagged
``solution`` in ``notebooks/solutions/`` alone; everything else stands in both. A gallery picture is
``![@](../figures/NAME.png)``: its words come from the gallery's own page. A notebook carries its pictures
in itself, as attachments: it reads the same wherever it is copied, whatever the server's root is.

    uv run python notebooks/source/build.py            # writes what has changed
    uv run python notebooks/source/build.py --check    # writes nothing; fails when one is out of step
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from fairq.files import write_whole

SOURCES = Path(__file__).parent
NOTEBOOKS = SOURCES.parent
SOLUTIONS = NOTEBOOKS / "solutions"
GALLERY = NOTEBOOKS.parent / "figures"
TAGS = {"exercise", "solution"}

_FENCE = re.compile(r"```\{code-cell\}.*")
_BREAK = re.compile(r"\+\+\+\s*(\{.*\})?\s*")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(\.\./figures/([^)\s]+\.png)\)")
_LINK = re.compile(r"\]\((?!https?:|#|mailto:|attachment:)([^)\s]+)\)")


class SourceError(ValueError):
    """A source that cannot be read; names file and line."""


@dataclass(frozen=True)
class Cell:
    """One cell of a source."""

    kind: str
    text: str
    tags: tuple[str, ...] = ()


def cells(source: str, name: str = "source") -> list[Cell]:
    """The cells of a MyST Markdown notebook, in order.

    Raises
    ------
    SourceError : a fence that never ends, or an unknown tag.
    """
    found: list[Cell] = []
    lines = iter(enumerate(source.splitlines(), 1))
    prose: list[str] = []
    tags: tuple[str, ...] = ()

    def end_prose() -> None:
        text = "\n".join(prose).strip("\n")
        if text:
            found.append(Cell("markdown", text, tags))
        prose.clear()

    for number, line in lines:
        place = f"{name}:{number}"
        mark = _BREAK.fullmatch(line)
        if _FENCE.fullmatch(line):
            end_prose()
            tags = ()
            found.append(_code(lines, place))
        elif mark:
            end_prose()
            tags = _checked(json.loads(mark[1]).get("tags", []) if mark[1] else [], place)
        else:
            prose.append(line)
    end_prose()
    return found


def _code(lines: Iterator[tuple[int, str]], place: str) -> Cell:
    body: list[str] = []
    tags: tuple[str, ...] = ()
    for _, line in lines:
        if line == "```":
            return Cell("code", "\n".join(body).strip("\n"), tags)
        if line.startswith(":tags:") and not body:
            tags = _checked([tag.strip() for tag in line[6:].strip(" []").split(",")], place)
        else:
            body.append(line)
    raise SourceError(f"{place}: this code cell has no end")


def _checked(tags: list[str], place: str) -> tuple[str, ...]:
    unknown = set(tags) - TAGS
    if unknown:
        raise SourceError(
            f"{place}: tags may be {', '.join(sorted(TAGS))}, got {', '.join(sorted(unknown))}"
        )
    return tuple(tags)


def notebook(source: str, name: str, *, solutions: bool) -> nbformat.NotebookNode:
    """The student's notebook, or the one with solutions."""
    left_out = "exercise" if solutions else "solution"
    made = []
    for number, cell in enumerate(cells(source, name)):
        if left_out in cell.tags:
            continue
        metadata = {"tags": list(cell.tags)} if cell.tags else {}
        about: dict[str, Any] = {"id": str(len(made)), "metadata": metadata}
        if cell.kind == "code":
            made.append(nbformat.v4.new_code_cell(cell.text, **about))
            continue
        text, pictures = _carried(cell.text, name)
        if pictures:
            about["attachments"] = pictures
        if solutions:
            text = _from_below(text)
            text = text.replace("\n", " (with solutions)\n", 1) if number == 0 else text
        made.append(nbformat.v4.new_markdown_cell(text, **about))
    return nbformat.v4.new_notebook(
        cells=made,
        metadata={
            "kernelspec": {
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        },
    )


def _carried(text: str, name: str) -> tuple[str, dict[str, dict[str, str]]]:
    """Prose with its pictures as attachments and their words for ``@``, and the attachments."""
    page = (GALLERY / "README.md").read_text(encoding="utf-8")
    pictures: dict[str, dict[str, str]] = {}

    def attached(picture: re.Match[str]) -> str:
        words, file = picture.groups()
        if words == "@":
            found = re.search(rf"!\[([^\]]+)\]\({re.escape(file)}\)", page)
            if found is None:
                raise SourceError(f"{name}: the gallery's page has no picture {file}")
            words = found[1]
        content = base64.b64encode((GALLERY / file).read_bytes()).decode("ascii")
        pictures[file] = {"image/png": content}
        return f"![{words}](attachment:{file})"

    return _PICTURE.sub(attached, text), pictures


def _from_below(text: str) -> str:
    """Links as they are from ``solutions/``: what is generated lies beside, all else one folder up."""

    def moved(link: re.Match[str]) -> str:
        beside = (SOURCES / Path(link[1]).with_suffix(".md").name).exists() and link[1].endswith(".ipynb")
        return link[0] if beside else f"](../{link[1]})"

    return _LINK.sub(moved, text)


def files() -> dict[Path, str]:
    """Every generated notebook with its content."""
    made: dict[Path, str] = {}
    for source in sorted(SOURCES.glob("[0-9][0-9]_*.md")):
        text = source.read_text(encoding="utf-8")
        for folder, solutions in ((NOTEBOOKS, False), (SOLUTIONS, True)):
            node = notebook(text, source.name, solutions=solutions)
            made[folder / f"{source.stem}.ipynb"] = nbformat.writes(node, indent=1).rstrip("\n") + "\n"
    return made


def main() -> int:
    old = [path for path, text in files().items() if not path.exists() or path.read_text("utf-8") != text]
    for path in old:
        print(("out of step: " if "--check" in sys.argv else "wrote ") + str(path.relative_to(NOTEBOOKS)))
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            write_whole(path, files()[path].encode("utf-8"))
    return 1 if old and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
