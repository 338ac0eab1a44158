"""A ring without room between two places numbers all of them anew: nobody's turn changes."""

from __future__ import annotations

import random

import pytest

from fairq import DRR, KeyCaps, Request
from fairq.policies import drr
from fairq.prove import agree
from policies.drive import Alike


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


@pytest.mark.parametrize("seed", range(40))
def test_new_places_change_no_order_under_caps(seed):
    """One of two queues gets new places at random moments: owed and interrupted visits keep theirs, too."""
    draw = random.Random(seed)
    names = [f"t{n}" for n in range(draw.choice([3, 6, 12]))]
    weights = {name: draw.choice([1, 2, 3]) for name in names}
    caps = {name: draw.choice([1, 2]) for name in names if draw.random() < 0.5}
    groups = {"g": (draw.sample(names, len(names) // 2), draw.choice([1, 2, 3]))}
    quantum = draw.choice([1, 3, 10])
    inner = [DRR(quantum, weights) for _ in range(2)]
    alike = Alike(*(KeyCaps(each, caps, groups=groups) for each in inner))
    for step in range(200):
        chance, name = draw.random(), draw.choice(names)
        if random.Random(1000 * seed + step).random() < 0.15:
            inner[0]._spread()
        if chance < 0.45:
            alike.put(Request(name, draw.choice([1, 2, 5, 10]), id=step))
        elif chance < 0.75:
            alike.get()
        elif chance < 0.93 and alike.running:
            alike.done(draw, [None, None, 1, 20])
        elif chance < 0.97 and alike.waiting:
            alike.cancel(draw)
