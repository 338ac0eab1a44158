"""What the commands say of a file that is not what it should be: the same, whoever reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

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
