"""How fast is the model? Ratios from one run, printed with the setting.

    python benchmarks/model_speed.py [--requests 100000] [--rounds 5] [--json]

Setting: M/M/8 at load 7/8 (Poisson arrivals, exponential service), the same ``Request`` objects for all,
eight tenants, every cost 1. Compared, each giving the finish time of every request:

* ``simpy``: the SimPy way, a source process that starts one process per job, each requesting a ``Resource``;
* ``loop``: a bare event loop on ``heapq``, no tenants, no policy;
* ``fifo``, ``drr``: ``fairq.sim`` with those policies (drawing the requests and building tables not counted).

Times are the least of ``--rounds`` interleaved rounds (processor time). Memory is the peak of Python's
allocations over drawing, running and building the table, per request, in a run of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time
import tracemalloc
from collections import deque
from heapq import heappop, heappush

import numpy as np
import simpy

from fairq import DRR, FIFO, Policy, Request
from fairq.sim import SlotEngine, simulate
from fairq.sim.run import record

SLOTS, LOAD, TENANTS = 8, 7 / 8, 8
LIMITS = {
    "simpy / fifo": (">=", 5.0),
    "fifo / loop": ("<=", 4.0),
    "drr / fifo": ("<=", 1.6),
    "bytes per request": ("<=", 600.0),
}


def draw(n: int, seed: int = 1) -> list[Request]:
    """Poisson arrivals and exponential services (mean 1 s). The arrivals are sums of the gaps one by one, so
    that a clock which adds up gaps sees the same times."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / (SLOTS * LOAD), n)).tolist()
    services = rng.exponential(1.0, n).tolist()
    tenants = [f"tenant-{k}" for k in range(TENANTS)]
    who = rng.integers(0, TENANTS, n).tolist()
    return [
        Request(tenants[k], 1, arrival=arrival, service=service, id=i)
        for i, (k, arrival, service) in enumerate(zip(who, arrivals, services, strict=True))
    ]


def simpy_way(requests: list[Request]) -> list[float]:
    """What a SimPy tutorial would write; finish times by request, seconds."""
    env = simpy.Environment()
    slots = simpy.Resource(env, capacity=SLOTS)
    start, finish = [0.0] * len(requests), [0.0] * len(requests)

    def job(row: int, request: Request):
        with slots.request() as turn:
            yield turn
            start[row] = env.now
            yield env.timeout(request.service)
        finish[row] = env.now

    def source():
        for row, request in enumerate(requests):
            # A second step where the first one's rounding misses the arrival.
            while env.now < request.arrival:
                yield env.timeout(request.arrival - env.now)
            env.process(job(row, request))

    env.process(source())
    env.run()
    return finish


def bare_loop(requests: list[Request]) -> list[float]:
    """FIFO on a heap of events with nothing around it; finish times by request, seconds."""
    start, finish = [0.0] * len(requests), [0.0] * len(requests)
    events = [(requests[0].arrival, 1, 0)]
    line: deque[int] = deque()
    free = SLOTS
    while events:
        now, arrives, row = heappop(events)
        if arrives:
            line.append(row)
            if row + 1 < len(requests):
                heappush(events, (requests[row + 1].arrival, 1, row + 1))
        else:
            finish[row] = now
            free += 1
        while free and line:
            row = line.popleft()
            start[row] = now
            free -= 1
            heappush(events, (now + requests[row].service, 0, row))
    return finish


def model(requests: list[Request], policy: Policy) -> list[float]:
    """fairq; finish times by request, seconds."""
    rows = record(requests, policy, SlotEngine(SLOTS))
    finish = [0.0] * len(requests)
    for request, end in zip(rows.request, rows.finish, strict=True):
        finish[request.id] = end
    return finish


def seconds(requests: list[Request], rounds: int) -> dict[str, float]:
    """Processor time of each way, the least over the rounds."""
    ways = {
        "simpy": lambda: simpy_way(requests),
        "loop": lambda: bare_loop(requests),
        "fifo": lambda: record(requests, FIFO(), SlotEngine(SLOTS)),
        "drr": lambda: record(requests, DRR(quantum=1), SlotEngine(SLOTS)),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            gc.collect()
            begin = time.process_time()
            way()
            best[name] = min(best[name], time.process_time() - begin)
    return best


def peak_bytes(n: int) -> float:
    """Peak of allocated bytes per request: drawing, running, building the table."""
    simulate(draw(100), FIFO(), SlotEngine(SLOTS))  # what is loaded once is not counted
    gc.collect()
    tracemalloc.start()
    result = simulate(draw(n), FIFO(), SlotEngine(SLOTS))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(result.requests) == n
    return peak / n


def measure(n: int, rounds: int) -> dict[str, float]:
    requests = draw(n)
    finish = simpy_way(requests)
    if not finish == bare_loop(requests) == model(requests, FIFO()):
        raise SystemExit("the three ways differ in a finish time")
    times = seconds(requests, rounds)
    del requests, finish
    return {
        **{f"{name} s": best for name, best in times.items()},
        "simpy / fifo": times["simpy"] / times["fifo"],
        "fifo / loop": times["fifo"] / times["loop"],
        "drr / fifo": times["drr"] / times["fifo"],
        "bytes per request": peak_bytes(n),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    setting = {
        "queue": f"M/M/{SLOTS} at load {LOAD:g}, {TENANTS} tenants",
        "requests": options.requests,
        "rounds": options.rounds,
        "python": platform.python_version(),
        "simpy": simpy.__version__,
    }
    figures = measure(options.requests, options.rounds)
    if options.json:
        print(json.dumps({"setting": setting, **figures}, indent=1))
        return
    print(", ".join(f"{name}: {value}" for name, value in setting.items()))
    print("finish times are equal in all three")
    for name, value in figures.items():
        sign, limit = LIMITS.get(name, ("", 0.0))
        verdict = ""
        if sign:
            good = value >= limit if sign == ">=" else value <= limit
            verdict = f"   wanted {sign} {limit:g}: {'holds' if good else 'FAILS'}"
        print(f"{name:>18} {value:10.3f}{verdict}")


if __name__ == "__main__":
    main()
