"""A simulated box as a Prometheus target: an engine's own series, and ``fairq_*`` series per tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate

import numpy as np
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from fairq.live.names import CLOCK, COUNTERS, SPEED, EngineNames, Selector
from fairq.live.playback import HISTOGRAMS, Histogram, State, TenantState


class SimulationCollector(Collector):
    """Collects the state that ``now`` returns at each scrape.

    ``names``: the engine whose series are served. Its "waiting" counts all who wait, at the gateway and in
    the engine. ``labels``: of the engine's series (``model_name``). ``weights``: of the tenants.
    """

    def __init__(
        self,
        now: Callable[[], State],
        names: EngineNames,
        *,
        slots: int | None = None,
        speed: float = 1.0,
        labels: Mapping[str, str] | None = None,
        weights: Mapping[str, float] | None = None,
        info: Mapping[str, str] | None = None,
    ) -> None:
        self._now = now
        self._names = names
        self._slots = slots
        self._speed = speed
        self._labels = dict(labels or {})
        self._weights = dict(weights or {})
        self._info = dict(info or {})

    def collect(self) -> Iterable[Metric]:
        state = self._now()
        yield from self._engine(state)
        yield from self._tenants(state)
        yield from self._about(state)

    def _engine(self, state: State) -> Iterable[Metric]:
        tenants = state.tenants.values()
        values: dict[str, float | None] = {
            what: float(sum(getattr(each, what) for each in tenants))
            for what in ("running", "waiting", *COUNTERS)
        }
        values |= {"kv": state.kv, "slots": None if self._slots is None else float(self._slots)}
        families: dict[str, Metric] = {}
        for what, value in values.items():
            selectors = self._names.series.get(what)
            if selectors and value is not None:
                self._add(families, selectors[0], value, counts=what in COUNTERS)
        yield from families.values()
        for what in HISTOGRAMS:
            selectors = self._names.series.get(what)
            if selectors:
                whole = sum_histograms([each.histograms[what] for each in tenants], what)
                labels = self._labels | dict(selectors[0].labels)
                family = HistogramMetricFamily(selectors[0].name, f"{what} in seconds", labels=list(labels))
                family.add_metric(list(labels.values()), *_buckets(whole, what))
                yield family

    def _add(self, families: dict[str, Metric], selector: Selector, value: float, *, counts: bool) -> None:
        labels = self._labels | dict(selector.labels)
        name = selector.name.removesuffix("_total")
        kind = CounterMetricFamily if counts and selector.name.endswith("_total") else GaugeMetricFamily
        if name not in families:
            families[name] = kind(name, "served by a simulation", labels=list(labels))
        families[name].add_metric(list(labels.values()), value)  # type: ignore[attr-defined]

    def _tenants(self, state: State) -> Iterable[Metric]:
        gauges = {
            "waiting": "Requests that wait, at the gateway or in the engine.",
            "running": "Requests in service.",
        }
        counters = {
            "arrived": ("fairq_requests_arrived", "Requests that came."),
            "finished": ("fairq_requests_finished", "Requests served to the end."),
            "cancelled": ("fairq_requests_cancelled", "Requests that gave up waiting."),
            "refused": ("fairq_requests_refused", "Requests that were turned away."),
            "prompted": ("fairq_prompt_tokens", "Prompt tokens computed."),
            "generated": ("fairq_generated_tokens", "Tokens generated."),
        }
        histograms = {
            "ttft": ("fairq_time_to_first_token_seconds", "Arrival to first token."),
            "latency": ("fairq_request_latency_seconds", "Arrival to finish."),
        }
        for what, help_text in gauges.items():
            gauge = GaugeMetricFamily(f"fairq_requests_{what}", help_text, labels=["tenant"])
            for name, each in state.tenants.items():
                gauge.add_metric([name], getattr(each, what))
            yield gauge
        for what, (metric, help_text) in counters.items():
            counter = CounterMetricFamily(metric, help_text, labels=["tenant"])
            for name, each in state.tenants.items():
                counter.add_metric([name], getattr(each, what))
            yield counter
        for what, (metric, help_text) in histograms.items():
            histogram = HistogramMetricFamily(metric, help_text, labels=["tenant"])
            for name, each in state.tenants.items():
                histogram.add_metric([name], *_buckets(each.histograms[what], what))
            yield histogram

    def _about(self, state: State) -> Iterable[Metric]:
        yield GaugeMetricFamily(CLOCK, "The simulation's clock.", value=state.t)
        yield GaugeMetricFamily(SPEED, "Simulated seconds per second.", value=self._speed)
        if self._slots is not None:
            yield GaugeMetricFamily("fairq_slots", "How many may run at once.", value=self._slots)
        weights = GaugeMetricFamily("fairq_tenant_weight", "Share while backlogged.", labels=["tenant"])
        for name in state.tenants:
            weights.add_metric([name], self._weights.get(name, 1.0))
        yield weights
        info = GaugeMetricFamily("fairq_simulation_info", "What is simulated.", labels=list(self._info))
        info.add_metric(list(self._info.values()), 1)
        yield info


def registry_of(collector: SimulationCollector) -> CollectorRegistry:
    """A registry with that collector alone."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry


def sum_histograms(histograms: Iterable[Histogram], what: str) -> Histogram:
    """All of them together; of nothing, an empty one."""
    whole = Histogram(np.zeros(len(HISTOGRAMS[what]) + 1, dtype=np.int64), 0.0)
    for each in histograms:
        whole = whole.plus(each)
    return whole


def _buckets(histogram: Histogram, what: str) -> tuple[list[tuple[str, float]], float]:
    ends = [*(f"{end:g}" for end in HISTOGRAMS[what]), "+Inf"]
    cumulated = [float(n) for n in accumulate(histogram.counts.tolist())]
    return list(zip(ends, cumulated, strict=True)), histogram.total


def total(state: State, what: str) -> float:
    """A figure of all tenants together (an attribute of ``TenantState``)."""
    return float(sum(getattr(each, what) for each in state.tenants.values()))


__all__ = ["SimulationCollector", "TenantState", "registry_of", "sum_histograms", "total"]
