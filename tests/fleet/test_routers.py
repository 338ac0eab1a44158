"""Routers as functions of what they see; the property that makes rendezvous hashing worth having."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairq.sim.replicas import LeastBusy, LongestPrefix, RoundRobin, SessionAffinity, make_router, rendezvous


@dataclass
class Seen:
    """A replica as a router sees it."""

    name: str
    load: int = 0
    held: set[Any] = field(default_factory=set)

    def match(self, blocks: Iterable[Any]) -> int:
        count = 0
        for block in blocks:
            if block not in self.held:
                return count
            count += 1
        return count


def test_round_robin_takes_turns() -> None:
    router, replicas = RoundRobin(), [Seen("a"), Seen("b"), Seen("c")]
    assert [router.choose("x", (), replicas).name for _ in range(7)] == list("abcabca")


def test_least_busy_takes_the_least_and_the_first_of_equals() -> None:
    replicas = [Seen("a", 3), Seen("b", 1), Seen("c", 1)]
    assert LeastBusy().choose("x", (), replicas).name == "b"


names = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=2, max_size=8, unique=True)
sessions = st.lists(st.text(max_size=12), min_size=1, max_size=60, unique=True)


@given(names, sessions, st.data())
def test_when_a_replica_goes_only_its_own_conversations_move(
    replicas: list[str], conversations: list[str], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(replicas))
    router = SessionAffinity()
    fleet = [Seen(name) for name in replicas]
    before = {c: router.choose(c, (), fleet).name for c in conversations}
    after = {c: router.choose(c, (), [r for r in fleet if r.name != gone]).name for c in conversations}
    assert {c for c in conversations if before[c] != after[c]} == {
        c for c in conversations if before[c] == gone
    }
    # Nor does it matter in which order they are listed, or who was asked before.
    assert {c: router.choose(c, (), fleet[::-1]).name for c in reversed(conversations)} == before


def test_conversations_spread_evenly_and_so_do_those_of_a_lost_replica() -> None:
    fleet = [Seen(str(i)) for i in range(4)]
    router = SessionAffinity()
    home = {f"user-{n}": router.choose(f"user-{n}", (), fleet).name for n in range(4000)}
    # Binomial(4000, 1/4): five standard deviations are 137.
    assert all(abs(count - 1000) < 137 for count in Counter(home.values()).values())
    moved = Counter(router.choose(c, (), fleet[1:]).name for c, where in home.items() if where == "0")
    assert all(abs(count - sum(moved.values()) / 3) < 75 for count in moved.values())


def test_the_hash_is_fixed_and_keeps_names_apart() -> None:
    # A changed hash would move every conversation of every run: printf 6:user-1:0 | b2sum -l 64
    assert rendezvous("user-1", "0") == 0x02D919B951632F28
    assert rendezvous("a", "bc") != rendezvous("ab", "c")
    assert rendezvous("1", "2:3") != rendezvous("1:2", "3")


def test_pure_longest_prefix_gives_everything_to_whoever_was_first() -> None:
    """All prompts begin alike; whoever has that block has the longest prefix of every newcomer."""
    replicas = [Seen("a"), Seen("b"), Seen("c")]
    router = LongestPrefix(slack=None)
    for n in range(30):
        blocks = ["system", f"user-{n}"]
        chosen = router.choose(f"user-{n}", blocks, replicas)
        assert chosen is replicas[0]
        chosen.held.update(blocks)
        chosen.load += 1


def test_the_guard_keeps_loads_within_the_slack() -> None:
    replicas = [Seen("a"), Seen("b"), Seen("c")]
    router = LongestPrefix(slack=2)
    for n in range(60):
        blocks = ["system", f"user-{n}"]
        chosen = router.choose(f"user-{n}", blocks, replicas)
        chosen.held.update(blocks)
        chosen.load += 1
        loads = [replica.load for replica in replicas]
        assert max(loads) - min(loads) <= 3  # the slack, and the one just sent
    assert min(replica.load for replica in replicas) >= 19
    # Within the slack the prefix counts, then the load.
    busy, cached, idle = Seen("a", 9, {"x", "y"}), Seen("b", 2, {"x"}), Seen("c", 0)
    assert router.choose("s", ["x", "y"], [busy, cached, idle]) is cached
    assert router.choose("s", ["q"], [busy, cached, idle]) is idle


def test_routers_by_name() -> None:
    assert make_router("prefix", 7).slack == 7  # type: ignore[attr-defined]
    assert make_router("pure_prefix", 7).slack is None  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"router must be one of round_robin, .*, got 'best'"):
        make_router("best")
    with pytest.raises(ValueError, match="slack must be a finite number of requests >= 0"):
        LongestPrefix(-1)
