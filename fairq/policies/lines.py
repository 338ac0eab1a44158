"""Lines, and pools of lines: who is first among those that may run.

Shared by all policies. A *gate* says which keys may run; what it answers for a key that may not is a
*hold*: the cap that is full, say. A pool keeps the members it passed over in a lot per hold, so that ten
thousand keys behind one full cap are not asked again until that cap opens. A caller's own predicate
can change its mind at any time: those it refuses are set aside for one call only.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, MutableSequence
from collections.abc import Set as AbstractSet
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
    """A caller's plain predicate as the gate of one call: asked once about a key, whatever it says later."""

    def __init__(self, eligible: Callable[[str], bool]) -> None:
        self._eligible = eligible
        self._answers: dict[str, bool] = {}

    def __call__(self, key: str) -> bool:
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = bool(self._eligible(key))
        return answer

    def blocker(self, key: str) -> Hold | None:
        return None if self(key) else REFUSED


def gate_of(eligible: Any) -> Gate | None:
    """A gate for what a caller passed as ``eligible``."""
    if eligible is None or hasattr(eligible, "blocker"):
        return eligible  # type: ignore[no-any-return]
    return _Predicate(eligible)


Cover = tuple[Hold, ...]
"""Holds under which a key stands for good, open or closed: the caps of its groups."""

CoverOf = Callable[[str], Cover]

NOWHERE: AbstractSet[Hold] = frozenset()

RUNS = 4
"""How many rising runs of ranks a pool keeps apart."""

SHORT = 32
"""A line this long is a deque. A shorter one is a list: of ten thousand tenants with a few requests each, as
many deques would not stay in the processor's caches.
"""


class Member:
    """What a pool holds: a line, all lines of a tenant, or a bundle of such."""

    __slots__ = ("cover", "entry", "exact", "home", "lots")

    def __init__(self, cover: Cover = ()) -> None:
        self.entry: Any = None  # (rank, self) as it stands in the pool; any other is stale
        self.exact = True  # the rank it stands at is its rank whenever nothing is held
        self.lots: AbstractSet[Hold] = NOWHERE
        self.cover = cover
        self.home: Bundle | None = None

    def __lt__(self, other: Member) -> bool:
        return False  # a stale entry may share the rank of a live one: either may come first

    def rank(self, gate: Gate | None) -> Any:
        """Its rank under a gate, never before the rank it was placed at; ``None`` when held."""
        raise NotImplementedError

    def holds(self, gate: Gate) -> Iterable[Hold]:
        """What holds it back, after ``rank`` gave ``None``."""
        raise NotImplementedError


