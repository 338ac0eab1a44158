"""KeyCaps: what it refuses, limits changed live, and the shares that are left under caps."""

from __future__ import annotations

from random import Random

import pytest

from fairq import DRR, FIFO, SFQ, VTC, Floors, KeyCaps, Levels, Nested, Priority, Request, SoftCaps
from fairq.prove import caps
from fairq.prove.maxmin import fill, fill_under_caps


def names(queue, n=99):
    """Hand out up to n requests; nobody is done."""
    got = []
    while len(got) < n and (request := queue.get()) is not None:
        got.append(request.id)
    return " ".join(got)


def put(queue, text):
    made = {name: Request(name[0], 1, id=name, arrival=0) for name in text.split()}
    for request in made.values():
        queue.put(request)
    return made


@pytest.mark.parametrize("limit", [-1, 1.5, "2", True, float("nan")])
def test_a_bad_limit_names_its_cap(limit):
    inner = FIFO()
    for name, settings in (
        ("'acme'", {"per_key": {"acme": limit}}),
        ("'default'", {"default": limit}),
        ("'batch'", {"groups": {"batch": (["acme"], limit)}}),
    ):
        with pytest.raises(ValueError, match=f"cap of {name}") as raised:
            KeyCaps(inner, **settings)
        assert repr(limit) in str(raised.value)
    queue = KeyCaps(FIFO(), groups={"batch": (["x"], 1)})
    with pytest.raises(ValueError, match="cap of 'acme'"):
        queue.set_cap("acme", limit)
    with pytest.raises(ValueError, match="cap of 'batch'"):
        queue.set_group_cap("batch", limit)


def test_what_it_wraps_is_an_unused_policy():
    with pytest.raises(TypeError, match="wraps a policy"):
        KeyCaps("fifo")
    used = FIFO()
    used.put(Request("a", 1))
    with pytest.raises(ValueError, match="unused"):
        KeyCaps(used)


def test_one_string_is_no_collection_of_keys():
    with pytest.raises(TypeError, match=r"'batch'.*'xy'"):
        KeyCaps(FIFO(), groups={"batch": ("xy", 1)})


def test_an_unknown_group_is_named():
    with pytest.raises(ValueError, match=r"'night'.*'batch'"):
        KeyCaps(FIFO(), groups={"batch": (["x"], 1)}).set_group_cap("night", 2)


@pytest.mark.parametrize("name", [None, "", 3])
def test_a_name_that_no_key_can_have_is_refused(name):
    queue = KeyCaps(FIFO(), default=1)
    for bad in (
        lambda: queue.set_cap(name, 2),
        lambda: KeyCaps(FIFO(), per_key={name: 1}),
        lambda: KeyCaps(FIFO(), groups={"batch": ([name], 1)}),
        lambda: KeyCaps(FIFO(), groups={name: (["x"], 1)}),
        lambda: Floors(FIFO(), {"batch": ([name], 1)}, slots=2),
        lambda: Levels({0: KeyCaps(FIFO())}).set_cap(name, 2),
    ):
        with pytest.raises(ValueError, match=f"must be a non-empty string, got {name!r}"):
            bad()
    assert queue.snapshot()["caps"]["keys"] == {}


@pytest.mark.parametrize("group", [3, ("x",), {"keys": ["x"], "limit": 1}, (3, 1)])
def test_a_group_is_keys_and_a_number(group):
    with pytest.raises(TypeError, match=r"group 'batch': (keys )?must be a"):
        KeyCaps(FIFO(), groups={"batch": group})


def test_a_groups_name_is_no_keys_name():
    queue = KeyCaps(FIFO(), groups={"batch": (["x"], 1), "y": (["y"], 2)})
    with pytest.raises(ValueError, match=r"'batch' is a group of keys, not a key: .*set_group_cap"):
        queue.set_cap("batch", 3)
    assert queue.snapshot()["caps"]["keys"] == {}
    queue.set_cap("y", 1)  # a key is so named, too
    queue.put(Request("batch", 1))
    queue.set_cap("batch", 0)
    assert queue.get() is None


@pytest.mark.parametrize(
    "around",
    [
        KeyCaps,
        SoftCaps,
        lambda inner: Floors(inner, {}, slots=1),
        lambda inner: Levels({0: FIFO(), 1: inner}),
        lambda inner: Nested({}, lambda branch: inner).put(Request("a", 1)),
    ],
)
def test_two_policies_do_not_share_one_inside(around):
    inner = FIFO()
    KeyCaps(inner)
    with pytest.raises(ValueError, match=r"a policy of its own, got .*FIFO.* inside another already"):
        around(inner)


def test_a_policy_that_is_a_level_is_inside():
    inner = FIFO()
    Levels({0: inner})
    with pytest.raises(ValueError, match=r"a policy of its own, got .*FIFO.* inside another already"):
        KeyCaps(inner)


