"""Weighted max-min shares, computed by filling: the independent truth that fair policies are held to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def fill(capacity: Any, demands: Mapping[str, Any], weights: Mapping[str, Any]) -> dict[str, Any]:
    """Who gets how much of a capacity, each at most its demand, otherwise in proportion to weights.

    Exact for whole numbers and fractions. The sum is the lesser of capacity and demand.
    """
    got: dict[str, Any] = {}
    left, open_ = capacity, dict(demands)
    while open_:
        total = sum(weights.get(t, 1) for t in open_)
        content = {t: d for t, d in open_.items() if d * total <= left * weights.get(t, 1)}
        if not content:
            return got | {t: left * weights.get(t, 1) / total for t in open_}
        got |= content
        left -= sum(content.values())
        open_ = {t: d for t, d in open_.items() if t not in content}
    return got


def fill_under_caps(
    slots: float,
    tenants: Iterable[str],
    weights: Mapping[str, float],
    caps: Iterable[tuple[Iterable[str], float]],
) -> dict[str, float]:
    """Slots held by backlogged tenants, weighted max-min under caps on sets of them.

    Progressive filling: the level (slots per weight) of all rises together until a limit is reached; who
    stands under that limit stops there, the others go on.
    """
    limits = [(set(keys), limit) for keys, limit in caps]
    names = list(tenants)
    limits.append((set(names), slots))
    got: dict[str, float] = dict.fromkeys(names, 0.0)
    rising = set(names)
    while rising:
        steps = []
        for keys, limit in limits:
            climbing = sum(weights.get(t, 1) for t in keys & rising)
            if climbing:
                steps.append(((limit - sum(got.get(t, 0.0) for t in keys)) / climbing, keys))
        step = min(s for s, _ in steps)
        for tenant in rising:
            got[tenant] += step * weights.get(tenant, 1)
        for room, keys in steps:
            if room - step <= 1e-12:
                rising -= keys
    return got
