"""A log's columns on the command line: the same options everywhere, and a word on what nobody named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fairq.cli import app
from fairq.scenario import Scenario
from fairq.workload.readers import read_log

OPTIONS = {
    *("--arrival", "--prompt-tokens", "--output-tokens", "--tenant", "--tenants", "--zipf", "--key"),
    *("--priority", "--start", "--first-token", "--finish", "--time-unit", "--form", "--skip-bad"),
    *("--hash-keys", "--secret"),
}
COMMANDS = {
    "run": (),
    "tune": ("--target", "each p99 ttft < 60 s", "--try", "as written", "--jobs", "1", "--out", "tuned"),
    "log show": (),
    "log convert": ("--out", "made.csv"),
    "log fit": ("--out", "made.yaml"),
    "capacity": ("--profile", "rtx4090-llama-3.1-8b"),
    "saturation": ("--slots", "2"),
    "serve-metrics": ("--address", "256.0.0.1"),  # nowhere: it does not stay
}
"""Every command that takes a log → what else it needs."""


def call(*arguments: str | Path, code: int = 0) -> tuple[str, str]:
    done = CliRunner().invoke(app, [*map(str, arguments)], terminal_width=200)
    assert done.exit_code == code, done.output + repr(done.exception)
    return done.stdout, done.stderr


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "log.csv"
    rows = "".join(f"{n},{'ab'[n % 2]},50,20,{n % 2}\n" for n in range(12))
    path.write_text("at,who,in,out,priority\n" + rows)
    return path


NAMED = ("--arrival", "at", "--tenant", "who", "--prompt-tokens", "in", "--output-tokens", "out")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_takes_a_log_takes_the_same_options(command: str) -> None:
    found = typer.main.get_command(app)
    for name in command.split():
        found = found.commands[name]  # type: ignore[attr-defined]
    offered = {option for each in found.params for option in each.opts}
    assert offered >= OPTIONS - ({"--first-token", "--finish"} if command == "serve-metrics" else set())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_column_called_like_a_field_is_read_when_named_and_else_spoken_of(command: str, log: Path) -> None:
    code = 2 if command == "serve-metrics" else 0
    words = f"fairq: {log}: column 'priority' is not read: --priority priority takes it for the priority"
    arguments = (*command.split(), log, *NAMED, *COMMANDS[command])
    assert words in call(*arguments, code=code)[1].splitlines()
    assert "is not read" not in call(*arguments, "--priority", "priority", code=code)[1]


def test_a_scenario_is_told_how_its_log_is_written(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    names = "arrival: at, tenant: who, prompt_tokens: in, output_tokens: out"
    path.write_text(f"name: x\nlog: {{file: log.csv, {names}}}\npolicies: {{FIFO: {{policy: fifo}}}}\n")
    said = call("run", path)[1]
    assert f"{log}: column 'priority' is not read: log.priority: priority takes it for the priority" in said


@pytest.mark.parametrize(
    ("header", "options", "fields"),
    [
        ("at,in,out,user,API_Key", (), {"tenant": "user", "key": "API_Key"}),
        ("at,in,out,user", ("--tenants", "2"), {}),
        ("at,in,out,user,api_key", ("--tenant", "api_key"), {}),
        ("at,in,out,start_time,ttft,end", (), {"start": "start_time", "finish": "end"}),
        ("at,in,out,colour", (), {}),
    ],
)
def test_what_is_called_like_a_field(
    header: str, options: tuple[str, ...], fields: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n" + ",".join("1" for _ in header.split(",")) + "\n")
    named = ("--arrival", "at", "--prompt-tokens", "in", "--output-tokens", "out")
    shown, said = call("log", "show", path, *named, *options, "--json")
    assert json.loads(shown)["unread"] == fields
    assert said.count("is not read") == len(fields)


def test_a_log_that_is_known_leaves_nothing_unread() -> None:
    assert call("log", "show", "synthetic_27_tenants")[1] == ""


def test_priorities_are_converted_and_read_back(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "plain.csv"
    call("log", "convert", log, *NAMED, "--priority", "priority", "--out", out)
    read = read_log(out)
    assert read.account.form == "vtc arena"
    assert [(r.tenant, r.priority) for r in read.trace.requests()] == [
        ("ab"[n % 2], n % 2) for n in range(12)
    ]
    # And without any nothing is made up.
    call("log", "convert", log, *NAMED, "--out", out)
    assert "priority" not in out.read_text()


def test_a_priority_that_others_wrote_is_not_taken_for_a_level(tmp_path: Path) -> None:
    path = tmp_path / "arena.csv"
    path.write_text("arrived_s,tenant,input_tokens,output_tokens,priority\n0,a,5,5,high\n")
    shown, said = call("log", "show", path)
    assert "vtc arena" in shown
    assert "column 'priority' is not read: --priority priority takes it for the priority" in said
    assert (
        f"{path}:2: priority must be a finite number, got 'high'"
        in (call("log", "show", path, "--priority", "priority", code=2)[1])
    )


def test_what_a_converted_log_leaves_out_is_said(tmp_path: Path) -> None:
    path, out = tmp_path / "log.jsonl", tmp_path / "plain.csv"
    row = {"ts": 100, "user": "ann", "prompt_tokens": 5, "completion_tokens": 2}
    path.write_text(json.dumps(row | {"end": 103}) + "\n" + json.dumps(row | {"ts": 101}) + "\n")
    assert (
        "left out: when requests were served, which 1 of 2 say"
        in call("log", "convert", path, "--out", out)[1]
    )
    path.write_text(
        json.dumps(row | {"start": 101, "end": 103}) + "\n" + json.dumps(row | {"end": 104}) + "\n"
    )
    named = ("--arrival", "ts", "--start", "start")
    said = call("log", "convert", path, *named, "--out", out)[1]
    assert "left out: when service began, which 1 of 2 say" in said
    scenario = tmp_path / "heavy.yaml"
    scenario.write_text(
        "name: x\nlog: {file: log.jsonl, arrival: ts, weights: {ann: 2}}\npolicies: {FIFO: {policy: fifo}}\n"
    )
    assert "left out: the weights" in call("log", "convert", scenario, "--out", out)[1]


def test_tune_knows_the_priorities_of_a_log(log: Path) -> None:
    call("tune", log, *NAMED, "--priority", "priority", *COMMANDS["tune"])
    assert "aged" in Scenario.load("tuned/scenario.yaml").policies


@pytest.mark.parametrize("command", [("log", "fit"), ("tune", "--fit")])
def test_a_model_keeps_one_priority_of_a_tenant_and_says_so(command: tuple[str, str], log: Path) -> None:
    first, second = command
    mixed = (*NAMED[:2], *NAMED[4:], "--priority", "priority")  # all one tenant's
    more = COMMANDS["log fit"] if first == "log" else COMMANDS["tune"]
    said = call(first, second, log, *mixed, *more)[1]
    assert "several priorities of one tenant become that of its first request (all)" in said
    said = call(first, second, log, *NAMED, "--priority", "priority", *more)[1]
    assert "several priorities" not in said


def test_options_for_logs_are_refused_elsewhere(tmp_path: Path) -> None:
    series = tmp_path / "seen.csv"
    series.write_text("t,running,waiting\n0,1,2\n1,1,2\n")
    for arguments, words in (
        (("saturation", series, "--tenant", "who"), f"{series}: --tenant is for logs, this is a series"),
        (("saturation", "--check", "--form", "x"), "--form is for logs"),
        (("capacity", "--profile", "rtx4090-llama-3.1-8b", "--key", "k"), "--key is for logs"),
        (
            ("capacity", "noisy_burst", "--prompt-tokens", "in"),
            "--prompt-tokens is for logs, this is a scenario",
        ),
        (("serve-metrics", "noisy_burst", "--priority", "p"), "--priority is for logs, this is a scenario"),
        (("run", "synthetic_27_tenants", "--zipf", "2"), "--zipf needs --tenants"),
    ):
        assert words in call(*arguments, code=2)[1]


def test_capacity_takes_a_size_or_a_column_of_sizes(log: Path) -> None:
    box = ("--profile", "rtx4090-llama-3.1-8b", "--json")
    by_column = json.loads(call("capacity", log, *NAMED, *box)[0])
    assert (by_column["shape"]["prompt_tokens"], by_column["shape"]["output_tokens"]) == (50, 20)
    size = ("--prompt-tokens", "70")
    log.write_text(log.read_text().replace("at,who,in,out", "arrived_s,tenant,input_tokens,output_tokens"))
    by_size = json.loads(call("capacity", log, *size, *box)[0])
    assert (by_size["shape"]["prompt_tokens"], by_size["shape"]["output_tokens"]) == (70, 20)


def test_capacity_takes_the_name_of_a_log_as_its_path() -> None:
    box = ("--profile", "rtx4090-llama-3.1-8b", "--json")
    assert call("capacity", "synthetic_27_tenants", *box) == call(
        "capacity", Path(__file__).parents[2] / "data/logs/synthetic_27_tenants.csv", *box
    )
