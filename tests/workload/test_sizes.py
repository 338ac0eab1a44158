"""Sizes and estimates against closed forms."""

from math import exp, log, sqrt

import numpy as np
import pytest
from scipy import stats

from fairq.workload import Empirical, Estimate, Exponential, Fixed, Lognormal
from fairq.workload.sizes import tokens

N = 40_000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_lognormal_has_its_median_and_sigma() -> None:
    drawn = np.log(Lognormal(400, 0.8).sample(rng(), N))
    assert abs(drawn.mean() - log(400)) < 4 * 0.8 / sqrt(N)
    assert abs(drawn.std() - 0.8) < 4 * 0.8 / sqrt(2 * N)
    assert stats.kstest(drawn, stats.norm(log(400), 0.8).cdf).pvalue > 0.001


def test_lognormal_is_cut_off_at_max() -> None:
    free, cut = Lognormal(400, 0.8).sample(rng(), 1000), Lognormal(400, 0.8, max=600).sample(rng(), 1000)
    assert cut.tolist() == [min(value, 600) for value in free.tolist()]


def test_exponential_has_its_mean() -> None:
    assert abs(Exponential(5).sample(rng(1), N).mean() - 5) < 4 * 5 / sqrt(N)


def test_empirical_draws_its_values_with_equal_chance() -> None:
    drawn = Empirical((10, 20, 20, 0)).sample(rng(2), N)
    seen = {value: int((drawn == value).sum()) for value in np.unique(drawn).tolist()}
    assert seen.keys() == {0, 10, 20}
    assert stats.chisquare([seen[0], seen[10], seen[20]], [N / 4, N / 4, N / 2]).pvalue > 0.001


def test_empirical_draws_its_values_in_proportion_to_their_chances() -> None:
    drawn = Empirical((10, 20, 500), (5, 4, 1)).sample(rng(2), N)
    seen = [int((drawn == value).sum()) for value in (10, 20, 500)]
    assert sum(seen) == N
    assert stats.chisquare(seen, [N * 0.5, N * 0.4, N * 0.1]).pvalue > 0.001


@pytest.mark.parametrize(
    ("chances", "message"),
    [((1,), r"chances must be as many as values \(2\), got 1"), ((1, 0), r"chances\[1\] must be")],
)
def test_chances_that_do_not_fit(chances: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Empirical((10, 20), chances)


def test_tokens_are_whole_and_at_least_one_unless_nothing_was_drawn() -> None:
    assert tokens(Empirical((0.2,)), rng(), 2).tolist() == [1, 1]
    assert tokens(Fixed(0), rng(), 2).tolist() == [0, 0]
    assert tokens(Fixed(7.6), rng(), 1).tolist() == [8]
    assert tokens(Lognormal(1e300, 3), rng(), 1).tolist() == [2**53]


@pytest.mark.parametrize(
    "sizes",
    [Fixed(3), Lognormal(5, 1), Exponential(2), Empirical((1, 2, 3, 4, 5, 6, 7)), Empirical((1, 2), (3, 1))],
)
def test_a_longer_draw_begins_with_the_shorter(sizes: Fixed) -> None:
    stream = rng(3)
    parts = [*sizes.sample(stream, 64).tolist(), *sizes.sample(stream, 36).tolist()]
    assert parts == sizes.sample(rng(3), 100).tolist()


def test_an_exact_estimate_is_the_cost_itself() -> None:
    true = np.array([1, 500, 2**40])
    assert Estimate().costs(true, rng()).tolist() == true.tolist()


def test_an_estimate_is_off_by_its_factor_and_noise() -> None:
    true = np.full(N, 100_000)
    ratio = np.log(Estimate(factor=2.0, sigma=0.2).costs(true, rng(4)) / true)
    # Rounding to whole tokens moves a ratio by at most 1/200,000.
    assert abs(ratio.mean() - log(2)) < 4 * 0.2 / sqrt(N) + 1e-5
    assert abs(ratio.std() - 0.2) < 4 * 0.2 / sqrt(2 * N) + 1e-5
    assert Estimate(factor=2.0).costs(np.array([10, 25]), rng()).tolist() == [20, 50]
    assert Estimate(factor=exp(-9)).costs(np.array([10]), rng()).tolist() == [1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fixed(-1), r"value must be a finite number >= 0, got -1"),
        (lambda: Fixed(True), r"value must be .* got True"),
        (lambda: Lognormal(0, 1), r"median must be .* > 0, got 0"),
        (lambda: Lognormal(1, -1), r"sigma must be .* >= 0, got -1"),
        (lambda: Lognormal(1, 1, max=0), r"max must be .* > 0, got 0"),
        (lambda: Exponential(float("inf")), r"mean must be .* got inf"),
        (lambda: Empirical(()), r"values must not be empty"),
        (lambda: Empirical((1, -2)), r"values\[1\] must be .* got -2"),
        (lambda: Estimate(factor=0), r"factor must be .* > 0, got 0"),
        (lambda: Estimate(sigma=-0.1), r"sigma must be .* >= 0, got -0.1"),
    ],
)
def test_bad_values_are_named(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
