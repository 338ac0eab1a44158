"""The rows of a capacity card as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from fairq.capacity import Card, UserRow
from fairq.capacity.words import in_service, number

SHOWN = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def table(card: Card) -> Table:
    """Rows of users: powers of two, what fits the promise, what can run, and the last one."""
    made = Table(caption_justify="left")
    if not in_service(card):
        return _in_flight(card)
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


def _in_flight(card: Card) -> Table:
    """The same where nobody knows who of those in flight was served."""
    made = Table()
    for name in ("in flight", "tokens/s in all", "each", "latency s"):
        made.add_column(name, justify="right", no_wrap=True)
    for row in chosen(card):
        rate, each = f"{row.tokens_per_s:,.0f}", number(row.tokens_per_s_per_user)
        made.add_row(f"{row.users:,}", rate, each, number(row.latency_s))
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
