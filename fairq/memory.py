"""Does it fit? The memory of a card, counted: weights, what the engine takes, and what is left for KV.

``budget = card / parts · utilisation``; ``KV = budget − weights − overhead``. Every part of a card that is
cut in pieces (MIG slices, processes under MPS or time-slicing) holds a full copy of the weights and pays the
engine's overhead again: two halves never hold together what one engine holds.

Bytes are bytes, GB are 10⁹ of them and GiB 2³⁰ (a "24 GB" card shows about 23.5 GiB).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

GIB = 2**30
CARD_GIB = 23.5
"""What a 24 GB card shows (an RTX 4090: 25,250,627,584 bytes)."""
OVERHEAD_GIB = 1.15
"""CUDA context, CUDA graphs, activations of one engine: what a real vLLM 0.19 left unaccounted for on an
RTX 4090 (25.25 GB · 0.9 less 16.06 GB of weights and 41,408 KV tokens of 131,072 bytes)."""
UTILISATION = 0.9
"""vLLM's default ``--gpu-memory-utilization``."""

WAYS = ("one engine", "MIG", "MPS", "time-slicing")


@dataclass(frozen=True)
class Model:
    """A decoder with grouped-query attention and a gated feed-forward net (Llama, Qwen2).

    Parameters
    ----------
    layers, hidden, ffn, heads, kv_heads, head_dim, vocab : as in its ``config.json``.
    tied : the output layer is the embedding. qkv_bias : its q, k and v have biases.
    weight_bits : 16, or 4: the linear layers in 4 bits, with a 16-bit scale and a 4-bit zero per ``group``
        weights (AWQ, GPTQ); embeddings, output layer and norms stay at 16.
    kv_bits : of the KV cache, 16 or 8.
    name, title, source : what it is called, and where the numbers are from.

    Raises
    ------
    ValueError : names the model, the field and the value.
    """

    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool = False
    qkv_bias: bool = False
    weight_bits: int = 16
    group: int = 128
    kv_bits: int = 16
    title: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "group"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"model {self.name!r}: {field} must be a whole number >= 1, got {value!r}")
        for field, choices in (("weight_bits", (4, 8, 16)), ("kv_bits", (8, 16))):
            if getattr(self, field) not in choices:
                raise ValueError(
                    f"model {self.name!r}: {field} must be one of {', '.join(map(str, choices))},"
                    f" got {getattr(self, field)!r}"
                )

    @property
    def linear(self) -> int:
        """Weights of the layers' matrices: attention and feed-forward."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.ffn)

    @property
    def embedding(self) -> int:
        """Weights of one vocabulary table."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All weights."""
        bias = self.layers * self.head_dim * (self.heads + 2 * self.kv_heads) if self.qkv_bias else 0
        norms = (2 * self.layers + 1) * self.hidden
        return self.linear + bias + norms + self.embedding * (1 if self.tied else 2)

    @property
    def weight_bytes(self) -> int:
        """What the weights take on the card, in bytes."""
        return self._linear_bytes + 2 * (self.parameters - self.linear)

    @property
    def read_bytes(self) -> int:
        """What a step reads of them, in bytes: all but the input embedding, of which it needs single rows."""
        return self._linear_bytes + 2 * self.embedding

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token, in bytes."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.kv_bits // 8

    @property
    def _linear_bytes(self) -> int:
        bits: float = self.weight_bits
        if self.weight_bits < 16:
            bits += (16 + self.weight_bits) / self.group
        return round(self.linear * bits / 8)


@dataclass(frozen=True)
class Part:
    """What one of ``parts`` equal pieces of a card holds. Bytes; ``kv_tokens``: 0 where it does not fit."""

    model: str
    way: str
    parts: int
    card_bytes: int
    part_bytes: int
    budget_bytes: int
    weight_bytes: int
    overhead_bytes: int
    kv_bytes: int
    kv_tokens: int
    context: int
    title: str = ""

    @property
    def fits(self) -> bool:
        """Whether the engine starts: weights, overhead, and KV for one request of full length."""
        return self.kv_tokens >= self.context

    @property
    def kv_tokens_card(self) -> int:
        """KV tokens of all parts together."""
        return self.parts * self.kv_tokens if self.fits else 0

    @property
    def missing_bytes(self) -> int:
        """By how much weights and overhead alone exceed the budget (0: they do not)."""
        return max(0, self.weight_bytes + self.overhead_bytes - self.budget_bytes)

    @property
    def says(self) -> str:
        """The answer in words."""
        if self.fits:
            return f"{self.kv_tokens:,} KV tokens" + (" each" if self.parts > 1 else "")
        if self.missing_bytes:
            return f"does not fit: {self.missing_bytes / 1e9:.1f} GB short"
        return f"does not fit: KV for {self.kv_tokens:,} tokens, one request may need {self.context:,}"

    def as_dict(self) -> dict[str, Any]:
        """One row of a table."""
        return {
            "model": self.model,
            "title": self.title or self.model,
            "way": self.way,
            "parts": self.parts,
            "part_gb": self.part_bytes / 1e9,
            "unused_gb": (self.part_bytes - self.budget_bytes) / 1e9,
            "weights_gb": self.weight_bytes / 1e9,
            "overhead_gb": self.overhead_bytes / 1e9,
            "kv_gb": max(0, self.kv_bytes) / 1e9,
            "kv_tokens": self.kv_tokens,
            "context": self.context,
            "kv_tokens_card": self.kv_tokens_card,
            "fits": self.fits,
            "says": self.says,
        }


