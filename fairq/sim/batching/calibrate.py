"""From measurements to a profile: least squares on steps, or on whole runs replayed.

A table of steps gives the formula directly: each row is bound by the weights (``o + a + b·B + c·KV``) or by
its prompts (``o + p·T + c·KV``), and within one assignment of rows the fit is linear; assignment and fit take
turns until nothing changes. Runs give no steps, so there the engine itself is fitted: Gauss-Newton on the
logarithms of each request's time per token and end-to-end time. Errors are relative throughout: 1 ms matters
more in a 20 ms step than in one of 200.

A coefficient is only as good as the data can tell it from the others. Standard errors come from the
curvature; two coefficients whose estimates are all but perfectly correlated are named, and so is one that no
row depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Several
from dataclasses import dataclass
from itertools import combinations
from math import inf

import numpy as np
from numpy.typing import NDArray

from fairq.sim.batching.agreement import measures, replay_run
from fairq.sim.batching.core import Limits
from fairq.sim.batching.profile import COEFFICIENTS, Profile
from fairq.workload.vllm_run import RealRequest

Array = NDArray[np.float64]

NAMES = ("a_ms", "b_ms", "c_ms", "p_ms", "o_ms")

CORRELATED = 0.98
"""Two estimates correlated this strongly cannot be told apart: one may grow while the other shrinks."""

NOISE = 0.01
"""No run is repeatable to better than this share of a request's times, however well a fit describes one."""


@dataclass(frozen=True)
class Fit:
    """A fitted profile and how far to trust it.

    Attributes
    ----------
    profile : the coefficients (ms); those not fitted are as given.
    fitted : their names.
    error : standard error per fitted coefficient (ms); infinite for one the data cannot tell.
    rms, worst : root mean square and largest relative residual.
    n : measurements fitted (table rows; for runs, two per request).
    together : groups of coefficients that the data cannot tell apart.
    unseen : coefficients that nothing in the data depends on; left as given (0 for a table).
    """

    profile: Profile
    fitted: tuple[str, ...]
    error: dict[str, float]
    rms: float
    worst: float
    n: int
    together: tuple[tuple[str, ...], ...]
    unseen: tuple[str, ...]


def fit_steps(sequences: Array, prompt_tokens: Array, context_tokens: Array, step_ms: Array) -> Fit:
    """Fit all coefficients to measured steps (B, T, KV, ms), arrays of shape (n,).

    Where o and a cannot be told apart (no step is bound by its prompts), o is 0 and a holds both.

    Raises ``ValueError`` for arrays of unlike length, too few rows, or values that are negative or not
    finite.
    """
    b, t, kv, ms = (np.asarray(x, dtype=float) for x in (sequences, prompt_tokens, context_tokens, step_ms))
    if not len(b) == len(t) == len(kv) == len(ms):
        raise ValueError(f"columns differ in length: {len(b)}, {len(t)}, {len(kv)}, {len(ms)}")
    if len(ms) < 2:
        raise ValueError(f"a fit needs at least 2 steps, got {len(ms)}")
    for name, values, least in (("B", b, 1), ("T", t, 0), ("KV", kv, 0)):
        bad = np.flatnonzero(~np.isfinite(values) | (values < least))
        if len(bad):
            raise ValueError(f"{name} must be >= {least}, got {values[bad[0]]} in row {bad[0] + 1}")
    bad = np.flatnonzero(~np.isfinite(ms) | (ms <= 0))
    if len(bad):
        raise ValueError(f"step_ms must be > 0, got {ms[bad[0]]} in row {bad[0] + 1}")

    theta, design = _best(b, t, kv, ms, with_o=True)
    error, together, unseen = _judge(theta, design, b, t, kv, ms)
    if any({"a_ms", "o_ms"} <= set(group) for group in together):
        theta, _ = _best(b, t, kv, ms, with_o=False)
    residual = _model_ms(theta, b, t, kv) / ms - 1
    a_ms, b_ms, c_ms, p_ms, o_ms = theta.tolist()
    profile = Profile(a_ms, b_ms, c_ms, p_ms, o_ms, name="fitted", kind="measured")
    return Fit(
        profile,
        tuple(name for name in NAMES if name not in unseen),
        error,
        float(np.sqrt(np.mean(residual**2))),
        float(np.abs(residual).max()),
        len(ms),
        together,
        unseen,
    )


