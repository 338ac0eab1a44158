"""The seeding rule, against hashlib and numpy directly."""

import hashlib

import numpy as np
import pytest

from fairq.workload import PURPOSES, hash32, stream


def test_hash32_is_the_first_four_bytes_of_blake2b() -> None:
    for name in ("chat-1", "nightly", "", "größer", "a" * 500):
        digest = hashlib.blake2b(name.encode("utf-8"), digest_size=4).hexdigest()
        assert hash32(name) == int(digest, 16)
    assert hash32("chat-1") != hash32("chat-2")


def test_a_stream_is_the_seed_sequence_of_replication_tenant_and_purpose() -> None:
    sequence = np.random.SeedSequence(7, spawn_key=(3, hash32("chat"), PURPOSES["estimate"]))
    by_hand = np.random.Generator(np.random.PCG64(sequence)).random(5)
    assert stream(7, 3, "chat", "estimate").random(5).tolist() == by_hand.tolist()


def test_a_child_is_what_spawn_gives() -> None:
    parent = np.random.SeedSequence(7, spawn_key=(0, hash32("chat"), PURPOSES["think"]))
    second = parent.spawn(2)[1]
    assert stream(7, 0, "chat", "think", 1).random() == np.random.Generator(np.random.PCG64(second)).random()


def test_purposes_are_never_renumbered() -> None:
    # A changed number changes the requests of every published seed.
    assert dict(PURPOSES) == {
        "arrivals": 0,
        "prompt_tokens": 1,
        "output_tokens": 2,
        "estimate": 3,
        "service": 4,
        "think": 5,
        "tenant": 6,
        "turns": 7,
        "history": 8,
    }


@pytest.mark.parametrize(
    "change", [{"seed": 8}, {"replication": 1}, {"tenant": "b"}, {"purpose": "prompt_tokens"}]
)
def test_every_part_of_the_key_matters(change: dict[str, object]) -> None:
    key = {"seed": 7, "replication": 0, "tenant": "a", "purpose": "arrivals"}
    assert stream(**key).random() != stream(**{**key, **change}).random()  # type: ignore[arg-type]


@pytest.mark.parametrize(("field", "value"), [("seed", -1), ("seed", 1.5), ("replication", True)])
def test_bad_seeds_are_named(field: str, value: object) -> None:
    given = {"seed": 0, "replication": 0, field: value}
    with pytest.raises(ValueError, match=f"{field} must be a whole number >= 0, got {value!r}"):
        stream(**given, tenant="a", purpose="arrivals")  # type: ignore[arg-type]
