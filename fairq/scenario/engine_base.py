"""What every ``engine:`` of a scenario is, and how it names a profile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator

from fairq.scenario.spec import Spec

if TYPE_CHECKING:
    from fairq.sim.batching import Profile


class EngineSpec(Spec):
    """What serves."""

    @abstractmethod
    def build(self) -> Any:
        """A fresh engine."""


def profile_of(value: Any) -> Profile:
    from fairq.profiles import load_profile
    from fairq.sim.batching import Profile

    if isinstance(value, str):
        return load_profile(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a profile's name or its coefficients (a_ms, b_ms, …), got {value!r}")
    try:
        return Profile(**value)
    except TypeError as error:
        raise ValueError(f"must be a profile's coefficients: {error}") from None


def _checked_profile(value: Any) -> Any:
    profile_of(value)
    return value


ProfileName = Annotated[Any, PlainValidator(_checked_profile)]
"""A shipped profile, a YAML file, or the coefficients themselves; ``profile_of`` gives the profile."""
