"""My turn: closed forms, hand schedules, and how often the truth of a simulation lies in the spread."""

import copy
import json
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fairq import DRR, FIFO, KeyCaps, Policy, Request
from fairq.cli import app
from fairq.eta import Eta, Running, eta, eta_in_line, slot_speed, state_from_data
from fairq.sim import SlotEngine, simulate

ONE_PER_S = slot_speed(1.0, 1.0)


def waiting(queue: Policy, tenant: str, cost: float) -> Request:
    request = Request(tenant, cost, arrival=0)
    queue.put(request)
    return request


# -- by hand --------------------------------------------------------------------------------------------


def test_one_slot_first_come_first_served_by_hand() -> None:
    queue = FIFO()
    first = waiting(queue, "a", 10)
    assert queue.get() is first
    waiting(queue, "b", 5)
    mine = waiting(queue, "c", 1)
    # 10 - 4 s of the running one are left, then 5 s of the one in front.
    found = eta(queue, mine, [Running(first, 4.0)], 1, ONE_PER_S)
    assert (found.position, found.median_s, found.low_s, found.high_s) == (1, 11.0, 11.0, 11.0)
    assert len(queue) == 2, "the queue itself is not touched"


def test_a_policy_that_lets_me_pass_and_who_still_comes() -> None:
    queue = DRR(quantum=1)
    for _ in range(3):
        waiting(queue, "big", 10)
    mine = waiting(queue, "small", 10)
    assert eta(queue, mine, [], 1, ONE_PER_S).median_s == 10.0
    # Somebody new comes at 1 s with a small request: first come first served lets nobody pass.
    late = Request("new", 1, arrival=1)
    fifo = FIFO()
    waiting(fifo, "big", 10)
    last = waiting(fifo, "small", 10)
    assert eta(fifo, last, [], 1, ONE_PER_S, arrivals=lambda sample: [late], samples=3).median_s == 10.0


