"""The same scenario on other hardware: one card shared in every way, replicas under every router.

Each function gives scenarios by name, in the order of the table; run each and compare.
"""

from __future__ import annotations

from typing import Any

from fairq.scenario.fleets import PartsSpec, ReplicasSpec
from fairq.scenario.scenario import Scenario
from fairq.scenario.spec import ScenarioError, plain
from fairq.sim.replicas import LABELS

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
