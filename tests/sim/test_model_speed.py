"""The benchmark's three ways to run M/M/8 agree on every finish time (times are for the benchmark itself)."""

import importlib.util
from pathlib import Path

import pytest

from fairq import DRR, FIFO, KeyCaps

PATH = Path(__file__).parents[2] / "benchmarks" / "model_speed.py"


@pytest.fixture(scope="module")
def speed():
    spec = importlib.util.spec_from_file_location("model_speed", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equal_finish_times(speed, seed):
    requests = speed.draw(3000, seed)
    finish = speed.simpy_way(requests)
    assert finish == speed.bare_loop(requests)
    assert finish == speed.model(requests, FIFO())
    assert finish == speed.model(requests, KeyCaps(FIFO()))
    assert finish != speed.model(requests, DRR(quantum=1))


def test_figures_are_complete(speed):
    figures = speed.measure(500, 1)
    assert set(speed.LIMITS) < set(figures)
    assert all(value > 0 for value in figures.values())
