"""From the speed at each number of streams to the card: rows, limits, what binds, who fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import inf
from typing import Any, Protocol

from fairq.capacity.shape import Shape

MARGINAL = 0.1
"""Compute binds from where one more stream adds less than this part of what the first one made."""

MOST_USERS = 100_000


class Point(Protocol):
    """The speed with so many streams: seconds to the first token once in service, and per token after it."""

    @property
    def first_s(self) -> float: ...

    @property
    def token_s(self) -> float: ...


@dataclass(frozen=True)
class Limits:
    """How many streams each part allows at once; None: it sets no limit (or none is known).

    ``slots``: the engine's own (``max_num_seqs``, ``-np``); ``gateway``: what the gateway releases; ``kv``:
    what the KV cache holds on average; ``compute``: from where another stream adds next to nothing (not a
    wall: more may run).
    """

    slots: int | None = None
    kv: int | None = None
    gateway: int | None = None
    compute: int | None = None

    @property
    def streams(self) -> int | None:
        """How many can run at once."""
        walls = [each for each in (self.slots, self.kv, self.gateway) if each is not None]
        return min(walls) if walls else None

    @property
    def wall(self) -> str:
        """Which of gateway, slots and KV comes first; "" when none is known."""
        named = {"gateway": self.gateway, "slots": self.slots, "KV": self.kv}
        known = {name: value for name, value in named.items() if value is not None}
        # A gateway that releases as many as the engine has slots is not what is in the way.
        if known.get("gateway") == known.get("slots"):
            known.pop("gateway", None)
        return min(known, key=lambda name: known[name]) if known else ""

    @property
    def binds(self) -> str:
        """What keeps the total from growing: gateway, slots, KV or compute."""
        if self.compute is not None and self.compute < (self.streams or inf):
            return "compute"
        return self.wall


@dataclass(frozen=True)
class StreamRow:
    """The box with so many requests in service. Seconds; tokens are generated ones."""

    streams: float
    tokens_per_s: float
    tokens_per_s_per_stream: float
    time_per_output_token_s: float
    first_token_s: float
    requests_per_s: float
    kv_pct: float | None = None
    measured_tokens_per_s: float | None = None
    measured_s: float | None = None


@dataclass(frozen=True)
class UserRow:
    """The box with so many people who each have one request in flight. Seconds."""

    users: int
    streams: int
    waiting: int
    tokens_per_s: float
    tokens_per_s_per_user: float
    ttft_s: float
    time_per_output_token_s: float
    latency_s: float
    people: float | None = None
    """How many people that is who think between two requests (None without a think time)."""


@dataclass(frozen=True)
class Target:
    """What people were promised, on average, and how many it holds for."""

    ttft_s: float
    time_per_output_token_s: float
    users: int
    binds: str
    why: str
    people: float | None = None


@dataclass(frozen=True)
class Card:
    """Everything a card says. ``by_streams`` runs from 1 to what can run, ``by_users`` as far as asked."""

    source: str
    kind: str
    shape: Shape | None
    limits: Limits
    max_streams: int
    binds: str
    by_streams: Sequence[StreamRow]
    by_users: Sequence[UserRow]
    target: Target | None
    arithmetic: Sequence[str] = ()
    notes: Sequence[str] = ()
    caveats: Sequence[str] = ()
    """What to know before anything else."""
    think_s: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def top(self) -> StreamRow:
        """The row with the most tokens per second."""
        return max(self.by_streams, key=lambda row: row.tokens_per_s)

    def at(self, streams: int) -> StreamRow:
        """The row of so many streams (the nearest there is)."""
        return min(self.by_streams, key=lambda row: abs(row.streams - streams))

    def as_dict(self) -> dict[str, Any]:
        """Plain data, figures unrounded."""
        return asdict(self)


def make_card(
    point: Callable[[int], Point],
    shape: Shape,
    limits: Limits,
    *,
    source: str,
    kind: str,
    users: int | None = None,
    ttft_s: float = 2.0,
    tpot_s: float = 0.1,
    think_s: float | None = None,
    kv_tokens: int | None = None,
    arithmetic: Callable[[int], Sequence[str]] = lambda streams: (),
    notes: Sequence[str] = (),
    caveats: Sequence[str] = (),
    most_streams: int = 512,
) -> Card:
    """The card of a box whose speed with n streams is ``point(n)``.

    Parameters
    ----------
    shape : of a request. limits : without ``compute``, which is found here.
    users : rows ``by_users`` go this far; default: twice what can run.
    ttft_s, tpot_s : the promise: mean time to first token and per output token, in seconds.
    caveats, notes : what to say first and last.
    think_s : mean pause of a person between an answer and the next question, in seconds.
    most_streams : how far to look where nothing limits the streams.

    Raises
    ------
    ValueError : a promise or pause that is not positive, users below 1, a limit below one stream.
    """
    for name, value in (("ttft_s", ttft_s), ("tpot_s", tpot_s)):
        if not 0 < value < inf:
            raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
    if think_s is not None and not 0 <= think_s < inf:
        raise ValueError(f"think_s must be a finite number >= 0, got {think_s!r}")
    if users is not None and users < 1:
        raise ValueError(f"users must be >= 1, got {users!r}")
    most = limits.streams or most_streams
    if most < 1:
        raise ValueError(f"not even one stream fits: {limits}")
    rows = [_stream_row(n, point(n), shape, kv_tokens) for n in range(1, most + 1)]
    limits = Limits(limits.slots, limits.kv, limits.gateway, _compute_limit(rows))
    by_users = [_user_row(n, rows, shape, think_s) for n in range(1, (users or max(2 * most, 16)) + 1)]
    return Card(
        source=source,
        kind=kind,
        shape=shape,
        limits=limits,
        max_streams=most,
        binds=limits.binds,
        by_streams=rows,
        by_users=by_users,
        target=_target(rows, shape, limits, ttft_s, tpot_s, think_s),
        arithmetic=list(arithmetic(min(8, most))),
        notes=list(notes),
        caveats=list(caveats),
        think_s=think_s,
    )


def _stream_row(n: int, point: Point, shape: Shape, kv_tokens: int | None) -> StreamRow:
    service = point.first_s + (shape.output_tokens - 1) * point.token_s
    each = shape.output_tokens / service
    return StreamRow(
        streams=n,
        tokens_per_s=n * each,
        tokens_per_s_per_stream=each,
        time_per_output_token_s=point.token_s,
        first_token_s=point.first_s,
        requests_per_s=n / service,
        kv_pct=None if not kv_tokens else min(100.0, 100 * n * shape.context_tokens / kv_tokens),
    )


def _compute_limit(rows: Sequence[StreamRow]) -> int | None:
    """The first number of streams after which one more adds too little."""
    first = rows[0].tokens_per_s
    for row, more in pairwise(rows):
        if more.tokens_per_s - row.tokens_per_s < MARGINAL * first:
            return int(row.streams)
    return None


def _user_row(users: int, rows: Sequence[StreamRow], shape: Shape, think_s: float | None) -> UserRow:
    """Of ``users`` at once, as many as can run do; the rest wait their turn.

    In a closed loop of N users latency = N / (requests per second): the interactive response time law with no
    think time (Lazowska et al. 1984, chapter 3).
    """
    row = rows[min(users, len(rows)) - 1]
    latency = users / row.requests_per_s
    service = shape.output_tokens / row.tokens_per_s_per_stream
    wait = max(latency - service, 0.0) if users > row.streams else 0.0
    return UserRow(
        users=users,
        streams=int(row.streams),
        waiting=users - int(row.streams),
        tokens_per_s=row.tokens_per_s,
        tokens_per_s_per_user=row.tokens_per_s / users,
        ttft_s=wait + row.first_token_s,
        time_per_output_token_s=row.time_per_output_token_s,
        latency_s=latency,
        people=None if think_s is None else users + row.requests_per_s * think_s,
    )


def _target(
    rows: Sequence[StreamRow],
    shape: Shape,
    limits: Limits,
    ttft_s: float,
    tpot_s: float,
    think_s: float | None,
) -> Target:
    fits, people = 0, 0.0 if think_s is not None else None
    for users in range(1, MOST_USERS + 1):
        row = _user_row(users, rows, shape, think_s)
        late, slow = row.ttft_s > ttft_s, row.time_per_output_token_s > tpot_s
        if late or slow:
            break
        fits, people = users, row.people
    else:
        return Target(ttft_s, tpot_s, fits, "", f"holds for {MOST_USERS:,} users and more", people)
    if slow:
        binds = "compute"
        why = f"with {users} a token takes {_past(row.time_per_output_token_s * 1000, tpot_s * 1000)} ms"
    elif row.waiting:
        binds = limits.wall
        why = f"{row.streams} run at once ({binds or 'observed'}); with {users} the first token takes"
        why += f" {_past(row.ttft_s, ttft_s)} s, most of it waiting"
    else:
        binds = "compute"
        why = f"with {users} the first token takes {_past(row.ttft_s, ttft_s)} s: prompts take that long"
    return Target(ttft_s, tpot_s, fits, binds, why, people)


def _past(value: float, bound: float) -> str:
    """Three figures, or as many more as it takes to be seen above the bound."""
    texts = (f"{value:.{digits}g}" for digits in range(3, 17))
    return next((text for text in texts if float(text) > bound), f"{value!r}")
