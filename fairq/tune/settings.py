"""The settings a sweep tries: policies and their knobs, from a scenario and what was promised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairq.files import nearest
from fairq.scenario import Scenario, ScenarioError
from fairq.tune.cells import POLICY
from fairq.tune.target import ALL, EACH, Target

FAMILIES = ("as written", "fifo", "caps", "ageing", "shares", "weights", "shortest", "gateway")
"""What ``tune`` can be told to try (``--try``)."""


@dataclass(frozen=True)
class Setting:
    """``policy``: plain data, as in a policy file. ``engine``: changed fields of the engine (gateway limit).

    ``knobs``: how many things one has to set up; of two that do as well the simpler one is preferred.
    """

    name: str
    policy: Mapping[str, Any]
    engine: Mapping[str, Any] = field(default_factory=dict)
    knobs: int = 1

    def scenario(self, scenario: Scenario) -> Scenario:
        """The scenario with this as its one policy. Raises ScenarioError where it does not fit."""
        changes: dict[str | Sequence[str], Any] = {"policies": {POLICY: dict(self.policy)}}
        changes |= {f"engine.{name}": value for name, value in self.engine.items()}
        return scenario.with_(changes)


def settings(
    scenario: Scenario,
    targets: Sequence[Target],
    families: Sequence[str] = FAMILIES,
    today: str | None = None,
) -> list[Setting]:
    """Today's setting first, then all that are worth a try; no two alike.

    ``today``: the name of a policy of the scenario; None: its first.

    Raises
    ------
    ScenarioError : no policy of that name.
    """
    written = scenario.data()["policies"]
    first = next(iter(written)) if today is None else today
    if first not in written:
        raise ScenarioError(
            scenario.source,
            [f"policies: no policy {first!r}; there are: {', '.join(written)}{nearest(first, written)}"],
        )
    made = [Setting(first, written[first], knobs=0)]
    for setting in _all(scenario, targets, families):
        same = any(setting.policy == other.policy and setting.engine == other.engine for other in made)
        if not same and _fits(setting, scenario):
            made.append(setting)
    return made


def _all(scenario: Scenario, targets: Sequence[Target], families: Sequence[str]) -> Iterator[Setting]:
    if "as written" in families:
        for name, policy in scenario.data()["policies"].items():
            yield Setting(name, policy)
    plain = list(_policies(scenario, targets, families))
    yield from plain
    if "gateway" in families:
        yield from _gateways(scenario, targets, plain)


def _policies(scenario: Scenario, targets: Sequence[Target], families: Sequence[str]) -> Iterator[Setting]:
    slots = scenario.engine().slots
    who = list(dict.fromkeys(t.who for t in targets if t.who not in (ALL, EACH)))
    several = len(scenario.workload().weights) > 1
    fifo = {"policy": "fifo"}
    fair = {"policy": "drr", "quantum": 500}
    if "fifo" in families:
        yield Setting("FIFO", fifo, knobs=0)
    if "shortest" in families:
        yield Setting("shortest first", {"policy": "shortest"})
    if "caps" in families:
        for limit in _caps(slots):
            yield Setting(f"cap {limit} per key", _capped(limit, fifo))
        for limit in _caps(slots):
            yield Setting(f"soft cap {limit} per key", _capped(limit, fifo, "soft_caps"))
        others = _others(scenario, targets) if who and slots else []
        for limit in _shares_of(slots) if slots and others else ():
            group = {"others": {"keys": others, "limit": limit}}
            name = f"all but {' + '.join(who)} capped at {limit} together"
            yield Setting(name, {"policy": "caps", "groups": group, "around": fifo}, knobs=2)
            if "shares" in families:
                yield Setting(
                    f"{name}, then DRR", {"policy": "caps", "groups": group, "around": fair}, knobs=3
                )
    levels = sorted({spec.priority for spec in scenario.tenants.values()})
    if "ageing" in families and len(levels) > 1:
        for ageing in (None, 10, 60, 300, 1200):
            words = "strict" if ageing is None else f"ageing {ageing} s"
            yield Setting(f"priority, {words}", {"policy": "priority", "ageing_s": ageing}, knobs=2)
            data = {"policy": "levels", "levels": dict.fromkeys(levels, fair), "ageing_s": ageing}
            yield Setting(f"priority, {words}, fair inside", data, knobs=4)
    if not several:
        return
    if "shares" in families:
        for quantum in (100, 500, 2000, 8000):
            yield Setting(f"DRR, quantum {quantum}", {"policy": "drr", "quantum": quantum}, knobs=2)
        yield Setting("VTC", {"policy": "vtc"}, knobs=2)
        yield Setting("SFQ", {"policy": "sfq"}, knobs=2)
        if "caps" in families:
            for limit in _caps(slots):
                yield Setting(f"cap {limit} per key, then DRR", _capped(limit, fair), knobs=3)
    if "weights" in families and who:
        for factor in (2, 4, 8, 16):
            weights = {name: factor * _weight(scenario, name) for name in who}
            words = f"{' + '.join(who)} weighs ×{factor}"
            yield Setting(f"DRR, {words}", {**fair, "weights": weights}, knobs=3)
            yield Setting(f"VTC, {words}", {"policy": "vtc", "weights": weights}, knobs=3)


def _gateways(scenario: Scenario, targets: Sequence[Target], plain: Sequence[Setting]) -> Iterator[Setting]:
    """A gateway that releases fewer at once leaves the queue where a policy can see it."""
    spec = scenario.engine_spec
    if "gateway_slots" not in type(spec).model_fields:
        return
    who = [t.who for t in targets if t.who not in (ALL, EACH)]
    worth = [Setting("FIFO", {"policy": "fifo"}), Setting("VTC", {"policy": "vtc"})]
    worth += [Setting("shortest first", {"policy": "shortest"})]
    if who:
        weights = {name: 4 * _weight(scenario, name) for name in dict.fromkeys(who)}
        worth.append(Setting(f"VTC, {' + '.join(weights)} weighs ×4", {"policy": "vtc", "weights": weights}))
    known = [other.policy for other in plain]
    for limit in (4, 8, 16, 32, 64, 128):
        for each in worth:
            if each.policy in known or each.policy["policy"] == "fifo":
                name = f"{each.name}, gateway releases {limit}"
                yield Setting(name, each.policy, {"gateway_slots": limit}, knobs=3)


def _capped(limit: int, around: Mapping[str, Any], kind: str = "caps") -> dict[str, Any]:
    return {"policy": kind, "default": limit, "around": dict(around)}


def _caps(slots: int | None) -> list[int]:
    return [limit for limit in (1, 2, 4, 8, 16, 32) if slots is None or limit < slots]


def _shares_of(slots: int) -> list[int]:
    parts = {max(1, round(slots * part)) for part in (0.25, 0.5, 0.625, 0.75, 0.875)} | {slots - 1}
    return sorted(limit for limit in parts if 1 <= limit < slots)


def _others(scenario: Scenario, targets: Sequence[Target]) -> list[str]:
    """The groups (or tenants) that were promised nothing."""
    group_of: dict[str, str] = dict(scenario.workload().group_of)
    promised = {t.who for t in targets}
    names = [g for g in dict.fromkeys(group_of.values()) if g not in promised]
    # A promise to one tenant of a group leaves the rest of that group among the others.
    split = {group_of[who] for who in promised if who in group_of and group_of[who] != who}
    whole = [g for g in names if g not in split]
    rest = [t for t, g in group_of.items() if g in split and t not in promised]
    return [*whole, *rest]


def _weight(scenario: Scenario, name: str) -> float:
    weights: dict[str, float] = dict(scenario.workload().weights)
    members = [t for t, g in scenario.workload().group_of.items() if g == name or t == name]
    return max((weights[t] for t in members), default=1)


def _fits(setting: Setting, scenario: Scenario) -> bool:
    """Some settings need what the scenario does not have (a level, a key)."""
    try:
        setting.scenario(scenario).policy(POLICY)
    except ScenarioError:
        return False
    return True
