"""Random calls under caps, soft caps and floors that change live: books kept apart, in plain counts.

Nobody is lost or served twice; no slot idles while somebody waits who may run; nobody runs who may not, and
a slot is lent only while nobody within its cap waits. Who goes first is not asked here: see ``agree``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fairq.policies.base import Policy
from fairq.policies.caps import KeyCaps
from fairq.policies.floors import Floors
from fairq.policies.soft_caps import SoftCaps
from fairq.prove.agree import random_case, random_limit, random_request
from fairq.prove.laws import POLICIES
from fairq.prove.line import Line
from fairq.request import Request

TENANTS = "abcde"
KEYS = [tenant + more for tenant in TENANTS for more in ("", "2")]
SLOTS = 5

Limits = dict[str, int | None]
"""Key → how many of it may run; a key not named has no limit. Of "g": the group's."""


@dataclass
class Books:
    """What was asked for and what runs: the truth that a policy's answers are held to."""

    hard: Limits = field(default_factory=dict)
    soft: Limits = field(default_factory=dict)
    group: list[str] = field(default_factory=list)  # the keys of "g"
    floors: dict[str, int] = field(default_factory=dict)  # key → slots kept for it
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)

    def runs(self, key: str) -> int:
        return sum(request.key == key for request in self.running)

    def within(self, key: str, limits: Limits) -> bool:
        """Whether one more of a key is within its limit, and its group's."""
        own = limits.get(key)
        if own is not None and self.runs(key) >= own:
            return False
        shared = limits.get("g") if key in self.group else None
        return shared is None or sum(map(self.runs, self.group)) < shared

    def may(self, key: str) -> bool:
        """Whether one more of a key may run: below its hard caps, in a slot that is not kept for others."""
        kept = sum(max(0, n - self.runs(k)) for k, n in self.floors.items() if k != key)
        return self.within(key, self.hard) and SLOTS - len(self.running) > kept

    def able(self) -> list[str]:
        """Keys of those who wait and may run."""
        return [request.key for request in self.waiting if self.may(request.key)]


@dataclass
class Wrapped:
    """A policy in its wrappers, the books, and how to change a limit in both."""

    policy: Policy
    books: Books
    changes: list[Callable[[random.Random], None]]


Wrap = Callable[[Policy, random.Random], Wrapped]


def _limits(draw: random.Random) -> tuple[dict[str, int | None], list[str], int | None]:
    own = {key: random_limit(draw) for key in KEYS if draw.random() < 0.5}
    return own, draw.sample(KEYS, draw.randint(1, 6)), random_limit(draw)


def _change(policy: KeyCaps, limits: Limits) -> Callable[[random.Random], None]:
    def change(draw: random.Random) -> None:
        name, limit = draw.choice([*KEYS, "g"]), random_limit(draw)
        policy.set_group_cap(name, limit) if name == "g" else policy.set_cap(name, limit)
        limits[name] = limit

    return change


def under_caps(inner: Policy, draw: random.Random) -> Wrapped:
    own, group, limit = _limits(draw)
    policy = KeyCaps(inner, own, groups={"g": (group, limit)})
    books = Books(hard={**own, "g": limit}, group=group)
    return Wrapped(policy, books, [_change(policy, books.hard)])


def under_soft_caps(inner: Policy, draw: random.Random) -> Wrapped:
    own, group, limit = _limits(draw)
    policy = SoftCaps(inner, own, groups={"g": (group, limit)})
    books = Books(soft={**own, "g": limit}, group=group)
    return Wrapped(policy, books, [_change(policy, books.soft)])


def over_floors(inner: Policy, draw: random.Random) -> Wrapped:
    floors = {key: draw.randint(0, 2) for key in draw.sample(KEYS, 2)}
    policy = Floors(inner, {key: ([key], n) for key, n in floors.items()}, SLOTS)
    books = Books(floors=floors)

    def change(draw: random.Random) -> None:
        key, n = draw.choice(list(floors)), draw.randint(0, 2)
        policy.set_floor(key, n)
        floors[key] = n

    return Wrapped(policy, books, [change])


def under_all(inner: Policy, draw: random.Random) -> Wrapped:
    """Floors around caps around soft caps. The caps have no groups of their own."""
    soft = under_soft_caps(inner, draw)
    own = {key: random_limit(draw) for key in KEYS if draw.random() < 0.3}
    caps = KeyCaps(soft.policy, own)
    kept = over_floors(caps, draw)
    books = Books(hard=own, soft=soft.books.soft, group=soft.books.group, floors=kept.books.floors)

    def change(draw: random.Random) -> None:
        key, limit = draw.choice(KEYS), random_limit(draw)
        caps.set_cap(key, limit)
        own[key] = limit

    return Wrapped(kept.policy, books, [*soft.changes, *kept.changes, change])


