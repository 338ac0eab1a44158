"""Long runs against closed forms: 95 % t-interval over ten replications, half-width at most 8 % of the value.

A 95 % interval misses one time in twenty, so the truth must lie within 1.5 half-widths (99.2 %); seeds are
fixed.
"""

from math import factorial

import numpy as np
import pytest

from fairq import FIFO, Request
from fairq.metrics import t_interval
from fairq.sim import SlotEngine, replicate

REPLICATIONS = 10


class Queue:
    """Poisson arrivals at ``rate`` requests/s; ``services(rng, n)`` seconds."""

    def __init__(self, rate, services, n=20_000, tenants=("all",)):
        self.rate, self.services, self.n, self.tenants = rate, services, n, tenants

    def requests(self, seed, replication=0):
        rng = np.random.default_rng([seed, replication])
        arrivals = np.cumsum(rng.exponential(1 / self.rate, self.n)).tolist()
        services = self.services(rng, self.n).tolist()
        names = rng.choice(self.tenants, self.n).tolist()
        return [
            Request(t, 1, arrival=a, service=s) for t, a, s in zip(names, arrivals, services, strict=True)
        ]


def exponential(rng, n):
    return rng.exponential(1.0, n)


def hyper(rng, n):
    return rng.exponential(np.where(rng.random(n) < 0.9, 0.5, 5.5))


def holds(values, truth, width=0.08):
    mean, low, high = t_interval(values)
    half = (high - low) / 2
    assert half <= width * truth, f"too wide to say anything: {mean} ± {half}, truth {truth}"
    assert abs(mean - truth) <= 1.5 * half, f"{mean} ± {half}, truth {truth}"


# Mean waits and quantiles: Erlang C for M/M/c, Pollaczek–Khinchine for M/G/1.
@pytest.mark.parametrize(
    ("queue", "slots", "mean", "p99"),
    [
        pytest.param(Queue(7.0, exponential, n=60_000), 8, 0.6353160175, 4.151537448, marks=pytest.mark.slow),
        (Queue(1.5, exponential), 2, 1.285714286, 8.326674867),
        pytest.param(Queue(0.8, exponential, n=40_000), 1, 4.0, None, marks=pytest.mark.slow),
        (Queue(0.8, lambda rng, n: np.ones(n)), 1, 2.0, 10.35588679),
        (Queue(0.8, lambda rng, n: rng.uniform(0, 2, n)), 1, 8 / 3, None),
        pytest.param(Queue(0.6, hyper, n=30_000), 1, 4.875, None, marks=pytest.mark.slow),
    ],
    ids=["M/M/8", "M/M/2", "M/M/1", "M/D/1", "M/U/1", "M/H2/1"],
)
def test_fifo_waits(queue, slots, mean, p99):
    runs = replicate(queue, FIFO, lambda: SlotEngine(slots), replications=REPLICATIONS, seed=4, warmup=500.0)
    waits = [run.requests["wait"].to_numpy() for run in runs]
    holds([wait.mean() for wait in waits], mean)
    if p99 is not None:
        mean99, low, high = t_interval([np.percentile(wait, 99) for wait in waits])
        assert abs(mean99 - p99) <= 1.5 * (high - low) / 2
    # Little: waiting requests in the mean = arrival rate × mean wait.
    holds([run.waiting_mean for run in runs], queue.rate * mean)


def test_erlang_b_without_a_line():
    """M/M/3/3: with no room to wait a share B(3, 2) = 4/19 of the requests is refused."""
    load, slots = 2.0, 3
    blocked = load**slots / factorial(slots) / sum(load**k / factorial(k) for k in range(slots + 1))
    queue = Queue(load, exponential)
    runs = replicate(queue, FIFO, lambda: SlotEngine(slots), replications=REPLICATIONS, seed=2, line_limit=0)
    holds([run.counts()["refused"] / len(run.requests) for run in runs], blocked)


def test_impatient_line():
    """M/M/1 with fixed patience T: served share and mean wait from the virtual wait of M/M/1+D.

    Density of the virtual wait (μ = 1, load a ≠ 1): λ·P0·exp(-(1 - a)x) below T, then it decays at rate μ
    since nobody joins; all normalised (Barrer 1957).
    """
    a, patience = 1.25, 2.0
    inside = a * (np.exp((a - 1) * patience) - 1) / (a - 1)
    beyond = a * np.exp((a - 1) * patience)
    lost = beyond / (1 + inside + beyond)
    runs = replicate(
        Queue(a, exponential),
        FIFO,
        lambda: SlotEngine(1),
        replications=REPLICATIONS,
        seed=6,
        patience=patience,
    )
    holds([run.counts()["cancelled"] / len(run.requests) for run in runs], lost)


class Machines:
    """Closed loop: n workers, exponential thought (mean 4 s) and service (mean 1 s)."""

    horizon_s = 10_000.0

    def __init__(self, workers, seed):
        self.workers = workers
        rng = np.random.default_rng(seed)
        self.think = rng.exponential(4.0, (workers, 6_000))
        self.service = rng.exponential(1.0, (workers, 6_000))

    def requests(self, seed, replication=0):
        return []

    def closed_loops(self, seed, replication=0):
        return [Machines(self.workers, [seed, replication])]

    def draw(self, worker, n):
        class Drawn:
            think_s = float(self.think[worker, n])

        return Drawn

    def request(self, worker, n, arrival):
        return Request("w", 1, arrival=arrival, service=float(self.service[worker, n]), id=(worker, n))


def test_closed_loop_is_the_machine_repair_model():
    """M/M/1//N: the slot is idle with probability 1 / Σ N!/(N-k)! (thought rate / service rate)^k."""
    n, ratio = 5, 1 / 4
    idle = 1 / sum(factorial(n) / factorial(n - k) * ratio**k for k in range(n + 1))
    runs = replicate(Machines(n, 0), FIFO, lambda: SlotEngine(1), replications=REPLICATIONS, until=10_000.0)
    holds([run.utilisation for run in runs], 1 - idle)
    holds([run.counts()["finished"] / 10_000 for run in runs], 1 - idle)