class Pool:
    """Members by rank (distinct between members, smallest first), those held back kept in lots.

    A heap with stale entries: placing a member anew leaves its old entry to be dropped when met. Ranks
    mostly come in a few rising runs (this round's, the next one's), so sorted runs take those, each move
    costs the same however many members there are, and the heap holds the few in play.
    Members under the same lasting holds (a cap that keys share) stand together in a bundle, so that
    they are passed over at one stroke, however many they are.
    """

    __slots__ = ("_bundles", "_lots", "_room", "_runs", "ready", "settled")

    def __init__(self) -> None:
        self.ready: list[Any] = []
        self.settled = False  # the ready heap's top is alive and the smallest of all, and nothing is held
        self._runs: tuple[deque[Any], ...] = ()
        self._lots: dict[Hold, list[Any]] = {}
        self._bundles: dict[Cover, Bundle] = {}
        self._room = 64  # entries there may be in the heap before the stale ones are thrown out

    def place(self, member: Member, rank: Any) -> None:
        """Put a member in, or move it to another rank."""
        if member.cover or member.home is not None:
            self._place_in_bundle(member, rank)
        else:
            self.put(member, rank)

    def remove(self, member: Member) -> None:
        bundle = member.home
        if bundle is None:
            self.take(member)
        else:
            self._take_from_bundle(member, bundle)

    def put(self, member: Member, rank: Any) -> None:
        """Place a member that stands in no bundle."""
        old = member.entry
        if old is not None and old[0] == rank and not member.lots:
            return  # one in a lot is looked at anew: it may have got a key that is not held
        member.entry = entry = (rank, member)
        if member.lots:
            member.lots = NOWHERE
        ready = self.ready
        if old is not None and ready and ready[0] is old:
            heappop(ready)
            self.settled = False
        elif self.settled and rank < ready[0][0]:
            heappush(ready, entry)
            return
        for run in self._runs:
            if not run or run[-1][0] < rank:
                run.append(entry)
                return
            if len(run) == 1 or run[-2][0] < rank:
                run.insert(-1, entry)  # who joins a ring stands just before the one whose turn is on
                return
        if len(self._runs) < RUNS:
            self._runs = (*self._runs, deque((entry,)))
            return
        heappush(ready, entry)
        self.settled = False
        if len(ready) > self._room:
            self.ready = [e for e in ready if e[1].entry is e]
            heapify(self.ready)
            self._room = 64 + 2 * len(self.ready)

    def settle(self) -> list[Any]:
        """The ready heap, with a live entry on top that no entry of a run precedes."""
        ready = self.ready
        while ready and ready[0][1].entry is not ready[0]:
            heappop(ready)
        least: Any = ready[0] if ready else None
        source = None
        for run in self._runs:
            while run and run[0][1].entry is not run[0]:
                run.popleft()
            if run and (least is None or run[0] < least):
                least, source = run[0], run
        if source is not None:
            heappush(ready, source.popleft())
        self.settled = least is not None and not self._lots
        return ready

    def _drop_top(self) -> None:
        heappop(self.ready)
        self.settled = False

    def postpone(self, first: Member, rank: Any) -> None:
        """Place the first member of a settled pool anew, at a later rank: ``put`` with less to ask."""
        first.entry = entry = (rank, first)
        for run in self._runs:
            if not run or run[-1][0] < rank:
                run.append(entry)
                self._follow()
                return
        heapreplace(self.ready, entry)
        self.settled = False

    def take_first(self, first: Member) -> None:
        """Remove the first member of a settled pool: ``take`` with less to ask."""
        first.entry = None
        self._follow()

    def take(self, member: Member) -> None:
        """Remove a member that stands in no bundle."""
        ready, entry = self.ready, member.entry
        member.entry = None
        if ready and ready[0] is entry:
            if self.settled:
                self._follow()
            else:
                heappop(ready)
        if member.lots:
            member.lots = NOWHERE

    def _follow(self) -> None:
        """The first of a settled pool has left: the next of a lone run is first at once."""
        ready = self.ready
        if len(ready) == 1 and len(self._runs) == 1:
            run = self._runs[0]
            while run:
                following = run.popleft()
                if following[1].entry is following:
                    ready[0] = following
                    return
        heappop(ready)
        self.settled = False

    def _place_in_bundle(self, member: Member, rank: Any) -> None:
        bundle = self._bundles.get(member.cover) if member.cover else None
        if bundle is None and member.cover:
            bundle = self._bundles[member.cover] = Bundle(member.cover)
        if member.entry is not None and member.home is not bundle:
            self.remove(member)
        member.home = bundle
        if bundle is None:
            self.put(member, rank)
        else:
            bundle.pool.put(member, rank)
            self.put(bundle, bundle.pool.least())

    def _take_from_bundle(self, member: Member, bundle: Bundle) -> None:
        bundle.pool.take(member)
        member.home = None
        least = bundle.pool.least()
        if least is None:
            self.take(bundle)
            del self._bundles[bundle.cover]
        else:
            self.put(bundle, least)

    def least(self) -> Any:
        """The smallest rank at which a member stands, held or not; ``None`` when there is none."""
        heaps = [self.settle(), *self._lots.values()]
        for heap in heaps:
            _drop_stale(heap)
        least = _least(heaps)
        return None if least is None else least[0][0]

    def top(self) -> Any:
        """The first member when that takes no search: nothing is held, and its rank is exact."""
        if not self.settled:
            self.settle()
        first = self.ready[0][1] if self.settled else None
        return first if first is not None and first.exact else None

    def best(self, gate: Gate | None) -> Any:
        """The member of the smallest rank that may run, or ``None``. No visible change."""
        if gate is None:
            if self._lots:
                for hold in list(self._lots):
                    self._release(hold)
            first = self.top()
            if first is not None or not self.ready:
                return first
        found = self._search(gate)
        return found.pool.best(gate) if isinstance(found, Bundle) else found

    def _search(self, gate: Gate | None) -> Any:
        aside: list[Any] = []
        try:
            return self._search_past(gate, aside)
        finally:  # also when a caller's predicate raises: whoever was passed over keeps its place
            for entry in aside:
                heappush(self.ready, entry)

    def _search_past(self, gate: Gate | None, aside: list[Any]) -> Any:
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
            if heap is self.ready:
                self._drop_top()
            else:
                heappop(heap)
                member.lots = {hold for hold in member.lots if self._lots.get(hold) is not heap}
            if rank is not None:  # later under this gate than where it stands
                aside.append(entry)
                if found is None or rank < found_rank:
                    found, found_rank = member, rank
            elif gate is not None:  # without a gate nobody is held
                self._set_back(entry, gate, aside)
            _drop_stale(heap)
            self.settle()
        return found

    def holds(self) -> list[Hold]:
        """What keeps its members back, after ``best`` found none."""
        if self.settle():  # refused by a caller's predicate and set aside for that one call
            return [REFUSED]
        return [hold for hold, lot in self._lots.items() if any(e[1].entry is e for e in lot)]

    def _open_heaps(self) -> list[list[Any]]:
        """The ready heap and the lots that nothing holds any more; a lot of one joins the ready."""
        heaps = [self.settle()]
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
                entry[1].lots -= {hold}
                heappush(self.ready, entry)

    def _set_back(self, entry: Any, gate: Gate, aside: list[Any]) -> None:
        member = entry[1]
        holds = set(member.holds(gate))
        if REFUSED in holds or not holds:  # a predicate may answer otherwise at the next call
            aside.append(entry)
            return
        for hold in holds - member.lots:
            heappush(self._lots.setdefault(hold, []), entry)
        member.lots = member.lots | holds


