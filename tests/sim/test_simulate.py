"""The verbs of a run: what goes in, what is refused, what comes out."""

from decimal import Decimal
from fractions import Fraction

import pytest

from fairq import DRR, FIFO, KeyCaps, Policy, Request
from fairq.sim import SlotEngine, replicate, simulate


def ask(arrival, service=1, tenant="a", **more):
    return Request(tenant, 1, arrival=arrival, service=service, **more)


# -- exact times ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("third", "kind"), [(1, int), (Fraction(1, 3), Fraction), (Decimal("0.1"), Decimal), (0.1, float)]
)
def test_times_keep_their_kind(third, kind):
    requests = [ask(third * n, third * 2) for n in range(4)]
    rows = simulate(requests, FIFO(), SlotEngine(1)).requests
    finish = list(rows["finish"])
    assert finish == [third * 2, third * 2 + third * 2, third * 2 + third * 2 + third * 2, finish[3]]
    assert list(rows["arrival"]) == [request.arrival for request in requests]
    assert all(isinstance(value, kind) or kind in (int, float) for value in finish)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"arrival": 0.5, "service": 1}, "arrival is 0.5"),
        ({"arrival": 1, "service": 0.25}, "service is 0.25"),
        ({"arrival": 1, "service": None, "prompt_tokens": 5, "output_tokens": 5}, "service is None"),
    ],
)
def test_decimal_times_among_others_are_refused(fields, names):
    requests = [ask(Decimal("0.1"), Decimal("0.2")), Request("a", 1, id="odd", **fields)]
    with pytest.raises(ValueError, match=rf"{names} in Request\('a', 1, id='odd'"):
        simulate(requests, FIFO(), SlotEngine(1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([ask(0), 3], FIFO(), SlotEngine()), "a run serves requests, got 3 at place 1 of the list"),
        ((3, FIFO(), SlotEngine()), "workload must be a workload or a list of requests, got 3"),
        (([ask(0)], FIFO, SlotEngine()), r"policy must be made, as FIFO\(\), got the class FIFO"),
        (([ask(0)], "fifo", SlotEngine()), r"policy must be one, as FIFO\(\), got 'fifo'"),
        (([ask(0)], FIFO(), 8), r"engine must be one, as SlotEngine\(8\), got 8"),
        (([ask(0)], FIFO(), SlotEngine), r"engine must be made, .*, got the class SlotEngine"),
    ],
)
def test_what_is_no_workload_policy_or_engine_is_named(arguments, message):
    with pytest.raises(TypeError, match=message):
        simulate(*arguments)


@pytest.mark.parametrize("field", ["seed", "replication"])
@pytest.mark.parametrize("value", [-1, 1.5, "7", None, True])
def test_a_bad_seed_is_named_even_where_nothing_is_drawn(field, value):
    with pytest.raises(ValueError, match=rf"{field} must be a whole number >= 0, got {value!r}"):
        simulate([ask(0)], FIFO(), SlotEngine(), **{field: value})


def test_replicate_wants_functions():
    with pytest.raises(TypeError, match=r"policy must make a fresh one .*lambda: FIFO\(\)"):
        replicate([ask(0)], FIFO(), SlotEngine)
    with pytest.raises(TypeError, match=r"engine must make a fresh one .*lambda: SlotEngine\(\)"):
        replicate([ask(0)], FIFO, SlotEngine())


def test_a_start_at_an_arrival_is_that_arrival_to_the_last_bit():
    # 0.1 + (0.3 - 0.1) is not 0.3: a clock that waits for a difference of times misses.
    rows = simulate([ask(0.1, 0.05), ask(0.3, 0.05)], FIFO(), SlotEngine(1)).requests
    assert rows["start"].tolist() == [0.1, 0.3]
    assert rows["finish"].tolist() == [0.1 + 0.05, 0.3 + 0.05]


def test_times_beyond_the_floats_stay_exact():
    late = 2**53
    rows = simulate([ask(late + 1, 2), ask(late + 1, 2)], FIFO(), SlotEngine(1), until=late + 4).requests
    assert rows["finish"].tolist()[0] == late + 3
    assert rows["start"].tolist() == [late + 1, late + 3]


def test_a_request_may_take_no_time():
    rows = simulate([ask(0, 0), ask(0, 0), ask(0, 2), ask(1, 0)], FIFO(), SlotEngine(1)).requests
    assert rows["start"].tolist() == [0, 0, 0, 2]
    assert rows["finish"].tolist() == [0, 0, 2, 2]


# -- tokens ---------------------------------------------------------------------------------------


