"""What caps do not buy, and what kept slots and lent slots cost: fifty keys, floors, soft caps.

**Fifty keys.** FIFO, when every key keeps work waiting, gives the tenant with 50 keys 50 parts of 54, also
with caps per key around it; what counts tenants gives it one of five: both computed by filling.

**Kept and lent slots.** A batch tenant always has work, its services exponential; a chat tenant asks, is
served, thinks, and asks again. Services forget their past, so where batch runs on all c slots a chat request
waits an exponential time, mean service/c, for the first of them to end. What is kept for it, idles.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from fairq.policies.base import Policy
from fairq.policies.caps import KeyCaps
from fairq.policies.drr import DRR
from fairq.policies.fifo import FIFO
from fairq.policies.floors import Floors
from fairq.policies.priority import Priority
from fairq.policies.sfq import SFQ
from fairq.policies.soft_caps import SoftCaps
from fairq.policies.vtc import VTC
from fairq.prove.caps import SIZES
from fairq.prove.line import Line, number
from fairq.prove.loop import backlogged, held_slots, serve
from fairq.prove.maxmin import fill, fill_under_caps
from fairq.request import Number, Request

Make = Callable[[], Policy]

# -- fifty keys --------------------------------------------------------------------------------------

BURST_SLOTS, PER_KEY = 8, 2
KEYS = [*(f"noisy {k}" for k in range(50)), *(f"person {k}" for k in range(4))]


def tenant_of(key: str) -> str:
    """Fifty of the keys are one tenant's, the others are people with one key each."""
    return "noisy" if key.startswith("noisy") else key


def of_the_slots(make: Make, size: str, until: float = 800) -> float:
    """The part of the slots that the tenant with 50 keys holds, while all keys have work waiting."""
    draw = random.Random(5)
    one = SIZES[size]

    def feed(key: str, now: Number) -> Request:
        cost = one(draw)
        return Request(tenant_of(key), cost, key=key, service=cost, arrival=now)

    served = backlogged(make(), BURST_SLOTS, KEYS, feed, depth=4, until=until, line=attrgetter("key"))
    return float(held_slots(served, until / 10, until - 5)["noisy"]) / BURST_SLOTS


def wait_beside_a_burst(make: Make) -> Number:
    """How long a person waits who asks half a second after 500 requests of 1 s came on 50 keys."""
    burst = [Request("noisy", 1, key=KEYS[n % 50], arrival=0, service=1) for n in range(500)]
    person = Request("person 0", 1, arrival=0.5, service=1)
    served = serve(make(), BURST_SLOTS, [*burst, person])
    return next(s.start - 0.5 for s in served if s.request is person)


BY_KEY: list[tuple[str, Make]] = [
    ("FIFO", FIFO),
    ("FIFO, two per key", lambda: KeyCaps(FIFO(), default=PER_KEY)),
]

BY_TENANT: list[tuple[str, Make]] = [
    ("DRR", lambda: KeyCaps(DRR(4), default=PER_KEY)),
    ("VTC", lambda: KeyCaps(VTC(), default=PER_KEY)),
    ("SFQ", lambda: KeyCaps(SFQ(), default=PER_KEY)),
]


def key_lines() -> list[Line]:
    by_key = fill_under_caps(BURST_SLOTS, KEYS, {}, [([key], PER_KEY) for key in KEYS])
    tenants = {
        tenant: PER_KEY * sum(tenant_of(key) == tenant for key in KEYS) for tenant in map(tenant_of, KEYS)
    }
    share = fill(BURST_SLOTS, tenants, {})["noisy"]
    rows = [
        (f"{name}: the tenant with 50 keys takes 50 parts of 54", make, ["unit"], 50 * by_key["noisy 0"])
        for name, make in BY_KEY
    ] + [
        (f"{name}, two per key: the tenant with 50 keys takes one part of five", make, list(SIZES), share)
        for name, make in BY_TENANT
    ]
    lines = []
    for claim, make, sizes, slots in rows:
        parts = [of_the_slots(make, size) for size in sizes]
        worst = max(parts, key=lambda part: abs(part - slots / BURST_SLOTS))
        lines.append(
            Line(
                claim,
                "max-min by progressive filling, by key and by tenant",
                f"beside four people, 8 slots, everybody backlogged; {len(sizes)} kinds of sizes",
                f"{number(100 * worst)} % of the slots",
                f"{number(100 * slots / BURST_SLOTS)} %, ± 2 % of it",
                abs(worst * BURST_SLOTS / slots - 1) <= 0.02,
            )
        )
    for makes, claim, wanted in (
        (BY_KEY, "caps per key leave a person behind a burst on 50 keys as long as FIFO does", 61.5),
        (BY_TENANT, "a policy that is fair to tenants gives a person the next slot beside it", 0.5),
    ):
        waits = [wait_beside_a_burst(make) for _, make in makes]
        lines.append(
            Line(
                claim,
                "by hand: 500 s of work on 8 slots; a slot frees every second",
                f"500 requests of 1 s at 0, one more at 0.5 s; {', '.join(name for name, _ in makes)}",
                ", ".join(f"{number(float(wait))} s" for wait in waits),
                f"{wanted} s",
                all(wait == wanted for wait in waits),
            )
        )
    return lines


# -- kept and lent slots -----------------------------------------------------------------------------

BATCH, BATCH_SLOTS = 10.0, 4
"""Mean service of batch, seconds; how many slots it and chat share."""

Z_999 = 3.291  # two-sided 99.9 % of the normal distribution


