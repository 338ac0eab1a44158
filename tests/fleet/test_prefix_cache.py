"""The prefix cache against a naive one that keeps a time stamp per block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairq.sim.replicas import PrefixCache


class Naive:
    """Every block has the moment of its last use, the first of a chain the latest; the oldest goes."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used: dict[object, int] = {}
        self.moment = 0

    def match(self, blocks: list[object]) -> int:
        return next((i for i, block in enumerate(blocks) if block not in self.used), len(blocks))

    def use(self, blocks: list[object]) -> None:
        for block in blocks[: self.capacity][::-1]:
            self.moment += 1
            self.used[block] = self.moment
        for block in sorted(self.used, key=self.used.__getitem__)[: -self.capacity or None]:
            if len(self.used) > self.capacity:
                del self.used[block]


chains = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 6)).map(
        lambda pair: [("shared", 0)] + [(pair[0], i) for i in range(pair[1])]
    ),
    max_size=30,
)


@given(st.integers(0, 12), chains)
def test_it_holds_what_a_naive_lru_holds(capacity: int, uses: list[list[object]]) -> None:
    cache, naive = PrefixCache(capacity), Naive(capacity)
    for blocks in uses:
        assert cache.match(blocks) == naive.match(blocks)
        cache.use(blocks)
        naive.use(blocks)
        assert len(cache) == len(naive.used) <= capacity


def test_of_a_chain_the_end_goes_first() -> None:
    cache = PrefixCache(4)
    cache.use("abcd")
    cache.use("xy")
    assert cache.match("abcd") == 2  # c and d went
    assert cache.match("xy") == 2
    cache.use("ab")
    cache.use("uv")
    assert (cache.match("ab"), cache.match("xy"), cache.match("uv")) == (2, 0, 2)


def test_a_chain_longer_than_the_cache_leaves_its_beginning() -> None:
    cache = PrefixCache(3)
    cache.use("abcdef")
    assert cache.match("abcdef") == 3


def test_looking_changes_nothing() -> None:
    cache = PrefixCache(2)
    cache.use("ab")
    cache.match("ab")
    cache.use("x")
    assert cache.match("ab") == 1
    cache.clear()
    assert (len(cache), cache.match("ab")) == (0, 0)


def test_bad_sizes_are_named() -> None:
    with pytest.raises(ValueError, match="capacity must be a whole number >= 0, got -1"):
        PrefixCache(-1)
    with pytest.raises(ValueError, match="block_tokens must be a whole number >= 1, got 0"):
        PrefixCache(1, 0)
