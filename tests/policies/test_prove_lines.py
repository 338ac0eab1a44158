"""Lines of ``fairq prove`` that hold, and that a broken policy, or a claim that is not so, makes fail."""

from __future__ import annotations

import pytest

from fairq import DRR, FIFO, SFQ, VTC, Floors, KeyCaps, Levels, Nested, Priority, Request, SoftCaps
from fairq.counterexamples import RoundRobin
from fairq.prove import agree, calls, caps, nests, price


def holds(lines):
    return [line.holds for line in lines]


# -- shares under caps --------------------------------------------------------------------------------

WEIGHTS = {"a": 4, "b": 2, "c": 1}


@pytest.mark.parametrize(
    ("make", "team"),
    [(lambda w: RoundRobin(), False), (lambda w: SFQ({}), True)],
    ids=["turns", "no weights"],
)
def test_start_tags_that_lose_the_weights_fail_the_shares_under_caps(make, team, monkeypatch):
    place = [name for name, _ in caps.INNER].index("SFQ")
    assert all(line.holds for line in caps.setting_lines(place, until=750, seeds=range(1)))
    monkeypatch.setattr(caps, "INNER", [*caps.INNER[:place], ("SFQ", make)])
    lines = caps.setting_lines(place, until=750, seeds=range(1))
    # Where those who compete under a cap have equal weights it stays right; turns, by request, do not.
    assert holds(lines) == [False, False, False, True, team, False]


def test_the_textbook_ring_by_hand():
    """4 slots, cap 2: a's visit is worth 16, b's 8, c's 4; two of each leave a second."""
    ring = caps.TextbookRing(4, WEIGHTS, dict.fromkeys("abc", 2))
    for tenant in "abc" * 40:
        ring.put(Request(tenant, 1))
    seconds = []
    for _ in range(20):
        running = [ring.get() for _ in range(4)]
        seconds.append("".join(sorted({r.tenant for r in running})))
        for request in running:
            ring.done(request)
    assert seconds == (["ab"] * 4 + ["ac"] * 2 + ["ab"] * 2 + ["bc"] * 2) * 2


def test_the_textbook_ring_is_a_ring_where_no_cap_binds():
    """Unlimited, it serves as fairq's own DRR does: what fails is the cap around it, not the ring."""
    ring, ours = caps.TextbookRing(3, WEIGHTS, dict.fromkeys("abc", 99)), DRR(3, WEIGHTS)
    for n in range(90):
        request = Request("abc"[n % 3], 1 + n % 7)
        ring.put(request)
        ours.put(request)
    for _ in range(90):
        request = ring.get()
        assert request is ours.get()
        ring.done(request)
    assert ring.get() is None


def test_a_ring_that_keeps_the_weights_is_not_shown_as_one_that_fails(monkeypatch):
    assert holds(caps.textbook_lines(until=300)) == [True]

    def sound(quantum, weights, limits):
        return KeyCaps(DRR(quantum, weights), per_key=limits)

    def unweighted(quantum, weights, limits):
        return KeyCaps(FIFO(), per_key=limits)

    for other in (sound, unweighted):  # the second is off as well, but not as is written
        monkeypatch.setattr(caps, "TextbookRing", other)
        assert holds(caps.textbook_lines(until=300)) == [False]


def test_a_drift_that_is_not_there_is_not_shown(monkeypatch):
    drift = {quantum: caps.drift(quantum, until=400) for quantum in caps.SMALL}
    assert drift[0.5] < drift[0.2] < drift[0.05]
    assert caps.drift(caps.LARGEST, until=400) < 0.02
    assert holds(caps.drift_lines()) == [True]
    with monkeypatch.context() as patch:
        patch.setattr(caps, "DRR", lambda quantum, weights: VTC(weights))
        assert holds(caps.drift_lines()) == [False]
    monkeypatch.setattr(caps, "VTC", lambda weights: DRR(0.2, weights))
    assert holds(caps.drift_lines()) == [False]


@pytest.mark.parametrize(
    ("name", "other"),
    [("VTC", lambda w: DRR(caps.LARGEST, w)), ("SFQ", lambda w: DRR(caps.LARGEST, w)), ("DRR", VTC)],
)
def test_a_share_that_is_not_lost_as_said_is_not_shown(name, other, monkeypatch):
    assert holds(caps.lost_lines(until=200)) == [True]
    monkeypatch.setattr(caps, "INNER", [(n, other if n == name else make) for n, make in caps.INNER])
    assert holds(caps.lost_lines(until=200)) == [False]


def test_several_caps_bind_in_the_setting_that_counters_are_spared():
    """By hand: of 11 slots five may hold 9, at weights 5, 4, 3, 2, 1; t0 is held to 2 and t4 to 1 of them,
    and the other 6 go 4:2:1."""
    setting = caps.random_setting(caps.SEVERAL_BIND)
    assert setting.wanted() == pytest.approx(
        {"t0": 2, "t1": 1, "t2": 6 * 4 / 7, "t3": 6 / 7, "t4": 1, "t5": 6 * 2 / 7}
    )


