"""Accumulating priority by hand: who overtakes whom, and when."""

from __future__ import annotations

from fractions import Fraction
from itertools import count

import pytest

from fairq import AccumulatingPriority, KeyCaps, Request

ids = count()


def ask(tenant, level, arrival, **more):
    return Request(tenant, 1, priority=level, arrival=arrival, id=next(ids), **more)


@pytest.fixture
def queue():
    """Urgent (4 per second) came at 6, patient (1 per second) at 0: they cross at 4(t − 6) = t, t = 8."""
    policy = AccumulatingPriority({0: 4, 1: 1})
    policy.put(ask("patient", 1, 0))
    policy.put(ask("urgent", 0, 6))
    return policy


@pytest.mark.parametrize(
    ("now", "first"), [(6, "patient"), (7, "patient"), (8, "patient"), (9, "urgent"), (99, "urgent")]
)
def test_the_steeper_line_crosses_the_other_at_8(queue, now, first):
    """At 8 both have 8: the earlier arrival goes."""
    assert queue.peek(now=now).tenant == first
    assert queue.get(now=now).tenant == first


def test_crossings_are_exact():
    policy = AccumulatingPriority({0: Fraction(1, 3), 1: Fraction(1, 7)})
    policy.put(ask("patient", 1, 0))
    policy.put(ask("urgent", 0, 4))  # (t − 4)/3 = t/7: t = 7
    assert policy.peek(now=7).tenant == "patient"
    assert policy.peek(now=Fraction(7000001, 1000000)).tenant == "urgent"


def test_within_a_level_and_at_equal_rates_it_is_fifo():
    policy = AccumulatingPriority({0: 2, 1: 2})
    asked = [ask("x", n % 2, arrival) for n, arrival in enumerate([3, 1, 1, 2])]
    for request in asked:
        policy.put(request)
    served = [policy.get(now=9) for _ in range(4)]
    assert served == [asked[1], asked[2], asked[3], asked[0]]


def test_a_level_without_a_rate_goes_last():
    policy = AccumulatingPriority({0: 1, 9: 0})
    policy.put(ask("never", 9, 0))
    policy.put(ask("soon", 0, 99))
    assert policy.peek(now=99).tenant == "never"  # both have nothing yet: the earlier arrival
    assert policy.peek(now=100).tenant == "soon"


def test_the_order_of_one_queue_changes_while_it_waits(queue):
    """Under caps too: the gate is asked for every level."""
    caps = KeyCaps(AccumulatingPriority({0: 4, 1: 1}), per_key={"urgent": 0})
    caps.put(ask("patient", 1, 0))
    caps.put(ask("urgent", 0, 6))
    assert caps.needs_now
    assert caps.peek(now=20).tenant == "patient"
    caps.set_cap("urgent", None)
    assert caps.peek(now=20).tenant == "urgent"


def test_what_it_cannot_order_by_is_refused(queue):
    with pytest.raises(ValueError, match="now"):
        queue.get()
    with pytest.raises(ValueError, match="now"):
        queue.peek()
    with pytest.raises(ValueError, match=r"arrival .* got None in .*'timeless'"):
        queue.put(Request("timeless", 1))
    with pytest.raises(ValueError, match=r"level with a rate \(0, 1\), got .*'lost'"):
        queue.put(ask("lost", 2, 0))
    assert len(queue) == 2
    with pytest.raises(ValueError, match="rate of level 1 must be a finite number >= 0, got -1"):
        AccumulatingPriority({0: 1, 1: -1})
    with pytest.raises(ValueError, match="rates must name at least one level"):
        AccumulatingPriority({})


def test_the_sentence_shows_the_sum(queue):
    assert queue.snapshot(now=9)["why"] == (
        "urgent's request has accumulated most: (9 − 6) s at 4 per second (level 0) = 12."
    )
    assert queue.snapshot()["next"] is None
