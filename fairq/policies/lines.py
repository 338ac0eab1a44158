"""Lines, and pools of lines: who is first among those that may run.

Shared by all policies. A *gate* says which keys may run; what it answers for a key that may not is a
*hold*: the cap that is full, say. A pool keeps the members it passed over in a lot per hold, so that ten
thousand keys behind one full cap are not asked again until that cap opens. A caller's own predicate
can change its mind at any time: those it refuses are set aside for one call only.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Protocol

from fairq.request import Request

Entry = tuple[Any, ...]
"""A waiting request with its rank in front: ``(…, order of put, request)``; the order settles ties."""


class Hold(Protocol):
    """Why a key may not run now."""

    @property
    def closed(self) -> bool:
        """False as soon as it stands in nobody's way."""


class Gate(Protocol):
    """Which keys may run. Callable like a caller's predicate, and able to say what holds a key back."""

    def __call__(self, key: str) -> bool: ...

    def blocker(self, key: str) -> Hold | None: ...


class _Refused:
    """The hold of a caller's predicate: never known to open, so asked anew at every call."""

    closed = True


REFUSED = _Refused()


class _Predicate:
    """A caller's plain predicate as a gate."""

    def __init__(self, eligible: Callable[[str], bool]) -> None:
        self._eligible = eligible

    def __call__(self, key: str) -> bool:
        return self._eligible(key)

    def blocker(self, key: str) -> Hold | None:
        return None if self._eligible(key) else REFUSED


def gate_of(eligible: Any) -> Gate | None:
    """A gate for what a caller passed as ``eligible``."""
    if eligible is None or hasattr(eligible, "blocker"):
        return eligible  # type: ignore[no-any-return]
    return _Predicate(eligible)


class Member:
    """What a pool holds: a line, or all lines of a tenant."""

    __slots__ = ("entry", "exact", "lots")

    def __init__(self) -> None:
        self.entry: Any = None  # (rank, self) as it stands in the pool; any other entry is stale
        self.exact = True  # the rank it stands at is its rank whenever nothing is held
        self.lots: set[Hold] = set()

    def rank(self, gate: Gate | None) -> Any:
        """Its rank under a gate, never before the rank it was placed at; ``None`` when held."""
        raise NotImplementedError

    def holds(self, gate: Gate) -> Iterable[Hold]:
        """What holds it back, after ``rank`` gave ``None``."""
        raise NotImplementedError


class Pool:
    """Members by rank (distinct between members, smallest first), those held back kept in lots.

    A heap with stale entries: placing a member anew leaves its old entry to be dropped when met.
    """

    __slots__ = ("_lots", "_ready", "_size")

    def __init__(self) -> None:
        self._ready: list[Any] = []
        self._lots: dict[Hold, list[Any]] = {}
        self._size = 0

    def place(self, member: Member, rank: Any) -> None:
        """Put a member in, or move it to another rank."""
        old = member.entry
        if old is None:
            self._size += 1
        elif old[0] == rank:
            return
        member.entry = entry = (rank, member)
        if member.lots:
            member.lots = set()
        ready = self._ready
        if ready and ready[0] is old:
            heapreplace(ready, entry)
            return
        heappush(ready, entry)
        if len(ready) > 64 + 2 * self._size:
            self._ready = [e for e in ready if e[1].entry is e]
            heapify(self._ready)

    def remove(self, member: Member) -> None:
        member.entry = None
        member.lots = set()
        self._size -= 1

    def best(self, gate: Gate | None) -> Any:
        """The member of the smallest rank that may run, or ``None``. No visible change."""
        if gate is None:
            first = self._first()
            if first is None or first.exact:
                return first
        aside: list[Any] = []
        found, found_rank = None, None
        heaps = self._open_heaps()
        while (heap := _least(heaps)) is not None:
            entry = heap[0]
            if found is not None and found_rank < entry[0]:
                break
            member = entry[1]
            rank = member.rank(gate)
            if rank == entry[0]:
                found = member
                break
            heappop(heap)
            if rank is not None:  # later under this gate than where it stands
                aside.append(entry)
                if found is None or rank < found_rank:
                    found, found_rank = member, rank
            elif gate is not None:
                self._set_back(entry, gate, heap, aside)
            _drop_stale(heap)
        for entry in aside:
            heappush(self._ready, entry)
        return found

    def has_ready(self) -> bool:
        """True when a member stands ready (it may still be refused)."""
        _drop_stale(self._ready)
        return bool(self._ready)

    def held(self) -> list[Hold]:
        """The holds that keep members back."""
        return [hold for hold, lot in self._lots.items() if any(e[1].entry is e for e in lot)]

    def _first(self) -> Any:
        if self._lots:
            for hold in list(self._lots):
                self._release(hold)
        ready = self._ready
        _drop_stale(ready)
        return ready[0][1] if ready else None

    def _open_heaps(self) -> list[list[Any]]:
        """The ready heap and the lots that nothing holds any more; a lot of one joins the ready."""
        _drop_stale(self._ready)
        heaps = [self._ready]
        if self._lots:
            for hold in [hold for hold in self._lots if not hold.closed]:
                lot = self._lots[hold]
                _drop_stale(lot)
                if len(lot) > 1:
                    heaps.append(lot)
                else:
                    self._release(hold)
        return heaps

    def _release(self, hold: Hold) -> None:
        for entry in self._lots.pop(hold):
            if entry[1].entry is entry:
                entry[1].lots.discard(hold)
                heappush(self._ready, entry)

    def _set_back(self, entry: Any, gate: Gate, heap: list[Any], aside: list[Any]) -> None:
        member = entry[1]
        if heap is not self._ready:
            member.lots = {hold for hold in member.lots if self._lots.get(hold) is not heap}
        holds = set(member.holds(gate))
        if REFUSED in holds:  # its answer may change before the next call, whatever else holds it
            aside.append(entry)
            return
        for hold in holds - member.lots:
            heappush(self._lots.setdefault(hold, []), entry)
        member.lots |= holds


