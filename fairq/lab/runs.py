"""Simulate only what is new: a run is kept under everything it depends on.

Moving the quantum changes the data of the DRR policies alone, so only they are run again; the requests are
drawn once per description, seed and replication, and every policy meets the same ones.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fairq.lab.settings import weighted
from fairq.request import Request
from fairq.result import Result
from fairq.scenario import Scenario, policy_from_data
from fairq.scenario.spec import plain
from fairq.sim import simulate

KEEP_ROWS = 1_500_000
"""Request rows kept in memory over all runs (about 400 bytes each)."""
KEEP_WORKLOADS = 6


class Superseded(Exception):
    """A newer change is waiting: this run is no longer wanted."""


class Drawn:
    """A workload whose requests are drawn once per replication and shared by every policy."""

    def __init__(self, workload: Any) -> None:
        self._workload = workload
        self._requests: dict[tuple[int, int], list[Request]] = {}

    def requests(self, seed: int, replication: int = 0) -> list[Request]:
        if (seed, replication) not in self._requests:
            self._requests[seed, replication] = self._workload.requests(seed, replication)
        return self._requests[seed, replication]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workload, name)


class Weighted:
    """A drawn workload with the plan's weights: it may have been drawn under others."""

    def __init__(self, drawn: Drawn, plan: Plan) -> None:
        self._drawn = drawn
        self.weights = {
            tenant: plan.weights.get(tenant, plan.weights.get(drawn.group_of[tenant], weight))
            for tenant, weight in drawn.weights.items()
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drawn, name)


@dataclass(frozen=True)
class Plan:
    """A scenario taken apart into what its runs depend on, each part as one comparable string."""

    scenario: Scenario
    asks: str
    serves: str
    next: Mapping[str, str]
    weights: Mapping[str, float]

    def key(self, policy: str, replication: int) -> tuple[str, str, str, int]:
        # Where nothing is drawn, every run is the first one again.
        return (self.asks, self.serves, self.next[policy], replication if self.scenario.random else 0)


def plan(scenario: Scenario) -> Plan:
    """Take a scenario apart. Weights belong to the policies that read them, not to the requests."""
    data = scenario.data()
    tenants = {
        group: {k: v for k, v in spec.items() if k != "weight"}
        for group, spec in data.get("tenants", {}).items()
    }
    log = {k: v for k, v in (data.get("log") or {}).items() if k != "weights"}
    asks = {k: data.get(k) for k in ("seed", "horizon_s", "warmup_s")} | {"tenants": tenants, "log": log}
    group_weights = {group: float(spec.weight) for group, spec in scenario.tenants.items()}
    if scenario.log is not None:
        group_weights = {name: float(w) for name, w in scenario.log.weights.items()}
    order = {
        name: _text([spec, group_weights if weighted(spec) else None])
        for name, spec in data["policies"].items()
    }
    return Plan(scenario, _text(asks), _text(_whole(scenario.engine_spec)), order, group_weights)


class Runs:
    """The runs made so far, the least recently used dropped first.

    ``simulate`` may be replaced (a test counts the calls).
    """

    def __init__(self, simulate: Callable[..., Result] = simulate, keep_rows: int = KEEP_ROWS) -> None:
        self._simulate = simulate
        self._keep = keep_rows
        self._results: OrderedDict[tuple[str, str, str, int], Result] = OrderedDict()
        self._workloads: OrderedDict[str, Drawn] = OrderedDict()

    def has(self, plan: Plan, policy: str, replication: int) -> bool:
        return plan.key(policy, replication) in self._results

    def get(self, plan: Plan, policy: str, replication: int) -> Result | None:
        key = plan.key(policy, replication)
        if key in self._results:
            self._results.move_to_end(key)
        return self._results.get(key)

    def run(
        self, plan: Plan, policy: str, replication: int, progress: Callable[..., None] | None = None
    ) -> Result:
        """The result of one run, from memory when it is there."""
        known = self.get(plan, policy, replication)
        if known is not None:
            return known
        scenario = plan.scenario
        workload = Weighted(self.workload(plan), plan)
        place = f"{scenario.source}: policies.{policy}"
        result = self._simulate(
            workload,
            policy_from_data(scenario.policies[policy].data(), workload, place),
            scenario.engine(),
            seed=scenario.seed,
            replication=replication,
            warmup=scenario.warmup_s,
            progress=progress,
        )
        self._results[plan.key(policy, replication)] = result
        held = sum(len(r.requests) for r in self._results.values())
        while held > self._keep and len(self._results) > 1:
            _, dropped = self._results.popitem(last=False)
            held -= len(dropped.requests)
        return result

    def workload(self, plan: Plan) -> Any:
        """The requests of the plan, drawn (or read from a log) once."""
        if plan.asks not in self._workloads:
            self._workloads[plan.asks] = Drawn(plan.scenario.workload())
            while len(self._workloads) > KEEP_WORKLOADS:
                self._workloads.popitem(last=False)
        self._workloads.move_to_end(plan.asks)
        return self._workloads[plan.asks]


def _whole(engine: Any) -> list[Any]:
    """An engine with everything that it leaves unsaid: said or not, it is the same engine."""
    return [engine.tag, {name: plain(getattr(engine, name)) for name in type(engine).model_fields}]


def _text(data: Any) -> str:
    return json.dumps(data, sort_keys=True, default=str)
