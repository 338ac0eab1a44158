"""The command line: figures that are known, files that load back, and one clear line for bad input."""

import csv
import hashlib
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fairq.cli import app
from fairq.commands import _catalog as catalog
from fairq.data import data_path
from fairq.lab import Lab
from fairq.scenario import Scenario, ScenarioError

SHARED = Path(__file__).parents[1].parent / "shared" / "traces"
LOG = str(data_path("logs/synthetic_27_tenants.csv"))


def fairq(*arguments: str | Path, code: int = 0) -> str:
    """What the command prints; stderr when it is meant to fail."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], terminal_width=200)
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def one_line(*arguments: str | Path) -> str:
    """The message of a command that is given bad input."""
    message = fairq(*arguments, code=2)
    assert message.startswith("fairq: ")
    assert message.count("\n") == 1
    return message


# -- fairq run ------------------------------------------------------------------------------------------


def test_the_published_burst_has_its_published_figures() -> None:
    document = json.loads(fairq("run", "published_burst", "--by", "group", "--json"))
    fifo, drr = (document["policies"][name] for name in ("fifo", "drr"))
    assert fifo["group"]["small"]["latency_p50"] == pytest.approx(31.9, abs=1e-9)
    assert fifo["group"]["small"]["latency_p99"] == pytest.approx(32.65, abs=1e-9)
    assert fifo["group"]["noisy"]["latency_p50"] == pytest.approx(15.75, abs=1e-9)
    assert drr["group"]["small"]["latency_p50"] == pytest.approx(1.15, abs=1e-9)
    assert drr["group"]["small"]["latency_p99"] == pytest.approx(1.79, abs=1e-9)
    assert drr["group"]["small"]["latency_max"] == pytest.approx(1.9, abs=1e-9)
    assert drr["group"]["noisy"]["latency_p50"] == pytest.approx(17.25, abs=1e-9)
    for policy in (fifo, drr):
        assert policy["requests_per_s"] == pytest.approx(4180 / 131, rel=1e-12)
        assert policy["makespan"] == pytest.approx(32.75, abs=1e-9)


def test_the_everyday_burst_shows_why_fifo_went_bad() -> None:
    document = json.loads(fairq("run", "noisy_burst", "--by", "group", "--json", "--replications", "4"))
    p99 = {name: policy["group"]["chat"]["latency_p99"] for name, policy in document["policies"].items()}
    assert p99["FIFO"] > 5 * p99["capped"]  # caps help,
    assert p99["capped"] > 2 * p99["fair"]  # until somebody brings twelve keys
    assert p99["aged"] > 2 * p99["fair"]  # or asks at everybody's priority
    busy = {name: policy["utilisation"] for name, policy in document["policies"].items()}
    assert busy["capped"] < 0.7 * busy["fair"]  # and caps leave slots idle


def test_the_table_is_for_people() -> None:
    text = fairq("run", "noisy_burst", "--by", "group", "--replications", "3", "--policy", "fair")
    assert "FIFO" not in text
    assert "fair: " in text
    assert "latency p99" in text
    assert " ±" in text
    assert "mean of 3 runs" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith("│")] == [
        "chat", "code", "notebook", "agent", "nightly"
    ]  # fmt: skip


def test_one_random_run_of_few_requests_says_too_few() -> None:
    text = fairq("run", "noisy_burst", "--replications", "1", "--policy", "fair")
    assert "too few" in text
    assert "below 368 finished requests" in text


def test_many_tenants_show_the_largest(tmp_path: Path) -> None:
    text = fairq("run", LOG, "--policy", "fair")
    assert "and 15 more with fewer tokens" in text
    rows = [line for line in text.splitlines() if line.startswith("│")]
    assert len(rows) == 12
    assert "tenant-1 " in rows[0]
    everyone = [
        line for line in fairq("run", LOG, "--policy", "fair", "--all").splitlines() if line.startswith("│")
    ]
    assert len(everyone) == 27


def test_out_writes_rows_table_charts_and_the_scenario(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    run = ("run", "noisy_burst", "--replications", "2", "--seed", "5", "--set", "engine.slots=6", "--out")
    printed = fairq(*run, out, "--format", "png")
    names = {path.name for path in out.iterdir()}
    assert {"table.csv", "requests.csv", "scenario.yaml", "latency.png"} <= names
    assert all(str(out / name) in printed.replace("\n", "") for name in names)
    assert (out / "latency.png").read_bytes().startswith(b"\x89PNG")
    scenario = Scenario.load(out / "scenario.yaml")
    assert scenario == Scenario.load("noisy_burst").with_({"engine.slots": 6}, seed=5)
    requests = list(csv.DictReader((out / "requests.csv").open()))
    assert {(row["policy"], row["replication"]) for row in requests} == {
        (name, r) for name in scenario.policies for r in "01"
    }
    table = list(csv.DictReader((out / "table.csv").open()))
    (row,) = (row for row in table if (row["policy"], row["tenant"]) == ("fair", "chat-1"))
    runs = [
        [float(r["latency"]) for r in requests if (r["policy"], r["tenant"], r["replication"]) == mine]
        for mine in (("fair", "chat-1", "0"), ("fair", "chat-1", "1"))
    ]
    assert int(row["n"]) == len(runs[0]) + len(runs[1])
    assert float(row["latency_p99"]) == pytest.approx(np.mean([np.percentile(run, 99) for run in runs]))


def test_the_same_bytes_twice(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        fairq("run", "published_burst", "--policy", "drr", "--out", tmp_path / folder, "--format", "svg")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_the_same_requests_meet_every_policy(tmp_path: Path) -> None:
    fairq("run", "noisy_burst", "--replications", "1", "--out", tmp_path, "--format", "png", "--set",
          "tenants.notebook.arrivals={kind: poisson, rate_per_s: 0.1}")  # fmt: skip
    seen: dict[str, list[tuple[str, ...]]] = {}
    for row in csv.DictReader((tmp_path / "requests.csv").open()):
        kept = tuple(
            row[name] for name in ("id", "tenant", "key", "arrival", "prompt_tokens", "output_tokens")
        )
        seen.setdefault(row["policy"], []).append(kept)
    assert len(seen) == 4
    assert all(rows == seen["FIFO"] for rows in seen.values())


def test_a_policy_file_joins_in(tmp_path: Path) -> None:
    path = tmp_path / "tight.yaml"
    path.write_text("policy: drr\nquantum: 50\n")
    document = json.loads(
        fairq("run", LOG, "--policy-file", path, "--policy", "tight", "--policy", "FIFO", "--json")
    )
    assert list(document["policies"]) == ["tight", "FIFO"]


def test_a_log_with_column_options(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("when,in,out,who,level\n1700000000000,100,40,a,0\n1700000000500,8000,80,b,1\n")
    options = ("--arrival", "when", "--prompt-tokens", "in", "--output-tokens", "out", "--time-unit", "ms")
    document = json.loads(
        fairq("run", path, *options, "--tenant", "who", "--priority", "level", "--json", "--policy", "FIFO")
    )
    rows = document["policies"]["FIFO"]["tenant"]
    # The slot engine without overhead: prompt/8000 + output/40.
    assert rows["a"]["latency_p50"] == pytest.approx(100 / 8000 + 40 / 40)
    assert rows["b"]["latency_p50"] == pytest.approx(8000 / 8000 + 80 / 40)
    drawn = json.loads(fairq("run", path, *options, "--tenants", "1", "--json", "--policy", "FIFO"))
    assert list(drawn["policies"]["FIFO"]["tenant"]) == ["tenant-1"]


@pytest.mark.parametrize("name", ["azure_llm_2023_code.csv", "vtc_arena_27_tenants.csv"])
def test_the_real_traces_run_as_they_are(name: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip(f"no local copy of {name}")
    document = json.loads(fairq("run", SHARED / name, "--policy", "fair", "--json"))
    tenants = document["policies"]["fair"]["tenant"]
    assert sum(row["n"] for row in tenants.values()) == {"azure": 8819, "vtc_a": 1500}[name[:5]]


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arrived_s,tenant,input_tokens,output_tokens\n0,[bold]x[/],1,1\n")
    assert "│ [bold]x[/] │" in fairq("run", path, "--policy", "FIFO")


def test_load_and_burst_are_felt() -> None:
    def wait(*options: str) -> float:
        run = ("run", "noisy_burst", "--policy", "FIFO", "--by", "group", "--replications", "2", "--json")
        return float(json.loads(fairq(*run, *options))["policies"]["FIFO"]["group"]["chat"]["wait_p50"])

    assert wait("--burst", "0.2") < 0.5 * wait() < wait("--load", "2")


def test_a_fetched_trace_and_a_shipped_log_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run = ("--policy", "FIFO", "--json")
    by_name, by_path = (json.loads(fairq("run", name, *run)) for name in ("synthetic_27_tenants", LOG))
    assert by_name == by_path
    message = one_line("run", "azure-code-2023", *run)
    assert (
        message == "fairq: azure-code-2023: is not here yet; `fairq traces get azure-code-2023` fetches it\n"
    )
    local = SHARED / "azure_llm_2023_code.csv"
    if local.exists():
        fairq("traces", "get", "azure-code-2023", "--from", local)
        assert (
            json.loads(fairq("run", "azure-code-2023", *run))["policies"]["FIFO"]["tenant"]["all"]["n"]
            == 8819
        )


BAD = """\
name: bad
horizon_s: 10
tenants:
  a:
    arrivals: {kind: poisson, rate_per_s: -1}
    prompt_tokens: 1
    output_tokens: 1
