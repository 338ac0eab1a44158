"""The decision table: curves drawn by hand, a real run, and simulated boxes whose trouble is known."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairq import FIFO
from fairq.capacity import Shape, relief, relief_of
from fairq.capacity.verdicts import series_of_served
from fairq.cli import app
from fairq.files import InputError
from fairq.saturation import ADVICE, VERDICTS, Series, judge, read_series, series_of
from fairq.saturation_truth import cases, confusion
from fairq.scenario import Scenario
from fairq.sim import SlotEngine, simulate
from fairq.sim.batching import Profile
from fairq.workload import Dump, Fixed, Tenant, Workload

from . import box

REAL = Path(__file__).resolve().parents[3] / "shared" / "traces" / "vllm_rtx4090_llama31_8b_timeseries.csv"
T = np.arange(0.0, 601.0, 10.0)


def series(waiting, running=8.0, **more):
    def column(values):
        return np.broadcast_to(np.asarray(values, dtype=float), T.shape)

    return Series(T, column(running), column(waiting), **{name: column(each) for name, each in more.items()})


@pytest.mark.parametrize(
    ("name", "seen", "slots"),
    [
        ("fine", series(0, 3), 8),
        ("fine", series(np.where(T == 300, 40, 0), 3), 8),  # one bad moment in ten minutes
        ("fine", series(1, 40), 64),  # somebody always waits, for a fortieth of a service
        ("bursty", series(np.where(T % 120 < 50, 20, 0)), 8),
        ("slot-bound", series(6), 8),
        ("slot-bound", series(6, kv=0.3), 8),
        ("KV-bound", series(6, 20, kv=0.97), 64),
        ("KV-bound", series(6, 20, kv=0.8, finished=T, preemptions=T / 2), 64),
        ("slot-bound", series(np.maximum(540 - T, 0)), 8),  # a backlog that drains slowly
        ("saturated", series(30), 8),  # five times as many people as run, for good
        ("saturated", series(T, finished=T, kv=0.99), 8),  # twice as much comes as leaves
        ("slot-bound", series(0.2 * T, finished=T), 8),  # a fifth more: twice the slots would do
        ("saturated", series(T), 8),  # nobody counts what left, but 600 wait
    ],
)
def test_curves_drawn_by_hand(name, seen, slots):
    verdict = judge(seen, slots=slots)
    assert verdict.name == name
    assert verdict.advice == ADVICE[name]
    assert verdict.because or name == "bursty"


def test_evidence_adds_up():
    verdict = judge(series(np.where(T < 300, 4, 0), np.where(T < 300, 8, 2), kv=0.5), slots=8)
    m = verdict.measures
    assert m["queued"] == pytest.approx(0.5)
    assert m["ratio"] == pytest.approx(2 / 5)
    assert m["slots_full"] == 1.0
    assert m["kv_full"] == 0.0
    assert m["running_mean"] == 8.0


def test_demand_is_what_came_over_what_left():
    # 60 left per minute and the queue grew by 30 per minute: 1.5 times as much came.
    m = judge(series(T / 2, 8, finished=T), slots=8).measures
    assert m["demand"] == pytest.approx(1.5)
    assert m["growth"] == pytest.approx(30)


def test_saturated_says_what_is_full():
    assert judge(series(T, 20, finished=T, kv=0.99), slots=64).binds == "KV"
    assert judge(series(T, 8, finished=T, kv=0.2), slots=8).binds == "slots"


def test_relief_of_a_box_that_gains_nothing():
    # The least overload of a box that gains nothing from more streams is a shortage.
    growing = series(0.2 * T, finished=T)
    assert judge(growing, slots=8, relief=1.0).name == "saturated"
    assert judge(growing, slots=8, relief=2.0).name == "slot-bound"


def test_relief_by_hand():
    # 10 ms a step whatever runs: twice the slots, twice the tokens.
    flat = Profile(10, 0, 0, 0, kv_tokens=100_000)
    assert relief(flat, Shape.of(10, 10), max_num_seqs=8) == pytest.approx(2)
    # 1 ms per stream and nothing to share: more slots bring nothing.
    steep = Profile(0, 1, 0, 0, kv_tokens=100_000)
    assert relief(steep, Shape.of(10, 10), max_num_seqs=8) == pytest.approx(1)
    assert relief_of(Scenario.load("noisy_burst")) == 2


@pytest.mark.skipif(not REAL.is_file(), reason="needs the real run")
def test_the_real_run_is_kv_bound():
    verdict = judge(read_series(REAL), slots=256)
    assert verdict.name == "KV-bound"
    assert verdict.measures["queued"] == pytest.approx(166 / 184, abs=0.01)  # counted in the file
    assert verdict.measures["kv_full"] > 0.95
    assert judge(read_series(REAL)).name == "KV-bound"  # also where nobody says how many slots there are
    result = CliRunner().invoke(app, ["saturation", str(REAL), "--json"], catch_exceptions=False)
    assert json.loads(result.stdout)["verdict"] == "KV-bound"


def test_verdicts_are_right_where_the_trouble_is_known():
    found = cases(loads=(0.25, 0.5, 0.7, 1.1, 2.0, 3.0), crowds=(0.5, 1.5, 5.0))
    counts = confusion(found)
    assert counts.to_numpy().sum() == len(found) == 30
    assert (counts.sum(axis=1) > 0).all(), "every kind of trouble is among them"
    clear = [case for case in found if not case.near]
    right = sum(case.truth == case.verdict for case in clear)
    assert right / len(clear) >= 0.9
    # The expensive mistakes: buying hardware for nothing, or being told that all is well when it is not.
    assert counts.loc[["fine", "bursty"], "saturated"].sum() == 0
    assert counts.loc[["saturated", "KV-bound", "slot-bound"], "fine"].sum() == 0
    assert counts.loc["KV-bound", "slot-bound"] == counts.loc["slot-bound", "KV-bound"] == 0


def counted_by_hand(rows, t):
    """How many of the box's requests run and wait at a moment."""
    running = sum(start <= t < finish for _, _, start, _, finish, _, _ in rows)
    return running, sum(arrival <= t < start for _, arrival, start, *_ in rows)