def test_what_is_refused_leaves_the_inner_policy_free():
    inner = FIFO()
    for refused in (
        lambda: KeyCaps(inner, default=-1),
        lambda: SoftCaps(inner, groups={"batch": ("xy", 1)}),
        lambda: Floors(inner, {"batch": (["x"], 2)}, slots=1),
        lambda: Levels({0: inner, 1: "fifo"}),
    ):
        with pytest.raises((ValueError, TypeError)):
            refused()
    assert len(KeyCaps(inner)) == 0


def test_a_class_is_no_policy():
    with pytest.raises(TypeError, match=r"KeyCaps wraps a policy, got the class FIFO: make one, FIFO\(…\)"):
        KeyCaps(FIFO)


@pytest.mark.parametrize("tenant", [None, "", 3])
@pytest.mark.parametrize(
    "make", [VTC, SFQ, lambda: DRR(5), lambda: KeyCaps(DRR(5)), lambda: Levels({0: DRR(5)})]
)
def test_a_weight_is_a_tenants(make, tenant):
    with pytest.raises(ValueError, match=f"tenant of a weight must be a non-empty string, got {tenant!r}"):
        make().set_weight(tenant, 2)
    with pytest.raises(ValueError, match=f"tenant of a weight must be a non-empty string, got {tenant!r}"):
        DRR(5, weights={tenant: 2})


def test_none_is_uncapped_and_0_is_blocked():
    queue = KeyCaps(FIFO(), per_key={"a": None, "b": 0}, default=1)
    put(queue, "a1 a2 b1 c1 c2")
    assert names(queue) == "a1 a2 c1"
    with pytest.raises(ValueError, match="never served"):
        queue.position(next(r for r in queue._waiting if r.id == "b1"))


def test_a_key_may_have_more_than_a_default_of_0():
    queue = KeyCaps(FIFO(), per_key={"a": 2}, default=0)
    put(queue, "b1 a1 a2 a3 c1")
    assert names(queue) == "a1 a2"


def test_a_limit_lowered_live_waits_for_work_to_end():
    queue = KeyCaps(FIFO(), default=3)
    made = put(queue, "a1 a2 a3 a4")
    assert names(queue) == "a1 a2 a3"
    queue.set_cap("a", 1)
    queue.done(made["a1"])
    queue.done(made["a2"])
    assert queue.get() is None
    queue.done(made["a3"])
    assert queue.get() is made["a4"]


def test_a_limit_raised_live_opens_at_once():
    queue = KeyCaps(FIFO(), per_key={"a": 0}, groups={"g": (["a", "b"], 1)})
    put(queue, "a1 a2 b1")
    assert names(queue) == "b1"
    queue.set_cap("a", None)
    assert queue.get() is None
    queue.set_group_cap("g", 3)
    assert names(queue) == "a1 a2"


def test_a_capped_key_blocks_nobody_behind_it():
    queue = KeyCaps(Priority(ageing=10), default=1)
    put(queue, "a1 a2 a3 b1 c1")
    assert names(queue) == "a1 b1 c1"


def test_a_full_organisation_over_keys():
    """An organisation's cap 3 over a key's cap 2 fills 6 of 8 slots: x, x, y of it and z, z, and w once."""
    queue = KeyCaps(KeyCaps(FIFO(), default=2), groups={"org": (["x", "y"], 3)})
    put(queue, "x1 x2 x3 y1 y2 z1 z2 z3 w1")
    assert names(queue) == "x1 x2 y1 z1 z2 w1"


def test_keys_are_capped_and_tenants_are_served():
    """One tenant, two keys: the capped one does not hold up the other."""
    queue = KeyCaps(DRR(1), per_key={"k": 1})
    for n, key in enumerate("kkkl"):
        queue.put(Request("a", 1, key=key, id=f"{key}{n}", arrival=n))
    assert names(queue) == "k0 l3"


def test_ten_thousand_keys_behind_one_cap_are_asked_once():
    """What a decision costs: the lines of Python it runs, counted, not timed."""
    import sys

    queue = KeyCaps(DRR(10), groups={"g": ([f"k{n}" for n in range(10_000)], 1)})
    for n in range(10_000):
        queue.put(Request(f"k{n}", 5, arrival=n))
    queue.put(Request("free", 5, arrival=10_000))
    assert queue.get().tenant == "k0"
    lines = 0

    def watch(frame, event, arg):
        nonlocal lines
        lines += 1
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        request = queue.get()
    finally:
        sys.settrace(before)
    assert request.tenant == "free"
    assert lines < 20_000  # asking each would take several times as many


