"""Agreement with two simulators written by others, Ciw and ns.py: every start, every finish."""

from __future__ import annotations

import pytest

from fairq import FIFO
from fairq.prove import others


@pytest.mark.parametrize("slots", others.SLOTS)
@pytest.mark.parametrize("name", others.CIW)
def test_every_start_is_that_of_ciw(name, slots):
    pytest.importorskip("ciw")
    make, rank = others.CIW[name]
    requests = others.poisson(100 + slots, slots, number=500)
    mine = others.ours(requests, make(), slots)
    assert mine == others.in_ciw(requests, slots, rank)
    assert sum(map(len, mine.values())) == 500


def test_another_policy_starts_otherwise():
    pytest.importorskip("ciw")
    requests = others.poisson(7, 3, number=500)
    assert others.ours(requests, FIFO(), 3) != others.in_ciw(requests, 3, others.CIW["strict priority"][1])


@pytest.mark.parametrize("seed", range(100, 106))
def test_a_standing_backlog_leaves_in_the_order_of_ns_py(seed):
    pytest.importorskip("ns")
    weights, packets = others.backlog(seed)
    assert others.our_ring(weights, packets) == others.ring_of_ns(weights, packets)
    assert len(packets) == len(others.our_ring(weights, packets))
