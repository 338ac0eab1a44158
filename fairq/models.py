"""Models as data: ``data/models/*.yaml``, or a file of one's own; and a profile for another model.

The shipped ones, in the order of the table: 8B bf16, 8B int4, 3B, 14B int4.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from fairq.data import data_names, data_path
from fairq.files import InputError, nearest, readable
from fairq.memory import Model
from fairq.scenario.yaml_files import read_yaml
from fairq.sim.batching.profile import Profile

ORDER = ("llama31-8b", "llama31-8b-int4", "llama32-3b", "qwen25-14b-int4")


def model_names() -> list[str]:
    """The shipped models."""
    names = data_names("models", ".yaml")
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def load_model(name: str | Path) -> Model:
    """A shipped model by name, or one from a YAML file.

    Raises
    ------
    InputError : no such model, an unknown or missing field, a value out of range; names file and field.
    """
    path = _path(name)
    with readable(path):
        data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: a model must be a mapping, got {data!r}")
    known = [each.name for each in fields(Model)]
    for field in map(str, data):
        if field not in known:
            raise InputError(f"{path}: {field}: unknown field; a model has {', '.join(known)}")
    data.setdefault("name", path.stem)
    try:
        return Model(**data)
    except TypeError as error:
        raise InputError(f"{path}: {str(error).removeprefix('Model.__init__() ')}") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def profile_for(profile: Profile, base: Model, model: Model) -> Profile:
    """A profile of ``base`` on some card → one of ``model`` on that card, modelled.

    Reading the weights scales with their bytes, reading the context with the KV bytes of a token, computing
    a prompt with the weights that multiply each token (its arithmetic stays in 16 bits). What a sequence adds
    to a step, and the idle time between steps, are taken over. What the KV cache holds is not: see
    ``fairq.memory``.
    """
    if model == base:
        return profile
    return profile.with_(
        a_ms=profile.a_ms * model.read_bytes / base.read_bytes,
        c_ms=profile.c_ms * model.kv_bytes_per_token / base.kv_bytes_per_token,
        p_ms=profile.p_ms * model.linear / base.linear,
        kv_tokens=None,
        name=f"{profile.name} → {model.name}",
        model=model.title or model.name,
        kind="modelled",
        source=f"{profile.name}, scaled from {base.name} to {model.name} by bytes and weights",
    )


def _path(name: str | Path) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise InputError(f"no model file {path}")
        return path
    names = model_names()
    if str(name) not in names:
        raise InputError(f"no model {str(name)!r}; shipped are {', '.join(names)}{nearest(str(name), names)}")
    return data_path(f"models/{name}.yaml")


def base_of(profile: Profile) -> Model:
    """The shipped model that a shipped profile was taken with.

    Raises
    ------
    InputError : it is none of the shipped ones.
    """
    known: dict[str, Any] = {"Llama-3.1-8B bf16": "llama31-8b"}
    if profile.model not in known:
        raise InputError(
            f"profile {profile.name!r} was taken with {profile.model!r}: cannot be scaled to another model"
            f" (only from {', '.join(known)})"
        )
    return load_model(known[profile.model])
