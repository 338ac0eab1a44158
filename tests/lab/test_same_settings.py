"""The same settings show the same, whichever way they were reached, and what was turned is not forgotten."""

from __future__ import annotations

import json
from collections import Counter
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairq.lab import Lab
from fairq.lab.export import LabFileError
from fairq.scenario import Scenario


@pytest.fixture
def nobodys(tmp_path: Path) -> Path:
    """A log that does not say who asked."""
    rng = np.random.default_rng(3)
    at = np.cumsum(rng.exponential(0.4, 600))
    lines = [f"{t:.3f},{rng.integers(10, 300)},{rng.integers(5, 120)}" for t in at]
    path = tmp_path / "nobodys.csv"
    path.write_text("\n".join(["arrived_s,input_tokens,output_tokens", *lines]) + "\n")
    return path


def drawn(log: Path, seed: int = 4, tenants: int = 20, **more) -> Lab:
    return Lab(log, tenants=tenants, zipf=0.3, seed=seed, policies=["fair"], **more)


def sliders(lab: Lab) -> list[str]:
    """The names on the weights of the page, from above."""
    return [row.children[0].description.removeprefix("Weight: ") for row in lab._weights.children]


def charted(lab: Lab) -> list[str]:
    return [name for name in dict.fromkeys(lab.table["tenant"]) if name != "others"]


def largest(log: Path, seed: int, tenants: int = 20) -> list[str]:
    """Seven tenants with the most tokens, without the lab."""
    tokens: Counter[str] = Counter()
    for request in Scenario.from_log(log, tenants=tenants, zipf=0.3, seed=seed).workload().requests():
        tokens[request.tenant] += request.prompt_tokens + request.output_tokens
    return [name for name, _ in tokens.most_common(7)]


def test_another_draw_of_the_tenants_names_those_who_are_large_then(nobodys: Path, tmp_path: Path) -> None:
    assert largest(nobodys, 4) != largest(nobodys, 7)
    lab = drawn(nobodys)
    assert charted(lab) == sliders(lab) == largest(nobodys, 4)
    lab.set(seed=7)
    assert charted(lab) == sliders(lab) == largest(nobodys, 7)
    # As a slider moved by hand, and as a view opened again.
    moved = drawn(nobodys)
    assert charted(moved) == largest(nobodys, 4)
    moved._made["seed"].slider.value = 7
    back = Lab.from_json(lab.save(tmp_path / "view", formats=["json"])[0])
    for other in (moved, back):
        assert other.settings == lab.settings
        assert sliders(other) == charted(other) == largest(nobodys, 7)
        pd.testing.assert_frame_equal(other.table, lab.table)
        assert other.chart.to_bytes("svg") == lab.chart.to_bytes("svg")
    space: dict = {}
    exec(lab.code(), space)
    pd.testing.assert_frame_equal(space["table"], lab.table)
    assert charted(lab.reset()) == sliders(lab) == largest(nobodys, 4)


def test_a_view_that_was_turned_before_it_was_drawn_names_the_same(nobodys: Path) -> None:
    late, early = drawn(nobodys), drawn(nobodys)
    assert charted(late)
    for lab in (late, early):
        lab.set(seed=7, load=2.0, weight={"tenant-11": 3})
    assert early.settings == late.settings
    pd.testing.assert_frame_equal(early.table, late.table)


