"""The numbers of fairq/policies/README.md: every table there is printed here and written between its markers.

    uv run python benchmarks/policy_page.py           # print the tables
    uv run python benchmarks/policy_page.py --write   # write them into the page

A test compares the page with what this prints. Nothing is timed: the numbers are the same everywhere.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from fairq import (
    DRR,
    FIFO,
    SFQ,
    VTC,
    Floors,
    KeyCaps,
    Levels,
    Nested,
    Policy,
    Priority,
    Request,
    Shortest,
    SoftCaps,
)
from fairq.counterexamples import ChargeAtTheEnd, DeficitWithoutQuantum, NoLift, RoundRobin
from fairq.prove.caps import LARGEST as LARGEST_SIZE
from fairq.prove.caps import LARGEST_OF, TEAM, random_setting
from fairq.prove.loop import serve
from fairq.prove.maxmin import fill_under_caps

PAGE = Path(__file__).parents[1] / "fairq" / "policies" / "README.md"

Table = list[list[str]]
Make = Callable[[], Policy]


# -- shares while backlogged ---------------------------------------------------------------------------

WEIGHTS = {"a": 2, "b": 1}
LARGEST = {"a": 1000, "b": 100}
SLOTS, EACH, QUANTUM = 8, 2000, 1000


def backlog() -> list[Request]:
    """a (weight 2) asks for 1 to 1,000 tokens, b for 1 to 100; a slot makes 100 tokens a second."""
    draw = random.Random(1)
    requests = []
    for _ in range(EACH):
        for tenant in "ab":
            cost = draw.randint(1, LARGEST[tenant])
            requests.append(Request(tenant, cost, arrival=0, service=Fraction(cost, 100)))
    return requests


def spread(policy: Policy) -> Fraction:
    """The largest |D_a/2 − D_b/1| over all stretches in which both wait (D: tokens dispatched)."""
    left = dict.fromkeys(WEIGHTS, EACH)
    low = high = at = worst = Fraction(0)
    for request, _, _ in serve(policy, SLOTS, backlog()):
        at += Fraction(request.cost, WEIGHTS[request.tenant]) * (1 if request.tenant == "a" else -1)
        worst = max(worst, at - low, high - at)
        low, high = min(low, at), max(high, at)
        left[request.tenant] -= 1
        if not all(left.values()):
            break
    return worst


def shares() -> Table:
    one_each = sum(Fraction(LARGEST[t], WEIGHTS[t]) for t in WEIGHTS)
    sound: dict[str, tuple[Make, Fraction | None]] = {
        "`DRR(1000)`": (lambda: DRR(QUANTUM, WEIGHTS), QUANTUM + one_each),
        "`VTC`": (lambda: VTC(WEIGHTS), one_each),
        "`SFQ`": (lambda: SFQ(WEIGHTS), one_each),
        "`Nested`, a branch each": (lambda: Nested({}, lambda branch: FIFO(), WEIGHTS), one_each),
        "`FIFO`": (FIFO, None),
        "`Shortest`": (Shortest, None),
        "`RoundRobin` (counterexample)": (RoundRobin, None),
        "`DeficitWithoutQuantum` (counterexample)": (lambda: DeficitWithoutQuantum(WEIGHTS), None),
        "`ChargeAtTheEnd` (counterexample)": (lambda: ChargeAtTheEnd(WEIGHTS), None),
    }
    rows = [["policy", "largest difference, tokens per weight", "bound"]]
    for name, (make, bound) in sound.items():
        rows.append([name, number(spread(make())), "none" if bound is None else number(bound)])
    return rows


# -- estimates that are wrong, and coming back -----------------------------------------------------------


def declared(make: Make, settle: bool) -> float:
    """a declares 10 tokens, b 100; both take 100, and a second on one of four slots: a's tokens over b's."""
    policy = make()
    requests = [Request(t, 10 if t == "a" else 100, arrival=0, service=1) for _ in range(2000) for t in "ab"]
    done = (lambda request: policy.done(request, 100)) if settle else None
    first = [request.tenant for request, start, _ in serve(policy, 4, requests, done) if start < 250]
    return first.count("a") / first.count("b")


def returns(make: Make) -> float:
    """One slot, a second a request: a is always busy, b was away for 1,000 s. b's part of the next 100 s."""
    requests = [Request("a", 100, arrival=0, service=1) for _ in range(1400)]
    requests += [Request("b", 100, arrival=at, service=1) for at in [0] + [1000] * 300]
    window = [request.tenant for request, start, _ in serve(make(), 1, requests) if 1000 <= start < 1100]
    return window.count("b") / len(window)


