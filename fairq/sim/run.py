"""One run: the requests of a workload meet a policy and an engine; rows come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from numbers import Integral
from operator import attrgetter
from typing import Any, Protocol, TypeAlias, cast

from fairq.policies.base import Policy
from fairq.request import Number, Request, as_time
from fairq.result import Result, from_rows
from fairq.sim.clients import Clients, ClosedLoopSource, LineLimit, Patience
from fairq.sim.clock import Clock
from fairq.sim.engine import Engine, Finished, Job, Progress
from fairq.sim.gateway import serve
from fairq.sim.rows import Rows

Report: TypeAlias = Callable[[int, int], None]
"""Called now and then with (requests finished, requests expected; a lower bound with closed loops)."""


class Workload(Protocol):
    """What a run asks of a workload (``fairq.workload.Workload`` and traces are such).

    It may also have ``closed_loops(seed, replication)``, ``group_of``, ``weights``, ``patience_s`` and
    ``line_limit``.
    """

    def requests(self, seed: int, replication: int = 0) -> list[Request]: ...


def simulate(
    workload: Workload | Iterable[Request],
    policy: Policy,
    engine: Engine,
    *,
    seed: int = 0,
    replication: int = 0,
    until: Number | None = None,
    warmup: Number = 0.0,
    patience: Patience | None = None,
    line_limit: LineLimit | None = None,
    progress: Report | None = None,
) -> Result:
    """Serve a workload, or a list of requests with arrivals, until it has drained or through ``until``.

    Parameters
    ----------
    workload : draws its requests from ``seed`` and ``replication``, the same ones for every policy. A list
        is taken as it is; requests that arrive together keep their order.
    policy, engine : both fresh: they serve one run.
    until : seconds; what happens at that moment still counts. Requests that would come later are not in the
        result; those waiting or in service are "unfinished".
    warmup : seconds; requests that arrived earlier are served but stay out of ``Result.requests`` and of all
        statistics (``Result.all_requests`` has them).
    patience : seconds a request waits before it is "cancelled": a number, per tenant, or a function of the
        request; default: the workload's own.
    line_limit : how many requests of a tenant may wait, for all or per tenant; one more is "refused";
        default: the workload's own.
    progress : called about a hundred times with (finished, expected). What it raises ends the run.

    Raises
    ------
    TypeError : no workload and no list of requests, no policy, no engine (a class is none either).
    ValueError : a policy or engine that was used, a request without arrival or that the engine can never
        serve, a closed loop that would never end; each names the value.
    """
    seed, replication = _whole("seed", seed), _whole("replication", replication)
    _check_time("until", until)
    _check_time("warmup", warmup)
    requests, loops = _requests(workload, seed, replication)
    if patience is None:
        patience = getattr(workload, "patience_s", None) or None
    if line_limit is None:
        line_limit = getattr(workload, "line_limit", None) or None
    return from_rows(
        record(requests, policy, engine, loops, until, patience, line_limit, progress),
        slots=engine.slots,
        policy=policy,
        series=engine.series(),
        unserved=engine.job_columns,
        group_of=getattr(workload, "group_of", {}),
        weights=getattr(workload, "weights", {}),
        seed=seed,
        replication=replication,
        until=until,
        warmup=warmup,
    )


def record(
    requests: list[Request],
    policy: Policy,
    engine: Engine,
    loops: Sequence[ClosedLoopSource] = (),
    until: Number | None = None,
    patience: Patience | None = None,
    line_limit: LineLimit | None = None,
    progress: Report | None = None,
) -> Rows:
    """``simulate`` without the drawing of requests and the building of tables."""
    _check_kind("policy", policy, "FIFO()", ("put", "get", "done", "used"))
    _check_kind("engine", engine, "SlotEngine(8)", ("check", "attach", "admit", "series"))
    if policy.used or len(policy):
        raise ValueError(f"a policy serves one run, this one was used: {policy!r}")
    requests = _in_order(requests)
    for request in requests:
        engine.check(request)
    start = min(0, requests[0].arrival) if requests else 0  # type: ignore[type-var]
    clients = None
    if loops or patience is not None or line_limit is not None:
        clients = Clients(_checked(loops, engine), patience, line_limit, start)
    if progress is not None:
        engine = cast(Engine, _Reporting(engine, progress, len(requests)))
    return serve(Clock(start), policy, engine, requests, clients, until)


def replicate(
    workload: Workload,
    policy: Callable[[], Policy],
    engine: Callable[[], Engine],
    *,
    replications: int = 10,
    seed: int = 0,
    progress: Report | None = None,
    **settings: Any,
) -> list[Result]:
    """Independent runs 0 … replications - 1 of one seed, each with a policy and an engine of its own.

    Run r meets the same requests under every policy (common random numbers), so differences between two
    policies may be taken run by run. ``settings`` go to ``simulate``; ``progress`` counts runs.
    """
    replications = _whole("replications", replications, least=1)
    for field, make, example in (("policy", policy, "FIFO"), ("engine", engine, "SlotEngine")):
        if not callable(make):
            raise TypeError(
                f"{field} must make a fresh one for each run, as `lambda: {example}()`, got {make!r}"
            )
    results = []
    for r in range(replications):
        results.append(simulate(workload, policy(), engine(), seed=seed, replication=r, **settings))
        if progress is not None:
            progress(r + 1, replications)
    return results


def _requests(
    workload: Workload | Iterable[Request], seed: int, replication: int
) -> tuple[list[Request], list[ClosedLoopSource]]:
    if not hasattr(workload, "requests"):
        if not isinstance(workload, Iterable):
            raise TypeError(f"workload must be a workload or a list of requests, got {workload!r}")
        return list(workload), []
    closed_loops = getattr(workload, "closed_loops", None)
    loops = closed_loops(seed, replication) if closed_loops is not None else []
    return workload.requests(seed, replication), loops


def _in_order(requests: list[Request]) -> list[Request]:
    """By arrival; the order given settles ties."""
    try:
        arrivals: list[Any] = [request.arrival for request in requests]
    except AttributeError:
        place = next(n for n, each in enumerate(requests) if not hasattr(each, "arrival"))
        raise TypeError(
            f"a run serves requests, got {requests[place]!r} at place {place} of the list"
        ) from None
    if None in arrivals:
        request = requests[arrivals.index(None)]
        raise ValueError(f"a simulated request needs an arrival (seconds), got None in {request!r}")
    kinds = set(map(type, arrivals)).union(type(request.service) for request in requests)
    if Decimal in kinds and not kinds <= {Decimal, int}:
        _refuse_mixed_times(requests)
    if arrivals == sorted(arrivals):
        return requests
    return sorted(requests, key=attrgetter("arrival"))


def _refuse_mixed_times(requests: list[Request]) -> None:
    """Decimals cannot be added to floats, nor to the seconds an engine derives from tokens."""
    for request in requests:
        for field in ("arrival", "service"):
            value = getattr(request, field)
            if not isinstance(value, (Decimal, int)):
                raise ValueError(
                    "where some times are Decimals, every arrival and service must be a Decimal or an int:"
                    f" {field} is {value!r} in {request!r}"
                )


def _checked(loops: Sequence[ClosedLoopSource], engine: Engine) -> Sequence[ClosedLoopSource]:
    """The first request of every worker is checked before the run, the others as they come."""
    for source in loops:
        for worker in range(source.workers):
            engine.check(source.request(worker, 0, 0))
    return loops


def _whole(field: str, value: Any, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{field} must be a whole number >= {least}, got {value!r}")
    return int(value)


def _check_kind(field: str, value: Any, example: str, verbs: Iterable[str]) -> None:
    if isinstance(value, type):
        raise TypeError(f"{field} must be made, as {example}, got the class {value.__name__}")
    if not all(hasattr(value, verb) for verb in verbs):
        raise TypeError(f"{field} must be one, as {example}, got {value!r}")


def _check_time(field: str, value: Any) -> None:
    if value is None and field == "until":
        return
    number = as_time(value)
    if number is None or number < 0:
        raise ValueError(f"{field} must be a finite number of seconds >= 0, got {value!r}")


class _Reporting:
    """Tells how far the run is, from between an engine and the gateway."""

    def __init__(self, engine: Engine, report: Report, expected: int) -> None:
        self._engine = engine
        self._report = report
        self._expected = expected
        self._finished = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def attach(self, clock: Clock, finished: Finished, progress: Progress) -> None:
        every = max(1, self._expected // 100)

        def counted(job: Job) -> None:
            self._finished += 1
            if self._finished % every == 0:
                self._report(self._finished, max(self._expected, self._finished))
            finished(job)

        self._engine.attach(clock, counted, progress)
