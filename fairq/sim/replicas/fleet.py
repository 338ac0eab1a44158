"""Several engines behind one gateway queue: replicas on cards of their own, or parts of one card.

The gateway's policy says who goes next, the router (or the tenant's place) says where. Each member is a
batching engine with a queue of its own; a member may fail and come back, and then what it was doing is done
again elsewhere, or there once it is back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import isfinite
from typing import Any, ClassVar

from simpy import Event

from fairq.request import Number, Request
from fairq.sim.batching.engine import BatchingEngine
from fairq.sim.clock import FINISH, LAST, Clock
from fairq.sim.engine import Finished, Job, Progress
from fairq.sim.replicas.prefix import Block, PrefixCache
from fairq.sim.replicas.routers import RoundRobin, Router
from fairq.sim.shared_card import Lane, Rule, SharedCard

_AFTER_FINISHES = (FINISH + LAST) / 2
"""Who is done at the moment of a failure is done."""

KINDS = ("fault", "oom")


@dataclass(frozen=True)
class Outage:
    """Member ``member`` fails at ``at_s`` seconds and is back ``down_s`` later, with nothing in its memory.

    ``kind``: ``"fault"`` (a crash of the process or its kernels) or ``"oom"`` (it takes more memory than it
    was given). What else goes down with it depends on what holds them apart.

    Raises
    ------
    ValueError : names the field and the value.
    """

    at_s: float
    member: int
    down_s: float = 60.0
    kind: str = "fault"

    def __post_init__(self) -> None:
        for field in ("at_s", "down_s"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
                raise ValueError(f"outage: {field} must be a finite number of seconds, got {value!r}")
            if value < 0:
                raise ValueError(f"outage: {field} must be >= 0, got {value!r}")
        if isinstance(self.member, bool) or not isinstance(self.member, int) or self.member < 0:
            raise ValueError(f"outage: member must be a whole number >= 0, got {self.member!r}")
        if self.kind not in KINDS:
            raise ValueError(f"outage: kind must be one of {', '.join(KINDS)}, got {self.kind!r}")


class _Inner(Job):
    """A job as one member sees it: on that member's clock."""

    outer: Any


class Member:
    """One engine, its prefix cache, and what it is doing. A router sees ``name``, ``load`` and ``match``."""

    def __init__(self, index: int, name: str, engine: BatchingEngine, cache: PrefixCache | None) -> None:
        self.index = index
        self.name = name
        self.engine = engine
        self.cache = cache
        self.slots: int | None = engine.slots
        self.down = 0
        """Outages that have not ended."""
        self.jobs: dict[Any, _Inner] = {}
        """Outer job → inner job, of what was sent here and has not come back."""
        self.lane: Lane | None = None
        self.past: list[BatchingEngine] = []
        """Engines that died here."""
        self.deaths: list[float] = []
        """When, in seconds."""

    @property
    def up(self) -> bool:
        return self.down == 0

    @property
    def load(self) -> int:
        return len(self.jobs)

    @property
    def has_room(self) -> bool:
        """Whether one more would not exceed its slots."""
        return self.up and (self.slots is None or len(self.jobs) < self.slots)

    def match(self, blocks: Iterable[Block]) -> int:
        return 0 if self.cache is None else self.cache.match(blocks)

    def real(self, own: float) -> float:
        """Real seconds for seconds on its clock."""
        return own if self.lane is None else self.lane.real(own)


