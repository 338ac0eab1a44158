"""A log as a model: per tenant a rate, how bursty it is, and its sizes. For "what if twice the users".

Gaps become Gamma with the log's rate and coefficient of variation; sizes are drawn from the log's own
(50 groups of them), prompts and answers independently of each other. What a Gamma cannot say (hours of the
day, sessions, tenants that are bursty together) is lost: compare the model's replay with the log's before you
trust it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairq.workload.check import whole
from fairq.workload.trace import Trace

MOST_CV = 100.0
SLICES, EQUAL = 50, 25
"""Sizes kept per tenant: the means of as many groups of the sorted sizes, which keep the mean. Of these
``EQUAL`` are equal, up to the 90th percentile; from there they become narrower, and the largest size is a
group of its own, since it is the tail that a p99 is made of.
"""


@dataclass(frozen=True)
class TenantFit:
    """``rate_per_s``, ``cv`` of the gaps (1 where fewer than 3 are known), requests, sizes in tokens."""

    requests: int
    rate_per_s: float
    cv: float
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    weight: float
    priority: float


def fit(trace: Trace) -> dict[str, TenantFit]:
    """Tenant → what is known of it, in the order of their first request."""
    codes, names = pd.factorize(np.array(trace.tenants, dtype=object))
    fits = {}
    for code, name in enumerate(names):
        mine = codes == code
        fits[str(name)] = TenantFit(
            requests=int(mine.sum()),
            rate_per_s=float(mine.sum()) / _seconds(trace),
            cv=_cv(trace.arrivals[mine], _seconds(trace)),
            prompt_tokens=trace.prompt_tokens[mine],
            output_tokens=trace.output_tokens[mine],
            weight=trace.weights[str(name)],
            priority=0 if trace.priorities is None else float(trace.priorities[mine][0]),
        )
    return fits


def fitted_tenants(trace: Trace, users: int = 1, sizes: str = "empirical") -> tuple[dict[str, Any], float]:
    """The model as the plain data of a scenario's ``tenants`` and its ``horizon_s``.

    Parameters
    ----------
    users : every tenant of the log becomes as many of the same kind (a group of that name).
    sizes : ``empirical`` (the log's own, in ``SLICES`` groups that keep mean and largest), or ``lognormal``
        (same mean and spread).

    Raises
    ------
    ValueError : users below 1, another kind of sizes.
    """
    whole("users", users, least=1)
    if sizes not in ("empirical", "lognormal"):
        raise ValueError(f"sizes must be empirical or lognormal, got {sizes!r}")
    keys = trace.keys_of
    tenants = {}
    for name, found in fit(trace).items():
        data: dict[str, Any] = {} if users == 1 else {"count": users}
        if found.priority:
            data["priority"] = found.priority
        if found.weight != 1:
            data["weight"] = found.weight
        if len(keys[name]) > 1:
            data["keys"] = len(keys[name]) if users > 1 else list(keys[name])
        data["arrivals"] = {"kind": "gamma", "rate_per_s": _short(found.rate_per_s), "cv": _short(found.cv)}
        data["prompt_tokens"] = _sizes(found.prompt_tokens, sizes)
        data["output_tokens"] = _sizes(found.output_tokens, sizes, least=1)
        tenants[name] = data
    return tenants, _seconds(trace)


def _short(value: float) -> float:
    """Six figures: nobody wants to read more in a file."""
    return float(f"{value:.6g}")


def _seconds(trace: Trace) -> float:
    """How long the log is: to its last arrival and one mean gap beyond."""
    last = float(trace.arrivals[-1])
    return last * len(trace) / (len(trace) - 1) if last > 0 else 1.0


def _cv(arrivals: NDArray[np.float64], horizon_s: float) -> float:
    """Of the gaps between arrivals, the silence before the first and after the last taken as one more.

    Without that one a job that comes all at once would look like the steadiest of tenants.
    """
    if len(arrivals) < 3:
        return 1.0
    gaps = np.append(np.diff(arrivals), horizon_s - arrivals[-1] + arrivals[0])
    return float(min(max(gaps.std() / gaps.mean(), 0.01), MOST_CV))


def _sizes(values: NDArray[np.int64], kind: str, least: int = 0) -> Any:
    values = np.maximum(values, least)
    mean, spread = float(values.mean()), float(values.std())
    if spread == 0:
        return int(values[0])
    if kind == "lognormal" and mean > 0:
        # The lognormal of this mean and coefficient of variation.
        sigma = sqrt(log(1 + (spread / mean) ** 2))
        return {"kind": "lognormal", "median": _short(mean * exp(-(sigma**2) / 2)), "sigma": _short(sigma)}
    if len(values) <= SLICES:
        return {"kind": "empirical", "values": np.sort(values).tolist()}
    # The cumulative sum, cut into groups (a value on the edge goes to both in part).
    upto = np.concatenate([[0.0], np.cumsum(np.sort(values), dtype=float)])
    n = len(values)
    narrower = n - np.geomspace(0.1 * n, 1, SLICES - EQUAL)
    cuts = np.concatenate([np.linspace(0, 0.9 * n, EQUAL, endpoint=False), narrower, [n]])
    means = np.diff(np.interp(cuts, np.arange(len(upto)), upto)) / np.diff(cuts)
    return {
        "kind": "empirical",
        "values": [round(float(mean), 1) for mean in means],
        "chances": [_short(part) for part in np.diff(cuts) / n],
    }