@dataclass
class Seen:
    """What a run showed."""

    waits: list[float] = field(default_factory=list)  # of chat
    late: int = 0  # chat that began neither at once nor at the first end
    idle: set[int] = field(default_factory=set)  # how many slots were, whenever time passed
    batch: set[int] = field(default_factory=set)  # how many of its requests ran, whenever time passed

    def mean(self) -> tuple[float, float]:
        """Chat's mean wait and the half-width of its interval: one worker's waits are independent."""
        n = len(self.waits)
        mean = sum(self.waits) / n
        return mean, Z_999 * math.sqrt(sum((wait - mean) ** 2 for wait in self.waits) / (n - 1) / n)


def beside_batch(policy: Policy, asks: int, workers: int = 1, seed: int = 1) -> Seen:
    """Batch always has work; each of ``workers`` asks for 1 s, thinks 2 s in the mean, and asks again."""
    draw = random.Random(seed)
    seen = Seen()
    events: list[tuple[float, int, Request]] = []
    running = {"batch": 0, "chat": 0}
    due: dict[Request, float] = {}  # waiting chat: the first end after it came
    order = 0

    def later(request: Request, after: float) -> None:
        nonlocal order
        order += 1
        heappush(events, (now + after, order, request))

    now = 0.0
    for n in range(2 * BATCH_SLOTS):
        policy.put(Request("batch", 1, priority=1, arrival=0.0, service=draw.expovariate(1 / BATCH), id=n))
    for worker in range(workers):
        later(Request("chat", 1, service=1.0, id=worker), draw.expovariate(1 / 2))
    began: set[Request] = set()
    while True:
        while sum(running.values()) < BATCH_SLOTS:
            request = policy.get()
            if request is None:
                break
            running[request.tenant] += 1
            began.add(request)
            later(request, float(request.service or 0))
            if request.tenant == "batch":
                service = draw.expovariate(1 / BATCH)
                policy.put(Request("batch", 1, priority=1, arrival=now, service=service))
            else:
                arrival: Any = request.arrival
                seen.waits.append(now - arrival)
                seen.late += now not in (arrival, due.pop(request))
        if events[0][0] > now:
            seen.batch.add(running["batch"])
            seen.idle.add(BATCH_SLOTS - sum(running.values()))
        if len(seen.waits) >= asks:
            return seen
        now, _, request = heappop(events)
        if request in began:
            began.remove(request)
            policy.done(request)
            running[request.tenant] -= 1
            if request.tenant == "chat":
                later(Request("chat", 1, service=1.0), draw.expovariate(1 / 2))
        else:
            request = Request("chat", 1, service=1.0, arrival=now)
            policy.put(request)
            due[request] = min(end for end, _, other in events if other in began)


CHAT_FIRST: Make = partial(Priority, None)
KEPT: Make = lambda: Floors(FIFO(), {"chat": (["chat"], 2)}, slots=BATCH_SLOTS)  # noqa: E731
CAPPED: Make = lambda: KeyCaps(FIFO(), {"batch": 2})  # noqa: E731
LENT: Make = lambda: SoftCaps(FIFO(), {"batch": 2})  # noqa: E731

ASKS = 7_000


def kept_lines(name: str, make: Make, asks: int = 2_000) -> list[Line]:
    """Two slots are chat's alone: it never waits, and they idle without it."""
    seen = beside_batch(make(), asks, workers=2)
    how = f"4 slots, batch always has work; two chat workers, {asks:,} requests, random services and thinking"
    return [
        Line(
            f"{name}: chat within its two slots never waits for batch to end",
            "the contract",
            how,
            f"longest wait {number(max(seen.waits))} s",
            "0 s",
            max(seen.waits) == 0,
        ),
        Line(
            f"{name}: the price: batch runs two and never more, so two slots idle while chat is away",
            "the contract",
            how,
            f"batch ran {_numbers(seen.batch)}, idle {_numbers(seen.idle)}",
            "batch 2, idle 0 to 2",
            seen.batch == {2} and seen.idle == {0, 1, 2},
        ),
    ]


def lent_lines(name: str, make: Make, asks: int = ASKS) -> list[Line]:
    """No slot idles: what chat waits for is the first of four services to end."""
    seen = beside_batch(make(), asks)
    mean, half = seen.mean()
    wanted = BATCH / BATCH_SLOTS
    how = (
        f"4 slots, batch always has work, services exponential, mean 10 s; {asks:,} requests of a chat worker"
    )
    return [
        Line(
            f"{name}: no slot idles, and the first slot that frees is chat's",
            "the contract",
            how,
            f"idle {_numbers(seen.idle)}; {seen.late} later than the first end",
            "0; 0",
            seen.idle == {0} and not seen.late,
        ),
        Line(
            f"{name}: the price: chat's mean wait for that = {number(wanted)} s",
            "least of 4 exponential remainders: mean/4",
            f"{how}; 99.9 % interval",
            f"{number(mean)} ± {number(half)}",
            f"{number(wanted)}, ± ≤ 5 %",
            abs(mean - wanted) <= half and half <= 0.05 * wanted,
        ),
    ]


def _numbers(values: set[int]) -> str:
    return ", ".join(map(str, sorted(values)))


CHECKS: list[Callable[[], list[Line]]] = [
    key_lines,
    partial(kept_lines, "floors, two for chat", KEPT),
    partial(kept_lines, "a hard cap, two for batch", CAPPED),
    partial(lent_lines, "a soft cap, two for batch", LENT),
    partial(lent_lines, "strict priority for chat, nothing kept", CHAT_FIRST),
]
