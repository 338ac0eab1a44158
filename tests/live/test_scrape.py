"""Pages as the engines write them, and pages that are none."""

import http.server
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from fairq.capacity.words import headline, lines
from fairq.files import InputError
from fairq.live.cards import card_of, series_from, window
from fairq.live.scrape import ScrapeError, Snapshot, fetch, metrics_url, parse, scrape, scrape_for
from fairq.profiles import load_profile

# Excerpts in the engines' own formats (labels, several series of one name, NaN before the first request).
VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3.1-8B"} 33.0
vllm:num_requests_running{engine="1",model_name="meta-llama/Llama-3.1-8B"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="meta-llama/Llama-3.1-8B"} 12.0
vllm:num_requests_waiting{engine="1",model_name="meta-llama/Llama-3.1-8B"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="meta-llama/Llama-3.1-8B"} 0.96
vllm:kv_cache_usage_perc{engine="1",model_name="meta-llama/Llama-3.1-8B"} 0.5
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 17.0
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 1000.0
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 5000.0
# TYPE vllm:request_success counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="meta-llama/Llama-3.1-8B"} 40.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="meta-llama/Llama-3.1-8B"} 2.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.1",model_name="meta-llama/Llama-3.1-8B"} 10.0
vllm:time_to_first_token_seconds_bucket{le="+Inf",model_name="meta-llama/Llama-3.1-8B"} 42.0
vllm:time_to_first_token_seconds_count{model_name="meta-llama/Llama-3.1-8B"} 42.0
vllm:time_to_first_token_seconds_sum{model_name="meta-llama/Llama-3.1-8B"} 21.0
"""

OLD_VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 5.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 12.0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="m"} 0.35
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="m"} 10.0
"""

SGLANG = """\
# HELP sglang:num_running_reqs The number of running requests
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 162.0
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.28
# TYPE sglang:gen_throughput gauge
sglang:gen_throughput{model_name="meta-llama/Llama-3.1-8B-Instruct"} 86.50814177726902
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 2826.0
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="meta-llama/Llama-3.1-8B-Instruct"} 8.128902e+06
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="meta-llama/Llama-3.1-8B-Instruct"} 7.557572e+06
# TYPE sglang:e2e_request_latency_seconds histogram
sglang:e2e_request_latency_seconds_sum{model_name="meta-llama/Llama-3.1-8B-Instruct"} 3.116093850019932e+06
sglang:e2e_request_latency_seconds_bucket{le="+Inf",model_name="meta-llama/Llama-3.1-8B-Instruct"} 11228.0
sglang:e2e_request_latency_seconds_count{model_name="meta-llama/Llama-3.1-8B-Instruct"} 11228.0
"""

