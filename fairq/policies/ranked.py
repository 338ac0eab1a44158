"""Policies that order all requests by a rank fixed when they come: FIFO, priority, shortest first."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from fairq.policies.base import Queue
from fairq.policies.lines import Entry, Gate, Line, Pool
from fairq.request import Number, Request


class Ranked(Queue):
    """Serves the smallest rank among the keys that may run; ties: earlier arrival, order of put."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[Any, Line] = {}
        self._counts: dict[str, int] = {}
        self._pool = Pool()

    @abstractmethod
    def _rank(self, request: Request, arrival: Number) -> Number:
        """The smaller, the earlier served."""

    def _line_of(self, request: Request) -> Any:
        """The name of its line. A line holds one key, at one level where that keeps it in order."""
        return request.key

    def waiting(self, tenant: str) -> int:
        return self._counts.get(tenant, 0)

    def _enter(self, request: Request, arrival: Number, order: int) -> Entry:
        entry = (self._rank(request, arrival), arrival, order, request)
        name = self._line_of(request)
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = Line(request.key, self._waiting, self._cover(request.key))
        line.push(entry)
        if line.queue[0] is entry:
            self._pool.place(line, entry[:-1])
        self._counts[request.tenant] = self._counts.get(request.tenant, 0) + 1
        return entry

    def _choose(self, gate: Gate | None, now: Number | None) -> Request | None:
        line = self._pool.best(gate)
        return None if line is None else line.queue[0][-1]

    def _leave(self, request: Request, gate: Gate | None) -> None:
        line = self._lines[self._line_of(request)]
        line.pop()
        self._settle(request, line)

    def _drop(self, request: Request) -> None:
        line = self._lines[self._line_of(request)]
        line.ghost()
        self._settle(request, line)

    def _settle(self, request: Request, line: Line) -> None:
        if line.queue:
            self._pool.place(line, line.queue[0][:-1])
        else:
            del self._lines[self._line_of(request)]
            self._pool.remove(line)
        tenant = request.tenant
        self._counts[tenant] -= 1
        if not self._counts[tenant]:
            del self._counts[tenant]
