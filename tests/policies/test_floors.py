"""Floors: slots kept free for a group, the promise and the price."""

from __future__ import annotations

from itertools import count

import pytest

from fairq import DRR, FIFO, VTC, Floors, KeyCaps, Levels, Request

from .drive import serve

ids = count()


def ask(key, cost=1, **more):
    return Request(key[0], cost, key=key, id=next(ids), **more)


def fill(policy):
    got = []
    while (request := policy.get()) is not None:
        got.append(request)
    return got


def keys(requests):
    return "".join(r.key for r in requests)


def test_others_leave_the_floor_free_and_the_group_may_use_more():
    policy = Floors(FIFO(), {"chat": (["c"], 2)}, slots=4)
    for key in "bbbb":
        policy.put(ask(key))
    running = fill(policy)
    assert keys(running) == "bb"
    for key in "cc":
        policy.put(ask(key))
    assert keys(fill(policy)) == "cc"
    for request in running:
        policy.done(request)
    assert keys(fill(policy)) == "bb"  # chat has its two: the others are anybody's


def test_a_floor_is_no_cap():
    policy = Floors(FIFO(), {"chat": (["c"], 1)}, slots=4)
    for key in "cccc":
        policy.put(ask(key))
    assert keys(fill(policy)) == "cccc"


def test_two_floors_keep_their_slots_from_each_other():
    policy = Floors(FIFO(), {"x": (["x"], 1), "y": (["y"], 2)}, slots=4)
    for key in "xxxxyyyyz":
        policy.put(ask(key))
    assert keys(fill(policy)) == "xxyy"  # of four: 1 for x, 2 for y, 1 for whoever is first


def test_a_key_in_two_groups_draws_on_both():
    policy = Floors(FIFO(), {"g": (["a", "b"], 1), "h": (["a"], 1)}, slots=2)
    for key in "bza":
        policy.put(ask(key))
    # b takes g's slot; the last one is kept for h: z has to wait, a may
    assert keys(fill(policy)) == "ba"


def test_the_group_never_waits_for_others_to_end():
    """One chat request at a time with two slots kept: it starts at once, whatever the batch does."""
    requests = [ask("b", arrival=0, service=97) for _ in range(300)]
    requests += [ask("c", arrival=11 * n, service=10) for n in range(150)]
    served = serve(Floors(VTC(), {"chat": (["c"], 1)}, slots=4), requests, 4, until=1600)
    waits = {start - r.arrival for start, _, r in served if r.key == "c"}
    assert waits == {0}
    plain = serve(VTC(), requests, 4, until=1600)
    assert max(start - r.arrival for start, _, r in plain if r.key == "c") > 20


def test_the_price_is_the_slots_kept():
    """Nobody of the group comes: one of four slots idles for ever."""
    requests = [ask("b", arrival=0, service=10) for _ in range(400)]
    served = serve(Floors(FIFO(), {"chat": (["c"], 1)}, slots=4), requests, 4, until=999)
    assert sum(end - start for start, end, _ in served) == 3 * 1000


def test_caps_around_and_inside_and_levels():
    policy = KeyCaps(
        Floors(KeyCaps(Levels({0: VTC(), 1: FIFO()}), {"a": 1}), {"g": (["c"], 1)}, slots=4), {"b": 1}
    )
    for key in "aabbzc":
        policy.put(ask(key))
    assert keys(fill(policy)) == "abzc"
    policy.set_cap("b", 2)  # the outer wrapper's
    assert policy.get() is None  # four run
    view = policy.snapshot()
    assert "why" in view


def test_floors_change_live_and_caps_are_handed_on():
    policy = Floors(KeyCaps(FIFO(), default=3), {"chat": (["c"], 2)}, slots=3)
    for key in "bbb":
        policy.put(ask(key))
    assert keys(fill(policy)) == "b"
    policy.set_floor("chat", 1)
    assert keys(fill(policy)) == "b"
    policy.set_cap("b", 2)
    policy.set_floor("chat", 0)
    assert fill(policy) == []
    policy.set_cap("b", 3)
    assert keys(fill(policy)) == "b"


def test_bad_numbers_are_named():
    with pytest.raises(ValueError, match="floors promise 5 slots, but there are slots=4"):
        Floors(FIFO(), {"x": (["x"], 3), "y": (["y"], 2)}, slots=4)
    with pytest.raises(ValueError, match="floor of 'x' must be a whole number >= 0, got -1"):
        Floors(FIFO(), {"x": (["x"], -1)}, slots=4)
    with pytest.raises(ValueError, match="slots must be a whole number >= 1, got 0"):
        Floors(FIFO(), {}, slots=0)
    with pytest.raises(TypeError, match="floor 'x': keys must be a collection of keys, got the string 'abc'"):
        Floors(FIFO(), {"x": ("abc", 1)}, slots=4)
    policy = Floors(FIFO(), {"x": (["x"], 1)}, slots=4)
    with pytest.raises(ValueError, match="no floor for 'y'"):
        policy.set_floor("y", 1)
    with pytest.raises(ValueError, match="floors promise 5 slots, but there are slots=4"):
        policy.set_floor("x", 5)
    with pytest.raises(ValueError, match="floor of 'x' must be a whole number >= 0, got -2"):
        policy.set_floor("x", -2)
    policy.set_floor("x", 4)  # all of them: nothing is left for anybody else
    policy.put(ask("y"))
    assert policy.get() is None


def test_the_sentence_says_whom_the_free_slots_are_for():
    policy = Floors(FIFO(), {"chat": (["c"], 1)}, slots=1)
    policy.put(ask("b"))
    view = policy.snapshot()
    assert view["policy"] == "FIFO over floors"
    assert view["floors"] == {"chat": {"slots": 1, "running": 0, "kept": 1}}
    assert (
        view["why"] == "Nothing may run: every waiting key is held back. The free slots are kept for: chat."
    )
    policy.put(ask("c"))
    assert policy.snapshot()["next"]["key"] == "c"


def test_the_sentence_keeps_still_while_all_who_wait_may_run():
    policy = Floors(FIFO(), {"chat": (["c"], 1)}, slots=1)
    policy.put(ask("c"))
    view = policy.snapshot()
    assert view["why"] == "c's request is first in line."
    assert view["caps"] is None
    assert view.keys() - FIFO().snapshot().keys() == {"caps", "floors"}


def test_what_is_being_handed_out_takes_no_slot_yet():
    """b's visit leaves it 2, and of its keys only the dear one may run when d is served: so the visit ends,
    and d's goes on. Were d's first request counted as running by then, the dear key would be held as well,
    and the visit, which can pay for the cheap one, would stay open.
    """
    queue = Floors(DRR(10), {"kept": (["other"], 1)}, slots=3)
    asked = [("b", "dear", 8), ("b", "cheap", 1), ("b", "dear", 5), ("d", "d", 5), ("d", "d", 5)]
    made = [Request(tenant, cost, key=key, id=number) for number, (tenant, key, cost) in enumerate(asked)]
    for request in made:
        queue.put(request)
    assert queue.get() is made[0]
    assert queue.get(lambda key: key != "cheap") is made[3]
    queue.done(made[0])
    assert queue.get() is made[4]
