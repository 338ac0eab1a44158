"""The ``tenants:`` of a scenario: plain data → ``fairq.workload`` objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, PlainValidator, TypeAdapter, model_validator

from fairq.scenario.spec import Count, Cv, Limit, NonNegative, Number, Positive, Spec, choice, plain
from fairq.workload import (
    Arrivals,
    ClosedLoop,
    Distribution,
    Dump,
    Empirical,
    Estimate,
    Exponential,
    Fixed,
    Gamma,
    Lognormal,
    OnOff,
    Poisson,
    Tenant,
    Times,
)
from fairq.workload.conversations import Conversations
from fairq.workload.sizes import may_be_zero
from fairq.workload.tenants import MOST_REQUESTS

MOST = {"tenants": 100_000, "closed-loop workers": 100_000, "keys": 1_000_000, "requests": MOST_REQUESTS}
"""What a scenario may come to in all: some seconds of set-up, and what memory holds. More is a slip of the
hand; who means it runs a shorter ``horizon_s`` in more replications.
"""

# -- sizes ----------------------------------------------------------------------------------------------


class SizeSpec(Spec):
    """A distribution of tokens or seconds."""

    makes: ClassVar[type[Any]]

    def build(self) -> Distribution:
        made: Distribution = self.makes(**dict(self))
        return made


class FixedSpec(SizeSpec):
    """``1200``, or in full ``{kind: fixed, value: 1200}``."""

    tag = ("kind", "fixed")
    makes = Fixed
    value: NonNegative

    def data(self) -> Any:
        return self.value


class LognormalSpec(SizeSpec):
    """``{kind: lognormal, median: 400, sigma: 0.8}``, optionally cut off at ``max``."""

    tag = ("kind", "lognormal")
    makes = Lognormal
    median: Positive
    sigma: NonNegative
    max: Positive | None = None


class ExponentialSpec(SizeSpec):
    """``{kind: exponential, mean: 5}``."""

    tag = ("kind", "exponential")
    makes = Exponential
    mean: Positive


def _not_empty(values: tuple[float, ...]) -> tuple[float, ...]:
    if not values:
        raise ValueError("must not be empty, got []")
    return values


def _increasing(times: tuple[float, ...]) -> tuple[float, ...]:
    for before, after in pairwise(times):
        if after < before:
            raise ValueError(f"must not go back in time, got {after!r} after {before!r}")
    return _not_empty(times)


class EmpiricalSpec(SizeSpec):
    """``{kind: empirical, values: [120, 80, 2000]}``, drawn with replacement; with ``chances: [5, 4, 1]`` in
    that proportion.
    """

    tag = ("kind", "empirical")
    makes = Empirical
    values: Annotated[tuple[NonNegative, ...], AfterValidator(_not_empty)]
    chances: tuple[Positive, ...] | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> EmpiricalSpec:
        self.build()
        return self


SIZES: Mapping[str, type[SizeSpec]] = {
    "fixed": FixedSpec,
    "lognormal": LognormalSpec,
    "exponential": ExponentialSpec,
    "empirical": EmpiricalSpec,
}


_NUMBER: TypeAdapter[float] = TypeAdapter(NonNegative)


def _number_as_fixed(value: Any) -> Any:
    # Checked here, so that an error names the field as it is written, without a `value` inside.
    return value if isinstance(value, (Mapping, Spec)) else FixedSpec(value=_NUMBER.validate_python(value))


Size = Annotated[SizeSpec, choice(SIZES, "kind"), BeforeValidator(_number_as_fixed)]

# -- arrivals -------------------------------------------------------------------------------------------


class ArrivalSpec(Spec):
    """An arrival process."""

    makes: ClassVar[type[Any]]
    grows_with_load: ClassVar[str | None] = None
    grows_with_burst: ClassVar[str | None] = None

    def build(self) -> Arrivals:
        made: Arrivals = self.makes(**dict(self))
        return made

    def scaled(self, load: float, burst: float) -> dict[str, Any]:
        """The plain data of this, with the steady demand times ``load`` and bursts times ``burst``."""
        data: dict[str, Any] = self.data()
        for field, factor in ((self.grows_with_load, load), (self.grows_with_burst, burst)):
            if field is not None and factor != 1:
                grown = data[field] * factor
                data[field] = max(1, round(grown)) if field in ("requests", "workers") else grown
        return data


class PoissonSpec(ArrivalSpec):
    """``{kind: poisson, rate_per_s: 0.2}``: independent users."""

    tag = ("kind", "poisson")
    makes = Poisson
    grows_with_load = "rate_per_s"
    rate_per_s: Positive


class GammaSpec(ArrivalSpec):
    """``{kind: gamma, rate_per_s: 0.2, cv: 4}``: burstier than Poisson where cv > 1."""

    tag = ("kind", "gamma")
    makes = Gamma
    grows_with_load = "rate_per_s"
    rate_per_s: Positive
    cv: Cv


class OnOffSpec(ArrivalSpec):
    """``{kind: on_off, rate_per_s: 5, on_s: 10, off_s: 50}``: Poisson while on, silent while off."""

    tag = ("kind", "on_off")
    makes = OnOff
    grows_with_load = "rate_per_s"
    grows_with_burst = "rate_per_s"
    rate_per_s: Positive
    on_s: Positive
    off_s: NonNegative


class DumpSpec(ArrivalSpec):
    """``{kind: dump, at_s: 60, requests: 500}``: all at once."""

    tag = ("kind", "dump")
    makes = Dump
    grows_with_burst = "requests"
    at_s: NonNegative
    requests: Count


class TimesSpec(ArrivalSpec):
    """``{kind: times, times_s: [0, 0, 1.5]}``: exactly these."""

    tag = ("kind", "times")
    makes = Times
    times_s: Annotated[tuple[NonNegative, ...], AfterValidator(_increasing)]


class ClosedLoopSpec(ArrivalSpec):
    """``{kind: closed_loop, workers: 4, think_s: 5}``: each asks again when answered and done thinking."""

    tag = ("kind", "closed_loop")
    grows_with_load = "workers"
    workers: Count
    think_s: Size

    def build(self) -> Arrivals:
        return ClosedLoop(self.workers, self.think_s.build())


class ConversationsSpec(ClosedLoopSpec):
    """``{kind: conversations, workers: 40, think_s: 20, turns: 8, history_tokens: 6000}``: users who talk.

    The tenant's ``prompt_tokens`` are those of a new message; what was said before comes on top.
    """

    tag = ("kind", "conversations")
    turns: Size = FixedSpec(value=8)
    history_tokens: Size = FixedSpec(value=0)
    system_tokens: Limit = 0
    max_context: Count | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> ConversationsSpec:
        self.build()
        return self

    def build(self) -> Arrivals:
        return Conversations(
            self.workers,
            self.think_s.build(),
            self.turns.build(),
            self.history_tokens.build(),
            self.system_tokens,
            self.max_context,
        )


ARRIVALS: Mapping[str, type[ArrivalSpec]] = {
    "poisson": PoissonSpec,
    "gamma": GammaSpec,
    "on_off": OnOffSpec,
    "dump": DumpSpec,
    "times": TimesSpec,
    "closed_loop": ClosedLoopSpec,
    "conversations": ConversationsSpec,
}

# -- tenants --------------------------------------------------------------------------------------------


class EstimateSpec(Spec):
    """``{factor: 1.0, sigma: 0.2}``: what the gateway believes, times the truth."""

    factor: Positive = 1.0
    sigma: NonNegative = 0.0


def _keys(value: Any) -> int | tuple[str, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(key, str) and key for key in value):
        return tuple(value)
    raise ValueError(f"must be a whole number >= 1 or a list of names, got {value!r}")


class TenantSpec(Spec):
    """One tenant, or ``count`` alike: under ``chat``, ``count: 4`` gives ``chat-1`` … ``chat-4``."""

    count: Count | None = None
    priority: Number = 0
    weight: Positive = 1
    arrivals: Annotated[ArrivalSpec, choice(ARRIVALS, "kind")]
    prompt_tokens: Size
    output_tokens: Size
    estimate: EstimateSpec = EstimateSpec()
    keys: Annotated[int | tuple[str, ...], PlainValidator(_keys)] | None = None
    service_s: Size | None = None
    patience_s: NonNegative | None = None
    line_limit: Limit | None = None

    def names(self, group: str) -> list[str]:
        """The tenants this stands for."""
        return [group] if self.count is None else [f"{group}-{n}" for n in range(1, self.count + 1)]

    def build(self, group: str) -> list[Tenant]:
        """The tenants themselves."""
        return [
            Tenant(
                name,
                group,
                self.arrivals.build(),
                self.prompt_tokens.build(),
                self.output_tokens.build(),
                priority=self.priority,
                weight=self.weight,
                keys=self.keys,
                estimate=Estimate(**dict(self.estimate)),
                service=None if self.service_s is None else self.service_s.build(),
                patience_s=self.patience_s,
                line_limit=self.line_limit,
            )
            for name in self.names(group)
        ]

    @property
    def random(self) -> bool:
        """Whether anything of it is drawn."""
        sizes = [self.prompt_tokens, self.output_tokens, self.service_s]
        if isinstance(self.arrivals, ClosedLoopSpec):
            sizes.append(self.arrivals.think_s)
        if isinstance(self.arrivals, ConversationsSpec):
            sizes += [self.arrivals.turns, self.arrivals.history_tokens]
        return (
            not isinstance(self.arrivals, (DumpSpec, TimesSpec, ClosedLoopSpec))
            or self.estimate.sigma > 0
            or not all(size is None or isinstance(size, FixedSpec) for size in sizes)
        )

    def problems(self, horizon_s: float) -> list[str]:
        """What no field shows alone: ``field: what is wrong, and the value``."""
        found = []
        if may_be_zero(self.prompt_tokens.build()) and may_be_zero(self.output_tokens.build()):
            got = plain(self.output_tokens)
            found.append(f"output_tokens: must be > 0 where prompt_tokens may be 0, got {got!r}")
        if self.count is not None and isinstance(self.keys, tuple):
            found.append(f"keys: must be a number where count is given, got {list(self.keys)!r}")
        if isinstance(self.arrivals, DumpSpec) and self.arrivals.at_s >= horizon_s:
            found.append(f"arrivals.at_s: must be < horizon_s ({horizon_s!r}), got {self.arrivals.at_s!r}")
        if isinstance(self.arrivals, TimesSpec) and self.arrivals.times_s[-1] >= horizon_s:
            found.append(
                f"arrivals.times_s: must be < horizon_s ({horizon_s!r}), got {self.arrivals.times_s[-1]!r}"
            )
        return found

    def comes_to(self, horizon_s: float) -> Iterator[tuple[str, str, float]]:
        """(what, the field that says so, how many at most or as expected), without drawing or listing any."""
        count = self.count or 1
        yield "tenants", "count", count
        if isinstance(self.keys, int):
            yield "keys", "keys", count * self.keys
        if isinstance(self.arrivals, ClosedLoopSpec):
            yield "closed-loop workers", "arrivals.workers", count * self.arrivals.workers
            return
        process = self.arrivals.build()
        assert not isinstance(process, ClosedLoop)
        each = process.expected(horizon_s)
        if each <= MOST_REQUESTS:  # else the workload says so
            yield "requests", "arrivals", count * each


def too_many(tenants: Mapping[str, TenantSpec], horizon_s: float) -> list[str]:
    """What exceeds ``MOST``, per field where one does so alone."""
    sums = dict.fromkeys(MOST, 0.0)
    found = []
    for group, tenant in tenants.items():
        for what, field, number in tenant.comes_to(horizon_s):
            sums[what] += number
            if number > MOST[what]:
                within = f" in horizon_s = {horizon_s:g} s" if what == "requests" else ""
                most = f"at most {MOST[what]:,} are possible"
                found.append(f"tenants.{group}.{field}: {number:,.0f} {what}{within}; {most}")
    if not found:
        found = [
            f"tenants: {total:,.0f} {what} in all; at most {MOST[what]:,} are possible"
            for what, total in sums.items()
            if total > MOST[what]
        ]
    return found
