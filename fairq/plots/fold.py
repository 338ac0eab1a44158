"""Many tenants on one chart: the largest keep their names, the rest become "others"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from fairq.plots.style import OTHERS

MOST = 7
"""Named tenants on one chart; with "others" that makes eight looks, all of them distinct."""


def top_tenants(requests: pd.DataFrame, most: int = MOST) -> list[str]:
    """The tenants to name: the ``most`` with the largest demand (tokens), the largest first.

    Parameters
    ----------
    requests : rows of a Result (columns ``tenant`` and ``cost`` or ``cost_estimate``).
    most : how many names to keep, at least 1. When just one tenant is left over, it is named too.
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most!r}")
    order = list(dict.fromkeys(requests["tenant"]))
    demand = requests.groupby("tenant", observed=True, sort=False)["cost_estimate"].sum()
    order.sort(key=lambda name: -float(demand[name]))
    return named_of(order, most)


def named_of(order: list[str], most: int = MOST) -> list[str]:
    """Those to name of all tenants, the first ``most``; one that would be left over alone is named, too."""
    return order if len(order) <= most + 1 else order[:most]


def rest_name(tenants: Iterable[str]) -> str:
    """What the tenants without a name of their own are called together: "others", or, where a tenant has that
    name, another that none of ``tenants`` (all there are) has."""
    taken = set(tenants)
    name, n = OTHERS, 1
    while name in taken:
        n += 1
        name = "all others" if n == 2 else f"all others ({n - 1})"
    return name


def fold_tenants(requests: pd.DataFrame, named: Sequence[str], rest: str | None = None) -> pd.DataFrame:
    """The same rows with every tenant outside ``named`` called ``rest`` (default: see :func:`rest_name`).
    Folding rows, not percentiles: the p99 of "others" is that of their requests taken together."""
    known = set(named)
    if requests["tenant"].isin(known).all():
        return requests
    names = requests["tenant"].astype(object)
    if rest is None:
        rest = rest_name([*known, *names.unique()])
    return requests.assign(tenant=names.where(names.isin(known), rest))
