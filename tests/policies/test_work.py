"""What a decision costs: the lines of Python it runs, counted, not timed."""

from __future__ import annotations

import sys

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
    Priority,
    Request,
    Shortest,
)

MANY = [f"k{n}" for n in range(500)]
MAKERS = {
    "FIFO": FIFO,
    "strict": lambda: Priority(ageing=None),
    "aged": lambda: Priority(ageing=9),
    "shortest": Shortest,
    "accumulating": lambda: AccumulatingPriority({0: 1}),
    "DRR": lambda: DRR(10),
    "VTC": VTC,
    "SFQ": SFQ,
    "levels": lambda: Levels({0: VTC()}),
    "nested": lambda: Nested(dict.fromkeys(MANY, "x"), lambda branch: VTC()),
}
WRAPS = {
    "a cap they share": lambda p: KeyCaps(p, groups={"g": (MANY, 1)}),
    "the same, under caps of their own": lambda p: KeyCaps(KeyCaps(p, groups={"g": (MANY, 1)}), default=1),
    "a floor of another": lambda p: Floors(p, {"f": (["free"], 1)}, slots=2),
}


def lines_of(call):
    """How many lines it runs, and its answer."""
    lines = 0

    def watch(frame, event, arg):
        nonlocal lines
        lines += event == "line"
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        answer = call()
    finally:
        sys.settrace(before)
    return lines, answer


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_keys_held_together_are_passed_over_together(make, wrap):
    queue = wrap(make())
    for n, key in enumerate(MANY):
        queue.put(Request(key, 5, arrival=n))
    queue.put(Request("free", 5, arrival=500))
    assert queue.get(now=600).tenant == "k0"
    lines, request = lines_of(lambda: queue.get(now=600))
    assert request.tenant == "free"
    assert lines < 1000  # asking each key takes several times as many
    lines, request = lines_of(lambda: queue.get(now=600))
    assert request is None
    assert lines < 300


def test_while_all_come_in_order_fifo_is_a_single_line():
    """Also where arrivals are equal; a question about one tenant ends it."""

    def per_request(queue):
        requests = [Request("abc"[n % 3], 1, arrival=n // 2) for n in range(100)]

        def serve():
            for request in requests:
                queue.put(request)
            for request in requests:
                assert queue.get() is request
                queue.done(request)

        return lines_of(serve)[0] / 100

    asked = FIFO()
    assert asked.waiting("a") == 0
    assert per_request(FIFO()) < 30
    assert per_request(asked) > 60
