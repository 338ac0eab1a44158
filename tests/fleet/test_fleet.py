"""Replicas behind one queue: where requests go, what they compute, whom a failure costs what."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairq import FIFO, VTC, Policy
from fairq.request import Request
from fairq.sim import BatchingEngine, Profile, simulate
from fairq.sim.replicas import Fleet, LeastBusy, LongestPrefix, Outage, RoundRobin, SessionAffinity
from fairq.workload import Exponential, Fixed, Lognormal, Tenant, Workload
from fairq.workload.conversations import Conversation, Conversations

READS = Profile(1, 0, 0, 0.1)
"""A step takes 1 ms, or 0.1 ms per prompt token."""


def fleet(members: int, router: Any = None, *, cache: int = 0, slots: int = 32, **settings: Any) -> Fleet:
    return Fleet(
        lambda _: BatchingEngine(READS, slots, kv_tokens=100_000),
        members,
        router=router,
        cache_blocks=cache,
        **settings,
    )


def turn(conversation: Any, arrival: float, prompt: int, output: int = 17, tenant: str = "t") -> Request:
    return Request(
        tenant,
        prompt + output,
        arrival=arrival,
        prompt_tokens=prompt,
        output_tokens=output,
        conversation=conversation,
        id=f"{conversation}@{arrival}",
    )


def talk(users: int = 24, think_s: float = 10, history: int = 6000, turns: int = 6) -> Workload:
    loop = Conversations(users, Exponential(think_s), turns, history)
    return Workload([Tenant("people", "people", loop, Fixed(100), Lognormal(100, 0.5))], 200)


def run(workload: Any, engine: Fleet, policy: Policy | None = None) -> pd.DataFrame:
    result = simulate(workload, FIFO() if policy is None else policy, engine, seed=4)
    assert result.counts() == {
        "finished": len(result.requests),
        "cancelled": 0,
        "refused": 0,
        "unfinished": 0,
    }
    return result.requests


# -- the prefix cache --------------------------------------------------------------------------------------


def test_a_turn_computes_only_what_is_new() -> None:
    # First turn: 1,600 tokens in one step of 160 ms, then 16 more of 1 ms. It leaves 1,616 tokens, 101 blocks
    # of 16 (the last token is returned, not read). Second turn: 1,700 less 1,616 are 84: 8.4 ms.
    rows = run([turn("c", 0, 1600), turn("c", 1, 1700)], fleet(1, cache=1000))
    assert rows["cached_tokens"].tolist() == [0, 1616]
    assert rows["prefill_tokens"].tolist() == [1600, 84]
    assert rows["ttft"].to_numpy() == pytest.approx([0.16, 0.0084])
    assert rows["latency"].to_numpy() == pytest.approx([0.176, 0.0244])


def test_at_least_one_token_is_computed() -> None:
    rows = run([turn("c", 0, 1600), turn("c", 1, 1600)], fleet(1, cache=1000))
    assert rows["prefill_tokens"].tolist() == [1600, 1]


def test_what_the_cache_cannot_hold_is_computed_again() -> None:
    asks = [turn(c, at, 1600) for at, c in enumerate("abab")]
    # Each leaves 101 blocks; with room for 200 the later ones push out two of the earlier, from the end.
    assert run(asks, fleet(1, cache=202))["cached_tokens"].tolist() == [0, 0, 1599, 1599]
    assert run(asks, fleet(1, cache=200))["cached_tokens"].tolist() == [0, 0, 99 * 16, 99 * 16]
    assert run(asks, fleet(1, cache=100))["cached_tokens"].tolist() == [0, 0, 0, 0]


def test_requests_without_a_conversation_find_nothing() -> None:
    rows = run([turn(None, 0, 1600), turn(None, 1, 1600)], fleet(1, cache=1000))
    assert rows["cached_tokens"].tolist() == [0, 0]


def test_a_system_prompt_is_shared() -> None:
    a, b = Conversation("a", "system", 800), Conversation("b", "system", 800)
    rows = run([turn(a, 0, 1600), turn(b, 1, 1600)], fleet(1, cache=1000))
    assert rows["cached_tokens"].tolist() == [0, 800]


def test_cached_tokens_take_room_in_the_kv_cache() -> None:
    """Two turns of 1,600 that are all but cached still need 200 blocks, of which the engine has 150."""

    def small(_: int) -> BatchingEngine:
        return BatchingEngine(READS, 8, kv_tokens=150 * 16)

    asks = [turn(c, at, 1600, 33) for at in (0, 10) for c in "ab"]
    rows = run(asks, Fleet(small, 1, cache_blocks=1000))
    scheduled = rows["scheduled"].to_numpy()
    assert scheduled[3] == pytest.approx(rows["finish"].iloc[2])  # b waits until a is done
    assert rows["cached_tokens"].tolist() == [0, 0, 1599, 1599]


# -- where requests go -------------------------------------------------------------------------------------


def test_one_replica_without_a_cache_is_a_plain_engine() -> None:
    plain = simulate(talk(), FIFO(), BatchingEngine(READS, 32, kv_tokens=100_000), seed=4).requests
    one = run(talk(), fleet(1))
    for name in ("arrival", "start", "first_token", "finish", "tpot"):
        np.testing.assert_array_equal(one[name].to_numpy(), plain[name].to_numpy())


def test_a_session_stays_where_it_is() -> None:
    rows = run(talk(), fleet(3, SessionAffinity(), cache=30_000))
    assert rows.groupby("conversation", observed=True)["member"].nunique().max() == 1
    assert rows["member"].nunique() == 3
    # Every turn but the first finds the whole history: prompts grow by 100 and the answer.
    later = rows[rows.duplicated("conversation").to_numpy()]
    assert (later["prompt_tokens"] - later["cached_tokens"] <= 100 + 16).all()


def test_affinity_computes_less_and_answers_sooner_than_turns() -> None:
    affine = run(talk(), fleet(3, SessionAffinity(), cache=30_000))
    turns = run(talk(), fleet(3, RoundRobin(), cache=30_000))
    rate = [1 - rows["prefill_tokens"].sum() / rows["prompt_tokens"].sum() for rows in (affine, turns)]
    assert rate[0] > 0.75 > 0.6 > rate[1]
    assert affine["ttft"].median() < turns["ttft"].median() / 3


def test_pure_longest_prefix_collapses_on_one_replica_and_the_guard_prevents_it() -> None:
    loop = Conversations(40, Exponential(10), 6, 6000, system_tokens=512)
    workload = Workload([Tenant("people", "people", loop, Fixed(100), Lognormal(100, 0.5))], 200)
    pure = run(workload, fleet(3, LongestPrefix(None), cache=6_000))
    guarded = run(workload, fleet(3, LongestPrefix(2), cache=6_000))
    assert pure["member"].value_counts(normalize=True).max() == 1
    assert guarded["member"].value_counts(normalize=True).max() < 0.45
    assert guarded["ttft"].mean() < pure["ttft"].mean() / 3
    assert len(guarded) > len(pure)  # who waits asks less


def test_least_busy_goes_where_fewest_are() -> None:
    # Two long ones occupy both; the third goes to the first of equals, the fourth to the other.
    asks = [turn(i, i / 1000, 10, 1000) for i in range(4)]
    assert run(asks, fleet(2, LeastBusy()))["member"].tolist() == [0, 1, 0, 1]


# -- failure and recovery ------------------------------------------------------------------------------------

DOWN = Outage(80, 1, 40)


def test_only_the_conversations_of_the_failed_replica_move_and_they_pay_once() -> None:
    calm = run(talk(turns=1000), fleet(3, SessionAffinity(), cache=60_000))
    struck = run(talk(turns=1000), fleet(3, SessionAffinity(), cache=60_000, outages=[DOWN]))
    home = calm.groupby("conversation", observed=True)["member"].first()
    assert calm.groupby("conversation", observed=True)["member"].nunique().eq(1).all()
    for conversation, rows in struck.groupby("conversation", observed=True):
        mine = home[conversation]
        if mine != 1:
            assert set(rows["member"]) == {mine}
            continue
        start, member = rows["start"].to_numpy(), rows["member"].to_numpy()
        away = (start >= 80) & (start < 120)
        assert set(member[start < 70]) <= {1}
        assert set(member[away]) <= {0, 2}
        assert len(set(member[away])) <= 1  # all to the same other one
        assert set(member[start >= 120]) <= {1}
        # The one-off cost: the first turn elsewhere, and the first back home, compute all; no other does.
        full = (rows["cached_tokens"] == 0).to_numpy()
        expected = np.zeros(len(rows), bool)
        expected[0] = True
        for moved in (away, start >= 120):
            if moved.any():
                expected[moved.argmax()] = True
        retried = (rows["retries"] > 0).to_numpy()
        assert (full == (expected | retried)).all()


def test_work_in_flight_is_done_again_elsewhere() -> None:
    # 2,000 tokens to write at 1 ms each; replica 0 dies after 1 s, when both have 1 s to go.
    asks = [turn("a", 0, 10, 2000), turn("b", 0, 10, 2000)]
    rows = run(asks, fleet(2, RoundRobin(), outages=[Outage(1, 0, 50)]))
    assert rows["member"].tolist() == [1, 1]
    assert rows["retries"].tolist() == [1, 0]
    assert rows["start"].tolist() == [0, 0]  # it has had its slot since
    assert rows["finish"].to_numpy() == pytest.approx([3.0, 2.0], abs=2e-3)  # from the start
    assert rows["first_token"].iloc[0] > 1
    assert rows["prefill_tokens"].tolist() == [20, 10]


def test_when_all_are_down_work_waits_for_the_first_to_return() -> None:
    outages = [Outage(1, 0, 10), Outage(1.5, 1, 3.5)]
    asks = [turn("a", 0, 10, 2000), turn("b", 0, 10, 2000), turn("c", 3, 10, 100)]
    rows = run(asks, fleet(2, RoundRobin(), outages=outages))
    assert rows["retries"].tolist() == [2, 1, 0]
    assert (rows["finish"] > 5).all()
    assert rows["start"].iloc[2] == 5  # the gateway kept it: nothing could have taken it
    assert rows["member"].tolist() == [1, 1, 1]


def test_a_fleet_in_trouble_gets_no_more_than_it_has_slots_for() -> None:
    """Two replicas of 4 slots; while one is down the gateway releases 4, and the policy keeps the rest."""
    asks = [turn(i, 0, 10, 1000) for i in range(30)]
    result = simulate(asks, FIFO(), fleet(2, LeastBusy(), slots=4, outages=[Outage(0.5, 0, 5)]))
    rows = result.requests
    busy = [(rows["start"].le(t) & rows["finish"].gt(t)).sum() for t in (0.2, 3.0, 5.2)]
    # The four thrown back keep their slots and wait inside the one that is left.
    assert busy[0] == 8
    assert busy[1] == 4
    assert busy[2] in (4, 8)
    assert result.counts()["finished"] == 30


def test_who_finishes_at_the_moment_of_a_failure_is_done() -> None:
    # 10 steps of 1 ms
    rows = run([turn("a", 0, 10, 10)], fleet(1, outages=[Outage(0.01, 0, 5)]))
    assert rows["finish"].iloc[0] == pytest.approx(0.01, abs=1e-12)
    assert rows["retries"].iloc[0] == 0


def test_the_series_of_a_fleet_is_in_real_time_and_empty_while_down() -> None:
    result = simulate(talk(), FIFO(), fleet(3, SessionAffinity(), cache=30_000, outages=[DOWN]), seed=4)
    series = result.engine
    assert series is not None
    assert list(series.columns) == ["t", "member", "running", "waiting", "kv_pct"]
    assert series["t"].is_monotonic_increasing
    assert set(series["member"]) == {0, 1, 2}
    down = series[(series["member"] == 1).to_numpy() & series["t"].between(80, 119.9).to_numpy()]
    assert down["running"].iloc[-1] == 0
    assert down["running"].iloc[1:].eq(0).all()


# -- the gateway's policy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "fair"), [(VTC, True), (FIFO, False)])
def test_one_fair_queue_before_several_replicas(policy: type[Policy], fair: bool) -> None:
    """Two tenants always backlogged, one with five times as many requests: shares are even over all replicas
    under a fair policy, and under FIFO they are not.
    """
    asks = [turn(None, 0, 100, 100, tenant) for tenant in ("many",) * 500 + ("few",) * 100]
    result = simulate(asks, policy(), fleet(3, LeastBusy(), slots=4))
    first = result.requests[(result.requests["dispatch"] < 150).to_numpy()]
    share = first["tenant"].value_counts(normalize=True)
    assert set(first["member"]) == {0, 1, 2}
    if fair:
        assert share["few"] == pytest.approx(0.5, abs=0.05)
    else:
        assert share["many"] == 1


def test_results_are_repeatable() -> None:
    once, again = (run(talk(), fleet(3, LongestPrefix(2), cache=9000, outages=[DOWN])) for _ in range(2))
    pd.testing.assert_frame_equal(once, again)


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match="members must be a whole number >= 1, got 0"):
        fleet(0)
    with pytest.raises(ValueError, match="capacity must be a whole number >= 0, got -1"):
        fleet(1, cache=-1)
