"""Where the shipped scenarios, logs and profiles are: in a clone (``data/``) and in a wheel alike."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_folder() -> Path:
    """The folder that holds ``scenarios/``, ``logs/`` and so on.

    Raises
    ------
    FileNotFoundError : this installation carries no data.
    """
    inside = _PACKAGE / "_data"
    if inside.is_dir():
        return inside
    clone = _PACKAGE.parent
    # Only beside our own pyproject.toml: next to an installed package, "data" would be somebody else's.
    if (clone / "pyproject.toml").is_file() and (clone / "data").is_dir():
        return clone / "data"
    raise FileNotFoundError(f"no data folder: looked for {inside} and for data/ in a clone at {clone}")


def data_path(name: str) -> Path:
    """The path of one shipped file, such as ``data_path("scenarios/noisy_burst.yaml")``.

    Raises
    ------
    FileNotFoundError : no such file; names the files of that folder.
    """
    folder = data_folder()
    path = folder / name
    if path.is_file():
        return path
    near = path.parent
    there = sorted(p.name for p in near.iterdir() if p.is_file()) if near.is_dir() else []
    raise FileNotFoundError(f"no shipped file {name!r}; {near.name}/ has: {', '.join(there) or 'nothing'}")


def data_names(folder: str, suffix: str) -> list[str]:
    """The shipped names in ``folder``, without their ``suffix``: ``data_names("scenarios", ".yaml")``."""
    return sorted(p.name.removesuffix(suffix) for p in (data_folder() / folder).glob(f"*{suffix}"))
