"""Between the people and the engine: a queue in which a policy decides who goes next.

At one instant: first all finishes, in dispatch order; then all arrivals, in input order; then dispatching;
then those leave whose patience has just ended.

An arrival needs no event of its own. While every slot is busy it cannot start anything, so it is handed to
the policy when the next job ends, before that job's ``done``: the policy sees the same calls in the same
order. While a slot is idle and nothing is scheduled earlier, the clock is moved straight to it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from operator import attrgetter
from typing import Any

from simpy import Event

from fairq.policies.base import Policy
from fairq.request import Number, Request
from fairq.sim.clients import Clients
from fairq.sim.clock import LAST, Clock
from fairq.sim.engine import Choosy, Engine, Job
from fairq.sim.rows import Rows


class _Never:
    """Stands at the end of the agenda."""

    arrival = inf


def serve(
    clock: Clock,
    policy: Policy,
    engine: Engine,
    requests: Sequence[Request],
    clients: Clients | None = None,
    until: Number | None = None,
) -> Rows:
    """Run one policy in front of one engine, to the end or through ``until`` (seconds); the record.

    ``requests``: sorted by arrival, all with one. ``clients``: those who do more than send and wait.
    """
    # One closure instead of a class: its variables are read some thirty times per request.
    rows = Rows(engine.job_columns)
    queue = clock.queue
    end = inf if until is None else until
    done = policy.done
    put: Any = policy.put
    get: Any = policy.get
    choosy: Choosy | None = engine if hasattr(engine, "accepts") else None  # type: ignore[assignment]
    if choosy is not None:
        accepts = choosy.accepts
        get = lambda: policy.get(accepts, clock.now if policy.needs_now else None)  # noqa: E731
    elif policy.needs_now:
        get = lambda: policy.get(now=clock.now)  # noqa: E731

    agenda: list[Any] = [*requests, _Never]  # who comes, by arrival; closed loops add to it
    came = 0  # of the agenda
    coming: Number = agenda[0].arrival
    waiting = 0
    deadlines: list[tuple[Number, int, Request]] = []
    ticket = count()

    # Free slot numbers, the lowest first; an engine without a limit gets another whenever it needs one.
    idle = [0] if engine.slots is None else list(range(engine.slots))
    more_slots = None if engine.slots is not None else count(1)
    only_finishes = engine.only_finishes
    job_columns = tuple(rows.extra.items())
    wakes: list[Number] = []

    served, started, slots = rows.request, rows.start, rows.slot
    first_tokens, finishes = rows.first_token, rows.finish

    def finished(job: Job | None, now: Number = None) -> None:
        """A job ends. After the last finish of an instant it is settled: its arrivals, then dispatching; and
        on to the next instant while a slot is idle. Without a job: settle ``now``.
        """
        nonlocal came, coming, waiting
        if job is not None:
            now = job.finish
            if clients is not None:
                come_before(now)
            while coming < now:
                put(agenda[came])
                waiting += 1
                came += 1
                coming = agenda[came].arrival
            request = job.request
            prompt, output = request.prompt_tokens, request.output_tokens
            if prompt is None or output is None:
                done(request)
            else:
                done(request, prompt + output)
            row = job.row
            finishes[row] = now
            if job.first_token is not None:
                first_tokens[row] = job.first_token
            for name, values in job_columns:
                values[row] = getattr(job, name)
            heappush(idle, job.slot)
            if clients is not None:
                follow(request, now)
            if not only_finishes:
                wake_at(now)
                return
            if queue and queue[0][0] <= now:
                return
        while True:
            while coming <= now:
                if put(agenda[came]) is None:
                    waiting += 1
                came += 1
                coming = agenda[came].arrival
            while waiting and idle:
                request = get()
                if request is None:
                    break
                waiting -= 1
                job = Job()
                job.request = request
                job.row = len(served)
                job.start = now
                job.slot = slot = heappop(idle)
                served.append(request)
                started.append(now)
                slots.append(slot)
                first_tokens.append(None)
                finishes.append(None)
                for name, values in job_columns:
                    values.append(engine.job_columns[name])
                admit(job)
                if more_slots is not None and not idle:
                    idle.append(next(more_slots))
            if deadlines and deadlines[0][0] <= now:
                give_up(now)
            if not idle:
                return
            then = min(coming, deadlines[0][0]) if deadlines else coming
            if queue and queue[0][0] <= then:
                if not only_finishes and then < inf:
                    wake_at(then)
                return
            if then == inf or then > end:
                return
            now = then
            clock.move(now)

    def progress(job: Job, cost: Number) -> None:
        """The true cost so far of a running job."""
        come_before(clock.now)
        policy.charge(job.request, cost)

    def wake_at(time: Number) -> None:
        """Settle at ``time``, after all that ends then."""
        if wakes and wakes[0] <= time:
            return
        heappush(wakes, time)
        event = Event(clock)
        event._ok, event._value = True, None
        event.callbacks.append(woken)
        clock.at(time, event, LAST)

    def woken(event: Event) -> None:
        heappop(wakes)
        now = clock.now
        come_before(now)
        finished(None, now)

    def come_before(now: Number) -> None:
        """All who come, or give up, before ``now``, in order of time."""
        while True:
            moment = deadlines[0][0] if deadlines else inf
            if coming < now and coming <= moment:
                come()
            elif moment < now:
                give_up(moment)
            else:
                return

    def come() -> None:
        """The next of the agenda comes (written out where it happens most)."""
        nonlocal came, coming, waiting
        if put(agenda[came]) is None:
            waiting += 1
        came += 1
        coming = agenda[came].arrival

    def give_up(now: Number) -> None:
        nonlocal waiting
        while deadlines and deadlines[0][0] <= now:
            request = heappop(deadlines)[2]
            if policy.cancel(request):
                waiting -= 1
                rows.left[request] = ("cancelled", now)
                follow(request, now)

    def receive(request: Request) -> bool | None:
        """Put it in line, or turn it away (true) when its line is full."""
        assert clients is not None
        arrival: Number = request.arrival
        if clients.full(request, policy.waiting, len(idle) - waiting):
            rows.left[request] = ("refused", arrival)
            follow(request, arrival)
            return True
        policy.put(request)
        patience = clients.patience(request)
        if patience is not None:
            heappush(deadlines, (arrival + patience, next(ticket), request))
        return None

    def follow(request: Request, now: Number) -> None:
        """A request has left: whoever waited for it thinks, then asks again."""
        nonlocal coming
        assert clients is not None
        another = clients.after(request, now)
        if another is not None:
            insort(agenda, another, lo=came, key=_arrival)
            coming = agenda[came].arrival

    engine.attach(clock, finished, progress)
    if choosy is not None:
        choosy.on_room(wake_at)
    admit = engine.admit
    if clients is not None:
        put = receive
        for request in clients.first():
            insort(agenda, request, key=_arrival)
        coming = agenda[0].arrival
    finished(None, clock.now)
    clock.run_through(until)
    if until is not None:  # whoever came while every slot was busy is counted as waiting
        come_before(until)
        while coming <= until:
            come()
        give_up(until)
    rows.arrived = agenda[:came]
    return rows


_arrival = attrgetter("arrival")