def test_the_series_of_a_log_is_what_its_rows_say():
    rows = box.served()
    names = ("tenant", "arrival", "start", "first_token", "finish", "prompt_tokens", "output_tokens")
    seen = series_of_served(pd.DataFrame(rows, columns=names))
    for i in range(1, len(seen.t) - 1, 7):
        assert (seen.running[i], seen.waiting[i]) == counted_by_hand(rows, seen.t[i])
        assert seen.finished[i] == sum(row[4] <= seen.t[i] for row in rows)
    verdict = judge(seen)
    assert (verdict.name, verdict.binds) == ("bursty", "slots")
    assert verdict.measures["slots_full"] == 1.0
    assert seen.kv is None, "slots bind: how much KV there is was not seen"


@pytest.mark.skipif(not REAL.is_file(), reason="needs the real run")
def test_a_log_and_the_engines_series_of_one_run_have_one_verdict():
    path = str(REAL.with_name("vllm_rtx4090_llama31_8b_requests.jsonl"))
    verdicts = [
        json.loads(CliRunner().invoke(app, ["saturation", file, "--json"], catch_exceptions=False).stdout)
        for file in (str(REAL), path)
    ]
    series, log = (each["measures"] for each in verdicts)
    assert [each["verdict"] for each in verdicts] == ["KV-bound", "KV-bound"]
    for name in ("queued", "kv_full"):
        assert log[name] == pytest.approx(series[name], abs=0.03)
    # Who was preempted still counts as in service: the log shows a few more.
    assert log["running_mean"] == pytest.approx(series["running_mean"], rel=0.1)


