"""Tenants together: order at one instant, streams that nobody disturbs, keys, closed loops."""

from collections import Counter

import pytest

from fairq import Request
from fairq.workload import (
    ClosedLoop,
    Dump,
    Empirical,
    Estimate,
    Exponential,
    Fixed,
    Lognormal,
    Poisson,
    Tenant,
    Times,
    Workload,
)

CHAT = Tenant("chat", "chat", Poisson(0.5), Lognormal(400, 0.8), Lognormal(200, 0.6), weight=2)
CODE = Tenant("code", "code", Poisson(0.3), Lognormal(900, 0.8), 30, priority=1)
LOOP = Tenant("loop", "loop", ClosedLoop(3, Exponential(4)), Lognormal(100, 1), Lognormal(50, 1), keys=2)


def fields(request: Request) -> tuple[object, ...]:
    return (
        request.tenant,
        request.arrival,
        request.cost,
        request.prompt_tokens,
        request.output_tokens,
        request.key,
        request.priority,
        request.service,
    )


def of(tenant: str, requests: list[Request]) -> list[tuple[object, ...]]:
    return [fields(request) for request in requests if request.tenant == tenant]


def test_the_published_burst_comes_in_its_exact_order() -> None:
    noisy = Tenant("noisy", "noisy", Dump(0.0, 3), 0, 1, service=0.25)
    small = [Tenant(f"small-{i}", "small", Dump(0.1, 2), 0, 1, service=0.25) for i in (1, 2, 3)]
    requests = Workload([noisy, *small], 1).requests(0)
    assert [(r.id, r.tenant, r.arrival, r.cost, r.service) for r in requests] == [
        (0, "noisy", 0.0, 1, 0.25),
        (1, "noisy", 0.0, 1, 0.25),
        (2, "noisy", 0.0, 1, 0.25),
        (3, "small-1", 0.1, 1, 0.25),
        (4, "small-2", 0.1, 1, 0.25),
        (5, "small-3", 0.1, 1, 0.25),
        (6, "small-1", 0.1, 1, 0.25),
        (7, "small-2", 0.1, 1, 0.25),
        (8, "small-3", 0.1, 1, 0.25),
    ]


def test_ties_take_turns_within_the_instant_whatever_came_before() -> None:
    a = Tenant("a", "a", Times((0, 0, 5, 5)), 1, 1)
    b = Tenant("b", "b", Times((5, 5)), 1, 1)
    requests = Workload([a, b], 10).requests(0)
    assert [(r.tenant, r.arrival) for r in requests] == [
        ("a", 0), ("a", 0), ("a", 5), ("b", 5), ("a", 5), ("b", 5)
    ]  # fmt: skip
    assert all(isinstance(r.arrival, int) for r in requests)


def test_adding_a_tenant_leaves_the_others_draws_unchanged() -> None:
    alone = Workload([CHAT], 500).requests(7)
    together = Workload([CODE, LOOP, CHAT], 500).requests(7)
    assert len(alone) > 100
    assert of("chat", together) == of("chat", alone)


def test_changing_how_often_leaves_how_large() -> None:
    often = Tenant("chat", "chat", Poisson(5.0), CHAT.prompt_tokens, CHAT.output_tokens)
    few, many = Workload([CHAT], 500).requests(7), Workload([often], 500).requests(7)
    sizes = [(r.prompt_tokens, r.output_tokens) for r in many]
    assert sizes[: len(few)] == [(r.prompt_tokens, r.output_tokens) for r in few]


def test_noise_on_the_estimate_changes_the_cost_alone() -> None:
    guessed = Tenant(
        "chat", "chat", CHAT.arrivals, CHAT.prompt_tokens, CHAT.output_tokens, estimate=Estimate(2, 0.3)
    )
    exact, noisy = Workload([CHAT], 200).requests(7), Workload([guessed], 200).requests(7)
    assert [(r.arrival, r.prompt_tokens, r.output_tokens) for r in exact] == [
        (r.arrival, r.prompt_tokens, r.output_tokens) for r in noisy
    ]
    assert all(r.cost == r.prompt_tokens + r.output_tokens for r in exact)
    assert [r.cost for r in exact] != [r.cost for r in noisy]


def test_the_same_seed_gives_the_same_requests_and_another_replication_others() -> None:
    workload = Workload([CHAT, CODE], 500)
    first = [fields(r) for r in workload.requests(7)]
    assert [fields(r) for r in workload.requests(7)] == first
    assert [fields(r) for r in workload.requests(7, replication=1)] != first
    assert [fields(r) for r in workload.requests(8)] != first


def test_requests_are_sorted_and_numbered() -> None:
    requests = Workload([CHAT, CODE], 500).requests(7)
    arrivals = [r.arrival for r in requests]
    assert arrivals == sorted(arrivals)
    assert [r.id for r in requests] == list(range(len(requests)))


def test_several_keys_take_turns() -> None:
    fifty = Tenant("agent", "agent", Dump(0, 120), 1, 1, keys=50)
    used = Counter(r.key for r in Workload([fifty], 1).requests(0))
    assert set(used) == {f"agent/{n}" for n in range(1, 51)}
    assert set(used.values()) == {2, 3}
    named = Tenant("agent", "agent", Dump(0, 3), 1, 1, keys=("k", "l"))
    assert [r.key for r in Workload([named], 1).requests(0)] == ["k", "l", "k"]


