"""When is it my turn? From the state of a queue and the speed of the box: position and start, with a spread.

The queue is played forward many times on a copy: what runs now ends at its estimated size (or later, if it is
longer than thought), the policy chooses, the chosen one takes its time, until it is the asked one's turn.
Sizes differ from their estimates by a lognormal factor; who may still come can be drawn from a workload. What
comes out are quantiles of the start; a test counts how often the simulated truth lies between them.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log, sqrt
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from fairq.policies.base import Policy
from fairq.request import Request

SAMPLES = 200
SPREAD = 0.8
"""Part of the cases in which the true start should lie between ``low_s`` and ``high_s``."""
SLOW = 10_000
"""Requests served ahead of one in a single sample, after which it counts as never started."""


class Speed(Protocol):
    """Seconds of service for so many tokens, when so many requests run."""

    def __call__(self, request: Request, tokens: float) -> float: ...


@dataclass(frozen=True)
class Eta:
    """``position``: how many would be served before it if nothing else came. Times in seconds from now.

    In ``confidence`` of the cases the start lies between ``low_s`` and ``high_s``; half of them are before
    ``median_s``. ``first_token_s`` adds the time to the first token to the median, where the speed knows it.
    ``never``: part of the cases in which it was not served at all (held back by a cap of 0, or starved).
    """

    position: int
    median_s: float
    low_s: float
    high_s: float
    confidence: float
    samples: int
    never: float = 0.0

    def __str__(self) -> str:
        if not isfinite(self.median_s):
            return f"position {self.position}: not served under the present limits"
        spread = f"{self.confidence:.0%} between {_time(self.low_s)} and {_time(self.high_s)}"
        return f"position {self.position}: starts in about {_time(self.median_s)} ({spread})"


@dataclass(frozen=True)
class Running:
    """A request in service, for ``elapsed_s`` seconds so far."""

    request: Request
    elapsed_s: float


def slot_speed(prefill_tokens_per_s: float, decode_tokens_per_s: float, overhead_s: float = 0.0) -> Speed:
    """The service time of a slot (``fairq.sim.SlotEngine``); where no prompt is known all is generated."""

    def seconds(request: Request, tokens: float) -> float:
        prompt = min(request.prompt_tokens or 0, tokens)
        return overhead_s + prompt / prefill_tokens_per_s + (tokens - prompt) / decode_tokens_per_s

    return seconds


def card_speed(card: Any, streams: int | None = None) -> Speed:
    """The speed a capacity card states with ``streams`` in service (default: as many as can run)."""
    row = card.at(card.max_streams if streams is None else streams)
    prompts = card.shape.prompt_tokens if card.shape is not None else 0.0
    prefill = prompts / row.first_token_s if row.first_token_s > 0 and prompts > 0 else inf
    decode = 1 / row.time_per_output_token_s if row.time_per_output_token_s > 0 else inf
    return slot_speed(prefill, decode)


def eta(
    queue: Policy,
    request: Request,
    running: Sequence[Running],
    slots: int,
    speed: Speed,
    *,
    sigma: float = 0.0,
    now: float = 0.0,
    arrivals: Callable[[int], Sequence[Request]] | None = None,
    samples: int = SAMPLES,
    confidence: float = SPREAD,
    seed: int = 0,
) -> Eta:
    """Position and start of a waiting request.

    Parameters
    ----------
    queue : the policy as it is; it is not changed. request : waits in it.
    running : what the queue has handed out. slots : how many are in service at once.
    speed : seconds of service of a request of so many tokens.
    sigma : of the lognormal factor between a true size and its estimate (0: estimates are exact). For the
        running ones the factor is conditioned on their not being done yet.
    now : the time in seconds on the clock of the requests' arrivals.
    arrivals : sample number → requests that may still come, with ``arrival`` after ``now``; None: none.
    samples : how often it is played; 1 is enough where nothing is random.
    confidence : part of the cases between ``low_s`` and ``high_s``.

    Raises
    ------
    ValueError : the request does not wait there, running and slots do not fit, a number out of range.
    """
    _check(queue, request, running, slots, sigma, samples, confidence)
    try:
        position = queue.position(request, now=now if queue.needs_now else None)
    except ValueError:
        if queue.waiting(request.tenant) == 0:
            raise
        position = len(queue) - 1  # a cap of 0: behind everybody, for ever
    certain = sigma == 0 and arrivals is None
    count = 1 if certain else samples
    starts = np.array(
        [
            _start(
                queue,
                request,
                running,
                slots,
                speed,
                sigma,
                now,
                () if arrivals is None else arrivals(sample),
                np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, sample)))),
            )
            for sample in range(count)
        ]
    )
    tail = (1 - confidence) / 2
    low, median, high = (float(_quantile(starts, q)) for q in (tail, 0.5, 1 - tail))
    return Eta(position, median, low, high, confidence, count, float(np.isinf(starts).mean()))


def eta_in_line(
    position: int,
    streams: int,
    service_s: float,
    cv: float = 1.0,
    *,
    busy: bool = True,
    samples: int = 2000,
    confidence: float = SPREAD,
    seed: int = 0,
) -> Eta:
    """The same from four numbers, first come first served: for those who see only a queue's length.

    Parameters
    ----------
    position : how many wait in front. streams : how many are served at once (a card's).
    service_s, cv : mean and coefficient of variation of the time in service. busy : all streams are taken.

    Raises
    ------
    ValueError : a number out of range.
    """
    for name, value, least in (("position", position, 0), ("streams", streams, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    for name, number in (("service_s", service_s), ("cv", cv)):
        if not (isfinite(number) and number >= 0):
            raise ValueError(f"{name} must be a finite number >= 0, got {number!r}")
    rng = np.random.Generator(np.random.PCG64(seed))
    sigma = sqrt(log(1 + cv * cv))
    mean_log = log(service_s) - sigma * sigma / 2 if service_s > 0 else -inf

    def draw(n: int) -> Any:
        return np.exp(mean_log + sigma * rng.standard_normal(n))

    starts = np.empty(samples)
    for sample in range(samples):
        ends = [0.0] * streams
        if busy:
            # What is in service when one looks is length-biased, and looked at somewhere in its middle.
            biased = draw(streams) * exp(sigma * sigma)
            ends = list(biased * rng.random(streams))
        heapq.heapify(ends)
        for service in draw(position):
            heapq.heapreplace(ends, ends[0] + float(service))
        starts[sample] = ends[0]
    tail = (1 - confidence) / 2
    low, median, high = (float(np.quantile(starts, q)) for q in (tail, 0.5, 1 - tail))
    return Eta(position, median, low, high, confidence, samples)


# -- one sample ---------------------------------------------------------------------------------------


def _start(
    queue: Policy,
    wanted: Request,
    running: Sequence[Running],
    slots: int,
    speed: Speed,
    sigma: float,
    now: float,
    coming: Sequence[Request],
    rng: Generator,
) -> float:
    """Seconds from now until the wanted request is handed out; infinite when it is not."""
    trial = copy.deepcopy(queue)
    ends: list[tuple[float, int, Request, float]] = []
    for number, each in enumerate(running):
        tokens = _rest(each, speed, sigma, rng)
        left = max(speed(each.request, tokens) - each.elapsed_s, 0.0)
        heapq.heappush(ends, (now + left, number, each.request, tokens))
    later = sorted(coming, key=lambda each: float(each.arrival or 0))
    came, time, number, served = 0, now, len(ends), 0
    while served < SLOW:
        while came < len(later) and float(later[came].arrival or 0) <= time:
            trial.put(later[came])
            came += 1
        while len(ends) < slots:
            chosen = trial.get(now=time)
            if chosen is None:
                break
            if chosen is wanted:
                return time - now
            tokens = chosen.cost * _factor(sigma, rng)
            heapq.heappush(ends, (time + speed(chosen, tokens), number, chosen, tokens))
            number, served = number + 1, served + 1
        if ends:
            time = ends[0][0]
            while ends and ends[0][0] <= time:
                _, _, done, tokens = heapq.heappop(ends)
                trial.done(done, tokens)
        elif came < len(later):
            time = float(later[came].arrival or 0)
        else:
            return inf
    return inf


def _rest(each: Running, speed: Speed, sigma: float, rng: Generator) -> float:
    """The true size of what runs: its estimate times a factor, given that it is not done yet."""
    cost = float(each.request.cost)
    if sigma == 0:
        return cost
    # The least factor at which it would still be running; the time in service grows with the size.
    low, high = 1e-6, 1.0
    while speed(each.request, cost * high) < each.elapsed_s and high < 1e6:
        high *= 2
    for _ in range(40):
        middle = sqrt(low * high)
        low, high = (middle, high) if speed(each.request, cost * middle) < each.elapsed_s else (low, middle)
    normal = NormalDist()
    below = normal.cdf(log(high) / sigma)
    u = below + (1 - below) * float(rng.random())
    return cost * (exp(sigma * normal.inv_cdf(u)) if 0 < u < 1 else high)


def _factor(sigma: float, rng: Generator) -> float:
    return exp(sigma * float(rng.standard_normal())) if sigma else 1.0


def _quantile(starts: Any, q: float) -> float:
    """Of values that may be infinite (never interpolated towards infinity).

    At place q·(n + 1): a further value then lies between two quantiles as often as they say, however few the
    samples are (numpy's default covers 77 % in place of 80 % with 60 samples).
    """
    ordered = np.sort(starts)
    at = min(max(q * (len(ordered) + 1) - 1, 0.0), len(ordered) - 1.0)
    low, high = ordered[int(at)], ordered[min(int(at) + 1, len(ordered) - 1)]
    return float(low) if low == high or np.isinf(high) else float(low + (high - low) * (at - int(at)))


def _check(
    queue: Policy,
    request: Request,
    running: Sequence[Running],
    slots: int,
    sigma: float,
    samples: int,
    confidence: float,
) -> None:
    if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
        raise ValueError(f"slots must be a whole number >= 1, got {slots!r}")
    if len(running) != queue.running:
        raise ValueError(f"running must be the {queue.running} requests handed out, got {len(running)}")
    if not (isfinite(sigma) and sigma >= 0):
        raise ValueError(f"sigma must be a finite number >= 0, got {sigma!r}")
    if samples < 1:
        raise ValueError(f"samples must be >= 1, got {samples!r}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# -- a queue's state as plain data --------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """A queue rebuilt from plain data: the policy, what runs, and the waiting requests by id."""

    queue: Policy
    running: Sequence[Running]
    waiting: Mapping[str, Request]
    now: float


def state_from_data(data: Mapping[str, Any], queue: Policy) -> State:
    """A state from ``{now, running: [...], waiting: [...]}``, put into a fresh ``queue``.

    Each request: ``tenant, cost`` and, where known, ``id, key, priority, arrival, prompt_tokens``; a running
    one also ``elapsed_s``. What the policy remembers of the past (deficits, counters) is not in it: accounts
    begin even.

    Raises
    ------
    ValueError : a field is missing or wrong; names it.
    """
    now = float(data.get("now", 0.0))
    running = []
    for number, row in enumerate(data.get("running", ())):
        request = _request(row, f"running[{number}]", now)
        queue.put(request)
        handed = queue.get(now=now) if queue.needs_now else queue.get()
        if handed is None:
            raise ValueError(f"running[{number}]: the policy's caps would not have let it run: {row!r}")
        running.append(Running(handed, float(row.get("elapsed_s", 0.0))))
    waiting = {}
    for number, row in enumerate(data.get("waiting", ())):
        request = _request(row, f"waiting[{number}]", now)
        queue.put(request)
        waiting[str(row.get("id", number))] = request
    return State(queue, running, waiting, now)


_FIELDS = ("tenant", "cost", "id", "key", "priority", "arrival", "prompt_tokens", "output_tokens")


def _request(row: Any, where: str, now: float) -> Request:
    if not isinstance(row, Mapping) or "tenant" not in row or "cost" not in row:
        raise ValueError(f"{where}: must be an object with tenant and cost, got {row!r}")
    given = {name: row[name] for name in _FIELDS[2:] if row.get(name) is not None}
    given.setdefault("arrival", now)
    try:
        return Request(row["tenant"], row["cost"], **given)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
