"""The step-through: hand-worked decisions, every policy there and back, and the widgets by ``.value``."""

from __future__ import annotations

import base64
import json
import random
import re
from itertools import cycle, pairwise, product

import pytest
from pages import rows_of

from fairq import (
    DRR,
    FIFO,
    SFQ,
    VTC,
    AccumulatingPriority,
    Floors,
    KeyCaps,
    Levels,
    Nested,
    Policy,
    Priority,
    Request,
    Shortest,
    SoftCaps,
)
from fairq.counterexamples import ChargeAtTheEnd, DeficitWithoutQuantum, NoLift, RoundRobin
from fairq.lab import StepLab
from fairq.lab.steps import MOST, Steps, accounts_of
from fairq.sim import SlotEngine, simulate

WEIGHTS = {"a": 2, "b": 1, "c": 1}
POLICIES = {
    "FIFO": FIFO,
    "strict": lambda: Priority(ageing=None),
    "aged": lambda: Priority(ageing=5),
    "accumulating": lambda: AccumulatingPriority({0: 2, 1: 1}),
    "shortest": Shortest,
    "DRR": lambda: DRR(5, WEIGHTS),
    "DRR, a tiny quantum": lambda: DRR(1),
    "VTC": lambda: VTC(WEIGHTS),
    "SFQ": SFQ,
    "levels": lambda: Levels({0: VTC(), 1: DRR(5)}),
    "levels that need the time": lambda: Levels({0: FIFO(), 1: AccumulatingPriority({1: 1})}, ageing=3),
    "nested": lambda: Nested({"a": "org", "b": "org"}, lambda org: DRR(5), {"org": 2}),
    "no lift": NoLift,
    "charge at the end": ChargeAtTheEnd,
    "round robin": RoundRobin,
    "deficit without quantum": DeficitWithoutQuantum,
}
WRAPS = {
    "bare": lambda p: p,
    "caps": lambda p: KeyCaps(p, default=1),
    "soft caps": lambda p: SoftCaps(p, default=1),
    "floors": lambda p: Floors(p, {"g": (["c"], 1)}, slots=3),
    "all": lambda p: KeyCaps(Floors(SoftCaps(p, default=1), {"g": (["c"], 1)}, slots=3), default=2),
}


def traffic(n: int = 24, seed: int = 1) -> list[Request]:
    """Ties in arrival and finish, services of 0, two keys for one tenant, half with true sizes."""
    draw = random.Random(seed)
    requests = []
    for i in range(n):
        tenant = draw.choice("abc")
        tokens = draw.randint(1, 9)
        true = {"prompt_tokens": tokens, "output_tokens": 1} if i % 2 else {}
        requests.append(
            Request(
                tenant,
                draw.randint(1, 9),
                arrival=draw.randint(0, 12),
                service=draw.randint(0, 4),
                priority=draw.randint(0, 1),
                key=draw.choice("ax") if tenant == "a" else tenant,
                id=i,
                **true,
            )
        )
    return requests


def order(steps: Steps) -> list:
    return [entry["id"] for entry in steps.log if entry["tenant"] is not None]


# ------------------------------------------------------------------ by hand


def test_shares_one_two_three_by_hand():
    """Weights 1:2:3, quantum 1, unit costs: every round is A BB CCC, until C and then B are empty."""
    requests = [Request(t, 1, arrival=0, service=1, id=f"{t}{i}") for t in "ABC" for i in range(1, 7)]
    steps = Steps(DRR(1, {"A": 1, "B": 2, "C": 3}), requests)
    assert " ".join(order(steps)) == "A1 B1 B2 C1 C2 C3 A2 B3 B4 C4 C5 C6 A3 B5 B6 A4 A5 A6"
    assert [entry["time"] for entry in steps.log] == list(range(18))
    assert [steps.state(n)["visit"]["round"] for n in range(18)] == [1] * 6 + [2] * 6 + [3] * 3 + [4, 5, 6]
    # In the middle of B's visit of round 2: one of its two tokens is left, it covers B4.
    state = steps.state(8)
    assert state["accounts"]["B"]["deficit"] == 1
    assert state["why"] == "B's visit of round 2 goes on: its deficit 1 covers the cost 1."
    assert {t: [r["id"] for r in line] for t, line in state["lines"].items()} == {
        "A": ["A3", "A4", "A5", "A6"],
        "B": ["B4", "B5", "B6"],
        "C": ["C4", "C5", "C6"],
    }
    assert state["slots"] == [None]
    assert [e["id"] for e in state["log"]] == ["A1", "B1", "B2", "C1", "C2", "C3", "A2", "B3"]
    assert steps.state(18)["time"] == 18


