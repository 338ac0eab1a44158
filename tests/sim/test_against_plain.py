"""Random workloads with exact times: same schedule and same calls as a plain gateway that skips nothing."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairq import DRR, FIFO, KeyCaps, Priority, Request
from fairq.sim import Clock, SlotEngine
from fairq.sim.clients import Clients
from fairq.sim.gateway import serve

from .plain import Recorder, plain_run

POLICIES = {
    "fifo": FIFO,
    "priority": lambda: Priority(ageing=3),
    "drr": lambda: DRR(quantum=2, weights={"a": 2}),
    "caps": lambda: KeyCaps(FIFO(), default=2, groups={"g": (["a", "b/1"], 1)}),
    "caps round drr": lambda: KeyCaps(DRR(quantum=3), per_key={"a": 1, "c": 0}),
}
TENANTS = {"a": ["a"], "b": ["b/1", "b/2"], "c": ["c"]}


@st.composite
def workloads(draw, unit=1):
    requests = []
    for n in range(draw(st.integers(0, 25))):
        tenant = draw(st.sampled_from("abc"))
        requests.append(
            Request(
                tenant,
                draw(st.integers(1, 5)),
                id=n,
                key=draw(st.sampled_from(TENANTS[tenant])),
                priority=draw(st.integers(0, 2)),
                arrival=draw(st.integers(0, 15)) * unit,
                service=draw(st.integers(0, 4)) * unit,
            )
        )
    return requests


def run(requests, policy, slots, **more):
    until = more.pop("until", None)
    clients = Clients(more.get("loops", ()), more.get("patience"), more.get("limit")) if more else None
    ordered = sorted(requests, key=lambda r: r.arrival)
    rows = serve(Clock(), policy, SlotEngine(slots), ordered, clients, until)
    finishes = rows.finish
    served = {r.id: (s, f) for r, s, f in zip(rows.request, rows.start, finishes, strict=True)}
    return rows, served, {r.id: gone for r, gone in rows.left.items()}


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=60, deadline=None)
@given(requests=workloads(), slots=st.integers(1, 3))
def test_same_schedule_and_calls(policy, requests, slots):
    ours, plain = Recorder(POLICIES[policy]()), Recorder(POLICIES[policy]())
    rows, served, left = run(requests, ours, slots)
    assert (served, left) == plain_run(requests, plain, slots)
    assert [call[:2] for call in ours.calls] == [call[:2] for call in plain.calls]
    assert Counter(r.id for r in rows.arrived) == Counter(r.id for r in requests)
    for row, request in enumerate(rows.request):  # a slot holds one at a time
        for other in range(row):
            if rows.slot[other] == rows.slot[row]:
                assert served[rows.request[other].id][1] <= served[request.id][0]
    assert all(0 <= slot < slots for slot in rows.slot)


@settings(max_examples=60, deadline=None)
@given(
    policy=st.sampled_from(list(POLICIES)),
    requests=workloads(unit=Fraction(1, 3)),
    slots=st.integers(1, 3),
    patience=st.integers(0, 6),
    limit=st.none() | st.integers(0, 2),
    until=st.none() | st.integers(0, 12),
)
def test_impatience_and_full_lines(policy, requests, slots, patience, limit, until):
    ours, plain = Recorder(POLICIES[policy]()), Recorder(POLICIES[policy]())
    patience = Fraction(patience, 3)
    rows, served, left = run(requests, ours, slots, patience=patience, limit=limit, until=until)
    assert (served, left) == plain_run(requests, plain, slots, patience=patience, limit=limit, until=until)
    assert [call[:2] for call in ours.calls] == [call[:2] for call in plain.calls]
    came = [r for r in requests if until is None or r.arrival <= until]
    assert len(rows.arrived) == len(came)


class Loop:
    """Workers with a table of (think, service) each; they stop when it ends."""

    horizon_s = 10**9

    def __init__(self, table):
        self.table = table
        self.workers = len(table)

    def draw(self, worker, n):
        return self.step(worker, n)

    def step(self, worker, n):
        class Drawn:
            think_s = self.table[worker][n][0] if n < len(self.table[worker]) else self.horizon_s

        return Drawn

    def request(self, worker, n, arrival):
        tenant = "abc"[worker % 3]
        service = self.table[worker][n][1]
        return Request(tenant, 1 + service, id=f"{worker}/{n}", arrival=arrival, service=service)

    def plain(self):
        def worker(k):
            def step(n):
                if n < len(self.table[k]):
                    return self.table[k][n][0], lambda arrival: self.request(k, n, arrival)
                return None

            return step

        return [worker(k) for k in range(self.workers)]


# Nobody asks twice at one instant: a service of at least 1, thought where a line may be full.
def steps(think):
    return st.lists(st.tuples(st.integers(think, 3), st.integers(1, 4)), max_size=6)


loops = st.one_of(
    st.tuples(st.none(), st.lists(steps(0), max_size=5)),
    st.tuples(st.integers(1, 2), st.lists(steps(1), max_size=5)),
)


@settings(max_examples=80, deadline=None)
@given(
    policy=st.sampled_from(list(POLICIES)),
    requests=workloads(),
    loops=loops,
    slots=st.integers(1, 3),
)
def test_closed_loops(policy, requests, loops, slots):
    limit, table = loops
    ours, plain = Recorder(POLICIES[policy]()), Recorder(POLICIES[policy]())
    loop = Loop(table)
    _, served, left = run(requests, ours, slots, loops=[loop], limit=limit)
    assert (served, left) == plain_run(requests, plain, slots, workers=loop.plain(), limit=limit)
    assert [call[:2] for call in ours.calls] == [call[:2] for call in plain.calls]
