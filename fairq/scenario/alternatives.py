"""The same scenario on other hardware: one card shared in every way, replicas under every router.

Each function gives scenarios by name, in the order of the table; run each and compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairq.scenario.fleets import PartsSpec, ReplicasSpec
from fairq.scenario.scenario import Scenario
from fairq.scenario.spec import ScenarioError, plain
from fairq.sim import Result, simulate
from fairq.sim.replicas import LABELS
from fairq.sim.replicas.figures import part_rows, router_row

WAYS = {"one_engine": "one engine", "partitioned": "MIG", "mps": "MPS", "time_sliced": "time-slicing"}


def card_ways(scenario: Scenario) -> dict[str, Scenario]:
    """The scenario on one card that is shared in every way: one engine, MIG, MPS, time-slicing.

    Its engine must be one of these kinds, with the places of its tenants. On one engine all share, as many
    run in all, and what fails is that engine. A way on which the model does not fit is left out (see
    ``unfit_ways``).

    Raises
    ------
    ScenarioError : another kind of engine.
    """
    return {label: each for label, each in _ways(scenario).items() if isinstance(each, Scenario)}


def unfit_ways(scenario: Scenario) -> dict[str, str]:
    """The ways left out, and why."""
    return {label: each for label, each in _ways(scenario).items() if isinstance(each, str)}


def _ways(scenario: Scenario) -> dict[str, Scenario | str]:
    engine = scenario.spec.engine
    if not isinstance(engine, PartsSpec):
        raise ScenarioError(
            scenario.source,
            [f"engine.kind: must be one of {', '.join(WAYS)} to compare them, got {engine.data()['kind']!r}"],
        )
    made: dict[str, Scenario | str] = {}
    for kind, label in WAYS.items():
        try:
            made[label] = scenario.with_({"engine": _as(engine, kind)})
        except ScenarioError as error:
            made[label] = error.problems[0].removeprefix("engine: ")
    return made


def _as(engine: PartsSpec, kind: str) -> dict[str, Any]:
    data: dict[str, Any] = plain(engine)
    data["kind"] = kind
    if kind == "one_engine":
        data.pop("place", None)
        data["parts"] = 1
        data["max_num_seqs"] = engine.max_num_seqs * engine.parts
        if "kv_tokens" in data:
            data["kv_tokens"] *= engine.parts  # as much in all; a copy of the weights less would leave more
        if "outages" in data:
            data["outages"] = [outage | {"part": 0} for outage in data["outages"]]
    elif engine.parts == 1:
        data["parts"] = 2
    return data


def router_choices(scenario: Scenario, *, failing: bool | None = None) -> dict[str, Scenario]:
    """The scenario under every router. ``failing``: without its outages when False.

    Raises
    ------
    ScenarioError : its engine is not ``replicas``.
    """
    engine = scenario.spec.engine
    if not isinstance(engine, ReplicasSpec):
        raise ScenarioError(
            scenario.source,
            [f"engine.kind: must be replicas to compare routers, got {engine.data()['kind']!r}"],
        )
    changes: dict[Any, Any] = {} if failing is not False else {"engine.outages": []}
    return {label: scenario.with_({**changes, "engine.router": router}) for router, label in LABELS.items()}


def unhealthy(scenario: Scenario, at_s: float, replica: int = 0, down_s: float = 60) -> Scenario:
    """The scenario with one more outage: "unhealthy now". Raises ScenarioError for values that do not fit."""
    data: Any = scenario.data()["engine"]
    outage = {"at_s": at_s, "part": replica, "down_s": down_s}
    return scenario.with_({"engine.outages": [*data.get("outages", []), outage]})


def way_table(
    scenario: Scenario,
    policies: Iterable[str] | None = None,
    *,
    by: str = "group",
    on_result: Callable[[str, str, Result], None] | None = None,
) -> list[dict[str, Any]]:
    """Run the scenario on every way to share its card; a row per (way, policy, group).

    ``policies``: those of one engine, default all; where every tenant has a part of its own there is nobody
    left to be fair to, so the other ways are run under the last of them. Columns: ``way, policy``, those of
    ``part_rows``, and ``down_s``: seconds in which nothing could serve the group. ``on_result`` gets
    (way, policy, result) after each run.

    Raises
    ------
    ScenarioError : the engine is not one card, or no such policy.
    """
    names = list(scenario.policies if policies is None else policies)
    made = []
    for way, changed in card_ways(scenario).items():
        for policy in names if way == WAYS["one_engine"] else names[-1:]:
            fleet = changed.engine()
            result = _run(changed, policy, fleet)
            if on_result is not None:
                on_result(way, policy, result)
            rows = result.requests
            for row in part_rows(result, by):
                tenants = rows["tenant"][(rows[by].astype(str) == row[by]).to_numpy()].unique()
                down = max(fleet.down_s(str(tenant)) for tenant in tenants)
                made.append({"way": way, "policy": policy, **row, "down_s": down})
    return made


def named_ways(rows: Iterable[Mapping[str, Any]], by: str = "group") -> list[dict[str, Any]]:
    """The rows of ``way_table`` for a chart: ``group``, and a ``way`` that names its policy where there are
    several.
    """
    given = list(rows)
    policies: dict[str, set[str]] = {}
    for row in given:
        policies.setdefault(row["way"], set()).add(row["policy"])
    return [
        {
            **row,
            "group": row[by],
            "way": f"{row['way']}, {row['policy']}" if len(policies[row["way"]]) > 1 else row["way"],
        }
        for row in given
    ]


def router_table(
    scenario: Scenario,
    policy: str | None = None,
    *,
    failing: bool | None = None,
    on_result: Callable[[str, str, Result], None] | None = None,
) -> list[dict[str, Any]]:
    """Run the scenario under every router; a row per router (``router``, and ``router_row``'s columns).

    ``policy``: of the gateway's queue, default the last. ``failing``: without its outages when False.

    Raises
    ------
    ScenarioError : the engine is not replicas, or no such policy.
    """
    name = policy if policy is not None else list(scenario.policies)[-1]
    made = []
    for router, changed in router_choices(scenario, failing=failing).items():
        fleet = changed.engine()
        result = _run(changed, name, fleet)
        if on_result is not None:
            on_result(router, name, result)
        made.append({"router": router, **router_row(result, len(fleet.members))})
    return made


def _run(scenario: Scenario, policy: str, engine: Any) -> Result:
    try:
        return simulate(
            scenario.workload(),
            scenario.policy(policy),
            engine,
            seed=scenario.seed,
            warmup=scenario.warmup_s,
        )
    except ScenarioError:
        raise
    except ValueError as error:
        raise ScenarioError(scenario.source, [str(error)]) from None
