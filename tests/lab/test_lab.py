"""The lab without a browser: knobs are turned by ``.value``, numbers are compared with plain simulations."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from loops import Loop
from matplotlib.text import Text
from pages import rows_of

from fairq.data import data_path
from fairq.lab import Lab, summary
from fairq.lab.charts import charts_for
from fairq.lab.export import LabFileError, links_html, project_root, slug, target
from fairq.lab.lab import FORMATS
from fairq.lab.runs import Runs, plan
from fairq.lab.settings import settings_of
from fairq.plots import number
from fairq.scenario import Scenario, ScenarioError
from fairq.sim import replicate, simulate

SMALL = {
    "name": "small box",
    "seed": 3,
    "horizon_s": 60,
    "engine": {"kind": "slots", "slots": 2},
    "tenants": {
        "chat": {
            "count": 2,
            "weight": 2,
            "arrivals": {"kind": "poisson", "rate_per_s": 0.2},
            "prompt_tokens": 100,
            "output_tokens": {"kind": "lognormal", "median": 60, "sigma": 0.5},
        },
        "nightly": {
            "priority": 1,
            "arrivals": {"kind": "dump", "at_s": 10, "requests": 30},
            "prompt_tokens": 200,
            "output_tokens": 100,
        },
    },
    "policies": {
        "FIFO": {"policy": "fifo"},
        "capped": {
            "policy": "caps",
            "default": 1,
            "groups": {"batch": {"keys": ["nightly"], "limit": 1}},
            "around": {"policy": "fifo"},
        },
        "aged": {"policy": "priority", "ageing_s": 60},
        "fair": {"policy": "drr", "quantum": 200},
    },
}


def small(**more) -> Scenario:
    return Scenario.from_data(SMALL | more, "small")


@pytest.fixture
def lab() -> Lab:
    return Lab(small(), replications=3)


class Counting:
    """``simulate``, counting the runs per kind of policy."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, int]] = []

    def __call__(self, workload, policy, engine, **settings):
        self.runs.append((type(policy).__name__, settings["replication"]))
        return simulate(workload, policy, engine, **settings)

    def fresh(self) -> set[str]:
        kinds = {kind for kind, _ in self.runs}
        self.runs.clear()
        return kinds


@pytest.fixture
def counted(lab: Lab) -> tuple[Lab, Counting]:
    count = Counting()
    lab._runs._simulate = count
    assert len(lab.table) == 12
    assert len(count.runs) == 12
    count.runs.clear()
    return lab, count


