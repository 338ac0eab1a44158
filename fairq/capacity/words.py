"""A capacity card in sentences: for a terminal, and for the lab."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fairq.capacity.card import Card

BINDS = {
    "slots": "the engine's slots (max_num_seqs, -np)",
    "gateway": "the gateway's limit",
    "KV": "the KV cache",
    "compute": "the GPU itself: one more stream adds next to nothing",
    "": "nothing that was seen",
}


def headline(card: Card) -> str:
    """What to tell people, in a line."""
    alone, top = card.by_streams[0], card.top
    if not in_service(card):
        first = "alone" if alone.streams == 1 else f"{alone.streams:g} in flight"
        return (
            f"{first} {number(alone.tokens_per_s)} tokens/s; at most {number(top.tokens_per_s)} in all was"
            f" measured, with {top.streams:g} in flight (the log does not tell how many ran)"
        )
    seen = next((row for row in card.by_streams if row.measured_tokens_per_s is not None), None)
    if seen is not None and card.extra.get("fit", {}).get("levels") == 1:
        return (
            f"{seen.streams:g} at once {number(seen.tokens_per_s)} tokens/s in all,"
            f" {number(seen.tokens_per_s_per_stream)} each (no other number of streams was seen)"
        )
    carried = " (by the line, not measured)" if card.extra.get("measured_from", 1) > 1 else ""
    return (
        f"alone {number(alone.tokens_per_s)} tokens/s{carried}; {top.streams:g} at once"
        f" {number(top.tokens_per_s)} in all, {number(top.tokens_per_s_per_stream)} each"
    )


def lines(card: Card) -> Iterator[str]:
    """All but the table, in order."""
    yield from card.caveats
    shape = card.shape
    if shape is not None:
        taken = f" (means of {shape.requests:,} requests)" if shape.requests else ""
        yield (
            f"a request: {number(shape.prompt_tokens)} prompt + {number(shape.output_tokens)} generated"
            f" tokens{taken}, {number(shape.context_tokens)} of context on average while it runs"
        )
    if not in_service(card):
        yield f"in flight at once, served or waiting: {card.max_streams:,}"
        yield from card.arithmetic
        yield from card.notes
        return
    walls = {"slots": card.limits.slots, "KV cache": card.limits.kv, "gateway": card.limits.gateway}
    known = ", ".join(f"{name} {value:,}" for name, value in walls.items() if value is not None)
    if card.limits.compute is not None:
        known += f"{', ' if known else ''}compute {card.limits.compute:,}"
    yield f"streams at once: {card.max_streams:,} ({known or 'no limit known'})"
    yield binding(card)
    yield from card.arithmetic
    yield from sums(card)
    yield from promise(card)
    yield from card.notes


def few_lines(card: Card) -> Iterator[str]:
    """The card where there is little room: what to tell people, what binds, the promise, what to know."""
    yield f"capacity ({card.source}): {headline(card)}"
    yield from card.caveats
    if in_service(card):
        yield binding(card)
    yield from promise(card)
    yield from card.notes


def in_service(card: Card) -> bool:
    """Whether the rows are of requests in service; else of those in flight, waiting ones included."""
    return bool(card.extra.get("in_service", True))


def binding(card: Card) -> str:
    """What keeps the total from growing."""
    return f"what binds: {BINDS[card.binds]}"


def promise(card: Card) -> Iterator[str]:
    """For how many users at once the promise holds, and why not for more; nothing without one."""
    if card.target is None:
        return
    target, pause = card.target, ""
    if target.people is not None:
        pause = f", or {target.people:,.0f} people who pause {card.think_s:g} s between requests"
    yield (
        f"promise: first token within {target.ttft_s:g} s, then a token every"
        f" {target.time_per_output_token_s * 1000:g} ms, on average: holds for {target.users:,} users"
        f" at once{pause}" + (f"; {target.why}" if target.why else "")
    )


def sums(card: Card) -> Iterator[str]:
    """Total and each, so that nobody quotes one number of users' total with another's share."""
    top = card.top
    few = card.at(min(8, card.max_streams))
    yield (
        f"{top.streams:g} streams × {top.tokens_per_s_per_stream:.1f} = {top.tokens_per_s:,.0f} tokens/s:"
        " the most it makes"
    )
    if few.streams != top.streams:
        yield (
            f"{few.streams:g} × {few.tokens_per_s_per_stream:.1f} = {few.tokens_per_s:,.0f}: {few.streams:g}"
            f" users do not share {top.tokens_per_s:,.0f}, a total belongs to its number of streams"
        )


def claim_lines(card: Card, total: float, each: float, users: int) -> Iterator[str]:
    """Whether "``total`` tokens/s in total; ``each`` each at ``users`` users" can be true."""
    product, means = each * users, total / each
    here = card.at(users)
    yield f"the note says: {number(total)} tokens/s in total, {number(each)} each at {users} users"
    if abs(product / total - 1) < 0.05:
        yield f"{users} × {number(each)} = {number(product)}: the figures agree with each other"
    else:
        factor = max(total / product, product / total)
        yield (
            f"{users} × {number(each)} = {number(product)}, not {number(total)}: wrong by {factor:.1f}×, or"
            f" the total means {number(means)} streams ({number(total)} / {number(each)})"
        )
    ran = f"no more than {here.streams:g} {'run' if in_service(card) else 'were in flight'}"
    yield (
        f"this card: {here.streams:g} × {number(here.tokens_per_s_per_stream)} = {number(here.tokens_per_s)}"
        f" tokens/s{'' if here.streams == users else f' ({ran})'}"
    )


def number(value: float) -> str:
    """Three figures or so: 0.053, 4.30, 32.7, 1,139; a dash for what did not happen."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 or value == 0 else f"{value:.3f}"
