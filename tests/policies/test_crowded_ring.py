"""A ring without room between two places numbers all of them anew: nobody's turn changes."""

from __future__ import annotations

import random

import pytest

from fairq import Request
from fairq.policies import drr
from fairq.prove import agree


@pytest.mark.parametrize(("gap", "step"), [(2, 1), (4, 1), (8, 4)])
def test_many_joins_in_the_middle_agree_with_the_plain_ring(gap, step, monkeypatch):
    """Forty tenants come and go where there is little room: as the plain ring, which has no places, serves
    them.
    """
    crowded = 0
    monkeypatch.setattr(drr, "GAP", gap)
    monkeypatch.setattr(drr, "STEP", step)
    for seed in range(40):
        draw = random.Random(seed)
        policy, twin = agree.QUEUES["DRR"](draw.choice([3, 10]), {"t0": 2})
        for now in range(150):
            if draw.random() < 0.55:
                request = Request(f"t{draw.randrange(40)}", draw.randint(1, 12), arrival=now)
                after = policy._cut
                before = after and after.before
                crowded += before is not None and after.place - before.place < 2
                policy.put(request)
                twin.put(request)
            else:
                served = policy.get()
                assert served is twin.get(now=now), f"seed {seed}, at {now}"
                if served is not None:
                    policy.done(served)
        while (served := policy.get()) is not None:
            assert served is twin.get(now=150), f"seed {seed}, at the end"
    assert crowded > 20
