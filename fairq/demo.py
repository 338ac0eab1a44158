"""``python -m fairq.demo``: one small burst, first come first served and fair, side by side.

One slot serves one request at a time. Needs nothing but Python; everything shown of the fair queue's
reasoning is what ``policy.snapshot()`` says of itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from fairq import DRR, FIFO, Request
from fairq.request import Number

TOKENS_PER_S = 100
"""How fast the slot of this demo serves."""

BURST = (("nightly", (400,) * 6), ("ana", (200, 200, 200)), ("ben", (500, 300)))
"""Who asks, in this order, all at once: tenant and the tokens of each request."""

INTRODUCTION = """\
One slot serves one request at a time, 100 tokens a second. At 0 s nightly sends
six requests of 400 tokens; right after it ana sends three of 200, and ben one
of 500 and one of 300."""


@dataclass(frozen=True)
class Send:
    """One request as the fair queue sent it: in which round, and the tenant's credit."""

    request: Request
    round: int
    gain: Number
    credit: Number
    left: Number


@dataclass(frozen=True)
class Turn:
    """What one round did to one tenant's credit; ``leaves``: its line is empty, what is left is forfeited."""

    had: Number
    gained: Number
    sent: Number
    left: Number
    leaves: bool


def burst() -> list[Request]:
    """The requests, named like ``ana-2``."""
    return [
        Request(tenant, tokens, id=f"{tenant}-{i}")
        for tenant, sizes in BURST
        for i, tokens in enumerate(sizes, 1)
    ]


def fifo_order() -> list[Request]:
    """The burst, first come first served."""
    policy = FIFO()
    for request in burst():
        policy.put(request)
    order = []
    while (served := policy.get()) is not None:
        order.append(served)
        policy.done(served)
    return order


def drr_order(quantum: Number, weights: Mapping[str, Number] | None = None) -> list[Send]:
    """The burst by deficit round robin, with the accounts at each send."""
    policy = DRR(quantum, weights)
    for request in burst():
        policy.put(request)
    sends = []
    while len(policy):
        before = policy.snapshot()
        account = before["accounts"][before["next"]["tenant"]]
        # It gains once per visit, up to the one in which it can pay.
        visits = account["due"] - account["round"]
        credit = account["deficit"] + visits * account["gain"]
        served = policy.get()
        assert served is not None
        sends.append(Send(served, account["due"], account["gain"], credit, credit - served.cost))
        policy.done(served)
    return sends


def turns(sends: Sequence[Send]) -> dict[int, dict[str, Turn]]:
    """Round in which somebody sends → tenant in the ring → its turn.

    What was gained in rounds without a send counts in the next one with a send.
    """
    rounds = sorted({send.round for send in sends})
    table: dict[int, dict[str, Turn]] = {number: {} for number in rounds}
    for tenant, _ in BURST:
        mine = [send for send in sends if send.request.tenant == tenant]
        left: Number = 0
        for before, number in pairwise([0, *rounds]):
            if number > mine[-1].round:
                break
            gained = (number - before) * mine[0].gain
            sent = sum(send.request.cost for send in mine if send.round == number)
            table[number][tenant] = Turn(left, gained, sent, left + gained - sent, number == mine[-1].round)
            left += gained - sent
    return table


# -- for people ---------------------------------------------------------------------------------------------


def show(quantum: Number, weights: Mapping[str, Number]) -> str:
    """The whole page, at most 80 columns for sensible quanta."""
    fifo, drr = fifo_order(), drr_order(quantum, weights)
    weighted = "".join(f", {tenant} weighs {weight:g}" for tenant, weight in weights.items())
    return "\n\n".join(
        [
            INTRODUCTION,
            _orders(fifo, drr, f"DRR, quantum {quantum:g}{weighted}"),
            _credits(turns(drr)),
            _last_answers(fifo, [send.request for send in drr]),
        ]
    )


def _orders(fifo: Sequence[Request], drr: Sequence[Send], title: str) -> str:
    lines = [
        f"    {'FIFO':<27}  {title}",
        f"    {'request':<11}{'tokens':>6}{'done':>8}      round  {'request':<11}{'tokens':>6}{'done':>8}"
        f"{'credit':>13}",
    ]
    done = zip(_done(fifo), _done([send.request for send in drr]), strict=True)
    for place, (first, send, (at, fair_at)) in enumerate(zip(fifo, drr, done, strict=True), 1):
        credit = f"{send.credit:g} -> {send.left:g}"
        lines.append(
            f"{place:>2}  {first.id:<11}{first.cost:>6}{at:>6g} s  {send.round:>9}  "
            f"{send.request.id:<11}{send.request.cost:>6}{fair_at:>6g} s{credit:>13}"
        )
    return "\n".join(lines)


def _credits(table: Mapping[int, Mapping[str, Turn]]) -> str:
    tenants = [tenant for tenant, _ in BURST]
    lines = [
        "credit of each round: had + gained - sent = left",
        (" " * 9 + "".join(f"{tenant:<23}" for tenant in tenants)).rstrip(),
    ]
    for number, row in table.items():
        cells = [_turn(row[tenant]) if tenant in row else "-" for tenant in tenants]
        lines.append((f"{number:>5}    " + "".join(f"{cell:<23}" for cell in cells)).rstrip())
    notes = ["* its line is empty: it leaves the ring and forfeits what is left"]
    if max(table) > len(table):
        notes.append("rounds in which nobody can pay are left out; their credit is in the next one")
    return "\n".join(lines + notes)


def _turn(turn: Turn) -> str:
    return f"{turn.had:g} + {turn.gained:g} - {turn.sent:g} = {turn.left:g}" + (" *" if turn.leaves else "")


def _last_answers(fifo: Sequence[Request], drr: Sequence[Request]) -> str:
    lines = [f"{'last answer':<13}{'FIFO':>6}{'DRR':>10}"]
    for tenant, _ in BURST:
        before, after = (
            max(at for at, request in zip(_done(order), order, strict=True) if request.tenant == tenant)
            for order in (fifo, drr)
        )
        change = f"{abs(after - before):g} s {'later' if after > before else 'sooner'}"
        lines.append(
            f"{tenant:<11}{before:>6g} s{after:>8g} s   {change if after != before else 'as before'}"
        )
    return "\n".join([*lines, "The slot is never idle: both orders are done at the same time."])


def _done(order: Sequence[Request]) -> list[float]:
    """Seconds at which each request of an order is done."""
    return [total / TOKENS_PER_S for total in accumulate(request.cost for request in order)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(
        prog="python -m fairq.demo", description="One small burst: first come first served, and fair."
    )
    parser.add_argument("--quantum", type=float, default=400, help="tokens gained per turn (default 400)")
    parser.add_argument(
        "--weight", action="append", default=[], metavar="TENANT=W", help="nightly, ana or ben; default 1"
    )
    asked = parser.parse_args(arguments)
    try:
        page = show(asked.quantum, dict(_weight(text) for text in asked.weight))
    except ValueError as error:
        parser.error(str(error))
    print(page)


def _weight(text: str) -> tuple[str, float]:
    tenant, _, weight = text.partition("=")
    if tenant not in dict(BURST):
        raise ValueError(f"--weight: there is no tenant {tenant!r}, only {', '.join(dict(BURST))}")
    try:
        return tenant, float(weight)
    except ValueError:
        raise ValueError(f"--weight {tenant}: must be a number > 0, got {weight!r}") from None


if __name__ == "__main__":
    main()
