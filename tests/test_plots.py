"""Charts against the numbers they were given: what is drawn is read back from the artists."""

from __future__ import annotations

import io
import math
import sys
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import FillBetweenPolyCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from fairq import plots
from fairq.plots.curves import Curve, curves
from fairq.plots.quick import quick_png
from fairq.plots.routers import router_bars
from fairq.plots.style import Chart, number, page_style, plus_minus, ratio_words, shorten, text_width, wrap

FAST = {"latency": (0.5, 2.0), "wait": (0.1, 1.0), "ttft": (0.2, 1.2)}


def table(
    values: dict[tuple[str, str], tuple[float, float]], *, runs: int = 10, half: float = 0.1, n: int = 500
):
    rows = []
    for (policy, tenant), (p50, p99) in values.items():
        row = {"policy": policy, "tenant": tenant, "n": n, "unfinished": 0, "runs": runs}
        for measure in ("latency", "wait", "ttft"):
            for quantile, value in (("p50", p50), ("p99", p99)):
                spread = half if runs > 1 else math.nan
                row |= {
                    f"{measure}_{quantile}": value,
                    f"{measure}_{quantile}_low": value - spread,
                    f"{measure}_{quantile}_high": value + spread,
                }
        rows.append(row)
    return pd.DataFrame(rows)


BURST = {
    ("FIFO", "chat"): (30.0, 32.0),
    ("FIFO", "nightly"): (16.0, 31.0),
    ("fair", "chat"): (1.0, 1.5),
    ("fair", "nightly"): (17.0, 33.0),
}


def rows(spec: list[tuple[str, float, float, float, int]]) -> pd.DataFrame:
    """(tenant, arrival, start, finish, slot) → the columns of a Result that the charts read."""
    frame = pd.DataFrame(spec, columns=["tenant", "arrival", "start", "finish", "slot"])
    frame["wait"] = frame["start"] - frame["arrival"]
    frame["ttft"] = frame["wait"]
    frame["latency"] = frame["finish"] - frame["arrival"]
    frame["status"] = np.where(frame["finish"].notna(), "finished", "unfinished")
    frame["cost_estimate"] = 1.0
    frame["left"] = math.nan
    return frame


TWO_SLOTS = rows(
    [
        ("a", 0, 0, 4, 0),
        ("a", 0, 0, 2, 1),
        ("b", 1, 2, 5, 1),
        ("a", 1, 4, 6, 0),
        ("b", 2, 5, 7, 1),
        ("b", 2, 6, 9, 0),
    ]
)


def drawn_bars(chart: Figure, panel: int) -> dict[str, float]:
    """The right end of every bar, by its gid."""
    return {p.get_gid(): p.get_x() + p.get_width() for p in chart.axes[panel].patches if p.get_gid()}


@pytest.mark.parametrize("log", [False, True])
def test_bars_end_at_the_tables_values(log: bool) -> None:
    chart = plots.latency_bars(table(BURST), log=log)
    for panel, quantile in enumerate(("p50", "p99")):
        ends = drawn_bars(chart, panel)
        assert len(ends) == 4
        for (policy, tenant), pair in BURST.items():
            assert ends[f"bar:{quantile}:{policy}:{tenant}"] == pytest.approx(pair[panel])
        assert chart.axes[panel].get_xscale() == ("log" if log else "linear")


def test_bars_start_at_zero_on_a_linear_axis() -> None:
    chart = plots.latency_bars(table(BURST), log=False)
    assert {p.get_x() for p in chart.axes[0].patches if p.get_gid()} == {0.0}
    assert chart.axes[0].get_xlim()[0] == 0.0


def test_whiskers_span_the_interval() -> None:
    chart = plots.latency_bars(table(BURST, half=0.25), log=False)
    segments = chart.axes[1].containers[1].lines[2][0].get_segments()
    assert sorted((s[0][0], s[1][0]) for s in segments) == sorted(
        (v - 0.25, v + 0.25) for _, v in BURST.values()
    )


