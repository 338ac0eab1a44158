"""The batching engine behind a gateway: the core, driven by the run's clock."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Several
from math import inf, isfinite
from operator import index
from typing import Any, ClassVar

from simpy import Event

from fairq.policies.base import Policy
from fairq.request import Number, Request
from fairq.sim.batching.core import EPS, BatchCore, Limits
from fairq.sim.batching.profile import Profile
from fairq.sim.batching.sequence import PolicyWaiting, Sequence
from fairq.sim.clock import FINISH, LAST, Clock
from fairq.sim.engine import Finished, Job, Progress

_PROGRESS = ("finishes", "tokens", "never")


class BatchingEngine:
    """One GPU with continuous batching, as vLLM schedules it. Serves one run.

    Parameters
    ----------
    profile : how long a step takes.
    max_num_seqs : how many requests may run at once.
    max_num_batched_tokens : tokens of one step, prompts and one per decoding request together.
    kv_tokens : what the KV cache holds; default: the profile's.
    block_tokens : tokens per KV block.
    scheduling : order of the engine's own queue, ``"fcfs"`` or ``"priority"`` (vLLM's
        ``--scheduling-policy``); it also decides who is preempted when blocks run out. Or a fresh policy: a
        fair scheduler built into the engine, as the VTC paper has it (the newest is preempted).
    gateway_slots : how many requests the gateway may release at once, ``0`` for no limit; default
        ``max_num_seqs``, or no limit when ``scheduling`` is a policy. What it releases beyond what fits
        waits in the engine's own queue, where the policy no longer reaches it: the hidden queue.
    admission : when the engine starts a waiting request: its whole prompt fits the free blocks
        (``"prompt"``, vLLM since 0.19), its first chunk does (``"chunk"``, vLLM before), or the batch never
        outgrows the cache (``"peak"``, LightLLM and S-LoRA).
    chunked_prefill : prompts are computed in chunks along with the decodes; without, a step computes whole
        prompts and those that decode wait.
    token_prices : what a prompt token and an output token cost a policy built into the engine. (The
        gateway's policy counts every token as one.)
    progress : when the policy learns the true cost so far of all that runs: before each instant at which
        some finish (``"finishes"``: exact whenever a slot is given away), after every step (``"tokens"``:
        an event per step), or only as each finishes (``"never"``).

    Raises
    ------
    ValueError : names the setting and the value.
    """

    only_finishes: ClassVar[bool] = False
    job_columns: ClassVar[Mapping[str, Any]] = {"scheduled": None, "tpot": None, "preemptions": 0}
    """``scheduled``: when the engine first ran it; ``tpot``: time per output token after the first (s)."""

    def __init__(
        self,
        profile: Profile,
        max_num_seqs: int = 256,
        max_num_batched_tokens: int = 2048,
        kv_tokens: int | None = None,
        block_tokens: int = 16,
        *,
        scheduling: str | Policy = "fcfs",
        gateway_slots: int | None = None,
        admission: str = "prompt",
        chunked_prefill: bool = True,
        token_prices: tuple[float, float] = (1, 1),
        progress: str = "finishes",
    ) -> None:
        if not isinstance(profile, Profile):
            raise ValueError(f"profile must be a Profile, got {profile!r}")
        if kv_tokens is None:
            kv_tokens = profile.kv_tokens
        if kv_tokens is None:
            raise ValueError(
                f"profile {profile.name!r} does not say how many tokens its KV cache holds: give kv_tokens"
            )
        if progress not in _PROGRESS:
            raise ValueError(f"progress must be one of {', '.join(_PROGRESS)}, got {progress!r}")
        if len(token_prices) != 2 or not all(isfinite(price) and price >= 0 for price in token_prices):
            raise ValueError(f"token_prices must be two finite numbers >= 0, got {token_prices!r}")
        inside: Policy | None = None
        if isinstance(scheduling, Policy):
            inside, scheduling = scheduling, "fcfs"
        if inside is not None and inside.used:
            raise ValueError(f"a policy serves one run, this one was used: {inside!r}")
        self.profile = profile
        self.limits = Limits(
            max_num_seqs,
            max_num_batched_tokens,
            kv_tokens,
            block_tokens,
            scheduling,
            admission,
            chunked_prefill,
        )
        if gateway_slots is None:
            gateway_slots = max_num_seqs if inside is None else 0
        if isinstance(gateway_slots, bool) or not isinstance(gateway_slots, int) or gateway_slots < 0:
            raise ValueError(
                f"gateway_slots must be a whole number >= 0 (0: no limit), got {gateway_slots!r}"
            )
        self.slots = gateway_slots or None
        self._progress_when = progress
        self._prices = token_prices
        self._inside = inside
        self._core = BatchCore(
            profile,
            self.limits,
            max_steps=1 if progress == "tokens" else None,
            waiting=None if inside is None else PolicyWaiting(inside, _request),
        )
        self._clock: Clock | None = None
        self._wake: Event | None = None
        self._armed = inf
        # All that made a token and are not done, those preempted since included.
        self._begun: dict[Sequence, None] = {}

    def __repr__(self) -> str:
        return f"BatchingEngine({self.profile.name!r}, {self.limits!r}, gateway_slots={self.slots or 0})"

    def check(self, request: Request) -> None:
        """Raise ``ValueError``, naming field, value and request, for work it can never serve."""
        try:
            self.limits.check(*_sizes(request))
        except ValueError as error:
            raise ValueError(f"{error} in {request!r}") from None

    def attach(self, clock: Clock, finished: Finished, progress: Progress) -> None:
        """Start of a run. Raises ``ValueError`` when it served one before."""
        if self._clock is not None:
            raise ValueError(f"an engine serves one run, this one was used: {self!r}")
        self._clock = clock
        self._finished = finished
        self._progress = progress

    def admit(self, job: Job) -> None:
        """Take a job, which is in the engine's own queue from now on."""
        core = self._core
        prompt, output = _sizes(job.request)
        sequence = Sequence(prompt, output, priority=job.request.priority, tag=job, cached=job.cached_tokens)
        core.add(sequence, float(job.start))
        if core.planned:
            self._arm()
        else:
            self._settle_after(core.at)

    def halt(self) -> None:
        """The process dies: nothing it holds will finish. (Its jobs are the caller's to send elsewhere.)"""
        self._wake = None

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do."""
        return self._core.idle

    @property
    def demand(self) -> tuple[float, float, float] | None:
        """What it uses of the card, as shares of its time (``BatchCore.demand``)."""
        return self._core.demand

    def series(self) -> Mapping[str, Several[Any]]:
        """``t`` (seconds), ``running``, ``waiting`` (in the engine's own queue), ``kv_pct`` (0 to 100)."""
        blocks = self.limits.blocks
        rows = self._core.series
        return {
            "t": [row[0] for row in rows],
            "running": [row[1] for row in rows],
            "waiting": [row[2] for row in rows],
            "kv_pct": [100.0 * row[3] / blocks for row in rows],
        }

    # -- events ---------------------------------------------------------------------------------

    def _settle_after(self, at: float) -> None:
        """Decide the next step once all that comes at this boundary has come."""
        if self._wake is None:
            self._wake = self._call(at + EPS, LAST + 1, self._settled)

    def _settled(self, event: Event) -> None:
        if event is self._wake:
            self._wake = None
            self._arm()

    def _arm(self) -> None:
        """Wake up at the next change, which an arrival may have brought forward."""
        change = self._core.next_change()
        if change is not None and (self._wake is None or change != self._armed):
            self._armed = change
            self._wake = self._call(change, FINISH, self._changed)

    def _changed(self, event: Event) -> None:
        if event is not self._wake:
            return  # brought forward since
        self._wake = None
        core = self._core
        change = core.advance()
        self._begun.update(dict.fromkeys(change.first))
        for sequence in change.finished:
            self._begun.pop(sequence, None)
        if self._progress_when == "tokens" or (change.finished and self._progress_when == "finishes"):
            self._report(self._progress, 1, 1)
        if self._inside is not None:
            policy = self._inside
            prompt, output = self._prices
            self._report(lambda job, cost: policy.charge(job.request, cost), prompt, output)
            for sequence in change.finished:
                policy.done(sequence.tag.request, prompt * sequence.prompt + output * sequence.made)
        for sequence in change.finished:
            self._finished(_filled(sequence))
        if not core.idle:
            self._settle_after(core.at)

    def _report(self, progress: Progress, prompt: float, output: float) -> None:
        """Tell the true cost so far, at these prices, of all that have made a token."""
        core = self._core
        for sequence in self._begun:
            progress(sequence.tag, prompt * sequence.prompt + output * core.made(sequence, core.at))

    def _call(self, time: float, priority: int, callback: Any) -> Event:
        assert self._clock is not None  # attached
        event = Event(self._clock)
        event._ok, event._value = True, None
        event.callbacks = [callback]
        self._clock.at(time, event, priority)
        return event


def _request(sequence: Sequence) -> Request:
    request: Request = sequence.tag.request
    return request


def _filled(sequence: Sequence) -> Any:
    """The job of a finished sequence, with what happened to it."""
    job: Any = sequence.tag
    assert sequence.first is not None  # it finished
    job.finish = sequence.finish
    if sequence.output > 0:
        job.first_token = sequence.first
    rest = sequence.output - 1
    job.tpot = (job.finish - sequence.first) / rest if rest > 0 else None
    # A step may begin up to EPS before the arrival it takes in.
    job.scheduled = max(sequence.scheduled or 0.0, float(job.start))
    job.preemptions = sequence.preemptions
    return job


def _sizes(request: Request) -> tuple[int, int]:
    """Prompt and output tokens as whole numbers; ``ValueError`` names the field."""
    return _whole(request, "prompt_tokens"), _whole(request, "output_tokens")


def _whole(request: Request, field: str) -> int:
    value: Number = getattr(request, field)
    try:
        return index(value)
    except TypeError:
        if value is None or value != int(value):
            raise ValueError(f"{field} must be a whole number for a batching engine, got {value!r}") from None
        return int(value)