LLAMA_CPP = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 512
# HELP llamacpp:tokens_predicted_total Number of generation tokens processed.
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 17029
# HELP llamacpp:predicted_tokens_seconds Average generation throughput in tokens/s.
# TYPE llamacpp:predicted_tokens_seconds gauge
llamacpp:predicted_tokens_seconds nan
# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 4
# HELP llamacpp:requests_deferred Number of requests deferred.
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 46
"""

TRTLLM = """\
# TYPE trtllm_num_requests_running gauge
trtllm_num_requests_running{engine_type="trtllm",model_name="llama"} 7.0
# TYPE trtllm_num_requests_waiting gauge
trtllm_num_requests_waiting{engine_type="trtllm",model_name="llama"} 2.0
# TYPE trtllm_kv_cache_utilization gauge
trtllm_kv_cache_utilization{engine_type="trtllm",model_name="llama"} 0.62
# TYPE trtllm_request_success_total counter
trtllm_request_success_total{engine_type="trtllm",finished_reason="stop",model_name="llama"} 9.0
# TYPE trtllm_e2e_request_latency_seconds histogram
trtllm_e2e_request_latency_seconds_bucket{le="+Inf",model_name="llama"} 9.0
trtllm_e2e_request_latency_seconds_count{model_name="llama"} 9.0
trtllm_e2e_request_latency_seconds_sum{model_name="llama"} 27.0
"""

TRITON = """\
# HELP nv_trt_llm_request_metrics TRT LLM request metrics
# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 4
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 5
# TYPE nv_trt_llm_kv_cache_block_metrics gauge
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.6
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
"""


@pytest.mark.parametrize(
    ("page", "engine", "running", "waiting", "kv", "missing"),
    [
        (VLLM, "vLLM", 36, 12, 0.73, []),
        (VLLM.replace("vllm:", "vllm_"), "vLLM", 36, 12, 0.73, []),  # as OpenMetrics brings it
        (OLD_VLLM, "vLLM", 5, 12, 0.35, []),
        (SGLANG, "SGLang", 162, 2826, 0.28, []),
        (LLAMA_CPP, "llama.cpp", 4, 46, None, ["kv"]),
        (TRTLLM, "TensorRT-LLM", 7, 2, 0.62, ["generated"]),
        (TRITON, "TensorRT-LLM in Triton", 4, 1, 0.6, ["generated"]),
    ],
)
def test_every_engine_is_read_by_its_own_names(page, engine, running, waiting, kv, missing):
    seen = parse(page, "page", 1.0)
    assert (seen.engine, seen.running, seen.waiting) == (engine, running, waiting)
    assert seen.kv == pytest.approx(kv if kv is not None else float("nan"), nan_ok=True)
    assert list(seen.missing) == missing


def test_counters_are_summed_over_their_labels():
    seen = parse(VLLM, "page", 1.0)
    assert (seen.generated, seen.prompted, seen.finished, seen.preemptions) == (5000, 1000, 42, 17)
    assert seen.sums == {"ttft": (21.0, 42.0)}
    assert parse(SGLANG, "page", 1.0).finished == 11228
    assert parse(TRITON, "page", 1.0).slots == 512


@pytest.mark.parametrize(
    ("page", "word"),
    [
        ("<!DOCTYPE html><html><body>vLLM</body></html>", "wrong page: HTML"),
        ('{"object": "list", "data": []}', "wrong page: JSON"),
        ("", "wrong page: no metrics"),
        ("it works!\n", "wrong page: not Prometheus text"),
        ("process_cpu_seconds_total 12.5\npython_gc 1\n", "missing series: metrics of no engine known here"),
        ("vllm:num_requests_running 1\n", "missing series: a page of vLLM without vllm:num_requests_waiting"),
        ("llamacpp:n_decode_total 7\n", "missing series: a page of llama.cpp without llamacpp:requests_proc"),
        ("vllm:num_requests_running NaN\nvllm:num_requests_waiting 1\n", "without vllm:num_requests_running"),
    ],
)
def test_other_pages_are_refused_with_what_is_wrong(page, word):
    with pytest.raises(ScrapeError, match=word) as caught:
        parse(page, "http://box/metrics", 1.0)
    assert str(caught.value).startswith("http://box/metrics: ")


@contextmanager
def page_server(answer):
    """Serves what ``answer(path)`` returns: (status, text)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, text = answer(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_page_over_http_and_what_goes_wrong_there():
    pages = {"/metrics": (200, VLLM), "/prometheus/metrics": (200, TRTLLM)}
    with page_server(lambda path: pages.get(path, (404, "no"))) as address:
        assert scrape(address, clock=lambda: 7.0).at == 7.0
        assert scrape(f"http://{address}/prometheus/metrics").engine == "TensorRT-LLM"
        with pytest.raises(ScrapeError, match=r"wrong page: answered 404.*--enable-metrics"):
            scrape(f"{address}/other")
    with pytest.raises(ScrapeError, match="endpoint down"):
        scrape(address)


def test_an_endpoint_that_never_answers_is_down():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(ScrapeError, match="endpoint down"):
            fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/metrics", timeout_s=0.2)


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ("localhost:8000", "http://localhost:8000/metrics"),
        ("http://box:8000/", "http://box:8000/metrics"),
        ("https://box/prometheus/metrics", "https://box/prometheus/metrics"),
        ("[::1]:8000", "http://[::1]:8000/metrics"),
    ],
)
def test_addresses_as_people_type_them(typed, means):
    assert metrics_url(typed) == means


