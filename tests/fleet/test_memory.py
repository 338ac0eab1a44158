"""A card's memory against published sizes, a real engine's own account, and arithmetic by hand."""

from pathlib import Path

import pytest

from fairq.files import InputError
from fairq.memory import DoesNotFit, Model, kv_tokens, memory_rows, part_of
from fairq.models import base_of, load_model, model_names, profile_for
from fairq.profiles import load_profile

SMALL = Model("small", layers=2, hidden=8, ffn=16, heads=2, kv_heads=1, head_dim=4, vocab=10)


@pytest.mark.parametrize(
    ("name", "parameters"),  # as the model cards' safetensors headers count them
    [
        ("llama31-8b", 8_030_261_248),
        ("llama31-8b-int4", 8_030_261_248),
        ("llama32-3b", 3_212_749_824),
        ("qwen25-14b-int4", 14_770_033_664),
    ],
)
def test_the_shipped_models_have_their_published_parameters(name: str, parameters: int) -> None:
    assert load_model(name).parameters == parameters


@pytest.mark.parametrize(
    ("name", "gb"),  # sizes of the published files: bf16, AWQ, bf16, AWQ
    [("llama31-8b", 16.06), ("llama31-8b-int4", 5.73), ("llama32-3b", 6.43), ("qwen25-14b-int4", 9.98)],
)
def test_their_weights_take_what_their_files_take(name: str, gb: float) -> None:
    assert load_model(name).weight_bytes / 1e9 == pytest.approx(gb, abs=0.01)


def test_the_list_is_the_one_people_ask_about() -> None:
    assert [load_model(name).title for name in model_names()] == ["8B bf16", "8B int4", "3B bf16", "14B int4"]
    assert all(load_model(name).source for name in model_names())


def test_a_small_model_by_hand() -> None:
    # per layer: q 8·8, k and v 8·4 each, o 8·8, three of 8·16; two norms of 8; tables 10·8 twice; a last norm
    assert SMALL.linear == 2 * (64 + 32 + 32 + 64 + 3 * 128)
    assert SMALL.parameters == SMALL.linear + 2 * 16 + 8 + 160
    assert SMALL.weight_bytes == 2 * SMALL.parameters
    assert SMALL.kv_bytes_per_token == 2 * 2 * 1 * 4 * 2
    tied = Model("t", 2, 8, 16, 2, 1, 4, 10, tied=True, qkv_bias=True)
    assert tied.parameters == SMALL.parameters - 80 + 2 * 4 * (2 + 2)
    # 4 bits, and per 128 weights a scale of 16 and a zero of 4: 4.15625 bits
    four = Model("f", 2, 8, 16, 2, 1, 4, 10, weight_bits=4)
    assert four.weight_bytes == round(SMALL.linear * 4.15625 / 8) + 2 * (SMALL.parameters - SMALL.linear)


def test_one_engine_holds_what_a_real_one_reported() -> None:
    # vLLM 0.19 on an RTX 4090 (25,250,627,584 bytes), Llama-3.1-8B, utilisation 0.9: 2,588 blocks of 16.
    assert kv_tokens(load_model("llama31-8b")) == pytest.approx(41_408, rel=0.005)


def test_a_part_by_hand() -> None:
    part = part_of(SMALL, 2, card_gib=1 / 2**10, utilisation=0.5, overhead_gib=0.25 / 2**10, context=16)
    assert part.card_bytes == 2**20
    assert part.part_bytes == 2**19
    assert part.budget_bytes == 2**18
    assert part.overhead_bytes == 2**18
    assert part.kv_bytes == -SMALL.weight_bytes
    assert not part.fits
    assert part.missing_bytes == SMALL.weight_bytes
    roomy = part_of(SMALL, 2, card_gib=1 / 2**10, utilisation=0.5, overhead_gib=0, context=16)
    blocks = (2**18 - SMALL.weight_bytes) // (SMALL.kv_bytes_per_token * 16)
    assert roomy.kv_tokens == 16 * blocks
    assert roomy.kv_tokens_card == 32 * blocks


