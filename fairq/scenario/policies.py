"""The ``policies:`` of a scenario: plain data → fresh policies. Each entry alone is a policy file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainValidator

from fairq import (
    DRR,
    FIFO,
    SFQ,
    VTC,
    AccumulatingPriority,
    Floors,
    KeyCaps,
    Levels,
    Nested,
    Policy,
    Priority,
    Shortest,
    SoftCaps,
)
from fairq.counterexamples import ChargeAtTheEnd, DeficitWithoutQuantum, NoLift, RoundRobin
from fairq.scenario.spec import Count, Limit, Name, NonNegative, Number, Positive, Spec, choice


class Names:
    """What the names in a policy stand for: a group is its tenants, a tenant is its keys.

    Without a workload (a policy file alone) every name is taken as it stands.
    """

    def __init__(self, workload: Any = None) -> None:
        self.weights: dict[str, float] = {} if workload is None else dict(workload.weights)
        self._known = workload is not None
        self._keys: dict[str, tuple[str, ...]] = {} if workload is None else dict(workload.keys_of)
        self._tenants: dict[str, list[str]] = {name: [name] for name in self._keys}
        for tenant, group in ({} if workload is None else workload.group_of).items():
            self._tenants.setdefault(group, [])
            if tenant != group:
                self._tenants[group].append(tenant)
        self._all_keys = {key for keys in self._keys.values() for key in keys}
        self.group_of: dict[str, str] = {} if workload is None else dict(workload.group_of)
        # A log says nothing of priorities.
        self._levels: dict[str, float] = dict.fromkeys(self.weights, 0.0)
        self._levels |= {
            t.name: t.priority for t in getattr(workload, "tenants", ()) if hasattr(t, "priority")
        }

    def tenants(self, name: str) -> list[str]:
        """The tenants of a group, or the tenant of that name. Raises ValueError when there is none."""
        if not self._known:
            return [name]
        if name not in self._tenants:
            raise ValueError(f"no tenant or group is named {name!r}; there are: {_some(self._tenants)}")
        return self._tenants[name]

    def keys(self, name: str) -> list[str]:
        """The keys of a group, of a tenant, or the key of that name. Raises ValueError when there is none."""
        if not self._known or name in self._all_keys:
            return [name]
        if name not in self._tenants:
            known = _some({**self._tenants, **dict.fromkeys(self._all_keys)})
            raise ValueError(f"no group, tenant or key is named {name!r}; there are: {known}")
        return [key for tenant in self._tenants[name] for key in self._keys[tenant]]

    def check_levels(self, field: str, levels: Iterable[Any]) -> None:
        """Raises ValueError when a tenant's priority is none of these."""
        known = list(levels)
        for tenant, level in self._levels.items():
            if level not in known:
                raise ValueError(f"{field}: there is none for priority {level!r} of tenant {tenant!r}")


class PolicySpec(Spec):
    """Who goes next."""

    @abstractmethod
    def build(self, names: Names) -> Policy:
        """A fresh policy. Raises ValueError ``field: what is wrong`` for a name that stands for nothing."""


class FIFOSpec(PolicySpec):
    """``{policy: fifo}``."""

    tag = ("policy", "fifo")

    def build(self, names: Names) -> Policy:
        return FIFO()


class PrioritySpec(PolicySpec):
    """``{policy: priority, ageing_s: 600}``; ``ageing_s: null`` is strict, which can starve."""

    tag = ("policy", "priority")
    ageing_s: NonNegative | None

    def build(self, names: Names) -> Policy:
        return Priority(ageing=self.ageing_s)


class AccumulatingSpec(PolicySpec):
    """``{policy: accumulating, rates: {0: 4, 1: 1}}``: priority gained per second of waiting, per level."""

    tag = ("policy", "accumulating")
    rates: dict[Number, NonNegative] = Field(min_length=1)

    def build(self, names: Names) -> Policy:
        names.check_levels("rates", self.rates)
        return AccumulatingPriority(self.rates)