class DoesNotFit(ValueError):
    """A model that one piece of the card cannot hold; ``part`` has the numbers."""

    def __init__(self, part: Part) -> None:
        super().__init__(
            f"model {part.model!r} does not fit: a part of {part.part_bytes / 1e9:.1f} GB"
            f" ({part.budget_bytes / 1e9:.1f} usable) less {part.weight_bytes / 1e9:.1f} of weights and"
            f" {part.overhead_bytes / 1e9:.1f} of engine overhead leaves"
            f" {part.kv_bytes / 1e9:.1f} GB for KV, a request of {part.context:,} tokens needs more"
        )
        self.part = part


def part_of(
    model: Model,
    parts: int = 1,
    *,
    way: str | None = None,
    card_gib: float = CARD_GIB,
    utilisation: float = UTILISATION,
    overhead_gib: float = OVERHEAD_GIB,
    context: int = 4096,
    block_tokens: int = 16,
) -> Part:
    """One of ``parts`` equal pieces of a card with this model, whether it fits or not.

    Parameters
    ----------
    way : one of ``WAYS`` (the arithmetic is the same for all that cut the card; what differs is whether the
        border holds). Default: one engine, or MIG.
    card_gib : memory of the card, GiB. utilisation : the share of a part an engine takes, in (0, 1].
    overhead_gib : of one engine, GiB. context : the longest request, tokens (``--max-model-len``).

    Raises
    ------
    ValueError : names the setting and the value.
    """
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise ValueError(f"parts must be a whole number >= 1, got {parts!r}")
    if isinstance(context, bool) or not isinstance(context, int) or context < 1:
        raise ValueError(f"context must be a whole number >= 1, got {context!r}")
    _check("card_gib", card_gib)
    _check("utilisation", utilisation, most=1)
    _check("overhead_gib", overhead_gib, zero_allowed=True)
    if way is None:
        way = WAYS[0] if parts == 1 else WAYS[1]
    card = round(card_gib * GIB)
    part = card // parts
    budget = int(part * utilisation)
    overhead = round(overhead_gib * GIB)
    kv = budget - model.weight_bytes - overhead
    blocks = max(0, kv) // (model.kv_bytes_per_token * block_tokens)
    return Part(
        model=model.name,
        way=way,
        parts=parts,
        card_bytes=card,
        part_bytes=part,
        budget_bytes=budget,
        weight_bytes=model.weight_bytes,
        overhead_bytes=overhead,
        kv_bytes=kv,
        kv_tokens=blocks * block_tokens,
        context=context,
        title=model.title,
    )


def kv_tokens(model: Model, parts: int = 1, **card: Any) -> int:
    """KV tokens of one part (``part_of``). Raises ``DoesNotFit`` where the engine would not start."""
    part = part_of(model, parts, **card)
    if not part.fits:
        raise DoesNotFit(part)
    return part.kv_tokens


def memory_rows(
    models: Iterable[Model], splits: Sequence[tuple[str, int]] | None = None, **card: Any
) -> list[dict[str, Any]]:
    """A table: every model on every split of the card, (way, parts); default: one engine and two halves.

    Columns: ``model, title, way, parts``, then of one part ``part_gb, unused_gb, weights_gb, overhead_gb,
    kv_gb, kv_tokens``, ``context`` (what one request may need), of the card ``kv_tokens_card``, and ``fits,
    says``. GB are 10⁹ bytes.
    """
    if splits is None:
        splits = [("one engine", 1), ("MIG", 2)]
    for way, _ in splits:
        if way not in WAYS:
            raise ValueError(f"way must be one of {', '.join(WAYS)}, got {way!r}")
    return [part_of(model, parts, way=way, **card).as_dict() for model in models for way, parts in splits]


def _check(field: str, value: Any, *, most: float | None = None, zero_allowed: bool = False) -> None:
    wanted = f"a finite number {'>=' if zero_allowed else '>'} 0" + (
        f" and <= {most:g}" if most is not None else ""
    )
    try:
        good = not isinstance(value, bool) and isfinite(value) and (value >= 0 if zero_allowed else value > 0)
    except TypeError:
        good = False
    if not good or (most is not None and value > most):
        raise ValueError(f"{field} must be {wanted}, got {value!r}")
