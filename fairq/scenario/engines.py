"""The ``engine:`` of a scenario: plain data → a fresh engine of ``fairq.sim``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fairq.scenario.spec import Count, NonNegative, Positive, Spec, choice

if TYPE_CHECKING:
    from fairq.sim import SlotEngine


class EngineSpec(Spec):
    """What serves."""

    @abstractmethod
    def build(self) -> Any:
        """A fresh engine."""


class SlotsSpec(EngineSpec):
    """``{kind: slots, slots: 8, overhead_s: 0.05, prefill_tokens_per_s: 8000, decode_tokens_per_s: 40}``."""

    tag = ("kind", "slots")
    slots: Count = 8
    overhead_s: NonNegative = 0.0
    prefill_tokens_per_s: Positive = 8000
    decode_tokens_per_s: Positive = 40

    def build(self) -> SlotEngine:
        # A scenario can be checked and changed without SimPy.
        from fairq.sim import SlotEngine

        return SlotEngine(**dict(self))


ENGINES: Mapping[str, type[EngineSpec]] = {"slots": SlotsSpec}

AnyEngine = Annotated[EngineSpec, choice(ENGINES, "kind")]
