"""Caps count keys, fair shares count tenants: one tenant spreads its load over fifty keys."""

from __future__ import annotations

import pytest

from fairq import DRR, FIFO, SFQ, VTC, KeyCaps, Nested, Request
from fairq.scenario import Scenario
from fairq.sim import simulate

from .drive import serve


@pytest.fixture(scope="module")
def medians():
    scenario = Scenario.load("fifty_keys")
    found = {}
    for name in scenario.policies:
        result = simulate(scenario.workload(), scenario.policy(name), scenario.engine(), seed=scenario.seed)
        found[name] = result.latency(by="group").loc["chat", "wait_p50"], result.requests["finish"].max()
    return found


def test_caps_per_key_do_not_help_and_fair_shares_do(medians):
    assert medians["FIFO"][0] > 100
    assert medians["capped per key"][0] > 0.9 * medians["FIFO"][0]
    for fair in ("DRR", "VTC", "SFQ"):
        assert medians[fair][0] < medians["FIFO"][0] / 50


def test_a_cap_on_all_its_keys_helps_and_idles_slots(medians):
    assert medians["capped as a group"][0] < 1
    assert medians["capped as a group"][1] > 2.5 * medians["VTC"][1]
    assert medians["VTC"][1] < 1.01 * medians["FIFO"][1]


@pytest.mark.parametrize("make", [VTC, SFQ, lambda: DRR(1), lambda: Nested({}, lambda tenant: FIFO())])
def test_in_exact_shares(make):
    """Two tenants, one slot, unit costs: fifty keys or one, each gets every other turn."""
    requests = [Request("spreader", 1, key=f"k{n % 50}", arrival=0, service=1) for n in range(500)]
    requests += [Request("plain", 1, arrival=0, service=1) for _ in range(200)]
    first = [r.tenant for _, _, r in serve(make(), requests, 1)][:200]
    assert first.count("plain") == 100


def test_in_exact_shares_caps_give_one_of_fifty_one():
    requests = [Request("spreader", 1, key=f"k{n % 50}", arrival=0, service=1) for n in range(5000)]
    requests += [Request("plain", 1, arrival=0, service=1) for _ in range(200)]
    served = serve(KeyCaps(FIFO(), default=2), requests, 4)
    assert [r.tenant for _, _, r in served][:5000].count("plain") == 0  # they came first, and caps let them