def test_a_log_of_every_kind_is_judged_by_its_times_or_on_a_box_that_is_named(tmp_path):
    def said(*args, code=0):
        result = CliRunner().invoke(app, ["saturation", *map(str, args)], catch_exceptions=False)
        assert result.exit_code == code
        return " ".join((result.stdout + result.stderr).split())

    spend = box.spend_log(tmp_path / "spend.csv")
    assert f"{spend}: bursty" in said(spend)
    assert "counted from the times of" in said(spend)
    gateway = box.ends_only(tmp_path / "gateway.jsonl")
    assert "--slots N or --profile NAME" in said(gateway, code=2)
    on_eight = said(gateway, "--slots", 8)
    assert f"{gateway}: bursty" in on_eight
    assert "assumed, for the log does not tell: 8 slots (as given)" in on_eight
    # The demand is a seventh of 64 slots: nobody waits there but in the nightly job's first seconds.
    assert f"{gateway}: fine" in said(gateway, "--slots", 64)
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"timestamp": 0, "input_length": 9, "output_length": 9}\n' * 3)
    assert "does not say when it was served" in said(asked, code=2)
    assert "profile rtx4090-llama-3.1-8b" in said(asked, "--profile", "rtx4090-llama-3.1-8b")
    assert "--profile is not for a series" in said(series_file(tmp_path), "--profile", "x", code=2)


def series_file(folder):
    path = folder / "series.csv"
    path.write_text("t,running,waiting\n0,1,0\n1,1,0\n")
    return path


def test_series_of_a_run_counts_who_waits_and_runs():
    # Ten requests of one second at once on two slots: 8 wait, then 6, 4, 2, 0.
    workload = Workload([Tenant("a", "a", Dump(0.0, 10), Fixed(1), Fixed(1), service=Fixed(1.0))], 1)
    result = simulate(workload, FIFO(), SlotEngine(2))
    seen = series_of(result, every_s=0.5)
    assert seen.waiting.tolist() == [8, 8, 6, 6, 4, 4, 2, 2, 0, 0, 0]
    assert seen.running.tolist() == [2] * 10 + [0]
    assert seen.finished.tolist() == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10]


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: Series([0], [1], [1]), "two times"),
        (lambda: Series([0, 0], [1, 1], [1, 1]), "later"),
        (lambda: Series([0, 1], [1], [1, 1]), "running"),
        (lambda: Series([0, 1], [1, 1], [1, -1]), "waiting"),
        (lambda: Series([0, 1], [1, 1], [1, 1], kv=[0.5, 50]), "kv"),
        (lambda: judge(series(1), slots=0), "slots"),
        (lambda: judge(series(1), relief=0.5), "relief"),
    ],
)
def test_bad_series_are_refused(build, word):
    with pytest.raises(ValueError, match=word):
        build()


def test_bad_files_are_named_with_their_line(tmp_path):
    path = tmp_path / "seen.csv"
    path.write_text("t,running,waiting\n0,1,2\n1,1,many\n")
    with pytest.raises(InputError, match=r"seen\.csv:3: waiting must be a number, got 'many'"):
        read_series(path)
    path.write_text("t,running\n0,1\n")
    with pytest.raises(InputError, match=r"seen\.csv:1: no column waiting"):
        read_series(path)
    path.write_text("t,running,waiting\n0,1,2\n")
    with pytest.raises(InputError, match="two times"):
        read_series(path)


def test_command_shows_the_table_for_a_scenario():
    said = CliRunner().invoke(app, ["saturation", "noisy_burst", "--policy", "fair"], catch_exceptions=False)
    assert said.exit_code == 0
    assert any(said.stdout.startswith(f"noisy_burst: {name}") for name in VERDICTS)
    assert "waiting per running" in said.stdout
    wrong = CliRunner().invoke(app, ["saturation"], catch_exceptions=False)
    assert wrong.exit_code == 2