WRAPS: dict[str, Wrap] = {
    "caps": under_caps,
    "soft caps": under_soft_caps,
    "floors": over_floors,
    "floors around caps around soft caps": under_all,
}


@dataclass
class Faults:
    """What went wrong, and how much was looked at."""

    calls: int = 0
    idle: int = 0  # a slot free and nobody given, though one who waits may run
    held: int = 0  # given, though it may not run; or lent, though one within its cap waits
    lost: int = 0  # not given in the end, given twice, given and never put, or still waiting for the policy

    def __add__(self, other: Faults) -> Faults:
        return Faults(
            self.calls + other.calls,
            self.idle + other.idle,
            self.held + other.held,
            self.lost + other.lost,
        )


def life(make: Callable[[Any], Policy], wrap: Wrap, seed: int, steps: int = 60) -> Faults:
    """Random puts, gets, charges, ends, cancels and changed limits; then everything is let go and served."""
    draw = random.Random(seed)
    it = wrap(make(random_case(seed)), draw)
    policy, books, faults = it.policy, it.books, Faults()

    def dispatch(now: int) -> None:
        """Fill the slots, as a gateway does after every event."""
        while len(books.running) < SLOTS:
            faults.calls += 1
            given = policy.get(now=now)
            able = books.able()
            if given is None:
                faults.idle += bool(able)
                return
            if given not in books.waiting:
                faults.lost += 1
                return
            lent = not books.within(given.key, books.soft)
            faults.held += given.key not in able or (
                lent and any(books.within(key, books.soft) for key in able)
            )
            books.waiting.remove(given)
            books.running.append(given)

    def end(cost: int | None) -> None:
        policy.done(books.running.pop(draw.randrange(len(books.running))), cost)

    for step in range(steps):
        verb = draw.random()
        faults.calls += 1
        if verb < 0.45:
            request = random_request(draw, TENANTS, step, step)
            policy.put(request)
            books.waiting.append(request)
        elif verb < 0.65 and books.running:
            end(draw.choice([None, draw.randint(0, 60)]))
        elif verb < 0.75 and books.running:
            policy.charge(draw.choice(books.running), draw.randint(0, 60))
        elif verb < 0.83 and books.waiting:
            gone = books.waiting.pop(draw.randrange(len(books.waiting)))
            faults.lost += not policy.cancel(gone)
        elif verb >= 0.83:
            draw.choice(it.changes)(draw)
        if draw.random() < 0.7:
            dispatch(step)
        faults.lost += len(policy) != len(books.waiting) or policy.running != len(books.running)
    for limits in (books.hard, books.soft):
        for name in limits:
            limits[name] = None
    for key in books.floors:
        books.floors[key] = 0
    _let_go(policy)
    for _ in range(len(books.waiting)):
        dispatch(steps)
        if books.running:
            end(None)
    dispatch(steps)
    faults.lost += len(books.waiting) + len(policy)
    return faults


def _let_go(policy: Any) -> None:
    """Lift every limit, in every wrapper."""
    while isinstance(policy, KeyCaps | Floors):
        if isinstance(policy, Floors):
            for name in policy.snapshot()["floors"]:
                policy.set_floor(name, 0)
        else:
            for key in KEYS:
                policy.set_cap(key, None)
            for name in policy.snapshot()["caps"]["groups"]:
                policy.set_group_cap(name, None)
        policy = policy.inner


def live_limit_lines(name: str, seeds: range = range(12)) -> list[Line]:
    total = Faults()
    for make in POLICIES.values():
        for seed in seeds:
            total += life(make, WRAPS[name], seed)
    how = (
        f"{len(POLICIES)} policies × {len(seeds)} × 60 random puts, charges, ends, cancels and new limits, "
        f"a get after most; {total.calls:,} calls, against plain counts"
    )
    rows = [
        ("no slot idles while somebody waits who may run", "idle slots", total.idle),
        ("nobody runs whom a limit holds back", "run", total.held),
        ("no request is lost or served twice", "lost", total.lost),
    ]
    return [
        Line(
            f"Under {name} that change live: {claim}",
            "the contract",
            how,
            f"{count} {what}",
            "0; > 1,000 calls",
            count == 0 and total.calls > 1_000,
        )
        for claim, what, count in rows
    ]


CHECKS: list[Callable[[], list[Line]]] = [partial(live_limit_lines, name) for name in WRAPS]
