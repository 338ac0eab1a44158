"""The lab without its widgets: a scenario, what was turned, the runs, and the numbers to draw."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import pandas as pd

from fairq import metrics
from fairq.capacity.verdicts import verdict_of
from fairq.lab.charts import ChartSpec, View
from fairq.lab.compare import Alternative
from fairq.lab.engines import engine_as, kind_of
from fairq.lab.named import asks_again, named, with_sliders
from fairq.lab.runs import Plan, Runs
from fairq.lab.runs import plan as plan_of
from fairq.lab.settings import Path, Setting, applied, changes, settings_of
from fairq.lab.summary import combine, labelled, run_numbers
from fairq.plots import TenantStyle, rest_name, tenant_styles
from fairq.saturation import Verdict
from fairq.scenario import Scenario
from fairq.tune.engine import engine_words

CONFIDENT = 10
"""Runs behind a settled picture."""
POOLED = ["tenant", "status", "cost_estimate", "wait", "ttft", "latency"]
QUICK = 3
"""Runs behind a picture while a slider moves: the fewest that give a usable interval."""


class Session:
    """Everything between a change and a picture. Not thread-safe: the lab holds its lock.

    Attributes
    ----------
    base : the scenario as it was opened. engine : the kind of engine chosen for it.
    users : 0, or so many times those of the log, as a model fitted to it.
    drawn : the seed that the tenants of the log are drawn with, or None.
    start : the scenario with that engine, model, or draw. settings : what may be turned in it.
    certain : nothing is random, so every run would be the first.
    seconds : how long the last steps took: ``simulate``, and how many runs were ``made`` and ``kept``.
    """

    def __init__(
        self,
        scenario: Scenario,
        runs: Runs | None = None,
        engine: str | None = None,
        users: int = 0,
        seed: int | None = None,
    ) -> None:
        self.base = scenario
        self.users = users
        self._begun: dict[Path, Any] = {}
        if users:
            scenario = scenario.fitted(users)
        elif seed not in (None, drawn_with(scenario)):
            self._begun[("log", "seed")] = seed
            scenario = scenario.with_({"log.seed": seed})
        self.drawn = drawn_with(scenario)
        self.engine = kind_of(scenario) if engine is None else engine
        if self.engine != kind_of(scenario):
            self._begun[("engine",)] = engine_as(scenario, self.engine)
            scenario = scenario.with_({"engine": self._begun[("engine",)]})
        self.start = scenario
        self.settings: list[Setting] = settings_of(self.start)
        self.runs = runs or Runs()
        self.replay = scenario.log is not None
        self.certain = not scenario.random
        self._verdicts: dict[Any, Verdict] = {}
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._alternatives: dict[Any, list[tuple[Alternative, Plan]]] = {}
        self._numbers: dict[Any, dict[str, dict[str, float]]] = {}
        self._named: dict[str, list[str]] = {}
        self.seconds = {"simulate": 0.0, "made": 0.0, "kept": 0.0}
        if not asks_again(self.start):
            group_of = self.runs.workload(self.plan({})).group_of
            charted = [*self.named("group"), *(group_of[name] for name in self.named("tenant"))]
            self.settings = with_sliders(self.settings, charted)

    def plan(self, values: Mapping[str, Any]) -> Plan:
        """The scenario with what was turned in place, taken apart. Raises ScenarioError."""
        turned = tuple(values.get(s.name, s.default) for s in self.settings)
        if turned not in self._plans:
            if len(self._plans) > 64:
                self._plans.clear()
            self._plans[turned] = plan_of(applied(self.start, self.settings, values))
        return self._plans[turned]

    def changes(self, values: Mapping[str, Any]) -> tuple[dict[tuple[str, ...], Any], dict[str, float]]:
        """What turns ``base`` into the scenario of these values, in order."""
        places, factors = changes(self.settings, values)
        return self._begun | places, factors

    def alternatives(
        self, plan: Plan, chart: ChartSpec, policies: Sequence[str], under: str
    ) -> list[tuple[Alternative, Plan]]:
        """The runs that a chart needs beside those of the scenario. Raises ScenarioError."""
        if chart.alternatives is None:
            return []
        key = (plan.asks, plan.serves, tuple(plan.next.items()), chart.name, tuple(policies), under)
        if key not in self._alternatives:
            if len(self._alternatives) > 64:
                self._alternatives.clear()
            made = chart.alternatives(plan.scenario, policies, under)
            self._alternatives[key] = [(each, plan_of(each.scenario)) for each in made]
        return self._alternatives[key]

    def simulate_alternatives(
        self,
        wanted: Sequence[tuple[Alternative, Plan]],
        progress: Callable[[float], None] = lambda part: None,
    ) -> None:
        """Make those that are missing; adds to ``seconds``."""
        began = time.perf_counter()
        todo = [(each, plan) for each, plan in wanted if not self.runs.has(plan, each.policy, 0)]
        for i, (each, plan) in enumerate(todo):
            progress(i / len(todo))
            self.runs.run(plan, each.policy, 0, progress=_within(progress, i, len(todo)))
        self.seconds["simulate"] += time.perf_counter() - began
        self.seconds["made"] += len(todo)
        self.seconds["kept"] += len(wanted) - len(todo)

    def missing(self, plan: Plan, policies: Sequence[str], replications: int) -> list[tuple[str, int]]:
        """The runs still to be made, first every policy's first run, then the second, and so on."""
        todo: dict[tuple[str, str, str, int], tuple[str, int]] = {}
        for r in range(replications):
            for policy in policies:
                if not self.runs.has(plan, policy, r):
                    todo.setdefault(plan.key(policy, r), (policy, r))
        return list(todo.values())

    def ready(self, plan: Plan, policies: Sequence[str], most: int) -> int:
        """How many replications every policy has, counted from the first."""
        missing = self.missing(plan, policies, most)
        return missing[0][1] if missing else most

    def simulate(
        self,
        plan: Plan,
        policies: Sequence[str],
        replications: int,
        progress: Callable[[float], None] = lambda part: None,
    ) -> None:
        """Make the missing runs. ``progress(part)`` hears 0 … 1 and may raise to stop."""
        todo = self.missing(plan, policies, replications)
        began = time.perf_counter()
        for i, (policy, r) in enumerate(todo):
            progress(i / len(todo))
            self.runs.run(plan, policy, r, progress=_within(progress, i, len(todo)))
        self.seconds = {
            "simulate": time.perf_counter() - began,
            "made": float(len(todo)),
            "kept": float(len(policies) * replications - len(todo)),
        }

    def named(self, by: str) -> list[str]:
        """The tenants (or groups) that keep their names, see :mod:`fairq.lab.named`."""
        if by not in self._named:
            plan = self.plan({})
            policy = next(iter(self.start.policies))
            self._named[by] = named(
                self.start, self.runs.workload(plan), by, lambda: self.runs.run(plan, policy, 0).requests
            )
        return self._named[by]

    def rest(self, plan: Plan, by: str) -> str:
        """What those without a name are called together; nobody has that name."""
        group_of = self.runs.workload(plan).group_of
        return rest_name(group_of.values() if by == "group" else group_of)

    def styles(self, plan: Plan, by: str) -> dict[str, TenantStyle]:
        return tenant_styles(self.named(by), self.rest(plan, by))

    def table(self, plan: Plan, policies: Sequence[str], replications: int, by: str) -> pd.DataFrame:
        """One row per (policy, tenant), see :func:`fairq.lab.summary.summary`."""
        named = self.named(by)
        rows: list[dict[str, Any]] = []
        for policy in policies:
            numbers = [self._run_numbers(plan, policy, r, by, named) for r in range(replications)]
            rows += combine(policy, numbers, [*named, self.rest(plan, by)], self.certain)
        return pd.DataFrame(rows)

    def view(
        self,
        plan: Plan,
        policies: Sequence[str],
        replications: int,
        choices: Mapping[str, Any],
        wanted: Sequence[tuple[Alternative, Plan]] = (),
    ) -> View:
        """What the charts draw from."""
        by = choices["by"]
        named = self.named(by)

        def single() -> dict[str, pd.DataFrame]:
            return {
                p: labelled(self.runs.run(plan, p, 0).requests, by, named, self.rest(plan, by))
                for p in policies
            }

        def pooled() -> dict[str, pd.DataFrame]:
            rows = {
                p: [
                    labelled(self.runs.run(plan, p, r).requests, by, named, self.rest(plan, by))
                    for r in range(replications)
                ]
                for p in policies
            }
            return {p: pd.concat([r[POOLED] for r in each], ignore_index=True) for p, each in rows.items()}

        return View(
            table=self.table(plan, policies, replications, by),
            pooled=pooled,
            single=single,
            differences=partial(self.differences, plan, replications, by),
            styles=self.styles(plan, by),
            choices=choices,
            slots=getattr(plan.scenario.engine_spec, "slots", None),
            note=self.note(plan),
            scenario=plan.scenario,
            engine=lambda: self.runs.run(plan, choices["under"], 0).engine,
            alternatives=lambda: [(each, self.runs.run(p, each.policy, 0)) for each, p in wanted],
            groups=lambda: self.styles(plan, "group"),
        )

    def differences(
        self, plan: Plan, replications: int, by: str, measure: str, before: str, after: str
    ) -> dict[str, dict[str, tuple[float, float, float]]]:
        """label → "p50"/"p99" → after - before in seconds with its 95 % interval, run by run."""
        named = self.named(by)
        runs = [
            [self._run_numbers(plan, policy, r, by, named) for r in range(replications)]
            for policy in (before, after)
        ]
        found: dict[str, dict[str, tuple[float, float, float]]] = {}
        for label in [*named, self.rest(plan, by)]:
            if all(label in numbers for side in runs for numbers in side):
                found[label] = {}
                for quantile in ("p50", "p99"):
                    was, now = (
                        [numbers[label][f"{measure}_{quantile}"] for numbers in side] for side in runs
                    )
                    found[label][quantile] = metrics.paired_difference(now, was)
        return found

    @cached_property
    def engine_words(self) -> str:
        """How the engine of a log is known, in words."""
        return engine_words(self.base)

    def verdict(self, plan: Plan, policy: str) -> Verdict:
        """On the first run under a policy. Raises ValueError for a run without length."""
        key = plan.key(policy, 0)
        if key not in self._verdicts:
            if len(self._verdicts) > 64:
                self._verdicts.clear()
            self._verdicts[key] = verdict_of(plan.scenario, self.runs.run(plan, policy, 0))
        return self._verdicts[key]

    def note(self, plan: Plan) -> str:
        """Which scenario, in the chart's subtitle."""
        name = plan.scenario.name.replace("_", " ")
        if self.replay:
            log = plan.scenario.log
            if log is None or log.tenants is None:
                return f"Replay of {name}."
            return f"Replay of {name}, tenants drawn with seed {log.seed}."
        return f"Scenario: {name}, seed {plan.scenario.seed}."

    def rows(self, plan: Plan, policies: Sequence[str], replications: int) -> pd.DataFrame:
        """Every request of every run, with ``policy`` and ``replication`` in front."""
        frames = []
        for policy in policies:
            for r in range(replications):
                rows = self.runs.run(plan, policy, r).requests.copy()
                rows.insert(0, "replication", r)
                rows.insert(0, "policy", policy)
                frames.append(rows)
        return pd.concat(frames, ignore_index=True)

    def _run_numbers(
        self, plan: Plan, policy: str, r: int, by: str, named: Sequence[str]
    ) -> dict[str, dict[str, float]]:
        key = (plan.key(policy, r), by)
        if key not in self._numbers:
            if len(self._numbers) > 4000:
                self._numbers.clear()
            self._numbers[key] = run_numbers(
                labelled(self.runs.run(plan, policy, r).requests, by, named, self.rest(plan, by))
            )
        return self._numbers[key]


def drawn_with(scenario: Scenario) -> int | None:
    """The seed that the tenants of a log are drawn with; None where they are its own."""
    log = scenario.log
    return None if log is None or log.tenants is None else int(log.seed)


def _within(progress: Callable[[float], None], done: int, of: int) -> Callable[..., None]:
    """The progress of one run (requests finished, expected) as a part 0 … 1 of all the runs."""

    def inner(finished: int, expected: int) -> None:
        progress((done + min(finished / max(expected, 1), 1.0)) / of)

    return inner
