"""A tenant that a cap holds back falls behind. That is nobody else's burden, and no fortune to come into."""

from __future__ import annotations

import random
from fractions import Fraction
from heapq import heappop, heappush
from itertools import count

import pytest

from fairq import DRR, SFQ, VTC, KeyCaps, Nested, Request
from fairq.prove.plain import PlainSFQ, PlainVTC

from .drive import serve

ids = count()

FAIR = {
    "VTC": VTC,
    "SFQ": SFQ,
    "DRR": lambda weights=None: DRR(1, weights),
}
fair = pytest.mark.parametrize("make", FAIR.values(), ids=FAIR)


def asks(tenant, n, at=0, key=None):
    return [Request(tenant, 1, key=key, arrival=at, service=1, id=next(ids)) for _ in range(n)]


def held(served, since, until):
    """Mean slots held per key between two times (every request takes a second)."""
    found = {}
    for start, _, request in served:
        if since <= start < until:
            found[request.key] = found.get(request.key, 0) + 1 / (until - since)
    return {key: round(slots, 2) for key, slots in sorted(found.items())}


@fair
def test_a_newcomer_does_not_start_as_far_behind_as_one_that_is_capped(make):
    """Four slots; slow has one at most, b the rest. At 1000 c comes: it shares the three with b at once."""
    requests = asks("slow", 1500) + asks("b", 5000) + asks("c", 1000, at=1000)
    served = serve(KeyCaps(make(), {"slow": 1}), requests, 4, until=1100)
    assert held(served, 0, 1000) == {"b": 3, "slow": 1}
    assert held(served, 1000, 1020) == pytest.approx({"b": 1.5, "c": 1.5, "slow": 1}, abs=0.1)


@fair
def test_a_newcomer_under_the_same_cap_starts_level_with_it(make):
    """Eight slots; a and b have two together, d the rest. At 1000 b comes, and shares with a at once."""
    requests = asks("a", 3000) + asks("d", 9000) + asks("b", 1000, at=1000)
    served = serve(KeyCaps(make(), groups={"g": (["a", "b"], 2)}), requests, 8, until=1100)
    assert held(served, 0, 1000) == {"a": 2, "d": 6}
    assert held(served, 1000, 1020) == pytest.approx({"a": 1, "b": 1, "d": 6}, abs=0.1)


@fair
@pytest.mark.parametrize("several", [False, True], ids=["a key each", "two keys each"])
def test_those_who_share_a_cap_keep_their_weights_however_long_it_binds(make, several):
    """a and b, weights 3:1, share two of eight slots for 900 s, while d goes three times as fast."""
    requests = asks("d", 6000)
    keys = [name + more for name in "ab" for more in (("", "2") if several else ("",))]
    for _ in range(1500):
        for key in keys:
            requests += asks(key[0], 1, key=key)
    served = serve(KeyCaps(make({"a": 3}), groups={"g": (keys, 2)}), requests, 8, until=900)
    for since in (0, 300, 600):
        got = held(served, since, since + 300)
        assert sum(slots for key, slots in got.items() if key[0] == "a") == pytest.approx(1.5, abs=0.02)
        assert sum(slots for key, slots in got.items() if key[0] == "b") == pytest.approx(0.5, abs=0.02)


def alone_after(policy, change, slots=4, at=1000):
    """Seconds for which "b" starts nothing after ``change(policy)`` at a time. Requests of one second."""
    running, started = [], []
    for now in range(at + 600):
        while running and running[0][0] == now:
            policy.done(heappop(running)[2])
        if now == at:
            change(policy)
        while len(running) < slots and (request := policy.get()) is not None:
            heappush(running, (now + 1, next(ids), request))
            if request.tenant == "b" and now >= at:
                started.append(now)
    return started[0] - at


@fair
def test_what_a_cap_denied_is_not_paid_back_when_it_is_lifted(make):
    policy = KeyCaps(make(), {"slow": 1})
    for request in asks("slow", 4000) + asks("b", 6000):
        policy.put(request)
    assert alone_after(policy, lambda p: p.set_cap("slow", None)) <= 2


@fair
def test_nor_on_another_key(make):
    """A tenant's batch key is capped at one slot for 1000 s; then it also comes with an uncapped one."""
    policy = KeyCaps(make(), {"batch": 1})
    for request in asks("slow", 4000, key="batch") + asks("b", 6000):
        policy.put(request)

    def chat(queue):
        for request in asks("slow", 3000, key="chat"):
            queue.put(request)

    assert alone_after(policy, chat) <= 3


def test_nor_to_a_branch():
    policy = Nested(lambda r: r.tenant, lambda name: KeyCaps(VTC(), {"slow": 1}) if name == "slow" else VTC())
    for request in asks("slow", 4000) + asks("b", 6000):
        policy.put(request)
    assert alone_after(policy, lambda p: p.set_cap("slow", None)) <= 2
    policy = Nested(lambda r: r.tenant, lambda name: KeyCaps(VTC(), {"slow": 1}) if name == "slow" else VTC())
    requests = asks("slow", 1500) + asks("b", 5000) + asks("c", 1000, at=1000)
    served = serve(policy, requests, 4, until=1100)
    assert held(served, 1000, 1020) == pytest.approx({"b": 1.5, "c": 1.5, "slow": 1}, abs=0.1)


def test_branches_that_share_a_cap_around_keep_their_weights():
    """Users are branches, weights 3:1; their batch keys share two of eight slots; d has the rest."""
    policy = Nested(lambda r: r.tenant, lambda user: VTC(), {"a": 3})
    requests = asks("d", 6000)
    for _ in range(1500):
        requests += asks("a", 1, key="a-batch") + asks("b", 1, key="b-batch")
    served = serve(KeyCaps(policy, groups={"batch": (["a-batch", "b-batch"], 2)}), requests, 8, until=900)
    for since in (0, 300, 600):
        assert held(served, since, since + 300) == pytest.approx(
            {"a-batch": 1.5, "b-batch": 0.5, "d": 6}, abs=0.02
        )