policies: {FIFO: {policy: fifo}}
"""


def test_a_bad_scenario_is_one_line_with_file_field_and_value(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    assert one_line("run", path) == f"fairq: {path}: tenants.a.arrivals.rate_per_s: must be > 0, got -1\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "nope: no such file, nor a shipped scenario ("),
        (["nope.csv"], "nope.csv: cannot be read: No such file or directory"),
        (["log.jsonl"], "log.jsonl: cannot be read: No such file or directory"),
        (["noisy_burst", "--policy", "lifo"], "--policy must be one of FIFO, capped, aged, fair, got 'lifo'"),
        (["noisy_burst", "--by", "key"], "--by must be tenant or group, got 'key'"),
        (["noisy_burst", "--format", "gif"], "--format must be one of png, svg, pdf, got 'gif'"),
        (["noisy_burst", "--load", "0"], "load: must be > 0, got 0"),
        (["noisy_burst", "--burst", "inf"], "burst: must be finite, got inf"),
        (["noisy_burst", "--load", "nan"], "load: must be > 0, got nan"),
        (["published_burst", "--load", "inf"], "load: must be finite, got inf"),
        (["noisy_burst", "--seed", "-1"], "seed: must be >= 0, got -1"),
        (["noisy_burst", "--set", "engine.slots"], "--set must be PATH=VALUE, got 'engine.slots'"),
        (["noisy_burst", "--set", "engine.slots=0"], "engine.slots: must be >= 1, got 0"),
        (["noisy_burst", "--set", "engine.slots=[1"], "--set engine.slots:1: bad YAML"),
        (["noisy_burst", "--tenant", "who"], "noisy_burst: --tenant is for logs"),
        (
            ["noisy_burst", "--policy-file", "nope.yaml"],
            "nope.yaml: cannot be read: No such file or directory",
        ),
        (
            [LOG, "--replications", "2"],
            "--replications must be 1 where nothing is random (such as a log), got 2",
        ),
        ([LOG, "--arrival", "when"], "synthetic_27_tenants.csv:1: no column 'when'"),
        (
            [LOG, "--set", "engine.decode_tokens_per_s=x"],
            "engine.decode_tokens_per_s: must be a number > 0, got 'x'",
        ),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str) -> None:
    assert message in one_line("run", *arguments)


def test_work_that_the_engine_can_never_serve_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "for_ever.yaml"
    path.write_text(
        "name: x\nhorizon_s: 10\npolicies: {FIFO: {policy: fifo}}\ntenants:\n  a:\n"
        "    arrivals: {kind: closed_loop, workers: 1, think_s: 0}\n"
        "    prompt_tokens: 1\n    output_tokens: 1\n    service_s: 0\n"
    )
    assert f"{path}: FIFO: worker 0 would ask for ever" in one_line("run", path)


def test_an_out_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    out = tmp_path / "file" / "out"
    assert f"--out {out}: cannot be written" in one_line(
        "run", "published_burst", "--policy", "drr", "--out", out
    )


# -- as a process ---------------------------------------------------------------------------------------


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fairq.cli", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_bad_input_leaves_with_2_and_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    done = process("run", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"fairq: {path}: tenants.a.arrivals.rate_per_s: must be > 0, got -1\n"


def test_a_progress_bar_where_somebody_watches() -> None:
    watched = process("run", "published_burst", "--policy", "drr", FORCE_COLOR="1")
    assert "drr, run 1 of 1" in watched.stderr
    alone = process("run", "published_burst", "--policy", "drr")
    assert (alone.returncode, alone.stderr) == (0, "")


def test_help_does_not_load_the_model() -> None:
    ask = "import sys, fairq.cli; print({'numpy', 'pandas', 'simpy', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# -- fairq traces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "licence", "repo", "commit", "path"),
    [
        (
            "azure-conv-2023",
            "CC-BY-4.0",
            "Azure/AzurePublicDataset",
            "b469a113cedca53ddc3bdea71a143dc4b7d8700c",
            "data/AzureLLMInferenceTrace_conv.csv",
        ),
        (
            "azure-code-2023",
            "CC-BY-4.0",
            "Azure/AzurePublicDataset",
            "b469a113cedca53ddc3bdea71a143dc4b7d8700c",
            "data/AzureLLMInferenceTrace_code.csv",
        ),
        (
            "mooncake-conversation",
            "Apache-2.0",
            "kvcache-ai/Mooncake",
            "3b5a594133958449a1feaf1c9e0fc1b553e34a28",
            "FAST25-release/traces/conversation_trace.jsonl",
        ),
        (
            "vtc-arena",
            "Apache-2.0",
            "Ying1123/VTC-artifact",
            "192c2e2014c69c8c6c699d7113c3822e4db632e6",
            "fair_bench/VTC/all_results_real.jsonl",
        ),
        (
            "vllm-rtx4090",
            "MIT",
            "casys-kaist/LLMServingSim",
            "5daddb21a545658d5150b535712d0494584b5278",
            "bench/examples/RTX4090/Llama-3.1-8B/vllm/requests.jsonl",
        ),
    ],
)
def test_the_public_traces_are_listed(name: str, licence: str, repo: str, commit: str, path: str) -> None:
    lines = fairq("traces", "list").splitlines()
    address = f"https://raw.githubusercontent.com/{repo}/{commit}/{path}"
    assert lines[lines.index(name) + 2] == f"  licence {licence}, {address}"
    assert lines[lines.index(name) + 3] == f"  sha256 {catalog.PUBLIC[name].sha256}"


def test_there_are_five_public_traces_and_their_checksums() -> None:
    assert {name: trace.sha256[:8] for name, trace in catalog.PUBLIC.items()} == {
        "azure-conv-2023": "2f1e5b66",
        "azure-code-2023": "54e9a6d2",
        "mooncake-conversation": "b8cbb061",
        "vtc-arena": "9a3903fc",
        "vllm-rtx4090": "5a6f2a0b",
    }


def test_a_local_copy_with_the_right_checksum_is_taken(tmp_path: Path) -> None:
    local = SHARED / "azure_llm_2023_code.csv"
    if not local.exists():
        pytest.skip("no local copy")
    printed = fairq("traces", "get", "azure-code-2023", "--from", local, "--to", tmp_path / "kept")
    kept = tmp_path / "kept" / "azure-code-2023.csv"
    assert printed == f"{kept}\n"
    assert kept.read_bytes() == local.read_bytes()


def test_a_wrong_checksum_leaves_nothing_behind(tmp_path: Path) -> None:
    local = tmp_path / "wrong.csv"
    local.write_bytes(b"not it")
    message = one_line("traces", "get", "azure-code-2023", "--from", local, "--to", tmp_path / "kept")
    wanted = "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6"
    found = hashlib.sha256(b"not it").hexdigest()
    assert (
        f"wrong checksum for azure-code-2023, nothing was kept: sha256 must be {wanted}, got {found}"
        in message
    )
    assert not (tmp_path / "kept").exists()


def test_a_log_that_is_not_the_published_copy_is_read_by_the_command_that_is_named(tmp_path: Path) -> None:
    local = tmp_path / "vtc_arena_27_tenants.csv"
    local.write_text("arrived_s,tenant,input_tokens,output_tokens\n0,a,5,5\n1,b,5,5\n")
    message = one_line("traces", "get", "vtc-arena", "--from", local, "--to", tmp_path / "kept")
    hint = f"; to replay it as it is: `fairq run {local}`\n"
    assert message.endswith(hint)
    assert "FIFO" in fairq(*hint.partition("`fairq ")[2].rstrip("`\n").split())
    other = tmp_path / "copy.zip"
    other.write_bytes(b"not it")
    assert "fairq run" not in one_line("traces", "get", "vtc-arena", "--from", other)


def test_unknown_names_and_missing_copies_are_one_line(tmp_path: Path) -> None:
    assert "no public trace 'nope'; there are: azure-conv-2023, " in one_line("traces", "get", "nope")
    message = one_line("traces", "get", "vtc-arena", "--from", tmp_path / "nope.jsonl")
    assert "nope.jsonl: cannot be read: No such file or directory" in message


class Site:
    """A web server on loopback in place of the public one."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                content = answers.get(self.path)
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Any:
    sites: list[Site] = []

    def serve(answers: dict[str, bytes], sha256: str) -> Site:
        sites.append(Site(answers))
        address = sites[-1].address
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setattr(catalog.Public, "address", property(lambda self: f"{address}/{self.path}"))
        trace = catalog.Public(
            "small", "owner/repo", "0" * 40, "data/small.csv", sha256, "MIT", "a small one"
        )
        monkeypatch.setattr(catalog, "PUBLIC", {"small": trace})
        return sites[-1]

    yield serve
    for each in sites:
        each.server.shutdown()
        each.server.server_close()