def test_two_halves_of_a_24_gb_card() -> None:
    rows = {(row["title"], row["parts"]): row for row in memory_rows(map(load_model, model_names()))}
    assert [title for (title, parts), row in rows.items() if parts == 2 and not row["fits"]] == [
        "8B bf16",
        "14B int4",
    ]
    assert all(row["fits"] for (_, parts), row in rows.items() if parts == 1)
    # 8B bf16: 12.6 GB · 0.9 less 16.06 and 1.23
    assert rows["8B bf16", 2]["says"] == "does not fit: 5.9 GB short"
    assert "KV for" in rows["14B int4", 2]["says"]
    for title in ("8B int4", "3B bf16"):
        one, half = rows[title, 1], rows[title, 2]
        lost = (one["weights_gb"] + one["overhead_gb"]) * 1e9
        model = load_model("llama31-8b-int4" if title == "8B int4" else "llama32-3b")
        # The halves together lack a second copy of the weights and a second engine's overhead.
        assert one["kv_tokens_card"] - half["kv_tokens_card"] == pytest.approx(
            lost / model.kv_bytes_per_token, abs=3 * 16
        )


def test_what_does_not_fit_says_by_how_much() -> None:
    with pytest.raises(DoesNotFit, match=r"'llama31-8b' does not fit: a part of 12.6 GB .* 16.1 of weights"):
        kv_tokens(load_model("llama31-8b"), 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parts": 0}, "parts must be a whole number >= 1, got 0"),
        ({"parts": True}, "parts"),
        ({"card_gib": 0}, "card_gib must be a finite number > 0, got 0"),
        ({"card_gib": float("nan")}, "card_gib"),
        ({"utilisation": 1.2}, "utilisation must be a finite number > 0 and <= 1, got 1.2"),
        ({"overhead_gib": -1}, "overhead_gib must be a finite number >= 0, got -1"),
        ({"context": 0}, "context must be a whole number >= 1, got 0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        part_of(SMALL, **settings)  # type: ignore[arg-type]


def test_bad_models_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="model 'x': layers must be a whole number >= 1, got 0"):
        Model("x", 0, 8, 16, 2, 1, 4, 10)
    with pytest.raises(ValueError, match="weight_bits must be one of 4, 8, 16, got 3"):
        Model("x", 1, 8, 16, 2, 1, 4, 10, weight_bits=3)
    with pytest.raises(InputError, match="no model 'gpt'; shipped are llama31-8b"):
        load_model("gpt")
    path = tmp_path / "m.yaml"
    path.write_text("layers: 2\nheads: 1\nwings: 2\n")
    with pytest.raises(InputError, match=r"m.yaml: wings: unknown field"):
        load_model(path)
    path.write_text("layers: 2\n")
    with pytest.raises(InputError, match=r"m.yaml: .*missing"):
        load_model(path)
    with pytest.raises(ValueError, match="way must be one of"):
        memory_rows([SMALL], [("magic", 2)])


def test_a_profile_scales_with_what_a_step_reads() -> None:
    profile = load_profile("rtx4090-llama31-8b")
    base, int4 = base_of(profile), load_model("llama31-8b-int4")
    assert profile_for(profile, base, base) is profile
    scaled = profile_for(profile, base, int4)
    # read per step: 6.979 G weights of the layers and 0.525 G of the output layer, 2 bytes each or 4.16 bits
    read = lambda layers: 6.979321856e9 * layers + 0.525336576e9 * 2  # noqa: E731
    assert scaled.a_ms == pytest.approx(16.875 * read(4.15625 / 8) / read(2), rel=1e-6)
    assert (scaled.c_ms, scaled.p_ms, scaled.b_ms) == (profile.c_ms, profile.p_ms, profile.b_ms)
    assert scaled.kind == "modelled"
    assert scaled.kv_tokens is None
    three = profile_for(profile, base, load_model("llama32-3b"))
    assert three.c_ms == pytest.approx(profile.c_ms * 28 / 32)
    assert 0.3 < three.p_ms / profile.p_ms < 0.45
    with pytest.raises(InputError, match="cannot be scaled"):
        base_of(load_profile("a10g-llama-7b"))
