"""The benchmark of the queue still runs, and what does not depend on a quiet machine holds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks/queue_speed.py"


@pytest.mark.slow
def test_the_benchmark_runs_and_nothing_is_of_another_order() -> None:
    printed = subprocess.run(
        [sys.executable, str(SCRIPT), "--requests", "20000", "--rounds", "3", "--json"],
        capture_output=True,
        text=True,
        check=True,  # it also fails when its hand-written loop and fairq disagree about the order
    ).stdout
    figures = json.loads(printed)
    assert figures.pop("setting")["python"]
    for name, value in figures.items():
        if name.startswith("capped group"):
            assert value < 1000, f"{name}: {value} µs; a walk over all keys takes longer"
        elif "quantum 1 / quantum" in name:
            assert value < 4, f"{name}: {value}; visits that send nothing cost something"
        elif name.endswith("fairq / minimal"):
            # The limit is 4 on a quiet machine, which a test cannot ask for.
            assert value < 10, f"{name}: {value}"