def _drop_stale(heap: list[Any]) -> None:
    while heap and heap[0][1].entry is not heap[0]:
        heappop(heap)


def _least(heaps: list[list[Any]]) -> list[Any] | None:
    if len(heaps) == 1:
        return heaps[0] or None
    return min((heap for heap in heaps if heap), key=lambda heap: heap[0][0], default=None)


class Line(Member):
    """The waiting requests of one key. Entries of cancelled requests are skipped when met.

    ``waiting`` is the policy's own table request → entry: an entry is alive while it stands there.
    """

    __slots__ = ("_ghosts", "_queue", "_waiting", "key")

    def __init__(self, key: str, waiting: dict[Request, Entry]) -> None:
        super().__init__()
        self.key = key
        self._waiting = waiting
        self._queue: deque[Entry] = deque()
        self._ghosts = 0

    @property
    def head(self) -> Entry | None:
        return self._queue[0] if self._queue else None

    def push(self, entry: Entry) -> None:
        queue = self._queue
        if not queue or queue[-1] < entry:
            queue.append(entry)
            return
        ordered = list(queue)  # it came earlier than another that was put before it
        insort(ordered, entry)
        self._queue = deque(ordered)

    def pop(self) -> None:
        """Take the head away, and the ghosts behind it."""
        self._queue.popleft()
        if self._ghosts:
            self._strip()

    def ghost(self) -> None:
        """One of its requests was cancelled."""
        self._ghosts += 1
        self._strip()
        if self._ghosts > 8 and 2 * self._ghosts > len(self._queue):
            self._queue = deque(e for e in self._queue if self._alive(e))
            self._ghosts = 0

    def _strip(self) -> None:
        queue = self._queue
        while queue and not self._alive(queue[0]):
            queue.popleft()
            self._ghosts -= 1

    def _alive(self, entry: Entry) -> bool:
        return self._waiting.get(entry[-1]) is entry

    def rank(self, gate: Gate | None) -> Any:
        return self.entry[0] if gate is None or gate.blocker(self.key) is None else None

    def holds(self, gate: Gate) -> Iterable[Hold]:
        blocker = gate.blocker(self.key)
        return () if blocker is None else (blocker,)


class TenantLines(Member):
    """A tenant's lines, a key each: its head is the earliest among the keys that may run."""

    __slots__ = ("_lines", "_pool", "_waiting", "name", "waiting")

    def __init__(self, name: str, waiting: dict[Request, Entry]) -> None:
        super().__init__()
        self.name = name
        self.waiting = 0
        self._waiting = waiting
        self._lines: dict[str, Line] = {}
        self._pool: Pool | None = None  # made for the second key; most tenants have one

    def push(self, entry: Entry) -> None:
        key = entry[-1].key
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(key, self._waiting)
            if self._pool is None and len(self._lines) > 1:
                self._pool = Pool()
                self.exact = False
                for other in self._lines.values():
                    if other.head is not None:
                        self._pool.place(other, other.head[:-1])
        line.push(entry)
        self.waiting += 1
        if self._pool is not None:
            self._pool.place(line, line.head[:-1])  # type: ignore[index]

    def pop(self, request: Request) -> None:
        """Take away the head of a key, which was handed out."""
        line = self._lines[request.key]
        line.pop()
        self._settle(line)

    def ghost(self, request: Request) -> None:
        """A waiting request of this tenant was cancelled."""
        line = self._lines[request.key]
        line.ghost()
        self._settle(line)

    def _settle(self, line: Line) -> None:
        self.waiting -= 1
        head = line.head
        if head is None:
            del self._lines[line.key]
        if self._pool is None:
            return
        if head is not None:
            self._pool.place(line, head[:-1])
            return
        self._pool.remove(line)
        if len(self._lines) <= 1:
            self._pool = None
            self.exact = True

    def precedes(self, entry: Entry) -> bool:
        """True when an entry would go before the head of the tenant's one line."""
        (line,) = self._lines.values()
        return entry < line.head  # type: ignore[operator]

    def head(self, gate: Gate | None = None) -> Request | None:
        """The earliest request among the keys that may run, or ``None``."""
        if self._pool is None:
            for line in self._lines.values():
                if gate is None or gate.blocker(line.key) is None:
                    return line.head[-1]  # type: ignore[index, no-any-return]
            return None
        line = self._pool.best(gate)
        return None if line is None else line.head[-1]

    def holds(self, gate: Gate) -> Iterable[Hold]:
        if self._pool is None:
            return [hold for line in self._lines.values() if (hold := gate.blocker(line.key)) is not None]
        if self._pool.has_ready():
            # Some key was refused by a caller's predicate: it was set aside, so it is ready again.
            return (REFUSED,)
        return self._pool.held()