def test_a_line_says_what_was_left_out_and_names_a_quantum_where_there_is_one():
    for place, (name, _) in enumerate(caps.INNER):
        (line,) = caps.random_lines(place, until=20)
        assert ("without the one where several caps bind" in line.how) == (name != "DRR")
        assert line.how.startswith(f"slots held{', quantum' if name == 'DRR' else '; 6 random'}")


# -- fifty keys, floors, soft caps ----------------------------------------------------------------------


def test_fifty_keys_by_the_wrong_count_fail(monkeypatch):
    """What is fair to keys is not fair to tenants, and the other way round."""
    monkeypatch.setattr(price, "BY_KEY", [("VTC", VTC)])
    monkeypatch.setattr(price, "BY_TENANT", [("FIFO", lambda: KeyCaps(FIFO(), default=2))])
    assert holds(price.key_lines()) == [False] * 4


def test_a_group_cap_is_not_the_share_of_a_tenant_either():
    """Fifty keys under one cap of 2: a quarter of the slots, whoever else waits."""
    keys = [key for key in price.KEYS if price.tenant_of(key) == "noisy"]
    assert price.of_the_slots(lambda: KeyCaps(FIFO(), groups={"g": (keys, 2)}), "unit") == 0.25


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (price.KEPT, [True, True]),
        (price.CAPPED, [True, True]),
        (price.LENT, [False, False]),
        (price.CHAT_FIRST, [False, False]),
        (lambda: Floors(FIFO(), {"chat": (["chat"], 1)}, slots=4), [False, False]),  # one slot short
        (lambda: KeyCaps(FIFO(), {"batch": 1}), [True, False]),  # keeps more than was said
    ],
    ids=["floors", "hard cap", "soft cap", "priority", "a floor of one", "a cap of one"],
)
def test_slots_that_are_kept_and_slots_that_are_not(make, wanted):
    assert holds(price.kept_lines("it", make, asks=500)) == wanted


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (price.LENT, [True, True]),
        (price.CHAT_FIRST, [True, True]),
        (price.KEPT, [False, False]),
        (price.CAPPED, [False, False]),
        (lambda: Priority(ageing=20), [False, False]),  # batch that waits long goes before chat
        (lambda: SoftCaps(FIFO(), {"batch": 4}), [False, False]),
    ],
    ids=["soft cap", "priority", "floors", "hard cap", "ageing", "a cap that never binds"],
)
def test_slots_that_are_lent_and_slots_that_idle(make, wanted):
    assert holds(price.lent_lines("it", make)) == wanted


def test_an_interval_that_is_too_wide_fails():
    assert holds(price.lent_lines("a soft cap", price.LENT, asks=2_000)) == [True, False]


# -- levels and nests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (nests.nest_of_drr, [True, True, True]),
        (nests.FLAT, [False, False, True]),  # all users alike, whoever they belong to
        (lambda of, branches, users: Nested(of, lambda b: FIFO(), branches), [True, True, False]),
        (lambda of, branches, users: Nested(of, lambda b: DRR(10, users)), [False, False, True]),
        (lambda of, branches, users: Nested(of, lambda b: DRR(40, users), branches), [True, True, False]),
        (lambda of, branches, users: ByTurns(of, lambda b: DRR(10, users), branches), [True, False, True]),
    ],
    ids=["as said", "flat", "first come", "no weights", "a larger quantum", "charged by request"],
)
def test_nests_that_share_otherwise_fail(make, wanted, monkeypatch):
    monkeypatch.setattr(nests, "NESTS", [("it", make, nests.QUANTUM, "<")])
    assert holds(nests.nest_lines()) == [*wanted, True, True]


def test_nests_that_were_not_compared_prove_nothing(monkeypatch):
    monkeypatch.setattr(nests, "NESTS", nests.NESTS[:1])
    assert holds(nests.nest_lines(seeds=range(0))) == [True, False, False, True, True]


class ByTurns(Nested):
    """Branches are charged 30 a request, whatever it costs: shares of requests, not of tokens."""

    def _leave(self, request, gate):
        branch = self._branch_of[self._home[request]]
        before = branch.counter
        super()._leave(request, gate)
        branch.counter = before + self._units.of(30, self.weight(branch.name))
        if branch.waiting:
            self._place(branch)


def test_many_users_that_gain_and_a_flat_queue_that_would_not_fail(monkeypatch):
    monkeypatch.setattr(nests, "NESTS", [])
    monkeypatch.setattr(nests, "nest_of_vtc", nests.FLAT)
    assert holds(nests.nest_lines()) == [False, True]
    monkeypatch.undo()
    monkeypatch.setattr(nests, "NESTS", [])
    monkeypatch.setattr(nests, "FLAT", nests.nest_of_vtc)
    assert holds(nests.nest_lines()) == [True, False]


