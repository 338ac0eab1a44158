"""The lab's engines: chooser, knobs, charts that compare engines, a failure on demand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from pages import rows_of

from fairq.lab import Lab
from fairq.lab.charts import CHARTS, charts_for
from fairq.lab.engines import KINDS, engine_as
from fairq.lab.settings import applied, settings_of
from fairq.lab.tables import rows_html
from fairq.scenario import Scenario, ScenarioError
from fairq.scenario.alternatives import named_ways, router_table, unhealthy, way_table
from fairq.scenario.engines import ENGINES
from fairq.sim import simulate

TENANTS = {
    "chat": {
        "arrivals": {"kind": "poisson", "rate_per_s": 0.5},
        "prompt_tokens": 300,
        "output_tokens": {"kind": "lognormal", "median": 60, "sigma": 0.5},
    },
    "nightly": {
        "priority": 1,
        "arrivals": {"kind": "dump", "at_s": 5, "requests": 25},
        "prompt_tokens": 900,
        "output_tokens": 80,
    },
}
POLICIES = {"FIFO": {"policy": "fifo"}, "fair": {"policy": "vtc"}}
CARD = {"profile": "rtx4090-llama31-8b", "model": "llama31-8b-int4", "max_num_seqs": 8}
HALVES = {"kind": "partitioned", **CARD, "parts": 2, "place": {"chat": 0, "nightly": 1}}
FAILURE = [{"at_s": 12, "part": 1, "down_s": 6, "kind": "oom"}]
REPLICAS = {"kind": "replicas", **CARD, "replicas": 2, "router": "session"}


def box(engine: dict, **more) -> Scenario:
    data = {"name": "box", "seed": 4, "horizon_s": 30, "engine": engine, "tenants": TENANTS}
    return Scenario.from_data(data | {"policies": POLICIES} | more, "box")


def lab_of(engine: dict, **more) -> Lab:
    return Lab(box(engine), replications=1, **more)


class Counting:
    """``simulate``, counting its calls."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, *given, **settings):
        self.n += 1
        return simulate(*given, **settings)

    def fresh(self) -> int:
        n, self.n = self.n, 0
        return n


def counted(lab: Lab) -> Counting:
    count = Counting()
    lab._runs._simulate = count
    return count


def widgets_of(lab: Lab) -> list:
    found = []

    def walk(widget) -> None:
        found.append(widget)
        for child in getattr(widget, "children", ()):
            walk(child)

    walk(lab.widget)
    return found


def press(lab: Lab, words: str) -> None:
    (button,) = [w for w in widgets_of(lab) if getattr(w, "description", "") == words]
    button.click()


# ---------------------------------------------------------------- the chooser


def test_the_menu_has_every_engine_of_a_scenario() -> None:
    assert set(KINDS) == set(ENGINES)


@pytest.mark.parametrize("kind", KINDS)
def test_any_engine_becomes_any_other_one(kind: str) -> None:
    for engine in ({"kind": "slots", "slots": 3}, {"kind": "batching"}, HALVES, REPLICAS):
        scenario = box(engine)
        made = engine_as(scenario, kind)
        assert made["kind"] == kind
        scenario.with_({"engine": made}).engine()
        if kind == engine["kind"]:
            assert made == scenario.data()["engine"]


def test_what_two_engines_have_in_common_is_kept() -> None:
    halves = box(HALVES | {"outages": FAILURE, "context": 2000})
    replicas = engine_as(halves, "replicas")
    assert {
        k: replicas[k] for k in ("profile", "model", "max_num_seqs", "context", "outages", "replicas")
    } == {
        **{k: CARD[k] for k in ("profile", "model", "max_num_seqs")},
        "context": 2000,
        "outages": FAILURE,
        "replicas": 2,
    }
    # One engine batches what the two halves together do, and holds a copy of the weights less.
    whole = engine_as(halves, "one_engine")
    assert whole["max_num_seqs"] == 16
    batching = box(engine_as(halves, "batching")).engine()
    assert batching.limits.kv_tokens == halves.engine_spec.tokens_of_part(1) == 120_128
    assert batching.profile.a_ms == pytest.approx(halves.engine_spec.card_profile().a_ms)