def test_names_groups_weights_and_patience() -> None:
    hasty = Tenant("hasty", "chat", Dump(0, 1), 1, 1, patience_s=30)
    workload = Workload([CHAT, hasty, LOOP], 10)
    assert workload.group_of == {"chat": "chat", "hasty": "chat", "loop": "loop"}
    assert workload.weights == {"chat": 2, "hasty": 1, "loop": 1}
    assert workload.patience_s == {"hasty": 30}
    assert workload.keys_of == {"chat": ("chat",), "hasty": ("hasty",), "loop": ("loop/1", "loop/2")}


def test_a_closed_loop_draws_the_same_in_any_order() -> None:
    (forward,), (backward,) = Workload([LOOP], 100).closed_loops(7), Workload([LOOP], 100).closed_loops(7)
    asked = [(worker, n) for worker in range(3) for n in range(150)]
    there = {each: forward.draw(*each) for each in asked}
    back = {each: backward.draw(*each) for each in reversed(asked)}
    assert there == back
    assert len(set(there.values())) == len(asked)
    assert forward.workers == 3


def test_a_closed_loop_request_carries_its_draw() -> None:
    open_first = Workload([LOOP, CHAT], 100)
    (source,) = open_first.closed_loops(7)
    request = source.request(2, 5, arrival=17.5)
    draw = source.draw(2, 5)
    assert fields(request) == (
        "loop", 17.5, draw.cost, draw.prompt_tokens, draw.output_tokens, "loop/1", 0, None
    )  # fmt: skip
    assert draw.cost == draw.prompt_tokens + draw.output_tokens
    ids = {source.request(worker, n, 0).id for worker in range(3) for n in range(100)}
    assert len(ids) == 300
    assert min(ids) == len(open_first.requests(7))


def test_closed_loops_of_two_tenants_never_share_an_id() -> None:
    other = Tenant("other", "other", ClosedLoop(2, 0), 1, 1, service=0.5)
    sources = Workload([LOOP, other], 100).closed_loops(7)
    ids = [source.request(w, n, 0).id for source in sources for w in range(source.workers) for n in range(50)]
    assert len(set(ids)) == len(ids) == 250
    assert sources[1].request(0, 0, 1).service == 0.5


def test_a_closed_loop_worker_is_not_disturbed_by_more_workers() -> None:
    more = Tenant("loop", "loop", ClosedLoop(9, Exponential(4)), LOOP.prompt_tokens, LOOP.output_tokens)
    (few,), (many,) = Workload([LOOP], 100).closed_loops(7), Workload([more], 100).closed_loops(7)
    assert [few.draw(2, n) for n in range(10)] == [many.draw(2, n) for n in range(10)]


def test_no_open_loop_no_requests_and_no_loop_no_sources() -> None:
    assert Workload([LOOP], 10).requests(0) == []
    assert Workload([CHAT], 10).closed_loops(0) == []
    assert Workload([], 10).requests(0) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tenant("", "g", Dump(0, 1), 1, 1), r"tenant name must be a non-empty string, got ''"),
        (lambda: Tenant("a", "g", Dump(0, 1), 1, 1, weight=0), r"tenant 'a': weight must be .* > 0, got 0"),
        (lambda: Tenant("a", "g", Dump(0, 1), 1, 1, keys=0), r"tenant 'a': keys must be .* >= 1, got 0"),
        (lambda: Tenant("a", "g", Dump(0, 1), 1, 1, keys=[]), r"tenant 'a': keys must not be empty"),
        (lambda: Tenant("a", "g", Dump(0, 1), 1, 1, keys=[""]), r"tenant 'a': keys must be non-empty"),
        (lambda: Tenant("a", "g", Dump(0, 1), 1, 1, patience_s=-1), r"tenant 'a': patience_s .* got -1"),
        (
            lambda: Tenant("a", "g", Dump(0, 1), Fixed(0), 0),
            r"tenant 'a': output_tokens must be > 0 where prompt_tokens may be 0, got Fixed",
        ),
        (
            lambda: Tenant("a", "g", Dump(0, 1), Fixed(0), Empirical((1, 0))),
            r"tenant 'a': output_tokens must be > 0 where prompt_tokens may be 0, got Empirical",
        ),
        (lambda: Workload([CHAT, CHAT], 10), r"tenant 'chat' appears twice"),
        (lambda: Workload([CHAT], 0), r"horizon_s must be .* > 0, got 0"),
        (
            lambda: Workload([Tenant("a", "g", Dump(9, 1), 1, 1)], 9),
            r"tenant 'a': at_s must be before .* got 9",
        ),
        (lambda: Workload([Tenant("a", "g", Times((9,)), 1, 1)], 9), r"tenant 'a': times_s must be before"),
        (lambda: Workload([Tenant("a", "g", Poisson(1e9), 1, 1)], 9), r"tenant 'a': .* would send 9e\+09"),
        (
            lambda: Workload([Tenant(name, "g", Poisson(1e6), 1, 1) for name in "ab"], 9),
            r"the tenants would send 1.8e\+07 requests in 9 s; at most 10,000,000",
        ),
        (lambda: Workload([LOOP], 10).closed_loops(0)[0].draw(3, 0), r"worker must be 0..2, got 3"),
    ],
)
def test_bad_values_are_named(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
