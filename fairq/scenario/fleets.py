"""Engines of several parts: one card shared in some way, or replicas on cards of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from fairq.scenario.engine_base import EngineSpec, ProfileName, profile_of
from fairq.scenario.spec import Count, Limit, Name, NonNegative, Positive, Replicas, Spec

if TYPE_CHECKING:
    from fairq.memory import Part
    from fairq.sim.batching import Profile
    from fairq.sim.replicas import Fleet, Outage


class OutageSpec(Spec):
    """``{at_s: 200, part: 1, down_s: 60, kind: oom}``: that part (or replica) fails, and is back later."""

    at_s: NonNegative
    part: Limit = 0
    down_s: NonNegative = 60
    kind: Literal["fault", "oom"] = "fault"

    def build(self) -> Outage:
        from fairq.sim.replicas import Outage

        return Outage(self.at_s, self.part, self.down_s, self.kind)


class CardSpec(EngineSpec):
    """What the engines on a card have in common.

    ``profile`` is that of the whole card; with a ``model`` it is scaled from the model it was taken with.
    What the KV cache holds follows from the memory (``fairq.memory``), unless ``kv_tokens`` says it (of one
    part). ``context``: the longest request; an engine that cannot hold one does not start.
    """

    profile: ProfileName = "rtx4090-llama31-8b"
    model: Name | None = None
    card_gib: Positive | None = None
    utilisation: Positive | None = None
    overhead_gib: NonNegative | None = None
    context: Count = 4096
    kv_tokens: Count | None = None
    max_num_seqs: Count = 64
    max_num_batched_tokens: Count = 2048
    block_tokens: Count = 16
    outages: tuple[OutageSpec, ...] = ()

    def card_profile(self) -> Profile:
        """The profile of the whole card, with the model served."""
        from fairq.models import base_of, load_model, profile_for

        profile = profile_of(self.profile)
        return (
            profile if self.model is None else profile_for(profile, base_of(profile), load_model(self.model))
        )

    def memory(self, parts: int, way: str | None = None) -> Part:
        """The memory of one of ``parts`` parts. Raises ``InputError`` when the model is not known."""
        from fairq.memory import part_of
        from fairq.models import base_of, load_model

        model = load_model(self.model) if self.model is not None else base_of(profile_of(self.profile))
        settings = {
            name: value
            for name in ("card_gib", "utilisation", "overhead_gib")
            if (value := getattr(self, name)) is not None
        }
        return part_of(
            model, parts, way=way, context=self.context, block_tokens=self.block_tokens, **settings
        )

    def tokens_of_part(self, parts: int) -> int:
        """KV tokens of one part. Raises ``DoesNotFit``."""
        from fairq.memory import DoesNotFit

        if self.kv_tokens is not None:
            return self.kv_tokens
        stated = profile_of(self.profile).kv_tokens
        asked = {"model", "card_gib", "utilisation", "overhead_gib"} & self.model_fields_set
        if parts == 1 and stated is not None and not asked:
            return stated
        part = self.memory(parts)
        if not part.fits:
            raise DoesNotFit(part)
        return part.kv_tokens

    def _settings(self) -> dict[str, Any]:
        return {
            "max_num_seqs": self.max_num_seqs,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "block_tokens": self.block_tokens,
        }


class PartsSpec(CardSpec):
    """``parts`` engines on one card. ``place``: tenant or group → the part that serves it, from 0; those
    not named go where fewest requests are in flight.
    """

    way: ClassVar[str]
    parts: Count = 2
    place: dict[Name, Limit] = Field(default={})

    @model_validator(mode="after")
    def _fits_together(self) -> PartsSpec:
        self.build()
        return self

    def build(self) -> Fleet:
        from fairq.sim.partitions import partitioned

        return partitioned(
            self.way,
            self.card_profile(),
            self.parts,
            self.tokens_of_part(self.parts),
            place=self.place,
            outages=[outage.build() for outage in self.outages],
            **self._settings(),
        )


class OneEngineSpec(PartsSpec):
    """``{kind: one_engine, model: llama31-8b-int4}``: one engine has the whole card."""

    tag = ("kind", "one_engine")
    way = "one"
    parts: Count = 1


class PartitionedSpec(PartsSpec):
    """``{kind: partitioned, parts: 2, place: {chat: 0, nightly: 1}}``: MIG slices, equal ones."""

    tag = ("kind", "partitioned")
    way = "mig"


class MpsSpec(PartsSpec):
    """``{kind: mps, parts: 2}``: processes whose kernels run at once."""

    tag = ("kind", "mps")
    way = "mps"


class TimeSlicedSpec(PartsSpec):
    """``{kind: time_sliced, parts: 2}``: processes that take turns."""

    tag = ("kind", "time_sliced")
    way = "time_sliced"


class ReplicasSpec(CardSpec):
    """``{kind: replicas, replicas: 4, router: session}``: engines on cards of their own, with prefix caches.

    ``router``: ``round_robin, least_busy, session, prefix`` (with ``slack``: how many requests more than the
    least busy one) or ``pure_prefix``. ``cache_tokens``: what the prefix cache of each takes of its KV
    tokens; default half of them.
    """

    tag = ("kind", "replicas")
    replicas: Replicas = 2
    router: Literal["round_robin", "least_busy", "session", "prefix", "pure_prefix"] = "session"
    slack: NonNegative = 4
    cache_tokens: Limit | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> ReplicasSpec:
        self.build()
        return self

    def build(self) -> Fleet:
        from fairq.sim.batching import BatchingEngine
        from fairq.sim.replicas import Fleet, make_router

        profile, tokens = self.card_profile(), self.tokens_of_part(1)
        cache = tokens // 2 if self.cache_tokens is None else self.cache_tokens
        if tokens - cache < self.block_tokens:
            raise ValueError(
                f"cache_tokens: must leave KV tokens for the engine (of {tokens:,}), got {self.cache_tokens}"
            )
        return Fleet(
            lambda _: BatchingEngine(profile, kv_tokens=tokens - cache, **self._settings()),
            self.replicas,
            router=make_router(self.router, self.slack),
            cache_blocks=cache // self.block_tokens,
            block_tokens=self.block_tokens,
            outages=[outage.build() for outage in self.outages],
        )


FLEETS: Mapping[str, type[EngineSpec]] = {
    "one_engine": OneEngineSpec,
    "partitioned": PartitionedSpec,
    "mps": MpsSpec,
    "time_sliced": TimeSlicedSpec,
    "replicas": ReplicasSpec,
}
