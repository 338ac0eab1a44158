"""SimPy's environment with times that stay exact."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from simpy import Environment, Event

from fairq.request import Number

FINISH, LAST = 1, 2
"""Order within one instant: what ends (SimPy's normal priority) comes before what settles the instant."""


class Clock(Environment):
    """An ``Environment`` (seconds) that schedules at a time instead of after a delay.

    SimPy schedules at ``now + delay``; for an absolute time that is ``now + (t - now)``, which is not ``t``
    in floating point, and its ``run(until=…)`` turns the end into a float. Here a time is used as given, so
    that integers and fractions stay exact and a finish is ``start + service`` to the last bit.

    ``queue``: SimPy's heap of ``(time, priority, ticket(), event)``. The hot paths push on it themselves.
    """

    def __init__(self, initial_time: Number = 0) -> None:
        super().__init__(initial_time)
        self.queue: list[Any] = self._queue
        self.ticket = self._eid.__next__

    def at(self, time: Number, event: Event, priority: int = FINISH) -> None:
        """Let ``event`` happen at ``time`` (not before now); at one instant by priority, then call order."""
        heappush(self.queue, (time, priority, self.ticket(), event))

    def move(self, time: Number) -> None:
        """Go straight to ``time``; the caller knows that nothing is scheduled before it."""
        self._now = time

    def run_through(self, until: Number | None = None) -> None:
        """Let everything happen that is scheduled up to and including ``until``; ``None``: all."""
        queue = self.queue
        while queue and (until is None or queue[0][0] <= until):
            # Environment.step, written out: it runs once per request.
            self._now, _, _, event = heappop(queue)
            callbacks, event.callbacks = event.callbacks, None
            for callback in callbacks:
                callback(event)
            if not event._ok and not hasattr(event, "_defused"):
                raise event._value