def test_choosing_an_engine_shows_its_knobs_and_charts() -> None:
    lab = Lab(box({"kind": "slots", "slots": 2}), replications=1)
    lab.chart  # noqa: B018  (drawn)
    assert "slots" in lab.settings
    assert [name for _, name in lab._chooser.options] == [
        *("bars", "before_after", "ecdf", "queue", "slots", "capacity")
    ]
    lab._made["engine"].menu.value = "replicas"
    assert {"replicas", "router", "max_num_seqs", "cache_tokens", "outage_at"} <= set(lab.settings)
    assert not {"slots", "parts", "gateway_slots"} & set(lab.settings)
    assert [name for _, name in lab._chooser.options][-3:] == ["batch", "memory", "routers"]
    assert len(lab._chooser.tooltips) == len(lab._chooser.options)
    assert lab.scenario.data()["engine"]["kind"] == "replicas"
    assert "Error" not in lab._status.value
    labels = [getattr(w, "description", "") for w in widgets_of(lab)]
    assert "Router" in labels
    assert "Slots" not in labels


def test_every_control_of_an_engine_has_a_label_and_a_tooltip() -> None:
    for engine in ({"kind": "batching"}, HALVES, REPLICAS):
        for widget in widgets_of(lab_of(engine)):
            kind = type(widget).__name__
            if kind in ("BoundedIntText", "BoundedFloatText", "Dropdown", "Checkbox", "Button"):
                assert widget.description, kind
            assert getattr(widget, "tooltip", "") is not None, widget


def test_what_was_turned_stays_when_the_engine_changes_and_reset_brings_all_back() -> None:
    lab = lab_of({"kind": "slots", "slots": 2})
    before = lab.settings
    lab.set(load=1.5, policies=["fair"], engine="batching", max_num_seqs=4)
    assert (lab.settings["load"], lab.settings["policies"]) == (1.5, ["fair"])
    lab.set(engine="one_engine")
    assert lab.scenario.data()["engine"]["max_num_seqs"] == 4
    assert lab.settings["load"] == 1.5
    assert lab.reset().settings == before
    assert lab.scenario == box({"kind": "slots", "slots": 2})


def test_an_untouched_engine_is_the_scenarios_own() -> None:
    for engine in ({"kind": "batching"}, HALVES | {"outages": FAILURE}, REPLICAS):
        assert lab_of(engine).scenario == box(engine)


def test_a_wrong_engine_or_knob_is_refused_and_changes_nothing() -> None:
    lab = lab_of({"kind": "slots", "slots": 2})
    before = lab.settings
    for wrong, words in [
        ({"engine": "tpu"}, "must be one of slots, batching"),
        ({"router": "session"}, "no setting 'router'"),
        ({"engine": "replicas", "slots": 3}, "no setting 'slots'"),
        ({"engine": "replicas", "router": "random"}, "router must be one of round_robin, "),
        ({"engine": "batching", "max_num_seqs": 0}, "max_num_seqs must be from 1"),
        ({"chart": "routers"}, "chart 'routers' does not go with this engine"),
    ]:
        with pytest.raises(ValueError, match=re.escape(words)):
            lab.set(**wrong)
        assert lab.settings == before


def test_a_model_that_does_not_fit_is_told_and_the_page_lives_on() -> None:
    whole = Lab(box({"kind": "one_engine", **CARD, "model": "llama31-8b"}), replications=1)
    whole.chart  # noqa: B018  (drawn)
    whole._made["engine"].menu.value = "partitioned"
    assert "does not fit" in whole._status.value
    assert whole.settings["engine"] == "one_engine"
    whole._made["model"].menu.value = "llama31-8b-int4"
    assert "Error" not in whole._status.value
    halves = lab_of(HALVES)
    with pytest.raises(ScenarioError, match="does not fit"):
        halves.set(model="llama31-8b")
    assert halves.settings["model"] == "llama31-8b-int4"


