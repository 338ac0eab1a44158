"""Agreement with what real engines did. The traces are inputs outside the project: without them, skipped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairq.commands._arena import read_arena, replay_arena, served, service_differences
from fairq.policies.fifo import FIFO
from fairq.policies.vtc import VTC
from fairq.profiles import load_profile
from fairq.sim.batching import Limits
from fairq.sim.batching.agreement import replay_run
from fairq.sim.batching.calibrate import fit_runs
from fairq.workload.vllm_run import read_run

from . import plain

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
VLLM = TRACES / "vllm_rtx4090_llama31_8b_requests.jsonl"
ARENA = TRACES / "vtc_arena_27_tenants.csv"

needs_vllm = pytest.mark.skipif(not VLLM.is_file(), reason="the vLLM run is not here")
needs_arena = pytest.mark.skipif(not ARENA.is_file(), reason="the VTC arena is not here")


@needs_vllm
def test_a_vllm_run_is_replayed_within_five_per_cent() -> None:
    """300 requests on vLLM 0.19 and an RTX 4090; coefficients from operator profiles, not from this run."""
    run = read_run(VLLM)
    profile = load_profile("rtx4090-llama31-8b")
    assert profile.o_ms == 0
    limits = Limits(**run.settings)
    assert (limits.max_num_seqs, limits.blocks) == (256, 2588)
    replayed = replay_run(run.requests, profile, limits)
    for compared in replayed.compared():
        assert np.abs(compared.error).max() < 0.05, compared.measure
    # Second by second, as vLLM's own logger saw it: bound by the cache, never by its 256 slots.
    seconds = [row[0] for row in run.series]
    model = np.array(replayed.at_seconds(seconds))
    real = np.array([row[1:] for row in run.series])
    assert real[:, 0].max() == 49
    assert 46 <= model[:, 0].max() <= 52
    assert abs(model[:, 1].max() - real[:, 1].max()) <= 5
    assert model[:, 2].max() > 99
    for column, least in ((0, 0.9), (1, 0.99), (2, 0.9)):
        assert np.corrcoef(model[:, column], real[:, column])[0, 1] > least
    # The run's own idle time, fitted, is the nothing that asynchronous scheduling promises.
    assert fit_runs([(run.requests, limits)], profile).profile.o_ms < 0.5


@needs_vllm
def test_the_replay_equals_plain_stepping_and_takes_a_sixth_of_the_steps() -> None:
    run = read_run(VLLM)
    slow = plain.PlainEngine(16.875, 0.042, 1.493e-4, 0.0932, 0.0, 256, 2048, 41408)
    twin = [
        plain.Seq(r.id, r.prompt_tokens, r.output_tokens, r.arrival, order=i)
        for i, r in enumerate(run.requests)
    ]
    plain.replay(slow, twin)
    fast = replay_run(run.requests, load_profile("rtx4090-llama31-8b"), Limits(**run.settings))
    for mine, other in zip(fast.sequences, twin, strict=True):
        assert mine.finish == pytest.approx(other.finish, rel=0, abs=1e-9)
        assert mine.first == pytest.approx(other.first, rel=0, abs=1e-9)
        assert mine.preemptions == other.preemptions
    assert fast.core.steps == slow.steps
    assert fast.core.changes < slow.steps / 6


@needs_arena
def test_the_measures_are_those_of_the_artifact() -> None:
    """779 tokens/s is that paper's own figure for this run."""
    arena = read_arena(ARENA)
    real = served("real", arena, arena.first_token, arena.finish)
    assert real.tokens_per_s == pytest.approx(779, abs=0.5)


@needs_arena
def test_the_arena_is_served_as_fast_and_vtc_is_far_fairer_than_first_come() -> None:
    arena = read_arena(ARENA)
    profile = load_profile("a10g-llama-7b")
    real = served("real", arena, arena.first_token, arena.finish)
    rows = {}
    for policy in (VTC(), FIFO()):
        requests = replay_arena(arena, policy, profile).requests
        assert requests["status"].eq("finished").all()
        assert requests["preemptions"].sum() == 0
        times = (requests[name].to_numpy(dtype=float) for name in ("first_token", "finish"))
        rows[type(policy).__name__] = served(type(policy).__name__, arena, *times)
    for row in rows.values():
        assert row.tokens_per_s == pytest.approx(779, rel=0.10)
    assert rows["VTC"].difference_max < 0.6 * rows["FIFO"].difference_max
    assert rows["VTC"].difference_mean < 0.75 * rows["FIFO"].difference_mean
    assert rows["VTC"].difference_variance < 0.4 * rows["FIFO"].difference_variance
    # And as unfair as the real VTC was, give or take.
    assert rows["VTC"].difference_max == pytest.approx(real.difference_max, rel=0.15)
    assert rows["VTC"].difference_mean == pytest.approx(real.difference_mean, rel=0.15)


@needs_arena
def test_an_unlimited_gateway_undoes_the_fairness() -> None:
    """The hidden queue, on a real trace: every order is first come, first served."""
    arena = read_arena(ARENA)
    profile = load_profile("a10g-llama-7b")
    finishes = [
        replay_arena(arena, policy, profile, gateway_slots=0).requests["finish"].tolist()
        for policy in (VTC(), FIFO())
    ]
    assert finishes[0] == finishes[1]


def test_service_differences_by_hand(tmp_path: Path) -> None:
    """Two tenants, 100 s. At t = 50 the window is 20 … 80 s.

    a: one request of 100 + 2·100 = 300, served from 0 to 100 s: 180 of it in the window, 3 a second.
    b: asked at 30 s for 10 + 2·25 = 60, 1 a second, served from 90 s on: nothing. It falls short of a by 3
    and of what it asked for by 1, so by 1; a got more than it asked for in the window, and leads.
    """
    file = tmp_path / "arena.csv"
    file.write_text("arrived_s,tenant,input_tokens,output_tokens\n0,a,100,100\n30,b,10,25\n100,a,1,1\n")
    arena = read_arena(file)
    assert arena.finish is None
    first, finish = np.array([0.0, 90.0, 200.0]), np.array([100.0, 110.0, 210.0])
    differences = service_differences(arena, first, finish)
    assert differences.shape == (100,)
    assert differences[50] == pytest.approx(1.0)
