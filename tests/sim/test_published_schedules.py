"""Schedules worked out by hand and by an independent simulator: every start, finish and dispatch."""

import pytest

from fairq import DRR, FIFO, KeyCaps, Priority, Request
from fairq.sim import SlotEngine, simulate


def batch(ids, *, arrival=0, service=1, cost=1, priority=0):
    """Requests named by tenant and number, as in "A1 A2 B1"."""
    return [
        Request(i[0], cost, id=i, arrival=arrival, service=service, priority=priority) for i in ids.split()
    ]


def stream(start):
    """An interactive request per second from ``start`` to 9, one of them before the batch request b at 0."""
    return [Request("i", 1, id=f"i{t}", arrival=t, service=1) for t in range(start, 10)]


BURST = batch("n1 n2 n3 n4 n5 n6 n7 n8") + batch("a1 b1 a2 b2", arrival=0.5)
SIX_EACH = batch(" ".join(f"{t}{n}" for t in "ABC" for n in range(1, 7)))
STARVED = [*stream(0)[:1], *batch("b", priority=1), *stream(1)]
CAPS = (
    batch("x1 x2 x3 x4 y1 y2", service=10)
    + batch("i1 i2 i3 j1 j2 j3 k1 k2 k3", service=4)
)  # fmt: skip

# name: (requests, policy, slots, dispatch order, starts in that order)
SCHEDULES = {
    "FIFO, ties in input order": (
        batch("a", service=2) + batch("b c") + batch("d", service=3) + batch("e", arrival=1),
        lambda: FIFO(),
        2,
        "a b c d e",
        [0, 0, 1, 2, 2],
    ),
    "noisy burst, FIFO": (
        BURST,
        lambda: FIFO(),
        2,
        "n1 n2 n3 n4 n5 n6 n7 n8 a1 b1 a2 b2",
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
    ),
    "noisy burst, DRR": (
        BURST,
        lambda: DRR(quantum=1),
        2,
        "n1 n2 a1 b1 n3 a2 b2 n4 n5 n6 n7 n8",
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
    ),
    "caps: two per interactive key, batch two in total": (
        CAPS,
        lambda: KeyCaps(FIFO(), per_key={"i": 2, "j": 2, "k": 2}, groups={"batch": (["x", "y"], 2)}),
        8,
        "x1 x2 i1 i2 j1 j2 k1 k2 i3 j3 k3 x3 x4 y1 y2",
        [0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 10, 10, 20, 20],
    ),
    "DRR, cost above the quantum": (
        batch("A1", service=25, cost=25) + batch("B1 B2 B3 B4", service=10, cost=10),
        lambda: DRR(quantum=10),
        1,
        "B1 B2 A1 B3 B4",
        [0, 10, 20, 45, 55],
    ),
    "DRR, an empty line forfeits": (
        batch("A1", service=4, cost=4)
        + batch("B1 B2 B3", service=10, cost=10)
        + batch("A2", arrival=5, service=16, cost=16),
        lambda: DRR(quantum=10),
        1,
        "A1 B1 B2 A2 B3",
        [0, 4, 14, 24, 40],
    ),
    "DRR, rejoin at the back": (
        batch("A1 B1 B2 C1 C2") + batch("A2", arrival=0.5),
        lambda: DRR(quantum=1),
        1,
        "A1 B1 C1 A2 B2 C2",
        [0, 1, 2, 3, 4, 5],
    ),
    "DRR, weights 1:2:3": (
        SIX_EACH,
        lambda: DRR(quantum=1, weights={"A": 1, "B": 2, "C": 3}),
        1,
        "A1 B1 B2 C1 C2 C3 A2 B3 B4 C4 C5 C6 A3 B5 B6 A4 A5 A6",
        list(range(18)),
    ),
    "DRR, weights 1:2:3, three slots": (
        SIX_EACH,
        lambda: DRR(quantum=1, weights={"A": 1, "B": 2, "C": 3}),
        3,
        "A1 B1 B2 C1 C2 C3 A2 B3 B4 C4 C5 C6 A3 B5 B6 A4 A5 A6",
        [n // 3 for n in range(18)],
    ),
    "strict priority starves": (
        STARVED,
        lambda: Priority(ageing=None),
        1,
        "i0 i1 i2 i3 i4 i5 i6 i7 i8 i9 b",
        list(range(11)),
    ),
    "ageing ends starvation": (
        STARVED,
        lambda: Priority(ageing=5.0),
        1,
        "i0 i1 i2 i3 i4 b i5 i6 i7 i8 i9",
        list(range(11)),
    ),
    "ageing, exactly 600 s": (
        batch("x", service=600) + batch("b", service=100, priority=1) + batch("i", arrival=600),
        lambda: Priority(ageing=600.0),
        1,
        "x b i",
        [0, 600, 700],
    ),
    "nothing to do": ([], lambda: DRR(quantum=1), 3, "", []),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    requests, policy, slots, order, starts = SCHEDULES[name]
    rows = simulate(requests, policy(), SlotEngine(slots)).requests.sort_values("dispatch")
    service = {request.id: request.service for request in requests}
    assert rows["id"].tolist() == order.split()
    assert rows["start"].tolist() == starts
    assert rows["finish"].tolist() == [s + service[i] for i, s in zip(order.split(), starts, strict=True)]
    assert (rows["status"] == "finished").all()


def burst_requests():
    noisy = [Request("noisy", 1, id=n, arrival=0.0, service=0.25) for n in range(1000)]
    small = [
        Request(f"small-{t}", 1, id=1000 + 9 * n + t, arrival=0.1, service=0.25)
        for n in range(5)
        for t in range(9)
    ]
    return noisy + small


def drr_order_of_the_burst():
    """From its description: noisy fills the slots at 0; then each round one of every small tenant and one of
    noisy, the first round without noisy, whose visit is used up; after five rounds noisy is alone."""
    order = list(range(8))
    small, noisy = iter(range(1000, 1045)), iter(range(8, 1000))
    for round_ in range(5):
        order += [next(small) for _ in range(9)]
        if round_ < 4:
            order.append(next(noisy))
    return order + list(noisy)


@pytest.mark.parametrize(
    ("policy", "order", "p50", "p99", "worst", "noisy_p50"),
    [
        (lambda: FIFO(), list(range(1045)), 31.9, 32.65, 32.65, 15.75),
        (lambda: DRR(quantum=1), drr_order_of_the_burst(), 1.15, 1.79, 1.9, 17.25),
    ],
    ids=["fifo", "drr"],
)
def test_published_burst(policy, order, p50, p99, worst, noisy_p50):
    result = simulate(burst_requests(), policy(), SlotEngine(8))
    rows = result.requests.sort_values("dispatch")
    assert rows["id"].tolist() == order
    assert rows["start"].tolist() == [place // 8 * 0.25 for place in range(1045)]  # eight at a time
    noisy = result.requests["tenant"] == "noisy"
    small = result.requests.loc[~noisy, "latency"]
    assert [small.quantile(0.5), small.quantile(0.99), small.max()] == pytest.approx([p50, p99, worst])
    assert result.latency().loc["noisy", "latency_p50"] == pytest.approx(noisy_p50)
    assert result.makespan == 32.75
    assert result.requests_per_s == 1045 / 32.75 == 4180 / 131
