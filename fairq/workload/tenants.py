"""Who: tenants, each with its arrivals and sizes, and the requests they make together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from fairq.request import Request
from fairq.workload.arrivals import Arrivals, ClosedLoop, Dump, OpenLoop, Times
from fairq.workload.check import number, whole
from fairq.workload.seeds import stream
from fairq.workload.sizes import Distribution, Estimate, Fixed, may_be_zero, tokens

MOST_REQUESTS = 10_000_000
"""A workload expected to send more than this is a typing mistake, not an experiment: its requests alone would
take gigabytes. Who means it splits the time into several replications."""


@dataclass(frozen=True)
class Tenant:
    """One that asks, and pays: fair shares are per tenant.

    Parameters
    ----------
    name, group : the tenant, and the kind it belongs to (``chat-3`` of ``chat``).
    arrivals : when it asks; ``ClosedLoop`` asks again only when answered.
    prompt_tokens, output_tokens : true sizes; a plain number is ``Fixed``.
    priority : level, lower first. weight : share of the service, > 0.
    keys : API keys it comes with, used in turn (a closed loop: one per worker). None: one, named like the
        tenant; n: ``name/1`` … ``name/n``; or names.
    estimate : what the gateway believes the cost to be.
    service : seconds of slot time, for engines that take them as given; None: the engine works it out.
    patience_s : gives up after waiting that long; None: never.
    line_limit : how many of its requests may wait; one more is refused. None: any number.

    Raises
    ------
    ValueError : names the tenant, the field and the value.
    """

    name: str
    group: str
    arrivals: Arrivals
    prompt_tokens: Distribution
    output_tokens: Distribution
    priority: float = field(default=0, kw_only=True)
    weight: float = field(default=1, kw_only=True)
    keys: int | tuple[str, ...] | None = field(default=None, kw_only=True)
    estimate: Estimate = field(default=Estimate(), kw_only=True)
    service: Distribution | None = field(default=None, kw_only=True)
    patience_s: float | None = field(default=None, kw_only=True)
    line_limit: int | None = field(default=None, kw_only=True)

    def __init__(
        self,
        name: str,
        group: str,
        arrivals: Arrivals,
        prompt_tokens: float | Distribution,
        output_tokens: float | Distribution,
        *,
        priority: float = 0,
        weight: float = 1,
        keys: int | Iterable[str] | None = None,
        estimate: Estimate | None = None,
        service: float | Distribution | None = None,
        patience_s: float | None = None,
        line_limit: int | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "group", group)
        put(self, "arrivals", arrivals)
        put(self, "prompt_tokens", _distribution(prompt_tokens))
        put(self, "output_tokens", _distribution(output_tokens))
        put(self, "priority", priority)
        put(self, "weight", weight)
        put(self, "keys", keys if keys is None or isinstance(keys, int) else tuple(keys))
        put(self, "estimate", Estimate() if estimate is None else estimate)
        put(self, "service", None if service is None else _distribution(service))
        put(self, "patience_s", patience_s)
        put(self, "line_limit", line_limit)
        self._check()

    def _check(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"tenant name must be a non-empty string, got {self.name!r}")
        try:
            number("priority", self.priority)
            number("weight", self.weight, above=0)
            if isinstance(self.keys, int):
                whole("keys", self.keys, least=1)
            if isinstance(self.keys, tuple):
                _check_keys(self.keys)
            if self.patience_s is not None:
                number("patience_s", self.patience_s, least=0)
            if self.line_limit is not None:
                whole("line_limit", self.line_limit, least=0)
            if may_be_zero(self.prompt_tokens) and may_be_zero(self.output_tokens):
                raise ValueError(
                    f"output_tokens must be > 0 where prompt_tokens may be 0, got {self.output_tokens}"
                )
        except ValueError as error:
            raise ValueError(f"tenant {self.name!r}: {error}") from None

    @property
    def key_names(self) -> tuple[str, ...]:
        """The API keys it comes with, in the order of use."""
        if self.keys is None:
            return (self.name,)
        if isinstance(self.keys, tuple):
            return self.keys
        return tuple(f"{self.name}/{n}" for n in range(1, self.keys + 1))


class Draw(NamedTuple):
    """What a closed loop's worker does next: seconds of thought, then a request of these tokens."""

    think_s: float
    prompt_tokens: int
    output_tokens: int
    cost: int
    """Estimated, in tokens."""


