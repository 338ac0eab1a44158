"""The ``engine:`` of a scenario: plain data → a fresh engine of ``fairq.sim``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import model_validator

from fairq.scenario.engine_base import EngineSpec as EngineSpec
from fairq.scenario.engine_base import ProfileName, profile_of
from fairq.scenario.fleets import FLEETS
from fairq.scenario.spec import Count, Limit, NonNegative, Positive, Slots, choice

if TYPE_CHECKING:
    from fairq.sim import SlotEngine
    from fairq.sim.batching import BatchingEngine


class SlotsSpec(EngineSpec):
    """``{kind: slots, slots: 8, overhead_s: 0.05, prefill_tokens_per_s: 8000, decode_tokens_per_s: 40}``."""

    tag = ("kind", "slots")
    slots: Slots = 8
    overhead_s: NonNegative = 0.0
    prefill_tokens_per_s: Positive = 8000
    decode_tokens_per_s: Positive = 40

    def build(self) -> SlotEngine:
        # A scenario can be checked and changed without SimPy.
        from fairq.sim import SlotEngine

        return SlotEngine(**dict(self))


class BatchingSpec(EngineSpec):
    """``{kind: batching, profile: rtx4090-llama31-8b, max_num_seqs: 256, …}``: one GPU, as vLLM runs it.

    ``profile``: a shipped profile, a YAML file, or the coefficients themselves. The settings are those of
    ``fairq.sim.batching.BatchingEngine``.
    """

    tag = ("kind", "batching")
    profile: ProfileName = "rtx4090-llama31-8b"
    max_num_seqs: Count = 256
    max_num_batched_tokens: Count = 2048
    kv_tokens: Count | None = None
    block_tokens: Count = 16
    scheduling: str = "fcfs"
    gateway_slots: Limit | None = None
    admission: str = "prompt"
    chunked_prefill: bool = True

    @model_validator(mode="after")
    def _fits_together(self) -> BatchingSpec:
        self.build()
        return self

    def build(self) -> BatchingEngine:
        from fairq.sim.batching import BatchingEngine

        return BatchingEngine(**(dict(self) | {"profile": profile_of(self.profile)}))


ENGINES: Mapping[str, type[EngineSpec]] = {"slots": SlotsSpec, "batching": BatchingSpec, **FLEETS}

AnyEngine = Annotated[EngineSpec, choice(ENGINES, "kind")]
