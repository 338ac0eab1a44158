"""What each policy says of bad input, word for word: the field, the value and the place."""

from __future__ import annotations

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
    Priority,
    Request,
    Shortest,
    SoftCaps,
)

A = Request("a", 1, arrival=0, id="first")
TIMELESS = Request("a", 1)
LOST = Request("a", 1, arrival=0, priority=7)
NEVER = "Request('a', 1, id='first', arrival=0)"


class Plain(FIFO):
    """A policy whose ``repr`` does not change from run to run."""

    def __repr__(self):
        return "Plain()"


def used(policy):
    policy.put(A)
    return policy


def inside():
    policy = Plain()
    KeyCaps(policy)
    return policy


def opened(*tenants, inner=VTC):
    """A nest in which each tenant is a branch, with something waiting in it."""
    nest = Nested({}, lambda branch: inner())
    for tenant in tenants:
        nest.put(Request(tenant, 1))
    return nest


ANY = {
    "FIFO": FIFO,
    "strict": lambda: Priority(ageing=None),
    "aged": lambda: Priority(ageing=5),
    "shortest": Shortest,
    "accumulating": lambda: AccumulatingPriority({0: 1}),
    "DRR": lambda: DRR(5),
    "VTC": VTC,
    "SFQ": SFQ,
    "levels": lambda: Levels({0: VTC()}),
    "nested": lambda: Nested({}, lambda branch: VTC()),
    "caps": lambda: KeyCaps(FIFO()),
    "floors": lambda: Floors(FIFO(), {}, slots=1),
}

TYPE_ERRORS = {
    "no weights": (
        lambda: FIFO().set_weight("a", 2),
        "FIFO has no weights: cannot set the weight of 'a'",
    ),
    "no weights in any level": (
        lambda: Levels({0: FIFO()}).set_weight("a", 2),
        "Levels has no weights: cannot set the weight of 'a'",
    ),
    "no weights in any branch": (
        lambda: opened("a", inner=FIFO).set_weight("a", 2),
        "Nested has no weights: cannot set the weight of 'a'",
    ),
    "no caps": (lambda: VTC().set_cap("a", 2), "VTC has no caps: cannot set the cap of 'a'"),
    "no caps in any level": (
        lambda: Levels({0: FIFO()}).set_cap("a", 2),
        "Levels has no caps: cannot set the cap of 'a'",
    ),
    "a class in caps": (lambda: KeyCaps(VTC), "KeyCaps wraps a policy, got the class VTC: make one, VTC(…)"),
    "a word in floors": (lambda: Floors("fifo", {}, slots=1), "Floors wraps a policy, got 'fifo'"),
    "a word as a level": (lambda: Levels({0.5: "fifo"}), "level 0.5 needs a policy, got 'fifo'"),
    "a word as a branch": (
        lambda: Nested({}, lambda branch: "fifo").put(A),
        "branch 'a' needs a policy, got 'fifo'",
    ),
    "a group that is no pair": (
        lambda: KeyCaps(FIFO(), groups={"g": 3}),
        "group 'g': must be a pair (keys, number), got 3",
    ),
    "a group of one string": (
        lambda: KeyCaps(FIFO(), groups={"g": ("xy", 1)}),
        "group 'g': keys must be a collection of keys, got the string 'xy'",
    ),
    "a floor of one string": (
        lambda: Floors(FIFO(), {"f": ("xy", 1)}, slots=2),
        "floor 'f': keys must be a collection of keys, got the string 'xy'",
    ),
    "a floor of one number": (
        lambda: Floors(FIFO(), {"f": (3, 1)}, slots=2),
        "floor 'f': keys must be a collection of keys, got 3",
    ),
    "weights: a list": (lambda: DRR(1, weights=["a"]), "weights must be a mapping, got ['a']"),
    "weights: a number": (lambda: VTC(weights=0), "weights must be a mapping, got 0"),
    "caps: a list": (lambda: KeyCaps(FIFO(), per_key=["a"]), "per_key must be a mapping, got ['a']"),
    "caps: one key": (lambda: SoftCaps(FIFO(), per_key="a"), "per_key must be a mapping, got 'a'"),
    "caps: a list of groups": (lambda: KeyCaps(FIFO(), groups=[1]), "groups must be a mapping, got [1]"),
    "floors: a list": (lambda: Floors(FIFO(), ["f"], slots=8), "floors must be a mapping, got ['f']"),
    "rates: a list": (lambda: AccumulatingPriority([1, 2]), "rates must be a mapping, got [1, 2]"),
    "levels: a list": (lambda: Levels([FIFO]), f"levels must be a mapping, got [{FIFO!r}]"),
    "nested: a list": (lambda: Nested(["a"], lambda branch: VTC()), "of must be a mapping, got ['a']"),
}