class ShortestSpec(PolicySpec):
    """``{policy: shortest}``: by the estimated cost."""

    tag = ("policy", "shortest")

    def build(self, names: Names) -> Policy:
        return Shortest()


class SharesSpec(PolicySpec):
    """A policy with shares. Weights are the tenants'; ``weights`` (tenant or group) override."""

    weights: dict[Name, Positive] = Field(default={})

    def all_weights(self, names: Names) -> dict[str, float]:
        """Tenant → weight. Raises ValueError for a name that stands for nothing."""
        return names.weights | _spread("weights", self.weights, names.tenants)


class DRRSpec(SharesSpec):
    """``{policy: drr, quantum: 500}``."""

    tag = ("policy", "drr")
    quantum: Positive

    def build(self, names: Names) -> Policy:
        return DRR(quantum=self.quantum, weights=self.all_weights(names))


class VTCSpec(SharesSpec):
    """``{policy: vtc}``."""

    tag = ("policy", "vtc")

    def build(self, names: Names) -> Policy:
        return VTC(self.all_weights(names))


class SFQSpec(SharesSpec):
    """``{policy: sfq}``."""

    tag = ("policy", "sfq")

    def build(self, names: Names) -> Policy:
        return SFQ(self.all_weights(names))


Inner = Annotated[PolicySpec, PlainValidator(lambda value: policy_spec(value))]
"""A policy inside another."""


class LevelsSpec(PolicySpec):
    """``{policy: levels, levels: {0: {policy: drr, quantum: 500}, 1: {policy: vtc}}, ageing_s: 600}``.

    ``ageing_s: null`` (or left out) is strict between levels.
    """

    tag = ("policy", "levels")
    levels: dict[Number, Inner] = Field(min_length=1)
    ageing_s: NonNegative | None = None

    def build(self, names: Names) -> Policy:
        names.check_levels("levels", self.levels)
        return Levels(
            {level: _inside(f"levels.{level}", inner, names) for level, inner in self.levels.items()},
            ageing=self.ageing_s,
        )


class NestedSpec(PolicySpec):
    """``{policy: nested, branches: {physics: [chat, code]}, weights: {physics: 2}, inside: {policy: vtc}}``.

    Shares among branches, each a list of groups or tenants, and ``inside`` among the tenants of each. A
    tenant in no branch belongs to one named like its group.
    """

    tag = ("policy", "nested")
    branches: dict[Name, tuple[Name, ...]] = Field(default={})
    weights: dict[Name, Positive] = Field(default={})
    inside: Inner

    def build(self, names: Names) -> Policy:
        of = dict(names.group_of)
        placed: dict[str, str] = {}
        for branch, members in self.branches.items():
            for tenant in _expand(f"branches.{branch}", members, names.tenants):
                if placed.setdefault(tenant, branch) != branch:
                    raise ValueError(f"branches.{branch}: {tenant!r} is in {placed[tenant]!r} already")
        of |= placed
        known = set(of.values())
        for branch in self.weights:
            if known and branch not in known:
                raise ValueError(f"weights: no branch is named {branch!r}; there are: {_some(sorted(known))}")
        needs_now = _inside("inside", self.inside, names).needs_now
        return Nested(of, lambda branch: self.inside.build(names), self.weights, needs_now=needs_now)


class GroupSpec(Spec):
    """``{keys: [nightly], limit: 2}``: these groups, tenants or keys have at most ``limit`` in service."""

    keys: tuple[Name, ...]
    limit: Limit | None


class CapsSpec(PolicySpec):
    """``{policy: caps, default: 2, groups: {batch: {keys: [nightly], limit: 2}}, around: {policy: fifo}}``.

    ``default``: per key (null: uncapped, 0: blocked); ``per_key``: for some keys; groups hold as well.
    """

    tag = ("policy", "caps")
    default: Limit | None = None
    per_key: dict[Name, Limit | None] = Field(default={})
    groups: dict[Name, GroupSpec] = Field(default={})
    around: Inner

    makes: ClassVar[type[KeyCaps]] = KeyCaps

    def build(self, names: Names) -> Policy:
        groups = {
            name: (_expand(f"groups.{name}.keys", group.keys, names.keys), group.limit)
            for name, group in self.groups.items()
        }
        per_key = _spread("per_key", self.per_key, names.keys)
        inner = _inside("around", self.around, names)
        return self.makes(inner, per_key=per_key, default=self.default, groups=groups)


