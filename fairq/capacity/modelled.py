"""Cards without running anything: from a hardware profile, from slots, from a scenario.

Continuous batching in closed form. With n streams of shape (P prompt, L output tokens, X context), a request
stays for ``s = ceil(P / budget left)`` steps that compute its prompt and L - 1 that make one token each. All
streams are at random places of that, so ``k ~ Binomial(n - 1, s / (s + L - 1))`` others compute a prompt in
the same step, which takes ``o + max(a + b·n, p·T) + c·n·X`` ms with T = k (or k + 1) chunks: the step time
of ``fairq.sim.batching.profile``, averaged; prompt tokens beyond the budget go into later steps. A test
compares it with the simulated engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from fairq.capacity.card import Card, Limits, make_card
from fairq.capacity.shape import Shape

KV_USABLE = 0.9
"""Part of the KV cache that counts: fuller, an engine preempts and recomputes, and more add little."""


@dataclass(frozen=True)
class Speed:
    """A point: seconds to the first token once in service, and per token after it."""

    first_s: float
    token_s: float


def from_profile(
    profile: Any,
    shape: Shape,
    *,
    max_num_seqs: int = 256,
    max_num_batched_tokens: int = 2048,
    kv_tokens: int | None = None,
    block_tokens: int = 16,
    gateway_slots: int | None = None,
    **asked: Any,
) -> Card:
    """The card of one GPU with continuous batching.

    Parameters
    ----------
    profile : a ``fairq.sim.batching.Profile``.
    max_num_seqs, max_num_batched_tokens, kv_tokens, block_tokens : as the engine was started; ``kv_tokens``
        defaults to the profile's, None there: KV sets no limit on this card.
    gateway_slots : how many the gateway releases at once; None: no limit.
    asked : ``users, ttft_s, tpot_s, think_s`` of ``make_card``; ``source``.

    Raises
    ------
    ValueError : a request that the KV cache cannot hold, or a limit below 1.
    """
    for name, value in (("max_num_seqs", max_num_seqs), ("max_num_batched_tokens", max_num_batched_tokens)):
        if value < 1:
            raise ValueError(f"{name} must be >= 1, got {value!r}")
    if gateway_slots is not None and gateway_slots < 1:
        raise ValueError(f"gateway_slots must be >= 1, got {gateway_slots!r}")
    kv = profile.kv_tokens if kv_tokens is None else kv_tokens
    fit = None
    if kv is not None:
        if shape.prompt_tokens + shape.output_tokens > kv:
            raise ValueError(
                f"a request of {shape.prompt_tokens:,.0f} + {shape.output_tokens:,.0f} tokens does not fit"
                f" the KV cache of {kv:,} tokens"
            )
        # On average half of a stream's last block is empty.
        fit = int(KV_USABLE * kv / (shape.context_tokens + (block_tokens - 1) / 2))
    notes = [] if kv is not None else ["the profile does not say how much KV fits: give kv_tokens"]
    asked.setdefault("source", f"profile {profile.name}: {profile.gpu}, {profile.model} ({profile.kind})")
    return make_card(
        lambda n: batching_speed(profile, shape, n, max_num_batched_tokens),
        shape,
        Limits(slots=max_num_seqs, kv=None if fit is None else max(fit, 1), gateway=gateway_slots),
        kind="profile",
        kv_tokens=kv,
        arithmetic=lambda n: _step_words(profile, shape, n, max_num_batched_tokens),
        notes=notes,
        **asked,
    )


def relief(profile: Any, shape: Shape, **engine: Any) -> float:
    """How much more twice the slots and twice the KV cache would serve (``fairq.saturation.judge``).

    ``engine``: as ``from_profile`` takes it. Raises ValueError.
    """
    now = from_profile(profile, shape, **engine)
    kv = engine.get("kv_tokens") or profile.kv_tokens
    more = {"max_num_seqs": 2 * engine.get("max_num_seqs", 256), "kv_tokens": None if kv is None else 2 * kv}
    gateway = engine.get("gateway_slots")
    twice = from_profile(
        profile, shape, **{**engine, **more, "gateway_slots": None if gateway is None else 2 * gateway}
    )
    return max(twice.top.tokens_per_s / now.top.tokens_per_s, 1.0)


def relief_of(scenario: Any) -> float:
    """The same for a scenario's engine: slots that do not slow each other serve twice as much."""
    engine = scenario.engine()
    if not hasattr(engine, "profile"):
        return 2.0
    limits, shape = engine.limits, from_scenario(scenario).shape
    assert shape is not None  # a scenario's card has one
    return relief(
        engine.profile,
        shape,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        kv_tokens=limits.kv_tokens,
        block_tokens=limits.block_tokens,
        gateway_slots=engine.slots,
    )