def test_a_cost_above_the_quantum_by_hand():
    """Ring A, B; quantum 10. A gathers 10, 20, 30 >= 25 while B sends one per visit."""
    requests = [Request("A", 25, arrival=0, service=25, id="A1")]
    requests += [Request("B", 10, arrival=0, service=10, id=f"B{i}") for i in range(1, 5)]
    steps = Steps(DRR(10), requests)
    assert [(e["id"], e["time"], e["finish"]) for e in steps.log] == [
        ("B1", 0, 10),
        ("B2", 10, 20),
        ("A1", 20, 45),
        ("B3", 45, 55),
        ("B4", 55, 65),
    ]
    credit = [steps.state(n)["accounts"]["A"]["deficit"] for n in range(6)]
    # Visits that pass add up; what is left when the line empties is lost.
    assert credit == [0, 10, 20, 0, 0, 0]
    assert steps.state(2)["why"] == ("A's turn in round 3: deficit 20 + visit of 10 = 30 covers the cost 25.")


def test_visits_that_are_passed_are_told_by_hand():
    """Quantum 500, one slot. Round 1: Ana 500 pays 200 and 200; Ben 500 < 600, Eva 500 < 900 are passed.
    Round 2: Ana 100 + 500 pays the rest; Ben 1000, Eva 1000 are served; round 3: Ben 400 + 500.
    """
    asks = [("ana", 200)] * 4 + [("ben", 600)] * 2 + [("eva", 900)]
    steps = Steps(DRR(500), [Request(who, cost, arrival=0, service=1) for who, cost in asks])
    assert [entry["tenant"] for entry in steps.log] == ["ana"] * 4 + ["ben", "eva", "ben"]
    told = "Visited on the way, and short of credit still: ben 0 + 500 = 500, eva 0 + 500 = 500."
    assert [entry["passed"] for entry in steps.log] == ["", "", told, "", "", "", ""]
    assert [steps.state(n)["passed"] for n in (7, 2, 3, 0)] == ["", told, "", ""]
    lab = StepLab(DRR(500), [Request(who, cost, arrival=0, service=1) for who, cost in asks]).to(2)
    assert f"{told} ana's turn in round 2" in lab.chart.alt


def test_many_visits_on_the_way_are_several_gains_and_many_tenants_are_counted():
    """Quantum 1. A's 1 goes in round 1, then B's 3 in round 3: A was visited in rounds 2 and 3 (2 < 9), the
    seven behind B in rounds 1 and 2 (2 < 3).
    """
    requests = [Request("A", cost, arrival=0, service=1) for cost in (1, 9)]
    requests += [Request(who, 3, arrival=0, service=1) for who in "BCDEFGHI"]
    steps = Steps(DRR(1), requests)
    assert steps.log[1]["tenant"] == "B"
    assert steps.log[1]["passed"] == (
        "Visited on the way, and short of credit still: A 0 + 2 = 2, C 0 + 2 = 2, D 0 + 2 = 2, E 0 + 2 = 2, "
        "F 0 + 2 = 2, G 0 + 2 = 2, and 2 more."
    )


def test_to_be_held_back_is_a_decision_too():
    """Two slots, one key with a cap of 1: at 0 and at 1 the second slot stays free."""
    requests = [Request("a", 1, arrival=t, service=2, id=t) for t in (0, 0, 1)]
    steps = Steps(lambda: KeyCaps(FIFO(), default=1), requests, slots=2)
    seen = [(e["time"], e["id"], e["slot"]) for e in steps.log]
    assert seen == [(0, 0, 0), (0, None, None), (1, None, None), (2, 0, 0), (2, None, None), (4, 1, 0)]
    held = steps.state(1)
    assert held["visit"] is None
    assert held["why"] == "Nothing may run: every waiting key is held back. Held back by a cap: a."
    assert held["limits"] == ["Caps: a 1 of 1."]
    assert held["slots"][0]["finish"] == 2


def test_finishes_then_arrivals_then_decisions():
    """At 2 the slot frees and b comes; b, shorter, goes before a's second, which came earlier."""
    requests = [
        Request("a", 5, arrival=0, service=2, id="a1"),
        Request("a", 5, arrival=1, service=2, id="a2"),
        Request("b", 1, arrival=2, service=0, id="b1"),
    ]
    steps = Steps(Shortest(), requests)
    assert [(e["time"], e["id"]) for e in steps.log] == [(0, "a1"), (2, "b1"), (2, "a2")]


# ------------------------------------------------------------------ every policy


