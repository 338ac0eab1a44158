"""A log from the reader's own disk: kept with the exports, so that a saved view finds it again."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fairq.files import InputError, write_whole
from fairq.lab.export import exports_folder, slug
from fairq.scenario import Scenario
from fairq.tune.engine import as_served

ENDINGS = (".csv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
"""Files that are logs (``fairq.workload.readers`` recognises the form)."""


@dataclass(frozen=True)
class Upload:
    """A file as the browser hands it over."""

    content: bytes
    name: str
    skip_bad: bool = False

    def open(self) -> Scenario:
        """See ``open_upload``."""
        return open_upload(self.content, self.name, skip_bad=self.skip_bad)


def open_upload(content: bytes, name: str, *, skip_bad: bool = False, **columns: Any) -> Scenario:
    """The log as a scenario that replays it on the engine it shows; its file is kept as
    ``figures/exports/logs/NAME``.

    Nothing is kept of a file that cannot be read. Another file of the same name gets a name of its own.

    Raises
    ------
    ValueError : not a log, or a bad row; the message names the file and the line.
    OSError : it cannot be kept.
    """
    # The name comes from a browser: letters only, and no folders.
    given = Path(name.replace("\\", "/")).name
    stem, ending = slug(Path(given).stem), Path(given).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"{given}: a log must end in {', '.join(ENDINGS)}")
    options = {"skip_bad": True, **columns} if skip_bad else columns
    with TemporaryDirectory() as folder:
        draft = Path(folder) / f"{stem}{ending}"
        draft.write_bytes(content)
        try:
            Scenario.from_log(draft, **options)
        except ValueError as error:
            raise InputError(str(error).replace(f"{folder}/", "").replace(f"{folder}\\", "")) from None
    return as_served(Scenario.from_log(_kept(content, stem, ending), **options))


def _kept(content: bytes, stem: str, ending: str) -> Path:
    path = exports_folder() / "logs" / f"{stem}{ending}"
    if path.is_file() and path.read_bytes() != content:
        path = path.with_name(f"{stem}-{sha256(content).hexdigest()[:8]}{ending}")
    return path if path.is_file() else write_whole(path, content)
