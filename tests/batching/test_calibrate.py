"""Coefficients back from data made from them, from a published table, and the honest "cannot tell"."""

from __future__ import annotations

import random
from math import inf, isfinite

import numpy as np
import pytest

from fairq.sim.batching import Limits, Profile
from fairq.sim.batching.agreement import replay_run
from fairq.sim.batching.calibrate import fit_runs, fit_steps
from fairq.workload.vllm_run import RealRequest

TRUE = Profile(16.875, 0.042, 1.493e-4, 0.0932, 2.0)
NAMES = ("a_ms", "b_ms", "c_ms", "p_ms", "o_ms")


def steps(profile: Profile, n: int = 300, prompts: tuple[int, ...] = (0, 0, 50, 300, 1000, 2000)) -> tuple:
    rng = np.random.default_rng(1)
    b, t, kv = rng.integers(1, 60, n), rng.choice(prompts, n), rng.integers(1000, 40000, n)
    ms = np.array([profile.step_ms(*row) for row in zip(b.tolist(), t.tolist(), kv.tolist(), strict=True)])
    return b, t, kv, ms


def test_exact_steps_give_the_coefficients_back() -> None:
    fit = fit_steps(*steps(TRUE))
    for name in NAMES:
        assert getattr(fit.profile, name) == pytest.approx(getattr(TRUE, name), rel=1e-9)
    assert fit.worst < 1e-12
    assert fit.together == fit.unseen == ()


def test_noisy_steps_give_them_back_within_their_own_error() -> None:
    b, t, kv, ms = steps(TRUE)
    noisy = ms * (1 + 0.02 * np.random.default_rng(2).standard_normal(len(ms)))
    fit = fit_steps(b, t, kv, noisy)
    assert fit.rms == pytest.approx(0.02, rel=0.1)
    for name in NAMES:
        assert abs(getattr(fit.profile, name) - getattr(TRUE, name)) < 4 * fit.error[name]
    assert fit.together == ()


def test_decodes_alone_cannot_tell_the_weights_from_the_idle_time() -> None:
    fit = fit_steps(*steps(TRUE, prompts=(0,)))
    assert fit.together == (("a_ms", "o_ms"),)
    assert fit.error["a_ms"] == fit.error["o_ms"] == inf
    assert isfinite(fit.error["b_ms"])
    assert fit.unseen == ("p_ms",)
    # Their sum is certain, and is given to a.
    assert (fit.profile.a_ms, fit.profile.o_ms) == (pytest.approx(18.875), 0.0)
    assert fit.profile.b_ms == pytest.approx(TRUE.b_ms)


def test_a_context_that_grows_with_the_batch_cannot_be_told_from_it() -> None:
    b = np.arange(1, 60)
    kv = 500 * b
    ms = np.array([TRUE.step_ms(int(x), 0, int(y)) for x, y in zip(b, kv, strict=True)])
    fit = fit_steps(b, 0 * b, kv, ms)
    assert any({"b_ms", "c_ms"} <= set(group) for group in fit.together)
    assert fit.profile.b_ms + 500 * fit.profile.c_ms == pytest.approx(TRUE.b_ms + 500 * TRUE.c_ms)


def test_no_coefficient_is_ever_negative() -> None:
    """Steps that get faster with the batch: no profile does that, so b is 0."""
    b = np.arange(1, 50)
    fit = fit_steps(b, 0 * b, 0 * b, 30 - 0.1 * b)
    assert fit.profile.b_ms == 0


# (input, output, sequences, seconds of decoding per sequence): forward passes measured on an A10G with
# Llama-7B, github.com/Ying1123/VTC-artifact, fair_bench/cost_profile.json, those of 13 to 52 sequences.
A10G = [
    (8, 196, 49, 0.1481780130036023),
    (8, 256, 37, 0.25211187311120936),
    (64, 128, 52, 0.09524754836009099),
    (64, 196, 38, 0.19397689794239245),
    (64, 256, 31, 0.3002634279189571),
    (256, 64, 31, 0.08188322282606555),
    (256, 128, 26, 0.19023098395420954),
    (256, 196, 22, 0.3372117714448409),
    (256, 256, 19, 0.5011190740685714),
    (512, 64, 17, 0.14756104525397806),
    (512, 128, 15, 0.3330008188883464),
    (512, 196, 14, 0.5448835747582572),
    (512, 256, 13, 0.7603553992051345),
]


