"""A setting found in the lab: the recommendation of ``fairq tune``, shown, written, stopped, refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from loops import Loop
from test_upload import rows, upload
from typer.testing import CliRunner

from fairq.cli import app
from fairq.files import InputError
from fairq.lab import Lab, find
from fairq.lab.find import Finder, suggested
from fairq.scenario import Scenario, load_policy
from fairq.tune import Tuning


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(find, "jobs", lambda: 1)
    return tmp_path


@pytest.fixture
def lab(project: Path) -> Lab:
    (project / "box.csv").write_text(rows(gap_s=0.2))
    made = Lab("box.csv")
    made.chart  # noqa: B018  (drawn)
    return made


SERVED = "arrived_s,tenant,input_tokens,output_tokens,start_s,first_token_s,latency_s\n" + "".join(
    f"{i * 0.5:.2f},{'ada' if i % 3 else 'bob'},100,40,{i * 0.5:.2f},0.2,2.2\n" for i in range(60)
)


def press(lab: Lab, promise: str) -> None:
    lab._finder.target.value = promise
    lab._finder._go.click()


def in_a_terminal(*arguments: str) -> dict[str, Any]:
    outcome = CliRunner().invoke(app, ["tune", *arguments, "--out", "tuned", "--jobs", "1", "--json"])
    assert outcome.exit_code == 0, outcome.output
    document: dict[str, Any] = json.loads(outcome.stdout)
    return document


def test_the_button_finds_what_the_command_finds(lab: Lab, project: Path) -> None:
    lab.set(slots=4)
    press(lab, "bob p99 ttft < 3 s")
    told = in_a_terminal("box.csv", "--target", "bob p99 ttft < 3 s", "--slots", "4")
    found = lab.found
    assert found is not None
    assert told["meets"]
    assert told["setting"] != "FIFO"
    assert (found.best.name, dict(found.best.policy)) == (told["setting"], told["policy"])
    assert found.lines() == told["verdict"]
    page = lab._finder._result.value
    for line in told["verdict"]:
        assert line.replace("<", "&lt;").replace(">", "&gt;") in page
    # The files are those of the command, each with its link.
    folder = project / "figures" / "exports" / "box_setting"
    assert {p.name for p in folder.iterdir()} == {
        p.name for p in (project / "tuned").iterdir() if p.name not in ("journal.jsonl", "scenario.yaml")
    }
    for name in find.LINKED:
        assert (folder / name).read_bytes() == (project / "tuned" / name).read_bytes()
        assert f'download="{name}"' in lab._finder._links.value
    assert load_policy(folder / "policy.yaml", lab.scenario.workload()).put


def test_who_pays_and_how_to_type_it_are_on_the_page(lab: Lab) -> None:
    press(lab, "bob p99 ttft < 3 s")
    assert lab.found is not None
    page, told = lab._finder._result.value, lab._finder._status.value
    (picture,) = re.findall(r'<img alt="(\d+ of \d+ settings reach[^"]*)"', page)
    assert lab.found.best.name in picture
    assert lab.found.policy_yaml().splitlines()[0] in page
    for tool in ("vLLM", "LiteLLM proxy", "llama.cpp", "nginx"):
        assert f"<h3>{tool}</h3>" in page
    assert re.search(r"\d+ settings tried on 120 requests, once each", told)
    press(lab, "a slip")
    assert lab._finder._result.value == page, "it stays, and is said to be the older one"
    assert "; below is what was found before<" in lab._finder._status.value


def test_a_promise_out_of_reach_names_the_capacity(lab: Lab) -> None:
    lab.set(slots=1)
    press(lab, "all p99 ttft < 1 s")
    page = lab._finder._result.value
    assert "None of " in page
    assert re.search(r"it would take \d+ slots \(there are 1\)|not even 16 slots would do", page)


@pytest.mark.parametrize(
    ("promise", "words"),
    [
        ("", "it must be [WHO] p99"),
        ("bob p99 ttft 2 s", "there is no &lt;"),
        ("bob p99 tftt < 2 s", "did you mean &#x27;ttft&#x27;?"),
        ("bobb p99 ttft < 2 s", "did you mean &#x27;bob&#x27;?"),
        ("bob p99 ttft < 2", "the unit must be one of"),
    ],
)
def test_a_bad_promise_is_told_beside_the_box(lab: Lab, promise: str, words: str) -> None:
    press(lab, promise)
    assert "Error: " in lab._finder._status.value
    assert words in lab._finder._status.value
    assert lab.found is None
    assert not lab._finder._go.disabled


def test_from_code(lab: Lab) -> None:
    made = lab.find("bob p99 ttft < 3 s", today="fair")
    assert made is lab.found
    assert made.today.name == "fair"
    with pytest.raises(InputError, match="no tenant or group 'dan'"):
        lab.find("dan p99 ttft < 3 s")
    with pytest.raises(InputError, match="today must be one of FIFO, capped, fair, got 'x'"):
        lab.find(today="x")
    assert not (Path("figures") / "exports").exists(), "from code, save() says where"


def test_what_was_found_ages_and_goes(lab: Lab) -> None:
    lab.find("bob p99 ttft < 3 s")
    assert "Found before" not in lab._finder._age.value
    lab.set(slots=3)
    assert "Found before" in lab._finder._age.value
    lab.set(slots=8)
    assert "Found before" not in lab._finder._age.value
    upload(lab, "other.csv", rows(40))
    assert lab.found is None
    assert lab._finder._result.value == ""


def test_the_first_promise_is_one_to_those_who_wait_for_the_largest() -> None:
    def run(ttft: dict[str, float]) -> pd.DataFrame:
        who = ["big"] * 5 + ["many"] * 4 + ["few"] * 2
        cost = [1000] * 5 + [10] * 6
        table = {"group": who, "cost": cost, "priority": [0] * 11, "ttft": [ttft[name] for name in who]}
        return pd.DataFrame(table)

    fifo, fair = run({"big": 9, "many": 30, "few": 1}), run({"big": 40, "many": 3.1, "few": 0.3})
    assert suggested({"FIFO": fifo, "fair": fair}) == "many p99 ttft < 5 s"
    assert suggested({"FIFO": fifo}) == "many p99 ttft < 50 s"
    fifo.loc[fifo["group"] == "many", "priority"] = 1
    assert suggested({"FIFO": fifo}) == "few p99 ttft < 2 s"
    alone = fifo[fifo["group"] == "big"]
    assert suggested({"FIFO": alone}) == "all p99 ttft < 10 s"


def test_a_promise_stands_in_the_box_and_can_be_kept(lab: Lab) -> None:
    (first, second) = (lab._finder.target.value, "")
    assert first
    assert lab.find().chosen is not None
    upload(lab, "served.csv", SERVED)
    second = lab._finder.target.value
    assert second.startswith("bob p99 ttft < ")


def test_nothing_is_written_into_a_box_that_can_be_typed_in(lab: Lab) -> None:
    """What is being typed is in the browser alone until the box is left: a value set would overwrite it."""
    box, page = lab._finder.target, []
    box.observe(
        lambda change: page.append((change["name"], change["new"], box.disabled)), ["value", "disabled"]
    )
    upload(lab, "served.csv", SERVED)
    suggestion = box.value
    assert suggestion.startswith("bob p99 ttft < ")
    assert page == [
        ("disabled", True, True),
        ("value", "", True),
        ("value", suggestion, True),
        ("disabled", False, False),
    ]
    box.value = ""  # the reader empties it, turns a knob, and begins to type
    lab.set(slots=3)
    assert box.value == "", "the suggestion is made once"


def test_the_box_opens_when_the_rest_of_the_page_is_there(lab: Lab) -> None:
    said: list[str] = []
    lab._finder.target.observe(lambda change: said.append(lab._status.value), "disabled")
    upload(lab, "served.csv", SERVED)
    assert len(said) == 2
    assert said[-1] == lab._status.value
    assert said[-1] != said[0]


def test_the_box_opens_when_there_is_nothing_to_suggest(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("this cannot be served")

    monkeypatch.setattr(lab, "_simulate", broken)
    upload(lab, "served.csv", SERVED)
    assert "this cannot be served" in lab._status.value
    assert not lab._finder.target.disabled
    monkeypatch.undo()
    lab._finder.target.value = ""
    lab.set(slots=3)
    assert lab._finder.target.value == "", "somebody may be typing by now"


def test_a_log_that_was_served_opens_on_its_own_engine(lab: Lab, project: Path) -> None:
    upload(lab, "served.csv", SERVED)
    told = in_a_terminal("figures/exports/logs/served.csv", "--target", "bob p99 ttft < 2 s")
    engine = lab.scenario.data()["engine"]
    # A request of 2.2 s every half second: four or five at once, 39 tokens in 2 s.
    assert engine["slots"] == 5
    assert engine["decode_tokens_per_s"] == pytest.approx(39 / 2, rel=0.05)
    assert "<li>Engine as the log shows it: 5 at once" in lab._report.value
    assert lab.find("bob p99 ttft < 2 s").lines() == told["verdict"]
    upload(lab, "plain.csv", rows(30))
    assert "<li>The log does not say what served it; assumed: 8 slots" in lab._report.value


def test_a_scenario_has_it_too_and_a_lesson_need_not(project: Path) -> None:
    lab = Lab("published_burst", replications=2, policies=["fifo", "drr"])
    assert lab._finder.widget.layout.display is None
    made = lab.find()
    assert made.runs == 1, "nothing is random there"
    lesson = Lab("published_burst", replications=1, controls=("quantum",))
    assert lesson._finder.widget.layout.display == "none"
    assert Lab("published_burst", controls=("quantum", "find"))._finder.widget.layout.display is None


# -- beside the kernel's main loop ----------------------------------------------------------------------


@pytest.fixture
def beside(project: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Finder, Loop]:
    """A finder beside a loop that is told of every run."""
    loop = Loop()
    scenario = Scenario.load("published_burst")
    finder = Finder(lambda: (scenario, None), lambda: loop)
    finder.open(scenario)
    finder.target.value = "small p99 latency < 2 s"
    monkeypatch.setattr(find, "EVERY_S", 0.0)
    return finder, loop


def press_beside(finder: Finder, loop: Loop) -> None:
    finder._go.click()
    assert [loop.step(), loop.step()] == ["call_later", "_begin"]


def test_a_promise_that_arrives_after_the_click_is_the_one_that_counts(beside: tuple[Finder, Loop]) -> None:
    finder, loop = beside
    finder._go.click()  # delivered to the main thread; the text, sent before it, to the subshell
    finder.target.value = "smal p99 latency < 2 s"
    loop.step()
    loop.step()
    assert "did you mean &#x27;small&#x27;?" in finder._status.value
    assert not finder._go.disabled


def test_a_click_is_not_carried_over_to_what_is_opened_after_it(beside: tuple[Finder, Loop]) -> None:
    finder, loop = beside
    finder._go.click()
    finder.open(Scenario.load("noisy_burst"))
    finder.target.value = "small p99 latency < 2 s"  # as a suggestion is made
    assert [loop.step(), loop.step()] == ["call_later", "_begin"]
    assert "was opened meanwhile: press the button again" in finder._status.value
    assert not finder._go.disabled
    finder._go.click()
    assert [loop.step(), loop.step()] == ["call_later", "_begin"]
    assert finder._go.disabled, "pressed again, it runs"
    finder._halt.click()
    while loop.step() != "_over":
        pass


def one_request() -> dict[str, pd.DataFrame]:
    return {"FIFO": pd.DataFrame({"group": ["chat"], "cost": 1, "priority": 0, "ttft": 1.5})}


@pytest.mark.parametrize("handled", ["before the suggestion", "after it"])
def test_a_suggestion_is_not_tried_in_place_of_what_was_typed_as_a_log_opened(
    beside: tuple[Finder, Loop], handled: str
) -> None:
    """Typed before it opened, so the text is gone; the click is handled a moment after."""
    finder, loop = beside
    finder.target.value = "small p50 latency < 9 s"
    finder.open(Scenario.load("noisy_burst"))
    if handled == "before the suggestion":
        finder._go.click()
    finder.suggest(one_request)
    if handled == "after it":
        finder._go.click()
    assert sorted(loop.step() for _ in range(4)) == ["_begin", "call_later", "call_later", "seen"]
    assert "was opened meanwhile: press the button again" in finder._status.value
    assert not finder._running
    finder._go.click()
    assert [loop.step(), loop.step()] == ["call_later", "_begin"]
    assert finder._running, "pressed again, it runs"
    finder._halt.click()
    while loop.step() != "_over":
        pass


def test_what_is_typed_at_once_after_a_log_opened_counts(beside: tuple[Finder, Loop]) -> None:
    finder, loop = beside
    finder.open(Scenario.load("noisy_burst"))
    finder.suggest(one_request)
    finder._go.click()
    finder.target.value = "smal p99 latency < 2 s"
    assert sorted(loop.step() for _ in range(4)) == ["_begin", "call_later", "call_later", "seen"]
    assert "did you mean &#x27;small&#x27;?" in finder._status.value


def test_the_sweep_runs_in_a_thread_and_the_page_changes_on_the_main_loop(
    beside: tuple[Finder, Loop],
) -> None:
    finder, loop = beside
    press_beside(finder, loop)
    assert finder._go.disabled
    assert finder._halt.layout.display is None
    assert finder.made is None
    seen = [loop.step()]
    assert re.search(r"Trying settings: \d+ of \d+ runs", finder._status.value)
    finder._go.click()
    while seen[-1] in ("_tell", "call_later", "_begin"):
        seen.append(loop.step())
    assert seen.count("_begin") == 1
    assert seen[-1] == "_finished"
    assert len(seen) > 10
    assert isinstance(finder.made, Tuning)
    assert finder._bar.layout.visibility == "hidden"
    assert loop.calls.empty(), "pressing it again meanwhile began no second one"


@pytest.mark.parametrize("how", ["button", "another scenario"])
def test_it_can_be_stopped(beside: tuple[Finder, Loop], how: str) -> None:
    finder, loop = beside
    press_beside(finder, loop)
    loop.step()
    if how == "button":
        finder._halt.click()
    else:
        finder.open(Scenario.load("noisy_burst"))
    last = loop.step()
    while last == "_tell":
        last = loop.step()
    assert last == "_over"
    assert "Stopped." in finder._status.value
    assert finder.made is None
    assert not finder._go.disabled


def test_what_goes_wrong_before_the_first_run_is_told(
    beside: tuple[Finder, Loop], monkeypatch: pytest.MonkeyPatch
) -> None:
    finder, loop = beside

    def broken() -> Any:
        raise RuntimeError("no scenario")

    monkeypatch.setattr(finder, "_ask", broken)
    press_beside(finder, loop)
    assert "Error: RuntimeError: no scenario" in finder._status.value
    assert not finder._go.disabled


def test_what_goes_wrong_in_the_thread_is_told(
    beside: tuple[Finder, Loop], monkeypatch: pytest.MonkeyPatch
) -> None:
    finder, loop = beside

    def broken(*_: Any, **__: Any) -> Tuning:
        raise RuntimeError("no worker")

    monkeypatch.setattr(find, "tune", broken)
    press_beside(finder, loop)
    assert loop.step() == "_over"
    assert "Error: RuntimeError: no worker" in finder._status.value
    assert not finder._go.disabled
