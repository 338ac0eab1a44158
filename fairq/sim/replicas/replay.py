"""A trace of prompts in blocks, sent to replicas by a router: what each has to compute, and how that waits.

No batches and no decoding here: a replica computes prompts one after the other at a steady speed (so the time
to the first token is what is left of those before it, and its own), and remembers blocks. That is enough to
compare routers on a trace of an hour in seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairq.sim.replicas.prefix import Block, PrefixCache
from fairq.sim.replicas.routers import Router
from fairq.workload.prefixes import BLOCK_TOKENS, PrefixRow


@dataclass(frozen=True)
class Prefilled:
    """One request: which replica (its number), prompt tokens, those found in the cache, and seconds to the
    first token.
    """

    replica: int
    prompt_tokens: int
    cached_tokens: int
    ttft: float


class _Replica:
    def __init__(self, index: int, cache: PrefixCache) -> None:
        self.index = index
        self.name = str(index)
        self.cache = cache
        self.free_at = 0.0
        self._ends: deque[float] = deque()

    @property
    def load(self) -> int:
        return len(self._ends)

    def match(self, blocks: Iterable[Block]) -> int:
        return self.cache.match(blocks)

    def forget(self, now: float) -> None:
        """What ended by ``now`` (seconds) is no load."""
        while self._ends and self._ends[0] <= now:
            self._ends.popleft()

    def compute(self, now: float, seconds: float) -> float:
        """When it is done with that much more."""
        self.free_at = max(self.free_at, now) + seconds
        self._ends.append(self.free_at)
        return self.free_at


def replay_prefixes(
    rows: Sequence[PrefixRow],
    router: Router,
    *,
    replicas: int = 4,
    cache_blocks: int = 3000,
    prefill_tokens_per_s: float = 32_000.0,
) -> list[Prefilled]:
    """Send every row to a replica; the outcome per row, in order.

    Parameters
    ----------
    rows : in order of time. router : fresh.
    cache_blocks : of ``BLOCK_TOKENS`` tokens, per replica.
    prefill_tokens_per_s : speed of one replica (default: an H100 with 8B, 0.031 ms per token).

    Raises
    ------
    ValueError : no replica, no speed, or rows out of order; names the value.
    """
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        raise ValueError(f"replicas must be a whole number >= 1, got {replicas!r}")
    if not prefill_tokens_per_s > 0:
        raise ValueError(f"prefill_tokens_per_s must be > 0, got {prefill_tokens_per_s!r}")
    fleet = [_Replica(i, PrefixCache(cache_blocks, BLOCK_TOKENS)) for i in range(replicas)]
    outcome = []
    latest = float("-inf")
    for row in rows:
        now = row.arrival
        if now < latest:
            raise ValueError(f"rows out of order: arrival {now!r} s after {latest!r} s")
        latest = now
        for replica in fleet:
            replica.forget(now)
        chosen = router.choose(row.session, row.blocks, fleet)
        assert isinstance(chosen, _Replica)  # it was given no other
        # The last block may be part full.
        cached = min(chosen.match(row.blocks) * BLOCK_TOKENS, row.prompt_tokens)
        chosen.cache.use(row.blocks)
        done = chosen.compute(now, (row.prompt_tokens - cached) / prefill_tokens_per_s)
        outcome.append(Prefilled(chosen.index, row.prompt_tokens, cached, done - now))
    return outcome
