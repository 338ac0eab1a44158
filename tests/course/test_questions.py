"""Every question of every seed: right is right, anything else is not, and help comes step by step."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fairq.capacity.modelled import from_profile
from fairq.capacity.shape import Shape
from fairq.check import Question, names, question
from fairq.check.answers import Choice, Number, Order, Whole
from fairq.check.replicas import home, movers
from fairq.profiles import load_profile

SEEDS = range(8)


def wrong_answers(q: Question) -> list[Any]:
    """Answers near and far that are not right, for this kind of question."""
    right = q.answer()
    junk: list[Any] = [
        float("nan"),
        float("inf"),
        True,
        "",
        "a lot",
        [],
        object(),
        10**9,
        -1,
        10**400,
        -(10**400),
    ]
    if isinstance(q.judge, Number):
        off = 1 + 2 * q.judge.within
        return [*junk, right * off, right / off, right * 1000, right / 1000, -right, 0, str(right)]
    if isinstance(q.judge, Whole):
        return [*junk, right + 1, right - 1, right + 0.5, str(right)]
    if isinstance(q.judge, Choice):
        return [*junk, *(option for option in q.judge.options if option != right), 0]
    assert isinstance(q.judge, Order)
    swapped = list(right)
    place = next(i for i in range(len(right) - 1) if right[i] != right[i + 1])
    swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
    return [*junk, swapped, right[:-1], [*right, right[0]], " ".join(swapped), [1, 2, 3]]


@pytest.mark.parametrize("name", names())
def test_right_is_right_and_wrong_is_wrong_for_every_seed(name: str) -> None:
    for seed in SEEDS:
        q = question(name, seed)
        verdict = q.check(q.answer())
        assert verdict.right, (seed, q.text)
        assert "Right" in repr(verdict)
        for wrong in wrong_answers(question(name, seed)):
            fresh = question(name, seed).check(wrong)
            assert not fresh.right, (seed, wrong, q.answer())
            assert "Not yet" in fresh.words


@pytest.mark.parametrize("name", names())
def test_a_seed_is_a_variant_and_always_the_same(name: str) -> None:
    texts = [question(name, seed).text for seed in SEEDS]
    assert texts == [question(name, seed).text for seed in SEEDS]
    assert len(set(texts)) > len(texts) // 2
    answers = {repr(question(name, seed).answer()) for seed in SEEDS}
    assert len(answers) > 1, "everybody could write the same answer down"


@pytest.mark.parametrize("name", names())
def test_help_comes_step_by_step(name: str) -> None:
    q = question(name, 3)
    wrong = [w for w in wrong_answers(q) if isinstance(w, (int, float, str, list))][:4]
    assert q.check(None).words == "Not answered yet."
    first, second, third = (q.check(w) for w in wrong[:3])
    assert (first.hint, first.trace) == ("", "")
    assert second.hint == q.hint
    assert second.trace == ""
    assert third.hint == q.hint
    assert q.judge.show(q.answer()) in third.trace
    # The hint does not give the answer away; the text does not either.
    shown = q.judge.show(q.answer())
    if isinstance(q.judge, (Number, Order)):
        assert shown not in q.hint + q.text
    assert "{" not in q.text + q.hint
    for text in (repr(third), third._repr_html_()):
        assert "Worked trace" in text
    assert q._repr_markdown_().startswith("**Question.**")


@pytest.mark.parametrize("name", names())
def test_the_same_wrong_answer_again_leads_on(name: str) -> None:
    """A question of "yes" or "no" has one wrong answer: help must not wait for another."""
    q = question(name, 5)
    wrong = [w for w in wrong_answers(q) if isinstance(w, (int, float, str, list))][-1]
    helped = [q.check(wrong) for _ in range(3)]
    assert [bool(v.hint) for v in helped] == [False, True, True]
    assert [bool(v.trace) for v in helped] == [False, False, True]
    assert q.check(None).hint == "", "an empty answer is no try"
    assert question(name, 5).check(wrong).hint == "", "asked anew, the count begins anew"


def test_verdicts_are_sentences() -> None:
    shares = question("turns/shares", 1)
    assert shares.check(shares.answer() / 100).words == (
        "Not yet: 0.2075 % is a hundred times too little: is it in per cent?"
    )
    assert "a thousand times" not in shares.check(shares.answer() * 1000).words
    wait = question("busy/littles_law", 1)
    assert wait.check(wait.answer() * 1000).words.endswith("too much: seconds or milliseconds?")
    assert wait.check(77777).words == "Not yet: 77,780 s is too high."
    who = question("ageing/who_is_next", 1)
    assert who.check("chat code").words == "Not yet: name chat, code, nightly once each, got chat, code."
    assert who.check(["nightly", "chat", "code"]).words == "Not yet: the first is not nightly."
    turns = question("turns/turn_order", 1)
    assert "name ana 2, ben 2, eva 2 times, got nothing." in turns.check("").words
    assert Whole(lambda: 1, "visits").show(1) == "1 visit"
    assert Whole(lambda: 1, "visits").show(1e99) == "1e+99 visits"
    slots = Whole(lambda: 3, "slots")
    assert [slots.problem(n) for n in (2, 1, 4)] == [
        *("2 slots are too few", "1 slot is too few", "4 slots are too many")
    ]
    for judge in (slots, Number(lambda: 3.0, "s"), Choice(lambda: "a", ("a", "b")), Order(lambda: ["a"])):
        assert f"got 1{'0' * 78}…" in str(judge.problem(10**400)), "beyond a float"
        assert "got a number too long to write" in str(judge.problem(10**9000))
    visit = question("turns/visits", 1)
    assert visit.check(visit.answer()).words == f"Right: visit {visit.answer()}."
    assert visit.check(visit.answer() + 1).words == f"Not yet: visit {visit.answer() + 1} is too late."
    assert visit.check(visit.answer() - 1).words == f"Not yet: visit {visit.answer() - 1} is too early."
    assert [Number(lambda: 1.0, "").show(v) for v in (0.1215, 20.0, 10_300.4, 9_999.7, 0)] == [
        *("0.1215", "20", "10,300", "10,000", "0")
    ]
    assert "per second came" in question("busy/littles_law", 1).text
    for name in names():
        for seed in range(60):
            text = question(name, seed).text
            assert not re.search(r"(?<!\.)\b1 (requests|slots|keys|levels|visits) ", text), text
            assert not re.search(r"\d%", text), "60 %, as in the notebooks"


def test_names_and_seeds_are_checked() -> None:
    with pytest.raises(ValueError, match="busy/littles_law"):
        question("busy/nothing")
    for seed in (-1, 1.5, True, "7"):
        with pytest.raises(ValueError, match="seed must be a whole number"):
            question("busy/littles_law", seed)  # type: ignore[arg-type]


# -- the answers themselves, by other means ---------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_the_hockey_stick_by_the_sum_of_probabilities(seed: int) -> None:
    q = question("busy/hockey_stick", seed)
    slots, service = q.given["slots"], q.given["service_s"]

    def wait(load: float) -> float:
        a = Fraction(str(load)) * slots
        below = sum(a**k / math.factorial(k) for k in range(slots))
        all_busy = a**slots / math.factorial(slots) / (1 - a / slots)
        return float(all_busy / (below + all_busy)) * service / (slots * (1 - load))

    assert q.check(wait(q.given["high"]) / wait(q.given["low"])).right


@pytest.mark.parametrize("seed", SEEDS)
def test_turns_by_walking_the_ring(seed: int) -> None:
    q = question("turns/turn_order", seed)
    ring, credit, order = {who: list(costs) for who, costs in q.given["lines"].items()}, {}, []
    while ring:
        for who in list(ring):
            credit[who] = credit.get(who, 0) + q.given["quantum"]
            while ring.get(who) and credit[who] >= ring[who][0]:
                credit[who] -= ring[who].pop(0)
                order.append(who)
            if not ring[who]:
                del ring[who]
    assert q.check(" ".join(order)).right
    # The worked trace sends what was in the lines, each once.
    sent = [int(n) for line in q.work().splitlines() for n in _numbers_after(line, "sends")]
    assert sorted(sent) == sorted(cost for costs in q.given["lines"].values() for cost in costs)


def _numbers_after(line: str, word: str) -> list[str]:
    part = line.partition(word)[2].partition(",")[0]
    return [n for n in part.split() if n.isdigit()]


@pytest.mark.parametrize("seed", SEEDS)
def test_simple_ones_by_arithmetic(seed: int) -> None:
    def right(name: str, answer: Any) -> None:
        verdict = question(name, seed).check(answer)
        assert verdict.right, (name, verdict)

    g = question("start/behind_the_pile", seed).given
    right("start/behind_the_pile", g["pile"] * g["service_s"] / g["slots"] - g["later_s"])
    g = question("start/stands_aside", seed).given
    right("start/stands_aside", g["others"] * g["short_s"] / g["slots"])
    g = question("burst/behind_the_burst", seed).given
    right("burst/behind_the_burst", g["pile"] // g["slots"] * g["service_s"])
    g = question("burst/enough", seed).given
    n = 1
    while g["quantile"] ** n > (1 - g["confidence"]) / 2 + 1e-12:
        n += 1
    right("burst/enough", n)
    g = question("caps/under_a_cap", seed).given
    right("caps/under_a_cap", g["requests"] * g["service_s"] / g["cap"])
    g = question("caps/keys_for_half", seed).given
    right("caps/keys_for_half", next(k for k in range(99) if 2 * k * g["cap"] >= g["slots"]))
    g = question("ageing/who_is_next", seed).given
    right(
        "ageing/who_is_next",
        sorted(g["levels"], key=lambda w: g["arrivals"][w] + g["ageing_s"] * g["levels"][w]),
    )
    g = question("turns/visits", seed).given
    right("turns/visits", -(-g["cost"] // (g["quantum"] * g["weight"])))
    g = question("turns/debt", seed).given
    right("turns/debt", g["true"] // g["ben_cost"])
    g = question("card/kv_left", seed).given
    kib = (g["card_gib"] / g["parts"] * g["utilisation"] - g["weights_gib"] - g["overhead_gib"]) * 2**20
    right("card/kv_left", kib / g["kv_kib_per_token"] / 1000)
    g = question("replicas/who_moves", seed).given
    right("replicas/who_moves", g["conversations"] / g["replicas"])
    g = question("own_box/zero_sum", seed).given
    right("own_box/zero_sum", g["few"] * g["gain_s"] / g["many"])


def test_the_mistake_that_the_hint_warns_of_is_never_right() -> None:
    for seed in range(300):
        g = question("replicas/one_off", seed).given
        assert question("replicas/one_off", seed).check(g["history"] * g["p_ms"] / 1000).right
        for mistake in (g["history"] + g["message"], g["message"], g["history"] - g["message"]):
            verdict = question("replicas/one_off", seed).check(mistake * g["p_ms"] / 1000)
            assert not verdict.right, (seed, g)


def test_behind_a_pile_the_likely_mistakes_are_wrong_and_the_fair_ways_are_right() -> None:
    for seed in range(60):
        q = question("start/behind_the_pile", seed)
        slots, service, pile, later = (q.given[k] for k in ("slots", "service_s", "pile", "later_s"))
        drained = pile * service / slots
        for mistake in (drained, drained + later, pile * service - later, pile * service, later, service):
            assert not q.check(mistake).right, (seed, mistake)
        # As notebook 00 counts: those who wait, divided by the slots; with those in service, or without.
        in_line = pile - slots * (later // service)
        for waiting in (in_line, in_line - slots):
            assert q.check(waiting / slots * service).right, (seed, waiting)
        assert f"Within {q.judge.within * 100:g} % counts" in q.text
        q = question("start/stands_aside", seed)
        slots, pile, others = (q.given[k] for k in ("slots", "pile", "others"))
        short, long = q.given["short_s"], q.given["long_s"]
        for mistake in (
            *(0, others * short, others * short / pile, others * long / slots),
            *(pile * long / slots, (others * short + pile * long) / slots, short, others / slots),
        ):
            assert not q.check(mistake).right, (seed, mistake)
        assert f"Within {q.judge.within * 100:g} % counts" in q.text


def test_rounding_on_the_way_never_decides() -> None:
    """Answers are no near-whole numbers: a student with two decimals gets what the computer gets."""
    for seed in range(1000):
        q = question("people/how_many", seed)
        g = q.given
        exact = (1000 / g["least"] - g["a_ms"]) / (g["b_ms"] + g["c_ms"] * g["context"])
        assert 0.2 <= exact % 1 <= 0.8, (seed, exact)
        by_hand = (round(1000 / g["least"], 2) - g["a_ms"]) / (g["b_ms"] + g["c_ms"] * g["context"])
        assert q.check(math.floor(by_hand)).right, seed
        g = question("busy/slots_needed", seed).given
        plain = g["rate_per_s"] * g["service_s"] / g["most"]
        assert question("busy/slots_needed", seed).check(math.ceil(plain)).right, seed
        assert question("busy/slots_needed", seed).check(math.ceil(round(plain, 2))).right, seed


def test_what_binds_is_what_its_own_numbers_say() -> None:
    """By the numbers in the text, by those in the worked trace, and by the model of the engine."""
    profile = load_profile("rtx4090-llama31-8b")
    seen = set()
    for seed in range(400):
        q = question("people/what_binds", seed)
        slots, held, prompt, output, average = (
            int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", q.text)
        )
        assert average == prompt + output / 2
        truth = "slots" if slots * average < held else "KV"
        assert q.answer() == truth, q.text
        total, each, fit, traced = (int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", q.trace()))
        assert (total, each, traced) == (held, average, slots)
        assert q.trace().endswith("\nAnswer: " + ("'slots'" if slots < fit else "'KV'")), q.trace()
        card = from_profile(profile, Shape.of(prompt, output), max_num_seqs=slots)
        assert (card.limits.wall == "slots") == (truth == "slots")
        seen.add((slots, truth))
    assert {(8, "slots"), (16, "slots"), (16, "KV"), (256, "KV")} <= seen


def test_the_hockey_stick_needs_no_more_than_its_text() -> None:
    for seed in range(100):
        q = question("busy/hockey_stick", seed)
        low, high = (float(n) for n in re.findall(r"(0\.\d{4}) at", q.text))
        g = q.given
        assert q.check(high / low * (1 - g["low"]) / (1 - g["high"])).right, q.text


def test_only_those_on_the_failed_replica_move_and_they_are_its_share() -> None:
    for replicas in range(3, 9):
        names_ = [f"replica-{n}" for n in range(replicas)]
        moved = sum(
            home(f"conversation-{n}", names_) != home(f"conversation-{n}", names_[:-1]) for n in range(2000)
        )
        assert moved == movers(replicas, 2000)
        for conversations in range(2000, 4500, 500):
            share = conversations / replicas
            assert abs(movers(replicas, conversations) - share) < 0.17 * share, "1 / n is always accepted"


def test_cobham_by_simulating_the_slot() -> None:
    """Strict priority on one slot by a plain loop over the events of many customers."""
    q = question("ageing/cobham", 5)
    rng = np.random.default_rng(11)
    service, loads = q.given["service_s"], (q.given["chat_load"], q.given["nightly_load"])
    n = 120_000
    came = [np.cumsum(rng.exponential(service / load, n)) for load in loads]
    end = min(times[-1] for times in came)
    served = [0, 0]
    waits: tuple[list[float], list[float]] = ([], [])
    now = 0.0
    while now < end - 100 * service:
        ready = [k for k in (0, 1) if came[k][served[k]] <= now]
        if not ready:
            now = min(came[k][served[k]] for k in (0, 1))
            continue
        k = ready[0]
        waits[k].append(now - came[k][served[k]])
        served[k] += 1
        now += rng.exponential(service)
    assert np.mean(waits[1]) == pytest.approx(q.answer(), rel=0.08)


def test_a_mistyped_question_is_answered_with_the_nearest() -> None:
    meant = names()[3]
    with pytest.raises(ValueError, match=f"got '{meant}s'; did you mean '{meant}'\\?$"):
        question(f"{meant}s")