def test_a_cap_of_zero_is_never() -> None:
    queue = KeyCaps(FIFO(), per_key={"blocked": 0})
    mine = waiting(queue, "blocked", 1)
    found = eta(queue, mine, [], 2, ONE_PER_S)
    assert found.never == 1.0
    assert "not served" in str(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": 0}, "slots must be a whole number >= 1, got 0"),
        ({"sigma": -1}, "sigma must be a finite number >= 0, got -1"),
        ({"samples": 0}, "samples must be >= 1, got 0"),
        ({"confidence": 1.0}, "confidence must be between 0 and 1, got 1.0"),
        ({"running": [Running(Request("x", 1), 0)]}, "running must be the 0 requests handed out, got 1"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    queue = FIFO()
    given: dict[str, Any] = {"running": [], "slots": 1, "speed": ONE_PER_S} | change
    mine = waiting(queue, "a", 1)
    with pytest.raises(ValueError, match=message):
        eta(queue, mine, **given)


# -- closed forms ---------------------------------------------------------------------------------------


def test_a_line_of_fixed_services_on_one_slot() -> None:
    # The rest of what runs is uniform on (0, 10); then 3 of 10 s each.
    found = eta_in_line(3, 1, 10.0, 0.0, samples=4000)
    assert found.median_s == pytest.approx(35.0, abs=0.5)
    assert found.low_s == pytest.approx(31.0, abs=0.4)
    assert found.high_s == pytest.approx(39.0, abs=0.4)


def test_a_long_line_empties_at_the_rate_of_the_box() -> None:
    # k departures at rate streams / service (renewal theory): mean k·s/c, and its spread √k·cv·s/c.
    found = eta_in_line(400, 8, 20.0, 1.0, samples=1500)
    assert found.median_s == pytest.approx(400 * 20 / 8, rel=0.03)
    assert (found.high_s - found.low_s) / 2 / 1.2816 == pytest.approx(sqrt(400) * 20 / 8, rel=0.12)


def test_nobody_in_front_and_a_free_stream_is_now() -> None:
    assert eta_in_line(0, 4, 20.0, 1.0, busy=False).high_s == 0.0


# -- against simulated truth ----------------------------------------------------------------------------


def coverage(policy: Policy, tenants: int, sigma: float, known_arrivals: bool, seed: int) -> tuple[int, int]:
    """In how many of how many cases the true start lay in the 80 % spread."""
    rng = np.random.Generator(np.random.PCG64(seed))
    n, slots, decode = 900, 4, 40.0

    def made(rng: Any, count: int, begin: float) -> list[Request]:
        gaps = rng.exponential(1.15, count)
        estimates = rng.lognormal(np.log(150), 0.6, count)
        true = np.maximum(np.rint(estimates * np.exp(sigma * rng.standard_normal(count))), 1)
        who = rng.integers(tenants, size=count)
        return [
            Request(f"t{w}", float(e), arrival=float(a), prompt_tokens=0, output_tokens=int(t), id=i)
            for i, (w, e, a, t) in enumerate(zip(who, estimates, begin + np.cumsum(gaps), true, strict=True))
        ]

    requests = made(rng, n, 0.0)
    seen: list[tuple[Request, Policy, list[Request]]] = []
    plain_put = policy.put

    def put(request: Request) -> None:
        plain_put(request)
        if request.id % 6 == 0 and len(policy) > 1:
            del policy.put  # type: ignore[method-assign]
            seen.append((request, copy.deepcopy(policy), list(policy._running)))
            policy.put = put  # type: ignore[method-assign]

    policy.put = put  # type: ignore[method-assign]
    rows = simulate(
        requests, policy, SlotEngine(slots, prefill_tokens_per_s=1e9, decode_tokens_per_s=decode)
    ).requests
    start = dict(zip(rows["id"], rows["start"], strict=True))
    inside = 0
    speed = slot_speed(1e9, decode)
    for request, queue, handed in seen:
        now = float(request.arrival)
        running = [Running(each, now - start[each.id]) for each in handed]
        arrivals = None
        if known_arrivals:
            arrivals = lambda k, now=now: made(np.random.Generator(np.random.PCG64((seed, k))), 120, now)  # noqa: E731
        found = eta(
            queue, request, running, slots, speed, sigma=sigma, now=now, arrivals=arrivals, samples=60
        )
        inside += found.low_s <= start[request.id] - now <= found.high_s
    return inside, len(seen)


def test_first_come_first_served_four_in_five_true_starts_are_in_the_spread() -> None:
    inside, cases = coverage(FIFO(), 3, 0.5, False, seed=5)
    assert cases > 60
    # Cases of one run are alike, so the binomial spread is widened by half.
    assert abs(inside / cases - 0.8) < 3 * sqrt(0.16 / cases) * 1.5


@pytest.mark.slow
def test_fair_shares_with_who_may_still_come() -> None:
    results = [coverage(DRR(quantum=200), 3, 0.5, True, seed) for seed in (5, 6, 7)]
    inside, cases = (sum(each) for each in zip(*results, strict=True))
    assert cases > 150
    assert abs(inside / cases - 0.8) < 3 * sqrt(0.16 / cases) * 1.5


def test_a_spread_that_thinks_sizes_are_exact_is_too_narrow() -> None:
    """The check can fail: with the wrong sigma the truth is mostly outside."""
    inside, cases = coverage_with_wrong_sigma()
    assert inside / cases < 0.4


def coverage_with_wrong_sigma() -> tuple[int, int]:
    rng = np.random.Generator(np.random.PCG64(1))
    inside = 0
    for _ in range(100):
        queue = FIFO()
        running = [Request("r", 100) for _ in range(2)]
        for each in running:
            queue.put(each)
            queue.get()
        for _ in range(10):
            waiting(queue, "a", 100)
        mine = waiting(queue, "me", 1)
        found = eta(queue, mine, [Running(each, 0) for each in running], 2, ONE_PER_S, sigma=0.0)
        ends = sorted(100 * np.exp(0.5 * rng.standard_normal(2)))
        for service in 100 * np.exp(0.5 * rng.standard_normal(10)):
            ends = sorted([ends[0] + service, *ends[1:]])
        inside += found.low_s <= ends[0] <= found.high_s
    return inside, 100


# -- the command ----------------------------------------------------------------------------------------

STATE = {
    "policy": {"policy": "fifo"},
    "slots": 1,
    "now": 100.0,
    "running": [{"tenant": "a", "cost": 400, "elapsed_s": 2.0}],
    "waiting": [{"id": "r1", "tenant": "b", "cost": 200}, {"id": "r2", "tenant": "c", "cost": 10}],
}


def test_a_state_file_gives_position_and_start(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps(STATE))
    result = CliRunner().invoke(app, ["eta", str(path), "--tokens-per-s", "40", "--sigma", "0", "--json"])
    assert result.exit_code == 0, result.output
    # 400/40 - 2 s, then 200/40 s.
    assert json.loads(result.stdout)["median_s"] == pytest.approx(13.0)
    first = CliRunner().invoke(app, ["eta", str(path), "--tokens-per-s", "40", "--sigma", "0", "--me", "r1"])
    assert first.stdout.startswith("position 0: starts in about 8.0 s")


def test_a_card_gives_streams_and_speed(tmp_path: Path) -> None:
    card = CliRunner().invoke(app, ["capacity", "noisy_burst", "--json"])
    assert card.exit_code == 0, card.output
    path = tmp_path / "card.json"
    path.write_text(card.stdout)
    result = CliRunner().invoke(app, ["eta", "--position", "16", "--card", str(path), "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(card.stdout)
    row = data["by_streams"][-1]
    service = row["first_token_s"] + (data["shape"]["output_tokens"] - 1) * row["time_per_output_token_s"]
    assert json.loads(result.stdout)["median_s"] == pytest.approx(16 * service / 8, rel=0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a state file or --position"),
        (["--position", "3"], "--streams: is missing"),
        (
            ["--position", "-1", "--streams", "1", "--service-s", "1"],
            "position must be a whole number >= 0, got -1",
        ),
        (["nope.json"], "nope.json: cannot be read: No such file or directory"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["eta", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_state_needs_tenant_and_cost() -> None:
    with pytest.raises(ValueError, match=r"waiting\[0\]: must be an object with tenant and cost"):
        state_from_data({"waiting": [{"tenant": "a"}]}, FIFO())
    with pytest.raises(ValueError, match=r"running\[0\]: cost must be .*> 0, got -1"):
        state_from_data({"running": [{"tenant": "a", "cost": -1}]}, FIFO())


def test_words() -> None:
    assert str(Eta(3, 95.0, 8.0, 6000.0, 0.8, 200)) == (
        "position 3: starts in about 1.6 min (80% between 8.0 s and 1.7 h)"
    )