def test_a_download_is_checked_kept_and_not_made_twice(tmp_path: Path, site: Any) -> None:
    content = b"t,p,o\n0,1,1\n"
    server = site({"/data/small.csv": content}, hashlib.sha256(content).hexdigest())
    for _ in range(2):
        assert fairq("traces", "get", "small", "--to", tmp_path) == f"{tmp_path / 'small.csv'}\n"
    assert (tmp_path / "small.csv").read_bytes() == content
    assert server.asked == ["/data/small.csv"]


def test_a_download_with_a_wrong_checksum_leaves_nothing_behind(tmp_path: Path, site: Any) -> None:
    site({"/data/small.csv": b"tampered"}, "0" * 64)
    message = one_line("traces", "get", "small", "--to", tmp_path)
    assert "/data/small.csv: wrong checksum for small, nothing was kept" in message
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_fails_is_one_line_and_code_1(tmp_path: Path, site: Any) -> None:
    site({}, "0" * 64)
    message = fairq("traces", "get", "small", "--to", tmp_path, code=1)
    assert message.count("\n") == 1
    assert "could not be downloaded (404 " in message
    assert list(tmp_path.iterdir()) == []


def test_the_synthetic_log_is_made_again(tmp_path: Path) -> None:
    printed = fairq("traces", "synthetic", "--to", tmp_path)
    assert printed == f"{tmp_path / 'synthetic_27_tenants.csv'}\n"
    assert (tmp_path / "synthetic_27_tenants.csv").read_bytes() == Path(LOG).read_bytes()


