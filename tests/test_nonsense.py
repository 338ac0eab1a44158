"""Every command that reads a file, given files that are none of its own: one line, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairq.cli import app
from fairq.data import data_path

BINARY = bytes(range(256))[::-1]
FILES = {
    "none.csv": None,
    "none.yaml": None,
    "empty.csv": b"",
    "empty.json": b"",
    "empty.yaml": b"",
    "binary.csv": BINARY,
    "binary.json": BINARY,
    "binary.jsonl": BINARY,
    "binary.yaml": BINARY,
    "binary.parquet": BINARY,
    "other.csv": b"a,b,c\n1,2,3\n",
    "header.csv": b"arrival,prompt_tokens,output_tokens\n",
    "other.json": b'{"a": 1}\n',
    "number.json": b"3\n",
    "open.yaml": b"tenants: [1,\n",
    "list.yaml": b"- chat\n",
}
COMMANDS = {
    "run": (),
    "tune": ("--target", "chat p99 ttft < 2 s"),
    "log show": (),
    "log convert": ("--out", "made.csv"),
    "log fit": ("--out", "made.yaml"),
    "calibrate": ("--out", "made.yaml"),
    "capacity": (),
    "replay": (),
    "saturation": (),
    "eta": (),
    "partitions": (),
    "routers": (),
    "serve-metrics": (),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nonsense")
    for name, content in FILES.items():
        if content is not None:
            (folder / name).write_bytes(content)
    for name in ("folder.csv", "folder.yaml"):
        (folder / name).mkdir()
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_files_of_another_kind_are_one_line(
    command: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [*FILES, "folder.csv", "folder.yaml"]:
        arguments = [*command.split(), str(folder / name), *COMMANDS[command]]
        done = CliRunner().invoke(app, arguments)
        said = f"{' '.join(arguments)}: {done.exit_code}, {done.exception!r}\n{done.output}"
        assert done.exit_code == 2, said
        assert done.stdout == "", said
        assert done.stderr.startswith("fairq: "), said
        assert done.stderr.count("\n") == 1, said
        assert name in done.stderr, said
        assert not list(tmp_path.iterdir()), said


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_text("my own")
    for arguments in (["lite", str(file)], ["notebooks", "copy", str(file)], ["figures", "--out", str(file)]):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 2, f"{arguments}: {done.exception!r}\n{done.output}"
        assert done.stderr.splitlines()[-1].startswith("fairq: "), arguments
        assert str(file) in done.stderr
        assert file.read_text() == "my own"


def test_an_out_that_cannot_be_written(tmp_path: Path) -> None:
    steps = tmp_path / "steps.csv"
    rows = [(b, t, kv, 10 + b + t / 10) for b in (1, 5, 9) for t in (0, 50, 300) for kv in (100, 2000)]
    steps.write_text("B,T,KV,step_ms\n" + "".join(f"{b},{t},{kv},{ms}\n" for b, t, kv, ms in rows))
    served = {"input_toks": 10, "output_toks": 5, "arrival_time": 1.7e9, "queued_ts": 100.0}
    served |= {"scheduled_ts": 101.0, "first_token_ts": 101.5, "last_token_ts": 103.0}
    run = tmp_path / "requests.jsonl"
    run.write_text("".join(json.dumps({"request_id": f"b-{n}", **served}) + "\n" for n in range(3)))
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    log = str(data_path("logs/synthetic_27_tenants.csv"))
    commands = [["calibrate", str(steps)], ["log", "convert", log], ["log", "fit", log], ["replay", str(run)]]
    for arguments in commands:
        done = CliRunner().invoke(app, [*arguments, "--out", str(folder)])
        assert done.exit_code == 2, f"{arguments}: {done.exception!r}\n{done.output}"
        assert done.stderr == f"fairq: --out {folder}: cannot be written: Is a directory\n"
        assert {path.name for path in tmp_path.iterdir()} == {"folder.csv", "requests.jsonl", "steps.csv"}
