"""Profiles, logs of real runs, and the commands that use them; errors name file, line, field and value."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairq.cli import app
from fairq.files import InputError
from fairq.profiles import dump_profile, load_profile, profile_names
from fairq.scenario import Scenario, ScenarioError
from fairq.sim.batching import Limits, Profile
from fairq.sim.batching.agreement import replay_run
from fairq.workload.trace import TraceError
from fairq.workload.vllm_run import RealRequest, read_run

PROFILE = load_profile("rtx4090-llama31-8b")


def fairq(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


# The table of the house plan: a, b, c, p (ms), KV tokens, and whether anybody measured it.
TABLE = {
    "rtx4090-llama31-8b": (16.875, 0.0420, 1.493e-4, 0.0932, 41408, "measured"),
    "rtxpro6000-llama31-8b": (11.105, 0.0188, 0.929e-4, 0.0405, None, "measured"),
    "h100-llama31-8b": (6.83, 0.0045, 0.762e-4, 0.031, None, "modelled"),
    "a100-80-llama31-8b": (10.48, 0.0045, 1.252e-4, 0.118, None, "modelled"),
    "l40s-llama31-8b": (23.17, 0.0047, 2.954e-4, None, None, "modelled"),
}


@pytest.mark.parametrize("name", TABLE)
def test_shipped_profiles_are_the_published_coefficients(name: str) -> None:
    a, b, c, p, kv, kind = TABLE[name]
    profile = load_profile(name, p_ms=0.05 if p is None else None)
    assert (profile.a_ms, profile.b_ms, profile.c_ms, profile.o_ms) == (a, b, c, 0)
    assert profile.p_ms == (0.05 if p is None else p)
    assert (profile.kv_tokens, profile.kind) == (kv, kind)
    assert profile.source
    assert profile.name == name


def test_every_shipped_profile_is_known_here() -> None:
    assert set(profile_names()) == {*TABLE, "a10g-llama-7b"}


def test_a_profile_survives_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(dump_profile(PROFILE), encoding="utf-8")
    assert load_profile(file) == PROFILE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a_ms: 1\nb_ms: 1\nc_ms: 1\n", "p_ms: is missing"),
        ("a_ms: -1\nb_ms: 1\nc_ms: 1\np_ms: 1\n", "a_ms must be a finite number >= 0, got -1"),
        ("a_ms: 1\nb_ms: 1\nc_ms: 1\np_ms: 1\nz_ms: 2\n", "z_ms: unknown field"),
        ("a_ms: 1\nb_ms: 1\nc_ms: 1\np_ms: 1\nkind: guessed\n", "kind: must be measured, modelled or given"),
        ("- 1\n", "a profile must be a mapping"),
    ],
)
def test_bad_profiles(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_profile(file)
    assert str(file) in str(caught.value)


def test_unknown_and_incomplete_profiles() -> None:
    with pytest.raises(InputError, match=r"no profile 'h200'; shipped are a100-80-llama31-8b, "):
        load_profile("h200")
    with pytest.raises(InputError, match="p_ms: is missing"):
        load_profile("l40s-llama31-8b")


def a_run(folder: Path, profile: Profile = PROFILE, n: int = 60) -> Path:
    """A log as a real engine with that profile would have written it, with meta and series beside it."""
    rng = random.Random(3)
    at, work = 1000.0, []
    for i in range(n):
        at += rng.expovariate(2)
        work.append(RealRequest(f"r{i}", rng.randint(20, 800), rng.randint(2, 200), at, at, at + 1))
    done = replay_run(work, profile, Limits(32, 1024, 20_000)).sequences
    file = folder / "box_requests.jsonl"
    rows = [
        {
            "request_id": r.id,
            "input_toks": r.prompt_tokens,
            "output_toks": r.output_tokens,
            "arrival_time": 1.7e9 + r.arrival,
            "queued_ts": r.arrival,
            "first_token_ts": s.first,
            "last_token_ts": s.finish,
        }
        for r, s in zip(work, done, strict=True)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    meta = {
        "engine_kwargs": {"max_num_seqs": 32, "max_num_batched_tokens": 1024},
        "kv_cache": {"num_kv_tokens": 20_000, "block_size": 16},
    }
    (folder / "box_meta.json").write_text(json.dumps(meta))
    (folder / "box_timeseries.csv").write_text("t,running,waiting,kv_cache_pct\n1.0,3,0,7.5\n2.0,4,0,9.0\n")
    return file


def test_a_run_is_read_with_its_settings_and_series(tmp_path: Path) -> None:
    run = read_run(a_run(tmp_path))
    assert run.settings == {
        "max_num_seqs": 32,
        "max_num_batched_tokens": 1024,
        "kv_tokens": 20_000,
        "block_tokens": 16,
    }
    assert run.series == ((1.0, 3, 0, 7.5), (2.0, 4, 0, 9.0))
    assert run.requests[0].arrival == 0
    assert len(run.requests) == 60
    assert all(0 < r.ttft < r.latency for r in run.requests)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queued_ts": 1.0}, r":3: queued_ts goes back in time: 1.0 after "),
        ({"queued_ts": None}, r":3: queued_ts must be a finite number of seconds, got None"),
        ({"input_toks": 0}, r":3: input_toks must be a whole number >= 1, got 0"),
        ({"output_toks": 2.5}, r":3: output_toks must be a whole number >= 1, got 2.5"),
        ({"first_token_ts": 0.5}, r":3: must be queued_ts <= first_token_ts <= last_token_ts, got "),
        ("{", r":3: not JSON"),
        ("7", r":3: must be an object, got 7"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, change: dict | str, message: str) -> None:
    file = a_run(tmp_path)
    lines = file.read_text().splitlines()
    lines[2] = change if isinstance(change, str) else json.dumps(json.loads(lines[2]) | change)
    file.write_text("\n".join(lines))
    with pytest.raises(TraceError, match=message) as caught:
        read_run(file)
    assert str(caught.value).startswith(str(file))
    out = tmp_path / "table.csv"
    assert "fairq: " in fairq("replay", file, "--out", out, code=2)
    assert not out.exists()


def test_replay_prints_the_table_and_writes_it(tmp_path: Path) -> None:
    """A run made by the model itself is met exactly, whatever the clock started at."""
    file, out = a_run(tmp_path), tmp_path / "deep" / "table.csv"
    text = fairq("replay", file, "--out", out)
    assert "32 seqs, 1024 tokens per step, 20000 KV tokens" in text
    assert "running, each second" in text
    with out.open() as table:
        rows = list(csv.DictReader(table))
    assert [(row["measure"], row["statistic"]) for row in rows] == [
        (measure, statistic)
        for measure in ("TTFT", "TPOT", "e2e")
        for statistic in ("mean", "p50", "p90", "p99")
    ]
    assert all(abs(float(row["error_pct"])) < 0.01 for row in rows)
    slower = fairq("replay", file, "--profile", "a100-80-llama31-8b", "--max-num-seqs", "4")
    assert "4 seqs" in slower
    assert "+0.0" not in slower


def test_replay_without_a_trace_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairq.commands.replay.DEFAULT", "shared/traces/not_there.jsonl")
    text = fairq("replay", code=2)
    assert "give the path of a requests.jsonl" in text
    assert "no file " in fairq("replay", tmp_path / "none.jsonl", code=2)


def test_replay_of_a_request_that_cannot_fit(tmp_path: Path) -> None:
    text = fairq("replay", a_run(tmp_path), "--kv-tokens", "100", code=2)
    assert "is longer than the KV cache (96 tokens)" in text


def test_replay_of_a_small_arena(tmp_path: Path) -> None:
    file = tmp_path / "arena.csv"
    rows = [f"{i / 4},{'heavy' if i % 4 else 'light'},200,100" for i in range(200)]
    file.write_text("arrived_s,tenant,input_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    text = fairq("replay", file)
    assert "VTC, model" in text
    assert "FIFO, model" in text
    assert "real" not in text
    rows[7] = "0.5,heavy,200,100"
    file.write_text("arrived_s,tenant,input_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    assert f"{file}:9: arrived_s goes back in time: 0.5 after 1.5" in fairq("replay", file, code=2)
    file.write_text("arrived_s,tenant\n0,a\n")
    assert "no column 'input_tokens'" in fairq("replay", file, code=2)


def test_calibrate_from_steps_and_back_into_a_profile(tmp_path: Path) -> None:
    table, out = tmp_path / "steps.csv", tmp_path / "fitted.yaml"
    truth = PROFILE.with_(o_ms=2.5)
    rows = [(b, t, kv) for b in (1, 8, 40) for t in (0, 500, 1500) for kv in (1000, 30_000)]
    lines = [f"{b},{t},{kv},{truth.step_ms(b, t, kv)!r}" for b, t, kv in rows]
    table.write_text("B,T,KV,step_ms\n" + "\n".join(lines) + "\n")
    text = fairq("calibrate", table, "--out", out)
    assert "fitted to 18 measurements" in text
    assert "cannot tell" not in text
    fitted = load_profile(out)
    for name in ("a_ms", "b_ms", "c_ms", "p_ms", "o_ms"):
        assert getattr(fitted, name) == pytest.approx(getattr(truth, name))
    assert "steps.csv" in fitted.source

    decodes = [line for line, (_, t, _) in zip(lines, rows, strict=True) if t == 0]
    table.write_text("B,T,KV,step_ms\n" + "\n".join(decodes) + "\n")
    text = fairq("calibrate", table)
    assert "cannot tell a_ms and o_ms apart" in text
    assert "p_ms: nothing here depends on it" in text
    table.write_text("B,T,KV,step_ms\n1,0,5,ten\n")
    assert f"{table}:2: needs four numbers" in fairq("calibrate", table, code=2)
    table.write_text("B,T,KV\n")
    assert "no column 'step_ms'" in fairq("calibrate", table, code=2)


def test_calibrate_from_a_run(tmp_path: Path) -> None:
    file = a_run(tmp_path, PROFILE.with_(o_ms=3.0))
    text = fairq("calibrate", file)
    assert "fitted to 120 measurements" in text
    (line,) = [line for line in text.splitlines() if "o_ms = " in line]
    assert float(line.split("=")[1].split()[0]) == pytest.approx(3.0, abs=0.05)
    assert "--fit takes all or some of a, b, c, p, o, got 'x'" in fairq(
        "calibrate", file, "--fit", "x", code=2
    )
    assert "no file " in fairq("calibrate", tmp_path / "none.jsonl", code=2)


SCENARIO = """
name: a card
seed: 1
horizon_s: 60
engine: {kind: batching, max_num_seqs: 32, gateway_slots: 8}
tenants:
  chat: {arrivals: {kind: poisson, rate_per_s: 1}, prompt_tokens: 400, output_tokens: 100}
