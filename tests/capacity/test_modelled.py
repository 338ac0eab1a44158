"""The closed form against the simulated engine, sums by hand, and the identities every card keeps."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fairq.capacity import Limits, Shape, from_profile, from_scenario, from_slots
from fairq.capacity import card as card_module
from fairq.cli import app
from fairq.plots.capacity import capacity_card
from fairq.profiles import load_profile
from fairq.scenario import Scenario
from fairq.sim.batching import BatchCore, Profile, Sequence
from fairq.sim.batching import Limits as EngineLimits

RTX = load_profile("rtx4090-llama-3.1-8b")


def closed_loop(profile, users, prompt, output, kv=41_408, budget=2_048):
    """Tokens/s, time to first token and per token of users who ask again at once: by the engine itself."""
    core = BatchCore(profile, EngineLimits(256, budget, kv))
    for i in range(users):  # all at different places of their answers
        core.add(Sequence(prompt, max(1, output * (i + 1) // users)), 0.0)
    done = []
    while len(done) < max(30 * users, 120):
        change = core.advance()
        for sequence in change.finished:
            done.append((change.at, sequence))
            core.add(Sequence(prompt, output, tag=change.at), change.at)
    counted = done[len(done) // 3 :]
    seconds = counted[-1][0] - counted[0][0]
    made = sum(sequence.output for _, sequence in counted[1:])
    ttft = [s.first - s.tag for _, s in counted if s.tag is not None]
    tpot = [(s.finish - s.first) / (s.output - 1) for _, s in counted]
    return made / seconds, np.mean(ttft), np.mean(tpot)


@pytest.mark.parametrize(
    ("prompt", "output", "users", "within"),
    [
        (512, 256, 1, 0.005),
        (512, 256, 8, 0.005),
        (512, 256, 20, 0.005),
        (512, 256, 56, 0.01),
        (100, 400, 8, 0.005),
        (50, 50, 200, 0.01),
        (2000, 200, 8, 0.01),
        (2000, 200, 17, 0.02),
        (4000, 20, 8, 0.08),  # nearly all prompt: they queue for the token budget
        (2048, 28, 4, 0.08),
    ],
)
def test_closed_form_is_what_the_engine_does(prompt, output, users, within):
    card = from_profile(RTX, Shape.of(prompt, output))
    assert users <= card.max_streams
    row = card.at(users)
    total, _, tpot = closed_loop(RTX, users, prompt, output)
    assert row.tokens_per_s == pytest.approx(total, rel=within)
    assert row.time_per_output_token_s == pytest.approx(tpot, rel=2 * within)


def test_a_lone_stream_by_hand():
    # Steps of 10 ms, nothing else: 20 prompt tokens in one step, then nine more.
    card = from_profile(Profile(10, 0, 0, 0, kv_tokens=1000), Shape.of(20, 10))
    row = card.at(1)
    assert row.first_token_s == pytest.approx(0.010)
    assert row.time_per_output_token_s == pytest.approx(0.010)
    assert row.tokens_per_s == pytest.approx(100)
    # With no cost per stream, n streams make n times as much.
    assert card.at(7).tokens_per_s == pytest.approx(700)


def test_a_step_by_hand_with_every_term():
    # o 1 + a 10 + b 0.5·2 + c 0.01·2·100 = 14 ms a step with two streams; prompts cost nothing.
    profile = Profile(10, 0.5, 0.01, 0, o_ms=1, kv_tokens=10_000)
    card = from_profile(profile, Shape(90, 20, 100))
    assert card.at(2).time_per_output_token_s == pytest.approx(0.014)
    assert card.at(2).tokens_per_s == pytest.approx(2 / 0.014)


def test_a_long_prompt_takes_several_steps_of_the_budget():
    # 100 prompt tokens at 1 ms, 40 per step: 40 + 40 + 20 in three steps; each takes 33.3 ms on average.
    card = from_profile(
        Profile(10, 0, 0, 1, kv_tokens=1000), Shape.of(100, 2), max_num_seqs=1, max_num_batched_tokens=40
    )
    assert card.at(1).first_token_s == pytest.approx(0.100)


def test_every_figure_agrees_with_every_other():
    card = from_profile(RTX, Shape.of(512, 256), think_s=60)
    assert [row.streams for row in card.by_streams] == list(range(1, card.max_streams + 1))
    for row in card.by_streams:
        assert row.tokens_per_s == row.streams * row.tokens_per_s_per_stream
        service = row.first_token_s + 255 * row.time_per_output_token_s
        assert row.tokens_per_s_per_stream == pytest.approx(256 / service)
        assert row.requests_per_s == pytest.approx(row.tokens_per_s / 256)
    for row in card.by_users:
        assert row.streams + row.waiting == row.users
        assert row.tokens_per_s_per_user * row.users == pytest.approx(row.tokens_per_s)
        # Little's law: users = rate × (wait for the first token + the rest of the answer).
        latency = row.ttft_s + 255 * row.time_per_output_token_s
        assert row.latency_s == pytest.approx(latency)
        assert row.users == pytest.approx(row.tokens_per_s / 256 * latency)
        # The interactive response time law: people = rate × (latency + pause).
        assert row.people == pytest.approx(row.tokens_per_s / 256 * (latency + 60))
    each = [row.tokens_per_s_per_user for row in card.by_users]
    assert each == sorted(each, reverse=True)


def test_users_who_wait_their_turn_wait_as_long_as_in_the_engine():
    # Two slots, five users: the engine's own closed loop against N / X.
    profile = Profile(10, 0, 0, 0, kv_tokens=10_000)
    card = from_profile(profile, Shape.of(10, 10), max_num_seqs=2, users=5)
    core = BatchCore(profile, EngineLimits(2, 2048, 10_000))
    for _ in range(5):
        core.add(Sequence(10, 10, tag=0.0), 0.0)
    waits = []
    while len(waits) < 400:
        change = core.advance()
        for sequence in change.finished:
            waits.append(sequence.first - sequence.tag)
            core.add(Sequence(10, 10, tag=change.at), change.at)
    assert np.mean(waits[100:]) == pytest.approx(card.by_users[4].ttft_s, rel=0.02)


def test_limits_name_what_binds():
    shape = Shape.of(512, 256)
    assert from_profile(RTX, shape).binds == "KV"
    assert from_profile(RTX, shape, max_num_seqs=16).binds == "slots"
    assert from_profile(RTX, shape, max_num_seqs=16, gateway_slots=4).binds == "gateway"
    assert from_profile(RTX, shape, max_num_seqs=16, gateway_slots=16).binds == "slots"
    # Code completion: long prompts, short answers. More streams bring no more tokens long before KV is full.
    code = from_profile(RTX, Shape.of(2048, 28))
    assert code.binds == "compute"
    n = code.limits.compute
    one = code.at(1).tokens_per_s
    assert code.at(n + 1).tokens_per_s - code.at(n).tokens_per_s < 0.1 * one
    assert code.at(n).tokens_per_s - code.at(n - 1).tokens_per_s >= 0.1 * one


def test_kv_limit_counts_contexts_and_half_a_block_each():
    card = from_profile(RTX, Shape(1000, 200, 1100))
    assert card.limits.kv == int(0.9 * 41_408 / 1107.5)
    assert Limits(slots=8, kv=5, gateway=6).wall == "KV"


@pytest.mark.parametrize(
    ("ttft", "tpot", "binds"), [(2.0, 0.1, "KV"), (0.05, 0.1, "compute"), (2.0, 0.020, "compute")]
)
def test_target_is_the_last_that_keeps_the_promise(ttft, tpot, binds):
    card = from_profile(RTX, Shape.of(512, 256), ttft_s=ttft, tpot_s=tpot, users=300)
    fits = card.target.users
    kept = [row.ttft_s <= ttft and row.time_per_output_token_s <= tpot for row in card.by_users]
    assert kept[:fits] == [True] * fits
    assert not kept[fits]
    assert card.target.binds == binds


@pytest.mark.parametrize(
    ("value", "bound", "shown"),
    [(2.04, 2, "2.04"), (2.0003, 2, "2.0003"), (71.6, 2, "71.6"), (100.04, 100, "100.04"), (101, 100, "101")],
)
def test_what_breaks_the_promise_is_shown_above_it(value, bound, shown):
    assert card_module._past(value, bound) == shown


def test_shape_weighs_contexts_by_time():
    # One short and one long answer: the long one is there nine times as long.
    shape = Shape.from_sizes([100, 100], [10, 90])
    assert shape.context_tokens == pytest.approx((10 * 105 + 90 * 145) / 100)
    assert (shape.prompt_tokens, shape.output_tokens, shape.requests) == (100, 50, 2)


def test_slots_do_not_slow_each_other():
    card = from_slots(8, 0.2, 0.025, Shape.of(400, 101))
    assert card.at(1).tokens_per_s == pytest.approx(101 / 2.7)
    assert card.at(8).tokens_per_s == pytest.approx(8 * 101 / 2.7)
    assert (card.max_streams, card.binds) == (8, "slots")


def test_a_scenario_has_the_card_of_its_engine():
    scenario = Scenario.load("noisy_burst")
    card = from_scenario(scenario)
    engine = scenario.engine()
    served = scenario.workload().requests(scenario.seed)
    mean = np.mean([engine.service_s(r) for r in served])
    # The closed-loop people add a few requests of much the same size.
    assert card.by_users[0].latency_s == pytest.approx(mean, rel=0.05)
    assert (card.max_streams, card.binds) == (8, "slots")


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: from_profile(RTX, Shape.of(50_000, 10)), "does not fit"),
        (lambda: from_profile(RTX, Shape.of(10, 10), max_num_seqs=0), "max_num_seqs"),
        (lambda: from_profile(RTX, Shape.of(10, 10), gateway_slots=0), "gateway_slots"),
        (lambda: from_profile(RTX, Shape.of(10, 10), ttft_s=0), "ttft_s"),
        (lambda: from_profile(RTX, Shape.of(10, 10), users=0), "users"),
        (lambda: from_profile(RTX, Shape.of(10, 10), think_s=-1), "think_s"),
        (lambda: Shape.of(-1, 10), "prompt_tokens"),
        (lambda: Shape.of(10, 0), "output_tokens"),
        (lambda: Shape.from_sizes([], []), "0 requests"),
    ],
)
def test_bad_values_are_named(build, word):
    with pytest.raises(ValueError, match=word):
        build()


def run(*args):
    return CliRunner().invoke(app, ["capacity", *args], catch_exceptions=False)


def test_command_prints_json_whose_figures_agree():
    document = json.loads(run("--profile", "rtx4090-llama-3.1-8b", "--json").stdout)
    assert document["binds"] == "KV"
    assert document["by_streams"][7]["streams"] == 8
    for row in document["by_streams"]:
        assert row["streams"] * row["tokens_per_s_per_stream"] == pytest.approx(row["tokens_per_s"])
    # A lone stream reads the weights once per token: below 1000 / a.
    assert 50 < document["by_streams"][0]["tokens_per_s"] < 1000 / 16.875


def test_command_checks_the_note_on_the_wall():
    said = run("--profile", "rtx4090-llama-3.1-8b", "--claim", "1500,25,8").stdout
    assert "8 × 25.0 = 200, not 1,500: wrong by 7.5×" in said
    assert "60.0 streams" in said
    assert "agree" in run("--profile", "rtx4090-llama-3.1-8b", "--claim", "200,25,8").stdout


def test_command_writes_a_picture_whole(tmp_path):
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path = tmp_path / f"card{suffix}"
        assert run("noisy_burst", "--out", str(path)).exit_code == 0
        assert path.read_bytes().startswith(magic)


@pytest.mark.parametrize(
    ("binds", "words"),
    [
        ("slots", "run at once: the engine's slots bind"),
        ("gateway", "run at once: the gateway's limit binds"),
        ("KV", "run at once: the KV cache binds"),
        ("compute", "run at once: the GPU itself binds"),
        ("", "run at once (no limit seen)"),
    ],
)
def test_the_big_figures_are_sentences_and_break_at_no_unit(binds, words):
    card = from_scenario(Scenario.load("noisy_burst")).as_dict()
    lines = [text.get_text() for text in capacity_card(card | {"binds": binds}).texts]
    assert words in " ".join(lines)
    # Nothing of a figure is cut off, and a number stands beside its sign and its unit.
    whole = " ".join(lines).replace("\u00a0", " ")
    assert "users: first token ≤ 2 s, then ≤ 100 ms" in whole
    assert "tokens/s in all, 8 streams" in whole
    units = ("s", "s,", "ms", "streams")
    assert [line for line in lines if line.split(" ")[0] in units or line.endswith("≤")] == []


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ([], "say what the card is of"),
        (["--profile", "gtx970"], "gtx970"),
        (["noisy_burst", "--url", "localhost:1"], "one of"),
        (["--profile", "rtx4090-llama-3.1-8b", "--claim", "1500"], "--claim"),
        (["--profile", "rtx4090-llama-3.1-8b", "--claim", "1500,25,0"], "--claim"),
        (["--profile", "rtx4090-llama-3.1-8b", "--out", "card.gif"], "--out"),
        (["--profile", "rtx4090-llama-3.1-8b", "--prompt-tokens", "99999"], "does not fit"),
        (["nothing.csv"], "nothing.csv"),
        (["--scrape", "a.txt"], "twice"),
    ],
)
def test_command_says_what_is_wrong_in_one_line(args, word):
    result = run(*args)
    assert result.exit_code == 2
    assert word in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
