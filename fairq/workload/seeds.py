"""One stream of random numbers per (replication, tenant, purpose), so that nobody disturbs anybody's draws.

Adding a tenant, changing another one's rate or drawing more of one thing leaves every other stream as it
was: two scenarios then differ for one reason only (common random numbers).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from types import MappingProxyType

from numpy.random import PCG64, Generator, SeedSequence

PURPOSES: Mapping[str, int] = MappingProxyType(
    {
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
)
"""What a stream is for. Numbers are never reused or changed: old seeds must give old requests."""


def hash32(name: str) -> int:
    """A fixed 32-bit number for a name: the first 4 bytes of BLAKE2b (digest size 4), big-endian."""
    return int.from_bytes(blake2b(name.encode("utf-8"), digest_size=4).digest(), "big")


def stream(seed: int, replication: int, tenant: str, purpose: str, *child: int) -> Generator:
    """The generator of one purpose of one tenant in one replication.

    ``child`` numbers extend the spawn key as ``SeedSequence.spawn`` would (a closed loop's workers).

    Raises
    ------
    ValueError : seed or replication is not a whole number >= 0.
    KeyError : the purpose is not in ``PURPOSES``.
    """
    for field, value in (("seed", seed), ("replication", replication)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{field} must be a whole number >= 0, got {value!r}")
    key = (replication, hash32(tenant), PURPOSES[purpose], *child)
    return Generator(PCG64(SeedSequence(seed, spawn_key=key)))
