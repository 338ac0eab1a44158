"""Hardware profiles as data: ``data/profiles/*.yaml``, or a file of one's own."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from fairq.data import data_names, data_path
from fairq.files import InputError, nearest, readable
from fairq.scenario.yaml_files import read_yaml
from fairq.sim.batching.profile import COEFFICIENTS, Profile


def profile_names() -> list[str]:
    """The shipped profiles."""
    return data_names("profiles", ".yaml")


def load_profile(name: str | Path, **changes: Any) -> Profile:
    """A shipped profile by name, or one from a YAML file; ``changes`` replace fields (None changes nothing).

    Raises
    ------
    InputError : no such profile, an unknown or missing field, a value out of range; names file and field.
    """
    path = _path(name)
    with readable(path):
        data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: a profile must be a mapping, got {data!r}")
    known = {each.name for each in fields(Profile)}
    unknown = sorted(map(str, set(data) - known))
    if unknown:
        raise InputError(f"{path}: {unknown[0]}: unknown field; a profile has {', '.join(sorted(known))}")
    data |= {field: value for field, value in changes.items() if value is not None}
    missing = [field for field in COEFFICIENTS[:4] if data.get(field) is None]
    if missing:
        raise InputError(f"{path}: {missing[0]}: is missing (its source does not state it); give a value")
    if data.get("kind", "given") not in ("measured", "modelled", "given"):
        raise InputError(f"{path}: kind: must be measured, modelled or given, got {data['kind']!r}")
    data.setdefault("name", path.stem)
    try:
        return Profile(**data)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def dump_profile(profile: Profile) -> str:
    """YAML text that ``load_profile`` reads back to the same profile."""
    return yaml.safe_dump(profile.as_dict(), sort_keys=False, allow_unicode=True)


def _path(name: str | Path) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise InputError(f"no profile file {path}")
        return path
    for known in profile_names():
        if _letters(known) == _letters(str(name)):
            return data_path(f"profiles/{known}.yaml")
    names = profile_names()
    raise InputError(f"no profile {str(name)!r}; shipped are {', '.join(names)}{nearest(str(name), names)}")


def _letters(name: str) -> str:
    """``llama-3.1-8b`` and ``llama31-8b`` name the same model."""
    return "".join(char for char in name.lower() if char.isalnum())