VALUE_ERRORS = {
    "caps: a group that is a list": (
        lambda: KeyCaps(FIFO()).set_group_cap([], 1),
        "the group of a cap must be a non-empty string, got []",
    ),
    "floors: a group that is a list": (
        lambda: Floors(FIFO(), {}, slots=1).set_floor([], 1),
        "the group of a floor must be a non-empty string, got []",
    ),
    "nested: a branch that is a number": (
        lambda: opened("a").set_branch_weight(3, 1),
        "the branch of a weight must be a non-empty string, got 3",
    ),
    "accumulating: no rates": (
        lambda: AccumulatingPriority({}),
        "rates must name at least one level, got {}",
    ),
    "accumulating: a bad rate": (
        lambda: AccumulatingPriority({1: -1}),
        "rate of level 1 must be a finite number >= 0, got -1",
    ),
    "accumulating: no arrival": (
        lambda: AccumulatingPriority({0: 1}).put(TIMELESS),
        "arrival is needed to accumulate priority, got None in Request('a', 1)",
    ),
    "accumulating: no such level": (
        lambda: AccumulatingPriority({0: 1, 0.5: 2}).put(LOST),
        "priority must be a level with a rate (0, 0.5), got Request('a', 1, arrival=0, priority=7)",
    ),
    "accumulating: no time": (
        lambda: AccumulatingPriority({0: 1}).get(),
        "AccumulatingPriority orders by time: get and peek need now (seconds)",
    ),
    "levels: no time": (
        lambda: Levels({0: AccumulatingPriority({0: 1})}).get(),
        "Levels orders by time: get and peek need now (seconds)",
    ),
    "levels: none": (lambda: Levels({}), "levels must name at least one, got {}"),
    "levels: a bad level": (
        lambda: Levels({"urgent": FIFO()}),
        "level 'urgent' must be a finite number >= -inf, got 'urgent'",
    ),
    "levels: a bad ageing": (
        lambda: Levels({0: FIFO()}, ageing=-1),
        "ageing must be a finite number >= 0, got -1",
    ),
    "levels: no such level": (
        lambda: Levels({1: FIFO(), 0: FIFO()}).put(LOST),
        "priority must be one of the levels (0, 1), got Request('a', 1, arrival=0, priority=7)",
    ),
    "levels: no arrival": (
        lambda: Levels({0: FIFO()}, ageing=5).put(TIMELESS),
        "arrival is needed for ageing, got None in Request('a', 1)",
    ),
    "levels: a policy that was used": (
        lambda: Levels({0: used(Plain())}),
        "level 0 needs an unused policy, got a used Plain()",
    ),
    "levels: a policy that is elsewhere": (
        lambda: Levels({0: inside()}),
        "level 0 needs a policy of its own, got Plain(), which is inside another already",
    ),
    "levels: one policy twice": (
        lambda: Levels(dict.fromkeys((0, 1), Plain())),
        "each level needs a policy of its own, got {0: Plain(), 1: Plain()}",
    ),
    "priority: a bad ageing": (lambda: Priority(ageing=-1), "ageing must be a finite number >= 0, got -1"),
    "priority: no arrival": (
        lambda: Priority(ageing=5).put(TIMELESS),
        "arrival is needed for ageing, got None in Request('a', 1)",
    ),
    "nested: a branch that needs the time": (
        lambda: Nested({}, lambda branch: AccumulatingPriority({0: 1})).put(A),
        "branch 'a' orders by time: say needs_now=True to Nested",
    ),
    "nested: a bad weight": (
        lambda: Nested({}, lambda branch: VTC(), {"org": 0}),
        "weight of 'org' must be a finite number > 0, got 0",
    ),
    "nested: a bad weight, set": (
        lambda: opened("a").set_branch_weight("org", -1),
        "weight of 'org' must be a finite number > 0, got -1",
    ),
    "nested: a tenant's bad weight": (
        lambda: opened().set_weight("a", 0),
        "weight of 'a' must be a finite number > 0, got 0",
    ),
    "nested: no tenant": (
        lambda: opened().set_weight("", 1),
        "the tenant of a weight must be a non-empty string, got ''",
    ),
    "levels: no tenant": (
        lambda: Levels({0: VTC()}).set_weight("", 1),
        "the tenant of a weight must be a non-empty string, got ''",
    ),
    "caps: no tenant": (
        lambda: KeyCaps(VTC()).set_weight("", 1),
        "the tenant of a weight must be a non-empty string, got ''",
    ),
    "VTC: no tenant": (
        lambda: VTC().set_weight("", 1),
        "the tenant of a weight must be a non-empty string, got ''",
    ),
    "VTC: no tenant at the start": (
        lambda: VTC({"": 1}),
        "the tenant of a weight must be a non-empty string, got ''",
    ),
    "VTC: a bad weight": (lambda: VTC({"a": 0}), "weight of 'a' must be a finite number > 0, got 0"),
    "VTC: a bad weight, set": (
        lambda: VTC().set_weight("a", 0),
        "weight of 'a' must be a finite number > 0, got 0",
    ),
    "DRR: a bad quantum": (lambda: DRR(0), "quantum must be a finite number > 0, got 0"),
    "DRR: a bad weight": (
        lambda: DRR(1, {"a": -1}),
        "weight of 'a' must be a finite number > 0, got -1",
    ),
    "DRR: a bad weight, set": (
        lambda: DRR(1).set_weight("a", -1),
        "weight of 'a' must be a finite number > 0, got -1",
    ),
    "DRR: a gain that no float can hold": (
        lambda: DRR(1e300, {"a": 1e300}),
        "quantum·weight of 'a' must be a finite number > 0, got inf",
    ),
    "DRR: such a gain, set": (
        lambda: DRR(1e300).set_weight("a", 1e300),
        "quantum·weight of 'a' must be a finite number > 0, got inf",
    ),
    "caps: a bad limit": (
        lambda: KeyCaps(FIFO(), {"a": -1}),
        "cap of 'a' must be a whole number >= 0 or None, got -1",
    ),
    "caps: a bad default": (
        lambda: KeyCaps(FIFO(), default=1.5),
        "cap of 'default' must be a whole number >= 0 or None, got 1.5",
    ),
    "caps: a bad limit of a group": (
        lambda: KeyCaps(FIFO(), groups={"g": (["a"], True)}),
        "cap of 'g' must be a whole number >= 0 or None, got True",
    ),
    "caps: a bad limit, set": (
        lambda: KeyCaps(FIFO()).set_cap("a", -1),
        "cap of 'a' must be a whole number >= 0 or None, got -1",
    ),
    "caps: a bad limit of a group, set": (
        lambda: KeyCaps(FIFO(), groups={"g": (["a"], 1)}).set_group_cap("g", -1),
        "cap of 'g' must be a whole number >= 0 or None, got -1",
    ),
    "caps: no such group": (
        lambda: KeyCaps(FIFO(), groups={"h": (["a"], 1), "g": (["a"], 1)}).set_group_cap("x", 1),
        "no group 'x'; there are ['g', 'h']",
    ),
    "caps: a group's name": (
        lambda: KeyCaps(FIFO(), groups={"g": (["a"], 1)}).set_cap("g", 1),
        "'g' is a group of keys, not a key: change its cap with set_group_cap",
    ),
    "caps: no key": (
        lambda: KeyCaps(FIFO()).set_cap("", 1),
        "the key of a cap must be a non-empty string, got ''",
    ),
    "caps: no key in per_key": (
        lambda: KeyCaps(FIFO(), {"": 1}),
        "a key of per_key must be a non-empty string, got ''",
    ),
    "caps: no key in a group": (
        lambda: KeyCaps(FIFO(), groups={"g": ([""], 1)}),
        "a key of group 'g' must be a non-empty string, got ''",
    ),
    "caps: no name": (
        lambda: KeyCaps(FIFO(), groups={"": (["a"], 1)}),
        "the name of group '' must be a non-empty string, got ''",
    ),
    "caps in levels: no key": (
        lambda: Levels({0: KeyCaps(FIFO())}).set_cap("", 1),
        "the key of a cap must be a non-empty string, got ''",
    ),
    "caps: a policy that was used": (
        lambda: KeyCaps(used(Plain())),
        "KeyCaps wraps an unused policy, got a used Plain()",
    ),
    "soft caps: a policy that is elsewhere": (
        lambda: SoftCaps(inside()),
        "SoftCaps wraps a policy of its own, got Plain(), which is inside another already",
    ),
    "floors: no slots": (lambda: Floors(FIFO(), {}, slots=0), "slots must be a whole number >= 1, got 0"),
    "floors: half a slot": (
        lambda: Floors(FIFO(), {"f": (["a"], 0.5)}, slots=1),
        "floor of 'f' must be a whole number >= 0, got 0.5",
    ),
    "floors: a yes": (
        lambda: Floors(FIFO(), {"f": (["a"], True)}, slots=1),
        "floor of 'f' must be a whole number >= 0, got True",
    ),
    "floors: no key": (
        lambda: Floors(FIFO(), {"f": ([""], 1)}, slots=1),
        "a key of floor 'f' must be a non-empty string, got ''",
    ),
    "floors: more than there is": (
        lambda: Floors(FIFO(), {"f": (["a"], 2), "g": (["b"], 1)}, slots=2),
        "floors promise 3 slots, but there are slots=2",
    ),
    "floors: more than there is, set": (
        lambda: Floors(FIFO(), {"f": (["a"], 2), "g": (["b"], 1)}, slots=3).set_floor("g", 2),
        "floors promise 4 slots, but there are slots=3",
    ),
    "floors: no such floor": (
        lambda: Floors(FIFO(), {"g": (["a"], 0), "f": (["b"], 0)}, slots=1).set_floor("x", 1),
        "no floor for 'x'; there are ['f', 'g']",
    ),
    "floors: a bad number, set": (
        lambda: Floors(FIFO(), {"f": (["a"], 0)}, slots=1).set_floor("f", -1),
        "floor of 'f' must be a whole number >= 0, got -1",
    ),
}


