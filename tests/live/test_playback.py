"""The film of a run against counting requests one by one, and the page against the film."""

import itertools
import math

import numpy as np
import pytest
from prometheus_client import generate_latest

from fairq import DRR, FIFO
from fairq.live.exporter import SimulationCollector, registry_of
from fairq.live.names import ENGINES
from fairq.live.playback import BUCKETS, Film, Playback
from fairq.live.scrape import parse
from fairq.profiles import load_profile
from fairq.sim import SlotEngine, simulate
from fairq.sim.batching import BatchingEngine
from fairq.workload import Dump, Fixed, Lognormal, Poisson, Tenant, Workload


def slot_run():
    sizes = Lognormal(300, 0.5), Lognormal(40, 0.5)
    tenants = [
        Tenant("ada", "people", Poisson(0.8), *sizes),
        Tenant("job", "job", Dump(5.0, 30), *sizes),
    ]
    return simulate(
        Workload(tenants, 60), DRR(quantum=300), SlotEngine(2), seed=4, patience={"ada": 6.0}, until=50.0
    )


def batching_run():
    sizes = Lognormal(600, 0.4), Lognormal(150, 0.4)
    engine = BatchingEngine(load_profile("rtx4090-llama-3.1-8b"), kv_tokens=8_192, gateway_slots=0)
    return simulate(Workload([Tenant("ada", "ada", Dump(0.0, 60), *sizes)], 10), FIFO(), engine, seed=2)


@pytest.mark.parametrize("run", [slot_run, batching_run])
def test_every_moment_is_what_counting_row_by_row_gives(run):
    result = run()
    film = Film(result)
    rows = result.all_requests.to_dict("records")
    for t in np.linspace(0, result.end, 37):
        state = film.at(t)
        for tenant, seen in state.tenants.items():
            mine = [row for row in rows if row["tenant"] == tenant and row["arrival"] <= t]
            began = "scheduled" if "scheduled" in rows[0] else "start"
            in_service = [r for r in mine if r[began] is not None and r[began] <= t and not r["finish"] <= t]
            done = [row for row in mine if row["finish"] <= t]
            gone = [row for row in mine if row["left"] <= t]
            assert seen.running == len(in_service)
            assert seen.finished == len(done)
            assert seen.waiting == len(mine) - len(in_service) - len(done) - len(gone)
            assert seen.cancelled == len(gone)
            first = [row for row in mine if row["first_token"] <= t]
            assert seen.prompted == sum(row["prompt_tokens"] for row in first)
            least = sum(row["output_tokens"] for row in done)
            most = least + sum(row["output_tokens"] for row in in_service)
            assert least <= seen.generated <= most
            assert seen.histograms["ttft"].counts.sum() == len(first)
            assert seen.histograms["latency"].total == pytest.approx(sum(row["latency"] for row in done))
            assert seen.preemptions == sum(row.get("preemptions", 0) for row in done)


def test_an_answers_tokens_come_evenly():
    # One request: first token at 1 s, then ten more, one per 0.5 s.
    tenant = Tenant("a", "a", Dump(0.0, 1), Fixed(4), Fixed(11))
    result = simulate(
        Workload([tenant], 1), FIFO(), SlotEngine(1, prefill_tokens_per_s=8, decode_tokens_per_s=2)
    )
    film = Film(result)
    made = {t: film.at(t).tenants["a"].generated for t in (0.9, 1.0, 1.4, 1.5, 3.0, 6.0, 99.0)}
    assert made == {0.9: 0, 1.0: 1, 1.4: 1, 1.5: 2, 3.0: 5, 6.0: 11, 99.0: 11}


def test_histogram_by_hand():
    # Three of one second each on one slot: latencies 1, 2 and 3 s.
    tenant = Tenant("a", "a", Dump(0.0, 3), Fixed(1), Fixed(1), service=Fixed(1.0))
    film = Film(simulate(Workload([tenant], 1), FIFO(), SlotEngine(1)))
    histogram = film.at(10).tenants["a"].histograms["latency"]
    counted = dict(zip([*BUCKETS, math.inf], histogram.counts.tolist(), strict=True))
    assert {end: n for end, n in counted.items() if n} == {1.0: 1, 2.0: 1, 3.15: 1}
    assert histogram.total == 6.0


def test_films_follow_each_other_and_counters_never_go_back():
    film = Film(slot_run())
    numbers = []

    def make(replication):
        numbers.append(replication)
        return film

    clock = [0.0]
    playback = Playback(make, lambda: clock[0])
    whole = film.at(film.end).tenants["ada"]
    clock[0] = 2 * film.end + 20
    seen, alone = playback.now().tenants["ada"], film.at(20).tenants["ada"]
    assert numbers == [0, 1, 2]
    assert seen.finished == 2 * whole.finished + alone.finished
    assert seen.generated == 2 * whole.generated + alone.generated
    assert (seen.waiting, seen.running) == (alone.waiting, alone.running)
    latency = seen.histograms["latency"].counts
    assert (
        latency.tolist()
        == (2 * whole.histograms["latency"].counts + alone.histograms["latency"].counts).tolist()
    )
    stopped = Playback(make, lambda: clock[0], once=True)
    assert stopped.now().tenants["ada"].finished == whole.finished


@pytest.mark.parametrize("name", list(ENGINES))
def test_the_page_under_every_engines_names_says_what_the_film_shows(name):
    film = Film(batching_run())
    state = film.at(4.0)
    collector = SimulationCollector(lambda: state, ENGINES[name], slots=256, labels={"model_name": "m"})
    seen = parse(generate_latest(registry_of(collector)).decode(), "page", 0.0)
    mine = state.tenants["ada"]
    assert (seen.engine, seen.at) == (ENGINES[name].name, 4.0)
    assert (seen.running, seen.waiting) == (mine.running, mine.waiting)
    assert seen.kv == pytest.approx(state.kv)
    assert mine.waiting > 0
    assert mine.running > 0
    for what in ("generated", "prompted", "finished"):
        if what in ENGINES[name].series:
            assert getattr(seen, what) == getattr(mine, what)
    if "ttft" in ENGINES[name].series:
        counts = mine.histograms["ttft"]
        assert seen.sums["ttft"] == (pytest.approx(counts.total), counts.counts.sum())


def test_tenants_have_series_of_their_own():
    state = Film(slot_run()).at(30.0)
    collector = SimulationCollector(lambda: state, ENGINES["vllm"], weights={"ada": 2.0})
    page = generate_latest(registry_of(collector)).decode().splitlines()
    for name, seen in state.tenants.items():
        assert f'fairq_requests_waiting{{tenant="{name}"}} {seen.waiting:.1f}' in page
        assert f'fairq_requests_finished_total{{tenant="{name}"}} {seen.finished:.1f}' in page
        counts = seen.histograms["latency"].counts.sum()
        assert f'fairq_request_latency_seconds_bucket{{le="+Inf",tenant="{name}"}} {counts:.1f}' in page
    assert 'fairq_tenant_weight{tenant="ada"} 2.0' in page


def test_buckets_are_close_enough_for_the_quantile_they_promise():
    assert BUCKETS[0] == 0.01
    assert BUCKETS[-1] == 5000.0
    assert max(high / low for low, high in itertools.pairwise(BUCKETS)) <= 1.28
