"""Notebook 06, should we cut the card in two: what fits, and what a cut costs."""

from __future__ import annotations

import numpy as np

from fairq.check.answers import Choice, Number, per_cent
from fairq.check.question import Question
from fairq.memory import CARD_GIB, GIB, OVERHEAD_GIB, UTILISATION, part_of
from fairq.models import load_model
from fairq.sim.partitions import mig_ratio


def kv_left(name: str, seed: int, rng: np.random.Generator) -> Question:
    model = load_model(str(rng.choice(["llama31-8b-int4", "llama32-3b"])))
    parts = int(rng.choice([1, 2]))
    card = float(rng.choice([23.5, 31.5, 47.5]))
    words = "the whole of a card" if parts == 1 else "one of two halves of a card"

    def truth() -> float:
        return part_of(model, parts, card_gib=card).kv_tokens / 1000

    return Question(
        name,
        seed,
        f"How many thousand KV tokens fit on {words} of {card:g} GiB with {model.title}? The engine may use "
        f"{per_cent(UTILISATION)} of its part, takes {OVERHEAD_GIB:g} GiB for itself, the weights are "
        f"{model.weight_bytes / GIB:.2f} GiB, and one token needs {model.kv_bytes_per_token / 1024:g} KiB.",
        {
            "card_gib": card,
            "parts": parts,
            "weights_gib": model.weight_bytes / GIB,
            "kv_kib_per_token": model.kv_bytes_per_token / 1024,
            "utilisation": UTILISATION,
            "overhead_gib": OVERHEAD_GIB,
        },
        Number(truth, "thousand tokens"),
        "KV = card / parts × utilisation − weights − overhead; each part holds a full copy of the weights.",
        lambda: (
            f"{card:g} / {parts} × {UTILISATION:g} − {model.weight_bytes / GIB:.2f} − {OVERHEAD_GIB:g} = "
            f"{card / parts * UTILISATION - model.weight_bytes / GIB - OVERHEAD_GIB:.3f} GiB\n"
            f"divided by {model.kv_bytes_per_token / 1024:g} KiB per token"
        ),
    )


def price_of_a_cut(name: str, seed: int, rng: np.random.Generator) -> Question:
    weights = float(rng.choice([6.0, 8.0, 16.0]))
    context = float(rng.choice([0.1, 0.2, 0.3]))
    batch = int(rng.choice([8, 16, 24, 32]))
    parts = int(rng.choice([2, 3, 4]))
    return Question(
        name,
        seed,
        f"A card is cut into {parts} equal MIG slices. A step reads {weights:g} GB of weights and "
        f"{context:g} GB of "
        f"context per sequence, {batch} sequences in all. What part of the whole card's tokens per second "
        "do the "
        "slices make together, in per cent?",
        {"weights_gb": weights, "context_gb": context, "batch": batch, "parts": parts},
        Number(lambda: 100 * mig_ratio(weights, context, batch, parts), "%"),
        "The whole card reads W + B·k per step. The slices together read n·W + B·k.",
        lambda: (
            f"whole: {weights:g} + {batch} × {context:g} = {weights + batch * context:g} GB\n"
            f"slices: {parts} × {weights:g} + {batch} × {context:g} = "
            f"{parts * weights + batch * context:g} GB"
        ),
        points=3,
    )


def fits(name: str, seed: int, rng: np.random.Generator) -> Question:
    model = load_model(str(rng.choice(["llama31-8b", "llama31-8b-int4", "llama32-3b", "qwen25-14b-int4"])))
    context = int(rng.choice([2048, 4096, 8192, 16384, 24576, 32768]))
    part = part_of(model, 2, card_gib=CARD_GIB, context=context)
    room = CARD_GIB / 2 * UTILISATION - model.weight_bytes / GIB - OVERHEAD_GIB
    need = context * model.kv_bytes_per_token / GIB
    return Question(
        name,
        seed,
        f"A 24 GB card shows {CARD_GIB:g} GiB. Does {model.title} ({model.weight_bytes / GIB:.2f} GiB of "
        "weights, "
        f"{model.kv_bytes_per_token / 1024:g} KiB per token) start in one half of it, with room for at "
        "least one "
        f"request of {context:,} tokens? Utilisation {UTILISATION:g}, overhead {OVERHEAD_GIB:g} GiB. "
        '"yes" or "no"',
        {
            "model": model.name,
            "context": context,
            "card_gib": CARD_GIB,
            "weights_gib": model.weight_bytes / GIB,
        },
        Choice(
            lambda: "yes" if part_of(model, 2, card_gib=CARD_GIB, context=context).fits else "no",
            ("yes", "no"),
        ),
        "Half the card × utilisation, less a full copy of the weights, less the overhead: what is left "
        "must hold the "
        "request's tokens.",
        lambda: (
            f"left for KV: {CARD_GIB / 2:g} × {UTILISATION:g} − {model.weight_bytes / GIB:.2f} − "
            f"{OVERHEAD_GIB:g} = "
            f"{room:.2f} GiB ({part.kv_tokens:,} tokens)\n{context:,} tokens need {need:.2f} GiB"
        ),
    )


QUESTIONS = {"kv_left": kv_left, "price_of_a_cut": price_of_a_cut, "fits": fits}