def test_the_snapshot_tells_what_the_caps_hold():
    inner = KeyCaps(DRR(10, {"a": 2}), default=5)
    queue = KeyCaps(inner, per_key={"a": 1}, default=2, groups={"g": (["b", "c"], 1)})
    for tenant, cost, name in (("a", 4, "a1"), ("a", 3, "a2"), ("b", 25, "b1"), ("c", 5, "c1")):
        queue.put(Request(tenant, cost, id=name, arrival=1))
    assert queue.get().id == "a1"
    shown = {"priority": 0, "arrival": 1}
    assert queue.snapshot() == {
        "policy": "DRR under caps under caps",
        "lines": {
            "a": [{"id": "a2", "key": "a", "cost": 3, **shown}],
            "b": [{"id": "b1", "key": "b", "cost": 25, **shown}],
            "c": [{"id": "c1", "key": "c", "cost": 5, **shown}],
        },
        "running": [{"tenant": "a", "id": "a1", "key": "a", "cost": 4, **shown, "charged": 4}],
        "accounts": {
            "a": {"weight": 2, "gain": 20, "deficit": 16, "round": 1, "open": True, "due": 1, "place": 0},
            "b": {"weight": 1, "gain": 10, "deficit": 0, "round": 0, "open": False, "due": 3, "place": 2},
            "c": {"weight": 1, "gain": 10, "deficit": 0, "round": 0, "open": False, "due": 1, "place": 1},
        },
        "next": {"tenant": "c", "id": "c1", "key": "c", "cost": 5, **shown},
        "why": "c's turn in round 1: deficit 0 + visit of 10 = 10 covers the cost 5. Held back by a cap: a.",
        "caps": {
            "keys": {"a": {"running": 1, "limit": 1}},
            "groups": {"g": {"running": 0, "limit": 1}},
            "inside": {"keys": {"a": {"running": 1, "limit": 5}}, "groups": {}, "inside": None},
        },
    }
    assert queue.get().id == "c1"
    view = queue.snapshot()
    assert view["next"] is None
    assert view["why"] == "Nothing may run: every waiting key is held back. Held back by a cap: a, b."
    assert view["caps"]["keys"]["c"] == {"running": 1, "limit": 2}
    assert view["caps"]["groups"] == {"g": {"running": 1, "limit": 1}}


@pytest.mark.parametrize("size", caps.SIZES)
def test_the_largest_size_of_a_kind_is_drawn_and_none_above(size):
    draw = Random(3)
    assert max(caps.SIZES[size](draw) for _ in range(1_000)) == caps.LARGEST_OF[size]


@pytest.mark.parametrize("setting", caps.SETTINGS, ids=lambda s: s.claim)
@pytest.mark.parametrize("size", caps.SIZES)
def test_shares_under_caps(setting, size):
    assert setting.error(lambda w: DRR(caps.LARGEST, w), size, seed=5, until=600) <= 0.05


@pytest.mark.parametrize(("seed", "size"), [(1, "unit"), (2, "exponential"), (5, "mixed")])
def test_vtc_keeps_shares_under_random_caps(seed, size):
    assert caps.random_setting(seed).error(VTC, size, seed, until=1_500) <= 0.05


def test_the_check_can_fail():
    """A FIFO fed in equal numbers gives equal shares; the weights are lost."""
    assert caps.WEIGHTED.error(lambda w: FIFO(), "unit", seed=5, until=600) > 0.2


@pytest.mark.parametrize("size", ["unit", "mixed"])
def test_siblings_keep_the_bound(size):
    assert 0.3 < caps.sibling_spread(7, size) < 1


# -- the oracle itself, by hand ------------------------------------------------------------------------


def test_filling():
    assert fill(10, {"a": 2, "b": 100, "c": 100}, {"a": 1, "b": 1, "c": 3}) == {"a": 2, "b": 2, "c": 6}
    assert fill(100, {"a": 2, "b": 3}, {}) == {"a": 2, "b": 3}
    assert fill(0, {"a": 2}, {}) == {"a": 0}


def test_filling_under_caps():
    each = [(["a"], 2), (["b"], 2), (["c"], 2)]
    assert fill_under_caps(4, "abc", {"a": 4, "b": 2, "c": 1}, each) == pytest.approx(
        {"a": 2, "b": 4 / 3, "c": 2 / 3}
    )
    assert fill_under_caps(4, "xyz", {"x": 3}, [(["x", "y"], 2)]) == pytest.approx(
        {"x": 1.5, "y": 0.5, "z": 2}
    )


@pytest.mark.parametrize("size", caps.SIZES)
@pytest.mark.parametrize(
    "inner",
    [[(["x", "y"], 9), (["v"], 1)], [(["x", "y"], 2)], [(["x", "y"], 9)]],
    ids=["a cap of v and one that never binds", "a team's cap", "one that never binds"],
)
def test_caps_within_the_cap_of_an_organisation(inner, size):
    """x, y and v share three of six slots; whatever else is capped leaves them one each."""
    weights = dict.fromkeys("xyvz", 1)
    setting = caps.Setting("x, y and v hold a slot each", 6, weights, [(list("xyv"), 3), *inner], [])
    assert setting.wanted() == {"x": 1, "y": 1, "v": 1, "z": 3}
    for seed in range(2):
        assert setting.error(lambda weights: DRR(4, weights), size, seed, 1_500) < 0.05
