"""A trace of prompts in blocks: read whole or not at all; routers on it by hand and on the real one."""

import json
from pathlib import Path

import pytest

from fairq.sim.replicas import ROUTERS, LeastBusy, RoundRobin, SessionAffinity, make_router
from fairq.sim.replicas.figures import figures, replay_row
from fairq.sim.replicas.replay import Prefilled, replay_prefixes
from fairq.workload.prefixes import PrefixRow, read_prefixes
from fairq.workload.trace import TraceError

TRACE = Path(__file__).resolve().parents[3] / "shared/traces/mooncake_conversation.jsonl"


def row(at: float, tokens: int, *blocks: int) -> PrefixRow:
    return PrefixRow(at, tokens, 10, blocks)


# -- by hand ----------------------------------------------------------------------------------------------


def test_what_is_cached_need_not_be_computed() -> None:
    rows = [row(0, 1000, 0, 1), row(10, 1500, 0, 1, 2), row(20, 1000, 0, 1)]
    out = replay_prefixes(rows, RoundRobin(), replicas=1, cache_blocks=10, prefill_tokens_per_s=100)
    # The last block of the first prompt is part full: 1,000 tokens are known, in blocks it counts whole.
    assert out == [
        Prefilled(0, 1000, 0, 10.0),
        Prefilled(0, 1500, 1024, 4.76),
        Prefilled(0, 1000, 1000, 0.0),
    ]


def test_prompts_wait_for_those_before_them() -> None:
    rows = [row(0, 500, 1), row(1, 500, 2), row(1, 500, 3)]
    out = replay_prefixes(rows, LeastBusy(), replicas=2, prefill_tokens_per_s=100)
    assert [(each.replica, each.ttft) for each in out] == [(0, 5.0), (1, 5.0), (0, 9.0)]


def test_figures_by_hand() -> None:
    found = figures([0, 0, 0, 1], [100, 100, 100, 100], [0, 50, 50, 0], [1, 2, 3, 4], 2)
    assert found["prefill_tokens"] == 300
    assert found["prefill_per_request"] == 75
    assert found["hit_rate"] == 0.25
    assert found["ttft_p50"] == 2.5
    assert found["ttft_mean"] == 2.5
    assert found["imbalance"] == 1.5  # 3 against a mean of 2
    assert found["work_imbalance"] == pytest.approx(200 / 150)
    assert found["requests"] == [3, 1]


def test_the_session_is_two_blocks() -> None:
    assert row(0, 1500, 0, 7, 9).session == row(0, 1024, 0, 7).session != row(0, 1024, 0, 8).session


# -- the real trace ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not TRACE.is_file(), reason="the Mooncake trace is not here")
def test_the_real_trace_under_every_router() -> None:
    trace = read_prefixes(TRACE)
    assert len(trace) == 12_031
    assert {each.blocks[0] for each in trace} == {0}
    found = {name: replay_row(replay_prefixes(trace, make_router(name)), 4) for name in ROUTERS}
    # Published for this kit: 4 replicas of 3,000 blocks.
    assert found["round_robin"]["hit_rate"] == pytest.approx(0.099, abs=0.02)
    assert found["session"]["hit_rate"] == pytest.approx(0.232, abs=0.02)
    assert found["pure_prefix"]["requests"] == [12_031, 0, 0, 0]
    assert found["pure_prefix"]["hit_rate"] < found["round_robin"]["hit_rate"]
    assert found["pure_prefix"]["ttft_p50"] > 100 * found["session"]["ttft_p50"]
    assert found["prefix"]["imbalance"] < 1.25
    assert found["prefix"]["hit_rate"] >= found["session"]["hit_rate"] - 0.01
    assert found["session"]["imbalance"] < 1.1


# -- bad input --------------------------------------------------------------------------------------------

GOOD = {"timestamp": 1000, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}


def test_a_good_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(GOOD) + "\n\n" + json.dumps(GOOD | {"timestamp": 2500}) + "\n")
    assert read_prefixes(path) == [PrefixRow(1.0, 600, 5, (0, 1)), PrefixRow(2.5, 600, 5, (0, 1))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"t.jsonl:2: not JSON"),
        ("[]", r"t.jsonl:2: must be an object"),
        (
            json.dumps(GOOD | {"timestamp": 999}),
            "t.jsonl:2: timestamp goes back in time: 999 ms after 1000 ms",
        ),
        (json.dumps(GOOD | {"timestamp": None}), "t.jsonl:2: timestamp must be a finite number"),
        (
            json.dumps(GOOD | {"input_length": 0}),
            "t.jsonl:2: input_length must be a whole number >= 1, got 0",
        ),
        (json.dumps(GOOD | {"output_length": "x"}), "t.jsonl:2: output_length"),
        (json.dumps(GOOD | {"hash_ids": [1, "a"]}), "t.jsonl:2: hash_ids must be a list of whole numbers"),
        (json.dumps(GOOD | {"hash_ids": [1]}), r"t.jsonl:2: hash_ids must name 2 blocks .* got 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + line + "\n")
    with pytest.raises(TraceError, match=message):
        read_prefixes(path)


def test_an_empty_trace_and_bad_settings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("\n")
    with pytest.raises(TraceError, match="no requests in it"):
        read_prefixes(path)
    rows = [row(1, 100, 0), row(0, 100, 0)]
    with pytest.raises(ValueError, match="rows out of order: arrival 0 s after 1 s"):
        replay_prefixes(rows, SessionAffinity())
    with pytest.raises(ValueError, match="replicas must be a whole number >= 1, got 0"):
        replay_prefixes(rows, SessionAffinity(), replicas=0)
    with pytest.raises(ValueError, match="prefill_tokens_per_s must be > 0, got 0"):
        replay_prefixes(rows, SessionAffinity(), prefill_tokens_per_s=0)
