"""Numbers from tables, against SciPy, published values and tables small enough to count by hand."""

from math import isnan, nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairq import DRR, FIFO, KeyCaps, Request, metrics
from fairq.sim import SlotEngine, simulate


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 9, 10, 29, 30, 99, 364, 1000])
@pytest.mark.parametrize("p", [0.5, 0.6, 0.9, 0.95, 0.975, 0.995, 0.9999])
def test_t_quantile_is_scipys(p, df):
    assert metrics.t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(("p", "df"), [(0.4, 3), (1.0, 3), (nan, 3), (0.9, 0)])
def test_t_quantile_refuses(p, df):
    with pytest.raises(ValueError, match="must be"):
        metrics.t_quantile(p, df)


def test_t_interval_is_scipys_and_skips_what_is_missing():
    values = [3.1, 4.0, 2.2, 5.9, 3.3]
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert metrics.t_interval(values) == pytest.approx((np.mean(values), low, high))
    assert metrics.t_interval([*values, nan]) == metrics.t_interval(values)
    assert metrics.t_interval(values).half_width == pytest.approx((high - low) / 2)


def test_no_interval_from_one_run_and_nothing_from_none():
    mean, low, high = metrics.t_interval([2.0])
    assert mean == 2.0
    assert isnan(low)
    assert isnan(high)
    assert all(map(isnan, metrics.t_interval([])))


def test_t_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(8)
    covered = [low <= 0 <= high for _, low, high in map(metrics.t_interval, rng.normal(size=(4000, 5)))]
    assert np.mean(covered) == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / 4000) ** 0.5)


def test_paired_differences_cancel_what_both_share():
    rng = np.random.default_rng(1)
    shared = rng.normal(0, 100, 10)
    before, after = shared + rng.normal(5, 1, 10), shared + rng.normal(3, 1, 10)
    paired = metrics.paired_difference(after, before)
    test = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert paired == pytest.approx(((after - before).mean(), test.low, test.high))
    assert paired.high < 0
    assert metrics.t_interval(after).half_width > 20 * paired.half_width
    with pytest.raises(ValueError, match="got 2 and 3"):
        metrics.paired_difference([1, 2], [1, 2, 3])


def test_enough_for_a_p99():
    assert metrics.enough() == 368
    assert 0.99**368 <= 0.025 < 0.99**367
    assert metrics.too_few(367)
    assert not metrics.too_few(368)
    assert not metrics.too_few(6, 0.5)  # 0.5**6 < 0.025 < 0.5**5
    assert metrics.too_few(5, 0.5)


def test_percentile_is_linear_and_of_nothing_is_missing():
    assert metrics.percentile([1, 2, 3, 4], 50) == 2.5
    assert metrics.percentile([10, 20], 99) == pytest.approx(19.9)
    assert isnan(metrics.percentile([], 50))


def test_jain_index():
    assert metrics.jain_index([1, 1, 1]) == pytest.approx(1)
    assert metrics.jain_index([1, 0, 0, 0]) == 0.25
    assert metrics.jain_index([4, 2, 1], weights=[4, 2, 1]) == pytest.approx(1)
    assert metrics.jain_index([1, 2, 3]) == pytest.approx(36 / (3 * 14))
    assert isnan(metrics.jain_index([0, 0]))


def test_time_mean():
    assert metrics.time_mean([0, 2, 3], [1, 5, 0], 0, 4) == (2 * 1 + 1 * 5) / 4
    assert metrics.time_mean([2], [8], 0, 4) == 4  # nothing before
    assert metrics.time_mean([0, 2], [1, 5], 1, 3) == 3
    assert metrics.time_mean([], [], 0, 4) == 0
    assert isnan(metrics.time_mean([0], [1], 4, 4))


# -- shares ---------------------------------------------------------------------------------------


def backlog(n, **cost):
    """``n`` requests of every tenant at 0, a service second per token."""
    return [
        Request(tenant, c, arrival=0, service=c, id=f"{tenant}{k}")
        for k in range(n)
        for tenant, c in cost.items()
    ]


@pytest.mark.parametrize("slots", [1, 3])
def test_shares_follow_the_weights_while_all_wait(slots):
    run = simulate(backlog(12, a=1, b=1, c=1), DRR(quantum=1, weights={"b": 2, "c": 3}), SlotEngine(slots))
    # a BB CCC four times; the last C is the last choice between all three.
    assert run.shares().to_dict() == {"a": 4 / 24, "b": 8 / 24, "c": 12 / 24}
    assert run.latency()["share"].tolist() == run.shares().tolist()
    # Over the whole drained run the shares repeat the demand.
    assert run.latency()["tokens"].tolist() == [12, 12, 12]


