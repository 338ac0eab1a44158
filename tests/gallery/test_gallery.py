"""The gallery: the committed files are what the command makes, and what they show is true."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from typer.testing import CliRunner

from fairq.cli import app
from fairq.gallery import IDEAS, GalleryError, Idea, Made, idea_named, read_table
from fairq.gallery import page as pages
from fairq.gallery import waits as waits_
from fairq.gallery.core import csv_text, table_of
from fairq.gallery.index import anchor, index
from fairq.plots.style import PAD, WIDTH_IN, wrap

FIGURES = Path(__file__).parents[2] / "figures"
QUICK = (
    "weights_to_shares",
    "quantum_lag",
    "deficits",
    "wrong_estimates",
    "vtc_lift",
    "who_pays",
    "slots_over_time",
)
QUICK += ("caps_idle_slots", "starvation", "partition_memory", "saturation_verdicts")
names = [idea.name for idea in IDEAS]


def committed(name: str) -> pd.DataFrame:
    return read_table(FIGURES / f"{name}.csv")


def check_same(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    """Texts equal, numbers within a millionth (other versions of the libraries may round otherwise)."""
    pd.testing.assert_frame_equal(found, wanted, rtol=1e-6, atol=1e-9, check_dtype=False)


# -- the files ----------------------------------------------------------------------------------------------


def test_there_are_enough_and_each_has_its_files() -> None:
    assert 12 <= len(IDEAS) <= 20
    assert len(set(names)) == len(names)
    there = {path.name for path in FIGURES.iterdir() if path.is_file()}
    assert there == {f"{name}.{kind}" for name in names for kind in ("png", "svg", "csv")} | {"README.md"}
    for name in names:
        png = (FIGURES / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert 10_000 < len(png) < 150_000, name
        assert (FIGURES / f"{name}.svg").stat().st_size < 400_000, name


@pytest.mark.parametrize("name", QUICK)
def test_the_committed_data_are_what_comes_out(name: str) -> None:
    check_same(table_of(csv_text(idea_named(name).compute())), committed(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(names) - set(QUICK)))
def test_the_committed_data_of_the_others_are_what_comes_out(name: str) -> None:
    check_same(table_of(csv_text(idea_named(name).compute())), committed(name))


def test_the_command_makes_the_same_bytes_twice(tmp_path: Path) -> None:
    some = ["deficits", "quantum_lag"]
    for folder in ("a", "b"):
        done = CliRunner().invoke(app, ["figures", *some, "--out", str(tmp_path / folder)])
        assert done.exit_code == 0, done.output
    made = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert set(made) == {f"{name}.{kind}" for name in some for kind in ("png", "svg", "csv")}
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}


def test_the_command_lists_and_refuses(tmp_path: Path) -> None:
    listed = CliRunner().invoke(app, ["figures", "--list"])
    assert [line.split()[0] for line in listed.output.splitlines()] == names
    wrong = CliRunner().invoke(app, ["figures", "no_such", "--out", str(tmp_path / "x")])
    assert wrong.exit_code == 2
    assert "no figure 'no_such'; there are: fifo_or_fair" in wrong.output
    (tmp_path / "file").write_text("")
    blocked = CliRunner().invoke(app, ["figures", "deficits", "--out", str(tmp_path / "file")])
    assert blocked.exit_code == 2
    assert "cannot be written" in blocked.output


# -- every chart --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn() -> dict[str, object]:
    """Every chart, drawn from its committed table (which is quick)."""
    return {idea.name: idea.draw(committed(idea.name)) for idea in IDEAS}


@pytest.mark.parametrize("idea", IDEAS, ids=names)
def test_a_chart_names_its_axes_says_what_it_shows_and_stays_on_the_page(idea: Idea, drawn) -> None:
    chart = drawn[idea.name]
    assert chart.axes
    assert any(axes.get_xlabel() for axes in chart.axes)
    title = chart.data["title"]
    assert re.search(r"\d", title) or idea.name == "saturation_verdicts", "a title says the finding"
    assert len(wrap(title, WIDTH_IN - 2 * PAD, 11.5, "bold")) <= 2
    assert chart.alt.startswith(title)
    assert len(chart.alt) > len(title) + 40, "the alt text holds the numbers"
    canvas = FigureCanvasAgg(chart)
    canvas.draw()
    box, (width, height) = chart.get_tightbbox(canvas.get_renderer()), chart.get_size_inches()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= width
    assert box.y1 <= height
    texts = chart.findobj(match=lambda artist: bool(getattr(artist, "get_text", str)()))
    assert min(text.get_fontsize() for text in texts) >= 7.5


def test_a_title_is_read_off_the_data() -> None:
    """Change the data: the number in the title follows, or the chart refuses."""
    table = committed("who_pays")
    assert "31 s less" in idea_named("who_pays").draw(table).data["title"].replace("\u00a0", " ")
    table.loc[table["group"] == "small", "drr_wait_s"] += 450.0
    with pytest.raises(GalleryError, match="do not show"):  # nobody paid for that
        idea_named("who_pays").draw(table)
    table.loc[table["group"] == "noisy", "drr_wait_s"] -= 450.0
    assert "21 s less" in idea_named("who_pays").draw(table).data["title"].replace("\u00a0", " ")

    flat = committed("fifo_or_fair")
    columns = [c for c in flat.columns if c.startswith("latency")]
    flat.loc[flat["policy"] == "fair", columns] = flat.loc[flat["policy"] == "FIFO", columns].to_numpy()
    with pytest.raises(GalleryError, match="do not show"):
        idea_named("fifo_or_fair").draw(flat)


def test_the_index_shows_every_chart_with_its_text(drawn) -> None:
    text = (FIGURES / "README.md").read_text(encoding="utf-8")
    pictures = dict(re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text))
    assert sorted(pictures.values()) == sorted(f"{name}.png" for name in names)
    assert all(len(alt) > 60 for alt in pictures)
    headings = {anchor(line[3:]) for line in text.splitlines() if line.startswith("## ")}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) == headings
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (FIGURES / link).exists(), link
    # The best of them, in the README, with the same words.
    front = (FIGURES.parent / "README.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"!\[([^\]]*)\]\(figures/([^)]+)\)", front))
    assert len(shown) == 3
    assert all(pictures[alt] == name for alt, name in shown.items())
    # And the whole page is what the committed tables give.
    assert index([Made(idea, "", drawn[idea.name]) for idea in IDEAS]) == text


def test_labels_are_pushed_apart_and_stay_inside() -> None:
    assert pages.spread([5, 6, 30], 10, 0, 100) == [5, 15, 30]
    assert pages.spread([95, 99, 100], 10, 0, 100) == [80, 90, 100]
    assert pages.spread([], 10, 0, 100) == []
    assert (
        pages.unbroken("wait 31 s less, 60 % in round 2") == "wait 31\u00a0s less, 60\u00a0% in round\u00a02"
    )
    for color in ("#F0E442", "#E69F00", "#56B4E9"):  # light ones: 3:1 on white at least, as large text needs
        dark = pages.text_color(color)
        channels = [int(dark[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        assert 1.05 / (float(np.dot(linear, [0.2126, 0.7152, 0.0722])) + 0.05) > 3


# -- what they show, against what is known otherwise ---------------------------------------------------------


def test_erlang_c_by_the_recursion_of_erlang_b() -> None:
    """And tables: C(2, 1) = 1/3; M/M/1 waits ρ / (1 − ρ)."""
    for slots, load in ((1, 0.5), (2, 1.0), (8, 6.4), (12, 11.0)):
        blocked = 1.0
        for n in range(1, slots + 1):
            blocked = load * blocked / (n + load * blocked)
        wanted = blocked / (1 - load / slots * (1 - blocked))
        assert waits_.erlang_c(slots, load) == pytest.approx(wanted, rel=1e-12)
        assert waits_.mean_wait(slots, load / slots) == pytest.approx(wanted / (slots - load), rel=1e-12)
    assert waits_.erlang_c(2, 1.0) == pytest.approx(1 / 3)
    assert waits_.mean_wait(1, 0.8) == pytest.approx(4.0)
    # The quantile inverts P(W > t) = C·exp(−cμ(1 − ρ)t).
    at = waits_.wait_quantile(8, 0.8, 0.99)
    assert waits_.erlang_c(8, 6.4) * math.exp(-8 * 0.2 * at) == pytest.approx(0.01)


def test_gaps_of_cv_1_are_poisson_and_regular_ones_near_d_m_1() -> None:
    for busy in (0.3, 0.7, 0.9):
        assert waits_.gamma_wait(1.0, busy) == pytest.approx(busy / (1 - busy), rel=1e-9)
    # D/M/1: sigma = exp(−(1 − sigma)/rho) by plain iteration.
    sigma = 0.5
    for _ in range(500):
        sigma = math.exp(-(1 - sigma) / 0.7)
    assert waits_.gamma_wait(0.02, 0.7) == pytest.approx(sigma / (1 - sigma), rel=2e-3)


@pytest.mark.parametrize("name", ["hockey_stick", "bursty_or_poisson"])
def test_the_simulation_agrees_with_the_closed_form(name: str) -> None:
    """A 95 % interval misses now and then; six misses of twenty would be one chance in ten thousand."""
    table = committed(name)
    misses = (table["low"] > table["theory"]) | (table["high"] < table["theory"])
    assert misses.sum() < 0.3 * len(table)
    # And no mark is off by four half-widths.
    half = (table["high"] - table["low"]) / 2
    assert ((table["wait"] - table["theory"]).abs() < 4 * half).all()


def test_the_published_burst_moves_1392_seconds() -> None:
    """As the table of the README has it (and the bench computes)."""
    table = committed("who_pays").set_index("group")
    change = table["drr_wait_s"] - table["fifo_wait_s"]
    assert change["small"] == pytest.approx(-1392, abs=1)
    assert change.sum() == pytest.approx(0, abs=1e-6)
    assert list(table["requests"]) == [45, 1000]


def test_the_credit_is_the_hand_made_table() -> None:
    """Quantum 400; nightly six of 400, ana three of 200, ben 500 and 300: by hand."""
    table = committed("deficits")
    rows = {(r["round"], r["tenant"]): (r["had"], r["sent"], r["left"]) for r in table.to_dict("records")}
    assert rows == {
        **{(n, "nightly"): (0, 400, 0) for n in range(1, 7)},
        (1, "ana"): (0, 400, 0),
        (2, "ana"): (0, 200, 200),
        (1, "ben"): (0, 0, 400),
        (2, "ben"): (400, 800, 0),
    }


def test_shares_and_lags_are_those_of_the_formulas() -> None:
    shares = committed("weights_to_shares")
    assert (shares["share"] - shares["formula"]).abs().max() < 0.01
    assert shares.groupby("weight_of_ana")["share"].sum().to_numpy() == pytest.approx(1)
    lag = committed("quantum_lag")
    assert (lag["bound_tokens"] == lag["quantum"] + 700).all()
    assert (lag["lag_tokens"] < lag["bound_tokens"]).all()
    lies = committed("wrong_estimates")
    assert (lies["share_of_ben"] - lies["formula"]).abs().max() < 0.01


def test_the_halves_by_hand() -> None:
    """8B in bf16: 16.06 GB of weights; half of 23.5 GiB at 0.9 is 11.35 GB, so it cannot fit."""
    table = committed("partition_memory")
    half = table[(table["model"] == "llama31-8b") & (table["parts"] == 2)].iloc[0]
    assert half["weights_gb"] == pytest.approx(16.06, abs=0.01)
    assert half["part_gb"] * 0.9 == pytest.approx(11.35, abs=0.01)
    assert not half["fits"]
    whole = table[(table["model"] == "llama31-8b") & (table["parts"] == 1)].iloc[0]
    used = whole["weights_gb"] + whole["overhead_gb"] + whole["kv_gb"]
    assert used == pytest.approx(0.9 * whole["part_gb"], rel=1e-6)


def test_idle_slots_and_starvation_add_up() -> None:
    slots = committed("caps_idle_slots")
    groups = ["chat", "code", "notebook", "agent", "nightly"]
    assert (slots[groups].sum(axis=1) + slots["idle_while_waiting"] <= 8 + 1e-6).all()
    # Work is conserved: the same requests hold slots for the same time under both.
    held = slots[slots["policy"] == "fair"][groups].sum()
    assert held["nightly"] == pytest.approx(slots[slots["policy"] == "capped"]["nightly"].sum(), rel=1e-9)
    waiting = committed("starvation")
    strict = waiting[waiting["policy"] == "strict priority"]
    aged = waiting[waiting["policy"] == "ageing 600 s"]
    assert strict["waiting"].iloc[-1] > 0
    # Dumped at 60 s with ageing 600: who came first has begun by then, but for the chat that was ahead.
    assert 600 < aged.loc[aged["waiting"] > 0, "t"].max() < 60 + 600 + 600