@pytest.mark.parametrize(
    ("name", "wrap"), sorted({*product(POLICIES, ("bare", "all")), *product(("DRR", "VTC"), WRAPS)})
)
def test_there_and_back_is_the_same_and_as_simulated(name, wrap):
    def make() -> Policy:
        return WRAPS[wrap](POLICIES[name]())

    requests = traffic()
    steps = Steps(make, requests, slots=3)
    there = [steps.state(n) for n in range(len(steps) + 1)]
    back = [steps.state(n) for n in range(len(steps), -1, -1)][::-1]
    assert there == back
    # A single look into the middle, with nothing explained on the way, by a copied policy.
    middle = len(steps) // 2
    assert Steps(make(), requests, slots=3).state(middle) == there[middle]

    rows = simulate(requests, make(), SlotEngine(3)).requests.sort_values("dispatch")
    taken = [entry for entry in steps.log if entry["tenant"] is not None]
    assert [e["id"] for e in taken] == rows["id"].tolist()
    assert [e["time"] for e in taken] == rows["start"].tolist()
    assert [e["finish"] for e in taken] == rows["finish"].tolist()
    assert [e["slot"] for e in taken] == rows["slot"].tolist()

    for state, following in pairwise(there):
        json.dumps(state, default=str)
        marked = [r["id"] for line in state["lines"].values() for r in line if r["next"]]
        new = following["log"][-1]
        assert marked == ([] if new["tenant"] is None else [new["id"]])
        assert state["why"] == new["why"]
        assert sum(map(len, state["lines"].values())) + state["to_come"] + len(
            [e for e in state["log"] if e["tenant"] is not None]
        ) == len(requests)
    assert there[-1]["finished"]
    assert there[-1]["slots"] == [None] * 3


# ------------------------------------------------------------------ what cannot be used


def test_a_given_policy_stays_unused():
    policy = DRR(5)
    Steps(policy, traffic(6))
    assert not policy.used
    policy.put(Request("a", 1))
    with pytest.raises(ValueError, match="unused policy, got a used one"):
        Steps(policy, [])
    with pytest.raises(ValueError, match="unused policy, got a used one"):
        Steps(lambda: policy, [])


class Moody(FIFO):
    """Prefers a, b, b, a, b, b, whatever was asked before."""

    moods = cycle("abb")

    def get(self, eligible=None, now=None):
        mood = next(Moody.moods)
        return super().get(lambda key: key == mood, now) or super().get(eligible, now)


def test_a_policy_that_decides_otherwise_is_told():
    Moody.moods = cycle("abb")
    steps = Steps(Moody, [Request(t, 1, arrival=0, service=1) for t in "ab"])
    with pytest.raises(RuntimeError, match="decision 1 is not the same the second time"):
        steps.state(1)


@pytest.mark.parametrize(
    ("policy", "requests", "slots", "message"),
    [
        (FIFO, [Request("a", 1, service=1)], 1, "needs an arrival"),
        (FIFO, [Request("a", 1, arrival=0)], 1, "a slot needs service"),
        (FIFO, ["a"], 1, "needs Requests, got 'a'"),
        (FIFO, [], 0, "slots must be a whole number >= 1, got 0"),
        ("fifo", [], 1, "got 'fifo'"),
        (dict, [], 1, "needs a policy"),
        (FIFO, [Request("a", 1, arrival=0, service=1)] * 2, 1, "given twice"),
        (FIFO, [Request("a", 1, arrival=0, service=1) for _ in range(MOST + 1)], 1, "at most 1000"),
    ],
)
def test_bad_input_is_named(policy, requests, slots, message):
    with pytest.raises((TypeError, ValueError), match=message):
        StepLab(policy, requests, slots=slots)


def test_a_tenant_in_several_levels_has_several_accounts():
    accounts = {"a in level 0": {"deficit": 1}, "a in level 1": {"counter": 2}, "b": {"counter": 3}}
    assert accounts_of(accounts, "a") == {"level 0": {"deficit": 1}, "level 1": {"counter": 2}}
    assert accounts_of(accounts, "b") == {"": {"counter": 3}}
    assert accounts_of(accounts, "c") == {}


# ------------------------------------------------------------------ the widgets


@pytest.fixture
def step() -> StepLab:
    return StepLab(lambda: DRR(5), traffic(12), slots=2)


def pressed(step: StepLab, label: str) -> None:
    [found] = [w for w in walk(step.widget) if getattr(w, "description", "") == label and hasattr(w, "click")]
    found.click()


def walk(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)


def picture(step: StepLab) -> str:
    return step._picture.value


def test_next_back_to_and_reset_from_code(step):
    first = step.state
    assert step.next().state["step"] == 1
    assert step.back().state == first
    assert step.back().state == first
    end = step.to(len(step)).state
    assert end["finished"]
    assert step.next().state == end
    assert step.why == "Nothing waits."
    assert step.reset().state == first
    with pytest.raises(ValueError, match="step must be from 0 to 12, got 13"):
        step.to(13)
    assert step.state == first


