"""One run of a sweep: one setting, one replication → a row of plain numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil, floor, inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairq.scenario import Scenario
from fairq.tune.target import ALL, EACH, METRICS, Target

STATISTICS = ("mean", "p50", "p99", "max")
POLICY = "tuned"
"""The name under which a cell's scenario holds its one policy."""


@dataclass(frozen=True)
class Cell:
    """A scenario with the one policy ``tuned``, and whose figures are wanted: label → tenants."""

    scenario: Scenario
    replication: int
    parties: Mapping[str, tuple[str, ...]]
    statistics: tuple[str, ...] = STATISTICS


def run_cell(cell: Cell) -> dict[str, Any]:
    """Simulates it. ``parties``: label → ``n``, ``unserved``, and per metric each statistic in seconds.

    A request that was never served counts as infinitely late: leaving it out would flatter whoever drops it.
    """
    from fairq.sim import simulate

    scenario = cell.scenario
    result = simulate(
        scenario.workload(),
        scenario.policy(POLICY),
        scenario.engine(),
        seed=scenario.seed,
        replication=cell.replication,
        warmup=scenario.warmup_s,
    )
    rows = result.requests
    codes = rows["tenant"].cat.codes.to_numpy()
    place = {str(name): code for code, name in enumerate(rows["tenant"].cat.categories)}
    served = (rows["status"] == "finished").to_numpy()
    times = {m: np.where(served, rows[m].to_numpy(dtype=float), inf) for m in METRICS}
    figures = {}
    for label, tenants in cell.parties.items():
        mine = np.isin(codes, [place[name] for name in tenants if name in place])
        figures[label] = _figures(times, mine, served, cell.statistics)
    if EACH in cell.parties:
        each = [_figures(times, codes == code, served, cell.statistics) for code in set(codes.tolist())]
        for metric in METRICS:
            for statistic in cell.statistics:
                figures[EACH][metric][statistic] = max((one[metric][statistic] for one in each), default=nan)
    return {
        "requests": len(rows),
        "parties": figures,
        "utilisation": result.utilisation,
        "tokens_per_s": result.tokens_per_s,
        "end_s": result.end,
    }


def _figures(
    times: Mapping[str, NDArray[Any]],
    mine: NDArray[np.bool_],
    served: NDArray[np.bool_],
    names: Iterable[str],
) -> dict[str, Any]:
    row: dict[str, Any] = {"n": int(mine.sum()), "unserved": int((mine & ~served).sum())}
    for metric, values in times.items():
        ordered = np.sort(values[mine])
        row[metric] = {name: _statistic(ordered, name) for name in names}
    return row


def _statistic(ordered: NDArray[Any], name: str) -> float:
    """Of sorted values; percentiles as numpy's default, and ∞ where they reach into the unserved."""
    if not len(ordered):
        return nan
    if name == "mean":
        return float(ordered.mean())
    if name == "max":
        return float(ordered[-1])
    at = (len(ordered) - 1) * float(name[1:]) / 100
    low, high = float(ordered[floor(at)]), float(ordered[ceil(at)])
    return low if low == high else (high if high == inf else low + (high - low) * (at - floor(at)))


def digest(cell: Cell, workload: str) -> str:
    """A key that says all a row depends on. ``workload``: the digest of who asks (``workload_digest``)."""
    scenario = cell.scenario
    depends = {
        "workload": workload,
        "engine": scenario.engine_spec.data(),
        "policy": scenario.policies[POLICY].data(),
        "seed": scenario.seed,
        "warmup": scenario.warmup_s,
        "replication": cell.replication,
        "parties": {label: list(names) for label, names in cell.parties.items()},
        "statistics": list(cell.statistics),
    }
    return _hash(json.dumps(depends, sort_keys=True, default=str).encode("utf-8"))


def workload_digest(scenario: Scenario) -> str:
    """Of the tenants as written, or of a log's requests whatever the name of its file."""
    if scenario.log is None:
        data = {name: spec.data() for name, spec in scenario.tenants.items()}
        return _hash(json.dumps([data, scenario.horizon_s], default=str).encode("utf-8"))
    trace: Any = scenario.workload()
    parts = [trace.arrivals.tobytes(), trace.prompt_tokens.tobytes(), trace.output_tokens.tobytes()]
    parts += ["\n".join(names).encode("utf-8") for names in (trace.tenants, trace.keys or ())]
    parts += [b"" if trace.priorities is None else trace.priorities.tobytes()]
    parts += [json.dumps(trace.weights).encode("utf-8")]
    return _hash(*parts)


def parties(
    scenario: Scenario, targets: Iterable[Target], most: int = 24
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Whose figures are wanted, and which of them pay (all but those promised something).

    Payers are the groups, or the tenants where every tenant is its own group; beyond ``most`` the small ones
    are ``others``.
    """
    workload: Any = scenario.workload()
    group_of: dict[str, str] = dict(workload.group_of)
    groups: dict[str, list[str]] = {}
    for tenant, group in group_of.items():
        groups.setdefault(group, []).append(tenant)
    named = {name: (name,) for name in group_of} | {name: tuple(members) for name, members in groups.items()}
    wanted = [target.who for target in targets]
    made: dict[str, tuple[str, ...]] = {}
    for who in wanted:
        made[who] = tuple(group_of) if who in (ALL, EACH) else named[who]
    promised = {tenant for who in wanted if who not in (ALL, EACH) for tenant in made[who]}
    paying = {
        name: tuple(t for t in members if t not in promised)
        for name, members in groups.items()
        if any(t not in promised for t in members)
    }
    if len(paying) > most:
        tokens = _tokens(workload, scenario.seed)
        ranked = sorted(paying, key=lambda name: -sum(tokens.get(t, 0) for t in paying[name]))
        rest = tuple(t for name in ranked[most - 1 :] for t in paying[name])
        paying = {name: paying[name] for name in paying if name in ranked[: most - 1]} | {"others": rest}
    payers = []
    for name, members in paying.items():
        label = name
        while label in made and made[label] != members:
            label += " (rest)"
        made[label] = members
        payers.append(label)
    return made, payers


def _tokens(workload: Any, seed: int) -> dict[str, float]:
    total: dict[str, float] = {}
    for request in workload.requests(seed):
        total[request.tenant] = total.get(request.tenant, 0) + request.cost
    return total


def _hash(*parts: bytes) -> str:
    made = blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "big") + part)
    return made.hexdigest()
