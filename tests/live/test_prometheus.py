"""A real Prometheus scrapes a simulation: rules load, and every query of the dashboard gives its numbers."""

import json
import math
import subprocess
import time

import numpy as np
import pytest
import yaml

from fairq import FIFO
from fairq.live.exporter import SimulationCollector, registry_of, total
from fairq.live.names import VLLM
from fairq.live.playback import BUCKETS, Film, Playback
from fairq.live.server import serving
from fairq.profiles import load_profile
from fairq.saturation import Series, judge, series_of
from fairq.saturation_truth import BOXES, _capacity
from fairq.sim import simulate
from fairq.sim.batching import BatchingEngine
from fairq.workload import ClosedLoop, Dump, Fixed, Lognormal, OnOff, Poisson, Tenant, Workload

from .prometheus import DATA, Prometheus, needs_prometheus, until

RULES = (DATA / "prometheus" / "fairq.rules.yml").read_text()
DASHBOARD = json.loads((DATA / "grafana" / "fairq.json").read_text())
QUERIES = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
WINDOW_S = 10
ENDS = (*BUCKETS, math.inf)
SPEED, START = 4.0, 100.0

pytestmark = [pytest.mark.slow, needs_prometheus]


def busy_box():
    """A nightly job and two people on a small KV cache: there is a queue for minutes, and KV is full."""
    sizes = Lognormal(600, 0.4), Lognormal(150, 0.4)
    tenants = [
        Tenant("nightly", "nightly", Dump(0.0, 2500), *sizes),
        Tenant("ada", "people", Poisson(0.6), *sizes),
        Tenant("bob", "people", Poisson(0.3), *sizes),
    ]
    engine = BatchingEngine(load_profile("rtx4090-llama-3.1-8b"), kv_tokens=16_384, gateway_slots=0)
    return simulate(Workload(tenants, 400), FIFO(), engine, seed=3)


def test_config_and_rules_pass_promtool():
    for kind, name in (("config", "prometheus.yml"), ("rules", "fairq.rules.yml")):
        checked = subprocess.run(
            ["promtool", "check", kind, DATA / "prometheus" / name], capture_output=True, text=True
        )
        assert checked.returncode == 0, checked.stderr


class Truth:
    """What the simulator says at the very moments that Prometheus scraped it."""

    def __init__(self, film, prometheus):
        self.film, self.prometheus = film, prometheus
        (_, clock), *_ = prometheus.query("fairq_simulated_seconds[10m]")
        self.scrapes = [(t, film.at(seconds)) for t, seconds in clock]
        self.at = self.scrapes[-1][0]

    def last(self, seconds):
        """Scrapes of the last so many seconds."""
        return [state for t, state in self.scrapes if self.at - seconds <= t]

    def rate(self, count, seconds=WINDOW_S):
        """Per second of real time, as Prometheus documents ``rate``: the increase between the first and the
        last scrape, stretched to the window's edges where they are near, but never to below zero.
        """
        inside = [(t, count(state)) for t, state in self.scrapes if self.at - seconds <= t]
        (t0, first), (t1, last) = inside[0], inside[-1]
        sampled, apart = t1 - t0, (t1 - t0) / (len(inside) - 1)
        before, after = t0 - (self.at - seconds), self.at - t1
        if last > first:
            before = min(before, sampled * first / (last - first))
        stretched = sampled + sum(edge if edge < 1.1 * apart else apart / 2 for edge in (before, after))
        return (last - first) * stretched / sampled / seconds

    def quantile(self, q, histogram):
        """Evenly within the bucket that holds it, like ``histogram_quantile``; ``histogram``: → counts."""
        rates = [
            self.rate(lambda state, upto=i + 1: int(histogram(state)[:upto].sum())) for i in range(len(ENDS))
        ]
        if not rates[-1]:
            return math.nan
        rank = q * rates[-1]
        place = next(i for i, rate in enumerate(rates) if rate >= rank)
        if place == len(BUCKETS):
            return BUCKETS[-1]
        low, below = (BUCKETS[place - 1], rates[place - 1]) if place else (0.0, 0.0)
        return low + (BUCKETS[place] - low) * (rank - below) / (rates[place] - below)


def tenants(of):
    return lambda truth: {name: of(truth, name) for name in truth.scrapes[-1][1].tenants}


def latency(q, what):
    def of(truth, name):
        return truth.quantile(q, lambda state: state.tenants[name].histograms[what].counts)

    return tenants(of)


def whole_ttft(q):
    def all_counts(state):
        return sum(each.histograms["ttft"].counts for each in state.tenants.values())

    return lambda truth: {"": truth.quantile(q, all_counts)}


def tokens(name):
    return lambda state: state.tenants[name].prompted + state.tenants[name].generated