class ClosedLoopSource:
    """The workers of one tenant. Request n of worker k is the same under every policy; its arrival is not.

    A worker starts at 0 and thinks ``draw(k, 0).think_s`` seconds before its request 0; it thinks
    ``draw(k, n).think_s`` after request n - 1 left. It stops asking at ``horizon_s``.
    """

    _BLOCK = 64

    def __init__(
        self, tenant: Tenant, horizon_s: float, seed: int, replication: int, ids: tuple[int, int]
    ) -> None:
        assert isinstance(tenant.arrivals, ClosedLoop)
        self.tenant = tenant
        self.workers = tenant.arrivals.workers
        self.horizon_s = horizon_s
        self._seeds = (seed, replication)
        # The id of (worker, n) is first + worker + n·stride: unique, and the same under every policy.
        self._first_id, self._stride = ids
        self._drawn: dict[int, tuple[list[Draw], list[Any], _Streams]] = {}

    def draw(self, worker: int, n: int) -> Draw:
        """Think time and sizes of request ``n`` of ``worker`` (both from 0). Repeatable, in any order."""
        return self._ready(worker, n)[0][n]

    def request(self, worker: int, n: int, arrival: float) -> Request:
        """Request ``n`` of ``worker``, arriving at ``arrival`` seconds."""
        draws, services, _ = self._ready(worker, n)
        draw, tenant = draws[n], self.tenant
        keys = tenant.key_names
        return Request(
            tenant.name,
            draw.cost,
            arrival=arrival,
            priority=tenant.priority,
            key=keys[worker % len(keys)],
            service=services[n],
            prompt_tokens=draw.prompt_tokens,
            output_tokens=draw.output_tokens,
            id=self._first_id + worker + n * self._stride,
        )

    def _ready(self, worker: int, n: int) -> tuple[list[Draw], list[Any], _Streams]:
        if not 0 <= worker < self.workers:
            raise ValueError(f"worker must be 0..{self.workers - 1}, got {worker!r}")
        if worker not in self._drawn:
            self._drawn[worker] = ([], [], _Streams(self.tenant, *self._seeds, worker))
        draws, services, streams = self._drawn[worker]
        while len(draws) <= n:
            thinks = streams.thinks(self._BLOCK)
            sizes = streams.sizes(self._BLOCK)
            draws.extend(map(Draw._make, zip(thinks, sizes.prompt, sizes.output, sizes.cost, strict=True)))
            services.extend(sizes.service)
        return self._drawn[worker]


