"""Fair policies against bounds between backlogged tenants and weighted max-min filling; unfair ones fail."""

from __future__ import annotations

import pytest

from fairq import FIFO, Priority, Shortest
from fairq.counterexamples import NoLift, RoundRobin
from fairq.prove import fair

from .table import FAIR

SEEDS = range(200, 212)


@pytest.mark.parametrize("name", FAIR)
def test_backlogged_tenants_stay_within_the_bound(name):
    row = FAIR[name]
    assert 0.5 < fair.worst_pair(row.make, row.spread, SEEDS) <= 1
    assert 0.2 < fair.worst_maxmin(row.make, row.spread, SEEDS) <= 1


@pytest.mark.parametrize(
    "make",
    [lambda w: FIFO(), lambda w: Shortest(), lambda w: Priority(ageing=None), lambda w: RoundRobin()],
    ids=["FIFO", "shortest", "strict priority", "round robin"],
)
def test_unfair_policies_fail_the_same_test(make):
    assert fair.worst_pair(make, 10, SEEDS) > 2
    assert fair.worst_maxmin(make, 10, SEEDS) > 1


@pytest.mark.parametrize("name", FAIR)
def test_idle_time_earns_nothing(name):
    row = FAIR[name]
    off = abs(fair.returning_share(row.make, idle=2_000) - 0.5) * 2_000
    assert off <= row.spread + 2


def test_without_the_lift_idle_time_is_credit():
    assert fair.returning_share(NoLift, idle=2_000) > 0.9


@pytest.mark.parametrize("name", FAIR)
def test_declaring_a_tenth_gains_nothing_in_the_long_run(name):
    row = FAIR[name]
    assert fair.under_declared(row.make, true_up=True) == pytest.approx(1, rel=0.02)
    assert fair.under_declared(row.make, true_up=False) == pytest.approx(10, rel=0.02)
