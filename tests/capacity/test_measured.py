"""Cards from logs: levels counted by hand, a line found again, and a real run."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairq import FIFO
from fairq.capacity import Limits, Shape, from_levels, from_profile, from_served, levels_of
from fairq.capacity.in_flight import busiest_minute
from fairq.capacity.logs import card_of_served, read_served
from fairq.capacity.measured import Level, fit_levels
from fairq.capacity.modelled import KV_USABLE
from fairq.capacity.words import few_lines, headline, lines
from fairq.cli import app
from fairq.lab import report
from fairq.profiles import load_profile
from fairq.scenario import Scenario
from fairq.sim import SlotEngine, simulate
from fairq.tune.engine import as_served
from fairq.workload import Fixed, Poisson, Tenant, Workload

from .box import EACH, TOTAL, bench_result, ends_only, spend_log

REAL = Path(__file__).resolve().parents[3] / "shared" / "traces" / "vllm_rtx4090_llama31_8b_requests.jsonl"


def table(*rows):
    names = ("arrival", "start", "first_token", "finish", "prompt_tokens", "output_tokens")
    return pd.DataFrame(rows, columns=names)


def test_levels_by_hand():
    # One from 0 to 4 that makes 8 tokens, another from 2 to 6 (it came at 1) that makes 4.
    rows = table((0, 0, 0, 4, 10, 8), (1, 2, 2, 6, 10, 4))
    levels = {level.streams: (level.seconds, level.tokens) for level in levels_of(rows)}
    # 0–2: one stream, 2 tokens/s. 2–4: two streams, 2 + 1. 4–6: one stream, 1.
    assert levels == {1: (4, 2 * 2 + 2 * 1), 2: (2, 6)}


def test_an_answer_that_comes_as_a_whole_was_made_all_the_time():
    (level,) = levels_of(table((0, 0, np.nan, 5, 10, 20)))
    assert (level.streams, level.seconds, level.tokens) == (1, 5, 20)


def test_the_line_is_found_again():
    truth = [Level(n, 10, n * 10 / (0.02 + 0.0005 * n)) for n in (1, 5, 20, 40)]
    fit = fit_levels(truth)
    assert (fit.base, fit.each) == (pytest.approx(0.02), pytest.approx(0.0005))
    assert fit.error < 1e-9


def test_no_stream_is_faster_for_company():
    noisy = [Level(1, 1, 10), Level(2, 1, 30)]  # 0.1 s, then 0.067 s per token of each
    fit = fit_levels(noisy)
    assert fit.each == 0
    assert 0.067 < fit.base < 0.1


def test_what_was_hardly_seen_is_marked_as_carried_on():
    # Half a second of three streams in a hundred of ten: alone is what the line says.
    rare = [Level(3, 0.5, 45), Level(10, 100, 30_000)]
    words = f"{headline(levels_card(rare))} {' '.join(lines(levels_card(rare)))}"
    assert "alone 30.0 tokens/s (by the line, not measured)" in words
    assert "hardly ever did fewer than 10 run" in words
    often = [Level(1, 50, 1500), Level(10, 100, 30_000)]
    words = f"{headline(levels_card(often))} {' '.join(lines(levels_card(often)))}"
    assert "not measured" not in words


def levels_card(levels):
    return from_levels(levels, Shape.of(100, 50), Limits(), source="box", kind="log")


def test_slots_bind_where_their_number_stays_the_same():
    workload = Workload([Tenant("a", "a", Poisson(3), Fixed(100), Fixed(80))], 100)
    result = simulate(workload, FIFO(), SlotEngine(4, decode_tokens_per_s=40), seed=1)
    card = from_served(result.requests, source="log")
    assert (card.max_streams, card.binds) == (4, "slots")
    # 80 tokens in 2 s, and a little for the prompt.
    assert card.at(1).tokens_per_s == pytest.approx(80 / (100 / 8000 + 2), rel=0.02)
    assert card.at(4).measured_tokens_per_s == pytest.approx(4 * 80 / (100 / 8000 + 2), rel=0.02)


def test_nothing_binds_where_nobody_waits():
    card = from_served(table((0, 0, 1, 4, 10, 8), (5, 5, 6, 9, 10, 8)), source="log")
    assert card.binds == ""
    assert "does not show what would bind" in " ".join(card.notes)


@pytest.mark.skipif(not REAL.is_file(), reason="needs the real run")
def test_the_real_run_says_that_kv_binds_and_how_much_it_holds():
    served = read_served(REAL).table
    card = from_served(served, source="log")
    assert card.binds == "KV"
    # 2,588 blocks of 16 tokens. Who was preempted still counts as in service, which makes it a little more.
    kv_tokens = card.by_streams[-1].streams * card.shape.context_tokens
    assert kv_tokens == pytest.approx(41_408, rel=0.1)
    made = served["output_tokens"].sum() / (served["finish"].max() - served["arrival"].min())
    assert card.top.tokens_per_s == pytest.approx(made, rel=0.1)


@pytest.mark.skipif(not REAL.is_file(), reason="needs the real run")
def test_the_profile_alone_foretells_the_real_run():
    served = read_served(REAL).table
    profile = load_profile("rtx4090-llama-3.1-8b")
    card = from_profile(profile, Shape.from_sizes(served["prompt_tokens"], served["output_tokens"]))
    assert card.binds == "KV"
    made = served["output_tokens"].sum() / (served["finish"].max() - served["arrival"].min())
    assert card.top.tokens_per_s == pytest.approx(made, rel=0.1)
    # The engine's own series of the minutes with a queue, when its cache was full; the card leaves a tenth.
    series = pd.read_csv(REAL.with_name("vllm_rtx4090_llama31_8b_timeseries.csv"))
    queued = series[series["waiting"] > 0]
    assert card.max_streams / KV_USABLE == pytest.approx(queued["running"].mean(), rel=0.05)


def test_a_run_of_fairq_is_a_log(tmp_path):
    workload = Workload([Tenant("a", "a", Poisson(2), Fixed(100), Fixed(80))], 50)
    result = simulate(workload, FIFO(), SlotEngine(2), seed=1)
    path = tmp_path / "requests.csv"
    result.to_csv(path)
    served = read_served(path).table
    assert len(served) == len(result.requests)
    assert served["finish"].to_numpy() == pytest.approx(result.requests["finish"].to_numpy(dtype=float))


def test_what_a_log_does_not_say_is_not_made_up(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n")
    assert read_served(path) is None


def test_a_log_of_arrivals_and_ends_promises_no_more_than_the_box_can_do(tmp_path):
    card = card_of_served(read_served(ends_only(tmp_path / "gateway.jsonl")), source="log")
    # Eight slots of 40 tokens/s, 150 in flight: what waited is not taken for service.
    assert 0.95 * TOTAL < card.top.tokens_per_s <= TOTAL
    assert card.by_streams[0].tokens_per_s == pytest.approx(EACH, rel=0.05)
    assert card.at(4).tokens_per_s == pytest.approx(4 * EACH, rel=0.05)
    assert card.max_streams > 100
    assert (card.binds, card.limits.streams, card.limits.compute, card.target) == ("", None, None, None)
    row = card.by_users[-1]
    assert row.latency_s == pytest.approx(row.users * card.shape.output_tokens / row.tokens_per_s)


def test_the_command_says_first_what_such_a_log_does_not_tell(tmp_path):
    path = ends_only(tmp_path / "gateway.jsonl")
    said = CliRunner().invoke(app, ["capacity", str(path)], catch_exceptions=False).stdout
    points = [" ".join(point.split()) for point in said.split("· ")]
    assert "the log does not tell how many ran" in points[0]
    assert points[1].startswith("the log says neither when service began")
    assert "what binds" not in said
    picture = CliRunner().invoke(app, ["capacity", str(path), "--out", str(tmp_path / "card.png")])
    assert picture.exit_code == 2
    assert "no picture" in picture.stderr


def test_a_bench_result_is_a_log_of_served_requests(tmp_path):
    card = card_of_served(read_served(bench_result(tmp_path / "bench.json")), source="log")
    assert (card.max_streams, card.binds) == (8, "slots")
    assert card.top.tokens_per_s == pytest.approx(TOTAL, rel=0.01)
    assert card.by_streams[0].tokens_per_s == pytest.approx(EACH, rel=0.01)


def test_the_lab_has_the_commands_card_of_such_a_log(tmp_path):
    path = ends_only(tmp_path / "gateway.jsonl")
    card = card_of_served(read_served(path), source="log gateway")
    shown = report.card_of(as_served(Scenario.from_log(path)))
    assert list(few_lines(shown)) == list(few_lines(card))
    assert not report.draws_card(as_served(Scenario.from_log(path))), "a picture would say how many run"
    assert report.draws_card(as_served(Scenario.from_log(spend_log(tmp_path / "spend.csv"))))


def test_the_busiest_minute_by_hand():
    # 60 tokens from 0 to 60, then 240 from 60 to 120, and 30 s of 2 tokens/s on top from 90 on.
    rows = table((0, 0, 0, 60, 1, 60), (60, 60, 60, 120, 1, 240), (90, 90, 90, 120, 1, 60))
    assert busiest_minute(rows) == pytest.approx((240 + 60) / 60)


def test_a_gateways_log_has_a_card_that_says_what_it_does_not_know(tmp_path):
    # Two at once all the time, each answer of 20 tokens takes two seconds.
    path = tmp_path / "spend.csv"
    rows = [f"u{i % 2},{i - i % 2},{i - i % 2 + 2},10,20" for i in range(20)]
    path.write_text("user,start_time,end_time,prompt_tokens,completion_tokens\n" + "\n".join(rows) + "\n")
    card = card_of_served(read_served(path), source="log")
    assert card.at(2).measured_tokens_per_s == pytest.approx(20)
    assert "does not tell who waited" in card.caveats[0]