def fit_runs(
    runs: Several[tuple[Several[RealRequest], Limits]],
    start: Profile,
    names: Iterable[str] = ("o_ms",),
    rounds: int = 12,
) -> Fit:
    """Fit the named coefficients so that the engine, replaying the runs, takes as long as they did.

    ``start`` gives the first guess and the coefficients not fitted. Compared are the logarithms of each
    request's time per output token and end-to-end time. Raises ``ValueError`` for a name that is no
    coefficient, or for no runs.
    """
    names = tuple(names)
    unknown = sorted(set(names) - set(COEFFICIENTS))
    if unknown or not names or not runs:
        raise ValueError(f"fit one or more of {', '.join(COEFFICIENTS)} to one or more runs, got {names!r}")

    # A single token has no time per token; which those are never changes.
    known = np.concatenate(
        [[r.output_tokens > 1 for r in requests] + [True] * len(requests) for requests, _ in runs]
    )

    def residuals(theta: Array) -> Array:
        profile = start.with_(**dict(zip(names, theta.tolist(), strict=True)))
        parts = []
        for requests, limits in runs:
            replayed = replay_run(requests, profile, limits)
            model = measures(replayed.sequences, [r.arrival for r in requests])
            tpot = np.array([np.nan if r.tpot is None else r.tpot for r in requests])
            with np.errstate(divide="ignore", invalid="ignore"):
                parts += [np.log(model["TPOT"] / tpot), np.log(model["e2e"] / [r.latency for r in requests])]
        both: Array = np.concatenate(parts)[known]
        return both

    guess = np.array([getattr(start, name) for name in names], dtype=float)
    scale = _scale(start, names)
    theta = _gauss_newton(residuals, guess, scale, rounds)
    residual = residuals(theta)
    # How the run answers a change of a coefficient, over a change large enough to drown the jumps.
    effect = _jacobian(residuals, theta, 0.25 * scale) * scale
    unseen = tuple(name for j, name in enumerate(names) if np.abs(effect[:, j]).max() < 1e-9)
    unexplained = max(float(np.linalg.norm(residual)), NOISE * np.sqrt(len(residual)))
    together = _parallel(effect, unexplained, names, unseen)
    lost = {name for group in together for name in group} | set(unseen)
    variance = float(residual @ residual) / max(len(residual) - len(names), 1)
    size = np.linalg.norm(effect, axis=0)
    return Fit(
        start.with_(**dict(zip(names, theta.tolist(), strict=True)), name=f"{start.name}, fitted"),
        tuple(name for name in names if name not in unseen),
        {
            name: inf if name in lost else float(np.sqrt(variance) * scale[j] / size[j])
            for j, name in enumerate(names)
            if name not in unseen
        },
        float(np.sqrt(np.mean(residual**2))),
        float(np.abs(residual).max()),
        len(residual),
        together,
        unseen,
    )


def _model_ms(theta: Array, b: Array, t: Array, kv: Array) -> Array:
    a_ms, b_ms, c_ms, p_ms, o_ms = theta
    step: Array = o_ms + np.maximum(a_ms + b_ms * b, p_ms * t) + c_ms * kv
    return step


def _best(b: Array, t: Array, kv: Array, ms: Array, *, with_o: bool) -> tuple[Array, Array]:
    """The best fit over first assignments: every step with at least so many prompt tokens is prompt-bound."""
    found: tuple[Array, Array] | None = None
    least = np.inf
    for threshold in (np.inf, *np.unique(t[t > 0])):
        theta, design = _alternate(b, t, kv, ms, t >= threshold, with_o)
        residual = _model_ms(theta, b, t, kv) / ms - 1
        sse = float(residual @ residual)
        if found is None or sse < least * (1 - 1e-9):
            least, found = sse, (theta, design)
    assert found is not None
    return found