@pytest.mark.parametrize("make", [VTC, SFQ])
def test_nor_to_one_that_a_caller_refused(make):
    """A tenant that the caller's predicate kept out for long catches up with a few requests."""
    policy = make()
    for request in asks("out", 300) + asks("in", 2000):
        policy.put(request)
    for _ in range(1000):
        policy.done(policy.get(lambda key: key == "in"))
    first = [policy.get().tenant for _ in range(30)]
    assert first.index("in") <= 8
    assert 11 <= first.count("in") <= 15


@pytest.mark.parametrize("make", [VTC, SFQ])
def test_the_books_of_who_lags_stay_small(make):
    """Three hundred tenants behind one cap for 6,000 requests: stale entries are dropped in bulk."""
    policy = KeyCaps(make(), groups={"g": ([f"t{n}" for n in range(300)], 1)})
    for request in [r for n in range(300) for r in asks(f"t{n}", 12)] + asks("free", 4000):
        policy.put(request)
    for _ in range(3000):
        taken = [policy.get(), policy.get()]
        for request in taken:
            policy.done(request)
    lift = policy.inner._lift
    assert len(lift._abreast._entries) < 1000
    assert all(len(heap._entries) < 1000 for heap in lift._behind.values())


def test_what_may_be_saved_up_survives_a_change_of_units():
    """The largest request that was late cost 100: up to 8 of these and a bit may be saved up, then all but 4
    are forgiven. A weight of 7 set meanwhile makes the policy count in sevenths of a token.

    steady asks for 50 at a time: held, 150 behind, is served 100 and stands at 100. At 850 it is 750 behind:
    nothing is forgiven, and 1 more makes 101. At 950 it is 849 behind: forgiven up to 550, and 1 more is 551.
    """
    policy = VTC()
    queue = KeyCaps(policy, {"held": 0})
    for cost in (100, 1, 1):
        queue.put(Request("held", cost))
    for _ in range(25):
        queue.put(Request("steady", 50))

    def steady(times):
        for _ in range(times):
            assert queue.get().tenant == "steady"

    def held():
        queue.set_cap("held", None)
        assert queue.get().tenant == "held"
        queue.set_cap("held", 0)
        return queue.snapshot()["accounts"]["held"]["counter"]

    steady(3)
    assert held() == 100
    steady(14)
    policy.set_weight("sevenths", 7)
    assert held() == 101
    steady(2)
    assert held() == 551


@pytest.mark.parametrize("token", [1, Fraction(1, 32)])
@pytest.mark.parametrize(("behind", "then"), [(129, 16), (132, 132 - 4 * 16 + 16)])
def test_exactly_as_much_as_may_be_saved_up_is_kept(behind, then, token):
    """Of requests of 16, 8 and a sixteenth for the one that lags: 129. 129 behind, nothing is forgiven;
    further behind, all but 4. However little a token is.
    """
    queue = KeyCaps(VTC(), {"held": 0})
    for tenant, cost in (("held", 16), *4 * [("steady", Fraction(behind, 3))]):
        queue.put(Request(tenant, cost * token))
    assert [queue.get().tenant for _ in range(3)] == 3 * ["steady"]
    queue.set_cap("held", None)
    assert queue.get().tenant == "held"
    assert queue.snapshot()["accounts"]["held"]["counter"] == then * token


def test_branches_that_came_and_went_do_not_count_among_those_that_lag():
    """As above, with 129 behind, after two hundred others: these have left 200 on the books."""
    queue = KeyCaps(Nested({}, lambda branch: VTC()), {"held": 0})
    for n in range(200):
        queue.put(Request(f"t{n}", 1))
        assert queue.get().tenant == f"t{n}"
    for tenant, cost in (("held", 16), *4 * [("steady", 43)]):
        queue.put(Request(tenant, cost))
    assert [queue.get().tenant for _ in range(3)] == 3 * ["steady"]
    queue.set_cap("held", None)
    assert queue.get().tenant == "held"
    assert queue.snapshot()["branches"]["held"]["counter"] == 200 + 16


@pytest.mark.parametrize(("make", "make_plain"), [(VTC, PlainVTC), (SFQ, PlainSFQ)], ids=["VTC", "SFQ"])
@pytest.mark.parametrize("seed", range(8))
def test_however_long_a_cap_binds_the_order_is_that_of_the_plain_one(make, make_plain, seed):
    """Three tenants come and go behind one slot that is seldom free, while two go on: so those fall behind,
    are forgiven, leave and return, hundreds of times. When it is free more often, they catch up.
    """
    draw = random.Random(seed)
    weights = {tenant: draw.randint(1, 3) for tenant in "abcde"}
    policy, twin = KeyCaps(make(weights), groups={"g": (list("abc"), 1)}), make_plain(weights)
    twin.groups = [set("abc")]
    busy = None
    for step in range(1200):
        tenants = [t for t in "de" if not policy.waiting(t)]
        for tenant in tenants + draw.choices("abc", k=draw.random() < 0.15):
            request = Request(tenant, draw.randint(1, 6), arrival=step, id=step)
            policy.put(request)
            twin.put(request)
        given = policy.get()
        may_run = "de" if busy else "abcde"
        assert given is twin.get(may_run.__contains__), f"step {step}"
        if given.tenant in "de":
            policy.done(given)
            twin.ended(given)
        else:
            busy = given
        if busy is not None and draw.random() < (0.9 if step // 100 % 3 == 2 else 0.05):
            policy.done(busy)
            twin.ended(busy)
            busy = None
