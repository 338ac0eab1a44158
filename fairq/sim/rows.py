"""What happened, kept lean while it happens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairq.request import Number, Request


class Rows:
    """The record of a run; times are seconds, kept as given.

    ``arrived``: the requests that came, in the order they were put (those refused included).
    The others have an entry per request that got a slot, in dispatch order: ``request``, ``start``, ``slot``,
    and what is ``None`` until it happens: ``first_token`` (stays ``None`` where the answer comes as a whole)
    and ``finish``; ``extra``: what the engine counts per job, name → values.
    ``left``: the requests that went away unserved → (status, seconds).
    """

    __slots__ = ("arrived", "extra", "finish", "first_token", "left", "request", "slot", "start")

    def __init__(self, extra: Iterable[str]) -> None:
        self.arrived: list[Request] = []
        self.request: list[Request] = []
        self.start: list[Number] = []
        self.slot: list[int] = []
        self.first_token: list[Number | None] = []
        self.finish: list[Number | None] = []
        self.extra: dict[str, list[Any]] = {name: [] for name in extra}
        self.left: dict[Request, tuple[str, Number]] = {}
