"""Every policy against its plain second implementation: every start and finish, in exact arithmetic.

Two truths: schedules on slots (2,000 workloads per policy when slow tests run), and random calls on the
queue alone, with cancelled requests, true-up and weights changed on the way.
"""

from __future__ import annotations

import ast
import random
from fractions import Fraction
from pathlib import Path

import pytest

from fairq import DRR, SFQ, Request
from fairq.prove import agree, plain

SCHEDULES = [(name, False) for name in agree.PAIRS] + [(name, True) for name in agree.UNDER_CAPS]


def test_the_plain_implementation_shares_no_code():
    tree = ast.parse(Path(plain.__file__).read_text())
    froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert froms == {"__future__", "collections.abc", "copy", "fractions", "typing"}
    assert not any(isinstance(node, ast.Import) for node in ast.walk(tree))


@pytest.mark.parametrize(("name", "capped"), SCHEDULES)
def test_schedules_agree(name, capped):
    for seed in range(60):
        assert not agree.differs(name, agree.random_case(seed), capped), f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "capped"), SCHEDULES)
def test_2000_schedules_agree(name, capped):
    for seed in range(2_000):
        assert not agree.differs(name, agree.random_case(seed), capped), f"seed {seed}"


def test_a_wrong_policy_is_seen():
    """The comparison can fail: equal-weight DRR against the ring with weights."""
    wrong = lambda case: DRR(case.quantum)  # noqa: E731
    pairs = {**agree.PAIRS, "wrong": (wrong, agree.PAIRS["DRR"][1])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agree, "PAIRS", pairs)
        assert sum(bool(agree.differs("wrong", agree.random_case(seed), False)) for seed in range(60)) > 10


@pytest.mark.parametrize("name", agree.QUEUES)
def test_random_calls_agree(name):
    for seed in range(150):
        agree.random_calls(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", agree.QUEUES)
def test_2000_random_calls_agree(name):
    for seed in range(150, 2_150):
        agree.random_calls(name, seed, steps=120)


@pytest.mark.parametrize("name", ["DRR", "VTC", "SFQ"])
def test_forgetting_idle_tenants_changes_nothing(name, monkeypatch):
    """The books are closed for idle tenants in bulk, once there are thousands; here at every newcomer."""
    make = agree.QUEUES[name]

    def forgetful(quantum, weights):
        policy, twin = make(quantum, weights)
        close = policy._close_accounts

        def close_again():
            close()
            policy._room = 1

        policy._room, policy._close_accounts = 1, close_again
        return policy, twin

    monkeypatch.setitem(agree.QUEUES, name, forgetful)
    for seed in range(60):
        agree.random_calls(name, seed)


def test_sfq_tags_are_those_of_the_paper():
    """Tags written down at arrival, as Goyal, Vin & Cheng define them: S = max(v, F before), F = S + L/w."""
    for seed in range(100):
        draw = random.Random(seed)
        weights = {t: draw.randint(1, 4) for t in "abc"}
        policy, tags, last, virtual, finish = SFQ(weights), {}, {}, 0, 0
        running = []
        for step in range(60):
            if draw.random() < 0.5:
                request = Request(draw.choice("abc"), draw.randint(1, 9), arrival=step)
                if not tags and not running:
                    virtual = max(virtual, finish)
                start = max(virtual, last.get(request.tenant, 0))
                last[request.tenant] = start + Fraction(request.cost, weights[request.tenant])
                finish = max(finish, last[request.tenant])
                tags[request] = start, step
                policy.put(request)
            elif draw.random() < 0.6:
                request = policy.get()
                if request is None:
                    assert not tags
                    continue
                assert tags[request][0] == min(start for start, _ in tags.values())
                virtual = tags.pop(request)[0]
                running.append(request)
            elif running:
                policy.done(running.pop(0))
