"""What was promised to whom: ``chat p99 ttft < 2 s`` → a target that can be checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from fairq.files import InputError, nearest

METRICS = ("wait", "ttft", "latency")
UNITS: Mapping[str, float] = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
ALL, EACH = "all", "each"
GRAMMAR = "[WHO] p99|p50|mean|max wait|ttft|latency < NUMBER ms|s|min|h"

_PARTS = re.compile(
    r"(?:(?P<who>.+?)\s+)?(?P<statistic>p\d+(?:\.\d+)?|mean|max|median)\s+(?P<metric>[a-z_]+)\s*"
    r"(?P<sign><=?)\s*(?P<value>[0-9.eE+-]+)\s*(?P<unit>[a-zA-Z]*)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Target:
    """``statistic`` (p99, mean, max) of ``metric`` (wait, ttft, latency) of ``who`` is below ``bound_s``.

    ``who``: a tenant or a group; ``all``: all requests together; ``each``: every tenant on its own.
    ``or_equal``: the bound itself is allowed.
    """

    who: str
    statistic: str
    metric: str
    bound_s: float
    or_equal: bool = False

    def __str__(self) -> str:
        sign = "≤" if self.or_equal else "<"
        return f"{self.who} {self.statistic} {self.metric} {sign} {self.bound_s:g} s"

    def met(self, value_s: float) -> bool:
        """Whether a value in seconds keeps the promise (NaN does not)."""
        return value_s <= self.bound_s if self.or_equal else value_s < self.bound_s


_AND = re.compile(r"(<=?\s*[0-9.eE+-]+\s*(?:ms|s|min|h))\s+and\s+", re.IGNORECASE)


def parse_targets(texts: str | Sequence[str]) -> list[Target]:
    """Targets from text; ``… and …`` holds several. Raises InputError, which says what is wrong where."""
    several = [texts] if isinstance(texts, str) else list(texts)
    # "and" joins only what follows a bound: a tenant may be named "search and rescue".
    found = [_parse(part) for text in several for part in _AND.sub(r"\1\n", text).split("\n")]
    if not found:
        raise InputError(f"target: is missing ({GRAMMAR})")
    return found


def check_names(targets: Sequence[Target], names: Collection[str]) -> None:
    """Raises InputError for a ``who`` that is no tenant and no group."""
    for target in targets:
        if target.who in (ALL, EACH) or target.who in names:
            continue
        some = ", ".join(list(names)[:12]) + (", …" if len(names) > 12 else "")
        hint = nearest(target.who, names)
        raise InputError(
            f"target {str(target)!r}: no tenant or group {target.who!r} (there are {some}){hint}"
        )


def _parse(text: str) -> Target:
    text = " ".join(text.split())
    match = _PARTS.fullmatch(text)
    if match is None:
        raise InputError(f"target {text!r}: {_what_is_wrong(text)}; it must be {GRAMMAR}")
    statistic = match["statistic"].lower()
    statistic = "p50" if statistic == "median" else statistic
    if statistic.startswith("p"):
        quantile = float(statistic[1:])
        if not 0 < quantile < 100:
            raise InputError(
                f"target {text!r}: a percentile lies between 0 and 100, got {match['statistic']!r}"
            )
        statistic = f"p{quantile:g}"
    metric = match["metric"].lower()
    if metric not in METRICS:
        hint = nearest(metric, METRICS)
        raise InputError(f"target {text!r}: {metric!r} is not one of {', '.join(METRICS)}{hint}")
    unit = match["unit"]
    if unit not in UNITS:
        got = f"got {unit!r}" if unit else "there is none"
        raise InputError(f"target {text!r}: the unit must be one of {', '.join(UNITS)}, {got}")
    try:
        bound = float(match["value"]) * UNITS[unit]
    except ValueError:
        bound = float("nan")
    if not (isfinite(bound) and bound > 0):
        raise InputError(f"target {text!r}: the bound must be a number > 0, got {match['value']!r}")
    who = (match["who"] or ALL).strip("\"'")
    return Target(who, statistic, metric, bound, match["sign"] == "<=")


def _what_is_wrong(text: str) -> str:
    if ">" in text:
        return "a promise is an upper bound: write <"
    if "<" not in text:
        return "there is no <"
    left, _, right = text.partition("<")
    if not re.search(r"\b(p\d+(\.\d+)?|mean|max|median)\b", left, re.IGNORECASE):
        return f"no statistic (p99, p50, mean, max) in {left.strip()!r}"
    if not re.match(r"=?\s*[0-9.]", right):
        return f"no number after <, got {right.strip()!r}"
    if not any(re.search(rf"\b{metric}\b", left, re.IGNORECASE) for metric in METRICS):
        return f"none of {', '.join(METRICS)} in {left.strip()!r}"
    return "cannot be taken apart"
