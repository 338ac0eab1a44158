"""Sweeps: the same bits wherever they run, and nothing lost when somebody stops them or a worker dies."""

import json
import math
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairq.files import InputError
from fairq.scenario import Scenario
from fairq.sweep import SweepError, sweep
from fairq.tune.cells import Cell, digest, parties, run_cell, workload_digest
from fairq.tune.settings import settings
from fairq.tune.target import parse_targets


def numbers(task: int) -> dict[str, Any]:
    """Floats that are not pretty, and the ones JSON has no name for."""
    rng = np.random.Generator(np.random.PCG64(task))
    return {"values": rng.standard_normal(3).tolist(), "inf": math.inf, "task": task}


def leaves_a_mark(task: tuple[str, int]) -> int:
    folder, number = task
    with open(f"{folder}/{number}-{os.getpid()}-{os.urandom(3).hex()}", "w"):
        return number * number


def dies_once(task: tuple[str, int]) -> int:
    folder, number = task
    fatal = Path(folder) / "fatal"
    if number == 5 and not fatal.exists():
        fatal.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return leaves_a_mark(task)


def always_dies(task: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return task


def ignores_ctrl_c(task: int) -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def is_wrong(task: int) -> int:
    raise ValueError(f"task {task} is wrong")


def computed(folder: Path, number: int) -> int:
    return len(list(folder.glob(f"{number}-*")))


def bits(rows: Mapping[str, Any]) -> str:
    return json.dumps(rows)


def cells(replications: int = 2) -> dict[str, Cell]:
    scenario = Scenario.load("noisy_burst").with_({"horizon_s": 100})
    targets = parse_targets("chat p99 ttft < 2 s")
    workload, (whose, _) = workload_digest(scenario), parties(scenario, targets)
    made = [
        Cell(setting.scenario(scenario), r, whose)
        for setting in settings(scenario, targets)[:6]
        for r in range(replications)
    ]
    return {digest(cell, workload): cell for cell in made}


# -- the same bits --------------------------------------------------------------------------------------


def test_two_processes_give_the_bits_of_one() -> None:
    tasks = cells()
    assert len(tasks) == 12
    serial = sweep(run_cell, tasks, jobs=1)
    assert bits(sweep(run_cell, tasks, jobs=2)) == bits(serial)
    assert list(serial) == list(tasks)


def test_a_journal_gives_back_the_same_bits(tmp_path: Path) -> None:
    tasks = {str(n): n for n in range(20)}
    journal = tmp_path / "journal.jsonl"
    rows = sweep(numbers, tasks, jobs=1, journal=journal)
    # Nothing is left to compute, so a function that cannot run is not called.
    again = sweep(is_wrong, tasks, jobs=1, journal=journal, resume=True)
    assert bits(again) == bits(rows)
    assert rows["3"]["values"] == np.random.Generator(np.random.PCG64(3)).standard_normal(3).tolist()


@pytest.mark.slow
def test_a_dask_cluster_of_two_workers_gives_the_same_bits() -> None:
    distributed = pytest.importorskip("distributed")
    tasks = cells()
    serial = sweep(run_cell, tasks, jobs=1)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        assert bits(sweep(run_cell, tasks, backend=f"dask://{address}")) == bits(serial)


# -- nothing lost ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    tasks = {str(n): (str(tmp_path), n) for n in range(12)}
    journal = tmp_path / "journal.jsonl"
    rows = sweep(dies_once, tasks, jobs=2, journal=journal)
    assert (tmp_path / "fatal").exists(), "a worker was killed"
    assert rows == {str(n): n * n for n in range(12)}
    assert len(journal.read_text().splitlines()) == 12
    assert all(computed(tmp_path, n) >= 1 for n in range(12))


@pytest.mark.slow
def test_a_killed_dask_worker_loses_nothing(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    tasks = {str(n): (str(tmp_path), n) for n in range(12)}
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        rows = sweep(dies_once, tasks, backend=f"dask://{address}")
    assert (tmp_path / "fatal").exists()
    assert rows == {str(n): n * n for n in range(12)}


@pytest.mark.slow
def test_workers_that_always_die_are_an_error_that_says_so() -> None:
    with pytest.raises(
        SweepError, match=r"workers died 3 times in a row \(TerminatedWorker.*\); 0 of 2 are done"
    ):
        sweep(always_dies, {"a": 1, "b": 2}, jobs=2)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_stopping_keeps_what_is_done_and_resuming_computes_the_rest(tmp_path: Path, jobs: int) -> None:
    tasks = {str(n): (str(tmp_path), n) for n in range(16)}
    journal = tmp_path / "journal.jsonl"

    def stop(done: int, of: int) -> None:
        assert of == 16
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(leaves_a_mark, tasks, jobs=jobs, journal=journal, progress=stop)
    kept = {json.loads(line)["key"] for line in journal.read_text().splitlines()}
    assert len(kept) == 5
    before = {n: computed(tmp_path, int(n)) for n in kept}
    rows = sweep(leaves_a_mark, tasks, jobs=jobs, journal=journal, resume=True)
    assert rows == {str(n): n * n for n in range(16)}
    assert {n: computed(tmp_path, int(n)) for n in kept} == before, "what was kept is not computed again"


@pytest.mark.slow
def test_ctrl_c_is_for_the_one_who_started_it() -> None:
    here = signal.getsignal(signal.SIGINT)
    assert sweep(ignores_ctrl_c, {"a": 1, "b": 2}, jobs=2) == {"a": True, "b": True}
    # Started in the background of a shell, this process itself may ignore it.
    assert sweep(ignores_ctrl_c, {"a": 1}, jobs=1) == {"a": here is signal.SIG_IGN}
    assert signal.getsignal(signal.SIGINT) is here


def test_a_line_that_was_being_written_is_dropped(tmp_path: Path) -> None:
    tasks = {str(n): (str(tmp_path), n) for n in range(3)}
    journal = tmp_path / "journal.jsonl"
    journal.write_text('{"key": "0", "row": 0}\n{"key": "1", "ro')
    rows = sweep(leaves_a_mark, tasks, jobs=1, journal=journal, resume=True)
    assert rows == {"0": 0, "1": 1, "2": 4}
    assert computed(tmp_path, 0) == 0
    assert [json.loads(line)["key"] for line in journal.read_text().splitlines()] == ["0", "1", "2"]


def test_without_resume_a_journal_begins_anew(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text('{"key": "1", "row": "of another life"}\n')
    assert sweep(numbers, {"1": 1}, jobs=1, journal=journal)["1"]["task"] == 1


def test_an_earlier_journal_is_never_lost(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    sweep(numbers, {"1": 1, "2": 2}, jobs=1, journal=journal)
    first = journal.read_bytes()
    with pytest.raises(InputError, match="--backend must be"):
        sweep(numbers, {"1": 1}, backend="ray://x", journal=journal)
    with pytest.raises(ValueError, match="is wrong"):
        sweep(is_wrong, {"1": 1}, jobs=1, journal=journal)
    assert journal.read_bytes() == first, "nothing came of those"
    sweep(numbers, {"3": 3}, jobs=1, journal=journal)
    assert [json.loads(line)["key"] for line in journal.read_text().splitlines()] == ["3"]
    assert (tmp_path / "journal.jsonl.bak").read_bytes() == first
    third = journal.read_bytes()
    sweep(numbers, {"4": 4}, jobs=1, journal=journal)
    assert (tmp_path / "journal.jsonl.bak").read_bytes() == first
    assert (tmp_path / "journal.jsonl.bak2").read_bytes() == third


def test_a_journal_that_cannot_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        sweep(leaves_a_mark, {"1": (str(tmp_path), 1)}, jobs=1, journal=tmp_path / "file" / "journal.jsonl")
    assert computed(tmp_path, 1) == 0


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_errors_of_a_task_come_out(jobs: int) -> None:
    with pytest.raises(ValueError, match="task 7 is wrong"):
        sweep(is_wrong, {"a": 7}, jobs=jobs)


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("ray://x", r"--backend must be dask://HOST:PORT, got 'ray://x'"),
        ("dask://", r"--backend must be dask://HOST:PORT, got 'dask://'"),
    ],
)
def test_a_backend_that_is_none(backend: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sweep(numbers, {"a": 1}, backend=backend)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match=r"--backend dask://127.0.0.1:9: no scheduler answers"):
        sweep(numbers, {"a": 1}, backend="dask://127.0.0.1:9")


def test_a_broken_journal_is_named(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text("not a journal\n")
    with pytest.raises(InputError, match=r"journal.jsonl:1: not a line of a journal"):
        sweep(numbers, {"a": 1}, jobs=1, journal=journal, resume=True)


# -- keys -----------------------------------------------------------------------------------------------


def test_a_key_says_all_that_a_row_depends_on() -> None:
    scenario = Scenario.load("noisy_burst")
    targets = parse_targets("chat p99 ttft < 2 s")
    whose, _ = parties(scenario, targets)
    first, second = settings(scenario, targets)[:2]

    def key(cell: Cell) -> str:
        return digest(cell, workload_digest(cell.scenario))

    base = Cell(first.scenario(scenario), 0, whose)
    others = [
        Cell(second.scenario(scenario), 0, whose),
        Cell(first.scenario(scenario), 1, whose),
        Cell(first.scenario(scenario.with_(seed=8)), 0, whose),
        Cell(first.scenario(scenario.with_({"engine.slots": 9})), 0, whose),
        Cell(first.scenario(scenario.with_({"tenants.chat.weight": 3})), 0, whose),
        Cell(first.scenario(scenario), 0, whose, ("p95",)),
    ]
    assert len({key(cell) for cell in [base, *others]}) == 7
    assert key(Cell(first.scenario(Scenario.load("noisy_burst")), 0, whose)) == key(base)
