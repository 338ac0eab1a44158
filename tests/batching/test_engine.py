"""The engine behind a gateway: same times as the core alone, what rows and series gain, the hidden queue."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from fairq import DRR, FIFO, VTC, KeyCaps, Request
from fairq.sim import simulate
from fairq.sim.batching import BatchCore, BatchingEngine, Limits, Profile, Sequence, replay

from . import plain

PROFILE = Profile(16.0, 0.05, 2e-4, 0.1, o_ms=1.0, kv_tokens=4096)


def drawn(n: int, seed: int = 0, rate: float = 3.0, tenants: int = 3) -> list[Request]:
    rng = random.Random(seed)
    at, requests = 0.0, []
    for i in range(n):
        at += rng.expovariate(rate)
        prompt, output = rng.randint(1, 900), rng.randint(1, 300)
        requests.append(
            Request(
                f"t{rng.randrange(tenants)}",
                prompt + output,
                arrival=at,
                prompt_tokens=prompt,
                output_tokens=output,
                priority=rng.randrange(2),
                id=i,
            )
        )
    return requests


@pytest.mark.parametrize("settings", [{}, {"scheduling": "priority"}, {"chunked_prefill": False}])
@pytest.mark.parametrize("progress", ["finishes", "tokens", "never"])
def test_same_times_as_the_core_alone(settings: dict, progress: str) -> None:
    requests = drawn(120)
    limits = Limits(16, 2048, 4096, **settings)
    alone = replay(
        BatchCore(PROFILE, limits),
        [(r.arrival, Sequence(r.prompt_tokens, r.output_tokens, priority=r.priority)) for r in requests],
    )
    rows = simulate(
        requests, FIFO(), BatchingEngine(PROFILE, 16, gateway_slots=0, progress=progress, **settings)
    ).requests
    assert sum(s.preemptions for s in alone) > 0
    assert rows["preemptions"].tolist() == [s.preemptions for s in alone]
    for column, times in (
        ("scheduled", [s.scheduled for s in alone]),
        ("first_token", [s.first for s in alone]),
        ("finish", [s.finish for s in alone]),
    ):
        assert rows[column].to_numpy(dtype=float) == pytest.approx(times, rel=0, abs=1e-9)
    tpot = (rows["finish"] - rows["first_token"]) / (rows["output_tokens"] - 1)
    several = rows["output_tokens"] > 1
    assert rows["tpot"][several].to_numpy(dtype=float) == pytest.approx(tpot[several].to_numpy(dtype=float))


def test_a_closed_gateway_equals_plain_stepping_with_fewer_slots() -> None:
    """FIFO in front of an engine with room for all is an engine of the gateway's slots."""
    requests = drawn(80)
    slow = plain.PlainEngine(16.0, 0.05, 2e-4, 0.1, 1.0, max_num_seqs=5, budget=2048, kv_tokens=10**6)
    twin = [
        plain.Seq(r.id, r.prompt_tokens, r.output_tokens, r.arrival, order=i) for i, r in enumerate(requests)
    ]
    plain.replay(slow, twin)
    rows = simulate(requests, FIFO(), BatchingEngine(PROFILE, 64, kv_tokens=10**6, gateway_slots=5)).requests
    assert rows["finish"].to_numpy(dtype=float) == pytest.approx([s.finish for s in twin], rel=0, abs=1e-9)
    assert (rows["scheduled"] >= rows["start"]).all()


def test_the_series_say_how_full_it_is() -> None:
    result = simulate(drawn(120), FIFO(), BatchingEngine(PROFILE, 16, gateway_slots=0))
    series = result.engine
    assert list(series.columns) == ["t", "running", "waiting", "kv_pct"]
    assert series["t"].is_monotonic_increasing
    assert series["running"].max() <= 16
    assert series["waiting"].max() > 10
    assert 90 < series["kv_pct"].max() <= 100
    assert series.iloc[-1].tolist()[1:] == [0, 0, 0]
    # Little's law on the engine's own clock: mean running = sequences · time they spent running.
    held = series["running"].to_numpy()[:-1] @ series["t"].diff().to_numpy()[1:]
    rows = result.requests
    once = rows["preemptions"] == 0
    spent = (rows["finish"] - rows["scheduled"]).to_numpy(dtype=float)
    assert spent[once].sum() < held < spent.sum() + 1e-9


def test_what_the_gateway_releases_too_early_is_out_of_the_policys_reach() -> None:
    """The hidden queue: unlimited release turns any policy into first come, first served."""
    heavy = [
        Request("heavy", 300, arrival=0.0, prompt_tokens=200, output_tokens=100, id=f"h{i}")
        for i in range(40)
    ]
    light = [Request("light", 300, arrival=1.0, prompt_tokens=200, output_tokens=100, id="l")]

    def light_ttft(policy: object, slots: int) -> float:
        rows = simulate(heavy + light, policy, BatchingEngine(PROFILE, 4, gateway_slots=slots)).requests
        return float(rows.loc[rows["tenant"] == "light", "ttft"].iloc[0])

    assert light_ttft(DRR(quantum=300), 0) == light_ttft(FIFO(), 0)
    assert light_ttft(DRR(quantum=300), 4) < light_ttft(DRR(quantum=300), 0) / 5
    # The queue is there to see: scheduled long after start.
    rows = simulate(heavy + light, DRR(quantum=300), BatchingEngine(PROFILE, 4, gateway_slots=0)).requests
    assert (rows["scheduled"] - rows["start"]).max() > 10


