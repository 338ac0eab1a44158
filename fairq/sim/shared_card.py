"""Several processes on one GPU that is not cut in pieces: each runs slower while others run.

Every process has a clock of its own, on which it has the card to itself; the shared card lets these clocks
advance at rates between 0 and 1 that depend on what the processes are doing now. The rates are those of a
fluid: each process needs some share of each resource to run at full speed, and all speeds grow together until
a resource is used up or a process runs at full speed (max-min fairness, Bertsekas & Gallager 1992, 6.5).

* time-slicing: the GPU does the work of one process at a time, so it is the only resource. What is idle
  between one process's steps (o) another can use; nothing else overlaps.
* MPS: kernels of several processes run at once, so bandwidth and arithmetic are two resources. Processes that
  decode all want the bandwidth and gain nothing; one that computes a prompt leaves bandwidth idle.

Both are upper bounds: no cost of switching, no interference in caches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from simpy import Event

from fairq.sim.clock import Clock

Demand: TypeAlias = tuple[float, ...]
Rule: TypeAlias = Callable[[Sequence[tuple[float, float, float]]], list[float]]
"""Demands (bandwidth, arithmetic, GPU) of the processes at work → their speeds, in (0, 1]."""


def time_sliced(demands: Sequence[tuple[float, float, float]]) -> list[float]:
    """One process at a time has the GPU."""
    return max_min([(gpu,) for _, _, gpu in demands])


def mps(demands: Sequence[tuple[float, float, float]]) -> list[float]:
    """All at once, as far as bandwidth and arithmetic last."""
    return max_min([(bandwidth, arithmetic) for bandwidth, arithmetic, _ in demands])


def max_min(demands: Sequence[Demand]) -> list[float]:
    """Speeds in (0, 1], as equal as can be, so that no resource is used more than once over.

    ``demands[i][r]``: the share of resource r that i uses at full speed, in [0, 1].
    """
    speeds = [1.0] * len(demands)
    growing = set(range(len(demands)))
    while growing:
        # The common speed at which each resource runs out; those who need it stop there.
        limits = []
        for r in range(len(demands[0])):
            used = sum(speeds[i] * demands[i][r] for i in range(len(demands)) if i not in growing)
            wanted = sum(demands[i][r] for i in growing)
            if wanted > 0:
                limits.append((max(0.0, 1 - used) / wanted, r))
        limit, r = min(limits, default=(1.0, 0))
        if limit >= 1:
            break
        stopped = {i for i in growing if demands[i][r] > 0}
        for i in stopped:
            speeds[i] = limit
        growing -= stopped
    return speeds


class Process(Protocol):
    """What the card asks of an engine."""

    @property
    def idle(self) -> bool: ...

    @property
    def demand(self) -> tuple[float, float, float] | None: ...


class Lane:
    """One process's place on the card: a clock on which it is alone, and how that runs in real time."""

    def __init__(self, now: float) -> None:
        self.clock = Clock(now)
        self.process: Process | None = None
        self.rate = 1.0
        self._own: list[float] = [now]
        self._real: list[float] = [now]

    def mark(self, real: float) -> None:
        """Both clocks as they stand."""
        own = self.clock.now
        if own > self._own[-1]:
            self._own.append(own)
            self._real.append(real)
        else:
            self._real[-1] = real  # it stood still, or nothing happened

    def real(self, own: float) -> float:
        """Real seconds for seconds on its own clock."""
        i = bisect_right(self._own, own)
        if i == len(self._own):
            return self._real[-1] + (own - self._own[-1])
        if i == 0:
            return self._real[0] + (own - self._own[0])
        own_0, own_1, real_0, real_1 = self._own[i - 1], self._own[i], self._real[i - 1], self._real[i]
        return real_0 + (real_1 - real_0) * (own - own_0) / (own_1 - own_0)


class SharedCard:
    """Runs the events of several lanes on one real clock."""

    def __init__(self, clock: Clock, rule: Rule) -> None:
        self._clock = clock
        self._rule = rule
        self._lanes: list[Lane] = []
        self._at = clock.now
        self._wake: Event | None = None

    def lane(self) -> Lane:
        """A place for one more process."""
        lane = Lane(self._clock.now)
        self._lanes.append(lane)
        return lane

    def catch_up(self) -> None:
        """Bring every lane's own clock to now. Call before anything is given to a process."""
        now = self._clock.now
        passed = now - self._at
        self._at = now
        for lane in self._lanes:
            if passed > 0:
                own = lane.clock.now + lane.rate * passed
                if lane.clock.queue:
                    own = min(own, lane.clock.queue[0][0])  # rounding must not carry it past an event
                lane.clock.move(own)
            lane.mark(now)

    def reschedule(self) -> None:
        """The processes may have changed what they do: new speeds, and the next event."""
        busy = [lane for lane in self._lanes if lane.process is not None and not lane.process.idle]
        demands: list[Any] = [lane.process.demand for lane in busy if lane.process is not None]
        # A process between two steps (EPS seconds) counts as one that uses everything.
        for lane, speed in zip(busy, self._rule([each or (1.0, 1.0, 1.0) for each in demands]), strict=True):
            lane.rate = speed
        coming = [each for lane in self._lanes if (each := self._next(lane)) is not None]
        if not coming:
            self._wake = None
            return
        at, priority = min(coming)
        self._wake = event = Event(self._clock)
        event._ok, event._value = True, None
        event.callbacks = [self._woken]
        self._clock.at(at, event, priority)

    def _next(self, lane: Lane) -> tuple[float, int] | None:
        queue = lane.clock.queue
        if not queue:
            return None
        own, priority = queue[0][:2]
        return self._at + max(0.0, own - lane.clock.now) / lane.rate, priority

    def _woken(self, event: Event) -> None:
        if event is not self._wake:
            return
        self._wake = None
        now = self._clock.now
        due = [lane for lane in self._lanes if (next_ := self._next(lane)) is not None and next_[0] <= now]
        first = min(lane.clock.queue[0][1] for lane in due)
        self.catch_up()
        for lane in due:
            if lane.clock.queue[0][1] == first:
                lane.clock.move(lane.clock.queue[0][0])
                lane.mark(now)
                lane.clock.step()
        self.reschedule()
