"""Who keeps a name on the charts; the others are counted together.

It is decided on the scenario as it opens, with nothing turned: so no slider makes a tenant change its colour
or vanish among the others, and the same settings show the same, whichever way they were reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from fairq.lab.setting import WEIGHTS, Setting
from fairq.lab.settings import by_demand
from fairq.plots import top_tenants
from fairq.plots.fold import named_of
from fairq.scenario import Scenario
from fairq.scenario.tenants import ClosedLoopSpec


def named(scenario: Scenario, workload: Any, by: str, first_run: Callable[[], pd.DataFrame]) -> list[str]:
    """The tenants (or groups) to name: a log's by demand, a scenario's in its order.

    ``workload``: the scenario's. ``first_run()``: the rows of a run, which tell how much a closed loop asks
    for; made only where that matters.
    """
    if scenario.log is not None:
        return named_of([name for name, _ in by_demand(scenario.workload())])
    group_of = workload.group_of
    order = list(dict.fromkeys(group_of[name] if by == "group" else name for name in group_of))
    if named_of(order) == order:
        return order
    if asks_again(scenario):
        rows = first_run()
        largest = top_tenants(rows if by == "tenant" else rows.assign(tenant=rows["group"]))
    else:
        tokens = Counter(dict.fromkeys(order, 0.0))
        for request in workload.requests(scenario.seed, 0):
            tokens[group_of[request.tenant] if by == "group" else request.tenant] += request.cost
        largest = named_of([name for name, _ in tokens.most_common()])
    return [name for name in order if name in largest]


def asks_again(scenario: Scenario) -> bool:
    """Whether a tenant asks again when it is answered: how much, a run alone can tell."""
    return any(isinstance(tenant.arrivals, ClosedLoopSpec) for tenant in scenario.tenants.values())


def with_sliders(settings: Sequence[Setting], names: Sequence[str]) -> list[Setting]:
    """The settings, of the weights those of ``names`` alone with a slider: there may be hundreds."""
    wanted = {f"weight_{name}" for name in names}
    return [replace(s, shown=s.name in wanted) if s.section == WEIGHTS else s for s in settings]
