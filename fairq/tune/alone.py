"""A policy that stands alone: what a scenario's tenants give to it (weights, keys) written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairq.scenario.policies import Names, policy_spec

SHARES = ("drr", "vtc", "sfq", "counterexample")


def alone(policy: Mapping[str, Any], workload: Any) -> dict[str, Any]:
    """The plain data of a policy that is the same without the workload.

    In a scenario ``chat`` stands for all tenants of that group and their API keys, and weights are the
    tenants'; whoever loads the file alone has no tenants to ask.
    """
    return _alone(dict(policy), Names(workload))


def _alone(policy: dict[str, Any], names: Names) -> dict[str, Any]:
    kind = policy["policy"]
    if kind in SHARES:
        spec: Any = policy_spec(policy)
        weights = {tenant: weight for tenant, weight in spec.all_weights(names).items() if weight != 1}
        policy.pop("weights", None)
        if weights:
            policy["weights"] = weights
    given = policy.get("per_key", {})
    if given:
        policy["per_key"] = {
            key: limit
            for name, limit in given.items()
            for key in names.keys(name)
            if key == name or key not in given
        }
    for field in ("groups", "floors"):
        if field in policy:
            policy[field] = {
                name: {**group, "keys": list(dict.fromkeys(k for n in group["keys"] for k in names.keys(n)))}
                for name, group in policy[field].items()
            }
    if kind == "nested":
        placed = {
            tenant: branch
            for branch, members in policy.get("branches", {}).items()
            for name in members
            for tenant in names.tenants(name)
        }
        branches: dict[str, list[str]] = {}
        for tenant, branch in (names.group_of | placed).items():
            branches.setdefault(branch, []).append(tenant)
        policy["branches"] = branches
    for field in ("around", "inside"):
        if field in policy:
            policy[field] = _alone(dict(policy[field]), names)
    if "levels" in policy:
        policy["levels"] = {level: _alone(dict(inner), names) for level, inner in policy["levels"].items()}
    return policy
