"""Which replica? A router chooses among those that are healthy, knowing what a router can know.

``choose(session, blocks, replicas)``: the name of the conversation, the names of the prompt's blocks, and
the healthy replicas in a fixed order, each with its ``name``, its ``load`` (requests in flight) and
``match``. Ties go to the first. A router may remember, but it serves one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any, ClassVar, Protocol

from fairq.sim.replicas.prefix import Block


class Replica(Protocol):
    """What a router sees of one."""

    @property
    def name(self) -> str: ...

    @property
    def load(self) -> int:
        """Requests sent there that have not come back."""

    def match(self, blocks: Iterable[Block]) -> int:
        """Leading blocks in its prefix cache."""


class Router(Protocol):
    """Chooses one of the healthy replicas, of which there is at least one."""

    def choose(self, session: str, blocks: Sequence[Block], replicas: Sequence[Replica]) -> Replica: ...


class RoundRobin:
    """Each in turn. Blind to load and cache; a conversation finds its history by luck, one time in R."""

    label: ClassVar[str] = "round robin"

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, session: str, blocks: Sequence[Block], replicas: Sequence[Replica]) -> Replica:
        chosen = replicas[self._turn % len(replicas)]
        self._turn += 1
        return chosen


class LeastBusy:
    """The one with the fewest requests in flight. Even load, and the cache is found by luck."""

    label: ClassVar[str] = "least busy"

    def choose(self, session: str, blocks: Sequence[Block], replicas: Sequence[Replica]) -> Replica:
        return min(replicas, key=_load)


class SessionAffinity:
    """A conversation always goes to the same replica: the highest of hash(conversation, replica).

    Rendezvous hashing (Thaler & Ravishankar 1998): when a replica goes, its own conversations spread over
    the others and nobody else's move; when it returns, they return. Needs no table and no knowledge of load.
    """

    label: ClassVar[str] = "session affinity"

    def choose(self, session: str, blocks: Sequence[Block], replicas: Sequence[Replica]) -> Replica:
        return max(replicas, key=lambda replica: rendezvous(session, replica.name))


class LongestPrefix:
    """The replica that holds most of the prompt, among those not much busier than the least busy.

    Parameters
    ----------
    slack : how many requests more than the least busy one it may have in flight. ``None``: any number, which
        is the counter-example: where all prompts begin alike (a system prompt), the first replica has the
        longest prefix of every newcomer too, gets all of them, and the others idle.

    Raises
    ------
    ValueError : a slack below 0.
    """

    label: ClassVar[str] = "longest prefix"

    def __init__(self, slack: float | None = 4) -> None:
        if slack is not None and (isinstance(slack, bool) or not isfinite(slack) or slack < 0):
            raise ValueError(f"slack must be a finite number of requests >= 0, or None, got {slack!r}")
        self.slack = slack

    def choose(self, session: str, blocks: Sequence[Block], replicas: Sequence[Replica]) -> Replica:
        if self.slack is None:
            return max(replicas, key=lambda replica: replica.match(blocks))
        limit = min(map(_load, replicas)) + self.slack
        able = [replica for replica in replicas if replica.load <= limit]
        return max(able, key=lambda replica: (replica.match(blocks), -replica.load))


ROUTERS: Mapping[str, Callable[..., Any]] = {
    "round_robin": RoundRobin,
    "least_busy": LeastBusy,
    "session": SessionAffinity,
    "prefix": LongestPrefix,
    "pure_prefix": lambda slack=None: LongestPrefix(None),
}
"""Name in a file → a fresh router (``slack`` for ``prefix``)."""

LABELS: Mapping[str, str] = {
    "round_robin": "round robin",
    "least_busy": "least busy",
    "session": "session affinity",
    "prefix": "longest prefix, guarded",
    "pure_prefix": "longest prefix, pure",
}


def make_router(name: str, slack: float | None = None) -> Router:
    """A fresh router by its name. Raises ``ValueError`` for another name, or a slack that is none."""
    if name not in ROUTERS:
        raise ValueError(f"router must be one of {', '.join(ROUTERS)}, got {name!r}")
    router: Router = ROUTERS[name](slack) if name == "prefix" and slack is not None else ROUTERS[name]()
    return router


def rendezvous(session: str, replica: str) -> int:
    """A fixed 64-bit number for a pair of names."""
    # The length keeps ("a", "bc") and ("ab", "c") apart.
    text = f"{len(session)}:{session}:{replica}"
    return int.from_bytes(blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")


def _load(replica: Replica) -> int:
    return replica.load
