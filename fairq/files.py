"""Files that are written whole or not at all, and what is said of one, or of a name, that is none.

The error that means "your input is wrong" is here too.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from errno import EISDIR
from pathlib import Path
from uuid import uuid4

_BREAK = re.compile(rb"\r\n|\r|\n")


class InputError(ValueError):
    """Something a person handed in is wrong; the message names the place, the field and the value.

    Commands print the message as one line and leave with exit code 2.
    """


def nearest(name: str, names: Iterable[str]) -> str:
    """Where a name is refused: which of the known ones may be meant; nothing where none is near."""
    known = {each.casefold(): each for each in names}
    near = get_close_matches(name.casefold(), known, 1)
    return f"; did you mean {known[near[0]]!r}?" if near else ""


def unreadable(path: str | os.PathLike[str], error: OSError | UnicodeDecodeError | csv.Error) -> str:
    """What to say of a file whose reading ended in that error; of what is no text, line and byte too."""
    name = os.fspath(path)
    if isinstance(error, UnicodeDecodeError):
        line, words = no_text(path, error)
        return f"{name}:{line}: {words}"
    if isinstance(error, csv.Error):
        return f"{name}: cannot be read as CSV: {error}"
    return f"{name}: cannot be read: {error.strerror}"


def no_text(path: str | os.PathLike[str], error: UnicodeDecodeError) -> tuple[int, str]:
    """Its line, and the words. The error has no place itself: text is decoded many bytes at a time."""
    line, reason, at = 1, error.reason, ""
    with open(path, "rb") as file:
        for raw in file:
            try:
                raw.decode()
            except UnicodeDecodeError as found:
                *ended, begun = _BREAK.split(raw[: found.start])
                line, reason = line + len(ended), found.reason
                at = f" at byte {len(begun) + 1} of the line"
                break
            line += len(_BREAK.findall(raw))
    return line, f"is not UTF-8 text: {reason}{at}"


@contextmanager
def readable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Around the reading of a file: InputError for one that cannot be read, is no text, or no CSV."""
    try:
        yield
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(unreadable(path, error)) from None


def read_csv(path: str | os.PathLike[str]) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """The header of a small CSV file, and its rows, each with its line; see ``check_columns``.

    Raises InputError for one that cannot be read, and for a row of another width than the header's.
    """
    with readable(path), open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        header = [name.strip() for name in next(reader, [])]
        rows = []
        for cells in reader if header else ():
            if cells and len(cells) != len(header):
                got = f"{len(cells)} fields where the header has {len(header)}: {','.join(cells)[:80]!r}"
                raise InputError(f"{os.fspath(path)}:{reader.line_num}: {got}")
            if cells:
                rows.append((reader.line_num, dict(zip(header, cells, strict=True))))
    return header, rows


def check_columns(
    path: str | os.PathLike[str], header: Sequence[str], needed: Sequence[str], more: Sequence[str] = ()
) -> None:
    """Raises InputError where a column that is needed is not there, or one of these is there twice."""
    for name in (*needed, *more):
        if header.count(name) > 1:
            raise InputError(f"{os.fspath(path)}:1: more than one column {name!r}")
        if name in needed and name not in header:
            there = f"{', '.join(header) or 'nothing'}{separated(header)}"
            raise InputError(
                f"{os.fspath(path)}:1: no column {name!r}; needs {', '.join(needed)}; it has: {there}"
            )


def separated(header: Sequence[str]) -> str:
    """To append to what a header has: what to do where it is one name, and looks like several."""
    several = len(header) == 1 and any(mark in header[0] for mark in ";\t|")
    return " (commas must separate the columns)" if several else ""


def write_out(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """As ``write_whole``, for the file that a person named with ``--out``: InputError, not OSError."""
    try:
        return write_whole(path, data)
    except OSError as error:
        raise InputError(f"--out {os.fspath(path)}: cannot be written: {error.strerror}") from None


def write_whole(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write ``data`` (text as UTF-8, line ends as given) to ``path``, whole or not at all; returns the path.

    The folder is made when it is missing. A reader sees the old file or the new one, never a half; after a
    failure the old file is still there and no temporary file is left.

    Raises
    ------
    OSError : the folder or file cannot be written.
    """
    target = Path(path)
    if not target.name:
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(target))
    content = data.encode("utf-8") if isinstance(data, str) else data
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, since a rename is atomic within one file system only. Opened by hand rather than by
    # `tempfile`, whose files nobody else may read: the umask decides here as for any other file.
    partial = target.with_name(f".{target.name}.{uuid4().hex}.part")
    try:
        with open(partial, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        with suppress(FileNotFoundError):
            partial.unlink()
        raise
    return target