def said(error, call):
    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


@pytest.mark.parametrize("name", TYPE_ERRORS)
def test_type_errors(name):
    call, text = TYPE_ERRORS[name]
    assert said(TypeError, call) == text


@pytest.mark.parametrize("name", VALUE_ERRORS)
def test_value_errors(name):
    call, text = VALUE_ERRORS[name]
    assert said(ValueError, call) == text


@pytest.mark.parametrize("make", ANY.values(), ids=ANY)
def test_misuse_of_a_queue(make):
    queue = make()
    assert said(TypeError, lambda: queue.put("job")) == "a queue holds requests: put a Request, got 'job'"
    assert said(ValueError, lambda: queue.position(A)) == f"request does not wait here: {NEVER}"
    for verb, args in (("charge", (1,)), ("done", ()), ("done", (1,))):
        text = f"{verb} for a request that is not running here: {NEVER}"
        assert said(ValueError, lambda v=verb, a=args: getattr(queue, v)(A, *a)) == text
    queue.put(A)
    assert said(ValueError, lambda: queue.put(A)) == f"request was put twice: {NEVER}"
    assert queue.get(now=1) is A
    assert said(ValueError, lambda: queue.put(A)) == f"request was put twice: {NEVER}"
    for verb in ("charge", "done"):
        text = f"cost must be a finite number >= 0, got -1 for {NEVER}"
        assert said(ValueError, lambda v=verb: getattr(queue, v)(A, -1)) == text
    queue.done(A, Fraction(1, 2))
    assert said(ValueError, lambda: queue.done(A)) == f"done for a request that is not running here: {NEVER}"


def test_a_request_that_is_never_served_has_no_position():
    queue = KeyCaps(FIFO(), {"a": 0})
    queue.put(A)
    assert said(ValueError, lambda: queue.position(A)) == (
        f"request is never served under the present caps: {NEVER}"
    )
