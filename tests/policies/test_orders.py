"""FIFO, priority and shortest first: what they refuse, what they say, and ties worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from fairq import FIFO, AccumulatingPriority, KeyCaps, Priority, Request, Shortest


def order(policy, *requests, now=None):
    for request in requests:
        policy.put(request)
    names = []
    while (request := policy.get(now=now)) is not None:
        names.append(request.id)
        policy.done(request)
    return " ".join(names)


def asks(name, **fields):
    return Request(name[0], fields.pop("cost", 1), id=name, **fields)


def why(policy, *requests, now=None):
    for request in requests:
        policy.put(request)
    return policy.snapshot(now=now)["why"]


@pytest.mark.parametrize("ageing", [-1, float("nan"), float("inf"), "600", True])
def test_a_bad_ageing_is_named(ageing):
    with pytest.raises(ValueError, match=r"^ageing must be a finite number >= 0, got ") as raised:
        Priority(ageing=ageing)
    assert repr(ageing) in str(raised.value)


def test_ageing_has_to_be_said():
    with pytest.raises(TypeError):
        Priority()
    assert Priority(ageing=None).ageing is None
    assert Priority(ageing=0).ageing == 0


def test_with_ageing_a_request_needs_its_arrival():
    with pytest.raises(ValueError, match="arrival") as raised:
        Priority(ageing=600).put(asks("x1"))
    assert "x1" in str(raised.value)
    assert order(Priority(ageing=None), asks("a1"), asks("b1", priority=-1)) == "b1 a1"


def test_fifo_by_arrival_then_by_order_of_put():
    requests = [asks("a1", arrival=5), asks("b1", arrival=3), asks("c1", arrival=5), asks("d1", arrival=3)]
    assert order(FIFO(), *requests) == "b1 d1 a1 c1"


def test_who_has_no_arrival_comes_after_all_that_were_put():
    queue = FIFO()
    assert order(queue, asks("a1", arrival=7), asks("b1"), asks("c1", arrival=6)) == "c1 a1 b1"


def test_exactly_one_level_of_waiting_wins_and_a_moment_less_does_not():
    chat = asks("c1", arrival=600, priority=0)
    assert order(Priority(ageing=600), chat, asks("b1", arrival=0, priority=1)) == "b1 c1"
    late = asks("b2", arrival=Fraction(1, 10**9), priority=1)
    assert order(Priority(ageing=600), asks("c2", arrival=600), late) == "c2 b2"


def test_levels_may_be_fractions():
    a, b, c = asks("a1", arrival=2, priority=0), asks("b1", arrival=0, priority=0.5), asks("c1", arrival=1)
    assert order(Priority(ageing=4), a, b, c) == "c1 b1 a1"  # 1, and 0 + 4·0.5 = 2 = 2 + 0: b came first


def test_shortest_by_estimate_then_arrival():
    requests = [asks("a1", cost=3, arrival=0), asks("b1", cost=2, arrival=1), asks("c1", cost=2, arrival=0)]
    assert order(Shortest(), *requests) == "c1 b1 a1"


def test_what_each_says():
    assert why(FIFO(), asks("a1", arrival=2.5)) == "a's request arrived first, at 2.5 s."
    assert why(FIFO(), asks("a1")) == "a's request is first in line."
    strict = Priority(ageing=None)
    assert why(strict, asks("a1", priority=3)) == "a's request has the most urgent level that waits, 3."
    aged = Priority(ageing=600)
    assert why(aged, asks("a1", arrival=40, priority=2)) == (
        "a's request has the smallest arrival + ageing·level: 40 + 600·2 = 1240 s."
    )
    assert why(Shortest(), asks("a1", cost=7)) == "a's request is the shortest that may run: 7 tokens."
    assert why(FIFO()) == "Nothing waits."
    blind = AccumulatingPriority({0: 1})
    assert why(blind, asks("a1", arrival=0)) == "AccumulatingPriority orders by time: say when (now=…)."
    shut = KeyCaps(FIFO(), default=0)
    assert why(shut, asks("a1")) == (
        "Nothing may run: every waiting key is held back. Held back by a cap: a."
    )


def test_a_limit_set_live_is_kept_when_its_key_falls_idle():
    queue = KeyCaps(FIFO(), default=1)
    queue.set_cap("a", 2)
    first = asks("a1")
    assert order(queue, first) == "a1"
    for name in ("a2", "a3", "a4"):
        queue.put(asks(name))
    assert [queue.get().id, queue.get().id, queue.get()] == ["a2", "a3", None]


def test_cancelled_requests_are_skipped_wherever_they_stand():
    for make in (FIFO, Shortest, lambda: Priority(ageing=None), lambda: Priority(ageing=5)):
        queue = make()
        requests = [asks(f"a{n}", arrival=n) for n in range(40)]
        for request in requests:
            queue.put(request)
        for request in requests[::2]:
            assert queue.cancel(request)
        assert len(queue) == queue.waiting("a") == 20
        assert order(queue) == " ".join(f"a{n}" for n in range(1, 40, 2))
        assert queue.waiting("a") == 0


def test_a_request_put_twice_is_refused_before_anything_was_asked():
    """Fifo keeps a single line until a question splits it: both ways refuse."""
    for ask_first in (False, True):
        queue, request, other = FIFO(), asks("a1", arrival=1), asks("b1", arrival=2)
        if ask_first:
            assert queue.waiting("a") == 0
        queue.put(request)
        queue.put(other)
        with pytest.raises(ValueError, match=r"put twice.*'a1'"):
            queue.put(request)
        assert queue.get() is request
        with pytest.raises(ValueError, match=r"put twice.*'a1'"):
            queue.put(request)
        assert [queue.get(), queue.get()] == [other, None]