def test_a_log_with_a_tenant_called_others_is_drawn(tmp_path: Path) -> None:
    names = ["others", *(f"team-{i:02}" for i in range(30))]
    log = tmp_path / "log.csv"
    lines = [f"{i},{name},{1000 - i},5" for i, name in enumerate([*names, *names])]
    log.write_text("\n".join(["arrival,tenant,prompt_tokens,output_tokens", *lines]) + "\n")
    fairq("run", log, "--policy", "fair", "--out", tmp_path / "d", "--format", "svg")
    assert (tmp_path / "d" / "latency.svg").exists()
    # The one that is named, and the rest under a name that nobody has.
    table = Lab(str(log)).table
    rows = table[table["policy"] == "FIFO"].set_index("tenant")["n"]
    assert rows["others"] == 2
    assert rows["all others"] == 62 - 2 * 7


def test_the_counts_of_the_table_are_per_run_like_its_tokens() -> None:
    arguments = ("run", "noisy_burst", "--by", "group", "--policy", "fair")
    document = json.loads(fairq(*arguments, "--replications", "3", "--json"))["policies"]["fair"]["group"]
    text = fairq(*arguments, "--replications", "3")
    assert "counts, tokens and times per run" in text
    cells = [line.replace("│", " ").split() for line in text.splitlines() if line.startswith("│")]
    for group, n, *_ in cells:
        assert float(n.replace(",", "")) == pytest.approx(document[group]["n"] / 3, abs=0.051)


