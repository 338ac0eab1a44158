"""The ``policies:`` of a scenario: plain data → fresh policies. Each entry alone is a policy file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from fairq import DRR, FIFO, KeyCaps, Policy, Priority
from fairq.scenario.spec import Limit, Name, NonNegative, Positive, Spec, choice


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


class DRRSpec(PolicySpec):
    """``{policy: drr, quantum: 500}``. Weights are the tenants'; ``weights`` (tenant or group) override."""

    tag = ("policy", "drr")
    quantum: Positive
    weights: dict[Name, Positive] = Field(default={})

    def build(self, names: Names) -> Policy:
        return DRR(
            quantum=self.quantum, weights=names.weights | _spread("weights", self.weights, names.tenants)
        )


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
    around: Annotated[PolicySpec, PlainValidator(lambda value: policy_spec(value))]

    def build(self, names: Names) -> Policy:
        groups = {
            name: (_expand(f"groups.{name}.keys", group.keys, names), group.limit)
            for name, group in self.groups.items()
        }
        per_key = _spread("per_key", self.per_key, names.keys)
        return KeyCaps(self.around.build(names), per_key=per_key, default=self.default, groups=groups)


POLICIES: Mapping[str, type[PolicySpec]] = {
    "fifo": FIFOSpec,
    "priority": PrioritySpec,
    "drr": DRRSpec,
    "caps": CapsSpec,
}

_CHOICE = choice(POLICIES, "policy")
AnyPolicy = Annotated[PolicySpec, _CHOICE]


def policy_spec(value: Any) -> Any:
    """The spec chosen by ``policy:`` (a function, since caps wrap any policy, caps too)."""
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


def _expand(field: str, several: Iterable[str], names: Names) -> list[str]:
    return list(_spread(field, dict.fromkeys(several), names.keys))


def _some(names: Iterable[str]) -> str:
    known = list(names)
    return ", ".join(known[:8]) + (f", … ({len(known)} in all)" if len(known) > 8 else "")