# ---------------------------------------------------------------- the knobs


@pytest.mark.parametrize(
    ("engine", "turned", "changed"),
    [
        ({"kind": "batching"}, {"max_num_seqs": 5}, {"max_num_seqs": 5}),
        ({"kind": "batching", "gateway_slots": 9}, {"gateway_slots": -1}, {"gateway_slots": None}),
        ({"kind": "batching"}, {"gateway_slots": 0}, {"gateway_slots": 0}),
        ({"kind": "batching"}, {"kv_tokens": 8192}, {"kv_tokens": 8192}),
        ({"kind": "batching"}, {"scheduling": "priority"}, {"scheduling": "priority"}),
        ({"kind": "batching"}, {"max_num_batched_tokens": 512}, {"max_num_batched_tokens": 512}),
        (HALVES, {"part_nightly": 0}, {"place": {"chat": 0, "nightly": 0}}),
        (HALVES, {"card_gib": 31.5}, {"card_gib": 31.5}),
        (HALVES, {"model": "llama32-3b", "context": 2048}, {"model": "llama32-3b", "context": 2048}),
        (
            REPLICAS,
            {"replicas": 3, "router": "prefix", "slack": 2.0},
            {"replicas": 3, "router": "prefix", "slack": 2},
        ),
        (REPLICAS, {"cache_tokens": 10_000}, {"cache_tokens": 10_000}),
    ],
)
def test_a_knob_changes_its_place_and_no_other(engine: dict, turned: dict, changed: dict) -> None:
    scenario = box(engine)
    made = applied(scenario, settings_of(scenario), turned)
    assert made.data() == box(engine | changed).data()


def test_a_knob_without_a_meaning_is_not_shown() -> None:
    lab = lab_of(REPLICAS)
    lab.chart  # noqa: B018  (drawn)
    row = lab._made["slack"].row
    assert row.layout.display == "none"
    lab.set(router="prefix")
    assert row.layout.display is None


def test_only_the_runs_of_the_changed_engine_are_made_again() -> None:
    lab = lab_of({"kind": "batching"})
    count = counted(lab)
    lab.table  # noqa: B018  (simulated)
    assert count.fresh() == 2
    lab.set(engine="replicas")
    lab.table  # noqa: B018
    assert count.fresh() == 2
    lab.set(chart="routers")
    lab.rows  # noqa: B018
    assert count.fresh() == 4  # five routers, and the scenario's own was there
    lab.set(router="least_busy")
    lab.rows  # noqa: B018
    assert count.fresh() == 1  # FIFO under it
    lab.set(engine="batching")
    lab.table  # noqa: B018
    assert count.fresh() == 0


# ---------------------------------------------------------------- the charts


def test_the_routers_are_those_of_the_plain_table() -> None:
    lab = lab_of(REPLICAS, chart="routers")
    pd.testing.assert_frame_equal(lab.rows, pd.DataFrame(router_table(box(REPLICAS), "fair")))
    lab.set(under="FIFO")
    pd.testing.assert_frame_equal(lab.rows, pd.DataFrame(router_table(box(REPLICAS), "FIFO")))
    assert "The same in numbers" in lab._numbers.value
    assert lab._numbers.value.count("<tr>") == 6
    assert "Routers compared" in lab._picture.value


def test_the_ways_to_share_are_those_of_the_plain_table() -> None:
    halves = HALVES | {"outages": FAILURE}
    lab = lab_of(halves, chart="ways")
    expected = pd.DataFrame(named_ways(way_table(box(halves))))
    pd.testing.assert_frame_equal(lab.rows, expected)
    down = lab.rows.set_index(["way", "group"])["down_s"]
    assert (down["MIG", "chat"], down["MPS", "chat"]) == (0, 6)
    lab.set(policies=["fair"])
    pd.testing.assert_frame_equal(lab.rows, pd.DataFrame(named_ways(way_table(box(halves), ["fair"]))))


