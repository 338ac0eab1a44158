"""What an engine promises to the gateway, and the work that passes between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

from simpy import Event

from fairq.request import Number, Request
from fairq.sim.clock import Clock


class Job(Event):
    """A request in service. It is also its own finish event: an engine may give it to ``Clock.at``.

    The gateway sets ``request``, ``row``, ``start`` (seconds) and ``slot`` (the lowest free number, from 0);
    the engine sets ``finish``, ``first_token`` when it is earlier, and what else it counts.
    """

    _ok = True
    _value = None

    request: Request
    row: int
    start: Number
    slot: int
    finish: Number
    first_token: Number | None = None
    """Seconds; ``None``: the answer comes as a whole, at the finish."""
    preemptions: int = 0
    cached_tokens: int = 0
    """Leading tokens of the prompt that need not be computed."""

    # One is made per request: no environment, no list of callbacks.
    __init__ = object.__init__


Finished: TypeAlias = Callable[[Job], None]
Progress: TypeAlias = Callable[[Job, Number], None]


class Engine(Protocol):
    """What serves. Used for one run, like a policy.

    ``slots``: how many requests the gateway may have in service at once; ``None``: no limit.
    ``only_finishes``: every event it schedules is the finish of one job (the gateway may then settle an
    instant from within a finish, which saves an event per request).
    ``job_columns``: what it counts per job, name → value of a request that was never served; each is an
    attribute of ``Job`` and becomes a column of the result.
    """

    @property
    def slots(self) -> int | None: ...

    only_finishes: ClassVar[bool]
    job_columns: ClassVar[Mapping[str, Any]]

    def check(self, request: Request) -> None:
        """Raise ``ValueError``, naming field, value and request, for work it can never serve."""

    def attach(self, clock: Clock, finished: Finished, progress: Progress) -> None:
        """Start of a run. Later it calls ``finished(job)`` at ``job.finish``, once per job, in dispatch
        order at one instant; and may call ``progress(job, cost)`` with the true cost so far (tokens,
        absolute) while the job runs. Raises ``ValueError`` when it served a run before.
        """

    def admit(self, job: Job) -> None:
        """Take a job into service at ``job.start``, which is now. Must not call ``finished`` within."""

    def series(self) -> Mapping[str, Sequence[Any]] | None:
        """Columns of its own time series after a run (``t`` in seconds first), or ``None``."""


class Choosy(Protocol):
    """An engine that cannot take just any request: some part of it is full, or down."""

    def accepts(self, key: str) -> bool:
        """Whether a request that comes with this key may start now; the policy chooses among such keys."""

    def on_room(self, look_again: Callable[[Number], None]) -> None:
        """``look_again(now)`` is to be called when it accepts more although no job has finished."""