def _drop_stale(heap: list[Any]) -> None:
    while heap and heap[0][1].entry is not heap[0]:
        heappop(heap)


def _least(heaps: list[list[Any]]) -> list[Any] | None:
    if len(heaps) == 1:
        return heaps[0] or None
    return min((heap for heap in heaps if heap), key=lambda heap: heap[0][0], default=None)


class Bundle(Member):
    """Members under the same lasting holds: held all together, or each for itself."""

    __slots__ = ("pool",)

    def __init__(self, cover: Cover) -> None:
        super().__init__(cover)
        self.pool = Pool()
        self.exact = False

    def rank(self, gate: Gate | None) -> Any:
        if gate is not None and any(hold.closed for hold in self.cover):
            return None
        best = self.pool.best(gate)
        return None if best is None else best.rank(gate)

    def holds(self, gate: Gate) -> Iterable[Hold]:
        return [hold for hold in self.cover if hold.closed] or self.pool.holds()


def _in_line(entries: list[Entry]) -> MutableSequence[Entry]:
    return entries if len(entries) < SHORT else deque(entries)


class Line(Member):
    """The waiting requests of one key. Entries of cancelled requests are skipped when met.

    ``waiting`` is the policy's own table request → entry: an entry is alive while it stands there.
    """

    __slots__ = ("_waiting", "ghosts", "key", "queue")

    def __init__(self, key: str, waiting: dict[Request, Entry], cover: Cover) -> None:
        super().__init__(cover)
        self.key = key
        self.queue: MutableSequence[Entry] = []
        self._waiting = waiting
        self.ghosts = 0

    def push(self, entry: Entry) -> None:
        queue = self.queue
        if not queue or queue[-1] < entry:
            queue.append(entry)
            if len(queue) == SHORT:
                self.lengthen()
            return
        ordered = list(queue)  # it came earlier than another that was put before it
        insort(ordered, entry)
        self.queue = _in_line(ordered)

    def lengthen(self) -> None:
        """It has become a long one."""
        if isinstance(self.queue, list):
            self.queue = deque(self.queue)

    def pop(self) -> None:
        """Take the head away, and the ghosts behind it."""
        del self.queue[0]
        if self.ghosts:
            self._strip()

    def ghost(self) -> None:
        """One of its requests was cancelled."""
        self.ghosts += 1
        self._strip()
        if self.ghosts > 8 and 2 * self.ghosts > len(self.queue):
            self.queue = _in_line([e for e in self.queue if self._alive(e)])
            self.ghosts = 0

    def _strip(self) -> None:
        queue = self.queue
        while queue and not self._alive(queue[0]):
            del queue[0]
            self.ghosts -= 1

    def _alive(self, entry: Entry) -> bool:
        return self._waiting.get(entry[-1]) is entry

    def rank(self, gate: Gate | None) -> Any:
        return self.entry[0] if gate is None or gate.blocker(self.key) is None else None

    def holds(self, gate: Gate) -> Iterable[Hold]:
        blocker = gate.blocker(self.key)
        return () if blocker is None else (blocker,)