def shares(truth):
    rates = {name: truth.rate(tokens(name)) for name in truth.film.tenants}
    return {name: rate / sum(rates.values()) for name, rate in rates.items()}


def generated(truth):
    return truth.rate(lambda state: total(state, "generated"), 5) / SPEED


def seen(truth):
    """The same window for the decision table."""
    states = truth.last(WINDOW_S)
    return Series(
        [state.t for state in states],
        [total(state, "running") for state in states],
        [total(state, "waiting") for state in states],
        [state.kv for state in states],
        [total(state, "finished") for state in states],
    )


def measured(name):
    return lambda truth: {"": judge(seen(truth), slots=256).measures[name]}


def one(of):
    return lambda truth: {"": of(truth)}


def recent(what):
    """A recorded gauge is as old as the last evaluation: it equals one of the last scrapes."""
    return lambda truth: {"": [what(state) for _, state in truth.scrapes[-4:]]}


def running(state):
    return total(state, "running")


def waiting(state):
    return total(state, "waiting")


EXACT, LOOSE = 1e-6, 0.1
# Panel → (what the simulator says, how near). A list: one of them. None: nothing must come back.
EXPECTED = {
    "Verdict": [(lambda truth: {judge(seen(truth), slots=256).name: 1.0}, EXACT)],
    "Waiting per running": [(recent(lambda state: waiting(state) / running(state)), EXACT)],
    "Tokens/s in all": [(one(generated), LOOSE)],
    "Tokens/s of each stream": [
        (one(lambda t: generated(t) / np.mean([running(s) for s in t.last(5)])), LOOSE)
    ],
    "Can run at once": [(one(lambda truth: 256.0), EXACT)],
    "Queue depth: waiting and running": [(recent(waiting), EXACT), (recent(running), EXACT)],
    "KV cache in use": [(recent(lambda state: state.kv), EXACT)],
    "Waiting, by tenant": [(tenants(lambda truth, name: truth.scrapes[-1][1].tenants[name].waiting), EXACT)],
    "Running, by tenant": [(tenants(lambda truth, name: truth.scrapes[-1][1].tenants[name].running), EXACT)],
    "Latency p50, by tenant": [(latency(0.5, "latency"), EXACT)],
    "Latency p99, by tenant": [(latency(0.99, "latency"), EXACT)],
    "Time to first token p99, by tenant": [(latency(0.99, "ttft"), EXACT)],
    "Share of tokens, by tenant": [(shares, 0.01)],
    "Time to first token of the engine": [(whole_ttft(0.5), EXACT), (whole_ttft(0.99), EXACT)],
    "Evidence for the verdict": [
        (measured("queued"), EXACT),
        (measured("ratio"), LOOSE),
        (measured("left"), LOOSE),
        (measured("kv_full"), 0.15),
        (measured("slots_full"), EXACT),
        (None, 0),  # the queue does not grow
    ],
}


def shortened(text):
    """Ten minutes and one minute as ten and five seconds, in names and windows alike."""
    for long, short in (
        ("10m:5s", "10s:1s"),
        ("10m", "10s"),
        ("600 *", "10 *"),
        ("1m", "5s"),
        ("1d", "30s"),
    ):
        text = text.replace(long, short)
    return text


def test_every_query_of_the_dashboard_returns_the_simulators_numbers(tmp_path):
    film = Film(busy_box())
    began = time.monotonic()
    playback = Playback(lambda r: film, lambda: START + SPEED * (time.monotonic() - began), once=True)
    collector = SimulationCollector(playback.now, VLLM, slots=256, speed=SPEED, labels={"model_name": "m"})
    with serving(registry_of(collector), 0, "127.0.0.1") as url:
        instance = url.removeprefix("http://").removesuffix("/metrics")
        with Prometheus(tmp_path, instance, shortened(RULES)) as prometheus:
            (target,) = until(lambda: prometheus.get("targets")["activeTargets"])
            assert target["scrapePool"] == "engine"
            until(lambda: scrapes(prometheus) > 25)
            until(lambda: prometheus.query(shortened("fairq:verdict")))
            rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
            assert {rule["health"] for rule in rules} == {"ok"}
            truth = Truth(film, prometheus)
            assert {title for title, _ in QUERIES} == set(EXPECTED)
            for title, expressions in EXPECTED.items():
                asked = [expression for name, expression in QUERIES if name == title]
                for expression, (expected, near) in zip(asked, expressions, strict=True):
                    query = shortened(expression).replace("$instance", instance)
                    rows = prometheus.query(query.replace("$window", f"{WINDOW_S}s"), truth.at)
                    check(title, rows, expected and expected(truth), near)


def scrapes(prometheus):
    return sum(len(values) for _, values in prometheus.query("fairq_simulated_seconds[10m]"))