def test_the_axis_is_logarithmic_only_when_the_spread_asks_for_it() -> None:
    near = plots.latency_bars(table({("FIFO", "a"): (1.0, 20.0), ("fair", "a"): (1.0, 25.0)}))
    far = plots.latency_bars(table({("FIFO", "a"): (1.0, 20.0), ("fair", "a"): (1.0, 31.0)}))
    assert near.axes[0].get_xscale() == "linear"
    assert far.axes[0].get_xscale() == "log"


def test_one_run_is_hatched_has_no_whiskers_and_says_so() -> None:
    chart = plots.latency_bars(table(BURST, runs=1, n=412))
    bars = [p for p in chart.axes[1].patches if p.get_gid()]
    assert {p.get_hatch() for p in bars} == {"////"}
    assert len(chart.axes[1].containers) == 1
    words = [t.get_text() for t in chart.axes[1].findobj(Text)]
    assert "p99 of this run" in words
    assert sum("n=412" in w for w in words) == 4
    several = plots.latency_bars(table(BURST))
    assert {p.get_hatch() for p in several.axes[1].patches if p.get_gid()} == {None}


def test_a_missing_p99_is_written_not_drawn() -> None:
    few = table({("FIFO", "a"): (1.0, math.nan), ("FIFO", "b"): (2.0, 3.0)}, runs=1, n=100)
    chart = plots.latency_bars(few)
    assert set(drawn_bars(chart, 1)) == {"bar:p99:FIFO:b"}
    assert "too few (n=100)" in [t.get_text() for t in chart.axes[1].texts]
    assert "FIFO: a p50 1.00 s, p99 too few" in chart.alt
    assert "below 368 finished requests" in " ".join(w for t in chart.texts for w in t.get_text().split())
    known = plots.latency_bars(table({("FIFO", "a"): (1.0, 2.0)}, runs=1, n=100))
    assert not any("368" in t.get_text() for t in known.texts), "the replay of a log: facts"
    pair = plots.before_after(
        table({("FIFO", "a"): (1.0, 2.0), ("fair", "a"): (1.0, 1.5)}, runs=1), "FIFO", "fair"
    )
    assert any("One run, so no interval." in " ".join(t.get_text().split()) for t in pair.texts)
    assert not any("atched" in t.get_text() for t in pair.texts), "its marks are not hatched"


def test_alt_text_holds_every_number() -> None:
    alt = plots.latency_bars(table(BURST)).alt
    for words in (
        "FIFO: chat p50 30.0 s, p99 32.0 s",
        "nightly p50 16.0 s",
        "fair: chat p50 1.00 s, p99 1.50 s",
    ):
        assert words in alt