def test_the_batch_chart_shows_what_the_engine_reported() -> None:
    lab = lab_of({"kind": "batching", "kv_tokens": 8192}, chart="batch")
    scenario = box({"kind": "batching", "kv_tokens": 8192})
    run = simulate(scenario.workload(), scenario.policy("fair"), scenario.engine(), seed=4)
    (row,) = lab.rows.to_dict("records")
    assert row == {
        "engine": "engine 0",
        "running": run.engine["running"].max(),
        "waiting": run.engine["waiting"].max(),
        "kv_pct": run.engine["kv_pct"].max(),
    }
    lab.set(time_from=3, time_to=9)
    assert lab.chart.axes[-1].get_xlim() == (3, 9)
    parts = lab_of(HALVES, chart="batch")
    assert parts.rows["engine"].tolist() == ["part 0", "part 1"]


def test_users_are_counted_and_times_are_measured() -> None:
    lab = Lab("noisy_burst", policies=["FIFO"], replications=1, chart="capacity")
    users = [int(n) for n in lab.rows["users"]]
    _, *rows = rows_of(lab._numbers.value)
    assert users[:12] == list(range(1, 13))
    # Users at once, served at once (eight slots), waiting.
    counts = [[words for _, words in row[:3]] for row in rows]
    assert counts == [[f"{n:,}", f"{min(n, 8)}", f"{max(n - 8, 0):,}"] for n in users]
    assert [words for _, words in rows[0][3:]] == ["38.8", "38.8", "0.188", "0.025"]
    many = rows_html([{"users": 1234, "ttft_s": 1234.0}], {"users": "Users", "ttft_s": "(s)"}, "by hand")
    assert [words for _, words in rows_of(many)[1]] == ["1,234", "1,230"]


def test_the_memory_bars_follow_the_card() -> None:
    lab = lab_of(HALVES, chart="memory")
    rows = lab.rows.set_index(["model", "parts"])
    assert rows["fits"].loc["llama31-8b"].tolist() == [True, False]
    count = counted(lab)
    lab.set(card_gib=47.5)
    rows = lab.rows.set_index(["model", "parts"])
    assert bool(rows.loc[("llama31-8b", 2), "fits"])
    assert rows.loc[("llama31-8b", 2), "part_gb"] == pytest.approx(47.5 * 2**30 / 2e9)
    lab.set(parts=3)
    assert set(lab.rows["parts"]) == {1, 3}
    assert count.fresh() > 0  # another KV cache, other runs


def test_only_the_visible_chart_of_an_engine_is_drawn_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairq.lab import charts

    drawn = []
    for name in ("batch_chart", "memory_bars", "partition_bars", "router_bars"):
        real = getattr(charts, name)
        monkeypatch.setattr(
            charts, name, lambda *a, _f=real, _n=name, **k: (drawn.append(_n), _f(*a, **k))[1]
        )
    lab = lab_of(HALVES)
    count = counted(lab)
    lab.chart  # noqa: B018
    assert (drawn, count.fresh()) == ([], 2)
    for name in ("batch", "memory", "ways"):
        lab.set(chart=name)
        assert isinstance(lab.chart, Figure)
    assert drawn == ["batch_chart", "memory_bars", "partition_bars"]
    assert count.fresh() == 4  # one engine under two policies, MPS, time-slicing; MIG was there


def test_a_chart_of_tenants_has_no_rows() -> None:
    with pytest.raises(ValueError, match=re.escape("its numbers are lab.table")):
        lab_of(HALVES).rows  # noqa: B018


# ---------------------------------------------------------------- failing


def test_unhealthy_now_fails_a_replica_at_the_chosen_time_and_healthy_again_takes_it_back() -> None:
    lab = lab_of(REPLICAS, chart="routers")
    lab.set(outage_at=6, outage_part=1)
    well = lab.rows
    assert lab.scenario.engine_spec.outages == ()
    press(lab, "Unhealthy now")
    assert lab.scenario.data() == unhealthy(box(REPLICAS), 6, 1, 60).data()
    assert "Error" not in lab._status.value
    expected = pd.DataFrame(router_table(unhealthy(box(REPLICAS), 6, 1, 60), "fair"))
    pd.testing.assert_frame_equal(lab.rows, expected)
    assert (lab.rows["retries"] > 0).any()
    assert (well["retries"] == 0).all()
    press(lab, "Healthy again")
    pd.testing.assert_frame_equal(lab.rows, well)