@pytest.mark.parametrize("typed", ["ftp://box/metrics", "http://", "box:port", "http://box:99999"])
def test_what_is_no_address_is_said(typed):
    with pytest.raises(ScrapeError, match="address"):
        metrics_url(typed)


def snapshot(at, **values):
    return Snapshot(at=at, engine="vLLM", **{"running": 4.0, "waiting": 0.0, **values})


def test_a_window_by_hand():
    before = snapshot(0, generated=0, prompted=0, finished=0, preemptions=0, sums={"ttft": (1, 1)})
    after = snapshot(
        10, running=6.0, generated=500, prompted=2000, finished=5, preemptions=1, sums={"ttft": (4, 6)}
    )
    seen = window(before, after)
    assert (seen.seconds, seen.running, seen.tokens_per_s) == (10, 5, 50)
    assert (seen.prompt_tokens, seen.output_tokens) == (400, 100)
    assert seen.ttft_s == pytest.approx(3 / 5)
    assert (
        window(after, snapshot(20, generated=3, prompted=0, finished=0, preemptions=0)) is None
    )  # restarted


def test_two_scrapes_give_a_card_whose_figures_agree():
    shots = [
        snapshot(0, kv=0.2, generated=0, prompted=0, finished=0),
        snapshot(10, kv=0.2, generated=1000, prompted=4000, finished=10),
    ]
    card = card_of(shots, source="box")
    assert card.at(4).measured_tokens_per_s == pytest.approx(100)
    assert card.at(4).tokens_per_s == pytest.approx(100)
    assert card.at(4).tokens_per_s_per_stream == pytest.approx(25)
    # Four hold 20 %: a stream 5 %, and 90 % counts.
    assert card.limits.kv == 18 or "about 18 fit" in " ".join(card.notes)
    for row in card.by_streams:
        assert row.streams * row.tokens_per_s_per_stream == pytest.approx(row.tokens_per_s)
    with_profile = card_of(shots, source="box", profile=load_profile("rtx4090-llama-3.1-8b"))
    assert with_profile.binds == "KV"
    assert "the profile says" in " ".join(with_profile.notes)


def test_more_scrapes_at_other_loads_give_the_line():
    # A token takes 10 ms + 1 ms per stream; the load changes in the middle between two pages.
    shots, made, levels = [], 0.0, (1, 1, 1, 5, 5, 5, 10, 10, 10)
    for i, (before, n) in enumerate(zip((0, *levels), levels, strict=False)):
        made += sum(5 * each / (0.010 + 0.001 * each) for each in (before, n))
        shots.append(snapshot(10.0 * i, running=float(n), generated=made))
    card = card_of(shots, source="box")
    assert card.at(10).tokens_per_s == pytest.approx(10 / 0.020, rel=0.03)
    assert card.at(5).tokens_per_s == pytest.approx(5 / 0.015, rel=0.03)
    assert card.at(1).tokens_per_s == pytest.approx(1 / 0.011, rel=0.03)


def test_as_many_as_always_run_while_people_wait_are_the_slots():
    shots = [snapshot(t, running=8.0, waiting=5.0, generated=100.0 * t) for t in range(5)]
    card = card_of(shots, source="box")
    assert (card.limits.slots, card.binds) == (8, "slots")


@pytest.mark.parametrize("kv", [0.9, 0.97, 1.0])
def test_a_cache_that_is_full_holds_what_runs_in_it(kv):
    # Four run with the cache at 97 %: by its size 3.7 streams fit, yet four do.
    shots = [snapshot(t, kv=kv, waiting=3.0, generated=100.0 * t) for t in range(6)]
    card = card_of(shots, source="box")
    assert (card.max_streams, card.binds) == (4, "KV")
    assert card.top.measured_tokens_per_s == pytest.approx(100)
    assert "4 at once 100 tokens/s" in headline(card)


