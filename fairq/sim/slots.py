"""The simplest engine: n slots, each serving one request at a steady speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappush
from typing import Any, ClassVar

from fairq.request import Number, Request, as_number
from fairq.sim.clock import FINISH, Clock
from fairq.sim.engine import Finished, Job, Progress


class SlotEngine:
    """``slots`` requests at once, none slowing another.

    A request with ``service`` holds its slot that long (0 allowed) and answers at the end. Otherwise it
    takes ``overhead_s + prompt_tokens / prefill_tokens_per_s + output_tokens / decode_tokens_per_s`` seconds,
    its first token coming one decode step after the prompt.

    Parameters
    ----------
    slots : how many at once, >= 1.
    overhead_s : seconds per request before its prompt is read, >= 0.
    prefill_tokens_per_s, decode_tokens_per_s : speed of one slot, > 0.

    Raises
    ------
    ValueError : names the field and the value.
    """

    only_finishes: ClassVar[bool] = True
    job_columns: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        slots: int = 8,
        *,
        overhead_s: Number = 0.0,
        prefill_tokens_per_s: Number = 8000,
        decode_tokens_per_s: Number = 40,
    ) -> None:
        if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
            raise ValueError(f"slots must be a whole number >= 1, got {slots!r}")
        _check("overhead_s", overhead_s, zero_allowed=True)
        _check("prefill_tokens_per_s", prefill_tokens_per_s)
        _check("decode_tokens_per_s", decode_tokens_per_s)
        self.slots = slots
        self.overhead_s = overhead_s
        self.prefill_tokens_per_s = prefill_tokens_per_s
        self.decode_tokens_per_s = decode_tokens_per_s
        self._clock: Clock | None = None

    def __repr__(self) -> str:
        return (
            f"SlotEngine({self.slots}, overhead_s={self.overhead_s!r},"
            f" prefill_tokens_per_s={self.prefill_tokens_per_s!r},"
            f" decode_tokens_per_s={self.decode_tokens_per_s!r})"
        )

    def check(self, request: Request) -> None:
        if request.service is None and (request.prompt_tokens is None or request.output_tokens is None):
            raise ValueError(
                "a slot needs service (seconds), or prompt_tokens and output_tokens;"
                f" got neither in {request!r}"
            )

    def service_s(self, request: Request) -> Number:
        """Seconds that a request holds a slot."""
        if request.service is not None:
            return request.service
        return self._prefill_s(request) + request.output_tokens / self.decode_tokens_per_s

    def attach(self, clock: Clock, finished: Finished, progress: Progress) -> None:
        if self._clock is not None:
            raise ValueError(f"an engine serves one run, this one was used: {self!r}")
        self._clock = clock
        self._queue, self._ticket = clock.queue, clock.ticket
        self._callbacks = (finished,)

    def admit(self, job: Job) -> None:
        request = job.request
        service = request.service
        if service is None:
            service = self.service_s(request)
            if request.output_tokens > 1:  # type: ignore[operator]
                job.first_token = job.start + (self._prefill_s(request) + 1 / self.decode_tokens_per_s)
        job.finish = finish = job.start + service
        job.callbacks = self._callbacks  # type: ignore[assignment]
        heappush(self._queue, (finish, FINISH, self._ticket(), job))

    def series(self) -> Mapping[str, Sequence[Any]] | None:
        return None

    def _prefill_s(self, request: Request) -> Number:
        return self.overhead_s + request.prompt_tokens / self.prefill_tokens_per_s


def _check(field: str, value: Any, *, zero_allowed: bool = False) -> None:
    number = as_number(value)
    if number is None or not (number >= 0 if zero_allowed else number > 0):
        raise ValueError(f"{field} must be a finite number {'>=' if zero_allowed else '>'} 0, got {value!r}")
