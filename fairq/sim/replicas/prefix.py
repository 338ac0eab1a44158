"""A prefix cache: which leading blocks of a prompt need not be computed again. LRU by blocks, as in vLLM.

Blocks are named by whoever knows what is in them: two prompts share a block when all up to its end is equal,
so a name stands for the whole prefix. Of a chain the last blocks go first: a block without those before it is
of no use.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias

Block: TypeAlias = Hashable


class PrefixCache:
    """Holds ``capacity`` blocks of ``block_tokens`` tokens; the least recently used goes first.

    Raises
    ------
    ValueError : a capacity below 0, or a block below 1 token.
    """

    def __init__(self, capacity: int, block_tokens: int = 16) -> None:
        for field, value, least in (("capacity", capacity, 0), ("block_tokens", block_tokens, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{field} must be a whole number >= {least}, got {value!r}")
        self.capacity = capacity
        self.block_tokens = block_tokens
        self._held: OrderedDict[Block, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def match(self, blocks: Iterable[Block]) -> int:
        """How many leading blocks it holds. Changes nothing."""
        held = self._held
        count = 0
        for block in blocks:
            if block not in held:
                break
            count += 1
        return count

    def use(self, blocks: Sequence[Block]) -> None:
        """These are the latest used now, the first of them last of all to go; those it lacks come in."""
        held = self._held
        # More than fit: the front of the chain is what a later prompt can use.
        for block in reversed(blocks[: self.capacity]):
            held[block] = None
            held.move_to_end(block)
        while len(held) > self.capacity:
            held.popitem(last=False)

    def clear(self) -> None:
        """All is lost: the process died."""
        self._held.clear()