def honesty() -> Table:
    makes: dict[str, Make] = {
        "`DRR(100)`": lambda: DRR(100),
        "`VTC`": VTC,
        "`SFQ`": SFQ,
        "`NoLift` (counterexample)": NoLift,
        "`FIFO`": FIFO,
    }
    rows = [
        [
            "policy",
            "declaring a tenth gets, true cost settled",
            "… not settled",
            "back after 1,000 s: part of the slot",
        ]
    ]
    for name, make in makes.items():
        rows.append(
            [name, *(f"{declared(make, s):.2f} ×" for s in (True, False)), f"{100 * returns(make):.0f} %"]
        )
    return rows


# -- caps --------------------------------------------------------------------------------------------------


def in_flight(make: Make) -> list[float]:
    """Four slots, cap 2 per key, weights 4:2:1, equal requests, all backlogged: mean slots held."""
    weights = {"a": 4, "b": 2, "c": 1}
    requests = [Request(t, 1, arrival=0, service=1) for _ in range(4000) for t in weights]
    served = [s for s in serve(make(), 4, requests) if s.start < 1000]
    return [sum(s.request.tenant == t for s in served) / 1000 for t in weights]


def caps() -> Table:
    weights = {"a": 4, "b": 2, "c": 1}
    right = fill_under_caps(4, weights, weights, [([t], 2) for t in weights])
    makes: dict[str, Make] = {
        "`DRR`": lambda: DRR(4, weights),
        "`VTC`": lambda: VTC(weights),
        "`SFQ`": lambda: SFQ(weights),
        "`FIFO`": FIFO,
    }
    rows = [["under `KeyCaps(…, default=2)`", "weight 4", "weight 2", "weight 1"]]
    rows.append(["weighted max-min (computed)", *(f"{right[t]:.2f}" for t in weights)])
    for name, make in makes.items():
        held = in_flight(lambda make=make: KeyCaps(make(), default=2))  # type: ignore[misc]
        rows.append([name, *(f"{slots:.2f}" for slots in held)])
    return rows


SETTINGS = 24


def random_caps() -> Table:
    """Slots held, against weighted max-min: how far off the tenant is that is furthest off."""
    makes: dict[str, Callable[[float, dict[str, float]], Policy]] = {
        "`DRR`, quantum an eighth of the largest cost": lambda largest, weights: DRR(largest / 8, weights),
        "`DRR`, quantum the largest cost": lambda largest, weights: DRR(largest, weights),
        "`DRR`, quantum four times the largest cost": lambda largest, weights: DRR(4 * largest, weights),
        "`VTC`": lambda largest, weights: VTC(weights),
        "`SFQ`": lambda largest, weights: SFQ(weights),
    }
    rows = [["off the max-min shares by", "median", "worst", "above 5 %", "team in an organisation"]]
    for name, make in makes.items():
        off = []
        for seed in range(SETTINGS):
            size = list(LARGEST_OF)[seed % len(LARGEST_OF)]
            off.append(random_setting(seed).error(partial(make, LARGEST_OF[size]), size, seed, 1_500))
        team = TEAM.error(partial(make, LARGEST_SIZE), "exponential", 0, 1_500)
        over = sum(each > 0.05 for each in off)
        rows.append([name, *(f"{100 * x:.1f} %" for x in (median(off), max(off))), f"{over} of {len(off)}"])
        rows[-1].append(f"{100 * team:.1f} %")
    return rows


def price_of(wrap: Callable[[Policy], Policy]) -> list[str]:
    """Four slots, 1,000 s: batch always has work of 10 s, chat asks for 1 s every 7 s."""
    requests = [Request("batch", 10, arrival=0, service=10) for _ in range(400)]
    requests += [Request("chat", 1, arrival=5 + 7 * n, service=1) for n in range(140)]
    served = [s for s in serve(wrap(VTC()), 4, requests) if s.start < 1000]
    waits = [s.start - s.request.arrival for s in served if s.request.tenant == "chat"]
    busy = sum(min(s.finish, 1000) - s.start for s in served)
    return [f"{sum(waits) / len(waits):.1f} s", f"{max(waits)} s", f"{busy / 40:.0f} %"]


