"""A pool of members against a plain table of their ranks: the least of those that may run is first."""

from __future__ import annotations

import random

import pytest

from fairq.policies.lines import Line, Member, Pool, gate_of


class Lock:
    """A hold."""

    def __init__(self):
        self.closed = False


class Item(Member):
    """A member that one hold, its own, or its cover can keep back."""

    def __init__(self, cover, own):
        super().__init__(cover)
        self.own = own

    def rank(self, gate):
        return self.entry[0] if gate is None or gate.blocker(self) is None else None

    def holds(self, gate):
        return [gate.blocker(self)]


class Gate:
    def blocker(self, item):
        return next((hold for hold in (*item.cover, item.own) if hold.closed), None)


@pytest.mark.parametrize("covered", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_the_first_is_the_least_that_may_run(seed, covered):
    draw = random.Random(seed)
    holds = [Lock() for _ in range(5)]
    items = [Item((holds[n % 2],) if covered and n % 3 else (), holds[2 + n % 3]) for n in range(8)]
    pool, gate, ranks = Pool(), Gate(), {}
    for step in range(1500):
        item, chance = draw.choice(items), draw.random()
        if chance < 0.6:
            ranks[item] = (draw.randrange(1000), step)
            pool.place(item, ranks[item])
        elif chance < 0.75:
            if item in ranks:
                pool.remove(item)
                del ranks[item]
        elif chance < 0.85:
            hold = draw.choice(holds)
            hold.closed = not hold.closed
        elif chance < 0.95:
            free = [item for item in ranks if gate.blocker(item) is None]
            assert pool.best(gate) is min(free, key=ranks.get, default=None)
        else:
            assert pool.best(None) is min(ranks, key=ranks.get, default=None)
            assert pool.least() == min(ranks.values(), default=None)


def test_a_pool_in_which_ranks_change_often_stays_small():
    """Ten members that move to and fro 10 000 times: what they left behind is thrown away."""
    draw, pool = random.Random(1), Pool()
    items = [Item((), Lock()) for _ in range(10)]
    ranks = {}
    for step in range(10_000):
        item = draw.choice(items)
        ranks[item] = (draw.randrange(1000), step)
        pool.place(item, ranks[item])
    assert len(pool.ready) < 200
    while ranks:
        first = pool.best(None)
        assert first is min(ranks, key=ranks.get)
        pool.remove(first)
        del ranks[first]


def test_a_line_forgets_those_that_gave_up_behind_its_head():
    """Of a thousand 990 give up, from the back: the head and its like are all that is kept."""
    entries = [(0, n, f"request {n}") for n in range(1000)]
    waiting = {entry[-1]: entry for entry in entries}
    line = Line("key", waiting, ())
    for entry in entries:
        line.push(entry)
    for entry in reversed(entries[10:]):
        del waiting[entry[-1]]
        line.ghost()
    assert len(line.queue) < 25
    served = []
    while line.queue:
        served.append(line.queue[0][-1])
        line.pop()
    assert served == [f"request {n}" for n in range(10)]


def test_a_gate_is_handed_on_and_a_predicate_is_asked_once():
    gate = Gate()
    assert gate_of(gate) is gate
    assert gate_of(None) is None
    asked = []
    made = gate_of(asked.append)  # answers None: no
    assert not made("a")
    assert made.blocker("a").closed
    assert asked == ["a"]