def _judge(
    theta: Array, design: Array, b: Array, t: Array, kv: Array, ms: Array
) -> tuple[dict[str, float], tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Standard errors, what cannot be told apart, and what nothing depends on."""
    residual = _model_ms(theta, b, t, kv) / ms - 1
    seen = [j for j in range(len(NAMES)) if design[:, j].any()]
    error, together = _confidence(design[:, seen], float(residual @ residual), [NAMES[j] for j in seen])
    return error, together, tuple(name for j, name in enumerate(NAMES) if j not in seen)


def _alternate(
    b: Array, t: Array, kv: Array, ms: Array, by_prompt: NDArray[np.bool_], with_o: bool
) -> tuple[Array, Array]:
    """Assignment and linear fit in turns, from one assignment; coefficients and weighted design."""
    one = np.ones_like(b)
    theta, design = np.zeros(5), np.zeros((len(b), 5))
    for _ in range(50):
        w = ~by_prompt
        design = np.column_stack([w * one, w * b, kv, by_prompt * t, one]) / ms[:, None]
        theta = _least_squares(design if with_o else design[:, :4])
        now = theta[3] * t > theta[0] + theta[1] * b
        if (now == by_prompt).all():
            break
        by_prompt = now
    return theta, design


def _least_squares(design: Array) -> Array:
    """Coefficients >= 0 for relative errors (target 1), the fewest that fit: o is the first to be left out.

    Every subset of five columns is few enough to try: the best one whose solution is not negative.
    """
    target = np.ones(len(design))
    seen = [j for j in range(design.shape[1]) if design[:, j].any()]
    order = {0: 4, 1: 3, 2: 2, 3: 2, 4: 0}
    best = np.zeros(5)
    least = np.inf
    for size in range(1, len(seen) + 1):
        for chosen in sorted(combinations(seen, size), key=lambda s: -sum(order[j] for j in s)):
            columns = design[:, chosen]
            norms = np.linalg.norm(columns, axis=0)
            solution, _, rank, _ = np.linalg.lstsq(columns / norms, target, rcond=1e-9)
            if rank < size or (solution < 0).any():
                continue
            residual = columns @ (solution / norms) - target
            sse = float(residual @ residual)
            # A further coefficient must earn its place beyond rounding.
            if sse < least * (1 - 1e-6) - 1e-18:
                least = sse
                best = np.zeros(5)
                best[list(chosen)] = solution / norms
    return best


def _scale(start: Profile, names: Several[str]) -> Array:
    """A size for each coefficient, to take steps by; o may well be 0, and is measured against a."""
    sizes = {name: getattr(start, name) or 1e-3 * max(start.a_ms, 1.0) for name in COEFFICIENTS}
    sizes["o_ms"] = max(start.o_ms, 0.2 * max(start.a_ms, 1.0))
    return np.array([sizes[name] for name in names])


def _gauss_newton(residuals: Callable[[Array], Array], theta: Array, scale: Array, rounds: int) -> Array:
    """Damped Gauss-Newton with coefficients >= 0; a step counts only if it lowers the error."""
    current = residuals(theta)
    damping = 1e-3
    for _ in range(rounds):
        scaled = _jacobian(residuals, theta, 0.1 * scale) * scale
        gradient, curvature = scaled.T @ current, scaled.T @ scaled
        before = float(current @ current)
        while True:
            lhs = curvature + damping * (np.diag(np.diag(curvature)) + 1e-12 * np.eye(len(theta)))
            trial = np.maximum(theta + np.linalg.solve(lhs, -gradient) * scale, 0.0)
            tried = residuals(trial)
            after = float(tried @ tried)
            if after < before:
                break
            damping *= 10
            if damping > 1e6:
                return theta
        small = (np.abs(trial - theta) < 1e-4 * scale).all() or before - after < 1e-6 * before
        theta, current, damping = trial, tried, max(damping / 10, 1e-6)
        if small:
            break
    return theta


def _jacobian(residuals: Callable[[Array], Array], theta: Array, change: Array) -> Array:
    """Differences over ``change`` to both sides (not below 0).

    A replay answers a small change with jumps (who is admitted when), so the changes must not be small.
    """
    columns = []
    for j in range(len(theta)):
        up, down = theta.copy(), theta.copy()
        up[j] += change[j]
        down[j] = max(down[j] - change[j], 0.0)
        columns.append((residuals(up) - residuals(down)) / (up[j] - down[j]))
    return np.column_stack(columns)


def _parallel(
    effect: Array, unexplained: float, names: Several[str], unseen: Several[str]
) -> tuple[tuple[str, ...], ...]:
    """Groups of coefficients with the same effect, as far as the data can see.

    ``effect``: what a change by each one's size does to the measurements, shape (n, k). Two are told apart
    only if the part of one effect that the other cannot imitate exceeds what the fit leaves unexplained.
    """
    groups: list[set[str]] = []
    for i, j in combinations(range(len(names)), 2):
        x, y = effect[:, i], effect[:, j]
        if names[i] in unseen or names[j] in unseen:
            continue
        cosine = float(x @ y / np.sqrt((x @ x) * (y @ y)))
        smaller = min(np.linalg.norm(x), np.linalg.norm(y))
        if smaller * np.sqrt(max(1 - cosine**2, 0.0)) <= max(unexplained, 1e-7 * smaller):
            pair = {names[i], names[j]}
            touching = [group for group in groups if group & pair]
            groups = [group for group in groups if not group & pair] + [pair.union(*touching)]
    return tuple(tuple(name for name in names if name in group) for group in groups)


def _confidence(
    design: Array, sse: float, names: Several[str]
) -> tuple[dict[str, float], tuple[tuple[str, ...], ...]]:
    """Standard errors, and which coefficients the data cannot tell apart."""
    n, k = design.shape
    if k == 0:
        return {}, ()
    norms = np.linalg.norm(design, axis=0)
    _, singular, vt = np.linalg.svd(design / norms, full_matrices=False)
    together: list[tuple[str, ...]] = []
    lost: set[int] = set()
    for value, direction in zip(singular, vt, strict=True):
        if value < 1e-7 * singular[0] or k > n:
            group = [j for j in range(k) if abs(direction[j]) > 1e-3]
            together.append(tuple(names[j] for j in group))
            lost |= set(group)
    variance = sse / max(n - k, 1)
    inverse = (vt.T / np.maximum(singular, 1e-12 * singular[0]) ** 2) @ vt
    spread = np.sqrt(np.diag(inverse))
    error = {
        name: inf if j in lost else float(np.sqrt(variance) * spread[j] / norms[j])
        for j, name in enumerate(names)
    }
    for i, j in combinations(range(k), 2):
        correlation = inverse[i, j] / (spread[i] * spread[j])
        if abs(correlation) > CORRELATED and not {i, j} & lost:
            together.append((names[i], names[j]))
    return error, tuple(together)
