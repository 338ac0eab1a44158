"""A capacity card as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from fairq.capacity import Card, UserRow
from fairq.commands._tables import number

SHOWN = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

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
    if card.extra.get("fit", {}).get("levels") == 1:
        seen = next(row for row in card.by_streams if row.measured_tokens_per_s is not None)
        return (
            f"{seen.streams:g} at once {number(seen.tokens_per_s)} tokens/s in all,"
            f" {number(seen.tokens_per_s_per_stream)} each (no other number of streams was seen)"
        )
    return (
        f"alone {number(alone.tokens_per_s)} tokens/s; {top.streams:g} at once {number(top.tokens_per_s)} in"
        f" all, {number(top.tokens_per_s_per_stream)} each"
    )


def lines(card: Card) -> Iterator[str]:
    """All but the table, in order."""
    shape = card.shape
    if shape is not None:
        taken = f" (means of {shape.requests:,} requests)" if shape.requests else ""
        yield (
            f"a request: {number(shape.prompt_tokens)} prompt + {number(shape.output_tokens)} generated"
            f" tokens{taken}, {number(shape.context_tokens)} of context on average while it runs"
        )
    walls = {"slots": card.limits.slots, "KV cache": card.limits.kv, "gateway": card.limits.gateway}
    known = ", ".join(f"{name} {value:,}" for name, value in walls.items() if value is not None)
    if card.limits.compute is not None:
        known += f"{', ' if known else ''}compute {card.limits.compute:,}"
    yield f"streams at once: {card.max_streams:,} ({known or 'no limit known'})"
    yield f"what binds: {BINDS[card.binds]}"
    yield from card.arithmetic
    yield from sums(card)
    if card.target is not None:
        promise = card.target
        pause = ""
        if promise.people is not None:
            pause = f", or {promise.people:,.0f} people who pause {card.think_s:g} s between requests"
        yield (
            f"promise: first token within {promise.ttft_s:g} s, then a token every"
            f" {promise.time_per_output_token_s * 1000:g} ms, on average: holds for {promise.users:,} users"
            f" at once{pause}" + (f"; {promise.why}" if promise.why else "")
        )
    yield from card.notes


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
    yield (
        f"this card: {here.streams:g} × {number(here.tokens_per_s_per_stream)} = {number(here.tokens_per_s)}"
        f" tokens/s{'' if here.streams == users else f' (no more than {here.streams:g} run)'}"
    )


def table(card: Card) -> Table:
    """Rows of users: powers of two, what fits the promise, what can run, and the last one."""
    made = Table(caption_justify="left")
    think = card.think_s is not None
    names = [
        "users",
        "running",
        "waiting",
        "tokens/s in all",
        "each",
        "= arithmetic",
        "first token s",
        "token ms",
    ]
    if think:
        names.append("people")
    for name in names:
        made.add_column(name, justify="right", no_wrap=True)
    for row in chosen(card):
        made.add_row(*_cells(row, think))
    return made


def chosen(card: Card, shown: Sequence[int] = SHOWN) -> list[UserRow]:
    """The rows worth showing."""
    marks = {*shown, card.max_streams, len(card.by_users)}
    if card.target is not None:
        marks.add(card.target.users)
    return [row for row in card.by_users if row.users in marks]


def _cells(row: UserRow, think: bool) -> list[str]:
    each = row.tokens_per_s / row.streams
    cells: list[Any] = [
        f"{row.users:,}",
        f"{row.streams:,}",
        f"{row.waiting:,}" if row.waiting else "–",
        f"{row.tokens_per_s:,.0f}",
        number(row.tokens_per_s_per_user),
        f"{row.streams:,} × {each:.1f}",
        number(row.ttft_s) if row.ttft_s else "–",
        number(1000 * row.time_per_output_token_s),
    ]
    return [*cells, number(row.people or 0)] if think else cells
