"""What leaves the lab: files under the project's root, and links that download the same bytes."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import os
import platform
import re
import zipfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fairq.files import InputError, write_whole
from fairq.scenario import Scenario

FORMAT = "fairq lab"
LINK_BYTES = 1_000_000
"""A larger file is linked zipped: the browser holds it inside the notebook page."""
MOST_LINK_BYTES = 8_000_000
"""A larger one, zipped, gets no link."""

MIME = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".csv": "text/csv",
    ".json": "application/json",
}
TAKEN = {".yaml": "text/yaml", ".html": "text/html", ".md": "text/markdown"}
"""Files that come with a setting."""


class LabFileError(InputError):
    """A saved view that cannot be opened; names the file and what is wrong."""


def project_root(start: Path | None = None) -> Path:
    """The nearest folder upwards that is a project (``pyproject.toml`` or ``.git``); else where we are."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "pyproject.toml").is_file() or (folder / ".git").exists():
            return folder
    return here


def exports_folder() -> Path:
    """``figures/exports`` of the project, whatever the notebook's own folder."""
    return project_root() / "figures" / "exports"


def slug(text: str) -> str:
    """A file name from any words: letters, digits, ``-`` and ``_``; never empty, never a path."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:80] or "chart"


def target(name: str | os.PathLike[str]) -> Path:
    """Where ``lab.save(name)`` writes, without suffix: a bare name to the exports, a path as it is."""
    given = Path(name)
    path = given if given.is_absolute() or len(given.parts) > 1 else exports_folder() / given
    return path.with_suffix("") if path.suffix in MIME else path


def versions() -> dict[str, str]:
    """What the numbers and pictures depend on."""
    found = {"python": platform.python_version()}
    for package in ("fairq", "simpy", "numpy", "pandas", "matplotlib", "ipywidgets"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def document(scenario: Scenario, values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A view as plain data: the scenario as written, what was turned, and what it was run with.

    A log stays a file of its own: the document names it, relative to ``folder``, with its checksum.
    """
    data = scenario.data()
    extra: dict[str, Any] = {}
    if scenario.log is not None:
        log = (scenario.folder.absolute() / scenario.log.file).resolve()
        data["log"]["file"] = _relative(log, folder)
        extra["log_sha256"] = hashlib.sha256(log.read_bytes()).hexdigest()
    return {
        "format": FORMAT,
        "format_version": 1,
        "seed": values.get("seed", scenario.seed),
        "scenario": data,
        "settings": dict(values),
        **extra,
        "versions": versions(),
    }


def _relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path, folder.resolve())).as_posix()
    except ValueError:  # another drive
        return str(path)


def read_document(text: str | bytes, source: str, folder: Path) -> tuple[Scenario, dict[str, Any], list[str]]:
    """The scenario, the settings and any warnings of a saved view.

    Raises
    ------
    LabFileError : not a saved view. ScenarioError, TraceError : its scenario or log cannot be used.
    """
    try:
        data = json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise LabFileError(f"{source}: not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise LabFileError(f"{source}: not a saved view of the lab (format must be {FORMAT!r})")
    if data.get("format_version") != 1:
        raise LabFileError(f"{source}: format_version must be 1, got {data.get('format_version')!r}")
    for field in ("scenario", "settings"):
        if not isinstance(data.get(field), dict):
            raise LabFileError(f"{source}: {field} must be a mapping, got {data.get(field)!r}")
    scenario = Scenario.from_data(data["scenario"], source, folder)
    warnings = []
    if scenario.log is not None and "log_sha256" in data:
        log = folder.absolute() / scenario.log.file
        try:
            found = hashlib.sha256(log.read_bytes()).hexdigest()
        except OSError as error:
            raise LabFileError(
                f"{source}: scenario.log.file: cannot be read ({error.strerror}), got {scenario.log.file!r}"
            ) from None
        if found != data["log_sha256"]:
            warnings.append(f"{log.name} has changed since this view was saved")
    counts = data["settings"].get("seed", scenario.seed)
    if data.get("seed", counts) != counts:
        warnings.append(f"seed = {data['seed']!r} at the top is not read: settings.seed = {counts!r} counts")
    saved, now = data.get("versions", {}), versions()
    changed = [name for name in ("fairq", "numpy", "simpy") if name in saved and saved[name] != now.get(name)]
    if changed:
        warnings.append("saved with " + ", ".join(f"{n} {saved[n]} (now {now.get(n)})" for n in changed))
    return scenario, data["settings"], warnings


def to_json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, sort_keys=False) + "\n"


def write(files: Mapping[Path, bytes]) -> list[Path]:
    """Each file whole or not at all."""
    return [write_whole(path, content) for path, content in files.items()]


def links_html(files: Mapping[Path, bytes]) -> str:
    """A visible download link per file, and where it lies."""
    if not files:
        return ""
    items = []
    for path, content in files.items():
        name = html.escape(path.name, quote=True)
        place = html.escape(shown(path))
        size = f"{max(1, len(content) // 1000):,} kB"
        kind = (MIME | TAKEN)[path.suffix]
        if len(content) > LINK_BYTES:
            content, kind = zipped(path.name, content), "application/zip"
            name, size = f"{name}.zip", f"{size}, zipped {len(content) // 1000:,} kB"
            if len(content) > MOST_LINK_BYTES:
                items.append(f"<li><code>{place}</code> ({size}; too large for a link)</li>")
                continue
        uri = f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
        items.append(
            f'<li><a download="{name}" href="{uri}" style="text-decoration:underline">Download {name}</a> '
            f"<span>({size}), saved as <code>{place}</code></span></li>"
        )
    return f'<ul style="margin:4px 0;padding-left:1.2em;line-height:1.5">{"".join(items)}</ul>'


def zipped(name: str, content: bytes) -> bytes:
    """A zip file with that one file in it; the same bytes for the same file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def shown(path: Path) -> str:
    """A path as people see it: from the project's root."""
    root = project_root()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
