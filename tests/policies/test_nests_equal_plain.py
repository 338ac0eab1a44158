"""Levels, shares of shares, floors and soft caps against their plain second implementation."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from fairq import (
    DRR,
    FIFO,
    SFQ,
    VTC,
    AccumulatingPriority,
    Floors,
    KeyCaps,
    Levels,
    Nested,
    Request,
    SoftCaps,
)
from fairq.prove import plain

from .plain_nests import PlainCaps, PlainFloors, PlainLevels, PlainNested, PlainSoftCaps

ORGS = {"a": "x", "b": "x", "c": "y"}
WEIGHTS = {"a": 2, "c": 3}
KEYS = ["a", "a2", "b", "b2", "c", "c2", "d", "d2"]
RATES = {0: 4, 1: 2, 2: 1}


def of(request):
    return ORGS.get(request.tenant, request.tenant)


def levels(ageing, ring=True):
    first = (DRR(5, WEIGHTS), plain.PlainDRR(5, WEIGHTS)) if ring else (VTC(), plain.PlainVTC({}))
    return (
        Levels({0: first[0], 1: VTC(WEIGHTS), 2: SFQ(WEIGHTS)}, ageing),
        PlainLevels({0: first[1], 1: plain.PlainVTC(WEIGHTS), 2: plain.PlainSFQ(WEIGHTS)}, ageing),
    )


def nested(policy, twin):
    orgs = {"x": 2, "y": Fraction(1, 2)}
    return Nested(ORGS, lambda org: policy(), orgs), PlainNested(of, lambda org: twin(), orgs)


def soft(policy, twin):
    caps = [[{key}, 2 if key == "a" else 1] for key in KEYS] + [[{"b", "c"}, 1], [{"d"}, 0]]
    return (
        SoftCaps(policy, {"a": 2}, default=1, groups={"g": (["b", "c"], 1), "idle only": (["d"], 0)}),
        PlainSoftCaps(twin, caps),
    )


def floors(policy, twin):
    kept = [({"a", "a2"}, 1), ({"a", "b"}, 2)]
    return Floors(policy, {"g": (["a", "a2"], 1), "h": (["a", "b"], 2)}, slots=5), PlainFloors(twin, kept, 5)


PAIRS = {
    "strict levels": lambda: levels(None),
    "aged levels": lambda: levels(Fraction(5, 2)),
    "levels without a ring": lambda: levels(4, ring=False),
    "levels of levels": lambda: (
        Levels({0: FIFO(), 1: Levels({1: VTC()}), 2: AccumulatingPriority(RATES)}, 3),
        PlainLevels(
            {
                0: plain.PlainFIFO(),
                1: PlainLevels({1: plain.PlainVTC({})}, None),
                2: plain.PlainAccumulating(RATES),
            },
            3,
        ),
    ),
    "nested DRR": lambda: nested(lambda: DRR(7, WEIGHTS), lambda: plain.PlainDRR(7, WEIGHTS)),
    "nested VTC": lambda: nested(lambda: VTC(WEIGHTS), lambda: plain.PlainVTC(WEIGHTS)),
    "three deep": lambda: nested(
        lambda: Nested(lambda r: r.tenant, lambda t: Nested(lambda r: r.key, lambda k: FIFO()), WEIGHTS),
        lambda: PlainNested(
            lambda r: r.tenant,
            lambda t: PlainNested(lambda r: r.key, lambda k: plain.PlainFIFO(), {}),
            WEIGHTS,
        ),
    ),
    "nested with caps inside and around": lambda: capped_branches(),
    "soft caps, FIFO": lambda: soft(FIFO(), plain.PlainFIFO()),
    "soft caps, VTC": lambda: soft(VTC(WEIGHTS), plain.PlainVTC(WEIGHTS)),
    "soft caps, DRR": lambda: soft(DRR(7, WEIGHTS), plain.PlainDRR(7, WEIGHTS)),
    "soft caps, levels": lambda: soft(*levels(4)),
    "floors, FIFO": lambda: floors(FIFO(), plain.PlainFIFO()),
    "floors, VTC": lambda: floors(VTC(WEIGHTS), plain.PlainVTC(WEIGHTS)),
    "floors, DRR": lambda: floors(DRR(7, WEIGHTS), plain.PlainDRR(7, WEIGHTS)),
    "floors, soft caps, nested": lambda: floors(*soft(*nested(VTC, lambda: plain.PlainVTC({})))),
    "soft caps around floors": lambda: soft(*floors(VTC(), plain.PlainVTC({}))),
    "levels with soft caps inside": lambda: (
        Levels({0: SoftCaps(VTC(), default=1), 1: FIFO(), 2: FIFO()}),
        PlainLevels(
            {
                0: PlainSoftCaps(plain.PlainVTC({}), [[{key}, 1] for key in KEYS]),
                1: plain.PlainFIFO(),
                2: plain.PlainFIFO(),
            },
            None,
        ),
    ),
    "hard over soft caps": lambda: (
        KeyCaps(soft(VTC(), None)[0], per_key={"a": 3}),
        hard_over_soft(),
    ),
}


def capped_branches():
    """Branch x may run two, and each key one of these; around, a and c share two."""
    inside = [[{"a", "a2", "b", "b2"}, 2]] + [[{key}, 1] for key in KEYS]
    policy, twin = nested(
        lambda: KeyCaps(VTC(WEIGHTS), default=1, groups={"x": (["a", "a2", "b", "b2"], 2)}),
        lambda: PlainCaps(plain.PlainVTC(WEIGHTS), inside),
    )
    return KeyCaps(policy, groups={"ac": (["a", "c"], 2)}), PlainCaps(twin, [[{"a", "c"}, 2]])


def hard_over_soft():
    twin = soft(FIFO(), plain.PlainVTC({}))[1]
    inner = twin.get
    twin.get = lambda allowed=lambda key: True, now=None: inner(
        lambda key: allowed(key) and (key != "a" or twin.keys.count("a") < 3), now
    )
    return twin


def random_calls(name, seed, steps=80):
    """The same random calls on both; every ``get`` gives the same request, every ``peek`` foretells it."""
    draw = random.Random(seed)
    policy, twin = PAIRS[name]()
    waiting, running = [], {}

    def pick(accepted, step):
        may = (lambda key: True) if accepted is None else accepted.__contains__
        eligible = None if accepted is None else may
        peeked = policy.peek(eligible, now=step)
        if draw.random() < 0.1:
            assert policy.snapshot(now=step)["why"]
        request = policy.get(eligible, now=step)
        assert request is twin.get(may, now=step), f"{name}, seed {seed}, step {step}"
        assert peeked is request
        return request

    for step in range(steps):
        verb = draw.random()
        if verb < 0.45:
            key = draw.choice(KEYS)
            request = Request(
                key[0],
                draw.choice([1, 1, 5, draw.randint(1, 20)]),
                arrival=step - draw.choice([0] * 9 + [draw.randint(1, 9)]),
                priority=1 if name == "levels of levels" and draw.random() < 0.5 else draw.randint(0, 2),
                key=key,
                id=step,
            )
            policy.put(request)
            twin.put(request)
            waiting.append(request)
        elif verb < 0.75:
            accepted = draw.choice([None, None, set(draw.sample(KEYS, 3))])
            request = pick(accepted, step)
            if request is not None:
                waiting.remove(request)
                running[request] = request.cost
        elif verb < 0.8 and waiting:
            request = waiting.pop(draw.randrange(len(waiting)))
            assert policy.cancel(request)
            twin.cancel(request)
        elif verb < 0.85 and running:
            request, cost = draw.choice(list(running)), draw.randint(0, 60)
            policy.charge(request, cost)
            if cost > running[request]:
                twin.settle(request, cost - running[request])
                running[request] = cost
        elif running:
            request = draw.choice(list(running))
            charged, cost = running.pop(request), draw.choice([None, draw.randint(0, 60)])
            policy.done(request, cost)
            if cost is not None and cost != charged:
                twin.settle(request, cost - charged)
            twin.ended(request)
        assert len(policy) == len(waiting)
        assert policy.running == len(running)
        for tenant in "abcd":
            assert policy.waiting(tenant) == sum(r.tenant == tenant for r in waiting)


@pytest.mark.parametrize("name", PAIRS)
def test_random_calls_agree(name):
    for seed in range(40):
        random_calls(name, seed)


ONE_OF_A_KIND = {"strict levels", "aged levels", "nested DRR", "nested VTC", "soft caps, VTC", "floors, VTC"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_2000_random_calls_agree(name):
    """2,000 for one of each kind, 300 for the mixtures."""
    for seed in range(40, 2_040 if name in ONE_OF_A_KIND else 340):
        random_calls(name, seed)
