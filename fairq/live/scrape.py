"""Read a ``/metrics`` page, over HTTP or from a file, under any engine's names."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan, nan
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from fairq.files import InputError, unreadable
from fairq.live.names import (
    CLOCK,
    COUNTERS,
    ENGINES,
    GAUGES,
    HISTOGRAMS,
    NEEDED,
    SPEED,
    WANTED,
    EngineNames,
    Selector,
)

MOST_BYTES = 32 * 1024 * 1024
"""A page larger than this is no metrics page."""


class ScrapeError(InputError):
    """A page that cannot be used: endpoint down, wrong page, or series missing. The message says which."""


@dataclass(frozen=True)
class Snapshot:
    """One page. NaN: that engine does not say.

    ``at``: seconds, the simulation's clock where a simulation serves the page. ``kv``: 0 to 1. Counters since
    the engine's start: ``generated, prompted`` (tokens), ``finished, preemptions``. ``sums`` of ``ttft, tpot,
    latency``: (seconds, count). ``missing``: what would be good to have and is not there.
    """

    at: float
    engine: str
    running: float
    waiting: float
    kv: float = nan
    slots: float = nan
    generated: float = nan
    prompted: float = nan
    finished: float = nan
    preemptions: float = nan
    sums: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    missing: Sequence[str] = ()
    speed: float = 1.0


def metrics_url(text: str) -> str:
    """The address as one can type it: a scheme and ``/metrics`` are added where they are missing.

    Raises
    ------
    ScrapeError : no host, or a scheme that is not http(s).
    """
    address = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(address)
        port_ok = parts.port is None or parts.port > 0
    except ValueError as error:
        raise ScrapeError(f"{text}: is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        raise ScrapeError(f"{text}: must be an address such as http://localhost:8000/metrics")
    return address if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}/metrics"


def fetch(url: str, timeout_s: float = 5.0) -> str:
    """The text of a page.

    Raises
    ------
    ScrapeError : nobody answers, an error status, or what answers does not speak HTTP.
    """
    request = urllib.request.Request(url, headers={"Accept": "text/plain;version=0.0.4"})
    # An engine is asked directly: a proxy set for the internet does not lead to it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            content = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise ScrapeError(f"{url}: wrong page: answered {error.code} {error.reason}. {_hints()}") from None
    except urllib.error.URLError as error:
        raise ScrapeError(f"{url}: endpoint down: {_reason(error.reason)}") from None
    except (OSError, http.client.HTTPException) as error:
        raise ScrapeError(f"{url}: endpoint down: {_reason(error)}") from None
    if len(content) > MOST_BYTES:
        raise ScrapeError(f"{url}: wrong page: more than {MOST_BYTES >> 20} MB")
    return str(content.decode("utf-8", "replace"))


def scrape(url: str, timeout_s: float = 5.0, clock: Callable[[], float] = time.monotonic) -> Snapshot:
    """Fetch and read; ``at`` is the time of the request. Raises ScrapeError."""
    address = metrics_url(url)
    at = clock()
    return parse(fetch(address, timeout_s), address, at)


def scrape_for(
    url: str,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Snapshot]:
    """Scrapes from now until ``seconds`` later, one every second (ten at least, no faster than 0.1 s).

    Two pages alone would say what ran at two moments, and how many tokens were made in all the time between.

    Raises
    ------
    ScrapeError : a page cannot be used, or ``seconds`` is not above 0.
    """
    if not (isfinite(seconds) and seconds > 0):
        raise ScrapeError(f"--seconds must be > 0, got {seconds!r}")
    steps = max(round(seconds / min(1.0, max(seconds / 10, 0.1))), 1)
    began = clock()
    seen = [scrape(url, clock=clock)]
    for step in range(1, steps + 1):
        sleep(max(began + seconds * step / steps - clock(), 0.0))
        seen.append(scrape(url, clock=clock))
    return seen


def read_page(path: Path, at: float) -> Snapshot:
    """A saved page, taken at ``at`` seconds. Raises ScrapeError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScrapeError(unreadable(path, error)) from None
    return parse(text, str(path), at)