def test_a_name_with_a_control_character_is_refused_where_it_stands(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arrival,tenant,prompt_tokens,output_tokens\n0,a,1,1\n1,b\x01c,1,1\n")
    said = one_line("run", log)
    assert f"{log}:3: tenant must be a name without control characters, got 'b\\x01c'" in said
    scenario = Scenario.load("noisy_burst").data()
    scenario["tenants"]["b\x01c"] = scenario["tenants"].pop("chat")
    with pytest.raises(ScenarioError, match="must be a name without control characters"):
        Scenario.from_data(scenario, "here", tmp_path)


def test_a_folder_that_cannot_be_written_is_noticed_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")

    def never(*_: Any) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr("fairq.commands.run.simulate_all", never)
    assert "cannot be written" in one_line("run", "noisy_burst", "--out", tmp_path / "file" / "d")


def test_the_header_of_a_log_is_read_as_people_write_it(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arrival, tenant , prompt_tokens,tokens_out_\n0,a,1,1\n")
    assert "output_tokens: which column? It has: arrival, tenant, prompt_tokens" in one_line("run", log)
    log.write_text("arrival, tenant , prompt_tokens, output_tokens\n0,a,1,1\n")
    assert Scenario.from_log(log).workload().group_of == {"a": "a"}


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("run", "noisy_brst"), "noisy_burst"),
        (("run", "Noisy_burst.yml"), "noisy_burst"),
        (("run", "sinthetic_27_tenants"), "synthetic_27_tenants"),
        (("log", "show", "azure-conv-203"), "azure-conv-2023"),
        (("traces", "get", "azure-conv-203"), "azure-conv-2023"),
        (("run", "noisy_burst", "--policy", "FAIRR"), "fair"),
        (("serve-metrics", "noisy_burst", "--policy", "fairr"), "fair"),
        (("tune", "noisy_burst", "--target", "chat p99 ttft < 2 s", "--today", "fairr"), "fair"),
        (("tune", "noisy_burst", "--target", "chat p99 ttft < 2 s", "--try", "cap"), "caps"),
        (("run", LOG, "--form", "azure 2024"), "azure 2023/2024"),
        (("notebooks", "reset", "03_how_many_at_onc"), "03_how_many_at_once"),
        (("figures", "hockey_stik"), "hockey_stick"),
        (("capacity", "--profile", "rtx4090-llama31"), "rtx4090-llama31-8b"),
        (("memory", "llama31"), "llama31-8b"),
        (("prove", "--part", "fiar"), "fair"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(arguments: tuple[str | Path, ...], meant: str) -> None:
    assert one_line(*arguments).rstrip().endswith(f"; did you mean '{meant}'?")


def test_no_name_is_guessed_where_none_is_near() -> None:
    assert "did you mean" not in one_line("run", "xyz")


def test_a_policy_that_is_not_there_is_named_once() -> None:
    said = one_line("saturation", "noisy_burst", "--policy", "x").rstrip()
    assert said == "fairq: noisy_burst: policies: no policy 'x'; there are: FIFO, capped, aged, fair"


@pytest.mark.parametrize(("left", "code"), [(SystemExit(3), 3), (BrokenPipeError(), 0)])
def test_only_a_reader_who_left_makes_an_exit_a_good_one(left, code, tmp_path):
    script = tmp_path / "leave.py"
    script.write_text(
        "import typer\n"
        "from fairq.cli import _OneLine\n"
        "app = typer.Typer(cls=_OneLine)\n"
        "@app.callback()\ndef every(): pass\n"
        f"@app.command()\ndef leave(): raise {left!r}\n"
        "app()\n"
    )
    assert subprocess.run([sys.executable, str(script), "leave"], check=False).returncode == code