def check(title, rows, expected, near):
    found = {labels.get("tenant", labels.get("verdict", "")): value for labels, value in rows}
    if expected is None:
        assert not found, title
        return
    assert found.keys() == expected.keys(), title
    for name, value in found.items():
        wanted = expected[name]
        if isinstance(wanted, list):
            assert min(abs(value - each) for each in wanted) <= near, (title, name, value, wanted)
        else:
            assert value == pytest.approx(wanted, rel=near, abs=1e-9, nan_ok=True), (title, name)


def rule_case(series, slots, until_s):
    """A promtool test: these scrapes every 15 s, and what ``judge`` says of the last ten minutes."""

    def values(column):
        return " ".join(f"{value:.6g}" for value in column)

    labels = 'job="engine",instance="box"'
    columns = {
        "vllm:num_requests_waiting": series.waiting,
        "vllm:num_requests_running": series.running,
        "vllm:request_success_total": series.finished,
        "fairq_slots": np.full(series.t.shape, slots),
    }
    if series.kv is not None:
        columns["vllm:kv_cache_usage_perc"] = series.kv
    verdict = judge(series.last(600), slots=slots).name
    return verdict, {
        "interval": "15s",
        "input_series": [
            {"series": f"{name}{{{labels}}}", "values": values(column)} for name, column in columns.items()
        ],
        "promql_expr_test": [
            {
                "expr": "fairq:verdict",
                "eval_time": f"{until_s}s",
                "exp_samples": [{"labels": f'fairq:verdict{{{labels},verdict="{verdict}"}}', "value": 1}],
            }
        ],
    }


def test_rules_and_the_decision_table_agree_on_simulated_boxes(tmp_path):
    cases, verdicts, until_s = [], [], 900
    for box in BOXES:
        capacity = _capacity(box, 0)
        for arrivals in (
            Poisson(0.3 * capacity),
            OnOff(2.4 * capacity, 60, 240),
            ClosedLoop(round(1.6 * box.streams), Fixed(0.5)),
            Poisson(2.5 * capacity),
        ):
            workload = Workload([box.tenant(arrivals)], until_s)
            result = simulate(workload, FIFO(), box.engine(), seed=5, until=until_s)
            verdict, case = rule_case(series_of(result, every_s=15.0), box.slots, until_s)
            verdicts.append(verdict)
            cases.append(case)
    assert set(verdicts) == {"fine", "bursty", "KV-bound", "slot-bound", "saturated"}
    (tmp_path / "fairq.rules.yml").write_text(RULES)
    test = {"rule_files": ["fairq.rules.yml"], "evaluation_interval": "15s", "tests": cases}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test, allow_unicode=True))
    ran = subprocess.run(["promtool", "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True)
    assert ran.returncode == 0, f"{verdicts}\n{ran.stdout}{ran.stderr}"


def test_alerts_fire_for_a_shortage_and_for_silence(tmp_path):
    labels = 'job="engine",instance="box"'
    minutes = 40
    growing = {
        "vllm:num_requests_waiting": f"0+15x{4 * minutes}",
        "vllm:num_requests_running": f"8+0x{4 * minutes}",
        "vllm:request_success_total": f"0+10x{4 * minutes}",
        "fairq_slots": f"8+0x{4 * minutes}",
        "up": f"1+0x{4 * minutes - 20} 0+0x20",
    }
    test = {
        "rule_files": ["fairq.rules.yml"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [
                    {"series": f"{name}{{{labels}}}", "values": values} for name, values in growing.items()
                ],
                "alert_rule_test": [
                    {"eval_time": "5m", "alertname": "FairqSaturated", "exp_alerts": []},
                    {
                        "eval_time": "30m",
                        "alertname": "FairqSaturated",
                        "exp_alerts": [
                            {
                                "exp_labels": {
                                    "severity": "warning",
                                    "job": "engine",
                                    "instance": "box",
                                    "verdict": "saturated",
                                },
                                "exp_annotations": {
                                    "summary": "box is saturated: you ration a shortage; buy capacity or"
                                    " cap demand"
                                },
                            }
                        ],
                    },
                    {"eval_time": "30m", "alertname": "FairqEngineDown", "exp_alerts": []},
                    {
                        "eval_time": f"{minutes - 1}m",
                        "alertname": "FairqEngineDown",
                        "exp_alerts": [
                            {
                                "exp_labels": {"severity": "critical", "job": "engine", "instance": "box"},
                                "exp_annotations": {"summary": "box does not answer on its metrics page"},
                            }
                        ],
                    },
                ],
            }
        ],
    }
    (tmp_path / "fairq.rules.yml").write_text(RULES)
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    ran = subprocess.run(["promtool", "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True)
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"
