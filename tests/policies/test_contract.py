"""The promises of every policy, bare and under caps, under random calls (hypothesis state machine).

The machine keeps its own books with plain lists: who waits, who runs, which keys may run. What a policy
answers is held against them after every call. A twin gets the same verbs but no question (``peek``,
``snapshot``, ``position``): equal answers of the two show that questions change nothing and that the same
calls give the same answers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from zlib import crc32

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fairq import Floors, KeyCaps, Policy, Request, SoftCaps

from .table import ROWS

TENANTS = ("a", "b", "c")
KEYS = {"a": ("a", "a2"), "b": ("b", "shared"), "c": ("c", "shared")}
ALL_KEYS = ("a", "a2", "b", "c", "shared")
# tenant, whether with its second key, cost, priority, how long ago it arrived (None: not said)
ASKED = st.tuples(
    st.sampled_from(TENANTS),
    st.booleans(),
    st.integers(1, 12),
    st.integers(0, 2),
    st.sampled_from([0, 0, 0, 1, 4, None]),
)


@dataclass(frozen=True)
class Shape:
    """How a policy is wrapped, and the same in plain data for the books."""

    wrap: Callable[[Policy], Policy] = lambda policy: policy
    caps: list[tuple[set[str], int]] = field(default_factory=list)  # keys, how many of them may run
    soft: bool = False  # the caps bind only while somebody within them may run
    floors: list[tuple[set[str], int]] = field(default_factory=list)  # keys, slots kept for them
    slots: int | None = None
    settable: bool = False  # set_cap has somebody to tell


SHAPES = {
    "bare": Shape(),
    "caps": Shape(
        lambda p: KeyCaps(
            p, per_key={"a": 2}, default=1, groups={"g": (["b", "c"], 1), "h": (["a2", "b"], 2)}
        ),
        [
            *[({key}, 2 if key == "a" else 1) for key in ALL_KEYS],
            ({"b", "c"}, 1),
            ({"a2", "b"}, 2),
        ],
        settable=True,
    ),
    "nested caps": Shape(
        lambda p: KeyCaps(
            KeyCaps(p, default=2), per_key={"a": 1}, groups={"org": (["a", "a2", "shared"], 3)}
        ),
        [*[({key}, 2) for key in ALL_KEYS], ({"a"}, 1), ({"a", "a2", "shared"}, 3)],
        settable=True,
    ),
    "soft caps": Shape(
        lambda p: SoftCaps(p, per_key={"a": 1, "shared": 0}, groups={"g": (["b", "c"], 2)}),
        [({"a"}, 1), ({"shared"}, 0), ({"b", "c"}, 2)],
        soft=True,
        settable=True,
    ),
    "floors": Shape(
        lambda p: Floors(p, {"f": (["a", "shared"], 2), "g": (["b"], 1)}, slots=5),
        floors=[({"a", "shared"}, 2), ({"b"}, 1)],
        slots=5,
    ),
}


class Contract(RuleBasedStateMachine):
    row = None
    shape = None
    steps = 0

    def __init__(self):
        super().__init__()
        self.form = SHAPES[self.shape]
        self.caps = [[set(keys), limit] for keys, limit in self.form.caps]
        self.asked, self.twin = (self.form.wrap(self.row.make({"b": 2})) for _ in range(2))
        self.waiting, self.running, self.gone = [], [], []  # waiting: (effective arrival, order, request)
        self.clock, self.latest, self.count, self.cancelled = 0, float("-inf"), 0, 0

    # -- the books ---------------------------------------------------------------------------------

    def within_caps(self, key):
        runs = [request.key for request in self.running]
        return all(
            limit is None or key not in keys or sum(k in keys for k in runs) < limit
            for keys, limit in self.caps
        )

    def has_slot(self, key):
        runs = [request.key for request in self.running]
        if self.form.slots is None:
            return True
        kept = [max(0, n - sum(k in keys for k in runs)) for keys, n in self.form.floors if key not in keys]
        return self.form.slots - len(runs) > sum(kept)

    def check_choice(self, request, accepted):
        can = [
            entry
            for entry in self.waiting
            if (accepted is None or entry[2].key in accepted) and self.has_slot(entry[2].key)
        ]
        within = [entry for entry in can if self.within_caps(entry[2].key)]
        if within or not self.form.soft:
            can = within
        if not can:
            assert request is None
            return
        assert request is not None, "idle while something eligible waits"
        assert any(entry[2] is request for entry in can)
        mine = next(entry for entry in can if entry[2] is request)
        peers = [
            entry
            for entry in can
            if entry[2].tenant == request.tenant
            and (self.row.earliest or entry[2].key == request.key)
            and self.row.rank(entry[2]) == self.row.rank(request)
        ]
        assert min(peers, key=lambda entry: entry[:2]) is mine

    def both(self, verb, *args, **kwargs):
        first = getattr(self.asked, verb)(*args, **kwargs)
        assert getattr(self.twin, verb)(*args, **kwargs) is first
        return first

    def refuses(self, error, verb, *args, names=()):
        for policy in (self.asked, self.twin):
            with pytest.raises(error) as raised:
                getattr(policy, verb)(*args)
            for name in names:
                assert name in str(raised.value)

    def when(self):
        return self.clock if self.asked.needs_now else None

    # -- verbs -------------------------------------------------------------------------------------

    @initialize(asked=st.lists(ASKED, min_size=3, max_size=9))
    def some_wait(self, asked):
        for each in asked:
            self.put_one(*each)

    @rule(asked=ASKED)
    def put(self, asked):
        self.put_one(*asked)

    def put_one(self, tenant, second, cost, priority, late):
        arrival = self.clock if late is None and self.row.needs_arrival else late
        if late is not None:
            arrival = self.clock - late
        request = Request(
            tenant, cost, arrival=arrival, priority=priority, key=KEYS[tenant][second], id=self.count
        )
        self.both("put", request)
        effective = self.latest if arrival is None else arrival
        self.latest = max(self.latest, effective)
        self.waiting.append((effective, self.count, request))
        self.count += 1

    @rule(accepted=st.one_of(st.none(), st.sets(st.sampled_from(ALL_KEYS))))
    def get(self, accepted):
        eligible = None if accepted is None else accepted.__contains__
        seen = self.asked.peek(eligible, now=self.when())
        assert self.asked.peek(eligible, now=self.when()) is seen
        request = self.both("get", eligible, now=self.when())
        assert request is seen
        self.check_choice(request, accepted)
        if request is not None:
            self.waiting = [entry for entry in self.waiting if entry[2] is not request]
            self.running.append(request)

    @rule(passed=st.integers(1, 3))
    def time_passes(self, passed):
        self.clock += passed

    @precondition(lambda self: self.running)
    @rule(data=st.data(), cost=st.integers(0, 40))
    def charge(self, data, cost):
        request = data.draw(st.sampled_from(self.running))
        self.both("charge", request, cost)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), cost=st.one_of(st.none(), st.integers(0, 40)))
    def done(self, data, cost):
        request = data.draw(st.sampled_from(self.running))
        self.both("done", request, cost)
        self.running.remove(request)
        self.gone.append(request)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data):
        request = data.draw(st.sampled_from(self.waiting))[2]
        assert self.both("cancel", request) is True
        self.cancelled += 1
        assert self.both("cancel", request) is False
        self.waiting = [entry for entry in self.waiting if entry[2] is not request]

    @rule(tenant=st.sampled_from(TENANTS), weight=st.integers(1, 4))
    def set_weight(self, tenant, weight):
        if self.row.weights:
            self.both("set_weight", tenant, weight)
            self.refuses(ValueError, "set_weight", tenant, -weight, names=("weight", tenant, str(-weight)))
        else:
            self.refuses(TypeError, "set_weight", tenant, weight, names=(tenant,))

    @rule(key=st.sampled_from(ALL_KEYS), limit=st.one_of(st.none(), st.integers(0, 3)))
    def set_cap(self, key, limit):
        if not self.form.settable:
            self.refuses(TypeError, "set_cap", key, limit, names=(key,))
            return
        self.both("set_cap", key, limit)
        self.refuses(ValueError, "set_cap", key, -1, names=("cap", key, "-1"))
        own = [cap for cap in self.caps if cap[0] == {key}]
        if self.shape == "nested caps":  # the outer wrapper is the one that is spoken to
            own = own[1:]
        if own:
            own[0][1] = limit
        else:
            self.caps.append([{key}, limit])

    # -- misuse ------------------------------------------------------------------------------------

    @rule(data=st.data())
    def misuse(self, data):
        stranger = Request("a", 7, arrival=0, id="stranger")
        for verb, args in (("done", ()), ("charge", (1,))):
            self.refuses(ValueError, verb, stranger, *args, names=(verb, "stranger"))
        assert self.both("cancel", stranger) is False
        if self.waiting:
            request = data.draw(st.sampled_from(self.waiting))[2]
            self.refuses(ValueError, "put", request, names=("twice", repr(request)))
            self.refuses(ValueError, "done", request, names=(repr(request),))
        if self.running:
            request = data.draw(st.sampled_from(self.running))
            self.refuses(ValueError, "put", request, names=("twice", repr(request)))
            self.refuses(ValueError, "charge", request, -1, names=("cost", "-1", repr(request)))
            self.refuses(ValueError, "done", request, float("nan"), names=("cost", "nan", repr(request)))
            assert self.both("cancel", request) is False
        if self.gone:
            request = data.draw(st.sampled_from(self.gone))
            self.refuses(ValueError, "done", request, names=("done", repr(request)))
        if self.row.needs_arrival:
            self.refuses(ValueError, "put", Request("a", 1, id="timeless"), names=("arrival", "timeless"))
        if self.asked.needs_now:
            for verb in ("get", "peek"):
                self.refuses(ValueError, verb, names=("now",))

    # -- what holds at every moment ----------------------------------------------------------------

    @invariant()
    def counts(self):
        type(self).steps += 1
        policy = self.asked
        assert len(policy) == len(self.waiting)
        assert policy.running == len(self.running)
        assert bool(policy)
        assert policy.used == bool(self.count)
        assert policy.cancelled == self.cancelled
        for tenant in TENANTS:
            assert policy.waiting(tenant) == sum(e[2].tenant == tenant for e in self.waiting)

    @rule()
    def snapshot_tells_who_waits(self):
        view = self.asked.snapshot(now=self.when())
        shown = {tenant: [line["id"] for line in lines] for tenant, lines in view["lines"].items()}
        wanted = {}
        for _, _, request in self.waiting:
            wanted.setdefault(request.tenant, []).append(request.id)
        assert shown == wanted
        assert sorted(r["id"] for r in view["running"]) == sorted(r.id for r in self.running)
        chosen = self.asked.peek(now=self.when())
        assert (view["next"] and view["next"]["id"]) == (chosen and chosen.id)
        assert isinstance(view["why"], str)
        assert view["why"]

    def teardown(self):
        """Drain it: positions told beforehand are the order of service, and nobody is lost."""
        now = self.when()
        never = object()

        def told(request):
            try:
                return self.asked.position(request, now=now)
            except ValueError:
                return never  # a cap of 0

        positions = {entry[2]: told(entry[2]) for entry in self.waiting}
        for policy in (copy.deepcopy(self.asked), self.asked, self.twin):
            left, running, order = [e[2] for e in self.waiting], list(self.running), []
            while True:
                request = policy.get(now=now)
                if request is not None:
                    left.remove(request)
                    order.append(request)
                    policy.done(request)
                elif running:
                    while running:
                        policy.done(running.pop(0))
                else:
                    break
            assert {r: order.index(r) for r in order} == {
                r: place for r, place in positions.items() if place is not never
            }
            shut = [keys for keys, limit in self.caps if limit == 0 and not self.form.soft]
            assert all(any(request.key in keys for keys in shut) for request in left)
            assert len(policy) == len(left)
            assert policy.running == 0


# No health checks: on a busy machine they would test the machine.
FAST = settings(
    max_examples=8,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(
    max_examples=30,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
CASES = [pytest.param(name, shape, id=f"{name}, {shape}") for name in ROWS for shape in SHAPES]


def walk(name, shape, profile):
    """Run the machine for one policy in one shape; returns how many steps it took."""
    machine = type("Contract", (Contract,), {"row": ROWS[name], "shape": shape, "steps": 0})
    seed(crc32(f"{name}, {shape}".encode()))(machine)  # else all cases would walk the same few walks
    run_state_machine_as_test(machine, settings=profile)
    return machine.steps


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_contract(name, shape):
    assert walk(name, shape, FAST) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape"), CASES)
def test_contract_at_length(name, shape):
    """Every policy in every shape takes its part of the 100,000 steps; all rows together far more."""
    assert walk(name, shape, LONG) >= 100_000 // len(CASES)