class Fleet:
    """An engine made of several. Serves one run.

    Parameters
    ----------
    engine : makes member i, afresh whenever it starts; all with slots, or none.
    members : how many, >= 1.
    router : chooses the member of a request; default: round robin. Used for one run.
    place : tenant, or group (``chat`` of ``chat-1``, ``chat-2`` …), → the member that serves it and no
        other; the policy then chooses among tenants whose member has room. Tenants not named are routed.
    cache_blocks, block_tokens : prefix cache of each member, in blocks; 0: none. It is room of its own,
        beside the KV cache of the engine. It is looked up when a request is sent; what a request leaves
        (prompt and answer) is there once it is done.
    blocks_of : names of the blocks of so many leading tokens of a request; default: by its conversation.
    outages : who fails when.
    takes_along : kinds of outage that take all members down (``"fault"``, ``"oom"``).
    sharing : members are processes on one card, and this says how fast each runs; default: they do not touch.

    Raises
    ------
    ValueError : names the setting and the value.

    The router may choose a member whose slots are taken: the request then waits in that engine's own queue,
    out of the policy's reach. While a member is down the gateway releases that many fewer.
    """

    only_finishes: ClassVar[bool] = False
    job_columns: ClassVar[Mapping[str, Any]] = {
        **BatchingEngine.job_columns,
        "member": -1,
        "retries": 0,
        "cached_tokens": 0,
        "prefill_tokens": 0,
    }
    """``member``: who served it last; ``retries``: how often a failure threw it back; ``cached_tokens``: of
    its prompt, when served last; ``prefill_tokens``: prompt tokens sent to be computed, over all tries."""

    def __init__(
        self,
        engine: Callable[[int], BatchingEngine],
        members: int,
        *,
        router: Router | None = None,
        place: Mapping[str, int] | None = None,
        cache_blocks: int = 0,
        block_tokens: int = 16,
        blocks_of: Callable[[Request, int], Sequence[Block]] | None = None,
        outages: Iterable[Outage] = (),
        takes_along: Iterable[str] = (),
        sharing: Rule | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(members, bool) or not isinstance(members, int) or members < 1:
            raise ValueError(f"members must be a whole number >= 1, got {members!r}")
        self.members = [
            Member(
                i,
                f"{i}" if names is None else names[i],
                engine(i),
                PrefixCache(cache_blocks, block_tokens) if cache_blocks else None,
            )
            for i in range(members)
        ]
        self._make = engine
        self._router: Router = RoundRobin() if router is None else router
        self._place = _checked_place(place or {}, members)
        self._block_tokens = block_tokens
        self._blocks_of = blocks_of if blocks_of is not None else self._conversation_blocks
        self._outages = sorted(outages, key=lambda outage: outage.at_s)
        for outage in self._outages:
            if outage.member >= members:
                raise ValueError(f"outage: member must be < {members}, got {outage.member!r}")
        self._takes_along = frozenset(takes_along)
        self._sharing = sharing
        limits = [member.slots for member in self.members]
        self.slots = None if None in limits else sum(limits)  # type: ignore[arg-type]
        self._numbers: dict[Hashable, int] = {}
        self._home_of_key: dict[str, Member] = {}
        self._parked: list[Job] = []
        self._done: list[Job] = []
        self._clock: Clock | None = None
        self._card: SharedCard | None = None
        self._look_again: Callable[[Number], None] | None = None

    def __repr__(self) -> str:
        return f"Fleet({len(self.members)} × {self.members[0].engine!r}, {type(self._router).__name__})"

    # -- what the gateway asks ------------------------------------------------------------------------

    def check(self, request: Request) -> None:
        """Raise ``ValueError``, naming field, value and request, for work that a member it may be sent to can
        never serve. Every request, or the first of a worker, is shown here before the run: this is where the
        fleet learns whose key it is.
        """
        home = self._home(request)
        if home is not None:
            self._home_of_key[request.key] = home
        for member in self.members if home is None else [home]:
            member.engine.check(request)

    def attach(self, clock: Clock, finished: Finished, progress: Progress) -> None:
        """Start of a run. Raises ``ValueError`` when it served one before."""
        if self._clock is not None:
            raise ValueError(f"an engine serves one run, this one was used: {self!r}")
        self._clock = clock
        self._finished = finished
        self._progress = progress
        if self._sharing is not None:
            self._card = SharedCard(clock, self._sharing)
        for member in self.members:
            self._connect(member)
        for outage in self._outages:
            self._call(max(outage.at_s, clock.now), _AFTER_FINISHES, partial(self._fail, outage))

    def admit(self, job: Job) -> None:
        """Take a job; it goes to a member now, or as soon as one is up that may have it."""
        job.retries = 0  # type: ignore[attr-defined]
        job.prefill_tokens = 0  # type: ignore[attr-defined]
        self._route(job)

    def accepts(self, key: str) -> bool:
        """Whether a request with this key may start now."""
        home = self._home_of_key.get(key)
        if home is not None:
            return home.has_room
        if self.slots is None:
            return any(member.up for member in self.members)
        here = sum(len(member.jobs) for member in self.members) + len(self._parked)
        return here < sum(member.slots or 0 for member in self.members if member.up)

    def on_room(self, look_again: Callable[[Number], None]) -> None:
        """``look_again(now)`` is called when a member comes back."""
        self._look_again = look_again

    def series(self) -> Mapping[str, Sequence[Any]]:
        """``t`` (seconds), ``member``, ``running``, ``waiting`` (in its own queue), ``kv_pct`` (0 to 100)."""
        rows: list[tuple[Any, ...]] = []
        for member in self.members:
            for engine in (*member.past, member.engine):
                series = engine.series()
                times = [member.real(t) for t in series["t"]]
                columns = (series[name] for name in ("running", "waiting", "kv_pct"))
                rows += zip(times, [member.index] * len(times), *columns, strict=True)
            rows += [(t, member.index, 0, 0, 0.0) for t in member.deaths]
        rows.sort(key=lambda row: row[0])
        names = ("t", "member", "running", "waiting", "kv_pct")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    def down_s(self, tenant: str) -> float:
        """Seconds in which nothing could serve this tenant, after the outages it was given."""
        index = self._index(tenant)
        struck = [
            (outage.at_s, outage.at_s + outage.down_s, member.index)
            for outage in self._outages
            for member in self.members
            if member.index == outage.member or outage.kind in self._takes_along
        ]
        mine = [member.index for member in self.members] if index is None else [index]
        moments = sorted({moment for *ends, _ in struck for moment in ends})
        return sum(
            after - at
            for at, after in pairwise(moments)
            if all(any(low <= at < high and i == where for low, high, where in struck) for i in mine)
        )

    # -- where it goes --------------------------------------------------------------------------------

    def _home(self, request: Request) -> Member | None:
        """The member that this tenant is tied to."""
        index = self._index(request.tenant) if self._place else None
        return None if index is None else self.members[index]

    def _index(self, tenant: str) -> int | None:
        index = self._place.get(tenant)
        if index is None:
            group, _, number = tenant.rpartition("-")
            index = self._place.get(group) if number.isdigit() else None
        return index

    def _route(self, job: Job) -> None:
        request = job.request
        home = self._home(request)
        able = [member for member in (self.members if home is None else [home]) if member.up]
        if not able:
            self._parked.append(job)
            return
        prompt = _prompt(job)
        blocks: Sequence[Block] = ()
        if self.members[0].cache is not None:
            blocks = self._blocks_of(request, prompt)
        member: Any = able[0]
        if home is None:
            member = self._router.choose(session_of(request), blocks, able)
        self._send(job, member, blocks)

    def _send(self, job: Job, member: Member, blocks: Sequence[Block]) -> None:
        request = job.request
        if self._card is not None:
            self._card.catch_up()
        inner = _Inner()
        inner.request = request
        inner.outer = job
        inner.start = member.lane.clock.now if member.lane is not None else self._now
        cached = 0
        if member.cache is not None:
            held = member.cache.match(blocks)
            member.cache.use(blocks[:held])
            # At least one token is computed: the answer comes out of it.
            cached = min(held * self._block_tokens, _prompt(job) - 1)
        inner.cached_tokens = job.cached_tokens = cached
        job.member = member.index  # type: ignore[attr-defined]
        job.prefill_tokens += _prompt(job) - cached  # type: ignore[attr-defined]
        member.jobs[job] = inner
        member.engine.admit(inner)
        if self._card is not None:
            self._card.reschedule()

    def _conversation_blocks(self, request: Request, tokens: int) -> Sequence[Block]:
        """Of a conversation all blocks but those it shares with others are its own; without one, nothing can
        be found again.
        """
        conversation = request.conversation
        if conversation is None:
            return ()
        size = self._block_tokens
        shared = min(getattr(conversation, "shared_tokens", 0), tokens) // size
        own = self._first_block(str(conversation))
        blocks = [*range(own + shared, own + tokens // size)]
        if shared:
            system = self._first_block((conversation.shared,))
            blocks[:0] = range(system, system + shared)
        return blocks

    def _first_block(self, name: Hashable) -> int:
        """Blocks are numbered: whoever is named gets numbers enough for any prompt."""
        return self._numbers.setdefault(name, len(self._numbers) << 40)

    # -- what comes back ------------------------------------------------------------------------------

    def _connect(self, member: Member) -> None:
        """Start the member's engine."""
        clock = self._clock
        assert clock is not None  # attached
        if self._card is not None:
            if member.lane is None:
                member.lane = self._card.lane()
            member.lane.process = member.engine
            clock = member.lane.clock
        member.engine.attach(clock, partial(self._come_back, member), self._tell)

    def _tell(self, inner: Any, cost: Number) -> None:
        self._progress(inner.outer, cost)

    def _come_back(self, member: Member, inner: Any) -> None:
        """A member is done with a job. All of one instant are passed on together, in dispatch order."""
        job = inner.outer
        del member.jobs[job]
        job.finish = self._now if member.lane is not None else inner.finish
        if inner.first_token is not None:
            job.first_token = min(member.real(inner.first_token), job.finish)
        job.scheduled = max(float(job.start), member.real(inner.scheduled))
        rest = int(job.request.output_tokens) - 1
        job.tpot = (job.finish - job.first_token) / rest if rest > 0 else None
        job.preemptions += inner.preemptions
        if member.cache is not None:
            # The last token made is never read, so it is not in the cache.
            member.cache.use(self._blocks_of(job.request, _prompt(job) + max(rest, 0)))
        if not self._done:
            self._call(self._now, FINISH, self._pass_on)
        self._done.append(job)

    def _pass_on(self, event: Event) -> None:
        done, self._done = sorted(self._done, key=_row), []
        for job in done:
            self._finished(job)

    # -- failures -------------------------------------------------------------------------------------

    def _fail(self, outage: Outage, event: Event) -> None:
        """It goes down, with all that it held; those it was serving are sent elsewhere."""
        struck = [self.members[outage.member]]
        if outage.kind in self._takes_along:
            struck = self.members
        if self._card is not None:
            self._card.catch_up()
        lost: list[Any] = []
        for member in struck:
            lost += member.jobs
            for inner in member.jobs.values():
                inner.outer.preemptions += inner.preemptions
            member.jobs.clear()
            if member.up:
                member.engine.halt()
                member.past.append(member.engine)
                member.deaths.append(float(self._now))
            member.down += 1
            if member.cache is not None:
                member.cache.clear()
            if member.lane is not None:
                member.lane.process = None
        self._call(self._now + outage.down_s, _AFTER_FINISHES, partial(self._return, struck))
        if self._card is not None:
            self._card.reschedule()
        for job in sorted(lost, key=_row):
            job.retries += 1
            self._route(job)

    def _return(self, struck: Sequence[Member], event: Event) -> None:
        """They are back, empty."""
        for member in struck:
            member.down -= 1
            if member.up:
                member.engine = self._make(member.index)
                self._connect(member)
        parked, self._parked = sorted(self._parked, key=_row), []
        for job in parked:
            self._route(job)
        if self._look_again is not None:
            self._look_again(self._now)

    # -- events ---------------------------------------------------------------------------------------

    @property
    def _now(self) -> Number:
        assert self._clock is not None  # attached
        return self._clock.now

    def _call(self, time: Number, priority: float, callback: Callable[[Event], None]) -> None:
        assert self._clock is not None  # attached
        event = Event(self._clock)
        event._ok, event._value = True, None
        event.callbacks = [callback]
        self._clock.at(time, event, priority)  # type: ignore[arg-type]


def session_of(request: Request) -> str:
    """The name a router knows a request's conversation by; one without is a conversation of its own."""
    return str(request.id if request.conversation is None else request.conversation)


def _prompt(job: Any) -> int:
    return int(job.request.prompt_tokens)


def _row(job: Any) -> int:
    row: int = job.row
    return row


def _checked_place(place: Mapping[str, int], members: int) -> dict[str, int]:
    for name, index in place.items():
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < members:
            raise ValueError(f"place of {name!r} must be a member 0..{members - 1}, got {index!r}")
    return dict(place)