def test_levels_in_another_order_fail(monkeypatch):
    assert nests.passed_over(nests.strict_levels, None, 40)[0] == 0
    for other in (FIFO, nests.aged_fifo_levels):
        assert nests.passed_over(other, None, 40)[0] > 0
    assert nests.passed_over(nests.aged_fifo_levels, nests.AGEING, 40)[0] == 0
    for other in (FIFO, nests.strict_levels, lambda: Levels({n: FIFO() for n in range(3)}, ageing=4)):
        assert nests.passed_over(other, nests.AGEING, 40)[0] > 0
    # Levels in the right order, and shares within them that are not: only these fail.
    monkeypatch.setattr(nests, "strict_levels", lambda w=None: Levels({n: FIFO() for n in range(3)}))
    monkeypatch.setattr(nests, "aged_levels", lambda w: Levels({0: DRR(10, w), 1: RoundRobin()}, ageing=60))
    assert holds(nests.level_lines()) == [True, True, False, False]
    monkeypatch.setattr(nests, "aged_fifo_levels", lambda: Priority(ageing=None))
    assert holds(nests.level_lines()) == [True, False, False, False]


# -- limits that change live ----------------------------------------------------------------------------


class Rests(FIFO):
    """Leaves the last one waiting for company."""

    def get(self, eligible=None, now=None):
        return super().get(eligible, now) if len(self) > 1 else None


class Loses(FIFO):
    """Forgets one in ten that it hands out to nobody."""

    def get(self, eligible=None, now=None):
        request = super().get(eligible, now)
        return super().get(eligible, now) if request is not None and request.id % 10 == 7 else request


class Ghosts(FIFO):
    """A request that was cancelled is served all the same."""

    def cancel(self, request):
        return request in self._waiting


class Deaf(KeyCaps):
    """Keeps the limits it was made with."""

    def set_cap(self, key, limit):
        pass


class Loose(KeyCaps):
    """A new limit counts from one: what runs is not held against it."""

    def set_cap(self, key, limit):
        super().set_cap(key, limit)
        if limit:
            self._cap(key).limit = limit + self._cap(key).running


class Drops(KeyCaps):
    """Whoever waits on a key whose limit changes is sent home."""

    def set_cap(self, key, limit):
        for request in [request for request in self._waiting if request.key == key]:
            self.cancel(request)
        super().set_cap(key, limit)


class LendsFirst(SoftCaps):
    """Lends before it asks who is within a cap."""

    def get(self, eligible=None, now=None):
        self.lending = True
        try:
            return KeyCaps.get(self, eligible, now)
        finally:
            self.lending = False


class DeafFloors(Floors):
    """Keeps the slots it was told to keep at first."""

    def set_floor(self, name, slots):
        pass


def live(monkeypatch, name, inner=FIFO, **wrapper):
    """Which of the three lines hold: no slot idles, nobody runs who may not, nobody is lost."""
    monkeypatch.setattr(calls, "POLICIES", {"it": lambda case: inner()})
    for cls, other in wrapper.items():
        monkeypatch.setattr(calls, cls, other)
    return holds(calls.live_limit_lines(name, seeds=range(60)))


@pytest.mark.parametrize("name", calls.WRAPS)
def test_live_limits(name, monkeypatch):
    assert live(monkeypatch, name) == [True] * 3
    assert live(monkeypatch, name, Rests) == [False, True, False]  # the last one never gets out
    assert live(monkeypatch, name, Loses)[2] is False
    assert live(monkeypatch, name, Ghosts)[2] is False


@pytest.mark.parametrize(
    ("name", "cls", "broken", "wanted"),
    [
        # Who is held back to the end counts as lost, and a slot idles for whoever was dropped.
        ("caps", "KeyCaps", Deaf, [False, False, False]),
        ("caps", "KeyCaps", Loose, [True, False, True]),
        ("caps", "KeyCaps", Drops, [False, True, False]),
        ("soft caps", "SoftCaps", KeyCaps, [False, True, True]),
        ("soft caps", "SoftCaps", LendsFirst, [True, False, True]),
        ("floors", "Floors", DeafFloors, [False, False, False]),
        ("floors around caps around soft caps", "SoftCaps", LendsFirst, [True, False, True]),
    ],
)
def test_limits_that_are_not_kept_fail(name, cls, broken, wanted, monkeypatch):
    assert live(monkeypatch, name, **{cls: broken}) == wanted


def test_nothing_looked_at_is_nothing_proved(monkeypatch):
    monkeypatch.setattr(calls, "POLICIES", {})
    lines = calls.live_limit_lines("caps")
    assert holds(lines) == [False] * 3
    assert {(line.measured.split()[0], line.bound) for line in lines} == {("0", "0; > 1,000 calls")}


def test_an_order_that_differs_once_limits_change_fails(monkeypatch):
    assert holds(agree.call_lines("VTC", sequences=40)) == [True]
    for broken in (Deaf, Loose, Drops):
        with monkeypatch.context() as patch:
            patch.setattr(agree, "KeyCaps", broken)
            assert holds(agree.call_lines("VTC", sequences=40)) == [False]
    monkeypatch.setattr(agree, "UNDER_CAPS", [])
    monkeypatch.setattr(agree, "KeyCaps", Deaf)
    assert holds(agree.call_lines("VTC", sequences=40)) == [True]  # it was the caps
