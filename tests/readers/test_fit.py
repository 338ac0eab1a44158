"""A log scaled, clumped, and as a model: by hand and against the process it was drawn from."""

import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fairq.cli import app
from fairq.scenario import Scenario, ScenarioError
from fairq.workload import Empirical, Gamma, Lognormal, Tenant, Workload
from fairq.workload.fit import fit, fitted_tenants
from fairq.workload.readers import read_log
from fairq.workload.trace import Trace


def trace(arrivals: list[float], who: list[str], prompt: list[int] | None = None) -> Trace:
    n = len(arrivals)
    return Trace(
        "log",
        np.array(arrivals, dtype=float),
        np.array(prompt or [1] * n),
        np.arange(1, n + 1),
        who,
    )


# -- scaled ---------------------------------------------------------------------------------------------


def test_larger_clumps_by_hand() -> None:
    log = trace([0, 1, 2, 3, 4, 5], ["a", "b", "a", "a", "b", "a"])
    clumped = log.scaled(burst=2)
    # a came at 0, 2, 3, 5: now two at 0 and two at 3. b came at 1 and 4: now two at 1.
    assert clumped.arrivals.tolist() == [0, 0, 1, 1, 3, 3]
    assert [(r.tenant, r.output_tokens) for r in clumped.requests()] == [
        *[("a", 1), ("a", 3), ("b", 2), ("b", 5), ("a", 4), ("a", 6)]
    ]
    assert log.scaled(2, 2).arrivals.tolist() == [0, 0, 0.5, 0.5, 1.5, 1.5]


@pytest.mark.parametrize("burst", [1.0, 1.5, 2.7, 10.0])
def test_clumps_keep_every_request_and_nobody_comes_later(burst: float) -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    log = trace(np.sort(rng.random(200) * 100).tolist(), [f"t{i}" for i in rng.integers(0, 4, 200)])
    clumped = log.scaled(burst=burst)
    assert sorted(clumped.output_tokens.tolist()) == sorted(log.output_tokens.tolist())
    assert (np.diff(clumped.arrivals) >= 0).all()
    was = {int(o): a for o, a in zip(log.output_tokens, log.arrivals, strict=True)}
    assert all(a <= was[int(o)] for o, a in zip(clumped.output_tokens, clumped.arrivals, strict=True))
    mine = clumped.arrivals[np.array(clumped.tenants) == "t0"]
    assert len(mine) / len(set(mine)) == pytest.approx(burst, rel=0.25)