def test_service_and_first_token_from_tokens():
    engine = SlotEngine(1, overhead_s=0.5, prefill_tokens_per_s=1000, decode_tokens_per_s=50)
    rows = simulate(
        [
            Request("a", 300, arrival=1.0, prompt_tokens=200, output_tokens=100),
            Request("a", 10, arrival=1.0, prompt_tokens=500, output_tokens=0),
            Request("a", 10, arrival=1.0, prompt_tokens=0, output_tokens=1),
        ],
        FIFO(),
        engine,
    ).requests
    assert rows["start"].tolist() == pytest.approx([1.0, 3.7, 4.7])  # 0.5 + 0.2 + 2.0 s; 0.5 + 0.5 s
    assert rows["first_token"].tolist() == pytest.approx([1.72, 4.7, 5.22])  # prompt, then one step of 0.02 s
    assert rows["finish"].tolist() == pytest.approx([3.7, 4.7, 5.22])
    assert rows["ttft"].tolist() == pytest.approx([0.72, 3.7, 4.22])
    assert rows["cost"].tolist() == [300, 500, 1]
    assert rows["cost_estimate"].tolist() == [300, 10, 10]


def test_the_policy_learns_the_true_cost():
    told = []

    class Listening(FIFO):
        def done(self, request, cost=None):
            told.append((request.id, cost))
            super().done(request, cost)

    requests = [
        Request("a", 7, id="tokens", arrival=0, service=1, prompt_tokens=2, output_tokens=3),
        Request("a", 7, id="half", arrival=0, service=1, prompt_tokens=2),
        Request("a", 7, id="none", arrival=0, service=1),
    ]
    rows = simulate(requests, Listening(), SlotEngine(1)).requests
    assert told == [("tokens", 5), ("half", None), ("none", None)]
    assert rows["cost"].tolist() == [5, 7, 7]


# -- the end and the beginning --------------------------------------------------------------------


def test_until_includes_its_moment_and_counts_the_unfinished():
    requests = [ask(0, 2, id="done"), ask(1, 2, id="runs"), ask(2, 2, id="waits"), ask(3, 2, id="later")]
    result = simulate(requests, FIFO(), SlotEngine(1), until=2)
    rows = result.requests.set_index("id")
    assert rows["status"].to_dict() == {"done": "finished", "runs": "unfinished", "waits": "unfinished"}
    assert rows.loc["runs", "start"] == 2
    assert rows["finish"].isna().tolist() == [False, True, True]
    assert rows.loc["waits", ["start", "wait"]].isna().all()
    assert result.latency()[["n", "unfinished"]].loc["a"].tolist() == [1, 2]
    assert result.end == 2
    assert result.queue.iloc[-1].tolist() == [2, 1, 1]


def test_warmup_is_left_out_of_statistics_but_happened():
    requests = [ask(0, 10, id="early"), ask(3, 1, id="counted")]
    result = simulate(requests, FIFO(), SlotEngine(1), warmup=3)
    assert result.requests["id"].tolist() == ["counted"]
    assert result.all_requests["id"].tolist() == ["early", "counted"]
    assert result.latency().loc["a", ["n", "wait_p50"]].tolist() == [1, 7]
    assert result.queue["t"].tolist() == [0, 3, 10, 11]
    only_warmup = simulate(requests, FIFO(), SlotEngine(1), warmup=99)
    assert len(only_warmup.requests) == len(only_warmup.latency()) == 0


def test_blocked_requests_are_unfinished():
    result = simulate([ask(0), ask(0, tenant="b")], KeyCaps(FIFO(), per_key={"b": 0}), SlotEngine(2))
    assert result.requests["status"].tolist() == ["finished", "unfinished"]


def test_input_order_settles_ties_whatever_the_arrivals():
    rows = simulate([ask(5, id="late"), ask(0, id="x"), ask(0, id="y")], FIFO(), SlotEngine(1)).requests
    assert rows["id"].tolist() == ["x", "y", "late"]


def test_before_zero():
    rows = simulate([ask(-5, 1), ask(-5, 1)], FIFO(), SlotEngine(1)).requests
    assert rows["start"].tolist() == [-5, -4]


def test_nothing_at_all():
    result = simulate([], DRR(quantum=1), SlotEngine(3))
    assert len(result.requests) == len(result.queue) == len(result.latency()) == 0
    assert list(result.latency().columns)[:3] == ["n", "unfinished", "wait_p50"]
    assert repr(result) == "Result(DRR: no requests)"


# -- giving up ------------------------------------------------------------------------------------


def test_patience_and_a_full_line():
    requests = [
        ask(0, 4, id="served"),
        ask(1, 1, id="just in time"),  # its 3 s end as the slot frees
        ask(1, 1, id="too late", tenant="b"),
        ask(1, 1, id="turned away", tenant="b"),
        ask(9, 1, id="alone"),
    ]
    result = simulate(requests, FIFO(), SlotEngine(1), patience=3, line_limit=1)
    rows = result.requests.set_index("id")
    assert rows["status"].tolist() == ["finished", "finished", "cancelled", "refused", "finished"]
    assert rows["left"].dropna().to_dict() == {"too late": 4, "turned away": 1}
    assert rows["start"].dropna().tolist() == [0, 4, 9]
    assert result.latency().loc["b", ["n", "unfinished", "cancelled", "refused"]].tolist() == [0, 0, 1, 1]
    assert result.queue["waiting"].tolist() == [0, 2, 0, 0, 0, 0]