def test_title_names_the_largest_difference() -> None:
    assert (
        plots.latency_bars(table(BURST)).texts[0].get_text()
        == "chat: p99 32.0 s under FIFO, 1.50 s under fair"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop(columns="wait_p99_low"), "lacks wait_p99_low"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "two rows"),
    ],
)
def test_a_bad_table_is_refused_by_name(change, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plots.latency_bars(change(table(BURST)), measure="wait")


def test_an_unknown_measure_is_refused() -> None:
    with pytest.raises(ValueError, match="measure must be one of latency, wait, ttft, got 'speed'"):
        plots.latency_bars(table(BURST), measure="speed")


def test_before_after_marks_both_ends() -> None:
    chart = plots.before_after(table(BURST), "FIFO", "fair", log=False)
    for panel in (0, 1):
        marks = [
            (line.get_xdata()[0], line.get_markerfacecolor())
            for line in chart.axes[panel].lines
            if line.get_marker() not in ("None", "")
        ]
        hollow = sorted(x for x, face in marks if face == "white")
        full = sorted(x for x, face in marks if face != "white")
        assert hollow == sorted(v[panel] for (p, _), v in BURST.items() if p == "FIFO")
        assert full == sorted(v[panel] for (p, _), v in BURST.items() if p == "fair")
    assert chart.data["p99"]["chat"] == (32.0, 1.5)
    assert "chat: p50 30.0 to 1.00 s, p99 32.0 to 1.50 s." in chart.alt
    assert chart.texts[0].get_text() == "FIFO → fair: p99 21.3× less for chat, 1.06× more for nightly"


def test_a_change_that_chance_may_have_made_is_not_called_one() -> None:
    differences = {
        "chat": {"p50": (-29.0, -30.0, -28.0), "p99": (-30.5, -40.0, -21.0)},
        "nightly": {"p50": (1.0, -0.5, 2.5), "p99": (2.0, -1.0, 5.0)},
    }
    chart = plots.before_after(table(BURST), "FIFO", "fair", differences=differences)
    words = [t.get_text() for t in chart.axes[1].texts]
    assert words == ["32.0 → 1.50 s  (21.3× less)", "31.0 → 33.0 s  (no clear change)"]
    assert chart.texts[0].get_text() == "FIFO → fair: p99 21.3× less for chat, nobody pays in p99"
    unclear = {t: dict.fromkeys(("p50", "p99"), (0.0, -1.0, 1.0)) for t in ("chat", "nightly")}
    nothing = plots.before_after(table(BURST), "FIFO", "fair", differences=unclear)
    assert nothing.texts[0].get_text() == "FIFO → fair: no clear change in p99 latency"


def test_a_policy_keeps_its_name_beside_its_bars() -> None:
    names = ["capped per key", "capped as a group", "DRR"]
    chart = plots.latency_bars(table({(name, "chat"): (1.0, 2.0) for name in names}))
    assert set(names) <= {text.get_text() for text in chart.texts}


def test_time_to_first_token_is_called_so() -> None:
    chart = plots.latency_bars(table({("FIFO", "chat"): (1.0, 2.0)}), measure="ttft")
    assert all(axes.get_xlabel().startswith("time to first token (s)") for axes in chart.axes)
    assert "Time to first token per tenant under FIFO" in [text.get_text() for text in chart.texts]
    pair = plots.before_after(table(BURST), "FIFO", "fair", measure="ttft")
    for text in (*pair.texts, *(axes.xaxis.label for axes in pair.axes)):
        assert "ttft" not in text.get_text().lower()


def test_bars_of_one_measure_share_their_axis_and_a_log_axis_says_so() -> None:
    rows = [
        {"router": name, "hit_rate": 0.5, "ttft_p50": p50, "ttft_p99": p99, "ttft_mean": p50}
        | {"imbalance": 1.0, "prefill_per_request": 10.0, "served": served}
        for name, p50, p99, served in (("a", 0.3, 1.6, 600), ("b", 18.7, 26.9, 300))
    ]
    chart = router_bars(rows)
    by_title = dict(zip(("computed", "found", "p50", "p99", "imbalance", "served"), chart.axes, strict=True))
    assert by_title["p50"].get_xlim() == by_title["p99"].get_xlim(), "18.7 is shorter than 26.9"
    assert [axes.get_xlabel() for axes in chart.axes] == ["", "", "log scale", "log scale", "", ""]
    assert [axes.get_xscale() for axes in chart.axes] == ["linear"] * 2 + ["log"] * 2 + ["linear"] * 2
    assert any("sooner asks again sooner" in text.get_text() for text in chart.texts)
    assert "same requests" in " ".join(t.get_text() for t in router_bars([rows[0]]).texts)


def test_the_legend_names_who_is_seen() -> None:
    run = rows([("early", 0, 0, 10, 0), ("late", 90, 95, 100, 0)])
    inside = plots.slot_gantt({"FIFO": run}, window=(50, 120))
    names = [text.get_text() for text in inside.texts]
    assert "late" in names
    assert "early" not in names, "it holds no slot in that time"
    assert "early" in [text.get_text() for text in plots.slot_gantt({"FIFO": run}).texts]
    depth = [text.get_text() for text in plots.queue_depth({"FIFO": run}).texts]
    assert "late" in depth
    assert "early" not in depth, "it never waits"


def test_curves_show_what_lies_below_zero() -> None:
    measured = [(1, 20.0, 10.0, 30.0), (2, -5.0, -9.0, -1.0), (3, -1.0, -3.0, 0.5)]
    chart = curves({"change": Curve(measured=measured)}, title="t", x="tenant", y="seconds")
    (axes,) = chart.axes
    low, high = axes.get_ylim()
    assert low < -9.0
    assert high > 30.0
    drawn = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert any(list(line.get_ydata()) == [20.0, -5.0, -1.0] for line in drawn)
    assert any(list(line.get_ydata()) == [0.0, 0.0] for line in axes.lines), "a line at zero"
    chart.to_bytes("png")
    assert all("." not in label.get_text() for label in axes.get_xticklabels()), "there is no tenant 1.5"


def test_curves_of_waits_begin_at_zero_though_a_whisker_does_not() -> None:
    chart = curves(
        {"wait": Curve(measured=[(1, 0.2, -0.1, 0.5), (2, 3.0, 2.0, 4.0)])}, title="t", x="x", y="y"
    )
    assert chart.axes[0].get_ylim()[0] == 0.0


def test_before_after_names_an_unknown_policy() -> None:
    with pytest.raises(ValueError, match=r"after: no policy 'nope' in the table \(there are FIFO, fair\)"):
        plots.before_after(table(BURST), "FIFO", "nope")


def test_ecdf_steps_through_the_sorted_values() -> None:
    chart = plots.latency_ecdf({"FIFO": TWO_SLOTS})
    x, y = chart.data["lines"]["FIFO", "b"]
    assert x.tolist() == [4, 5, 7]
    assert y.tolist() == pytest.approx([100 / 3, 200 / 3, 100])
    line = next(li for li in chart.axes[0].lines if li.get_gid() == "ecdf:FIFO:b")
    assert line.get_xdata().tolist() == [4, 4, 5, 7]
    assert line.get_ydata().tolist() == pytest.approx([0, 100 / 3, 200 / 3, 100])


def test_a_thinned_ecdf_keeps_its_quantiles() -> None:
    values = np.random.default_rng(3).exponential(1.0, 20_000)
    many = rows([("a", 0.0, 0.0, float(v), 0) for v in values])
    x, y = plots.latency_ecdf({"FIFO": many}).data["lines"]["FIFO", "a"]
    assert len(x) < 700
    assert np.interp([50, 99, 99.9], y, x) == pytest.approx(np.percentile(values, [50, 99, 99.9]), rel=0.01)
    assert x[-1] == values.max()
    assert y[-1] == 100.0


def test_unfinished_requests_are_not_in_the_ecdf() -> None:
    open_end = rows([("a", 0, 0, 4, 0), ("a", 0, 5, math.nan, 0)])
    x, _ = plots.latency_ecdf({"FIFO": open_end}).data["lines"]["FIFO", "a"]
    assert x.tolist() == [4]


def test_queue_depth_counts_who_waits() -> None:
    chart = plots.queue_depth({"FIFO": TWO_SLOTS}, window=(0, 9))
    grid = chart.data["grid"]
    for at, a, b in [(0.5, 0, 0), (1.5, 1, 1), (3.0, 1, 2), (4.5, 0, 2), (5.5, 0, 1), (6.5, 0, 0)]:
        i = int(np.searchsorted(grid, at, side="right")) - 1
        assert (chart.data["waiting"]["FIFO", "a"][i], chart.data["waiting"]["FIFO", "b"][i]) == (a, b), at
    areas = [
        c for c in chart.axes[0].collections if isinstance(c, (PolyCollection, FillBetweenPolyCollection))
    ]
    assert max(area.get_paths()[0].vertices[:, 1].max() for area in areas) == 3
    assert "FIFO: at most 3 at 2.01 s, most of them from b; at most of each: a 1, b 2." in chart.alt
    # In the axis's own unit: the same run, 500 times as slow.
    slow = TWO_SLOTS.assign(
        **{name: 500 * TWO_SLOTS[name] for name in ("arrival", "start", "finish", "left")}
    )
    chart = plots.queue_depth({"FIFO": slow})
    assert chart.axes[0].get_xlabel() == "time (min)"
    assert "at most 3 at 16.7 min, " in chart.alt


def test_who_never_starts_waits_to_the_end_and_who_left_does_not() -> None:
    frame = rows(
        [
            ("a", 0, 0, 10, 0),
            ("a", 1, math.nan, math.nan, -1),
            ("b", 2, math.nan, math.nan, -1),
            ("b", 3, math.nan, math.nan, -1),
        ]
    )
    frame.loc[2, ["status", "left"]] = ["cancelled", 5.0]
    frame.loc[3, ["status", "left"]] = ["refused", 3.0]
    waiting = plots.queue_depth({"FIFO": frame}, window=(0, 10)).data["waiting"]
    assert waiting["FIFO", "a"][-1] == 1
    assert waiting["FIFO", "b"].max() == 1
    assert waiting["FIFO", "b"][-1] == 0


def test_gantt_bars_are_the_rows() -> None:
    chart = plots.slot_gantt({"FIFO": TWO_SLOTS}, slots=2)
    assert chart.data["bars"]["FIFO", "a"].tolist() == [[0, 0, 4], [1, 0, 2], [0, 4, 6]]
    patch = next(p for p in chart.axes[0].patches if p.get_gid() == "gantt:FIFO:b")
    corners = patch.get_path().vertices.reshape(-1, 5, 2)
    assert [(c[:, 0].min(), c[:, 0].max(), c[:, 1].mean().round()) for c in corners] == [
        (2, 5, 1),
        (5, 7, 1),
        (6, 9, 0),
    ]
    assert "a 8 slot-seconds, b 8 slot-seconds" in chart.alt


def test_gantt_speaks_of_others_as_of_several() -> None:
    many = rows([(f"t{n}", n, n, n + 1, 0) for n in range(20)])
    title = plots.slot_gantt({"FIFO": many}, slots=1).texts[0]
    assert title.get_text() == "others hold 65 % of the slot time under FIFO"


def test_gantt_has_a_row_per_slot_even_when_one_is_idle() -> None:
    chart = plots.slot_gantt({"FIFO": TWO_SLOTS}, slots=5)
    assert chart.axes[0].get_ylim() == (4.5, -0.5)


def test_a_tenants_look_is_the_same_in_every_chart_and_no_two_share_it() -> None:
    looks = plots.tenant_styles(["a", "b", "c", "d", "e", "f", "g", "h"])
    named = [looks[t] for t in "abcdefgh"]
    assert {look.color for look in named} == set(plots.OKABE_ITO)
    # Without colour (a grey print) the hatches, markers and dashes are all different too.
    for trait in ("hatch", "marker", "dash"):
        assert len({str(getattr(look, trait)) for look in named}) == 8
    gantt = plots.slot_gantt({"FIFO": TWO_SLOTS}, styles=looks)
    ecdf = plots.latency_ecdf({"FIFO": TWO_SLOTS}, styles=looks)
    bars = plots.latency_bars(table(BURST), styles=plots.tenant_styles(["chat", "nightly"]))
    patch = next(p for p in gantt.axes[0].patches if p.get_gid() == "gantt:FIFO:b")
    line = next(li for li in ecdf.axes[0].lines if li.get_gid() == "ecdf:FIFO:b")
    assert mpl.colors.to_hex(patch.get_facecolor()).upper() == line.get_color() == looks["b"].color
    assert patch.get_hatch() == looks["b"].hatch
    first = next(p for p in bars.axes[0].patches if p.get_gid() == "bar:p50:FIFO:chat")
    assert mpl.colors.to_hex(first.get_facecolor()).upper() == plots.OKABE_ITO[0]


def test_a_grey_print_tells_the_tenants_of_every_chart_over_time_apart() -> None:
    looks = plots.tenant_styles(["a", "b"])
    depth = plots.queue_depth({"FIFO": TWO_SLOTS}, styles=looks).axes[0]
    areas = {area.get_gid(): area.get_hatch() for area in depth.collections if area.get_gid()}
    assert areas == {f"depth:FIFO:{tenant}": looks[tenant].hatch for tenant in "ab"}
    gantt = plots.slot_gantt({"FIFO": TWO_SLOTS}, styles=looks).axes[0]
    patches = {patch.get_gid(): patch.get_hatch() for patch in gantt.patches if patch.get_gid()}
    assert patches == {f"gantt:FIFO:{tenant}": looks[tenant].hatch for tenant in "ab"}
    lines = plots.latency_ecdf({"FIFO": TWO_SLOTS}, styles=looks).axes[0].lines
    marks = [line for line in lines if line.get_color() in (looks["a"].color, looks["b"].color)]
    # A line, and a mark on it, for each.
    assert [line.get_marker() for line in marks[1::2]] == [looks["a"].marker, looks["b"].marker]
    assert [line.get_linestyle() for line in marks[::2]] == ["-", "--"]


def test_the_axes_of_the_queue_say_what_they_count() -> None:
    chart = plots.queue_depth({"FIFO": TWO_SLOTS, "fair": TWO_SLOTS})
    assert [axes.get_ylabel() for axes in chart.axes] == ["waiting requests", ""]
    assert [axes.get_xlabel() for axes in chart.axes] == ["time (s)"] * 2


@pytest.mark.parametrize(("b", "a", "mine"), [(293, 1, "293"), (294, 0, "all"), (98, 196, "196")])
def test_the_longest_queue_is_told_in_requests(b: int, a: int, mine: str) -> None:
    frame = rows([("b", 0, 9, 10, 0)] * b + [("a", 0, 9, 10, 0)] * a)
    title = plots.queue_depth({"FIFO": frame}).texts[0].get_text()
    assert title == f"Up to 294 requests wait under FIFO, {mine} of them from {'b' if b > a else 'a'}"


def test_many_tenants_show_the_top_ones_and_others() -> None:
    sizes = {f"t{i}": 1 + (i * 7) % 23 for i in range(12)}
    frame = rows([(t, 0, 0, 1, 0) for t in sizes])
    frame["cost_estimate"] = list(sizes.values())
    named = plots.top_tenants(frame, most=3)
    assert named == sorted(sizes, key=lambda t: -sizes[t])[:3]
    folded = plots.fold_tenants(frame, named)
    assert (folded["tenant"] == plots.OTHERS).sum() == 9
    assert (frame["tenant"] == plots.OTHERS).sum() == 0
    chart = plots.slot_gantt({"FIFO": frame}, styles=plots.tenant_styles(named))
    assert plots.OTHERS in [t.get_text() for t in chart.texts]


def test_one_tenant_too_many_is_named_rather_than_called_others() -> None:
    frame = rows([(f"t{i}", 0, 0, 1, 0) for i in range(8)])
    assert plots.top_tenants(frame, most=7) == [f"t{i}" for i in range(8)]


LONG = {
    (policy, tenant): (0.012 if policy == "FIFO" else 3.0, 9876.5)
    for policy in ("FIFO", "levels with fair shares inside", "x" * 40)
    for tenant in ("a-tenant-with-a-very-long-name", "b", *(f"tenant-{i}" for i in range(6)))
}
CHARTS = {
    "bars": lambda: plots.latency_bars(table(BURST)),
    "long": lambda: plots.latency_bars(table(LONG), note="Scenario: a name that goes on and on, seed 123."),
    "few": lambda: plots.latency_bars(
        table({(p, t): (v, math.nan) for (p, t), (v, _) in LONG.items()}, runs=1)
    ),
    "before": lambda: plots.before_after(table(BURST), "FIFO", "fair"),
    "ecdf": lambda: plots.latency_ecdf({"FIFO": TWO_SLOTS, "fair": TWO_SLOTS}),
    "depth": lambda: plots.queue_depth({"FIFO": TWO_SLOTS, "fair": TWO_SLOTS}),
    "gantt": lambda: plots.slot_gantt({"FIFO": TWO_SLOTS, "fair": TWO_SLOTS}),
}


@pytest.mark.parametrize(
    ("name", "format"),
    [*((name, "png") for name in CHARTS), ("ecdf", "svg"), ("gantt", "svg"), ("bars", "pdf")],
)
def test_files_have_the_same_bytes_every_time(name: str, format: str) -> None:
    assert CHARTS[name]().to_bytes(format) == CHARTS[name]().to_bytes(format)


@pytest.mark.parametrize("name", CHARTS)
def test_no_text_leaves_the_page_and_axes_have_names(name: str) -> None:
    chart = CHARTS[name]()
    with page_style():
        FigureCanvasAgg(chart).draw()
    page = chart.bbox
    # Matplotlib keeps labels of ticks beyond the limits, and does not draw them.
    beyond = {
        id(tick.label1)
        for axes in chart.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    for text in chart.findobj(Text):
        if text.get_text().strip() and text.get_visible() and id(text) not in beyond:
            box = text.get_window_extent()
            inside = (
                box.x0 >= page.x0 - 1
                and box.x1 <= page.x1 + 1
                and box.y0 >= page.y0 - 1
                and box.y1 <= page.y1 + 1
            )
            assert inside, (text.get_text(), box)
    assert any(axes.get_xlabel().endswith(("(s)", "(s), log scale")) for axes in chart.axes)
    assert chart.alt.endswith(".")


@pytest.mark.parametrize("name", CHARTS)
def test_the_quick_picture_is_the_real_one_to_the_eye(name: str) -> None:
    def cells(png: bytes) -> np.ndarray:
        """Mean grey of squares of 16 pixels: letters may sit a fraction of a pixel apart."""
        grey = np.asarray(Image.open(io.BytesIO(png)).convert("L"), dtype=float)
        h, w = (n - n % 16 for n in grey.shape)
        return grey[:h, :w].reshape(h // 16, 16, w // 16, 16).mean(axis=(1, 3))

    real = cells(CHARTS[name]().to_bytes("png", dpi=120))
    silent = CHARTS[name]()
    for text in silent.findobj(Text):
        text.set_visible(False)
    difference = np.abs(cells(quick_png(CHARTS[name](), 120)) - real)
    without_text = np.abs(cells(quick_png(silent, 120)) - real)
    assert difference.mean() < without_text.mean() / 4
    assert difference.max() < 40 < without_text.max()


def test_the_quick_picture_of_an_empty_page_is_white() -> None:
    blank = Chart(1.0)
    empty = np.asarray(Image.open(io.BytesIO(quick_png(blank, 120))).convert("L"), dtype=float)
    assert (empty == 255).all()


def test_the_quick_picture_has_the_same_bytes_every_time_and_leaves_the_chart_alone() -> None:
    chart = CHARTS["gantt"]()
    real = chart.to_bytes("png")
    assert quick_png(chart, 90) == quick_png(CHARTS["gantt"](), 90)
    assert chart.to_bytes("png") == real


def test_the_description_travels_inside_the_files() -> None:
    chart = CHARTS["bars"]()
    assert Image.open(io.BytesIO(chart.to_bytes("png"))).info["Description"] == chart.alt
    text = "".join(ET.fromstring(chart.to_bytes("svg")).itertext())
    assert chart.alt in text


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format must be one of png, svg, pdf, got 'gif'"):
        CHARTS["bars"]().to_bytes("gif")


def test_names_are_never_read_as_mathematics() -> None:
    odd = {("$\\frac$", "$a$"): (1.0, 2.0), ("_b", "_c & <d>"): (2.0, 3.0), ("x" * 80, "$a$"): (1.0, 2.5)}
    svg = plots.latency_bars(table(odd)).to_bytes("svg")
    assert b"mathtext" not in svg
    shown = [t.get_text() for t in plots.latency_bars(table(odd)).findobj(Text)]
    assert any("a" in t and "$" in t for t in shown)


def test_the_readers_own_style_changes_nothing() -> None:
    plain_bytes = CHARTS["ecdf"]().to_bytes("png")
    with mpl.rc_context(
        {"font.size": 30, "axes.facecolor": "black", "text.parse_math": True, "axes.spines.top": True}
    ):
        assert CHARTS["ecdf"]().to_bytes("png") == plain_bytes
        assert mpl.rcParams["font.size"] == 30


def test_a_chart_shows_itself_as_an_image_with_its_alt_text() -> None:
    chart = CHARTS["bars"]()
    bundle = chart._repr_mimebundle_()
    assert f'alt="{chart.alt}"' in bundle["text/html"]
    assert bundle["text/plain"] == chart.alt
    assert bundle["image/png"] in bundle["text/html"]


def test_charts_do_not_touch_pyplot() -> None:
    import subprocess

    code = "import fairq.plots, sys; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (1.15, "1.15"),
        (31.94, "31.9"),
        (352.2, "352"),
        (12345, "12,300"),
        (9.999, "10.0"),
        (math.nan, "–"),
    ],
)
def test_numbers_have_three_digits(value: float, words: str) -> None:
    assert number(value) == words


def test_half_widths_share_the_values_decimals() -> None:
    assert plus_minus(31.94, 0.42) == "31.9 ±0.4"
    assert plus_minus(402.2, 16.24) == "402 ±16"
    assert plus_minus(31.94, 0.012) == "31.9"
    assert plus_minus(1147.3, 1e-9) == "1,150"


def test_ratios_are_told_in_words() -> None:
    assert ratio_words(32.0, 1.5) == "21.3× less"
    assert ratio_words(1.0, 1.4) == "1.40× more"
    assert ratio_words(1.0, 1.01) == "same"
    assert ratio_words(0.0, 1.0) == ""


def test_text_fits_where_it_is_put() -> None:
    long = "a long name that will not fit in there"
    assert text_width(shorten(long, 1.0, 9.0), 9.0) <= 1.0
    assert " ".join(wrap(long, 1.0, 9.0)) == long
    assert all(text_width(line, 9.0) <= 1.0 for line in wrap(long, 1.0, 9.0))


def test_an_empty_table_of_requests_is_refused() -> None:
    with pytest.raises(ValueError, match="no requests under policy 'FIFO'"):
        plots.slot_gantt({"FIFO": TWO_SLOTS.iloc[:0]})
    with pytest.raises(ValueError, match="window must be"):
        plots.slot_gantt({"FIFO": TWO_SLOTS}, window=(5, 5))


def test_a_tenant_called_others_is_not_counted_with_the_rest() -> None:
    frame = rows([(t, 0, 0, 1, 0) for t in ["others", "all others", *(f"t{i}" for i in range(10))]])
    frame["cost_estimate"] = [100, 90, *range(10)]
    rest = plots.rest_name(frame["tenant"])
    assert rest == "all others (2)"
    named = plots.top_tenants(frame, most=3)
    assert named == ["others", "all others", "t9"]
    folded = plots.fold_tenants(frame, named)
    assert folded["tenant"].value_counts().to_dict() == {"others": 1, "all others": 1, "t9": 1, rest: 9}
    looks = plots.tenant_styles(named, rest)
    assert list(looks) == [*named, rest]
    assert len({look.color for look in looks.values()}) == 4
    for styles in (None, looks):
        chart = plots.slot_gantt({"FIFO": frame}, styles=styles)
        words = [t.get_text() for t in chart.texts]
        assert words.count("others") == 1
        assert words.count(rest) == 1


def test_the_charts_know_how_many_are_enough():
    from fairq.metrics import enough
    from fairq.plots.bars import ENOUGH

    assert enough() == ENOUGH
