"""Arrival processes against closed forms; seeds are fixed, tolerances are some four standard errors."""

from math import exp, sqrt

import numpy as np
import pytest
from scipy import stats

from fairq.workload import ClosedLoop, Dump, Exponential, Fixed, Gamma, OnOff, Poisson, Times


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_poisson_gaps_are_exponential() -> None:
    times = Poisson(2.0).times(rng(), 50_000)
    gaps = np.diff(times)
    assert abs(len(times) - 100_000) < 4 * sqrt(100_000)
    # The 0.1 % critical value of Kolmogorov-Smirnov.
    assert stats.kstest(gaps, stats.expon(scale=0.5).cdf).pvalue > 0.001


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.5, 5.0])
def test_gamma_gaps_have_the_mean_and_cv_asked_for(cv: float) -> None:
    gaps = np.diff(Gamma(4.0, cv).times(rng(1), 100_000))
    n = len(gaps)
    assert abs(gaps.mean() - 0.25) < 4 * 0.25 * cv / sqrt(n)
    # Standard error of a variance: sqrt((kurtosis - 1)/n); a Gamma's kurtosis is 3 + 6·cv².
    assert abs(gaps.var() / (0.25 * cv) ** 2 - 1) < 4 * sqrt((2 + 6 * cv**2) / n)
    # The tail at some points. (Not below a microsecond: there, a gap is lost in the digits of its time.)
    law = stats.gamma(1 / cv**2, scale=0.25 * cv**2)
    for point in (1e-6, 0.01, 0.1, 0.25, 0.5, 1.0):
        chance = law.sf(point)
        assert abs((gaps > point).mean() - chance) <= 4 * sqrt(chance * (1 - chance) / n)


@pytest.mark.parametrize("cv", [0.5, 4.0])
def test_gamma_expects_rate_times_t_from_the_start(cv: float) -> None:
    # An ordinary renewal process would expect (cv² - 1)/2 = 7.5 requests more for cv 4.
    counts = [len(Gamma(1.0, cv).times(rng(seed), 20.0)) for seed in range(4000)]
    assert abs(np.mean(counts) - 20.0) < 4 * np.std(counts) / sqrt(len(counts))


def test_on_off_maps_busy_seconds_to_the_clock() -> None:
    process = OnOff(5.0, on_s=10, off_s=50)
    busy = np.array([0.0, 9.75, 10.0, 10.5, 19.75, 20.0, 35.0])
    assert process.wall(busy).tolist() == [0.0, 9.75, 60.0, 60.5, 69.75, 120.0, 185.0]
    on = {0: 0, 5: 5, 10: 10, 30: 10, 60: 10, 65: 15, 130: 30, 600: 100}
    assert {horizon: process.on_time(horizon) for horizon in on} == on


def test_on_off_is_silent_while_off_and_poisson_while_on() -> None:
    times = OnOff(5.0, on_s=10, off_s=50).times(rng(2), 60_000)
    assert (times % 60 < 10).all()
    per_burst = np.bincount((times // 60).astype(int), minlength=1000)
    assert abs(per_burst.mean() - 50) < 4 * sqrt(50 / 1000)
    # Poisson: variance = mean, whose standard error over 1000 bursts is about mean·sqrt(2/1000).
    assert abs(per_burst.var() - 50) < 4 * 50 * sqrt(2 / 1000)


def test_a_dump_comes_at_once_with_its_integer_time() -> None:
    times = Dump(60, 3).times(rng(), 600).tolist()
    assert times == [60, 60, 60]
    assert all(isinstance(t, int) for t in times)
    assert Dump(60, 3).times(rng(), 60).tolist() == []


def test_exact_times_stop_at_the_horizon() -> None:
    assert Times((0, 0, 1.5, 7)).times(rng(), 7).tolist() == [0, 0, 1.5]


@pytest.mark.parametrize("process", [Poisson(3.0), Gamma(3.0, 4.0), OnOff(6.0, 3, 5), Times((0, 1, 30))])
def test_a_longer_horizon_keeps_the_earlier_arrivals(process: Poisson) -> None:
    short, long = process.times(rng(3), 700.0), process.times(rng(3), 5000.0)
    assert long[: len(short)].tolist() == short.tolist()
    assert (np.diff(long) >= 0).all()
    assert (long[len(short) :] >= 700.0).all()


@pytest.mark.parametrize(("slow", "fast"), [(Poisson(1.0), Poisson(2.0)), (Gamma(1.0, 3), Gamma(2.0, 3))])
def test_twice_the_rate_halves_every_gap(slow: Poisson, fast: Poisson) -> None:
    once, twice = slow.times(rng(4), 1000.0), fast.times(rng(4), 500.0)
    np.testing.assert_allclose(once, 2 * twice, rtol=1e-12)


def test_the_first_gap_of_a_poisson_like_gamma_is_exponential_too() -> None:
    first = [Gamma(1.0, 1.0).times(rng(seed), 50.0)[0] for seed in range(2000)]
    assert abs(np.mean(np.array(first) > 1.0) - exp(-1)) < 4 * sqrt(exp(-1) * (1 - exp(-1)) / 2000)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Poisson(0), r"rate_per_s must be a finite number > 0, got 0"),
        (lambda: Poisson(float("nan")), r"rate_per_s must be .* got nan"),
        (lambda: Gamma(1, 0), r"cv must be a finite number > 0, got 0"),
        (lambda: Gamma(1, 101), r"cv must be <= 100, got 101"),
        (lambda: OnOff(1, 0, 1), r"on_s must be .* > 0, got 0"),
        (lambda: OnOff(1, 1, -1), r"off_s must be .* >= 0, got -1"),
        (lambda: Dump(-1, 3), r"at_s must be .* >= 0, got -1"),
        (lambda: Dump(1, 2.5), r"requests must be a whole number >= 1, got 2.5"),
        (lambda: Times(()), r"times_s must not be empty"),
        (lambda: Times((1, 0)), r"times_s\[1\] must not be before times_s\[0\], got 0"),
        (lambda: ClosedLoop(0, 1), r"workers must be a whole number >= 1, got 0"),
        (lambda: ClosedLoop(1, -1), r"think_s must be .* >= 0, got -1"),
    ],
)
def test_bad_values_are_named(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_a_closed_loop_takes_a_number_or_a_distribution() -> None:
    assert ClosedLoop(2, 5).think_s == Fixed(5)
    assert ClosedLoop(2, Exponential(5)).think_s == Exponential(5)