class TenantLines(Line):
    """A tenant's lines, a key each: its head is the earliest among the keys that may run.

    While it has one key it is that key's line itself (``exact``); with more it keeps a pool of lines.
    """

    __slots__ = ("_cover_of", "_lines", "_pool", "name", "waiting")

    def __init__(self, name: str, waiting: dict[Request, Entry], cover_of: CoverOf) -> None:
        # What a Line has, written out: calls up the classes would take as long as the rest of opening it.
        self.entry = None
        self.exact = True
        self.lots = NOWHERE
        self.cover = ()
        self.home = None
        self.key = ""  # a key is never empty: so it has none yet
        self.queue = []
        self._waiting = waiting
        self.ghosts = 0
        self.name = name
        self.waiting = 0
        self._cover_of = cover_of
        self._pool: Pool | None = None  # its lines, while it has several
        self._lines: dict[str, Line] | None = None  # the same by key

    def enter(self, entry: Entry) -> None:
        line = self._line_for(entry[-1].key)
        line.push(entry)
        self.waiting += 1
        if self._pool is not None:
            self._pool.place(line, line.queue[0][:-1])

    def leave(self, request: Request) -> None:
        """Take away the head of a key, which was handed out."""
        line = self._line_for(request.key)
        line.pop()
        self._settle(line)

    def lose(self, request: Request) -> None:
        """A waiting request of this tenant was cancelled."""
        line = self._line_for(request.key)
        line.ghost()
        self._settle(line)

    def stand_for(self, key: str) -> None:
        """Its line is empty: be that of this key."""
        self.key, self.cover = key, self._cover_of(key)

    def _line_for(self, key: str) -> Line:
        if self._lines is None:
            if self.key == key:
                return self
            if not self.queue:
                self.stand_for(key)
                return self
            self._part()
        assert self._lines is not None
        if key not in self._lines:
            self._lines[key] = Line(key, self._waiting, self._cover_of(key))
        return self._lines[key]

    def _settle(self, line: Line) -> None:
        self.waiting -= 1
        if self._pool is None or self._lines is None:
            return
        if line.queue:
            self._pool.place(line, line.queue[0][:-1])
            return
        self._pool.remove(line)
        del self._lines[line.key]
        if len(self._lines) == 1:
            (last,) = self._lines.values()
            self._pool, self._lines = None, None
            self.key, self.queue, self.ghosts, self.cover = last.key, last.queue, last.ghosts, last.cover
            self.exact = True

    def _part(self) -> None:
        """It gets a second key: which of them goes depends on who may run."""
        line = Line(self.key, self._waiting, self.cover)
        line.queue, line.ghosts = self.queue, self.ghosts
        self._pool, self._lines = Pool(), {line.key: line}
        self.queue, self.ghosts, self.cover, self.exact = [], 0, (), False
        self._pool.place(line, line.queue[0][:-1])

    def head(self, gate: Gate | None = None) -> Request | None:
        """The earliest request among the keys that may run, or ``None``."""
        if self._pool is not None:
            line = self._pool.best(gate)
            return None if line is None else line.queue[0][-1]
        if not self.queue or (gate is not None and gate.blocker(self.key) is not None):
            return None
        return self.queue[0][-1]  # type: ignore[no-any-return]

    def holds(self, gate: Gate) -> Iterable[Hold]:
        return super().holds(gate) if self._pool is None else self._pool.holds()
