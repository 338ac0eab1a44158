"""One card shared by several engines: the closed form, schedules by hand, and who survives whose failure."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairq import FIFO, VTC
from fairq.request import Request
from fairq.sim import BatchingEngine, Profile, Result, simulate
from fairq.sim.partitions import WAYS, decode_table, mig_ratio, partitioned, slice_profile
from fairq.sim.replicas import Outage
from fairq.sim.shared_card import max_min, mps, time_sliced

PLAIN = Profile(10, 0, 0, 0)
"""A step takes 10 ms, whatever is in it."""


def request(tenant: str, arrival: float, prompt: int, output: int, id: Any = None) -> Request:
    return Request(
        tenant, prompt + output, arrival=arrival, prompt_tokens=prompt, output_tokens=output, id=id
    )


def crowd(n: int = 200, seed: int = 1, rate: float = 3) -> list[Request]:
    rng, at, made = random.Random(seed), 0.0, []
    for i in range(n):
        at += rng.expovariate(rate)
        made.append(request(f"t-{i % 2}", at, rng.randint(10, 2000), rng.randint(1, 300), i))
    return made


def column(result: Result, name: str) -> Any:
    return result.requests[name].to_numpy(dtype=float)


# -- MIG: the closed form -------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("batch", [4, 16, 64])
def test_throughput_of_slices_falls_like_the_closed_form(parts: int, batch: int) -> None:
    """(W + B·k) / (n·W + B·k), measured on the engine: everybody writes 400 tokens from the same moment."""
    profile = Profile(a_ms=17, b_ms=0.3, c_ms=0, p_ms=0)

    def tokens_per_s(n: int) -> float:
        run = [request(f"t-{i}", 0, 1, 400, i) for i in range(batch)]
        place = {f"t-{i}": i % n for i in range(batch)}
        way = "mig" if n > 1 else "one"
        return simulate(run, FIFO(), partitioned(way, profile, n, 100_000, place=place)).tokens_per_s

    assert tokens_per_s(parts) / tokens_per_s(1) == pytest.approx(
        (17 + batch * 0.3) / (parts * 17 + batch * 0.3), rel=1e-9
    )


def test_the_table_of_the_closed_form() -> None:
    rows = decode_table(Profile(10, 0.1, 0.001, 0.1), [1, 2, 8], 2, 1000)
    assert [row["batch"] for row in rows] == [2, 8]  # one sequence is not divided
    k = 0.1 + 0.001 * 1000
    assert rows[1]["one_tokens_per_s"] == pytest.approx(1000 * 8 / (10 + 8 * k))
    assert rows[1]["mig_tokens_per_s"] == pytest.approx(1000 * 8 / (20 + 8 * k))
    assert rows[1]["ratio"] == pytest.approx(rows[1]["closed_form"]) == pytest.approx(mig_ratio(10, k, 8, 2))
    with pytest.raises(ValueError, match="parts must be a whole number >= 1, got 0"):
        decode_table(PLAIN, [2], 0, 1)


def test_a_slice_has_its_shares() -> None:
    third = slice_profile(Profile(12, 1, 0.5, 0.1, 3), bandwidth=0.5, compute=0.25)
    assert (third.a_ms, third.b_ms, third.c_ms, third.p_ms, third.o_ms) == (24, 4, 1, 0.4, 3)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="bandwidth share must be in"):
            slice_profile(PLAIN, bad)


# -- one part of anything is one engine -------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_one_part_is_a_plain_engine(way: str) -> None:
    profile = Profile(16.875, 0.042, 1.493e-4, 0.0932, 1.5)
    plain = simulate(crowd(), FIFO(), BatchingEngine(profile, 64, kv_tokens=20_000))
    alone = simulate(crowd(), FIFO(), partitioned(way, profile, 1, 20_000, max_num_seqs=64))
    for name in ("start", "scheduled", "first_token", "finish", "tpot"):
        np.testing.assert_allclose(column(alone, name), column(plain, name), rtol=0, atol=1e-8)
    assert column(alone, "preemptions").tolist() == column(plain, "preemptions").tolist()


# -- processes on one card, by hand -----------------------------------------------------------------------


def finishes(way: str, profile: Profile, requests: list[Request], **settings: Any) -> list[float]:
    place = {r.tenant: i for i, r in enumerate(requests)}
    engine = partitioned(way, profile, len(requests), 100_000, place=place, **settings)
    return list(column(simulate(requests, FIFO(), engine), "finish"))


@pytest.mark.parametrize("way", ["time_sliced", "mps"])
def test_two_that_write_run_at_half_speed_until_one_is_done(way: str) -> None:
    # 100 and 50 steps of 10 ms. Together at half speed: the short one ends after 1 s, when the long one has
    # done 50; alone it does the other 50 in 0.5 s.
    run = [request("long", 0, 1, 100), request("short", 0, 1, 50)]
    assert finishes(way, PLAIN, run) == pytest.approx([1.5, 1.0], abs=1e-7)


@pytest.mark.parametrize("way", ["time_sliced", "mps"])
def test_one_that_comes_later_slows_the_other_from_then_on(way: str) -> None:
    # Alone for 0.5 s (50 steps), then both at half speed: 20 steps of the newcomer take 0.4 s (20 of the
    # first too), and the last 30 take 0.3 s.
    run = [request("first", 0, 1, 100), request("later", 0.5, 1, 20)]
    assert finishes(way, PLAIN, run) == pytest.approx([1.2, 0.9], abs=1e-7)


@pytest.mark.parametrize("way", ["time_sliced", "mps"])
def test_what_is_idle_between_steps_another_process_uses(way: str) -> None:
    # 10 ms of work and 10 ms idle: two such fit side by side.
    profile = Profile(10, 0, 0, 0, o_ms=10)
    run = [request("a", 0, 1, 100), request("b", 0, 1, 50)]
    assert finishes(way, profile, run) == pytest.approx([2.0, 1.0], abs=1e-7)


def test_mps_overlaps_a_prompt_with_writing_and_time_slicing_does_not() -> None:
    # The prompt: 200 ms of arithmetic, 10 of bandwidth. Writing: all of the bandwidth. So under MPS both run
    # at 1 / 1.05 of full speed; taking turns, at half.
    profile = Profile(10, 0, 0, 0.1)
    run = [request("writes", 0, 1, 100), request("reads", 0.0, 2000, 1)]
    _, prompt = finishes("mps", profile, run)
    assert prompt == pytest.approx(0.2 * 1.05, rel=0.01)
    _, prompt = finishes("time_sliced", profile, run)
    assert prompt == pytest.approx(0.4, rel=0.01)


def test_mps_is_never_slower_than_taking_turns() -> None:
    for seed in range(3):
        run = crowd(120, seed, rate=20)
        place = {"t-0": 0, "t-1": 1}
        profile = Profile(16.875, 0.042, 1.493e-4, 0.0932)
        spans = {
            way: simulate(run, FIFO(), partitioned(way, profile, 2, 41_408, place=place)).makespan
            for way in ("mps", "time_sliced")
        }
        assert spans["mps"] <= spans["time_sliced"] * (1 + 1e-9)


shares = st.floats(0, 1, allow_subnormal=False).map(lambda x: round(x, 3))


@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=5))
def test_speeds_are_max_min_fair(demands: list[tuple[float, float]]) -> None:
    """The definition (bottlenecks): who is slowed down needs a resource that is used up, and of those who
    need it nobody is faster.
    """
    speeds = max_min(demands)
    used = [sum(s * d[r] for s, d in zip(speeds, demands, strict=True)) for r in range(2)]
    assert all(0 < s <= 1 for s in speeds)
    assert all(u <= 1 + 1e-9 for u in used)
    for speed, mine in zip(speeds, demands, strict=True):
        if speed < 1:
            assert any(
                mine[r] > 0
                and used[r] >= 1 - 1e-9
                and all(other <= speed + 1e-9 for other, d in zip(speeds, demands, strict=True) if d[r] > 0)
                for r in range(2)
            )


def test_the_rules_look_at_their_own_resources() -> None:
    writes, reads = (1.0, 0.0, 1.0), (0.05, 1.0, 1.0)
    assert time_sliced([writes, reads]) == [0.5, 0.5]
    assert mps([writes, reads]) == pytest.approx([1 / 1.05, 1 / 1.05])
    assert mps([writes, writes]) == [0.5, 0.5]
    assert time_sliced([]) == mps([]) == []


# -- who survives ------------------------------------------------------------------------------------------

STRUCK = {
    ("mig", "oom"): {"t-1"},
    ("mig", "fault"): {"t-1"},
    ("mps", "oom"): {"t-0", "t-1"},
    ("mps", "fault"): {"t-0", "t-1"},
    ("time_sliced", "oom"): {"t-0", "t-1"},
    ("time_sliced", "fault"): {"t-1"},
}


@pytest.mark.parametrize(("way", "kind"), STRUCK)
def test_who_is_struck_by_the_failure_of_a_neighbour(way: str, kind: str) -> None:
    engine = partitioned(
        way,
        Profile(16.875, 0.042, 1.493e-4, 0.0932),
        2,
        20_000,
        place={"t": 0, "t-1": 1},  # "t" is the group of t-0
        outages=[Outage(20, 1, 30, kind)],
    )
    result = simulate(crowd(), FIFO(), engine)
    rows = result.requests
    assert result.counts()["finished"] == 200  # what was thrown back is done again
    struck = set(rows.loc[(rows["retries"] > 0).to_numpy(), "tenant"])
    assert struck == STRUCK[way, kind]
    assert {tenant for tenant in ("t-0", "t-1") if engine.down_s(tenant)} == struck
    for tenant in struck:
        mine = rows[(rows["tenant"] == tenant).to_numpy()]
        finish = mine["finish"].to_numpy(dtype=float)
        assert not ((finish > 20) & (finish <= 50)).any()


def test_a_failure_behind_the_border_changes_nothing_at_all() -> None:
    def run(*outages: Outage) -> Any:
        engine = partitioned(
            "mig", PLAIN, 2, 20_000, place={"t-0": 0, "t-1": 1}, outages=outages, max_num_seqs=8
        )
        rows = simulate(crowd(), VTC(), engine).requests
        return rows[(rows["tenant"] == "t-0").to_numpy()][["start", "first_token", "finish"]]

    assert run().equals(run(Outage(10, 1, 40, "oom"), Outage(12, 1, 3)))


def test_one_engine_takes_everybody_along() -> None:
    engine = partitioned("one", PLAIN, 1, 20_000, outages=[Outage(20, 0, 30)])
    result = simulate(crowd(), FIFO(), engine)
    assert set(result.requests.loc[(result.requests["retries"] > 0).to_numpy(), "tenant"]) == {"t-0", "t-1"}
    assert engine.down_s("t-0") == 30


def test_seconds_without_service_are_counted_once() -> None:
    outages = [Outage(10, 0, 20), Outage(15, 0, 5), Outage(25, 0, 10), Outage(100, 1, 7)]
    engine = partitioned("mig", PLAIN, 2, 20_000, place={"a": 0, "b": 1}, outages=outages)
    assert (engine.down_s("a"), engine.down_s("b"), engine.down_s("c")) == (25, 7, 0)
    both = partitioned("mig", PLAIN, 2, 20_000, outages=[Outage(0, 0, 10), Outage(6, 1, 10)])
    assert both.down_s("anybody") == 4


# -- one queue before both halves --------------------------------------------------------------------------


def test_a_full_half_does_not_block_the_other() -> None:
    """FIFO in front of two halves: forty for the first, then one for the second, which starts at once."""
    run = [request("much", 0, 1, 100, i) for i in range(40)] + [request("little", 0.5, 1, 10, "x")]
    engine = partitioned("mig", PLAIN, 2, 20_000, place={"much": 0, "little": 1}, max_num_seqs=2)
    rows = simulate(run, FIFO(), engine).requests
    assert rows["start"].iloc[-1] == 0.5
    assert rows["member"].iloc[-1] == 1
    # never more than two at once in the first half: a pair every 100 steps of 20 ms
    assert sorted(set(rows["start"].iloc[:40].round(6))) == pytest.approx([2.0 * i for i in range(20)])


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match="way must be one of one, mig, mps, time_sliced, got 'mag'"):
        partitioned("mag", PLAIN, 2, 1000)
    with pytest.raises(ValueError, match="parts must be a whole number >= 1, got 0"):
        partitioned("mig", PLAIN, 0, 1000)
    with pytest.raises(ValueError, match="one engine has 1 part, got parts = 2"):
        partitioned("one", PLAIN, 2, 1000)
    with pytest.raises(ValueError, match=r"place of 'a' must be a member 0\.\.1, got 2"):
        partitioned("mig", PLAIN, 2, 1000, place={"a": 2})
    with pytest.raises(ValueError, match="outage: member must be < 2, got 2"):
        partitioned("mig", PLAIN, 2, 1000, outages=[Outage(1, 2)])
    for bad, message in (
        ({"at_s": -1}, "at_s must be >= 0, got -1"),
        ({"down_s": float("inf")}, "down_s must be a finite number"),
        ({"kind": "fire"}, "kind must be one of fault, oom, got 'fire'"),
        ({"member": -1}, "member must be a whole number >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            Outage(**({"at_s": 1, "member": 0} | bad))  # type: ignore[arg-type]


def test_what_a_part_can_never_serve_is_refused_before_the_run() -> None:
    engine = partitioned("mig", PLAIN, 2, 1000, place={"a": 0})
    with pytest.raises(ValueError, match="prompt_tokens = 2000 is longer than the KV cache"):
        simulate([request("a", 0, 10, 1), request("a", 1, 2000, 1)], FIFO(), engine)


def test_an_engine_serves_one_run() -> None:
    engine = partitioned("mps", PLAIN, 2, 1000)
    simulate([request("a", 0, 10, 1)], FIFO(), engine)
    with pytest.raises(ValueError, match="serves one run"):
        simulate([request("a", 0, 10, 1)], FIFO(), engine)
