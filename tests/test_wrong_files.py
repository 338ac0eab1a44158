"""What the commands say of a file that is not what it should be: the same, whoever reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairq import lite
from fairq.cli import app

READERS = {
    "a log": ["run", "log.csv"],
    "a log of lines": ["run", "log.jsonl"],
    "a series or a log": ["saturation", "log.csv"],
    "a scenario": ["run", "scenario.yaml"],
    "a policy": ["run", "noisy_burst", "--policy-file", "policy.yaml"],
    "a profile": ["capacity", "--profile", "box.yaml"],
    "a state of a queue": ["eta", "state.json"],
    "a card": ["eta", "--position", "1", "--card", "card.json"],
    "a page of metrics": ["capacity", "--scrape", "a.txt", "--scrape", "a.txt", "--seconds", "1"],
    "steps": ["calibrate", "steps.csv"],
    "a run": ["replay", "requests.jsonl"],
    "the arena": ["replay", "arena.csv"],
    "prefixes": ["routers", "--trace", "trace.jsonl"],
}
"""What is read → a command that reads it, in a folder where the file is bad."""


def said(arguments: list[str], code: int = 2) -> str:
    """What goes to stderr."""
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code, done.output + repr(done.exception)
    return done.stderr


def files(arguments: list[str]) -> list[Path]:
    """The files named in a call."""
    return [Path(each) for each in arguments if "." in each]


@pytest.mark.parametrize("what", READERS)
def test_what_is_no_text_is_named_with_line_and_byte(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (file, *_) = files(READERS[what])
    file.write_bytes(b"\n\n  \xff\n")
    assert f"{file}:3: is not UTF-8 text: invalid start byte at byte 3 of the line" in said(READERS[what])


def test_a_series_that_is_no_text_further_down(tmp_path: Path) -> None:
    path = tmp_path / "seen.csv"
    path.write_bytes(b"t,running,waiting\n" + 9_000 * b"0,1,1\n" + b"1,\xff,1\n")
    assert f"{path}:9002: is not UTF-8 text: invalid start byte at byte 3 of the line" in said(
        ["saturation", str(path)]
    )


def test_a_journal_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b"{}\n\xff\n")
    target = ["--target", "chat p99 ttft < 2 s"]
    words = said(["tune", "noisy_burst", *target, "--resume", "--out", str(tmp_path)])
    assert "journal.jsonl:2: is not UTF-8 text: invalid start byte at byte 1 of the line" in words


def test_json_of_a_state_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"now": 0,\n "slots": }\n')
    assert f"{path}:2: not JSON: Expecting value" in said(["eta", str(path)])


MARK = b"\xef\xbb\xbf"
"""What spreadsheets and some editors put in front of the text."""


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    steps = b"B,T,KV,step_ms\n" + b"".join(
        f"{b},{t},{kv},{1 + 0.5 * b + 0.02 * t + 0.001 * kv}\n".encode()
        for b in (1, 2, 4)
        for t in (0, 64, 200)
        for kv in (100, 900, 5000)
    )
    state = b'{"now": 0, "waiting": [{"tenant": "a", "cost": 5}]}'
    arena = b"arrived_s,tenant,input_tokens,output_tokens\n0,a,5,5\n1,b,5,5\n"
    prefixes = b'{"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [1]}\n'
    for name, text, arguments in (
        ("steps.csv", steps, ["calibrate"]),
        ("state.json", state, ["eta", "--streams", "1", "--tokens-per-s", "9"]),
        ("arena.csv", arena, ["replay"]),
        ("log.csv", arena, ["log", "show"]),
        ("prefixes.jsonl", prefixes, ["routers", "--trace"]),
    ):
        path = tmp_path / name
        path.write_bytes(text)
        without = CliRunner().invoke(app, [*arguments, str(path)])
        assert without.exit_code == 0, without.output
        path.write_bytes(MARK + text)
        assert CliRunner().invoke(app, [*arguments, str(path)]).stdout == without.stdout


STEPS = "B,T,KV,step_ms"
ARENA = "arrived_s,tenant,input_tokens,output_tokens"
SERIES = "t,running,waiting"
TABLES = {"calibrate": STEPS, "replay": ARENA, "saturation": SERIES, "log show": ARENA}
"""Commands that read a CSV file → its header."""


def table(command: str, text: str, folder: Path) -> str:
    path = folder / "table.csv"
    path.write_text(text)
    return said([*command.split(), str(path)]).replace(str(folder), "")


@pytest.mark.parametrize("command", TABLES)
def test_a_table_is_read_as_strictly_by_every_command(command: str, tmp_path: Path) -> None:
    header = TABLES[command]
    names = header.split(",")
    row = ",".join("1" for _ in names)
    twice = table(command, f"{header},{names[1]}\n{row},1\n{row},1\n", tmp_path)
    assert f"/table.csv:1: more than one column '{names[1]}'" in twice
    for line in (f"{row},1", "1"):
        width = line.count(",") + 1
        words = f"/table.csv:3: {width} fields where the header has {len(names)}: '{line}'"
        assert words in table(command, f"{header}\n{row}\n{line}\n", tmp_path)
    for mark in (";", "\t"):
        text = f"{header}\n{row}\n".replace(",", mark)
        assert "(commas must separate the columns)" in table(command, text, tmp_path)


def test_spaces_round_the_names_of_columns_are_none_of_theirs(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for command, header in TABLES.items():
        path.write_text(f"{header}\n".replace(",", " , "))
        assert "no column" not in said([*command.split(), str(path)])


def test_a_disk_that_fails_is_no_fault_of_the_reader(tmp_path: Path) -> None:
    """A file that is there and cannot be read; root may read whatever permissions forbid."""
    bad = tmp_path / "bad.yaml"
    bad.symlink_to("/proc/self/mem")
    if not bad.is_file():
        pytest.skip("no /proc")
    for arguments in (["capacity", "--profile"], ["memory"], ["run"], ["partitions"]):
        assert said([*arguments, str(bad)]) == f"fairq: {bad}: cannot be read: Input/output error\n"


def test_a_log_that_cannot_be_opened_is_named_as_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, why in (("folder.csv", "Is a directory"), ("none.jsonl", "No such file or directory")):
        path = tmp_path / name
        for arguments in (["run"], ["log", "show"], ["saturation"], ["capacity"], ["routers", "--trace"]):
            assert said([*arguments, str(path)]) == f"fairq: {path}: cannot be read: {why}\n"


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ("[]", "meta.json: must be an object, got []"),
        ('{"engine_kwargs": 3}', "meta.json: engine_kwargs must be an object, got 3"),
        ('{"kv_cache": "x"}', "meta.json: kv_cache must be an object, got x"),
    ],
)
def test_settings_of_a_run_that_are_none(meta: str, words: str, tmp_path: Path) -> None:
    served = {"input_toks": 10, "output_toks": 5, "arrival_time": 1.7e9, "queued_ts": 100.0}
    served |= {"scheduled_ts": 101.0, "first_token_ts": 101.5, "last_token_ts": 103.0}
    run = tmp_path / "requests.jsonl"
    run.write_text(json.dumps({"request_id": "b-1", **served}) + "\n")
    (tmp_path / "meta.json").write_text(meta)
    assert words in said(["replay", str(run)])


# -- what is written ------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["", ".", "/"])
def test_an_out_without_a_name(out: str) -> None:
    words = said(["log", "convert", "synthetic_27_tenants", "--out", out]).splitlines()[-1]
    assert words == f"fairq: --out {Path(out)}: cannot be written: Is a directory"


def test_a_site_that_cannot_be_put_there_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite, "_environment", lambda folder: pytest.fail("began all the same"))
    if not Path("/proc/self").exists():
        pytest.skip("no /proc")
    assert said(["lite", "/proc/none/site"]) == (
        "fairq: /proc/none/site: cannot be written: No such file or directory\n"
    )


@pytest.mark.parametrize("command", ["memory", "partitions", "routers"])
def test_a_table_in_a_pipe_is_not_cut(command: str) -> None:
    done = CliRunner().invoke(app, [command], env={"COLUMNS": ""})
    assert done.exit_code == 0, done.output
    assert "│" in done.stdout
    assert "…" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["run", "published_burst", "--policy", "drr", "--replications", "1", "--out", "."], "requests.csv"),
        (["memory", "--out", "memory.csv"], "memory.csv"),
        (["log", "forms"], ""),
    ],
)
def test_a_reader_who_has_left_loses_no_files(arguments: list[str], file: str, tmp_path: Path) -> None:
    """As with ``| head -1``, which closes the pipe after its line."""
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-c", "import fairq.cli; fairq.cli.main()", *arguments]
    done = subprocess.run(command, cwd=tmp_path, stdout=writes, stderr=subprocess.PIPE, text=True)
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / file).exists()


def test_numbers_that_make_no_sense_are_said_in_a_line() -> None:
    target = ["tune", "noisy_burst", "--target", "chat p99 ttft < 2 s"]
    for option in ("--jobs", "--replications"):
        assert f"'{option}'" in said([*target, option, "0"])
    assert said(["eta", "--position", "3", "--streams", "0", "--service-s", "1"]) == (
        "fairq: streams must be a whole number >= 1, got 0\n"
    )
    assert said(["capacity", "--profile", "rtx4090-llama-3.1-8b", "--prompt-tokens", "x"]) == (
        "fairq: --prompt-tokens must be a number where there is no log, got 'x'\n"
    )