def batching_speed(profile: Any, shape: Shape, n: int, budget: int) -> Speed:
    """The mean first-token and per-token times with n streams; see the module's text."""
    room = max(budget - (n - 1), 1)
    prompt_steps = max(ceil(shape.prompt_tokens / room), 1)
    chunk = shape.prompt_tokens / prompt_steps
    rest = shape.output_tokens - 1
    flat = profile.a_ms + profile.b_ms * n
    queued, others = 0.0, np.ones(1)
    for _ in range(20):
        others = _binomial(n - 1, min(prompt_steps / (prompt_steps + queued + rest), 1.0))
        # Prompts that find the budget of a step taken wait for later ones.
        behind = float(others @ np.maximum((np.arange(n) + 1) * chunk - room, 0)) / room
        full = n * shape.prompt_tokens / room - prompt_steps - rest
        queued = (queued + max(behind * prompt_steps, full, 0.0)) / 2

    def step_ms(tokens: Any) -> float:
        now = np.minimum(tokens, room)
        later = float(others @ (tokens - now)) / room
        spread = later * max(profile.p_ms * room - flat, 0.0)
        work = float(others @ np.maximum(flat, profile.p_ms * now)) + spread
        context = profile.c_ms * n * shape.context_tokens
        return float(profile.o_ms + min(work, max(flat, profile.p_ms * room)) + context)

    decode_ms = step_ms(np.arange(n) * chunk)
    own_ms = step_ms((np.arange(n) + 1) * chunk)
    return Speed((prompt_steps + queued) * own_ms / 1000, decode_ms / 1000)


def from_slots(
    slots: int,
    first_s: float,
    token_s: float,
    shape: Shape,
    *,
    gateway_slots: int | None = None,
    **asked: Any,
) -> Card:
    """The card of slots that do not slow each other (``fairq.sim.SlotEngine``). Raises ValueError."""
    speed = Speed(first_s, token_s)
    service = first_s + (shape.output_tokens - 1) * token_s
    words = [
        f"one request: {first_s:.3g} s to the first token + {shape.output_tokens - 1:,.0f} more"
        f" × {token_s * 1000:.3g} ms = {service:.3g} s for {shape.output_tokens:,.0f} tokens"
    ]
    asked.setdefault("source", f"{slots} slots")
    return make_card(
        lambda n: speed,
        shape,
        Limits(slots=slots, gateway=gateway_slots),
        kind="slots",
        arithmetic=lambda n: words,
        **asked,
    )


def from_scenario(scenario: Any, **asked: Any) -> Card:
    """The card of a scenario's engine under the requests of its tenants.

    Raises
    ------
    ValueError : an engine that this does not know, or requests without tokens.
    """
    engine = scenario.engine()
    requests = _requests(scenario)
    sized = [each for each in requests if each.prompt_tokens is not None and each.output_tokens]
    shape = Shape.from_sizes(
        [float(each.prompt_tokens) for each in sized], [float(each.output_tokens) for each in sized]
    )
    asked.setdefault("source", f"scenario {scenario.name}")
    if hasattr(engine, "service_s"):
        service = float(np.mean([float(engine.service_s(each)) for each in sized]))
        given = any(each.service is not None for each in sized)
        token_s = service / shape.output_tokens if given else 1 / float(engine.decode_tokens_per_s)
        first_s = service - (shape.output_tokens - 1) * token_s
        return from_slots(engine.slots, first_s, token_s, shape, **asked)
    if hasattr(engine, "profile") and hasattr(engine, "limits"):
        limits = engine.limits
        return from_profile(
            engine.profile,
            shape,
            max_num_seqs=limits.max_num_seqs,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            kv_tokens=limits.kv_tokens,
            block_tokens=limits.block_tokens,
            gateway_slots=engine.slots,
            **asked,
        )
    raise ValueError(f"no card for this engine: {engine!r}")


def _requests(scenario: Any) -> list[Any]:
    """The scenario's requests, and the first few of each closed-loop worker."""
    workload = scenario.workload()
    requests = list(workload.requests(scenario.seed))
    for source in workload.closed_loops(scenario.seed, 0):
        requests += [source.request(worker, n, 0) for worker in range(source.workers) for n in range(20)]
    return requests


def _binomial(n: int, p: float) -> Any:
    """P(k of n), shape (n + 1,), by the ratio of neighbours from the mode on (no factorials)."""
    if n == 0 or p >= 1:
        return np.eye(n + 1)[n if n else 0]
    mode = min(int((n + 1) * p), n)
    odds = p / (1 - p)
    weights = np.ones(n + 1)
    for k in range(mode, n):
        weights[k + 1] = weights[k] * (n - k) / (k + 1) * odds
    for k in range(mode, 0, -1):
        weights[k - 1] = weights[k] * k / ((n - k + 1) * odds)
    return weights / weights.sum()


def _step_words(profile: Any, shape: Shape, n: int, budget: int) -> Sequence[str]:
    """How the time of a token with n streams comes about."""
    read, each = profile.a_ms, profile.b_ms * n
    context = profile.c_ms * n * shape.context_tokens
    step = profile.o_ms + read + each + context
    token = batching_speed(profile, shape, n, budget).token_s * 1000
    idle = f"{profile.o_ms:.2f} idle + " if profile.o_ms else ""
    return [
        f"a step with {n} streams: {idle}{read:.2f} (read the weights) + {n} × {profile.b_ms:.4g}"
        f" (sequences) + {n} × {shape.context_tokens:,.0f} × {profile.c_ms:.4g} (contexts) = {step:.2f} ms",
        f"prompts of others that share the step: + {token - step:.2f} ms, so a token takes {token:.2f} ms",
    ]
