"""How fast is the queue? Ratios from one run, printed with the setting.

    python benchmarks/queue_speed.py [--requests 100000] [--rounds 7] [--json]

Compared with ``Minimal``: deficit round robin as one would write it by hand, with nothing of the contract (no
check for a request that waits twice, no keys, no cancel, no account of what runs, no explanation). Both give
the same order, which is checked first.

* ``drain``: ``put`` all, then ``get`` all. Everybody is backlogged until the end. With 10,000 tenants every
  tenth request opens an account, and the accounts outgrow the processor's caches.
* ``steady``: everybody is backlogged; ``get`` one, ``put`` it again at the end of its line. fairq's ``done``
  comes between and is counted; the minimal loop has none.

How much more a request costs with 10,000 tenants than with 10 is a matter of those caches, in the minimal
loop as well. So it is measured first, with nothing else in the process (beside the requests and queues of all
the other measurements it comes out up to a tenth higher), in more rounds, and for both.

Requests are built beforehand; tenants in turn, costs drawn from 1 … 1000, quantum 1000 (the
largest cost: the setting for which the paper promises constant work). In each round every
way is timed once, one right after the other: processor time, the garbage collector run before and off
meanwhile. A ratio is the median of the rounds' own ratios; a first round is thrown away. The limits are meant
for a quiet machine, so its load is printed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from fairq import DRR, FIFO, KeyCaps, Policy, Priority, Request

TENANTS = (10, 100, 1_000, 10_000)
CAPPED_KEYS = 10_000
LIMITS = {
    **{f"drain, {n:,} tenants: fairq / minimal": 4.0 for n in TENANTS},
    "drain, fairq: 10,000 / 10 tenants": 1.5,
    "steady, fairq: 10,000 / 10 tenants": 1.5,
    "10 tenants: quantum 1 / quantum 1,000,000": 4.0,
    "1,000 tenants: quantum 1 / quantum 1,000,000": 4.0,
}
MICROSECONDS = 1000.0
"""The most a ``get`` may take with 10,000 waiting keys of one capped group."""


class Minimal:
    """Deficit round robin and nothing else."""

    def __init__(self, quantum: float) -> None:
        self.quantum = quantum
        self.lines: dict[str, deque[Request]] = {}
        self.credit: dict[str, float] = {}
        self.ring: deque[str] = deque()
        self.visiting = False

    def put(self, request: Request) -> None:
        line = self.lines.get(request.tenant)
        if line is None:
            self.lines[request.tenant] = deque([request])
            self.credit[request.tenant] = 0
            self.ring.append(request.tenant)
        else:
            line.append(request)

    def get(self) -> Request | None:
        ring, credit = self.ring, self.credit
        while ring:
            tenant = ring[0]
            if not self.visiting:
                credit[tenant] += self.quantum
                self.visiting = True
            line = self.lines[tenant]
            if line[0].cost <= credit[tenant]:
                request = line.popleft()
                credit[tenant] -= request.cost
                if not line:
                    del self.lines[tenant], credit[tenant]
                    ring.popleft()
                    self.visiting = False
                return request
            ring.rotate(-1)
            self.visiting = False
        return None


Queue = Any
"""``Minimal`` or a policy."""


def draw(n: int, tenants: int, cost: int | None = None) -> list[Request]:
    """n requests, tenants in turn; costs 1 … 1000, or all the same."""
    rng = random.Random(7)
    names = [f"tenant-{i}" for i in range(tenants)]
    return [Request(names[i % tenants], cost or rng.randint(1, 1000), id=i) for i in range(n)]


def drain(queue: Queue, requests: list[Request]) -> list[Request]:
    for request in requests:
        queue.put(request)
    return [queue.get() for _ in requests]


def steady(queue: Queue, turns: int) -> list[Request]:
    """On a queue that is filled already."""
    order = []
    for _ in range(turns):
        served = queue.get()
        order.append(served)
        queue.done(served)
        queue.put(served)
    return order


def steady_minimal(queue: Minimal, turns: int) -> list[Request]:
    order = []
    for _ in range(turns):
        served = queue.get()
        order.append(served)
        queue.put(served)
    return order


def filled(queue: Queue, requests: list[Request]) -> Queue:
    for request in requests:
        queue.put(request)
    return queue


def timed(work: Callable[[], Any]) -> float:
    """Processor seconds of one call; to free what it gives back is not counted."""
    gc.collect()
    gc.disable()
    try:
        begin = time.process_time()
        kept = work()
        took = time.process_time() - begin
        del kept
        return took
    finally:
        gc.enable()


def rounds_of(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Way → its seconds in each round, the ways taken in turn; the first round is thrown away."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            times[name].append(timed(way))
    return {name: values[1:] for name, values in times.items()}


def ratio(over: list[float], under: list[float]) -> float:
    return median(a / b for a, b in zip(over, under, strict=True))


Ways = dict[str, Callable[[], Any]]
"""``pattern kind tenants`` → what is timed."""


def drains(requests: list[Request], tenants: int) -> Ways:
    return {
        f"drain minimal {tenants}": lambda: (q := Minimal(1000), drain(q, requests)),
        f"drain fairq {tenants}": lambda: (q := DRR(1000), drain(q, requests)),
    }


def steadies(fair: Queue, plain: Minimal, turns: int, tenants: int) -> Ways:
    return {
        f"steady minimal {tenants}": lambda: steady_minimal(plain, turns),
        f"steady fairq {tenants}": lambda: steady(fair, turns),
    }


def against_minimal(n: int, rounds: int) -> dict[str, float]:
    """µs per request (``put`` and ``get``) and ratios, for each number of tenants and both patterns."""
    ways: Ways = {}
    for tenants in TENANTS:
        requests = draw(n, tenants)
        if drain(DRR(1000), requests) != drain(Minimal(1000), requests):
            raise SystemExit("the two orders differ")
        fair, plain = filled(DRR(1000), requests), filled(Minimal(1000), requests)
        if steady(fair, n // 2) != steady_minimal(plain, n // 2):
            raise SystemExit("the two orders differ")
        ways |= drains(requests, tenants) | steadies(fair, plain, n, tenants)
    times = rounds_of(ways, rounds)
    figures: dict[str, float] = {}
    for pattern in ("drain", "steady"):
        for tenants in TENANTS:
            fair, plain = times[f"{pattern} fairq {tenants}"], times[f"{pattern} minimal {tenants}"]
            at = f"{pattern}, {tenants:,} tenants:"
            figures[f"{at} fairq, µs per request"] = 1e6 * median(fair) / n
            figures[f"{at} minimal, µs per request"] = 1e6 * median(plain) / n
            figures[f"{at} fairq / minimal"] = ratio(fair, plain)
    return figures


def flat(n: int, rounds: int) -> dict[str, float]:
    """What a request costs with the most tenants over what it costs with the fewest."""
    few, many = TENANTS[0], TENANTS[-1]
    figures = {}
    for pattern in ("drain", "steady"):
        ways: Ways = {}
        for tenants in (few, many):
            requests = draw(n, tenants)
            if pattern == "drain":
                ways |= drains(requests, tenants)
            else:
                ways |= steadies(filled(DRR(1000), requests), filled(Minimal(1000), requests), n, tenants)
        times = rounds_of(ways, rounds)
        for kind in ("fairq", "minimal"):
            figures[f"{pattern}, {kind}: {many:,} / {few} tenants"] = ratio(
                times[f"{pattern} {kind} {many}"], times[f"{pattern} {kind} {few}"]
            )
    return figures


def tiny_quantum(n: int, rounds: int) -> dict[str, float]:
    """Quantum 1 against costs of 1,000,000: visits that can send nothing must cost nothing."""
    figures = {}
    for tenants in (10, 1_000):
        requests = draw(n, tenants, cost=1_000_000)
        times = rounds_of(
            {
                "tiny": lambda r=requests: drain(DRR(1), r),
                "fitting": lambda r=requests: drain(DRR(1_000_000), r),
            },
            rounds,
        )
        figures[f"{tenants:,} tenants: quantum 1 / quantum 1,000,000"] = ratio(
            times["tiny"], times["fitting"]
        )
    return figures


def capped(rounds: int) -> dict[str, float]:
    """``get`` (µs) with 10,000 waiting keys of one capped group: the slowest of the three kinds below.

    One request of the group runs, and its limit is 1. Timed: nobody may run; somebody outside the group may;
    the group is free again. Once with a tenant for each key, once with all keys one tenant's. The first round
    (nothing was asked before) and the median of all.
    """
    figures = {}
    inners: dict[str, Callable[[], Policy]] = {
        "FIFO": FIFO,
        "Priority": lambda: Priority(ageing=600),
        "DRR": lambda: DRR(1000),
    }
    keys = [f"key-{i}" for i in range(CAPPED_KEYS + 1)]
    for name, inner in inners.items():
        for owners in ("a tenant each", "one tenant"):
            queue = KeyCaps(inner(), groups={"group": (keys, 1)})
            for i, key in enumerate(keys):
                queue.put(Request(key if owners == "a tenant each" else "all", 300, key=key, arrival=i))
            running = queue.get()
            slowest = []
            for i in range(rounds):
                outside = Request("outside", 300, arrival=CAPPED_KEYS + i + 1)
                took = [_microseconds(queue, None)]
                queue.put(outside)
                took.append(_microseconds(queue, outside))
                queue.done(outside)
                queue.done(running)
                began = time.perf_counter_ns()
                running = queue.get()
                took.append((time.perf_counter_ns() - began) / 1000)
                assert running is not None
                slowest.append(max(took))
            at = f"capped group, {CAPPED_KEYS:,} keys, {owners}, {name}:"
            figures[f"{at} first get, µs"] = slowest[0]
            figures[f"{at} get, µs"] = median(slowest)
    return figures


def _microseconds(queue: Policy, expected: Request | None) -> float:
    began = time.perf_counter_ns()
    served = queue.get()
    took = (time.perf_counter_ns() - began) / 1000
    assert served is expected
    return took


def limit_of(name: str) -> float | None:
    return MICROSECONDS if name.startswith("capped group") else LIMITS.get(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    setting = {
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "requests": options.requests,
        "rounds": options.rounds,
        "gc": "off while timed",
    }
    figures = {
        **flat(options.requests, max(options.rounds, 21)),
        **against_minimal(options.requests, options.rounds),
        **tiny_quantum(options.requests, options.rounds),
        **capped(max(options.rounds, 21)),
    }
    if options.json:
        print(json.dumps({"setting": setting, **figures}, indent=1, ensure_ascii=False))
        return
    print(", ".join(f"{name}: {value}" for name, value in setting.items()))
    for name, value in figures.items():
        limit = limit_of(name)
        verdict = "" if limit is None else f"   wanted <= {limit:g}: {'holds' if value <= limit else 'FAILS'}"
        print(f"{name:<68} {value:9.2f}{verdict}")


if __name__ == "__main__":
    main()