def parse(text: str, source: str, at: float) -> Snapshot:
    """The snapshot in a page's text.

    Raises
    ------
    ScrapeError : not a metrics page, one of no engine that is known, or one without what is needed.
    """
    samples = _samples(text, source)
    engine = _engine(samples, source)
    found = {what: _value(samples, engine.series.get(what, ()), what) for what in (*GAUGES, *COUNTERS)}
    gone = [what for what in NEEDED if isnan(found[what])]
    if gone:
        names = ", ".join(" or ".join(map(str, engine.series[what])) for what in gone)
        raise ScrapeError(f"{source}: missing series: a page of {engine.name} without {names}")
    sums = {}
    for what in HISTOGRAMS:
        for selector in engine.series.get(what, ()):
            total, count = (
                _total(samples, f"{selector.name}_{part}", selector.labels) for part in ("sum", "count")
            )
            if total is not None and count is not None:
                sums[what] = (total, count)
                break
    simulated = _total(samples, CLOCK, {})
    speed = _total(samples, SPEED, {})
    return Snapshot(
        at=at if simulated is None else simulated,
        engine=engine.name,
        sums=sums,
        missing=[what for what in WANTED if isnan(found[what])],
        speed=1.0 if simulated is None else (speed or 1.0),
        **found,
    )


def _samples(text: str, source: str) -> dict[str, list[Sample]]:
    start = text.lstrip()[:200].lower()
    if start.startswith(("<", "{", "[")):
        kind = "HTML" if start.startswith("<") else "JSON"
        raise ScrapeError(f"{source}: wrong page: {kind}, not Prometheus text. {_hints()}")
    samples: dict[str, list[Sample]] = {}
    try:
        families: Iterable[Metric] = text_string_to_metric_families(text)
        for family in families:
            for sample in family.samples:
                samples.setdefault(_plain(sample.name), []).append(sample)
    except (ValueError, KeyError, IndexError) as error:
        raise ScrapeError(f"{source}: wrong page: not Prometheus text ({_reason(error)})") from None
    if not samples:
        raise ScrapeError(f"{source}: wrong page: no metrics on it. {_hints()}")
    return samples


def _engine(samples: Mapping[str, Sequence[Sample]], source: str) -> EngineNames:
    """The engine most of whose series are there."""

    def known(engine: EngineNames) -> int:
        return sum(_any(samples, selectors) for selectors in engine.series.values())

    best = max(ENGINES.values(), key=known)
    if not known(best):
        for engine in ENGINES.values():
            if any(name.startswith(_plain(engine.prefix)) for name in samples):
                wanted = ", ".join(str(engine.series[what][0]) for what in NEEDED)
                raise ScrapeError(f"{source}: missing series: a page of {engine.name} without {wanted}")
        some = ", ".join(list(samples)[:3])
        raise ScrapeError(
            f"{source}: missing series: metrics of no engine known here ({some}, …); known are"
            f" {', '.join(engine.name for engine in ENGINES.values())}"
        )
    return best


def _any(samples: Mapping[str, Sequence[Sample]], selectors: Sequence[Selector]) -> bool:
    return any(
        _total(samples, name, selector.labels) is not None
        for selector in selectors
        for name in (selector.name, f"{selector.name}_sum")
    )


def _value(samples: Mapping[str, Sequence[Sample]], selectors: Sequence[Selector], what: str) -> float:
    for selector in selectors:
        values = _matching(samples, selector.name, selector.labels)
        if values:
            # Several models or ranks on one page: what they hold in common is summed, a part is averaged.
            return sum(values) / len(values) if what == "kv" else sum(values)
    return nan


def _total(samples: Mapping[str, Sequence[Sample]], name: str, labels: Mapping[str, str]) -> float | None:
    values = _matching(samples, name, labels)
    return sum(values) if values else None


def _matching(samples: Mapping[str, Sequence[Sample]], name: str, labels: Mapping[str, str]) -> list[float]:
    return [
        float(sample.value)
        for sample in samples.get(_plain(name), ())
        if isfinite(sample.value) and labels.items() <= sample.labels.items()
    ]


def _plain(name: str) -> str:
    """``vllm:…`` becomes ``vllm_…`` on the way through OpenMetrics (prometheus_client since 0.22)."""
    return name.replace(":", "_")


def _hints() -> str:
    return "Engines: " + "; ".join(engine.hint for engine in ENGINES.values())


def _reason(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__