@dataclass(frozen=True)
class Workload:
    """Tenants that ask until ``horizon_s`` seconds; the run then drains.

    Raises
    ------
    ValueError : two tenants of one name, a burst after the horizon, or more requests than memory can hold.
    """

    tenants: tuple[Tenant, ...]
    horizon_s: float

    def __init__(self, tenants: Iterable[Tenant], horizon_s: float) -> None:
        object.__setattr__(self, "tenants", tuple(tenants))
        object.__setattr__(self, "horizon_s", horizon_s)
        number("horizon_s", horizon_s, above=0)
        seen: set[str] = set()
        for tenant in self.tenants:
            if tenant.name in seen:
                raise ValueError(f"tenant {tenant.name!r} appears twice")
            seen.add(tenant.name)
            _check_horizon(tenant, horizon_s)
        processes = [tenant.arrivals for tenant in self.tenants]
        total = sum(each.expected(horizon_s) for each in processes if not isinstance(each, ClosedLoop))
        if total > MOST_REQUESTS:
            raise ValueError(
                f"the tenants would send {total:.3g} requests in {horizon_s!r} s;"
                f" at most {MOST_REQUESTS:,} are possible"
            )

    @property
    def group_of(self) -> dict[str, str]:
        """The group of every tenant."""
        return {tenant.name: tenant.group for tenant in self.tenants}

    @property
    def weights(self) -> dict[str, float]:
        """The weight of every tenant."""
        return {tenant.name: tenant.weight for tenant in self.tenants}

    @property
    def patience_s(self) -> dict[str, float]:
        """Seconds of waiting after which a tenant's requests give up; tenants that never do are left out."""
        return {tenant.name: tenant.patience_s for tenant in self.tenants if tenant.patience_s is not None}

    @property
    def line_limit(self) -> dict[str, int]:
        """How many requests of a tenant may wait; tenants without a limit are left out."""
        return {tenant.name: tenant.line_limit for tenant in self.tenants if tenant.line_limit is not None}

    @property
    def keys_of(self) -> dict[str, tuple[str, ...]]:
        """The API keys of every tenant."""
        return {tenant.name: tenant.key_names for tenant in self.tenants}

    def requests(self, seed: int, replication: int = 0) -> list[Request]:
        """The requests of all open-loop tenants, by arrival; ``id`` counts from 0 in that order.

        At one instant: the first request of every tenant (in the tenants' order), then the second of every
        tenant, and so on.
        """
        batches = [_Batch(tenant, self.horizon_s, seed, replication) for tenant in self._open()]
        if not batches:
            return []
        times = np.concatenate([batch.times for batch in batches])
        ranks = np.concatenate([batch.ranks() for batch in batches])
        places = np.repeat(np.arange(len(batches)), [len(batch.times) for batch in batches])
        # Stable, so that one tenant's own order is kept.
        order = np.lexsort((places, ranks, times))
        takes = [iter(batch.rows()) for batch in batches]
        return [
            _request(batches[place].tenant, next(takes[place]), n)
            for n, place in enumerate(places[order].tolist())
        ]

    def closed_loops(self, seed: int, replication: int = 0) -> list[ClosedLoopSource]:
        """The tenants that ask again only when answered, in their order; ids go on after the open loops'."""
        loops = [tenant for tenant in self.tenants if isinstance(tenant.arrivals, ClosedLoop)]
        if not loops:
            return []
        first = sum(len(_times(tenant, self.horizon_s, seed, replication)) for tenant in self._open())
        workers = [tenant.arrivals.workers for tenant in loops if isinstance(tenant.arrivals, ClosedLoop)]
        starts = first + np.cumsum([0, *workers])
        return [
            _source(tenant)(tenant, self.horizon_s, seed, replication, (int(start), sum(workers)))
            for tenant, start in zip(loops, starts, strict=False)
        ]

    def _open(self) -> list[Tenant]:
        return [tenant for tenant in self.tenants if not isinstance(tenant.arrivals, ClosedLoop)]


class _Sizes(NamedTuple):
    prompt: list[int]
    output: list[int]
    cost: list[int]
    service: list[Any]


class _Streams:
    """The size streams of one tenant (and one closed-loop worker), drawn from in order.

    A stream is opened when something is drawn from it: that takes longer than a small tenant's draws.
    """

    def __init__(self, tenant: Tenant, seed: int, replication: int, *worker: int) -> None:
        self._tenant = tenant
        self._key = (seed, replication, worker)
        self._opened: dict[str, Generator] = {}

    def sizes(self, n: int) -> _Sizes:
        tenant = self._tenant
        prompt = tokens(tenant.prompt_tokens, self._stream("prompt_tokens", tenant.prompt_tokens), n)
        output = tokens(tenant.output_tokens, self._stream("output_tokens", tenant.output_tokens), n)
        cost = prompt + output
        if tenant.estimate != Estimate():
            cost = tenant.estimate.costs(cost, self._stream("estimate"))
        return _Sizes(
            prompt.tolist(), output.tolist(), cost.tolist(), self._seconds("service", tenant.service, n)
        )

    def thinks(self, n: int) -> list[Any]:
        assert isinstance(self._tenant.arrivals, ClosedLoop)
        return self._seconds("think", self._tenant.arrivals.think_s, n)

    def _seconds(self, purpose: str, seconds: Distribution | None, n: int) -> list[Any]:
        if seconds is None:
            return [None] * n
        drawn: list[Any] = seconds.sample(self._stream(purpose, seconds), n).tolist()
        return drawn

    def _stream(self, purpose: str, sizes: Distribution | None = None) -> Generator:
        if isinstance(sizes, Fixed):
            return _NOTHING_IS_DRAWN
        if purpose not in self._opened:
            seed, replication, worker = self._key
            self._opened[purpose] = stream(seed, replication, self._tenant.name, purpose, *worker)
        return self._opened[purpose]


