"""Mean waits against closed forms, with confidence intervals narrow enough to fail.

Each scenario is replicated from an empty system; the first part of each run is not counted. What a run's
own luck did to all waits is taken off by a control variate of known mean (Lavenberg & Welch 1981): for the
wait of one class the mean wait of all, weighted by work, which is the same under every policy that never
idles; for the mean wait of all on c servers that of one server c times as fast, by Lindley's recursion.
Intervals are 99.9 % t-intervals over the replications, since some forty of them are looked at; a line also
fails when its half-width is above 5 % of the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairq.policies.accumulating import AccumulatingPriority
from fairq.policies.base import Policy
from fairq.policies.drr import DRR
from fairq.policies.fifo import FIFO
from fairq.policies.priority import Priority
from fairq.policies.sfq import SFQ
from fairq.policies.shortest import Shortest
from fairq.policies.vtc import VTC
from fairq.prove.line import Line, number
from fairq.prove.loop import serve
from fairq.request import Request

Draw = Callable[[np.random.Generator, int], Any]
"""(generator, n) → n service times."""

REPLICATIONS = 40
T_999 = 3.566  # two-sided 99.9 % of Student's t with 38 degrees of freedom, one spent on the control


def exponential(mean: float = 1.0) -> Draw:
    return lambda rng, n: rng.exponential(mean, n)


def always(value: float) -> Draw:
    return lambda rng, n: np.full(n, value)


@dataclass(frozen=True)
class Scenario:
    """Poisson classes (rate, service times, mean service) on ``slots`` servers; class k has priority k.

    ``wanted``: class → its mean wait in seconds; empty: only the mean of all is claimed. ``work``: the known
    Σ ρᵢWᵢ / Σ ρᵢ, in seconds.
    """

    name: str
    source: str
    make: Callable[[], Policy]
    slots: int
    classes: Sequence[tuple[float, Draw, float]]
    wanted: dict[int, float]
    work: float
    requests: int = 8_000

    def replication(self, r: int) -> tuple[list[float], float, float]:
        """Mean wait per class, the mean weighted by expected work, that of one fast server; of one run."""
        rng = np.random.default_rng((20_241, r, hash32(self.name)))
        rates = np.array([rate for rate, _, _ in self.classes])
        arrivals = np.cumsum(rng.exponential(1 / rates.sum(), self.requests))
        kinds = rng.choice(len(rates), self.requests, p=rates / rates.sum())
        services = np.empty(self.requests)
        for k, (_, draw, _) in enumerate(self.classes):
            services[kinds == k] = draw(rng, int((kinds == k).sum()))
        columns = zip(arrivals.tolist(), kinds.tolist(), services.tolist(), strict=True)
        names = [f"class {k}" for k in range(len(rates))]
        requests = [Request(names[k], 1, arrival=a, priority=k, service=s) for a, k, s in columns]
        sums, counts = [0.0] * len(rates), [0] * len(rates)
        begin = requests[self.requests // 8].arrival
        for request, start, _ in serve(self.make(), self.slots, requests):
            arrival: Any = request.arrival
            if arrival >= begin:
                sums[request.priority] += start - arrival
                counts[request.priority] += 1
        means = [total / n for total, n in zip(sums, counts, strict=True)]
        loads = [rate * mean for rate, _, mean in self.classes]
        work = sum(load * w for load, w in zip(loads, means, strict=True)) / sum(loads)
        fast = lindley(arrivals, services / self.slots)[self.requests // 8 :].mean()
        return means, work, float(fast)

    def lines(self) -> list[Line]:
        runs = [self.replication(r) for r in range(REPLICATIONS)]
        work = np.array([run[1] for run in runs])
        if not self.wanted:
            load = sum(rate * mean for rate, _, mean in self.classes) / self.slots
            fast = mg1_wait(self.slots * load, 1 / self.slots, 2 / self.slots**2)
            mean, half = controlled(work, np.array([run[2] for run in runs]), fast)
            return [self._line("mean wait of all", mean, half, self.work)]
        lines = []
        for k, wanted in self.wanted.items():
            waits = np.array([run[0][k] for run in runs])
            mean, half = controlled(waits, work, self.work)
            lines.append(self._line(f"mean wait of class {k}", mean, half, wanted))
        return lines

    def _line(self, what: str, mean: float, half: float, wanted: float) -> Line:
        return Line(
            f"{self.name}: {what} = {number(wanted)} s",
            self.source,
            f"{REPLICATIONS} runs of {self.requests:,} requests, 99.9 % interval",
            f"{number(mean)} ± {number(half)}",
            f"{number(wanted)}, ± ≤ 5 %",
            abs(mean - wanted) <= half and half <= 0.05 * wanted,
        )


def controlled(values: Any, controls: Any, known: float) -> tuple[float, float]:
    """Mean and half-width after regression on a control of known mean (Lavenberg & Welch 1981)."""
    n = len(values)
    off = controls - controls.mean()
    slope = float(off @ values / (off @ off))
    rest = values - values.mean() - slope * off
    variance = float(rest @ rest) / (n - 2)
    shift = known - float(controls.mean())
    mean = float(values.mean()) + slope * shift
    return mean, T_999 * math.sqrt(variance * (1 / n + shift**2 / float(off @ off)))


def lindley(arrivals: Any, services: Any) -> Any:
    """Waits on one FIFO server (Lindley 1952), all at once: how far the walk stands above its least."""
    walk = np.concatenate(([0.0], np.cumsum(services[:-1] - np.diff(arrivals))))
    return walk - np.minimum.accumulate(walk)


def hash32(name: str) -> int:
    """A fixed number for a name."""
    return int.from_bytes(name.encode()[-4:], "big") + sum(name.encode())


# -- closed forms ------------------------------------------------------------------------------------


def erlang_c(slots: int, offered: float) -> float:
    """The chance that all servers are busy in M/M/c (Erlang 1917)."""
    term = total = 1.0
    for k in range(1, slots):
        term *= offered / k
        total += term
    term *= offered / slots / (1 - offered / slots)
    return term / (total + term)


def mmc_wait(slots: int, rate: float) -> float:
    """Mean wait in M/M/c with mean service 1 s."""
    return erlang_c(slots, rate) / (slots - rate)


def mg1_wait(rate: float, mean: float, second: float) -> float:
    """Pollaczek–Khinchine."""
    return rate * second / 2 / (1 - rate * mean)


def cobham(residual: float, loads: Sequence[float]) -> list[float]:
    """Non-preemptive priority: ``residual`` = W0; Cobham 1954 (Kella & Yechiali 1985 for c servers)."""
    waits, above = [], 0.0
    for load in loads:
        waits.append(residual / (1 - above) / (1 - above - load))
        above += load
    return waits


def accumulating(residual: float, loads: Sequence[float], rates: Sequence[float]) -> list[float]:
    """Kleinrock 1964, eq. 12; levels from the lowest rate up."""
    waits: list[float] = []
    first = residual / (1 - sum(loads))
    for p, rate in enumerate(rates):
        lower = sum(loads[i] * waits[i] * (1 - rates[i] / rate) for i in range(p))
        higher = sum(loads[i] * (1 - rate / rates[i]) for i in range(p + 1, len(rates)))
        waits.append((first - lower) / (1 - higher))
    return waits


def head_start(seconds: float, high: float, low: float, slots: int = 1) -> tuple[float, float]:
    """Mean waits (high, low) when level 0 has a head start; M/M/c with mean service 1 s (Goldberg 1977).

    A low request that finds all servers busy waits for everybody it finds, as under FIFO, and for the high
    ones that come within ``seconds`` of it while it still waits. So the number ahead of it is a birth-death
    chain, births (high ones) until ``seconds``; its wait is E[n]/c + (high/c)·∫ P(not yet served) dt, the
    integral by uniformization. Conservation gives the high ones.
    """
    rate = high + low
    load = rate / slots
    ahead = erlang_c(slots, rate) * (1 - load) * load ** np.arange(2_000)  # n − 1 ahead of it wait
    overall = float(ahead @ np.arange(1, 2_001)) / slots
    jumps = high + slots
    steps = int(jumps * seconds + 12 * math.sqrt(jumps * seconds) + 20)
    fewer = math.exp(-jumps * seconds)  # P(Poisson(jumps·seconds) = k), and its sum through k
    through = fewer
    integral = 0.0
    for k in range(steps):
        integral += float(ahead.sum()) * (1 - through) / jumps
        fewer *= jumps * seconds / (k + 1)
        through += fewer
        up = np.concatenate(([0.0], ahead[:-1])) * (high / jumps)
        ahead = up + np.concatenate((ahead[1:], [0.0])) * (slots / jumps)
    behind = overall + high / slots * integral
    return (rate * overall - low * behind) / high, behind


# -- scenarios ---------------------------------------------------------------------------------------

COBHAM = "Cobham 1954"
KLEINROCK = "Kleinrock 1964, eq. 12"
GOLDBERG = "Goldberg 1977"


def _classes(*rates: float) -> list[tuple[float, Draw, float]]:
    return [(rate, exponential(), 1.0) for rate in rates]


def scenarios() -> list[Scenario]:
    """Strict, accumulating and uniformly ageing priority; conservation in the mean."""
    found: list[Scenario] = []

    def add(
        name: str,
        source: str,
        make: Callable[[], Policy],
        slots: int,
        classes: Any,
        waits: Sequence[float],
        work: float,
        requests: int = 8_000,
    ) -> None:
        wanted = dict(enumerate(waits))
        found.append(Scenario(name, source, make, slots, classes, wanted, work, requests))

    strict = lambda: Priority(ageing=None)  # noqa: E731
    add(
        "strict priority M/M/1", COBHAM, strict, 1, _classes(0.3, 0.2, 0.3), cobham(0.8, [0.3, 0.2, 0.3]), 4.0
    )
    residual = (0.2 * 0.25 + 0.3 * 8) / 2
    waits = cobham(residual, [0.1, 0.6])
    work = (0.1 * waits[0] + 0.6 * waits[1]) / 0.7
    add(
        "strict priority M/G/1",
        COBHAM,
        strict,
        1,
        [(0.2, always(0.5), 0.5), (0.3, exponential(2.0), 2.0)],
        waits,
        work,
    )
    busy = erlang_c(8, 7.0) / 8
    kella = cobham(busy, [2 / 8, 2 / 8, 3 / 8])
    add(
        "strict priority M/M/8",
        "Kella & Yechiali 1985",
        strict,
        8,
        _classes(2, 2, 3),
        kella,
        mmc_wait(8, 7.0),
        12_000,
    )

    def apq(*rates: float) -> Callable[[], Policy]:
        return lambda: AccumulatingPriority(dict(enumerate(rates)))

    two = accumulating(0.8, [0.4, 0.4], [1, 4])
    add("accumulating 1:4 M/M/1", KLEINROCK, apq(1, 4), 1, _classes(0.4, 0.4), two, 4.0)
    fixed = accumulating(0.4, [0.3, 0.5], [1, 2])
    add(
        "accumulating 1:2 M/D/1",
        KLEINROCK,
        apq(1, 2),
        1,
        [(0.3, always(1), 1.0), (0.5, always(1), 1.0)],
        fixed,
        2.0,
    )
    three = accumulating(0.9, [0.3] * 3, [1, 2, 6])
    add("accumulating 1:2:6 M/M/1", KLEINROCK, apq(1, 2, 6), 1, _classes(0.3, 0.3, 0.3), three, 9.0)
    eight = accumulating(busy, [3 / 8, 4 / 8], [1, 3])
    add(
        "accumulating 1:3 M/M/8",
        "Kleinrock 1964 with W0 = C/8",
        apq(1, 3),
        8,
        _classes(3, 4),
        eight,
        mmc_wait(8, 7.0),
    )

    for start in (1, 4, 16):
        ageing = lambda start=start: Priority(ageing=start)  # noqa: E731
        waits_ = head_start(start, 0.4, 0.5)
        add(
            f"ageing, head start {start} s, M/M/1",
            GOLDBERG,
            ageing,
            1,
            _classes(0.4, 0.5),
            waits_,
            9.0,
            4_000 + 1_000 * start,
        )
    aged = head_start(2, 3.0, 4.5, 8)
    add(
        "ageing, head start 2 s, M/M/8",
        GOLDBERG,
        lambda: Priority(ageing=2),
        8,
        _classes(3.0, 4.5),
        aged,
        mmc_wait(8, 7.5),
    )

    conserved: list[tuple[str, Callable[[], Policy]]] = [
        ("FIFO", FIFO),
        ("DRR", lambda: DRR(3, {"class 0": 3})),
        ("VTC", lambda: VTC({"class 0": 3})),
        ("SFQ", lambda: SFQ({"class 0": 3})),
        ("shortest", Shortest),
    ]
    for name, make in conserved:
        found.append(
            Scenario(
                f"{name}, M/M/8, conservation in the mean",
                "Erlang 1917; Kleinrock 1965",
                make,
                8,
                _classes(2, 2, 3),
                {},
                mmc_wait(8, 7.0),
            )
        )
    return found


CHECKS: list[Callable[[], list[Line]]] = [scenario.lines for scenario in scenarios()]