def test_a_weight_waits_while_its_tenant_is_not_drawn(nobodys: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.csv"
    short.write_text("".join(nobodys.read_text().splitlines(keepends=True)[:31]))
    lab = drawn(short)

    def there(seed: int) -> set[str]:
        return set(Scenario.from_log(short, tenants=20, zipf=0.3, seed=seed).workload().weights)

    gone, new = min(there(4) - there(7)), min(there(7) - there(4))
    lab.set(weight={gone: 4})
    with pytest.raises(ValueError, match=f"no setting 'weight_{new}'"):
        lab.set(weight={new: 2})
    lab.set(seed=7, weight={new: 2})
    assert {n.removeprefix("weight_") for n in lab.settings if n.startswith("weight_")} == there(7)
    assert lab.results["fair"][0].weights == dict.fromkeys(there(7), 1) | {new: 2}
    back = Lab.from_json(lab.save(tmp_path / "view", formats=["json"])[0])
    assert back.settings == lab.settings
    lab.set(seed=4)
    assert lab.results["fair"][0].weights == dict.fromkeys(there(4), 1) | {gone: 4}
    before = lab.settings
    with pytest.raises(ValueError, match="load must be a number"):
        lab.set(seed=7, load="heavy")
    assert lab.settings == before
    assert lab.reset().settings[f"weight_{gone}"] == 1


def test_a_draw_that_a_log_has_no_weights_for_is_refused(nobodys: Path) -> None:
    short = nobodys.with_name("short.csv")
    short.write_text("".join(nobodys.read_text().splitlines(keepends=True)[:31]))
    first, other = (
        set(Scenario.from_log(short, tenants=20, seed=seed).workload().weights) for seed in (4, 7)
    )
    lab = Lab(short, tenants=20, seed=4, weights={min(first - other): 2}, policies=["FIFO"])
    assert len(lab.table)
    before = lab.settings
    lab._made["seed"].slider.value = 7
    assert f"no tenant {min(first - other)!r} in this log" in unescape(lab._status.value)
    assert lab.settings == before
    with pytest.raises(ValueError, match="no tenant"):
        lab.set(seed=7)
    assert lab.settings == before


def test_a_model_of_a_log_has_sliders_for_those_it_charts(tmp_path: Path) -> None:
    """They come small first, so that the first seven are not the largest."""
    path = tmp_path / "rising.csv"
    lines = [f"{i},t{i % 12},{10 + 40 * (i % 12)},20" for i in range(240)]
    path.write_text("\n".join(["arrived_s,tenant,input_tokens,output_tokens", *lines]) + "\n")
    lab = Lab(path, policies=["fair"])
    wanted = [f"t{i}" for i in range(5, 12)]
    assert charted(lab) == sliders(lab) == wanted[::-1]
    for users in (1, 2):
        lab.set(users=users, replications=2)
        assert len(charted(lab)) == 7
        groups = lab._session.start.workload().group_of
        assert {groups[name] for name in charted(lab)} <= set(sliders(lab))
    # Who is named does not hang on what was turned before the first picture.
    late, early = Lab(path, policies=["fair"]).set(users=1), Lab(path, policies=["fair"])
    assert charted(late)
    late.set(seed=3, load=0.5, replications=2)
    early.set(users=1, seed=3, load=0.5, replications=2)
    pd.testing.assert_frame_equal(early.table, late.table)


# -- what was turned stays -------------------------------------------------------------------------------


def test_a_burst_is_not_forgotten_while_the_log_is_a_model(nobodys: Path) -> None:
    lab = Lab(nobodys, policies=["FIFO"]).set(burst=4, quantum=700)
    before, table = lab.settings, lab.table
    lab.set(users=1)
    assert "burst" not in lab.settings
    assert lab.settings["quantum"] == 700
    lab.set(users=0)
    assert lab.settings == before
    pd.testing.assert_frame_equal(lab.table, table)
    # By hand, over another engine, and after a failure on the way.
    lab._made["users"].box.value = 1
    lab._made["engine"].value = "batching"
    with pytest.raises(ValueError, match="no setting 'nonsense'"):
        lab.set(users=0, nonsense=1)
    assert (lab.settings["users"], lab.settings["engine"]) == (1, "batching")
    lab._made["users"].box.value = 0
    assert lab.settings["burst"] == 4
    assert lab.set(users=1).set(users=0, burst=2).settings["burst"] == 2
    assert lab.set(users=1).reset().settings["burst"] == 1


def test_a_value_that_does_not_fit_elsewhere_waits_and_the_page_says_so() -> None:
    """The last of three replicas fails; on a card in two parts there is none of that number."""
    lab = Lab("replicas", replications=1).set(outage_part=2)
    assert len(lab.table)
    lab._made["engine"].value = "mps"
    assert lab.settings["outage_part"] == 1
    assert "Note: outage_part = 2 does not fit here, 1 counts." in lab._status.value
    lab._made["engine"].value = "replicas"
    assert lab.settings["outage_part"] == 2
    assert "does not fit" not in lab._status.value
    lab.set(engine="mps", outage_part=0)
    assert "does not fit" not in lab._status.value
    assert lab.set(engine="replicas").settings["outage_part"] == 0


# -- a saved view with a bad setting ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"slots": 0}, "slots must be from 1 to 4096, got 0"),
        ({"slots": "many"}, "slots must be a number, got 'many'"),
        ({"quantom": 3}, "no setting 'quantom'; there are: policies, "),
        ({"self": 3}, "no setting 'self'; there are: policies, "),
        ({"policies": 3}, "policies must be a list of names, got 3"),
        ({"policies": [["fifo"]]}, "policies: no ['fifo']; choose from "),
        ({"engine": ["slots"]}, "engine must be one of slots, "),
        ({"engine": None}, "engine must be one of slots, "),
        ({"chart": "pie"}, "chart must be one of bars, "),
        ({"measure": ["wait"]}, "measure must be one of "),
        ({"users": 2}, "no setting 'users'; there are: policies, "),
    ],
)
def test_a_bad_setting_of_a_view_is_named_with_its_file(tmp_path: Path, settings: dict, words: str) -> None:
    lab = Lab("published_burst", replications=1)
    path = lab.save(tmp_path / "view", formats=["json"])[0]
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"settings": data["settings"] | settings}))
    with pytest.raises(LabFileError) as caught:
        Lab.from_json(path)
    assert str(caught.value).startswith(f"{path}: settings: {words}")