class SoftCapsSpec(CapsSpec):
    """As ``caps``, but slots that would idle are lent: ``{policy: soft_caps, default: 2, around: …}``."""

    tag = ("policy", "soft_caps")
    makes = SoftCaps


class FloorSpec(Spec):
    """``{keys: [chat], slots: 2}``: so many slots are kept free for these groups, tenants or keys."""

    keys: tuple[Name, ...]
    slots: Limit


class FloorsSpec(PolicySpec):
    """``{policy: floors, slots: 8, floors: {chat: {keys: [chat], slots: 2}}, around: {policy: fifo}}``.

    ``slots``: how many the engine has.
    """

    tag = ("policy", "floors")
    slots: Count
    floors: dict[Name, FloorSpec]
    around: Inner

    def build(self, names: Names) -> Policy:
        floors = {
            name: (_expand(f"floors.{name}.keys", floor.keys, names.keys), floor.slots)
            for name, floor in self.floors.items()
        }
        inner = _inside("around", self.around, names)
        try:
            return Floors(inner, floors, slots=self.slots)
        except ValueError as error:
            raise ValueError(f"floors: {error}") from None


FAULTS: Mapping[str, Any] = {
    "charge_at_the_end": ChargeAtTheEnd,
    "deficit_without_quantum": DeficitWithoutQuantum,
    "no_lift": NoLift,
    "round_robin": lambda weights: RoundRobin(),
}


class CounterexampleSpec(SharesSpec):
    """``{policy: counterexample, fault: no_lift}``: for teaching; see ``fairq.counterexamples``."""

    tag = ("policy", "counterexample")
    fault: Literal["charge_at_the_end", "deficit_without_quantum", "no_lift", "round_robin"]

    def build(self, names: Names) -> Policy:
        policy: Policy = FAULTS[self.fault](self.all_weights(names))
        return policy


POLICIES: Mapping[str, type[PolicySpec]] = {
    "fifo": FIFOSpec,
    "priority": PrioritySpec,
    "accumulating": AccumulatingSpec,
    "shortest": ShortestSpec,
    "drr": DRRSpec,
    "vtc": VTCSpec,
    "sfq": SFQSpec,
    "levels": LevelsSpec,
    "nested": NestedSpec,
    "caps": CapsSpec,
    "soft_caps": SoftCapsSpec,
    "floors": FloorsSpec,
    "counterexample": CounterexampleSpec,
}

_CHOICE = choice(POLICIES, "policy")
AnyPolicy = Annotated[PolicySpec, _CHOICE]


def policy_spec(value: Any) -> Any:
    """The spec chosen by ``policy:`` (a function, since a policy may hold policies)."""
    return _CHOICE.func(value)  # type: ignore[call-arg]


def _spread(field: str, values: Mapping[str, Any], expand: Any) -> dict[str, Any]:
    """A value per tenant or key, from a value per name; a name nearer to one key wins over its group's."""
    spread: dict[str, Any] = {}
    for name, value in values.items():
        try:
            stands_for = expand(name)
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from None
        for each in stands_for:
            if each == name or each not in values:
                spread[each] = value
    return spread


def _expand(field: str, several: Iterable[str], expand: Any) -> list[str]:
    return list(_spread(field, dict.fromkeys(several), expand))


def _inside(field: str, spec: PolicySpec, names: Names) -> Policy:
    """The policy inside another; its errors say where it stands."""
    try:
        return spec.build(names)
    except ValueError as error:
        raise ValueError(f"{field}.{error}") from None


def _some(names: Iterable[str]) -> str:
    known = list(names)
    return ", ".join(known[:8]) + (f", … ({len(known)} in all)" if len(known) > 8 else "")