policies: {FIFO: {policy: fifo}}
"""


def test_a_scenario_may_have_a_batching_engine(tmp_path: Path) -> None:
    file = tmp_path / "card.yaml"
    file.write_text(SCENARIO)
    engine = Scenario.load(file).engine()
    assert engine.slots == 8
    assert engine.limits.max_num_seqs == 32
    assert engine.profile == PROFILE
    text = SCENARIO.replace(
        "kind: batching,", "kind: batching, profile: {a_ms: 9, b_ms: 0, c_ms: 0, p_ms: 1},"
    )
    file.write_text(text.replace("gateway_slots: 8", "kv_tokens: 999"))
    engine = Scenario.load(file).engine()
    assert (engine.profile.a_ms, engine.limits.kv_tokens, engine.slots) == (9, 999, 32)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("profile: h200", "engine.profile: no profile 'h200'"),
        ("profile: {a_ms: -9, b_ms: 0, c_ms: 0, p_ms: 1}", "engine.profile: .*a_ms must be .*got -9"),
        ("profile: {a: 9}", "engine.profile: must be a profile's coefficients"),
        ("profile: h100-llama31-8b", "give kv_tokens"),
        ("scheduling: lifo", "engine: scheduling must be one of fcfs, priority"),
        ("block_tokens: 0", "engine.block_tokens: must be >= 1, got 0"),
        ("max_seqs: 9", "engine.max_seqs: unknown field"),
    ],
)
def test_bad_batching_engines_in_a_scenario(tmp_path: Path, setting: str, message: str) -> None:
    file = tmp_path / "card.yaml"
    file.write_text(SCENARIO.replace("gateway_slots: 8", setting))
    with pytest.raises(ScenarioError, match=message):
        Scenario.load(file)