def test_a_scenario_scales_its_log(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arrived_s,tenant,input_tokens,output_tokens\n0,a,1,1\n2,a,1,1\n4,a,1,1\n6,a,1,1\n")
    scenario = Scenario.from_log(path).with_(load=2, burst=2)
    assert [r.arrival for r in scenario.workload().requests(0)] == [0, 0, 2, 2]
    with pytest.raises(ScenarioError, match=r"log.burst: must be >= 1, got 0.5"):
        Scenario.from_log(path).with_(burst=0.5)


# -- as a model -----------------------------------------------------------------------------------------


def test_a_model_finds_the_process_a_log_was_drawn_from() -> None:
    tenants = [
        Tenant("steady", "steady", Gamma(2.0, 1.0), Lognormal(100, 0.5), 50),
        Tenant("bursty", "bursty", Gamma(0.5, 3.0), 300, Lognormal(80, 0.9)),
    ]
    requests = Workload(tenants, 20_000).requests(seed=3)
    log = Trace(
        "log",
        np.array([r.arrival for r in requests]),
        np.array([r.prompt_tokens for r in requests]),
        np.array([r.output_tokens for r in requests]),
        [r.tenant for r in requests],
    )
    found = fit(log)
    # 40,000 and 10,000 gaps: the standard error of a rate is rate·cv/√n, below 1 % and 3 %.
    assert found["steady"].rate_per_s == pytest.approx(2.0, rel=0.02)
    assert found["steady"].cv == pytest.approx(1.0, rel=0.03)
    assert found["bursty"].rate_per_s == pytest.approx(0.5, rel=0.08)
    assert found["bursty"].cv == pytest.approx(3.0, rel=0.12)
    data, horizon_s = fitted_tenants(log, sizes="lognormal")
    assert horizon_s == pytest.approx(20_000, rel=0.01)
    assert data["steady"]["prompt_tokens"]["median"] == pytest.approx(100, rel=0.02)
    assert data["steady"]["prompt_tokens"]["sigma"] == pytest.approx(0.5, rel=0.02)
    assert data["steady"]["output_tokens"] == 50


def test_a_job_that_comes_all_at_once_is_not_steady() -> None:
    # 100 at 500.0, 500.1 … of 1,000 s, and one tenant who is there all the time.
    came = [(500 + 0.1 * n, "job") for n in range(100)] + [(10.0 * n + 0.05, "all") for n in range(101)]
    found = fit(trace([at for at, _ in sorted(came)], [who for _, who in sorted(came)]))
    gaps = np.array([0.1] * 99 + [1000 * 202 / 201 - 9.9])
    assert found["job"].cv == pytest.approx(gaps.std() / gaps.mean(), rel=0.02)
    assert found["job"].cv ** 2 == pytest.approx(100, rel=0.05), "a clump of about as many as came"
    assert found["all"].cv < 0.2


def test_the_sizes_kept_have_the_logs_mean() -> None:
    rng = np.random.Generator(np.random.PCG64(2))
    prompt = np.rint(rng.lognormal(5, 1, 997)).astype(int)
    log = trace(list(range(997)), ["a"] * 997, prompt.tolist())
    data, _ = fitted_tenants(log)
    values, chances = (data["a"]["prompt_tokens"][name] for name in ("values", "chances"))
    assert len(values) == len(chances) == 50
    assert sum(chances) == pytest.approx(1, abs=1e-4)
    assert np.average(values, weights=chances) == pytest.approx(prompt.mean(), rel=1e-3)
    assert values == sorted(values)
    median, sigma = (
        fitted_tenants(log, sizes="lognormal")[0]["a"]["prompt_tokens"][k] for k in ("median", "sigma")
    )
    assert median * math.exp(sigma**2 / 2) == pytest.approx(prompt.mean(), rel=1e-4)
    assert math.sqrt(math.exp(sigma**2) - 1) == pytest.approx(prompt.std() / prompt.mean(), rel=1e-4)


@pytest.mark.parametrize("n", [51, 997, 40_000])
def test_the_sizes_kept_have_the_logs_tail(n: int) -> None:
    rng = np.random.Generator(np.random.PCG64(5))
    prompt = np.rint(rng.lognormal(5, 1.2, n)).astype(int)
    data, _ = fitted_tenants(trace(list(range(n)), ["a"] * n, prompt.tolist()))
    sizes = data["a"]["prompt_tokens"]
    assert sizes["values"][-1] == prompt.max()
    assert sizes["chances"][-1] == pytest.approx(1 / n, rel=1e-5)
    drawn = Empirical(sizes["values"], sizes["chances"]).sample(rng, 400_000)
    for q, within in ((50, 4), (95, 1), (99, 0.4)):
        # No nearer than to the next value of the log.
        low, high = np.percentile(prompt, [q - max(within, 100 / n), min(q + max(within, 100 / n), 100)])
        assert low <= np.percentile(drawn, q) <= high


def test_twice_the_users_are_twice_the_demand(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "".join(f"{i * 0.5},{'ab'[i % 2]},10,{i % 9 + 1}\n" for i in range(4000))
    path.write_text("arrived_s,tenant,input_tokens,output_tokens\n" + rows)
    one, two = (Scenario.from_log(path).fitted(users) for users in (1, 2))
    assert set(one.workload().weights) == {"a", "b"}
    assert set(two.workload().weights) == {"a-1", "a-2", "b-1", "b-2"}
    assert two.workload().group_of["a-2"] == "a"
    counts = [len(s.workload().requests(0)) for s in (one, two)]
    # Evenly spaced gaps: almost no variation.
    assert counts[0] == pytest.approx(4000, rel=0.01)
    assert counts[1] == pytest.approx(8000, rel=0.01)
    with pytest.raises(ValueError, match="users must be a whole number >= 1, got 0"):
        Scenario.from_log(path).fitted(0)


def test_what_a_model_cannot_be_fitted_to() -> None:
    with pytest.raises(ScenarioError, match="log: there is none to fit a model to"):
        Scenario.load("noisy_burst").fitted()


# -- the commands ---------------------------------------------------------------------------------------


def call(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["log", *map(str, arguments)], terminal_width=200)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text(
        '{"ts": 100, "user": "ann", "key": "sk-1", "prompt_tokens": 5, "completion_tokens": 2, "end": 103}\n'
        '{"ts": 101, "user": "bob", "key": "sk-2", "prompt_tokens": 6, "completion_tokens": 3, "end": 105}\n'
        '{"ts": 102, "user": "bob", "key": "sk-2", "prompt_tokens": "x", "completion_tokens": 3}\n'
    )
    return path


def test_a_log_converted_reads_back_to_the_same_requests(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "plain.csv"
    assert "log.jsonl:3: prompt_tokens must be" in call("convert", log, "--out", out, code=2)
    call("convert", log, "--out", out, "--skip-bad")
    one, two = read_log(log, skip_bad=True), read_log(out)
    assert [(r.tenant, r.key, r.arrival, r.cost) for r in one.trace.requests()] == [
        (r.tenant, r.key, r.arrival, r.cost) for r in two.trace.requests()
    ]
    assert two.served is not None
    assert two.served["finish"].tolist() == [3.0, 5.0]


def test_a_log_to_share_names_nobody(log: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    for out in (first, second):
        call("convert", log, "--out", out, "--skip-bad", "--hash-keys")
    text = first.read_text()
    assert not any(name in text for name in ("ann", "bob", "sk-", "100"))
    assert text != second.read_text(), "the secret is thrown away"
    assert len(set(read_log(first).trace.tenants)) == 2


@pytest.mark.parametrize("command", ["run", "tune"])
def test_what_is_written_of_hashed_names_does_not_tell_under_what(
    command: str, log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    hashed = ["--skip-bad", "--hash-keys", "--secret", "open sesame"]
    quick = {"run": [], "tune": ["--target", "each p99 ttft < 60 s", "--try", "as written", "--jobs", "1"]}
    done = CliRunner().invoke(app, [command, str(log), "--out", str(out), *hashed, *quick[command]])
    assert done.exit_code == 0, done.output
    written = {path.name: path.read_bytes() for path in out.iterdir()}
    for name, content in written.items():
        assert b"open sesame" not in content, name
        assert b"sk-" not in content, name
    again = Scenario.load(out / "scenario.yaml")
    assert set(again.workload().weights) == {"ann", "bob"}, "who has the log has the names"
    same = again.with_({"log.hash_keys": "open sesame"})
    assert set(same.workload().weights) == set(
        read_log(log, skip_bad=True, hash_keys="open sesame").trace.tenants
    )


def test_a_secret_needs_what_it_is_for(log: Path, tmp_path: Path) -> None:
    for words in (["log", "convert", str(log), "--out", str(tmp_path / "x.csv")], ["run", str(log)]):
        done = CliRunner().invoke(app, [*words, "--skip-bad", "--secret", "s"])
        assert done.exit_code == 2
        assert "--secret needs --hash-keys" in done.stderr


def test_showing_a_log(log: Path) -> None:
    text = call("show", log, "--skip-bad")
    assert "3 rows: 2 read, 0 dropped, 1 skipped" in text
    assert "openai-style gateway log" in call("forms")


def test_fitting_writes_a_scenario_that_runs(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.yaml"
    call("fit", log, "--out", out, "--skip-bad", "--users", "3")
    scenario = Scenario.load(out)
    assert [spec.count for spec in scenario.tenants.values()] == [3, 3]


def test_columns_that_say_when_it_was_served_can_be_named(tmp_path: Path) -> None:
    path, out = tmp_path / "own.csv", tmp_path / "plain.csv"
    path.write_text("in,who,p,o,began,first,done\n10,a,5,3,11,12,15\n20,b,5,3,20,21,24\n")
    named = ("--arrival", "in", "--prompt-tokens", "p", "--output-tokens", "o", "--tenant", "who")
    call(
        "convert",
        path,
        "--out",
        out,
        *named,
        "--start",
        "began",
        "--first-token",
        "first",
        "--finish",
        "done",
    )
    served = read_log(out).served
    assert served is not None
    assert served["start"].tolist() == [1.0, 10.0]
    assert served["first_token"].tolist() == [2.0, 11.0]
    assert served["finish"].tolist() == [5.0, 14.0]
