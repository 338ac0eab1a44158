"""One thing that a reader may turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]

ASKS, WEIGHTS, NEXT, SERVES = "Who asks", "Weights", "Who goes next", "What serves"
FAILS = "What fails"


@dataclass(frozen=True)
class Setting:
    """One number, or one choice of a menu, that a reader may turn.

    ``paths``: the places in the scenario's data that take the value; ``factor``: "load" or "burst" instead;
    ``outage``: the field of the first failure instead, of which ``others`` are the rest.
    ``choices``: values of the slider; else it runs from ``slide[0]`` to ``slide[1]`` in steps of ``step``.
    ``menu``: (words, value) pairs of a drop-down, in place of a number.
    ``unset``: the value that means "nothing said" (the engine's own default).
    ``shown``: it has a slider of its own; else it is turned from code alone, unless a lab is asked for it.
    ``only``: (another setting, its value) under which this one has a meaning and is shown.
    """

    name: str
    label: str
    tooltip: str
    section: str
    default: Any
    low: float = 0
    high: float = 0
    step: float = 1
    choices: Sequence[float] | None = None
    slide: tuple[float, float] | None = None
    paths: tuple[Path, ...] = ()
    factor: str | None = None
    menu: Sequence[tuple[str, Any]] | None = None
    unset: Any = None
    only: tuple[str, Any] | None = None
    outage: str = ""
    others: tuple[Any, ...] = ()
    shown: bool = True