def test_more_than_once_waited_are_not_kept_out_by_slots_seen_then():
    # Two ran while one waited; later five ran: two is no limit.
    counts = ((2, 1), (2, 1), (5, 0), (5, 0))
    shots = [
        snapshot(t, running=float(n), waiting=float(w), generated=100.0 * t)
        for t, (n, w) in enumerate(counts)
    ]
    assert card_of(shots, source="box").max_streams >= 5


def little(counted, made, waiting=0.0):
    """Pages ten seconds apart of a box where every stream makes 40 tokens/s: what was seen running, and how
    many tokens came in between.
    """
    shots, total = [], 0.0
    for i, n in enumerate(counted):
        total += made[i - 1] if i else 0.0
        done = total / 100
        shots.append(
            snapshot(
                10.0 * i,
                running=float(n),
                waiting=waiting,
                generated=total,
                prompted=total,
                finished=done,
                sums={"tpot": (0.025 * done, done)},
            )
        )
    return shots


def test_what_ran_between_two_pages_is_not_the_mean_of_their_moments():
    # Answers of 100 tokens take 2.5 s, pages are 10 s apart: 1, 4 and 6 streams were in service on average,
    # and the pages happened to show others. Truth: 40 tokens/s each, at any number.
    card = card_of(little([0, 1, 5, 0, 2], [400, 1600, 2400, 800]), source="box")
    for n in (1, 4, 6):
        assert card.at(n).tokens_per_s == pytest.approx(40 * n, rel=0.01)
    assert card.top.tokens_per_s >= 240, "no less than what was made between two pages"


def test_two_idle_moments_are_not_nobody():
    shots = little([0, 0], [1200])
    assert card_of(shots, source="box").at(3).measured_tokens_per_s == pytest.approx(120)
    bare = [replace(shot, sums={}) for shot in shots]
    with pytest.raises(InputError, match="1,200 tokens were generated, but nothing ran at the moment"):
        card_of(bare, source="box")


def test_two_pages_that_differ_say_so_first():
    shots = [snapshot(0, running=2.0, generated=0), snapshot(10, running=8.0, generated=2000)]
    (first, *_) = lines(card_of(shots, source="box"))
    assert first.startswith("2 ran at the first page and 8 at the second")
    alike = [replace(shot, running=5.0) for shot in shots]
    assert not card_of(alike, source="box").caveats


@pytest.mark.parametrize(("seconds", "pages"), [(30, 31), (5, 11), (0.3, 4)])
def test_an_engine_is_looked_at_every_second(seconds, pages):
    now = [0.0]
    with page_server(lambda path: (200, VLLM)) as address:
        seen = scrape_for(
            address, seconds, clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s)
        )
    assert len(seen) == pages
    assert [shot.at for shot in seen] == pytest.approx(np.linspace(0, seconds, pages).tolist())
    with pytest.raises(ScrapeError, match="--seconds"):
        scrape_for("localhost:1", 0)


@pytest.mark.parametrize(
    ("shots", "word"),
    [
        ([snapshot(0, generated=5), snapshot(9, generated=5)], "nobody asked"),
        ([snapshot(0), snapshot(9)], "missing series"),
        ([snapshot(0, generated=9), snapshot(9, generated=2)], "restarted"),
    ],
)
def test_no_card_without_tokens(shots, word):
    with pytest.raises(ValueError, match=word):
        card_of(shots, source="box")


def test_a_series_begins_anew_after_a_restart():
    shots = [snapshot(t, generated=float(g)) for t, g in ((0, 90), (1, 95), (2, 3), (3, 8), (4, 20))]
    assert series_from(shots).t.tolist() == [2, 3, 4]