def price() -> Table:
    wraps: dict[str, Callable[[Policy], Policy]] = {
        "`VTC()` alone": lambda policy: policy,
        '`SoftCaps(VTC(), {"batch": 2})`': lambda policy: SoftCaps(policy, {"batch": 2}),
        '`Floors(VTC(), {"chat": (["chat"], 1)}, slots=4)`': lambda policy: Floors(
            policy, {"chat": (["chat"], 1)}, slots=4
        ),
        '`KeyCaps(VTC(), {"batch": 2})`': lambda policy: KeyCaps(policy, {"batch": 2}),
    }
    rows = [["policy", "chat waits, mean", "longest", "slots busy"]]
    return rows + [[name, *price_of(wrap)] for name, wrap in wraps.items()]


# -- levels ------------------------------------------------------------------------------------------------


def overload(make: Make) -> list[str]:
    """One slot, 600 s: level 0 brings 1.2 s of work a second, level 1 a request of one second every 10 s."""
    requests = [Request("chat", 1, arrival=Fraction(5 * n, 6), service=1) for n in range(720)]
    requests += [Request("batch", 1, priority=1, arrival=10 * n, service=1) for n in range(60)]
    served = [s for s in serve(make(), 1, requests) if s.start <= 600]
    batch = [s.start - s.request.arrival for s in served if s.request.tenant == "batch"]
    chat = [s.start - s.request.arrival for s in served if s.request.tenant == "chat"]
    worst = f"{float(max(batch)):.0f} s" if batch else "–"
    return [f"{len(batch)} of 60", worst, f"{float(max(chat)):.0f} s"]


def starving() -> Table:
    makes: dict[str, Make] = {
        "`Priority(ageing=None)`": lambda: Priority(ageing=None),
        "`Levels({0: VTC(), 1: VTC()})`": lambda: Levels({0: VTC(), 1: VTC()}),
        "`Levels({0: VTC(), 1: VTC()}, ageing=20)`": lambda: Levels({0: VTC(), 1: VTC()}, ageing=20),
        "`Priority(ageing=20)`": lambda: Priority(ageing=20),
        "`VTC()`, no levels": VTC,
    }
    rows = [["policy", "level 1 served", "its longest wait", "level 0's longest wait"]]
    return rows + [[name, *overload(make)] for name, make in makes.items()]


# -- keys --------------------------------------------------------------------------------------------------


def keys() -> Table:
    from fairq.scenario import Scenario
    from fairq.sim import simulate

    scenario = Scenario.load("fifty_keys")
    rows = [["policy", "a person's median wait", "all is done after"]]
    for name in scenario.policies:
        result = simulate(scenario.workload(), scenario.policy(name), scenario.engine(), seed=scenario.seed)
        wait = result.latency(by="group").loc["chat", "wait_p50"]
        rows.append([name, f"{wait:.1f} s", f"{result.requests['finish'].max():.0f} s"])
    return rows


# -- the page ----------------------------------------------------------------------------------------------

TABLES: dict[str, Callable[[], Table]] = {
    "shares": shares,
    "honesty": honesty,
    "keys": keys,
    "caps": caps,
    "random caps": random_caps,
    "price": price,
    "starving": starving,
}


def number(value: Any) -> str:
    return f"{float(value):,.0f}"


def markdown(table: Table) -> str:
    head, *rows = table
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def fill_in(page: str) -> str:
    """The page with every table made anew between ``<!-- name -->`` and ``<!-- end -->``."""
    for name, table in TABLES.items():
        made = f"<!-- {name} -->\n{markdown(table())}\n<!-- end -->"
        page, found = re.subn(
            rf"<!-- {name} -->\n.*?<!-- end -->", lambda _, made=made: made, page, flags=re.DOTALL
        )
        if found != 1:
            raise SystemExit(f"{PAGE}: {found} places for the table {name!r}, expected 1")
    return page


def main(arguments: list[str]) -> None:
    if arguments == ["--write"]:
        PAGE.write_text(fill_in(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        for name, table in TABLES.items():
            print(f"{name}\n\n{markdown(table())}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