def everything(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from everything(child)


def shown(lab: Lab) -> dict[tuple[str, str], float]:
    """What the p99 bars of the picture show."""
    return lab.chart.data["p99"]


# ---------------------------------------------------------------- the numbers


def test_the_table_is_what_plain_simulations_give(lab: Lab) -> None:
    scenario = small()
    for policy in scenario.policies:
        per_run = [
            simulate(
                scenario.workload(),
                scenario.policy(policy),
                scenario.engine(),
                seed=scenario.seed,
                replication=r,
            ).latency()
            for r in range(3)
        ]
        mine = lab.table[lab.table["policy"] == policy].set_index("tenant")
        for tenant in ("chat-1", "chat-2", "nightly"):
            for column in ("latency_p50", "latency_p99", "wait_p50", "wait_p99", "ttft_p99"):
                values = [table.loc[tenant, column] for table in per_run]
                assert mine.loc[tenant, column] == pytest.approx(np.mean(values), rel=1e-12)
            assert mine.loc[tenant, "n"] == sum(table.loc[tenant, "n"] for table in per_run)


def test_the_interval_is_the_t_interval_over_the_runs(lab: Lab) -> None:
    from scipy import stats

    p99 = [run.latency().loc["nightly", "latency_p99"] for run in lab.results["FIFO"]]
    low, high = stats.t.interval(0.95, 2, loc=np.mean(p99), scale=stats.sem(p99))
    row = lab.table.set_index(["policy", "tenant"]).loc[("FIFO", "nightly")]
    assert (row["latency_p99_low"], row["latency_p99_high"]) == pytest.approx((low, high))


def test_bars_picture_and_table_show_the_same_numbers(lab: Lab) -> None:
    table = lab.table.set_index(["policy", "tenant"])["latency_p99"]
    assert shown(lab) == pytest.approx(table.to_dict())
    lab.chart  # noqa: B018  (drawn)
    assert "img alt=" in lab._picture.value
    assert lab.chart.alt.replace('"', "&quot;") in lab._picture.value
    assert "<caption>The same numbers (per run, mean of 3 runs" in lab._numbers.value
    # Every row has its tenant and its policy for a head, and a cell per column.
    top, *rows = rows_of(lab._numbers.value)
    heads = [[words for scope, words in row if scope in ("rowgroup", "row")] for row in rows]
    assert [row[:2] for row in rows] == [[("rowgroup", name), ("row", policy)] for name, policy in heads]
    assert sorted(heads) == sorted([list(pair) for pair in lab.table[["tenant", "policy"]].to_numpy()])
    assert {len(row) for row in rows} == {len(top)} == {7}


def test_every_policy_meets_the_same_requests(lab: Lab) -> None:
    columns = ["replication", "id", "tenant", "arrival", "prompt_tokens", "output_tokens"]
    rows = lab.result
    per_policy = [
        rows.loc[rows["policy"] == policy, columns].astype(str).reset_index(drop=True)
        for policy in rows["policy"].unique()
    ]
    assert len(per_policy) == 4
    for other in per_policy[1:]:
        pd.testing.assert_frame_equal(per_policy[0], other)


def test_by_group_counts_the_rows_of_the_group_together(lab: Lab) -> None:
    lab.set(by="group", policies=["FIFO"])
    assert lab.table["tenant"].tolist() == ["chat", "nightly"]
    p99 = []
    for run in lab.results["FIFO"]:
        rows = run.requests
        chat = rows.loc[(rows["group"] == "chat") & (rows["status"] == "finished"), "latency"]
        p99.append(np.percentile(chat.astype(float), 99))
    assert lab.table["latency_p99"].iloc[0] == pytest.approx(np.mean(p99))


# ---------------------------------------------------------------- only what is new


@pytest.mark.parametrize(
    ("turned", "again"),
    [
        ({"quantum": 500}, {"DRR"}),
        ({"weight_chat": 5}, {"DRR"}),
        ({"ageing": 10}, {"Priority"}),
        ({"cap": 2}, {"KeyCaps"}),
        ({"cap_batch": 2}, {"KeyCaps"}),
        ({"slots": 3}, {"FIFO", "KeyCaps", "Priority", "DRR"}),
        ({"load": 1.5}, {"FIFO", "KeyCaps", "Priority", "DRR"}),
        ({"burst": 0.5}, {"FIFO", "KeyCaps", "Priority", "DRR"}),
        ({"seed": 4}, {"FIFO", "KeyCaps", "Priority", "DRR"}),
        ({"chart": "slots"}, set()),
        ({"measure": "wait"}, set()),
        ({"by": "group"}, set()),
        ({"policies": ["FIFO", "fair"]}, set()),
    ],
)
def test_only_what_a_knob_can_change_is_simulated_again(counted, turned, again) -> None:
    lab, count = counted
    lab.set(**turned)
    assert lab.table is not None
    assert count.fresh() == again


def test_where_nothing_is_drawn_one_run_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, count = Lab("published_burst"), Counting()
    lab._runs._simulate = count
    table = lab.table.set_index(["policy", "tenant"])
    assert len(count.runs) == 4
    # The published figure, with an interval of no width: ten runs of it would be the same.
    row = table.loc[("fifo", "small-1")]
    assert (row["runs"], row["latency_p50_low"]) == (10, pytest.approx(row["latency_p50"]))


def test_more_runs_keep_the_first_ones(counted) -> None:
    lab, count = counted
    lab.set(replications=5)
    assert lab.table["runs"].tolist() == [5] * 12
    assert sorted({r for _, r in count.runs}) == [3, 4]


def test_going_back_simulates_nothing(counted) -> None:
    lab, count = counted
    before = lab.table
    lab.set(quantum=500, slots=3)
    assert count.fresh()
    lab.reset()
    pd.testing.assert_frame_equal(lab.table, before)
    assert count.fresh() == set()


def test_a_slider_moved_by_hand_redraws_the_picture(counted) -> None:
    lab, count = counted
    before = lab._picture.value
    lab._made["slots"].slider.value = 4
    assert count.fresh()
    assert lab._picture.value != before
    assert lab.settings["slots"] == 4
    assert lab.scenario.data()["engine"]["slots"] == 4


class Resting:
    """A kernel's main loop on which the sliders rest: the steps that follow a picture, one at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = Loop()
        monkeypatch.setattr("fairq.lab.lab.main_loop", lambda: self.loop)
        monkeypatch.setattr("fairq.lab.lab._later", lambda delay, *call: self.loop.calls.put(call))

    def step(self) -> None:
        self.loop.step()

    def rest(self) -> None:
        while not self.loop.calls.empty():
            self.step()


def counts(lab: Lab) -> tuple[int, ...]:
    """What the status line says: runs, policies, new ones, ones from memory."""
    words = re.sub("<[^>]*>", "", lab._status.value).replace("One run", "1 run")
    found = re.match(r"(\d+) runs? of (\d+) polic.*: (\d+) new in [\d,]+ ms, (\d+) from memory; drawn", words)
    assert found, words
    return tuple(int(n) for n in found.groups())


@pytest.mark.parametrize(
    ("turned", "new"),
    [
        ({"quantum": 500}, 1),
        ({"weight_chat": 5}, 1),
        ({"ageing": 10}, 1),
        ({"slots": 3}, 4),
        ({"by": "group"}, 0),
    ],
)
def test_the_status_line_counts_the_runs_that_were_made(counted, turned, new) -> None:
    lab, count = counted
    lab.set(**turned)
    assert counts(lab) == (3, 4, len(count.runs), 12 - len(count.runs))
    assert len(count.runs) == 3 * new


@pytest.mark.parametrize(
    ("knob", "value", "new"), [("quantum", 500, 1), ("weight_chat", 5, 1), ("slots", 3, 4)]
)
def test_the_status_line_counts_those_that_follow_when_a_slider_rests(
    monkeypatch: pytest.MonkeyPatch, knob: str, value: float, new: int
) -> None:
    lab, count = Lab(small(), replications=10), Counting()
    assert len(lab.table) == 12
    lab._runs._simulate = count
    page = Resting(monkeypatch)
    lab._made[knob].slider.value = value
    assert counts(lab) == (3, 4, 3 * new, 3 * (4 - new))
    assert "More runs follow" in lab._status.value
    page.rest()
    assert len(count.runs) == 10 * new
    assert counts(lab) == (10, 4, 10 * new, 10 * (4 - new))


def test_runs_that_were_there_before_a_policy_was_ticked_count_as_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab(small(), policies=["FIFO"], replications=6)
    assert len(lab.table) == 3
    page = Resting(monkeypatch)
    lab._made["policies"].value = ("FIFO", "fair")
    assert counts(lab) == (3, 2, 3, 3)
    page.rest()
    assert counts(lab) == (6, 2, 6, 6)


def test_only_the_visible_chart_is_drawn(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from fairq import plots

    drawn = []
    for name in ("latency_bars", "before_after", "latency_ecdf", "queue_depth", "slot_gantt"):
        real = getattr(plots, name)
        monkeypatch.setattr(plots, name, lambda *a, _f=real, _n=name, **k: (drawn.append(_n), _f(*a, **k))[1])
    for spec in charts_for(lab.scenario):
        lab.set(chart=spec.name)
        lab.chart  # noqa: B018  (drawn)
    assert drawn == ["latency_bars", "before_after", "latency_ecdf", "queue_depth", "slot_gantt"]


def test_the_memory_of_runs_is_bounded() -> None:
    scenario = small()
    runs = Runs(keep_rows=150)
    parts = plan(scenario)
    for r in range(6):
        runs.run(parts, "FIFO", r)
    assert not runs.has(parts, "FIFO", 0)
    assert runs.has(parts, "FIFO", 5)
    again = runs.run(parts, "FIFO", 0)
    fresh = simulate(scenario.workload(), scenario.policy("FIFO"), scenario.engine(), seed=3, replication=0)
    pd.testing.assert_frame_equal(again.requests, fresh.requests)


def test_new_weights_reach_the_policy_though_the_requests_are_kept(lab: Lab) -> None:
    lab.set(policies=["fair"], weight={"chat": 1, "nightly": 8})
    scenario = small().with_({"tenants.chat.weight": 1, "tenants.nightly.weight": 8})
    fresh = replicate(
        scenario.workload(), lambda: scenario.policy("fair"), scenario.engine, seed=3, replications=3
    )
    pd.testing.assert_frame_equal(lab.table, summary({"fair": fresh}))
    assert lab.results["fair"][0].weights == {"chat-1": 1, "chat-2": 1, "nightly": 8}


# ---------------------------------------------------------------- the knobs


def test_the_knobs_are_those_of_the_scenario(lab: Lab) -> None:
    names = [s.name for s in settings_of(small())]
    assert names == [
        *("load", "burst", "seed", "weight_chat", "weight_nightly"),
        *("quantum", "ageing", "cap", "cap_batch", "slots"),
    ]
    assert lab.settings["weight_chat"] == 2
    assert lab.settings["quantum"] == 200
    plain = small(policies={"FIFO": {"policy": "fifo"}})
    assert {s.name for s in settings_of(plain)} == {"load", "burst", "seed", "slots"}


def test_an_untouched_lab_runs_the_scenario_as_written(lab: Lab) -> None:
    assert lab.scenario == small()


@pytest.mark.parametrize(
    ("name", "value", "where"),
    [
        ("quantum", 77, ("policies", "fair", "quantum")),
        ("ageing", 5.0, ("policies", "aged", "ageing_s")),
        ("cap", 3, ("policies", "capped", "default")),
        ("cap_batch", 2, ("policies", "capped", "groups", "batch", "limit")),
        ("weight_nightly", 4.0, ("tenants", "nightly", "weight")),
        ("seed", 9, ("seed",)),
    ],
)
def test_a_knob_changes_its_place_in_the_scenario_and_no_other(lab: Lab, name, value, where) -> None:
    lab.set(**{name: value})
    expected = json.loads(json.dumps(SMALL))
    at = expected
    for part in where[:-1]:
        at = at[part]
    at[where[-1]] = value
    assert lab.scenario == Scenario.from_data(expected)


def test_a_knob_reaches_a_policy_inside_a_cap() -> None:
    inside = {"policy": "caps", "default": 2, "around": {"policy": "drr", "quantum": 50}}
    lab = Lab(small(policies={"x.y": inside}), replications=1)
    lab.set(quantum=60)
    assert lab.scenario.data()["policies"]["x.y"]["around"]["quantum"] == 60


def test_a_wrong_setting_is_refused_and_changes_nothing(lab: Lab) -> None:
    before = lab.settings
    for wrong, words in [
        ({"quantom": 3}, "no setting 'quantom'; there are: policies, "),
        ({"quantum": 900, "slots": 0}, "slots must be from 1"),
        ({"chart": "pie"}, "chart must be one of bars, "),
        ({"policies": ["none"]}, "policies: no 'none'; choose from FIFO, "),
        ({"weight": {"nobody": 2}}, "no setting 'weight_nobody'"),
    ]:
        with pytest.raises(ValueError, match=re.escape(words)):
            lab.set(**wrong)
        assert lab.settings == before


def test_controls_may_be_limited_and_hidden_ones_still_work() -> None:
    lab = Lab(small(), replications=2, controls=("quantum", "weight"))
    labels = {getattr(w, "description", "") for w in everything(lab.widget)}
    assert {"Quantum (tokens)", "Weight: chat", "Weight: nightly"} <= labels
    assert not {"Slots", "Seed", "Load ×"} & labels
    assert lab.set(slots=5).scenario.data()["engine"]["slots"] == 5


def test_every_widget_has_a_tooltip_and_every_input_a_label(lab: Lab) -> None:
    seen = []

    def walk(widget) -> None:
        seen.append(widget)
        assert getattr(widget, "tooltip", "") is not None, widget
        for child in getattr(widget, "children", ()):
            walk(child)

    walk(lab.widget)
    for widget in seen:
        kind = type(widget).__name__
        if kind in ("BoundedIntText", "BoundedFloatText", "Dropdown", "Checkbox", "Button", "FileUpload"):
            assert widget.description, kind
            assert widget.tooltip, kind
        if kind.endswith("Slider"):
            assert widget.tooltip
            assert widget.continuous_update is False
    assert len([w for w in seen if type(w).__name__.endswith("Slider")]) >= 10


def test_reset_brings_every_knob_back(lab: Lab) -> None:
    before = lab.settings
    lab.set(quantum=999, slots=7, chart="queue", policies=["FIFO"], measure="wait", replications=2)
    assert lab.settings != before
    lab._left.children[-1].click()
    assert lab.settings == before


def test_the_last_tick_stays_and_the_status_says_why(lab: Lab) -> None:
    lab.set(policies=["DRR" if "DRR" in lab.settings["policies"] else lab.settings["policies"][0]])
    (last,) = lab.settings["policies"]
    lab._control("policies").boxes[last].value = False
    assert lab.settings["policies"] == [last]
    assert f"{last} stays: it is the last policy ticked" in lab._status.value


def test_a_policy_that_is_unticked_leaves_the_comparison(lab: Lab) -> None:
    lab.set(chart="before_after", before="FIFO", after="fair")
    assert lab.chart.data["p99"]["nightly"] == pytest.approx(
        tuple(
            lab.table.set_index(["policy", "tenant"]).loc[
                [("FIFO", "nightly"), ("fair", "nightly")], "latency_p99"
            ]
        )
    )
    lab.set(policies=["capped", "aged"])
    assert "capped → aged" in lab.chart.texts[0].get_text()


def test_differences_are_taken_run_by_run(lab: Lab) -> None:
    from scipy import stats

    view = lab._session.view(lab._plan(), lab._policies, 3, lab.settings)
    mean, low, high = view.differences("latency", "FIFO", "fair")["nightly"]["p99"]
    before, after = (
        np.array([run.latency().loc["nightly", "latency_p99"] for run in lab.results[name]])
        for name in ("FIFO", "fair")
    )
    expected = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert mean == pytest.approx((after - before).mean())
    assert (low, high) == pytest.approx((expected.low, expected.high))


def test_the_time_shown_is_in_seconds_also_where_the_axis_is_in_minutes() -> None:
    lab = Lab(small(horizon_s=1200), replications=1)
    lab.set(chart="queue")
    assert "time (min)" in {axes.get_xlabel() for axes in lab.chart.axes}
    _, minutes = lab.chart.axes[0].get_xlim()
    assert minutes > 19
    assert lab._shown_time.value == f"shown: 0 to {number(60 * minutes)} s (automatic)"
    lab.set(time_to=60 * minutes)
    assert lab.chart.axes[0].get_xlim() == pytest.approx((0, minutes)), "typed in, it shows the same"


def test_the_time_window_reaches_the_chart(lab: Lab) -> None:
    for chart in ("queue", "slots"):
        lab.set(chart=chart)
        low, high = lab.chart.axes[0].get_xlim()
        assert low == 0
        assert high > 0
        assert lab._shown_time.value == f"shown: 0 to {number(high)} s (automatic)"
    lab.set(chart="slots", time_from=10, time_to=30)
    assert lab.chart.axes[0].get_xlim() == (10, 30)
    assert lab._shown_time.value == "shown: 10.0 to 30.0 s"
    assert lab.chart.axes[0].get_xlim() == (10, 30)


# ---------------------------------------------------------------- errors on the page


def test_an_error_in_a_callback_is_shown_and_the_lab_lives_on(lab: Lab) -> None:
    lab.chart  # noqa: B018  (drawn)

    def broken(*a, **k):
        raise RuntimeError("engine on fire")

    real, lab._runs._simulate = lab._runs._simulate, broken
    lab._made["slots"].slider.value = 5
    assert "engine on fire" in lab._status.value
    assert 'role="status"' in lab._status.value
    lab._runs._simulate = real
    lab._made["slots"].slider.value = 6
    assert "engine on fire" not in lab._status.value
    lab._runs._simulate = broken
    with pytest.raises(RuntimeError, match="on fire"):
        lab.set(slots=9)


def test_a_page_shows_progress_while_it_runs(lab: Lab) -> None:
    parts = []
    lab._bar.observe(lambda change: parts.append(change["new"]), "value")
    lab._progress(0.25)
    assert lab._bar.layout.visibility == "visible"
    lab._progress(None)
    assert lab._bar.layout.visibility == "hidden"
    heard = []
    parts_of = lab._session.plan(lab.settings)
    lab._session.simulate(parts_of, ("FIFO", "fair"), 2, heard.append)
    assert heard == sorted(heard)
    assert heard[0] == 0.0
    assert 0.9 < heard[-1] <= 1.0


def bar_of(lab: Lab) -> list[tuple[float, str]]:
    """What the bar shows from now on: its part, and whether it is seen."""
    seen: list[tuple[float, str]] = []
    lab._bar.observe(lambda change: seen.append((change["new"], lab._bar.layout.visibility)), "value")
    return seen


def test_the_bar_moves_during_runs_that_take_their_time(lab: Lab) -> None:
    lab.set(policies=["FIFO", "fair"])
    real, seen = lab._runs._simulate, bar_of(lab)

    def slow(*arguments, **settings):
        time.sleep(0.11)  # a bar that is shown for less would only flicker
        return real(*arguments, **{**settings, "progress": None})

    lab._runs._simulate = slow
    assert len(lab.table) == 6
    assert seen == [*((pytest.approx(run / 6), "visible") for run in range(1, 6)), (0.0, "hidden")]
    seen.clear()
    lab._runs._simulate = real
    lab.set(slots=3)
    assert seen == [], "six short runs are over within a tenth of a second"


def test_the_bar_moves_with_each_run_that_follows_when_a_slider_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab(small(), replications=6)
    assert len(lab.table) == 12
    page = Resting(monkeypatch)
    lab._made["quantum"].slider.value = 500
    seen = bar_of(lab)
    page.rest()
    # Three of the 24 runs still to be made, then two, then one.
    assert seen == [*((pytest.approx(made / 24), "visible") for made in (21, 22, 23)), (0.0, "hidden")]


# ---------------------------------------------------------------- logs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "requests.csv"
    at = np.cumsum(rng.exponential(0.5, 900))
    tenants = rng.choice(["big", *[f"t{i}" for i in range(11)]], 900, p=[0.45, *[0.05] * 11])
    lines = ["arrived_s,tenant,input_tokens,output_tokens"]
    lines += [
        f"{t:.3f},{n},{rng.integers(10, 500)},{rng.integers(5, 200)}"
        for t, n in zip(at, tenants, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_log_is_replayed_once_hatched_and_without_an_interval(log: Path) -> None:
    lab = Lab(log)
    table = lab.table
    assert set(table["runs"]) == {1}
    assert table["latency_p99_low"].isna().all()
    assert "replications" not in lab.settings
    assert {p.get_hatch() for p in lab.chart.axes[0].patches if p.get_gid()} == {"////"}
    with pytest.raises(ValueError, match="replications must be 1 for the replay of a log, got 5"):
        Lab(log, replications=5)


def test_the_p99_of_a_complete_replay_is_a_fact_however_few_requests_stand_behind_it(log: Path) -> None:
    lab = Lab(log)
    assert (lab.table["n"] < 368).any()
    rows = lab.result
    for row in lab.table.to_dict("records"):
        mine = rows[(rows["policy"] == row["policy"]) & (rows["tenant"] == row["tenant"])]
        if row["tenant"] != "others":
            assert row["latency_p99"] == pytest.approx(np.percentile(mine["latency"], 99))
    words = [text.get_text() for text in [*lab.chart.texts, *lab.chart.axes[1].findobj(Text)]]
    assert "p99 of this run" in words
    assert not any("too few" in text or "says nothing" in text for text in words)
    assert any(f"n={row['n']}" in text for text in words)


def test_one_run_of_a_model_with_few_requests_has_no_p99() -> None:
    scenario = small()
    runs = replicate(
        scenario.workload(), lambda: scenario.policy("fair"), scenario.engine, seed=3, replications=1
    )
    assert summary({"fair": runs})["latency_p99"].isna().all()
    assert summary({"fair": runs}, replay=True)["latency_p99"].notna().all()


def test_many_tenants_of_a_log_become_others(log: Path) -> None:
    lab = Lab(log)
    names = list(dict.fromkeys(lab.table["tenant"]))
    assert len(names) == 8
    assert names[-1] == "others"
    assert lab.table.groupby("policy")["n"].sum().tolist() == [900, 900, 900]
    # Who is named does not depend on what is turned: colours stay.
    lab.set(load=2.0)
    assert list(dict.fromkeys(lab.table["tenant"])) == names


def test_load_makes_a_log_denser(log: Path) -> None:
    lab = Lab(log, policies=["FIFO"])
    span = lab.result["arrival"].max()
    lab.set(load=2.0)
    assert lab.result["arrival"].max() == pytest.approx(span / 2)


@pytest.fixture
def levels(tmp_path: Path) -> Path:
    """Nightly jobs at level 1, two of them for each question at level 0, each with a key of its own."""
    path = tmp_path / "levels.csv"
    lines = ["arrived_s,tenant,key,level,input_tokens,output_tokens"]
    for i in range(60):
        who = "chat" if i % 3 == 0 else "nightly"
        lines.append(f"{i / 4},{who},{who}-key,{int(who == 'nightly')},100,80")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_priorities_of_a_log_count_under_one_of_its_policies(levels: Path) -> None:
    box = {"kind": "slots", "slots": 2}
    lab = Lab(levels, priority="level", key="key", engine=box)
    assert list(lab.scenario.policies) == ["FIFO", "capped", "aged", "fair"]
    assert lab.settings["ageing"] == 600
    waits = lab.table.set_index(["policy", "tenant"])["wait_p50"]
    assert waits["aged", "chat"] < 0.5 * waits["FIFO", "chat"]
    # Ageing 0 is FIFO; the knob reaches the policy.
    lab.set(ageing=0)
    waits = lab.table.set_index(["policy", "tenant"])["wait_p50"]
    assert waits["aged", "chat"] == waits["FIFO", "chat"]
    # Without priorities, or with one for all, such a policy would be FIFO again.
    for columns in ({}, {"priority": "input_tokens"}):
        flat = Lab(levels, engine=box, **columns)
        assert list(flat.scenario.policies) == ["FIFO", "capped", "fair"]
        assert "ageing" not in flat.settings


def test_the_bursts_of_a_log_grow_as_under_the_command(levels: Path) -> None:
    lab = Lab(levels, policies=["FIFO"])
    lab._made["burst"].box.value = 4
    arrivals = lab.result.set_index("id")["arrival"]
    again = Scenario.from_log(levels).with_(burst=4).workload().requests()
    assert arrivals.tolist() == [request.arrival for request in again]
    # By hand: the first four of nightly asked at 0.25, 0.5, 1 and 1.25 s, those of chat every 0.75 s.
    rows = lab.result
    assert rows.loc[rows["tenant"] == "nightly", "arrival"].tolist()[:5] == [0.25] * 4 + [1.75]
    assert rows.loc[rows["tenant"] == "chat", "arrival"].tolist()[:5] == [0] * 4 + [3]
    with pytest.raises(ValueError, match=r"burst must be from 1 to 1000, got 0\.5"):
        lab.set(burst=0.5)


def test_who_sent_what_in_a_log_is_drawn_again_with_another_seed(levels: Path) -> None:
    lab = Lab(levels, tenants=5, zipf=1, seed=2, policies=["FIFO"])
    assert lab.settings["seed"] == 2
    assert lab._session.note(lab._plan()) == "Replay of levels, tenants drawn with seed 2."
    lab.set(seed=7)
    assert lab._session.note(lab._plan()) == "Replay of levels, tenants drawn with seed 7."
    drawn = Scenario.from_log(levels, tenants=5, zipf=1, seed=7).workload().requests()
    assert lab.result["tenant"].tolist() == [request.tenant for request in drawn]
    assert lab.result["tenant"].tolist() != lab.reset().result["tenant"].tolist()
    assert "seed" not in Lab(levels).settings, "nothing is drawn there"


def test_the_weights_on_the_page_are_those_of_the_tenants_on_the_chart(log: Path) -> None:
    lab = Lab(log, policies=["fair"])
    named = set(lab.table["tenant"]) - {"others"}
    sliders = {
        name for name, made in lab._made.items() if name.startswith("weight_") and made.row is not None
    }
    assert sliders == {f"weight_{tenant}" for tenant in named}
    # Those counted as others are weighted from code, or are asked for.
    assert len([name for name in lab.settings if name.startswith("weight_")]) == 12
    other = next(f"t{i}" for i in range(11) if f"t{i}" not in named)
    lab.set(weight={other: 4})
    assert lab.results["fair"][0].weights == {"big": 1} | {f"t{i}": 1 for i in range(11)} | {other: 4}
    with pytest.raises(ValueError, match=f"weight_{other} must be from 0.01 to 1000, got 0"):
        lab.set(weight={other: 0})
    with pytest.raises(ValueError, match="no setting 'weight_nobody'"):
        lab.set(weight_nobody=2)
    assert lab.reset().settings[f"weight_{other}"] == 1
    asked = Lab(log, controls=[f"weight_{other}"])
    asked._made[f"weight_{other}"].slider.value = 2
    assert asked.scenario.log.weights == {other: 2}


def test_a_tenant_that_would_be_left_over_alone_has_a_name_and_a_slider(tmp_path: Path) -> None:
    for many, sliders in ((8, 8), (9, 7)):
        path = tmp_path / f"{many}.csv"
        rows = [f"{i},t{i % many},10,10" for i in range(3 * many)]
        path.write_text("\n".join(["arrived_s,tenant,input_tokens,output_tokens", *rows]) + "\n")
        lab = Lab(path, policies=["fair"])
        named = set(lab.table["tenant"]) - {"others"}
        assert len(named) == sliders
        shown = [n for n, made in lab._made.items() if n.startswith("weight_") and made.row is not None]
        assert {f"weight_{tenant}" for tenant in named} == set(shown)


def test_a_broken_log_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("arrived_s,tenant,input_tokens,output_tokens\n0,a,1,1\n1,a,x,1\n")
    with pytest.raises(ValueError, match=r"bad\.csv:3: "):
        Lab(path)


def test_the_shipped_log_and_scenarios_are_presets() -> None:
    lab = Lab(small(), replications=2)
    options = lab._preset.menu.options
    assert options[0] == "small box"
    assert {"noisy_burst", "published_burst"} <= set(options)
    assert any(option.startswith("log: ") for option in options)


def test_choosing_a_preset_shows_that_scenario() -> None:
    lab = Lab(small(), replications=2)
    lab.chart  # noqa: B018  (drawn)
    lab._preset.menu.value = "published_burst"
    assert lab.scenario == Scenario.load("published_burst")
    assert "p99" in lab._picture.value
    assert "Weight: noisy" in {getattr(w, "description", "") for w in everything(lab._left)}
    lab._preset.menu.value = "small box"
    assert lab.scenario == small()


# ---------------------------------------------------------------- taking it away


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "notebooks" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "notebooks" / "deep")
    return tmp_path


def test_save_writes_everything_under_the_projects_root(lab: Lab, project: Path) -> None:
    paths = lab.save("burst")
    folder = project / "figures" / "exports"
    names = ["burst.png", "burst.svg", "burst.pdf", "burst_table.csv", "burst_rows.csv", "burst.json"]
    assert paths == [folder / name for name in names]
    assert [p.name for p in sorted(folder.iterdir())] == sorted(names)
    assert paths[0].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert b"<svg" in paths[1].read_bytes()
    assert paths[2].read_bytes()[:5] == b"%PDF-"
    with paths[3].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    for row, (_, mine) in zip(rows, lab.table.iterrows(), strict=True):
        assert (row["policy"], row["tenant"]) == (mine["policy"], mine["tenant"])
        assert float(row["latency_p99"]) == pytest.approx(mine["latency_p99"], rel=1e-12)
    assert len(pd.read_csv(paths[4])) == len(lab.result)


def test_saved_files_have_the_same_bytes_twice(project: Path) -> None:
    first = [p.read_bytes() for p in Lab(small(), replications=2).save("a")]
    second = [p.read_bytes() for p in Lab(small(), replications=2).save("b")]
    assert first == second


def test_a_path_is_taken_as_it_is_and_an_unknown_format_refused(lab: Lab, project: Path) -> None:
    (path,) = lab.save(project / "out" / "chart.png", formats=["png"])
    assert path == project / "out" / "chart.png"
    with pytest.raises(ValueError, match=r"formats must be some of png, svg, pdf, csv, json, got \['gif'\]"):
        lab.save("x", formats=["gif"])


def test_the_json_loads_back_into_the_same_view(lab: Lab, project: Path) -> None:
    lab.set(
        quantum=333,
        weight_chat=3,
        slots=3,
        chart="queue",
        policies=["FIFO", "fair"],
        load=1.2,
        measure="wait",
    )
    path = lab.save("view", formats=["json"])[0]
    data = json.loads(path.read_text())
    assert data["seed"] == 3
    assert set(data["versions"]) >= {"fairq", "python", "numpy", "pandas", "matplotlib", "simpy"}
    back = Lab.from_json(path)
    assert back.settings == lab.settings
    assert back.scenario == lab.scenario
    pd.testing.assert_frame_equal(back.table, lab.table)
    assert back.chart.to_bytes("png") == lab.chart.to_bytes("png")


def test_a_seed_changed_where_it_is_not_read_is_named(lab: Lab, project: Path) -> None:
    path = lab.save("view", formats=["json"])[0]
    data = json.loads(path.read_text())
    assert Lab.from_json(path)._warnings == []
    path.write_text(json.dumps({**data, "seed": 99}))
    [warning] = Lab.from_json(path)._warnings
    assert warning == f"seed = 99 at the top is not read: settings.seed = {data['settings']['seed']} counts"


def test_the_json_of_a_log_finds_the_log_and_notices_a_change(log: Path, project: Path) -> None:
    lab = Lab(log)
    lab.set(quantum=700)
    path = lab.save("view", formats=["json"])[0]
    assert str(project) not in json.loads(path.read_text())["scenario"]["log"]["file"]
    back = Lab.from_json(path)
    pd.testing.assert_frame_equal(back.table, lab.table)
    assert back._warnings == []
    log.write_text(log.read_text() + "9999,big,5,5\n")
    assert "has changed since this view was saved" in Lab.from_json(path)._warnings[0]
    log.unlink()
    with pytest.raises(LabFileError, match=r"view\.json: scenario\.log\.file: cannot be read"):
        Lab.from_json(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "not a saved view"),
        ('{"format": "fairq lab", "format_version": 2}', "format_version must be 1, got 2"),
        ('{"format": "fairq lab", "format_version": 1, "scenario": 3}', "scenario must be a mapping, got 3"),
    ],
)
def test_a_file_that_is_no_view_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "view.json"
    path.write_text(text)
    with pytest.raises(LabFileError, match=re.escape(words)):
        Lab.from_json(path)


def test_a_view_with_a_bad_scenario_names_the_field(lab: Lab, project: Path) -> None:
    path = lab.save("view", formats=["json"])[0]
    data = json.loads(path.read_text())
    data["scenario"]["engine"]["slots"] = 0
    path.write_text(json.dumps(data))
    with pytest.raises(ScenarioError, match=r"engine\.slots"):
        Lab.from_json(path)


def test_uploading_a_saved_view_opens_it(lab: Lab, project: Path) -> None:
    lab.set(quantum=321, chart="ecdf")
    content = lab.save("view", formats=["json"])[0].read_bytes()
    other = Lab("published_burst", replications=1)
    other.chart  # noqa: B018  (drawn)
    upload = {
        "name": "view.json",
        "type": "application/json",
        "size": len(content),
        "content": memoryview(content),
    }
    other._upload.set_trait("value", ({**upload, "last_modified": pd.Timestamp("2026-01-01", tz="UTC")},))
    assert other.settings == lab.settings
    assert other.scenario == lab.scenario
    assert other._upload.value == ()


def test_uploading_nonsense_is_told_and_changes_nothing(lab: Lab) -> None:
    lab.chart  # noqa: B018  (drawn)
    before = lab.settings
    upload = {"name": "cat.json", "type": "", "size": 3, "content": memoryview(b"cat")}
    lab._upload.set_trait("value", ({**upload, "last_modified": pd.Timestamp("2026-01-01", tz="UTC")},))
    assert "cat.json: not JSON" in lab._status.value
    assert lab.settings == before


def test_export_buttons_write_files_and_offer_links(lab: Lab, project: Path) -> None:
    buttons = {}

    def walk(widget) -> None:
        if type(widget).__name__ == "Button":
            buttons[widget.description] = widget
        for child in getattr(widget, "children", ()):
            walk(child)

    walk(lab.widget)
    finding = {"Find a setting", "Stop"}
    assert {"PNG", "SVG", "PDF", "CSV", "JSON", "All files", "Show code", "Reset"} == set(buttons) - finding
    buttons["SVG"].click()
    path = project / "figures" / "exports" / "small-box_bars.svg"
    assert path.read_bytes() == lab.chart.to_bytes("svg")
    assert 'download="small-box_bars.svg" href="data:image/svg+xml;base64,' in lab._links.value
    assert "figures/exports/small-box_bars.svg" in lab._links.value
    buttons["All files"].click()
    assert lab._links.value.count("<li>") == 6
    assert "Wrote 6 files" in lab._status.value


def test_a_number_typed_just_before_the_click_is_in_the_file(
    lab: Lab, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop()
    with monkeypatch.context() as kernel:
        kernel.setattr("fairq.lab.lab.main_loop", lambda: loop)
        lab._export(["json"])  # the click comes first …
    lab.set(slots=3)  # … the number second, by another thread
    while not loop.calls.empty():
        loop.step()
    saved = json.loads((project / "figures" / "exports" / "small-box_bars.json").read_text())
    assert saved["settings"]["slots"] == 3


def linked(words: str) -> dict[str, bytes]:
    """What the links download, by the name that the file then has."""
    return {
        name: base64.b64decode(data)
        for name, data in re.findall(r'download="([^"]*)" href="data:[^;]*;base64,([^"]*)"', words)
    }


def test_every_link_of_the_default_scenario_downloads_the_file_that_was_written(project: Path) -> None:
    lab = Lab()
    lab._export(FORMATS)
    exports = project / "figures" / "exports"
    written = {path.name: path.read_bytes() for path in exports.iterdir()}
    found = linked(lab._links.value)
    # Ten runs of four policies are too many rows for a page, but not zipped.
    rows = "noisy-burst_bars_rows.csv"
    assert len(written[rows]) > 5_000_000
    with zipfile.ZipFile(io.BytesIO(found.pop(f"{rows}.zip"))) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {rows: written.pop(rows)}
    assert found == written
    assert len(lab._links.value) < 4_000_000


def test_a_large_file_is_zipped_and_one_that_stays_large_gets_no_link() -> None:
    assert list(linked(links_html({Path("/x/rows.csv"): b"1" * 1_000_000}))) == ["rows.csv"]
    words = links_html({Path("/x/rows.csv"): b"1" * 1_000_001})
    assert "(1,000 kB, zipped 1 kB), saved as <code>/x/rows.csv</code>" in words
    assert words == links_html({Path("/x/rows.csv"): b"1" * 1_000_001})
    assert list(linked(words)) == ["rows.csv.zip"]
    assert zipfile.ZipFile(io.BytesIO(linked(words)["rows.csv.zip"])).read("rows.csv") == b"1" * 1_000_001
    words = links_html({Path("/x/rows.csv"): np.random.default_rng(0).bytes(8_000_001)})
    assert "href" not in words
    assert "too large for a link" in words


def test_file_names_hold_no_paths() -> None:
    assert slug("../My box: 2/3") == "My-box-2-3"
    assert slug("…") == "chart"
    assert target("a.png").name == "a"
    assert target("v1.2").name == "v1.2"


def test_without_a_project_files_go_where_we_are(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert project_root(tmp_path / "a") == tmp_path / "a"


def test_shown_code_makes_the_same_numbers(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.set(
        quantum=333, weight_chat=3, load=1.5, burst=0.5, policies=["FIFO", "fair"], by="group", measure="wait"
    )
    space: dict = {}
    exec(lab.code(), space)
    pd.testing.assert_frame_equal(space["table"], lab.table)
    printed = capsys.readouterr().out
    assert "wait_p99" in printed
    assert "nightly" in printed


def printed_rows(text: str) -> list[list[str]]:
    """Policy, tenant and count of the rows that shown code prints."""
    rows = [line.split() for line in text.splitlines()]
    assert rows[0][:3] == ["policy", "tenant", "n"]
    return [row[:3] for row in rows[1:]]


def test_shown_code_prints_the_tenants_in_their_order_and_the_counts_of_the_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lab = Lab("noisy_burst", replications=2, policies=["FIFO", "fair"])
    space: dict = {}
    exec(lab.code(), space)
    pd.testing.assert_frame_equal(space["table"], lab.table)
    _, *page = rows_of(lab._numbers.value)
    seen = {(policy, tenant): float(n.replace(",", "")) for (_, tenant), (_, policy), (_, n), *_ in page}
    rows = printed_rows(capsys.readouterr().out)
    assert {(policy, tenant): float(n) for policy, tenant, n in rows} == seen
    tenants = list(Scenario.load("noisy_burst").workload().group_of)
    assert [row[:2] for row in rows] == [[policy, name] for policy in ("FIFO", "fair") for name in tenants]


def test_shown_code_of_a_shipped_scenario_names_it() -> None:
    lab = Lab("published_burst", replications=1)
    assert "Scenario.load('published_burst')" in lab.code()
    lab.chart  # noqa: B018  (drawn)
    lab._toggle_code()
    assert "Scenario.load(&#x27;published_burst&#x27;)" in lab._listing.value
    lab.set(quantum=2)
    assert "policies.drr.quantum&#x27;: 2" in lab._listing.value
    lab._toggle_code()
    assert lab._listing.value == ""


def test_shown_code_of_a_log_makes_the_same_numbers(log: Path) -> None:
    lab = Lab(log, policies=["FIFO", "fair"])
    lab.set(quantum=250, weight_big=2)
    space: dict = {}
    exec(lab.code(), space)
    pd.testing.assert_frame_equal(space["table"], lab.table)
    assert space["table"]["tenant"].iloc[7] == "others"


def test_the_lab_shows_itself_as_widget_and_as_picture(lab: Lab) -> None:
    bundle = lab._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"] == lab.chart.alt
    assert f'src="data:image/png;base64,{bundle["image/png"]}"' in lab._picture.value


def test_a_source_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="source must be a Scenario"):
        Lab(42)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="no such file, nor a shipped scenario"):
        Lab("nowhere")


def test_the_synthetic_log_opens() -> None:
    path = next(data_path("logs/synthetic_27_tenants.csv").parent.glob("*.csv"))
    lab = Lab(path, policies=["FIFO"])
    assert lab.table["n"].sum() == sum(1 for _ in path.open()) - 1