def test_a_policy_built_into_the_engine_has_no_hidden_queue() -> None:
    requests = drawn(150, rate=6.0)
    inside = simulate(requests, FIFO(), BatchingEngine(PROFILE, 16, scheduling=VTC()))
    first_come = simulate(requests, FIFO(), BatchingEngine(PROFILE, 16, gateway_slots=0))
    assert inside.counts()["finished"] == 150
    assert inside.requests["finish"].tolist() != first_come.requests["finish"].tolist()
    # First come, first served built in is the engine's own queue.
    same = simulate(requests, FIFO(), BatchingEngine(PROFILE, 16, scheduling=FIFO()))
    assert same.requests["finish"].tolist() == first_come.requests["finish"].tolist()


def test_a_policy_built_in_may_hold_back_everything() -> None:
    requests = drawn(10, tenants=1)
    engine = BatchingEngine(PROFILE, 16, scheduling=KeyCaps(FIFO(), default=2))
    rows = simulate(requests, FIFO(), engine).requests
    assert rows["status"].eq("finished").all()
    running = sorted([(t, 1) for t in rows["scheduled"]] + [(t, -1) for t in rows["finish"]])
    level = [0]
    for _, step in running:
        level.append(level[-1] + step)
    assert max(level) == 2
    blocked = BatchingEngine(PROFILE, 16, scheduling=KeyCaps(FIFO(), default=0))
    assert simulate(requests, FIFO(), blocked).counts()["unfinished"] == 10


def test_a_held_back_request_does_not_turn_the_clock_back() -> None:
    held = Request("held", 20, arrival=0.0, prompt_tokens=10, output_tokens=10)
    late = Request("late", 20, arrival=5.0, prompt_tokens=10, output_tokens=10)
    engine = BatchingEngine(PROFILE, 16, scheduling=KeyCaps(FIFO(), per_key={"held": 0}))
    rows = simulate([held, late], FIFO(), engine).requests
    assert rows["status"].tolist() == ["unfinished", "finished"]
    assert rows["scheduled"][1] == pytest.approx(5.0)
    assert rows["first_token"][1] > 5.0


class Watched(FIFO):
    """Notes what it is told, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[object, int]] = []
        self.done_at: list[tuple[int, object]] = []

    def charge(self, request: Request, cost: int) -> None:
        self.told.append((request.id, cost))
        super().charge(request, cost)

    def done(self, request: Request, cost: int | None = None) -> None:
        self.done_at.append((len(self.told), request.id))
        super().done(request, cost)


def test_costs_come_token_by_token_or_just_before_a_slot_is_given_away() -> None:
    requests = drawn(30)
    by_token, by_finish, never = Watched(), Watched(), Watched()
    for policy, progress in ((by_token, "tokens"), (by_finish, "finishes"), (never, "never")):
        simulate(requests, policy, BatchingEngine(PROFILE, 8, progress=progress))
    costs: dict[object, list[int]] = {}
    for name, cost in by_token.told:
        costs.setdefault(name, []).append(cost)
    for request in requests:
        # The last token is settled by ``done``; before it every count appears (again while recomputing).
        made = list(dict.fromkeys(costs.get(request.id, [])))
        assert made == list(range(request.prompt_tokens + 1, request.prompt_tokens + request.output_tokens))
    assert never.told == []
    assert 0 < len(by_finish.told) < len(by_token.told) / 20

    def known_at_done(policy: Watched) -> list[dict[object, int]]:
        snapshots, known, at = [], {}, 0
        for index, finished in policy.done_at:
            for name, cost in policy.told[at:index]:
                known[name] = cost
            at = index
            known.pop(finished, None)
            snapshots.append(dict(known))
        return snapshots

    finish = simulate(requests, FIFO(), BatchingEngine(PROFILE, 8)).requests.set_index("id")["finish"]
    moments = [finish[name] for _, name in by_finish.done_at]
    for at, known, exact in zip(moments, known_at_done(by_finish), known_at_done(by_token), strict=True):
        # Whoever ends at this very moment is about to be settled anyway.
        assert known == {name: cost for name, cost in exact.items() if finish[name] - at > 1e-9}


def test_the_run_may_stop_in_the_middle() -> None:
    whole = simulate(drawn(60), FIFO(), BatchingEngine(PROFILE, 8)).requests
    until = float(whole["finish"].iloc[30])
    part = simulate(drawn(60), FIFO(), BatchingEngine(PROFILE, 8), until=until).requests
    finished = part["status"] == "finished"
    assert finished.sum() == (whole["finish"] <= until).sum()
    assert part["finish"][finished].tolist() == whole["finish"][whole["finish"] <= until].tolist()


def test_exact_times_and_whole_numbers_of_any_kind_are_welcome() -> None:
    one = Request("t", 5, arrival=Fraction(1, 3), prompt_tokens=10.0, output_tokens=2)
    rows = simulate([one], FIFO(), BatchingEngine(Profile(10, 0, 0, 0), kv_tokens=160)).requests
    assert float(rows["finish"][0]) == pytest.approx(1 / 3 + 0.02)