def test_patience_per_tenant_and_per_request():
    requests = [ask(0, 9), ask(1, 1, id="a"), ask(1, 1, tenant="b", id="b")]
    per_tenant = simulate(requests, FIFO(), SlotEngine(1), patience={"b": 2}).requests.set_index("id")
    assert per_tenant["left"].dropna().to_dict() == {"b": 3}
    each = simulate(requests, FIFO(), SlotEngine(1), patience=lambda r: 4 if r.id == "a" else None)
    assert each.requests.set_index("id")["left"].dropna().to_dict() == {"a": 5}


# -- bad input ------------------------------------------------------------------------------------


def test_a_used_policy_or_engine_is_refused():
    policy, engine = FIFO(), SlotEngine(1)
    simulate([ask(0)], policy, engine)
    with pytest.raises(ValueError, match="a policy serves one run"):
        simulate([ask(0)], policy, SlotEngine(1))
    with pytest.raises(ValueError, match="this one was used: SlotEngine"):
        simulate([ask(0)], FIFO(), engine)
    touched = FIFO()
    touched.put(ask(0))
    with pytest.raises(ValueError, match="used"):
        simulate([ask(0)], touched, SlotEngine(1))


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([Request("a", 1, service=1, id="x")], "arrival .*None.*'x'"),
        ([Request("a", 1, arrival=0, id="x")], "service.*'x'"),
        ([Request("a", 1, arrival=0, prompt_tokens=4)], "output_tokens.*prompt_tokens=4"),
        ([ask(0)] * 2, "twice"),
    ],
)
def test_requests_that_cannot_be_simulated(requests, message):
    with pytest.raises(ValueError, match=message):
        simulate(requests, FIFO(), SlotEngine(1))


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, None, "8"])
def test_slots_are_whole_and_positive(bad):
    with pytest.raises(ValueError, match=f"slots .*{bad!r}"):
        SlotEngine(bad)


@pytest.mark.parametrize("field", ["overhead_s", "prefill_tokens_per_s", "decode_tokens_per_s"])
@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), None, "fast"])
def test_speeds_are_checked(field, bad):
    with pytest.raises(ValueError, match=f"{field} must be a finite number .*{bad!r}"):
        SlotEngine(1, **{field: bad})


@pytest.mark.parametrize("field", ["until", "warmup", "patience"])
@pytest.mark.parametrize("bad", [-1, float("nan"), "soon", True])
def test_settings_are_checked(field, bad):
    with pytest.raises(ValueError, match=f"{field} must be a finite number"):
        simulate([ask(0)], FIFO(), SlotEngine(1), **{field: bad})


@pytest.mark.parametrize("bad", [-1, 1.5, True, {"a": -2}])
def test_line_limits_are_checked(bad):
    with pytest.raises(ValueError, match=r"line_limit of .* must be a whole number >= 0"):
        simulate([ask(0)], FIFO(), SlotEngine(1), line_limit=bad)


def test_replications_are_counted():
    with pytest.raises(ValueError, match="replications must be a whole number >= 1, got 0"):
        replicate([], FIFO, SlotEngine, replications=0)


# -- the rest -------------------------------------------------------------------------------------


def test_progress_counts_up_and_may_stop_the_run():
    seen = []
    simulate([ask(n) for n in range(250)], FIFO(), SlotEngine(1), progress=lambda *now: seen.append(now))
    assert seen[0] == (2, 250)
    assert seen[-1] == (250, 250)
    assert 100 <= len(seen) <= 125

    class Enough(Exception):
        pass

    def stop(finished, expected):
        raise Enough

    with pytest.raises(Enough):
        simulate([ask(0)], FIFO(), SlotEngine(1), progress=stop)


def test_a_policy_that_orders_by_time_is_told_the_time():
    times = []

    class Timed(FIFO):
        needs_now = True

        def get(self, eligible=None, now=None):
            times.append(now)
            return super().get(eligible, now)

    assert issubclass(Timed, Policy)
    simulate([ask(0, 2), ask(1, 2), ask(9, 1)], Timed(), SlotEngine(1))
    assert times == [0, 2, 9]


def test_groups_weights_and_empty_ids_come_from_the_workload():
    class Two:
        def __init__(self):
            self.group_of = {"a-1": "a"}
            self.weights = {"a-1": 2}

        def requests(self, seed, replication=0):
            return [ask(seed, tenant="a-1"), ask(replication, tenant="b", key="k", conversation=7)]

    result = simulate(Two(), FIFO(), SlotEngine(1), seed=1, replication=5)
    assert result.requests["group"].tolist() == ["a", "b"]
    assert result.requests["key"].tolist() == ["a-1", "k"]
    assert result.requests["arrival"].tolist() == [1, 5]
    assert result.requests["id"].tolist() == [0, 1]
    assert result.requests["conversation"].tolist()[1] == 7
    assert result.weights == {"a-1": 2}
    assert result.latency("group").index.tolist() == ["a", "b"]
