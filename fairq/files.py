"""Files that are written whole or not at all, and the one error that means "your input is wrong"."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


class InputError(ValueError):
    """Something a person handed in is wrong; the message names the place, the field and the value.

    Commands print the message as one line and leave with exit code 2.
    """


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
