"""An untouched lab runs the scenario as it is written, whatever its numbers: no box changes one silently."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from test_lab import SMALL

from fairq.lab import Lab
from fairq.lab.settings import ELSEWHERE, MOST_WHOLE, settings_of
from fairq.scenario import Scenario, ScenarioError
from fairq.scenario.spec import plain

MANY = 50_000_000
"""More than any box allows on its own."""


def written(**more) -> Scenario:
    return Scenario.from_data(SMALL | more, "written")


def with_policy(**spec) -> Scenario:
    return written(policies={"one": spec})


def batching(**spec) -> Scenario:
    return written(engine={"kind": "batching", **spec})


FAR = [
    ("seed", written(seed=2**40), 2**40),
    ("seed", written(seed=MOST_WHOLE), MOST_WHOLE),
    ("quantum", with_policy(policy="drr", quantum=MANY), MANY),
    ("quantum", with_policy(policy="drr", quantum=0.25), 0.25),
    ("quantum", with_policy(policy="drr", quantum=1e300), 1e300),
    ("ageing", with_policy(policy="priority", ageing_s=2e6), 2e6),
    ("cap", with_policy(policy="caps", default=MANY, around={"policy": "fifo"}), MANY),
    ("slots", written(engine={"kind": "slots", "slots": 5000}), 5000),
    ("max_num_seqs", batching(max_num_seqs=200_000, max_num_batched_tokens=MANY), 200_000),
    ("gateway_slots", batching(gateway_slots=MANY), MANY),
    ("kv_tokens", batching(kv_tokens=10 * MANY), 10 * MANY),
    ("max_num_batched_tokens", batching(max_num_batched_tokens=MANY), MANY),
]


def weighing(weight: float) -> Scenario:
    return written().with_({"tenants.chat.weight": weight})


@pytest.mark.parametrize(
    ("name", "scenario", "value"),
    [*FAR, ("weight_chat", weighing(1e6), 1e6), ("weight_chat", weighing(1e-5), 1e-5)],
    ids=lambda each: "" if isinstance(each, Scenario) else str(each),
)
def test_what_the_scenario_says_is_run_and_shown(
    name: str, scenario: Scenario, value: float, tmp_path: Path
) -> None:
    lab = Lab(scenario, replications=1)
    assert lab.settings[name] == value
    assert lab._made[name].box.value == value
    assert lab.scenario == scenario
    assert Lab.from_json(lab.save(tmp_path / "view", formats=["json"])[0]).scenario == scenario
    # Turned away and back, and a view of it: still what is written.
    near = {"weight_chat": 5.0, "kv_tokens": 100_000, "max_num_batched_tokens": 4096}.get(name, 5)
    lab.set(**{name: near})
    assert plain(lab.scenario.data()) != plain(scenario.data())
    assert lab.set(**{name: value}).scenario == scenario
    assert lab.set(**{name: near}).reset().scenario == scenario


def test_a_seed_draws_the_requests_of_that_seed() -> None:
    lab = Lab(written(seed=2**40), policies=["FIFO"], replications=1)
    own = written(seed=2**40).workload().requests(2**40)
    assert lab.result["arrival"].tolist() == [request.arrival for request in own]
    assert Lab(written(), replications=1).set(seed=2**40).scenario.seed == 2**40


def test_the_seed_of_a_log_that_draws_its_tenants_may_be_large(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "".join(f"{i},100,20\n" for i in range(60))
    path.write_text(f"arrived_s,input_tokens,output_tokens\n{rows}")
    scenario = Scenario.from_log(path, tenants=5, seed=2**33)
    lab = Lab(path, tenants=5, seed=2**33, policies=["FIFO"])
    assert lab.settings["seed"] == 2**33
    assert lab.scenario == scenario
    assert lab.result["tenant"].tolist() == [r.tenant for r in scenario.workload().requests()]
    back = Lab.from_json(lab.save(tmp_path / "view", formats=["json"])[0])
    pd.testing.assert_frame_equal(back.table, lab.table)


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (written(seed=2**53), "seed: must be at most 9007199254740991 in the lab .*, got 9007199254740992"),
        (
            with_policy(policy="caps", default=2**60, around={"policy": "fifo"}),
            r"policies\.one\.default: must be at most 9007199254740991 in the lab .*, got 11529215046068",
        ),
    ],
)
def test_a_whole_number_that_a_browser_would_round_is_refused(scenario: Scenario, words: str) -> None:
    with pytest.raises(ScenarioError, match=f"written: {words}"):
        Lab(scenario)


def test_beyond_its_range_nothing_is_turned() -> None:
    lab = Lab(written(seed=2**40), replications=1)
    before = lab.settings
    for name, value, words in [
        ("seed", 2**53, "seed must be from 0 to 9007199254740991, got 9007199254740992"),
        ("quantum", 1e8, "quantum must be from 1 to 10000000, got 100000000"),
        ("weight_chat", 2000, "weight_chat must be from 0.01 to 1000, got 2000"),
    ]:
        with pytest.raises(ValueError, match=words):
            lab.set(**{name: value})
        assert lab.settings == before


# -- which knobs are on the page -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked", [("nonsense",), ("quantum", "nonsens"), ("weight_nobody",), "nonsense", ("",)]
)
def test_a_control_that_there_is_not_is_refused(asked) -> None:
    with pytest.raises(ValueError, match=r"controls: no setting '.*'; there are: preset, find, .*quantum"):
        Lab(written(), controls=asked)


@pytest.mark.parametrize(
    "asked", [(), ("find",), ("weight",), ("weight_chat",), "outage", ("router", "users")]
)
def test_controls_of_this_scenario_or_of_what_it_may_become_are_known(asked) -> None:
    Lab(written(), controls=asked)


def test_every_setting_of_the_shipped_scenarios_is_known_elsewhere() -> None:
    lab = Lab("noisy_burst")
    for words, source in lab._presets.items():
        made = Lab(source) if "log: " in words else None
        scenario = Scenario.load(source) if made is None else made.scenario
        for setting in settings_of(scenario):
            assert any(setting.name == n or setting.name.startswith(f"{n}_") for n in ELSEWHERE), setting.name
