"""Checks shared by the workload's value objects; every message names the field and the value."""

from __future__ import annotations

import re
from typing import Any

from fairq.request import as_number

CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
"""What no name may hold: no font can draw it, or no file can hold it. Tabs and line breaks are spaces."""


def number(field: str, value: Any, *, above: float | None = None, least: float | None = None) -> None:
    """``value`` must be a finite number, > ``above`` and >= ``least`` where given. Raises ValueError."""
    wanted = "a finite number"
    if above is not None:
        wanted += f" > {above:g}"
    if least is not None:
        wanted += f" >= {least:g}"
    given = as_number(value)
    if (
        given is None
        or (above is not None and not given > above)
        or (least is not None and not given >= least)
    ):
        raise ValueError(f"{field} must be {wanted}, got {value!r}")


def whole(field: str, value: Any, *, least: int) -> None:
    """``value`` must be an int >= ``least``. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{field} must be a whole number >= {least}, got {value!r}")
