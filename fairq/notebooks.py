"""The notebooks of the course as files: where the originals are, copies to work in, and back to the original.

A wheel carries them (``fairq/_notebooks``). In a clone the folder ``notebooks/`` is both the original and the
place where people work, so there the original is what git has committed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from fairq.files import InputError, nearest, write_whole

_PACKAGE = Path(__file__).resolve().parent


def packaged() -> Path | None:
    """The folder of originals in an installed wheel; None in a clone."""
    folder = _PACKAGE / "_notebooks"
    return folder if folder.is_dir() else None


def clone() -> Path | None:
    """The clone that this package runs from, if any."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "notebooks").is_dir() else None


def names() -> list[str]:
    """The notebooks, solutions included, as paths below ``notebooks/``. Raises InputError: none are here."""
    folder = packaged()
    if folder is None:
        root = clone()
        if root is None:
            raise InputError(
                "this installation carries no notebooks: install the wheel, or clone the project"
            )
        folder = root / "notebooks"
    found = (path.relative_to(folder) for path in folder.rglob("*.ipynb"))
    return sorted(path.as_posix() for path in found if ".ipynb_checkpoints" not in path.parts)


def find(name: str) -> str:
    """The notebook meant by ``03``, ``03_how_many_at_once`` or its file name. Raises InputError."""
    there = names()
    wanted = name.removesuffix(".ipynb")
    hits = [each for each in there if each.removesuffix(".ipynb") == wanted]
    hits = hits or [each for each in there if "/" not in each and each.startswith(wanted + "_")]
    if len(hits) != 1:
        near = nearest(wanted, (each.removesuffix(".ipynb") for each in there))
        raise InputError(f"no notebook {name!r}; there are: {', '.join(there)}{near}")
    return hits[0]


def original(name: str) -> bytes:
    """The content as it was shipped.

    Raises
    ------
    InputError : the original is nowhere (a clone without git, for one).
    """
    folder = packaged()
    if folder is not None and (folder / name).is_file():
        return (folder / name).read_bytes()
    root = clone()
    if root is not None:
        try:
            shown = subprocess.run(
                ["git", "show", f"HEAD:notebooks/{name}"], cwd=root, capture_output=True, check=False
            )
        except OSError:
            shown = None
        if shown is not None and shown.returncode == 0:
            return shown.stdout
    raise InputError(f"the original of {name} is not here: a clone needs git for it, a wheel carries it")


def place(name: str, folder: Path) -> Path:
    """Where a notebook is, or belongs, in a folder that holds ``notebooks/``, or that is it.

    Raises InputError when the folder is neither: a name mistyped must not make a second place to work in.
    """
    inside = folder / "notebooks"
    if os.path.lexists(folder / name):
        return folder / name
    if os.path.lexists(inside):
        return inside / name
    if any((folder / each).is_file() for each in names()):
        return folder / name
    raise InputError(
        f"{folder}: is no folder with notebooks in it, nothing to put back there;"
        f" `fairq notebooks copy {folder}` makes one"
    )


def reset(name: str, folder: Path) -> tuple[Path, Path | None]:
    """Put the original back into ``folder``; what was there is kept beside it.

    Returns
    -------
    The notebook's path, and where the edited one is kept (None: there was none, or it was the original).

    Raises
    ------
    InputError : no such notebook, no original, no notebooks in the folder, or something else in its place.
        OSError : the folder cannot be written.
    """
    name = find(name)
    content = original(name)
    path = place(name, folder)
    _check_way([path])
    kept = None
    if _taken(path):
        mine = path.read_bytes()
        if mine == content:
            return path, None
        kept = _free(path)
        write_whole(kept, mine)
    return write_whole(path, content), kept


def copy_all(folder: Path) -> list[Path]:
    """Every notebook, and the pages they link to, to ``folder/notebooks``.

    What is there already stays as it is. Returns the notebooks copied. Raises InputError when a folder, say,
    is in the place of one, or a file in the place of a folder: then none is copied.
    """
    into = folder / "notebooks"
    wanted = names()
    _check_way(into / name for name in wanted)
    missing = {into / name: _content(name) for name in wanted if not _taken(into / name)}
    pages = {into / page.name: page.read_bytes() for page in _pages() if not _taken(into / page.name)}
    for path, content in pages.items():
        write_whole(path, content)
    return [write_whole(path, content) for path, content in missing.items()]


def _check_way(paths: Iterable[Path]) -> None:
    """Raises InputError when something that is no folder lies where one above these files must be."""
    for above in dict.fromkeys(each for path in paths for each in path.parents):
        if os.path.lexists(above) and not above.is_dir():
            raise InputError(f"{above}: is not a folder, move it away: notebooks belong there")


def _taken(path: Path) -> bool:
    """Whether the file is there. Raises InputError when something else is: a folder, a link to nowhere."""
    if path.is_file():
        return True
    if path.exists() or path.is_symlink():
        raise InputError(f"{path}: is not a file, move it away: the original belongs there")
    return False


def _content(name: str) -> bytes:
    """The original; of a notebook that was never committed (a teacher's own), what is in the clone."""
    try:
        return original(name)
    except InputError:
        root = clone()
        if root is None:
            raise
        return (root / "notebooks" / name).read_bytes()


def _pages() -> list[Path]:
    """The pages beside the notebooks: the glossary, the one for a classroom."""
    root = clone()
    folder = packaged() or (root / "notebooks" if root is not None else None)
    return [] if folder is None else sorted(folder.glob("*.md"))


def _free(path: Path) -> Path:
    """A name beside ``path`` that is not taken: ``03_x.mine-1.ipynb``."""
    number = 1
    # A link to nowhere is somebody's too: it does not exist, but its name is taken.
    while os.path.lexists(beside := path.with_name(f"{path.stem}.mine-{number}.ipynb")):
        number += 1
    return beside
