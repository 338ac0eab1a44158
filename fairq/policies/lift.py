"""The lift: where a tenant that comes back starts, and how far one that is held back may fall behind.

Counters of those who wait stay close together as long as the least always goes. Two things pull them apart:
a tenant without waiting work, whose counter stands still, and one that a cap keeps from being served.

* Who comes back is lifted to the *level*, the least counter among those who wait. Idle time earns nothing.
* Who is passed over, because it may not run, *lags*. Its low counter is no level for others: else whoever
  joined would start as far behind, and be served alone until it had caught up with a cap's history. Only a
  newcomer under the same group cap starts level with it, for these two share what the cap lets through.
* It may not save up more than ``BANKED`` of the largest requests (per weight): once it is behind by more
  than twice that, the rest is forgiven. Those who lag under the same group cap are moved along with it, so
  that their weights among each other stay exact; as this takes a step for each, it is done the less often
  the more lag, by a sixteenth of a request each. Where caps stand within caps and several bind at once,
  those moved along can be squeezed together at the level, and shares can be far off there: README.md has the
  figures.

While nobody is held back this is the lift of Sheng et al. (2024), algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from fairq.policies.lines import Gate, Hold, Pool
from fairq.request import Number

BANKED = 4
"""How many of the largest requests one that was held back may catch up with."""


class Counted(Protocol):
    """A tenant, or a branch: what it was charged, in tokens per weight, and where it stands. Of two with the
    same counter either may come first, as ``lines.Member`` has it.
    """

    counter: Any
    waiting: int
    abreast: bool  # it waits, and does not lag
    lags: bool

    def group_holds(self) -> Iterable[Hold]:
        """The group caps that its waiting requests stand under."""


C = TypeVar("C", bound=Counted)


class _Abreast(Generic[C]):
    """Members by counter. Entries go stale when a counter moves, and are dropped when met, or in bulk."""

    def __init__(self) -> None:
        self._entries: list[tuple[Any, C]] = []
        self._room = 64

    def add(self, member: C) -> None:
        heappush(self._entries, (member.counter, member))
        if len(self._entries) > self._room:
            self._entries = [(m.counter, m) for m in self.members()]
            heapify(self._entries)
            self._room = 64 + 2 * len(self._entries)

    def top(self) -> C | None:
        """The member of the least counter."""
        entries = self._entries
        while entries and not self._alive(entries[0]):
            heappop(entries)
        return entries[0][1] if entries else None

    def clear(self) -> None:
        self._entries.clear()

    def members(self) -> list[C]:
        """All that are in it, each once."""
        return list({id(member): member for _, member in filter(self._alive, self._entries)}.values())

    def _alive(self, entry: tuple[Any, C]) -> bool:
        counter, member = entry
        return bool(member.abreast and counter == member.counter)


class _Behind(_Abreast[C]):
    """Those who lag under a group cap."""

    def __init__(self, hold: Hold) -> None:
        super().__init__()
        self._hold = hold

    def _alive(self, entry: tuple[Any, C]) -> bool:
        counter, member = entry
        return bool(member.lags and counter == member.counter and self._hold in member.group_holds())


class Lift(Generic[C]):
    """Who lags, and the level of those who do not. Watches from the first gate on: before, nobody lags."""

    def __init__(self, watching: bool = False) -> None:
        self.watching = watching
        self._abreast: _Abreast[C] = _Abreast()
        self._behind: dict[Hold, _Behind[C]] = {}
        self._last: C | None = None  # of those abreast, the one whose line emptied last
        self._largest: Number = 0  # request of any that lagged, per weight
        self._count = 0  # of those that lag

    # -- what happened --------------------------------------------------------------------------

    def passing(self, chosen: C, gate: Gate | None, members: Iterable[C]) -> None:
        """``chosen`` is about to be charged: who stands before it was passed over, and lags."""
        if not self.watching:
            if gate is None:
                return
            self.watching = True
            for member in members:
                if member.waiting:
                    self._stand(member)
        while (passed := self._abreast.top()) is not None and passed.counter < chosen.counter:
            passed.abreast = False
            self._lag(passed)
            self.grouped(passed)

    def moved(self, member: C, level: Callable[[], Number]) -> None:
        """The counter of one that waits has changed."""
        if self.watching:
            if member.lags and member.counter < level():
                self.grouped(member)
            else:
                self._stand(member)

    def emptied(self, member: C) -> None:
        """Its line is empty."""
        if not member.lags:
            self._last = member
        else:
            self._count -= 1
        member.abreast = member.lags = False

    def joined(self, member: C, level: Number) -> None:
        """Its line was empty and now is not: lift it."""
        start = level
        if self._behind:
            tops = [self._behind[hold].top() for hold in member.group_holds() if hold in self._behind]
            start = min([level, *(top.counter for top in tops if top is not None)])
        member.counter = max(member.counter, start)
        if member.counter < level:
            self._lag(member)
        self.moved(member, lambda: level)

    def forgive(self, member: C, request: Number, level: Number, place: Callable[[C], None]) -> None:
        """One that lags is about to be charged for a ``request`` (its cost per weight): limit what it may
        catch up with. Its companions keep their distance to it; ``place`` is called for each that moves.
        """
        largest = self._largest = max(self._largest, request)
        behind = level - member.counter
        if 16 * behind <= (32 * BANKED + self._count) * largest:
            return
        forgiven = behind - BANKED * largest
        member.counter += forgiven
        for other in self._companions(member):
            other.counter = min(other.counter + forgiven, level)
            self.moved(other, lambda: level)
            place(other)

    def grouped(self, member: C) -> None:
        """One lags, and has a place among those who lag under the same group caps."""
        for hold in member.group_holds():
            if hold not in self._behind:
                self._behind[hold] = _Behind(hold)
            self._behind[hold].add(member)

    def rescale(self, factor: int, members: Iterable[C]) -> None:
        """Every counter is now told in smaller units."""
        heaps: list[_Abreast[C]] = [self._abreast, *self._behind.values()]
        kept = [heap.members() for heap in heaps]
        for member in {id(m): m for m in (*members, *([self._last] if self._last else []))}.values():
            member.counter *= factor
        self._largest *= factor
        for heap, within in zip(heaps, kept, strict=True):
            heap.clear()
            for member in within:
                heap.add(member)

    # -- questions ------------------------------------------------------------------------------

    def level(self, pool: Pool) -> Number:
        """The least counter of those who wait and do not lag; when none does, that of the last of them whose
        line emptied.
        """
        if self.watching:
            top = self._abreast.top()
            if top is not None:
                return top.counter
        elif (least := pool.least()) is not None:
            return least[0]
        return 0 if self._last is None else self._last.counter

    def _lag(self, member: C) -> None:
        member.lags = True
        self._count += 1

    def _stand(self, member: C) -> None:
        if member.lags:
            self._count -= 1
        member.abreast, member.lags = True, False
        self._abreast.add(member)

    def _companions(self, member: C) -> Iterator[C]:
        """The others who lag under a group cap that ``member`` is under, each once."""
        seen = {id(member)}
        for hold in member.group_holds():
            for other in self._behind[hold].members() if hold in self._behind else ():
                if id(other) not in seen:
                    seen.add(id(other))
                    yield other
