"""Agreement with two simulators written by others: Ciw (priorities) and ns.py (DRR), start by start.

Ciw: every start time equal, for M/M/c, strict and ageing priority and accumulating priority. Times lie on a
grid of 2⁻²⁰ s, so sums are exact and equal means equal.

ns.py 0.4.3 is a DRR of packets on one link. It visits flows in a fixed order and keeps a flow's credit until
its last packet has left, so it is DRR only for a backlog that stands at 0; its quantum is 1500·w/min w.

Both come with the development tools; where one is missing its lines say that they were not checked.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from fairq.policies.accumulating import AccumulatingPriority
from fairq.policies.base import Policy
from fairq.policies.drr import DRR
from fairq.policies.fifo import FIFO
from fairq.policies.priority import Priority
from fairq.prove.line import Line, not_checked
from fairq.request import Request
from fairq.sim import SlotEngine, simulate

GRID = 2.0**-20
RATES = {0: 4, 1: 2, 2: 1}
SLOTS = (1, 3, 8)

Rank = Callable[[float, int, float], Any]
"""(arrival, level, now) → who goes first, smallest first."""

CIW: dict[str, tuple[Callable[[], Policy], Rank]] = {
    "FIFO": (FIFO, lambda arrival, level, now: arrival),
    "strict priority": (lambda: Priority(ageing=None), lambda arrival, level, now: (level, arrival)),
    "priority ageing 2 s": (
        lambda: Priority(ageing=2),
        lambda arrival, level, now: (arrival + 2 * level, arrival),
    ),
    "accumulating priority": (
        lambda: AccumulatingPriority(RATES),
        lambda arrival, level, now: (-(now - arrival) * RATES[level], arrival),
    ),
}


def poisson(seed: int, slots: int, levels: int = 3, load: float = 0.9, number: int = 1_500) -> list[Request]:
    """Requests of several levels on the grid: Poisson arrivals, exponential service of mean 1 s."""
    draw = random.Random(seed)
    now, requests = 0.0, []
    for k in range(number):
        now += max(1, round(draw.expovariate(load * slots) / GRID)) * GRID
        service = max(1, round(draw.expovariate(1) / GRID)) * GRID
        level = draw.randrange(levels)
        requests.append(Request(f"level {level}", 1, arrival=now, service=service, priority=level, id=k))
    return requests


def ours(requests: list[Request], policy: Policy, slots: int) -> dict[int, list[tuple[float, float]]]:
    """Level → (arrival, start) of its requests."""
    rows = simulate(requests, policy, SlotEngine(slots)).requests
    found: dict[int, list[tuple[float, float]]] = {}
    for level, arrival, start in zip(rows["priority"], rows["arrival"], rows["start"], strict=True):
        found.setdefault(int(level), []).append((arrival, start))
    return {level: sorted(starts) for level, starts in sorted(found.items())}


def in_ciw(requests: list[Request], slots: int, rank: Rank) -> dict[int, list[tuple[float, float]]]:
    """The same in Ciw."""
    ciw: Any = import_module("ciw")
    levels = sorted({r.priority for r in requests})
    arrivals, services = {}, {}
    for level in levels:
        mine = [r for r in requests if r.priority == level]
        times: list[Any] = [0.0, *(r.arrival for r in mine)]
        gaps = [after - before for before, after in pairwise(times)]
        arrivals[str(level)] = [ciw.dists.Sequential([*gaps, float("inf")])]
        services[str(level)] = [ciw.dists.Sequential([r.service for r in mine])]

    def discipline(individuals: Any, now: float) -> Any:
        return min(individuals, key=lambda i: rank(i.arrival_date, int(i.customer_class), now))

    network = ciw.create_network(
        arrival_distributions=arrivals,
        service_distributions=services,
        number_of_servers=[slots],
        service_disciplines=[discipline],
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(len(requests), method="Finish")
    found: dict[int, list[tuple[float, float]]] = {level: [] for level in levels}
    for record in simulation.get_all_records():
        found[int(record.customer_class)].append((record.arrival_date, record.service_start_date))
    return {level: sorted(starts) for level, starts in found.items()}


def backlog(seed: int) -> tuple[dict[str, int], list[Request]]:
    """Weights and packets of two to six flows that all stand at 0, flow by flow; a byte takes a second."""
    draw = random.Random(seed)
    weights = {str(flow): draw.randint(1, 5) for flow in range(draw.randint(2, 6))}
    packets = []
    for flow in weights:
        for k in range(draw.randint(1, 40)):
            size = draw.choice([40, 576, 1500, draw.randint(40, 9_000)])
            packets.append(Request(flow, size, service=size, arrival=0, id=f"{flow}.{k}"))
    return weights, packets


def our_ring(weights: dict[str, int], packets: list[Request]) -> list[tuple[str, float]]:
    """(packet, when it has left), in order."""
    policy = DRR(1500 / min(weights.values()), weights)
    rows = simulate(packets, policy, SlotEngine(1)).requests.sort_values("dispatch")
    return list(zip(rows["id"], rows["finish"], strict=True))


def ring_of_ns(weights: dict[str, int], packets: list[Request]) -> list[tuple[str, float]]:
    """The same in ns.py."""
    simpy: Any = import_module("simpy")
    packet_of: Any = import_module("ns.packet.packet").Packet
    server_of: Any = import_module("ns.scheduler.drr").DRRServer
    left: list[tuple[str, float]] = []
    env = simpy.Environment()

    class Sink:
        def put(self, packet: Any) -> None:
            left.append((packet.packet_id, env.now))

    server = server_of(env, rate=8.0, weights=weights)
    server.out = Sink()
    for request in packets:
        server.put(packet_of(0, request.cost, request.id, flow_id=request.tenant))
    env.run()
    return left


def ciw_lines() -> list[Line]:
    lines = []
    for name, (make, rank) in CIW.items():
        claim, source = f"{name}: every start is that of Ciw", "Ciw 3 (Palmer et al. 2019)"
        if find_spec("ciw") is None:
            lines.append(not_checked(claim, source, "ciw is not installed"))
            continue
        wrong = total = 0
        for slots in SLOTS:
            requests = poisson(slots, slots)
            theirs = in_ciw(requests, slots, rank)
            for level, starts in ours(requests, make(), slots).items():
                wrong += sum(mine != other for mine, other in zip(starts, theirs[level], strict=True))
                total += len(starts)
        lines.append(
            Line(
                claim,
                source,
                f"{total:,} requests of three levels, Poisson, load 0.9, 1, 3 and 8 slots",
                f"{wrong} differ",
                "0",
                wrong == 0,
            )
        )
    return lines


def ns_lines() -> list[Line]:
    claim, source = "DRR: a standing backlog leaves as in ns.py, packet by packet", "ns.py 0.4.3, DRRServer"
    if find_spec("ns") is None:
        return [not_checked(claim, source, "ns.py is not installed")]
    wrong = sum(our_ring(*backlog(seed)) != ring_of_ns(*backlog(seed)) for seed in range(40))
    return [
        Line(
            claim,
            source,
            "40 random backlogs, 2–6 flows, weights 1–5, quantum 1500·w/min w",
            f"{wrong} differ",
            "0",
            wrong == 0,
        )
    ]


CHECKS: list[Callable[[], list[Line]]] = [ciw_lines, ns_lines]
