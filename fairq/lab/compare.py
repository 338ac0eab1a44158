"""The same scenario on other engines, side by side: every router, every way to share a card.

Each alternative is one more run, kept in memory like all the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairq.lab.summary import labelled
from fairq.result import Result
from fairq.scenario import Scenario
from fairq.scenario.alternatives import WAYS, card_ways, named_ways, router_choices
from fairq.sim.replicas.figures import part_rows, router_row


@dataclass(frozen=True)
class Alternative:
    """One run of a comparison: what it is called, the scenario changed, and the policy before it."""

    label: str
    scenario: Scenario
    policy: str


Alternatives = Callable[[Scenario, Sequence[str], str], list[Alternative]]
"""(scenario, ticked policies, the chosen one) → the runs of a comparison."""


def routers(scenario: Scenario, policies: Sequence[str], under: str) -> list[Alternative]:
    """Every router under the chosen policy."""
    return [Alternative(label, each, under) for label, each in router_choices(scenario).items()]


def ways(scenario: Scenario, policies: Sequence[str], under: str) -> list[Alternative]:
    """One engine under every ticked policy, and each way to cut the card under the chosen one.

    Where every tenant has a part of its own, nobody is left to be fair to.
    """
    whole = WAYS["one_engine"]
    return [
        Alternative(label, each, policy)
        for label, each in card_ways(scenario).items()
        for policy in (policies if label == whole else [under])
    ]


def router_rows(runs: Sequence[tuple[Alternative, Result]]) -> list[dict[str, Any]]:
    """As ``fairq.scenario.alternatives.router_table``."""
    return [
        {"router": each.label, **router_row(result, len(each.scenario.engine().members))}
        for each, result in runs
    ]


def way_rows(runs: Sequence[tuple[Alternative, Result]], named: Sequence[str]) -> list[dict[str, Any]]:
    """As ``named_ways(way_table(…))``; groups that are not ``named`` are counted together."""
    made: list[dict[str, Any]] = []
    for each, result in runs:
        fleet = each.scenario.engine()
        folded = _by_group(result, named)
        for row in part_rows(folded):
            mine = (folded.requests["group"].astype(str) == row["group"]).to_numpy()
            tenants = folded.requests["tenant"][mine].unique()
            down = max(fleet.down_s(str(tenant)) for tenant in tenants)
            made.append({"way": each.label, "policy": each.policy, **row, "down_s": down})
    return named_ways(made)


def engine_rows(series: pd.DataFrame, word: str) -> list[dict[str, Any]]:
    """What the batch chart shows, as a row per engine."""
    members = [0] if "member" not in series else sorted(int(m) for m in series["member"].unique())
    rows = []
    for member in members:
        mine = series if "member" not in series else series[(series["member"] == member).to_numpy()]
        rows.append(
            {
                "engine": f"{word} {member}",
                "running": int(mine["running"].max()),
                "waiting": int(mine["waiting"].max()),
                "kv_pct": float(mine["kv_pct"].max()),
            }
        )
    return rows


def _by_group(result: Result, named: Sequence[str]) -> Result:
    rows = result.all_requests
    groups = labelled(rows, "group", named)["tenant"].to_numpy()
    return Result(rows.assign(group=groups), slots=result.slots, warmup=result.warmup)
