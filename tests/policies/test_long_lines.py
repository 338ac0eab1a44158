"""Lines of a few requests and of hundreds: each is kept in its own way, and nobody can tell which."""

from __future__ import annotations

import random

import pytest

from fairq import DRR, Request
from fairq.policies.lines import SHORT
from fairq.prove.plain import PlainDRR
from policies.table import FAIR


@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("name", FAIR)
def test_a_line_grows_long_and_short_again_and_keeps_its_order(name, keys):
    """Those of a tenant leave by arrival, then in the order of their puts; who gave up does not."""
    draw = random.Random(f"{name} {keys}")
    policy = FAIR[name].make({"a": 2})
    waiting: list[Request] = []
    longest = 0
    for number in range(3000):
        growing = number // 500 % 2 == 0
        chance = draw.random()
        if chance < (0.7 if growing else 0.2):
            tenant = draw.choice("aab")
            key = tenant + draw.choice("12"[:keys])
            # One in ten comes later than others that arrived after it.
            arrival = number - draw.choice([0] * 9 + [draw.randint(1, 200)])
            waiting.append(Request(tenant, draw.randint(1, 9), key=key, arrival=arrival))
            policy.put(waiting[-1])
        elif chance < 0.8 or not waiting:
            served = policy.get()
            assert (served is None) == (not waiting)
            if served is not None:
                theirs = [r for r in waiting if r.tenant == served.tenant]
                assert served is min(theirs, key=lambda r: r.arrival), f"at {number}"
                waiting.remove(served)
                policy.done(served)
        else:
            gone = draw.choice(waiting)
            assert policy.cancel(gone)
            waiting.remove(gone)
        lengths = [sum(r.tenant == tenant for r in waiting) for tenant in "ab"]
        assert [policy.waiting(tenant) for tenant in "ab"] == lengths
        longest = max(longest, *lengths)
    assert longest > 3 * SHORT


@pytest.mark.parametrize("seed", range(10))
def test_long_lines_are_served_as_the_plain_ring_serves_them(seed):
    draw = random.Random(seed)
    quantum = draw.choice([2, 10])
    ring, plain = DRR(quantum, {"a": 2}), PlainDRR(quantum, {"a": 2})
    waiting: list[Request] = []
    for wave in range(4):
        for number in range(150):
            waiting.append(Request(draw.choice("abc"), draw.randint(1, 15), arrival=150 * wave + number))
            ring.put(waiting[-1])
            plain.put(waiting[-1])
        for gone in draw.sample(waiting, 25):
            assert ring.cancel(gone)
            plain.cancel(gone)
            waiting.remove(gone)
        for _ in range(80 if wave < 3 else len(waiting)):
            served = ring.get()
            assert served is plain.get(), f"in wave {wave}"
            waiting.remove(served)
    assert ring.get() is plain.get() is None
