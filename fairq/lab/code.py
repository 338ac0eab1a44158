"""The Python that reproduces what the lab shows, without the lab."""

from __future__ import annotations

import pprint
from collections.abc import Mapping, Sequence
from typing import Any

from fairq.data import data_names
from fairq.lab.settings import Path
from fairq.scenario import Scenario

TEMPLATE = """\
from fairq.lab import summary
from fairq.scenario import Scenario
from fairq.sim import replicate

{scenario}
{fitted}{change}
runs = {{
    name: replicate(
        scenario.workload(),
        lambda name=name: scenario.policy(name),
        scenario.engine,
        seed=scenario.seed,
        replications={replications},
        warmup=scenario.warmup_s,
    )
    for name in {policies}
}}
named = {named}
table = summary(runs{by}, named=named{replay})
shown = table.assign(n=table["n"] / table["runs"])  # finished, per run
print(shown[["policy", "tenant", "n", "{measure}_p50", "{measure}_p99"]].round(2).to_string(index=False))
"""


def python(
    scenario: Scenario,
    places: Mapping[Path, Any],
    factors: Mapping[str, float],
    *,
    policies: Sequence[str],
    replications: int,
    measure: str,
    by: str,
    named: Sequence[str],
    more: str = "",
    users: int = 0,
) -> str:
    """A program that ends with ``table`` equal to ``lab.table`` and prints it; then what ``more`` does.

    ``named``: the tenants (or groups) with rows of their own, in this order.
    ``users``: of the model fitted to the scenario's log; 0: the log itself.
    """
    turned = [_path(path) + f": {value!r}" for path, value in places.items()]
    arguments = ["{" + ", ".join(turned) + "}"] if turned else []
    arguments += [f"{name}={value!r}" for name, value in factors.items()]
    program = TEMPLATE.format(
        scenario=_load(scenario),
        change=f"scenario = scenario.with_({', '.join(arguments)})\n" if arguments else "",
        fitted=f"scenario = scenario.fitted({users})\n" if users else "",
        replications=replications,
        replay="" if scenario.random or users else ", replay=True",
        policies=list(policies),
        measure=measure,
        named=pprint.pformat(list(named), width=90, compact=True),
        by="" if by == "tenant" else f', by="{by}"',
    )
    return f"{program}\n{more}" if more else program


def _path(path: Path) -> str:
    return repr(path) if any("." in part for part in path) else repr(".".join(path))


def _load(scenario: Scenario) -> str:
    if scenario.source in data_names("scenarios", ".yaml") and scenario == Scenario.load(scenario.source):
        return f"scenario = Scenario.load({scenario.source!r})"
    data = scenario.data()
    if scenario.log is not None:
        data["log"]["file"] = str((scenario.folder.absolute() / scenario.log.file).resolve())
    return f"scenario = Scenario.from_data({pprint.pformat(data, width=100, sort_dicts=False)})"