_NOTHING_IS_DRAWN = Generator(PCG64(0))
"""For sizes that are fixed."""


class _Batch:
    """All requests of one open-loop tenant as columns, before they are merged with the others'."""

    def __init__(self, tenant: Tenant, horizon_s: float, seed: int, replication: int) -> None:
        self.tenant = tenant
        self.times = _times(tenant, horizon_s, seed, replication)
        self._sizes = _Streams(tenant, seed, replication).sizes(len(self.times))

    def ranks(self) -> NDArray[np.int64]:
        """Which of the tenant's requests at that same instant each one is, from 0."""
        return np.arange(len(self.times)) - np.searchsorted(self.times, self.times, side="left")

    def rows(self) -> Iterable[tuple[Any, str, int, int, int, Any]]:
        keys = self.tenant.key_names
        in_turn = (keys[n % len(keys)] for n in count())
        return zip(self.times.tolist(), in_turn, *self._sizes, strict=False)


def _times(tenant: Tenant, horizon_s: float, seed: int, replication: int) -> NDArray[Any]:
    assert not isinstance(tenant.arrivals, ClosedLoop)
    process: OpenLoop = tenant.arrivals
    return process.times(stream(seed, replication, tenant.name, "arrivals"), horizon_s)


def _request(tenant: Tenant, row: tuple[Any, str, int, int, int, Any], n: int) -> Request:
    arrival, key, prompt, output, cost, service = row
    return Request(
        tenant.name,
        cost,
        arrival=arrival,
        priority=tenant.priority,
        key=key,
        service=service,
        prompt_tokens=prompt,
        output_tokens=output,
        id=n,
    )


def _source(tenant: Tenant) -> type[ClosedLoopSource]:
    """What draws a closed loop's requests: a kind of loop may have its own."""
    own: type[ClosedLoopSource] | None = getattr(tenant.arrivals, "source", None)
    return ClosedLoopSource if own is None else own


def _distribution(size: float | Distribution) -> Distribution:
    return Fixed(size) if isinstance(size, (int, float)) else size


def _check_keys(keys: tuple[str, ...]) -> None:
    if not keys:
        raise ValueError("keys must not be empty, got ()")
    for key in keys:
        if not isinstance(key, str) or not key:
            raise ValueError(f"keys must be non-empty strings, got {key!r}")


def _check_horizon(tenant: Tenant, horizon_s: float) -> None:
    arrivals = tenant.arrivals
    if isinstance(arrivals, ClosedLoop):
        return
    for what, at_s in (
        ("at_s", arrivals.at_s if isinstance(arrivals, Dump) else 0),
        ("times_s", arrivals.times_s[-1] if isinstance(arrivals, Times) else 0),
    ):
        if at_s >= horizon_s:
            raise ValueError(
                f"tenant {tenant.name!r}: {what} must be before the horizon ({horizon_s!r} s), got {at_s!r}"
            )
    if arrivals.expected(horizon_s) > MOST_REQUESTS:
        raise ValueError(
            f"tenant {tenant.name!r}: {arrivals!r} would send {arrivals.expected(horizon_s):.3g} requests in"
            f" {horizon_s!r} s; at most {MOST_REQUESTS:,} are possible"
        )