def test_the_slider_the_box_and_the_buttons_move_the_picture(step):
    step._repr_mimebundle_()
    seen = [picture(step)]
    step._knob.slider.value = 3
    seen.append(picture(step))
    assert step._knob.box.value == step._clock.value == step.state["step"] == 3
    step._knob.box.value = 5
    seen.append(picture(step))
    assert step._knob.slider.value == 5
    pressed(step, "Next")
    seen.append(picture(step))
    assert step.state["step"] == 6
    assert len(set(seen)) == 4
    pressed(step, "Back")
    assert picture(step) == seen[2]
    pressed(step, "Reset")
    assert picture(step) == seen[0]
    assert f"0 of {len(step)} decisions taken. " in step._status.value


def test_play_is_timed_by_the_browser(step):
    pressed(step, "Play")
    assert step._clock.playing
    assert step._play.description == "Pause"
    step._clock.value = 1  # what the browser sends at each beat
    assert step.state["step"] == 1
    pressed(step, "Next")  # takes over from the clock
    assert not step._clock.playing
    assert step.state["step"] == 2
    step.to(len(step))
    pressed(step, "Play")  # from the end: from the start
    assert step.state["step"] == 0
    assert step._clock.playing
    pressed(step, "Pause")
    assert not step._clock.playing
    assert step._play.description == "Play"


def test_the_page_says_it_in_words_and_numbers(step):
    bundle = step.to(4)._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"])[:4] == b"\x89PNG"
    assert "application/vnd.jupyter.widget-view+json" in bundle
    alt = re.search(r'alt="([^"]*)"', picture(step)).group(1)
    assert "Decision 5 of 12" in alt
    assert "Waiting: " in alt
    assert step._numbers.value.count('<th scope="row"') == 3
    assert ">deficit</th>" in step._numbers.value
    assert step._listing.value.count("<tr>") == 1 + 4
    for entry in step.log[:4]:
        assert entry["why"].split(":")[0].replace("'", "&#x27;") in step._listing.value


def test_each_account_of_a_tenant_is_told_with_its_tenant():
    requests = [Request(who, 3, arrival=0, priority=n, service=1) for who in "ab" for n in (0, 1, 0, 1)]
    shown = StepLab(lambda: Levels({0: VTC(), 1: DRR(5)}), requests, slots=1).to(2)
    shown._repr_mimebundle_()  # drawn
    top, *rows = rows_of(shown._numbers.value)
    assert {len(row) for row in rows} == {len(top)}
    assert [row[0] for row in rows] == [("rowgroup", "a, next")] * 2 + [("rowgroup", "b")] * 2
    # Who waits and runs is said once, in cells that span both rows.
    assert rows[0][:4] == rows[1][:4]
    assert all(words for row in rows for scope, words in row if scope != "td")


def test_every_control_has_a_name_and_a_tooltip(step):
    for widget in walk(step.widget):
        assert getattr(widget, "tooltip", "") is not None
    assert step._knob.box.description == "Step"


def test_pictures_of_a_run_have_one_height():
    step = StepLab(lambda: KeyCaps(DRR(5, WEIGHTS), default=1), traffic(), slots=3)
    sizes = {tuple(step.to(n).chart.get_size_inches()) for n in range(0, len(step) + 1, 6)}
    assert len(sizes) == 1


def test_an_empty_run_and_one_that_can_never_end():
    empty = StepLab(FIFO, [])
    assert empty._repr_mimebundle_()["text/plain"].startswith("FIFO. No requests: nothing to decide.")
    for label in ("Next", "Back", "Play", "Reset"):
        pressed(empty, label)
    assert empty.state["step"] == 0
    assert not empty._clock.playing
    stuck = StepLab(lambda: KeyCaps(FIFO(), default=0), [Request("a", 1, arrival=0, service=1)])
    assert stuck.to(1).state["finished"]
    assert "1 can never run" in stuck.chart.alt


def test_an_error_is_shown_on_the_page_and_reset_recovers():
    Moody.moods = cycle("abb")
    step = StepLab(Moody, [Request(t, 1, arrival=0, service=1) for t in "ab"])
    assert step.chart.data["step"] == 0
    step._knob.slider.value = 1
    assert "Error: RuntimeError: decision 1 is not the same the second time" in step._status.value
    pressed(step, "Reset")
    assert "Error" not in step._status.value


def test_odd_names_are_shown_as_they_are():
    requests = [Request(f"<b>$x_{i}$ & co", 3, arrival=0, service=1) for i in range(14)]
    step = StepLab(VTC, requests).to(5)
    assert step._repr_mimebundle_()["image/png"]
    assert "<b>" not in step._numbers.value + step._listing.value + picture(step)
