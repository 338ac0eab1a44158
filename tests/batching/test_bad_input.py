"""Bad input raises at once, names field and value, and leaves nothing half done."""

from __future__ import annotations

import re

import pytest

from fairq import FIFO, Request
from fairq.sim import simulate
from fairq.sim.batching import BatchCore, BatchingEngine, Limits, Profile, Sequence, replay

GOOD = Profile(10, 0.1, 1e-4, 0.1, kv_tokens=1600)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"a_ms": -1}, "a_ms must be a finite number >= 0, got -1"),
        ({"c_ms": float("nan")}, "c_ms must be a finite number >= 0, got nan"),
        ({"p_ms": "fast"}, "p_ms must be a finite number >= 0, got 'fast'"),
        ({"o_ms": float("inf")}, "o_ms must be"),
        ({"a_ms": 0, "b_ms": 0}, "a step would take no time"),
        ({"kv_tokens": 0}, "kv_tokens must be >= 1, got 0"),
    ],
)
def test_a_profile(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        GOOD.with_(**changes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs must be a whole number >= 1, got 0"),
        ({"max_num_seqs": 2.0}, "max_num_seqs must be a whole number >= 1, got 2.0"),
        ({"max_num_batched_tokens": 100}, "must be >= max_num_seqs (256)"),
        ({"kv_tokens": 15}, "kv_tokens (15) must hold a block of 16 tokens"),
        ({"block_tokens": True}, "block_tokens must be"),
        ({"scheduling": "lifo"}, "scheduling must be one of fcfs, priority, got 'lifo'"),
        ({"admission": "any"}, "admission must be one of prompt, chunk, peak, got 'any'"),
        ({"gateway_slots": -1}, "gateway_slots must be a whole number >= 0"),
        ({"progress": "often"}, "progress must be one of finishes, tokens, never, got 'often'"),
        ({"token_prices": (1, -1)}, "token_prices must be two finite numbers >= 0"),
        ({"profile": "H100"}, "profile must be a Profile, got 'H100'"),
        ({"profile": GOOD.with_(kv_tokens=None)}, "give kv_tokens"),
    ],
)
def test_an_engine(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        BatchingEngine(**({"profile": GOOD} | settings))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((1601, 1), "prompt_tokens = 1601 is longer than the KV cache (1600 tokens)"),
        ((1000, 602), "prompt_tokens + output_tokens = 1000 + 602 do not fit the KV cache"),
        ((0, 5), "prompt_tokens must be a whole number >= 1"),
        ((10.5, 5), "prompt_tokens must be a whole number for a batching engine, got 10.5"),
        ((10, None), "output_tokens must be a whole number for a batching engine, got None"),
    ],
)
def test_a_request_that_can_never_be_served_stops_the_run_before_it_starts(
    sizes: tuple, message: str
) -> None:
    prompt, output = sizes
    bad = Request("t", 10, arrival=1.0, prompt_tokens=prompt, output_tokens=output)
    good = Request("t", 10, arrival=0.0, prompt_tokens=10, output_tokens=1)
    policy, engine = FIFO(), BatchingEngine(GOOD)
    with pytest.raises(ValueError, match=re.escape(message) + r".*Request\('t'"):
        simulate([good, bad], policy, engine)
    assert not policy.used
    assert len(simulate([good], policy, engine).requests) == 1  # both still fresh


def test_the_longest_request_that_fits_is_served() -> None:
    """The last token is returned and never read again: it needs no place."""
    one = Request("t", 10, arrival=0.0, prompt_tokens=1000, output_tokens=601)
    assert simulate([one], FIFO(), BatchingEngine(GOOD)).counts()["finished"] == 1


def test_arrivals_out_of_order() -> None:
    core = BatchCore(GOOD, Limits(4, 64, 1600))
    work = [(1.0, Sequence(1, 1)), (0.5, Sequence(1, 1))]
    with pytest.raises(ValueError, match=r"entry 1 comes at 0.5 s, after 1.0 s"):
        replay(core, work)
    assert core.idle
    assert core.steps == 0
    with pytest.raises(ValueError, match="entry 0"):
        replay(core, [(float("nan"), Sequence(1, 1))])


def test_time_that_goes_back() -> None:
    core = BatchCore(GOOD, Limits(4, 64, 1600))
    core.add(Sequence(1, 5), 1.0)
    core.advance()
    with pytest.raises(ValueError, match="time went back"):
        core.add(Sequence(1, 1), 0.5)
    assert len(core.waiting) == 0
    with pytest.raises(RuntimeError, match="nothing to do"):
        BatchCore(GOOD, Limits(4, 64, 1600)).advance()


def test_an_engine_serves_one_run() -> None:
    engine = BatchingEngine(GOOD)
    simulate([], FIFO(), engine)
    with pytest.raises(ValueError, match="an engine serves one run"):
        simulate([], FIFO(), engine)
    used = FIFO()
    used.put(Request("t", 1))
    with pytest.raises(ValueError, match="a policy serves one run"):
        BatchingEngine(GOOD, scheduling=used)