def test_a_view_with_a_bad_setting_is_told_on_the_page_and_changes_nothing(tmp_path: Path) -> None:
    lab = Lab("published_burst", replications=1)
    data = json.loads(lab.save(tmp_path / "view", formats=["json"])[0].read_text())
    other = Lab("noisy_burst", replications=1, policies=["FIFO"])
    before, picture = other.settings, other.chart.to_bytes("png")
    other._finder.target.value = "chat p99 ttft < 3 s"
    file = {
        "name": "view.json",
        "type": "",
        "size": 1,
        "content": memoryview(json.dumps(data | {"settings": {"slots": 0}}).encode()),
        "last_modified": pd.Timestamp("2026-01-01", tz="UTC"),
    }
    other._upload.set_trait("value", (file,))
    assert "Error: view.json: settings: slots must be from 1 to 4096, got 0" in other._status.value
    assert other.settings == before
    assert other.scenario == Scenario.load("noisy_burst")
    assert other._finder.target.value == "chat p99 ttft < 3 s"
    assert other.chart.to_bytes("png") == picture


# -- before → after --------------------------------------------------------------------------------------


def said(lab: Lab) -> str:
    return " ".join(text.get_text() for text in lab.chart.texts)


def test_one_policy_is_not_compared_with_itself() -> None:
    lab = Lab("noisy_burst", replications=1, chart="before_after", policies=["fair"])
    assert "fair alone is ticked: nothing to compare it with Tick a second policy" in said(lab)
    assert lab.chart.alt.startswith("fair alone is ticked")
    assert "fair → fair" not in said(lab)
    assert set(lab.table["policy"]) == {"fair"}
    lab.set(policies=["FIFO", "fair"])
    assert "Hollow: FIFO. Full: fair." in said(lab)
    lab.set(before="fair")
    assert "Before and after are both fair: nothing to compare" in said(lab)


def test_a_policy_that_stands_in_is_not_the_one_it_is_compared_with() -> None:
    lab = Lab("noisy_burst", replications=1, chart="before_after")
    first, second, *_ = [p for p in lab.settings["policies"] if p not in ("FIFO", "fair")]
    lab.set(before=second, after="fair", policies=[first, second])
    assert f"Hollow: {second}. Full: {first}." in said(lab)
    lab.set(before="FIFO", after=first)
    assert f"Hollow: {second}. Full: {first}." in said(lab)