def test_shares_are_of_tokens_and_of_those_compared():
    run = simulate(backlog(8, a=2, b=1, c=1), DRR(quantum=2), SlotEngine(1))
    # Rounds of a, bb, cc: after four b and c are empty.
    assert run.shares(compared=["a", "b"]).to_dict() == {"a": 0.5, "b": 0.5}
    assert run.shares().to_dict() == pytest.approx({"a": 8 / 23, "b": 8 / 23, "c": 7 / 23}, abs=0.05)


def test_fifo_shares_repeat_what_was_sent():
    requests = [r for _ in range(5) for r in backlog(4, a=1) + backlog(1, b=1)]
    # aaaab five times; before the last b no a is left.
    assert simulate(requests, FIFO(), SlotEngine(1)).shares().to_dict() == {"a": 20 / 24, "b": 4 / 24}
    # All of a first: a has every choice that was one.
    first_a = simulate(backlog(20, a=1) + backlog(5, b=1), FIFO(), SlotEngine(1))
    assert first_a.shares().to_dict() == {"a": 1, "b": 0}


def test_no_share_where_nobody_waited_together():
    requests = [Request("a", 1, arrival=0, service=1), Request("b", 1, arrival=5, service=1)]
    shares = simulate(requests, FIFO(), SlotEngine(1)).shares()
    assert shares.isna().all()
    assert shares.index.tolist() == ["a", "b"]


def test_a_moment_is_no_backlog():
    """Under caps a slot is idle when b comes: it waits for no time, though a is waiting all along."""
    requests = [*backlog(4, a=3), *(Request("b", 1, arrival=t, service=1) for t in (1, 4))]
    run = simulate(requests, KeyCaps(FIFO(), default=1), SlotEngine(2))
    assert run.requests.loc[run.requests["tenant"] == "b", "wait"].tolist() == [0, 0]
    assert run.shares().isna().all()


def waits_at(rows, moment):
    """Tenants with a waiting request at a time at which nothing happens."""
    return {
        row["tenant"]
        for row in rows
        if row["status"] != "refused"
        and row["arrival"] <= moment < (row["left"] if row["dispatch"] < 0 else row["start"])
    }


@settings(max_examples=60, deadline=None)
@given(data=st.data(), slots=st.integers(1, 3))
def test_shares_against_a_count_by_hand(data, slots):
    """Every dispatch looked at by itself, with patience and full lines."""
    requests = [
        Request(
            data.draw(st.sampled_from("ab")),
            data.draw(st.integers(1, 4)),
            arrival=data.draw(st.integers(0, 12)),
            service=data.draw(st.integers(1, 4)),
            id=n,
        )
        for n in range(data.draw(st.integers(1, 25)))
    ]
    run = simulate(requests, DRR(quantum=2), SlotEngine(slots), patience=5, line_limit=4)
    rows = run.requests.to_dict("records")
    tokens = {"a": 0, "b": 0}
    for row in rows:
        if row["dispatch"] < 0:
            continue
        start, place = row["start"], row["dispatch"]
        waiting = {
            other["tenant"]
            for other in rows
            if other["arrival"] <= start
            and other["status"] != "refused"
            and (other["left"] >= start if other["dispatch"] < 0 else other["dispatch"] >= place)
        }
        everybody = {r["tenant"] for r in rows}
        if waiting == everybody and everybody in (waits_at(rows, start - 0.5), waits_at(rows, start + 0.5)):
            tokens[row["tenant"]] += row["cost"]
    total = sum(tokens.values())
    expected = {t: tokens[t] / total if total else nan for t in dict.fromkeys(r["tenant"] for r in rows)}
    assert run.shares().to_dict() == pytest.approx(expected, nan_ok=True)


# -- tables over replications ---------------------------------------------------------------------


def test_over_replications():
    class Fixed:
        def __init__(self, p99, n):
            self.table = pd.DataFrame({"latency_p99": [p99], "n": [n], "unfinished": [1]}, index=["a"])

        def latency(self, by):
            return self.table

    table = metrics.over_replications({"fifo": [Fixed(2.0, 10), Fixed(4.0, 20)]}, "latency_p99")
    row = table.iloc[0]
    assert (row["policy"], row["tenant"], row["n"], row["unfinished"], row["runs"]) == ("fifo", "a", 30, 2, 2)
    low, high = stats.t.interval(0.95, 1, 3.0, stats.sem([2.0, 4.0]))
    assert row[["mean", "low", "high"]].tolist() == pytest.approx([3.0, low, high])