def test_a_scenarios_own_failure_is_what_the_button_takes_away_and_brings_back() -> None:
    own = HALVES | {"outages": [*FAILURE, {"at_s": 25, "part": 0, "down_s": 1}]}
    lab = lab_of(own, chart="ways")
    assert lab.settings["outage_kind"] == "oom"
    lab.chart  # noqa: B018  (drawn)
    press(lab, "Healthy again")
    assert [each.at_s for each in lab.scenario.engine_spec.outages] == [25]
    press(lab, "Unhealthy now")
    assert lab.scenario == box(own)


# ---------------------------------------------------------------- presets, files


@pytest.mark.parametrize(
    ("words", "name", "chart"),
    [
        ("One engine or two halves?", "two_halves", "ways"),
        ("MPS?", "mps", "ways"),
        ("Which replica?", "replicas", "routers"),
        ("Where does the queue hide?", "hidden_queue", "batch"),
    ],
)
def test_a_preset_per_question_shows_the_chart_that_answers_it(
    words: str, name: str, chart: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = lab_of({"kind": "slots", "slots": 2})
    monkeypatch.setattr(lab, "_simulate", lambda *given, **more: None)
    monkeypatch.setattr(lab, "_draw", lambda *given: None)
    lab._preset.menu.value = words
    assert lab.scenario == Scenario.load(name)
    assert lab.settings["chart"] == chart
    assert lab._defaults["chart"] == chart
    lab._preset.menu.value = "published_burst"
    assert lab.settings["chart"] == "bars"


def test_the_view_of_an_engine_is_saved_and_opens_again(tmp_path: Path) -> None:
    lab = lab_of({"kind": "slots", "slots": 2})
    lab.set(engine="replicas", replicas=3, router="prefix", slack=1, chart="routers", under="FIFO")
    lab.set(outage_at=6, outage_s=5)
    paths = lab.save(tmp_path / "view", formats=["csv", "json"])
    assert [p.name for p in paths] == ["view_table.csv", "view_rows.csv", "view_chart.csv", "view.json"]
    saved = pd.read_csv(tmp_path / "view_chart.csv")
    assert saved["ttft_mean"].tolist() == pytest.approx(lab.rows["ttft_mean"].tolist(), rel=1e-12)
    assert json.loads((tmp_path / "view.json").read_text())["settings"]["engine"] == "replicas"
    back = Lab.from_json(tmp_path / "view.json")
    assert back.settings == lab.settings
    assert back.scenario == lab.scenario
    pd.testing.assert_frame_equal(back.rows, lab.rows)


@pytest.mark.parametrize("chart", ["routers", "bars"])
def test_shown_code_makes_the_same_numbers_on_another_engine(chart: str) -> None:
    lab = lab_of({"kind": "slots", "slots": 2})
    lab.set(engine="replicas", replicas=3, load=1.5, outage_s=5, chart=chart)
    space: dict = {}
    exec(lab.code(), space)
    pd.testing.assert_frame_equal(space["table"], lab.table)
    if chart == "routers":
        pd.testing.assert_frame_equal(pd.DataFrame(space["rows"]), lab.rows)


def test_shown_code_of_the_ways_makes_the_same_rows() -> None:
    lab = lab_of(HALVES, chart="ways")
    space: dict = {}
    exec(lab.code(), space)
    pd.testing.assert_frame_equal(pd.DataFrame(space["rows"]), lab.rows)


def test_every_chart_applies_to_some_engine() -> None:
    offered = {c.name for e in ({"kind": "slots"}, HALVES, REPLICAS) for c in charts_for(box(e))}
    assert offered == {c.name for c in CHARTS}
