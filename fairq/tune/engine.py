"""The engine a log was served by, as far as the log tells: slots and speeds, for a replay of the same box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairq.capacity import from_served
from fairq.scenario import Scenario
from fairq.workload.readers import Log
from fairq.workload.trace import TraceError
from fairq.workload.vllm_run import read_run


@dataclass(frozen=True)
class SeenEngine:
    """``data``: an ``engine:`` entry of a scenario; ``words``: how it was found.

    ``kv_tokens``: what its KV cache holds, where that and not slots is what binds; or None.
    """

    data: dict[str, Any]
    words: str
    kv_tokens: int | None = None


def engine_of(log: Log) -> SeenEngine | None:
    """Slots as many as ran at once, each with the speed a stream then had; None where the log does not say.

    A log says it when its requests have a start or a first token, and an end. Where only the first token is
    known, a request counts as in service from then on, which sees a somewhat smaller box.
    """
    served = log.in_service()
    if served is None or served.empty:
        return None
    try:
        card = from_served(served, source=log.account.source)
    except ValueError:
        return None
    row = card.at(card.max_streams)
    prompt = card.shape.prompt_tokens if card.shape is not None else 0.0
    if not row.time_per_output_token_s > 0:
        return None
    prefill = prompt / row.first_token_s if row.first_token_s > 0 and prompt > 0 else 8000.0
    data = {
        "kind": "slots",
        "slots": card.max_streams,
        "prefill_tokens_per_s": float(f"{prefill:.4g}"),
        "decode_tokens_per_s": float(f"{1 / row.time_per_output_token_s:.4g}"),
    }
    words = (
        f"engine as the log shows it: {card.max_streams} at once, {data['decode_tokens_per_s']:g} tokens/s"
        f" each (time per output token {1000 * row.time_per_output_token_s:.1f} ms), prompts at"
        f" {data['prefill_tokens_per_s']:,.0f} tokens/s"
    )
    kv_tokens = None
    if card.binds == "KV" and card.shape is not None:
        kv_tokens = _cache(log) or round(card.max_streams * card.shape.context_tokens)
        words += f"; what binds is its KV cache of {kv_tokens:,} tokens, not slots"
    return SeenEngine(data, words, kv_tokens)


def _cache(log: Log) -> int | None:
    """The KV cache in tokens, where the file beside a vLLM run states it."""
    if log.account.form != "vllm run":
        return None
    try:
        return read_run(log.account.source).settings.get("kv_tokens")
    except (OSError, TraceError):
        return None


def kv_of(scenario: Scenario) -> int | None:
    """The KV cache (tokens) of the engine that a log shows, if that is what binds and it is this engine."""
    spec: Any = scenario.engine_spec
    limits = getattr(scenario.engine(), "limits", None)
    if scenario.log is None or limits is not None or not isinstance(getattr(spec, "slots", None), int):
        return None
    seen = engine_of(scenario.read())
    return seen.kv_tokens if seen is not None and scenario.data()["engine"] == seen.data else None


def as_served(scenario: Scenario) -> Scenario:
    """A log on the engine that it was served by, where it tells and nobody said which."""
    if scenario.log is None or "engine" in scenario.spec.model_fields_set:
        return scenario
    seen = engine_of(scenario.read())
    return scenario if seen is None else scenario.with_({"engine": seen.data})


def engine_words(scenario: Scenario) -> str:
    """How a log's engine is known, or that it is assumed; nothing where somebody said which it is."""
    if scenario.log is None:
        return ""
    if "engine" not in scenario.spec.model_fields_set:
        spec: Any = scenario.engine_spec
        return (
            f"the log does not say what served it; assumed: {spec.slots} slots of"
            f" {spec.decode_tokens_per_s:g} tokens/s"
        )
    seen = engine_of(scenario.read())
    return seen.words if seen is not None and scenario.data()["engine"] == seen.data else ""
