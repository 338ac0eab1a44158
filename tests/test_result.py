"""One run as tables: columns, kinds, counts and sums, on a run small enough to follow."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from fairq import FIFO, Request
from fairq.sim import SlotEngine, simulate

COLUMNS = [
    *("id", "tenant", "group", "key", "priority", "conversation", "arrival", "start", "first_token"),
    *("finish", "wait", "ttft", "latency", "cost_estimate", "cost", "prompt_tokens", "output_tokens"),
    "status",
]
LATENCY = [
    *("n", "unfinished", "wait_p50", "wait_p99", "ttft_p50", "ttft_p99", "latency_p50", "latency_p90"),
    *("latency_p99", "latency_mean", "latency_max", "tokens", "share"),
]


@pytest.fixture
def result():
    """Two slots. a: 0–4, b: 0–2, a waits 1–2 and runs to 3, b waits 1–3 and runs to 8."""
    return simulate(
        [
            Request("a", 4, id="a1", arrival=0, service=4, priority=1),
            Request("b", 2, id="b1", arrival=0, service=2, key="b/x"),
            Request("a", 1, id="a2", arrival=1, service=1),
            Request("b", 5, id="b2", arrival=1, service=5, conversation="talk"),
        ],
        FIFO(),
        SlotEngine(2),
    )


def test_columns_are_those_of_the_format(result):
    assert list(result.requests.columns)[: len(COLUMNS)] == COLUMNS
    assert list(result.requests.columns)[len(COLUMNS) :] == ["slot", "dispatch", "left"]
    assert list(result.latency().columns) == LATENCY
    assert list(result.queue.columns) == ["t", "waiting", "running"]


def test_rows(result):
    rows = result.requests
    assert rows["id"].tolist() == ["a1", "b1", "a2", "b2"]
    assert rows["start"].tolist() == [0, 0, 2, 3]
    assert rows["finish"].tolist() == [4, 2, 3, 8]
    assert rows["wait"].tolist() == [0, 0, 1, 2]
    assert rows["latency"].tolist() == rows["ttft"].tolist() == [4, 2, 2, 7]
    assert rows["slot"].tolist() == [0, 1, 1, 1]
    assert rows["dispatch"].tolist() == [0, 1, 2, 3]
    assert rows["key"].tolist() == ["a", "b/x", "a", "b"]
    assert rows["priority"].tolist() == [1, 0, 0, 0]
    assert rows["conversation"].isna().tolist() == [True, True, True, False]


def test_strings_are_categories_in_order_of_appearance(result):
    for name in ("tenant", "group", "key", "status"):
        assert isinstance(result.requests[name].dtype, pd.CategoricalDtype)
    assert list(result.requests["tenant"].cat.categories) == ["a", "b"]


def test_latency_by_hand(result):
    table = result.latency()
    assert table.index.tolist() == ["a", "b"]
    assert table["n"].tolist() == [2, 2]
    assert table["wait_p50"].tolist() == [0.5, 1.0]
    assert table["wait_p99"].tolist() == pytest.approx([0.99, 1.98])
    assert table["latency_p90"].tolist() == pytest.approx([3.8, 6.5])
    assert table["latency_mean"].tolist() == [3.0, 4.5]
    assert table["latency_max"].tolist() == [4.0, 7.0]
    assert table["tokens"].tolist() == [5, 7]
    by_key = result.latency("key")
    assert by_key.index.tolist() == ["a", "b/x", "b"]
    assert by_key.loc["b", "latency_p50"] == 7


def test_queue_and_load_by_hand(result):
    assert result.queue.to_numpy().tolist() == [
        [0, 0, 2],
        [1, 2, 2],
        [2, 1, 2],
        [3, 0, 2],
        [4, 0, 1],
        [8, 0, 0],
    ]
    assert result.makespan == result.end == 8
    assert result.requests_per_s == 4 / 8
    assert result.tokens_per_s == 12 / 8
    assert result.utilisation == 12 / 16
    assert result.waiting_mean == 3 / 8
    assert result.counts() == {"finished": 4, "cancelled": 0, "refused": 0, "unfinished": 0}
    assert repr(result) == "Result(FIFO: 4 finished)"


def test_utilisation_of_a_cut_run():
    requests = [Request("a", 1, arrival=2, service=6)]
    assert simulate(requests, FIFO(), SlotEngine(2), until=6).utilisation == 4 / 12
    assert simulate(requests, FIFO(), SlotEngine(2), until=6, warmup=5).utilisation == 1 / 2


def test_csv_has_every_row_and_column(result, tmp_path):
    result.to_csv(tmp_path / "rows.csv")
    back = pd.read_csv(tmp_path / "rows.csv")
    assert list(back.columns) == list(result.requests.columns)
    assert np.array_equal(back["finish"], result.requests["finish"])


def test_an_engine_adds_series_and_columns():
    class Counting(SlotEngine):
        job_columns = {"preemptions": 0}  # noqa: RUF012

        def admit(self, job):
            job.preemptions = 3
            super().admit(job)

        def series(self):
            return {"t": [0, 1], "kv_pct": [5.0, 6.0]}

    requests = [Request("a", 1, arrival=n, service=5) for n in range(2)]
    run = simulate(requests, FIFO(), Counting(1), until=5)
    assert run.requests["preemptions"].tolist() == [3, 0]
    assert run.engine.to_dict("list") == {"t": [0, 1], "kv_pct": [5.0, 6.0]}
    assert simulate(requests, FIFO(), SlotEngine(1)).engine is None


def test_an_engine_without_a_limit_takes_all():
    class Endless(SlotEngine):
        def __init__(self):
            super().__init__(1)
            self.slots = None

    run = simulate([Request("a", 1, arrival=0, service=2) for _ in range(50)], FIFO(), Endless())
    assert (run.requests["start"] == 0).all()
    assert run.requests["slot"].tolist() == list(range(50))
    assert np.isnan(run.utilisation)


def test_a_table_is_lean():
    """About 600 bytes per request at the peak, building included (the benchmark measures it at 100,000)."""
    n = 20_000

    def build():
        requests = [Request(f"t{k % 9}", 1, arrival=k + 0.5, service=0.25, id=k) for k in range(n)]
        return simulate(requests, FIFO(), SlotEngine(1)).requests

    build()
    tracemalloc.start()
    table = build()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(table) == n
    assert peak / n <= 600