def test_the_shipped_a10g_profile_is_the_fit_of_its_published_table() -> None:
    from fairq.profiles import load_profile

    b = np.array([n for _, _, n, _ in A10G])
    kv = np.array([n * (prompt + output / 2) for prompt, output, n, _ in A10G])
    ms = np.array([1000 * n * s / output for _, output, n, s in A10G])
    assert ms.min() > 36
    assert ms.max() < 40
    fit = fit_steps(b, 0 * b, kv, ms)
    assert fit.worst < 0.015
    shipped = load_profile("a10g-llama-7b")
    for name in ("a_ms", "b_ms", "c_ms"):
        assert getattr(shipped, name) == pytest.approx(getattr(fit.profile, name), rel=0.02)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1], [0], [1], [10]), "at least 2 steps, got 1"),
        (([1, 2], [0], [1, 1], [10, 10]), "columns differ in length: 2, 1, 2, 2"),
        (([1, 0], [0, 0], [1, 1], [10, 10]), "B must be >= 1, got 0.0 in row 2"),
        (([1, 1], [0, -3], [1, 1], [10, 10]), "T must be >= 0, got -3.0 in row 2"),
        (([1, 1], [0, 0], [1, 1], [10, 0]), "step_ms must be > 0, got 0.0 in row 2"),
        (([1, 1], [0, 0], [1, np.nan], [10, 1]), "KV must be >= 0, got nan in row 2"),
    ],
)
def test_bad_tables(columns: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_steps(*map(np.array, columns))


def a_run(
    truth: Profile, n: int = 120, rate: float = 1.5, longest: int = 1500
) -> tuple[list[RealRequest], Limits]:
    """What an engine with these coefficients would have logged."""
    rng = random.Random(5)
    limits = Limits(64, 1024, 30_000)
    at, work = 0.0, []
    for i in range(n):
        at += rng.expovariate(rate)
        prompt, output = rng.randint(longest // 30, longest), rng.randint(20, 400)
        work.append(RealRequest(i, prompt, output, at, at, at + 1.0))
    done = replay_run(work, truth, limits).sequences
    return [
        RealRequest(r.id, r.prompt_tokens, r.output_tokens, r.arrival, s.first, s.finish)
        for r, s in zip(work, done, strict=True)
    ], limits


def test_a_run_gives_its_idle_time_back() -> None:
    fit = fit_runs([a_run(TRUE.with_(o_ms=3.0))], TRUE.with_(o_ms=0))
    assert fit.profile.o_ms == pytest.approx(3.0, abs=0.02)
    assert fit.profile.a_ms == TRUE.a_ms
    assert fit.fitted == ("o_ms",)
    assert fit.together == ()


def test_a_run_of_short_prompts_cannot_tell_the_weights_from_the_idle_time() -> None:
    """No step is bound by its prompts: only the sum is right, and the fit says so."""
    fit = fit_runs([a_run(TRUE, longest=60)], TRUE.with_(a_ms=15.0, o_ms=1.0), ("a_ms", "o_ms"))
    assert fit.together == (("a_ms", "o_ms"),)
    assert fit.error == {"a_ms": inf, "o_ms": inf}
    assert fit.profile.a_ms + fit.profile.o_ms == pytest.approx(TRUE.a_ms + TRUE.o_ms, rel=0.02)


def test_a_run_without_waiting_tells_the_prompts_from_the_weights() -> None:
    fit = fit_runs([a_run(TRUE, rate=0.5)], TRUE.with_(p_ms=0.05, o_ms=0), ("o_ms", "p_ms"))
    assert fit.together == ()
    assert fit.profile.p_ms == pytest.approx(TRUE.p_ms, rel=0.1)
    assert fit.profile.o_ms == pytest.approx(TRUE.o_ms, rel=0.1)


def test_runs_need_names_and_data() -> None:
    run = a_run(TRUE, n=3)
    for runs, names in (([run], ()), ([run], ("x_ms",)), ([], ("o_ms",))):
        with pytest.raises(ValueError, match="fit one or more of a_ms"):
            fit_runs(runs, TRUE, names)
