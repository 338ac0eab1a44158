"""From a promise to a setting: a case worked out by hand, every way in and out, and what is typed."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from fairq.cli import app
from fairq.files import InputError
from fairq.lab import find
from fairq.scenario import Scenario, load_policy
from fairq.sim import simulate
from fairq.tune import Tuning, decide, parse_targets, settings, tune
from fairq.tune.alone import alone
from fairq.tune.cells import Cell, parties, run_cell
from fairq.tune.howto import how_to
from fairq.tune.report import how_to_text
from fairq.tune.target import Target
from fairq.tune.words import records

ONE_TOKEN = {"prompt_tokens": 0, "output_tokens": 1}
HAND = {
    "name": "by hand",
    "horizon_s": 10,
    "engine": {"kind": "slots", "slots": 1, "prefill_tokens_per_s": 1, "decode_tokens_per_s": 1},
    "tenants": {
        "batch": {"arrivals": {"kind": "dump", "at_s": 0, "requests": 20}, **ONE_TOKEN},
        "chat": {"arrivals": {"kind": "dump", "at_s": 0.5, "requests": 1}, **ONE_TOKEN},
    },
    "policies": {"FIFO": {"policy": "fifo"}, "fair": {"policy": "drr", "quantum": 1}},
}  # fmt: skip
"""Twenty jobs of one second at 0 on one slot, and one chat request at 0.5."""


def hand(**changes: Any) -> Scenario:
    return Scenario.from_data(HAND).with_(changes)


def tuned(target: str = "chat max wait < 2 s", **options: Any) -> Tuning:
    given: dict[str, Any] = {"families": ["as written", "shares"], "jobs": 1} | options
    return tune(hand(), target, **given)


# -- by hand --------------------------------------------------------------------------------------------


def test_of_equal_prices_the_one_that_is_there_already_is_named_and_the_help_says_so() -> None:
    """fair, as written, serves chat second: the batch ends at 1, 3, 4 … 21; VTC third, at 1, 2, 4 … 21."""
    made = tuned()
    price = made.table.set_index("setting")["price"]
    today = sum(range(1, 21))
    assert price["fair"] == pytest.approx((1 + sum(range(3, 22))) / today)
    assert price["VTC"] == pytest.approx((1 + 2 + sum(range(4, 22))) / today)
    assert price["VTC"] < price["fair"] < 1.02 * price["VTC"]
    assert made.chosen is not None
    assert made.chosen.name == "fair"
    said = "Prices within 2 % count as the same: of those it names the setting with the least to set up"
    shown = CliRunner().invoke(app, ["tune", "--help"], env={"COLUMNS": "200"}).output
    for text in (" ".join(shown.split()), find.HELP):
        assert f"{said}, such as one that is in the" in text


def test_the_setting_its_figures_and_its_price_by_hand() -> None:
    made = tuned()
    today, fair = made.row(made.today), made.row(made.settings[1])
    assert (made.today.name, today["value"], today["verdict"], today["price"]) == (
        "FIFO",
        19.5,
        "misses",
        1.0,
    )
    # The first job runs to 1, then chat, then the other nineteen, each one second later than under FIFO.
    assert (fair["value"], fair["verdict"], fair["payer"]) == (0.5, "meets", "batch")
    assert fair["price"] == pytest.approx((1 + sum(range(3, 22))) / sum(range(1, 21)), rel=1e-12)
    assert made.chosen is not None
    assert made.row(made.chosen)["value"] == 0.5
    paid = {row["party"]: row for row in records(made.payers) if row["setting"] == "fair"}
    assert (paid["batch"]["before"], paid["batch"]["after"]) == (10.5, 11.45)
    assert (paid["chat"]["before"], paid["chat"]["after"]) == (20.5, 1.5)
    assert paid["chat"]["promised"]
    assert not paid["batch"]["promised"]


def test_the_slots_it_would_take_by_hand() -> None:
    # With k slots chat starts at second ⌊20/k⌋; below 2.5 from k = 7 on.
    (today,) = tuned().capacity
    assert (today.setting, today.now, today.slots) == ("FIFO", 1, 7)


def test_less_demand_is_less_of_everything() -> None:
    scenario = Scenario.load("noisy_burst")
    half = decide._demand(scenario, 0.5)
    assert half.tenants["nightly"].arrivals.data()["requests"] == 150
    assert half.tenants["chat"].arrivals.data()["rate_per_s"] == 0.05
    assert half.tenants["agent"].arrivals.data()["rate_per_s"] == 3


def test_where_the_kv_cache_binds_no_slots_are_advised() -> None:
    made = tuned(kv_tokens=50)
    (today,) = made.capacity
    assert (today.now, today.slots) == (None, None)
    text = " ".join(made.lines())
    assert "The KV cache binds, not slots: its 50 tokens hold 1 of these requests" in text
    assert "it would take" not in text
    assert "-np 1 -c 50 " in made.html()


def test_where_nothing_reaches_it_the_nearest_and_the_slots_are_named() -> None:
    made = tuned("chat max wait < 0.4 s")
    assert made.chosen is None
    best, today = made.capacity
    # Only a free slot at 0.5 s would do: the 21st, more than 16 times those there are.
    assert (best.slots, today.slots) == (None, None)
    first = made.lines()[0]
    assert first.startswith("None of ")
    assert "0.500 s" in first
    assert any("not even 16 slots would do" in line for line in made.lines())


def test_a_promise_that_holds_already_is_left_alone() -> None:
    made = tuned("chat max wait < 60 s")
    assert made.chosen == made.today
    assert made.lines()[0].startswith("Leave it: 'FIFO' already reaches")


def test_two_promises_must_both_hold() -> None:
    both = tuned("chat max wait < 2 s and batch max latency < 20.5 s")
    assert both.chosen is None, "the last of the batch ends at 20 only where chat waits"
    assert tuned("chat max wait < 2 s and batch max latency < 21.5 s").chosen is not None


def test_each_means_the_worst_tenant() -> None:
    made = tuned("each max wait < 15 s")
    assert made.row(made.today)["value"] == 19.5
    everybody = tuned("all p50 wait < 15 s")
    assert everybody.row(everybody.today)["value"] == pytest.approx(np.median([*range(20), 19.5]))


def test_a_request_that_is_never_served_is_infinitely_late() -> None:
    scenario = hand(
        policies={"none": {"policy": "caps", "per_key": {"chat": 0}, "around": {"policy": "fifo"}}}
    )
    made = tune(scenario, "chat p50 wait < 2 s", families=["as written"], jobs=1, capacity=False)
    assert made.row(made.today)["value"] == math.inf
    assert made.row(made.today)["verdict"] == "misses"
    assert "never served" in made.lines()[0]


# -- statistics -----------------------------------------------------------------------------------------


def test_a_cells_figures_are_numpys() -> None:
    scenario = Scenario.load("noisy_burst").with_({"horizon_s": 120})
    whose, payers = parties(scenario, parse_targets("chat p95 ttft < 2 s"))
    assert payers == ["code", "notebook", "agent", "nightly"]
    setting = settings(scenario, parse_targets("chat p95 ttft < 2 s"))[0]
    row = run_cell(Cell(setting.scenario(scenario), 1, whose, ("p95", "mean", "max")))
    result = simulate(
        scenario.workload(), scenario.policy("FIFO"), scenario.engine(), seed=scenario.seed, replication=1
    )
    chat = result.requests[result.requests["group"] == "chat"]["ttft"].to_numpy(dtype=float)
    assert row["parties"]["chat"]["ttft"]["p95"] == pytest.approx(np.percentile(chat, 95), rel=1e-12)
    assert row["parties"]["chat"]["ttft"]["mean"] == pytest.approx(chat.mean(), rel=1e-12)
    assert row["parties"]["chat"]["n"] == len(chat)


def test_common_random_numbers_and_intervals() -> None:
    scenario = Scenario.load("noisy_burst").with_({"horizon_s": 100})
    families = ["as written"]
    made = tune(scenario, "chat p99 ttft < 2 s", families=families, replications=3, jobs=1, capacity=False)
    # Every setting met the same requests, so "before" is one number per party.
    assert made.payers.groupby("party")["before"].nunique().max() == 1
    row = made.row(made.settings[3])
    runs = [
        simulate(
            scenario.workload(), scenario.policy("fair"), scenario.engine(), seed=scenario.seed, replication=r
        ).latency("group")
        for r in range(3)
    ]
    values = [float(table.loc["chat", "ttft_p99"]) for table in runs]
    # t(0.975, 2) = 4.3027 (any table).
    half = 4.302653 * np.std(values, ddof=1) / math.sqrt(3)
    assert row["value"] == pytest.approx(np.mean(values))
    assert row["high"] - row["value"] == pytest.approx(half, rel=1e-5)
    assert row["low"] == max(row["value"] - (row["high"] - row["value"]), 0)


def test_meets_means_the_whole_interval() -> None:
    target = Target("chat", "p99", "ttft", 2.0)

    def verdict(*values: float, certain: bool = False) -> str:
        runs = [{"parties": {"chat": {"n": 1, "ttft": {"p99": value}}}} for value in values]
        return str(decide._kept(target, runs, certain)["verdict"])

    assert verdict(1.0, 1.1, 0.9) == "meets"
    assert verdict(1.0, 1.9, 2.5) == "perhaps"
    assert verdict(2.0, 2.1, 2.2) == "misses"
    assert verdict(1.9, certain=True) == "meets", "a replay is all there is"
    assert verdict(1.9) == "perhaps", "one run of many that might have been"


def test_no_time_is_negative() -> None:
    target = Target("chat", "p99", "ttft", 60.0)
    runs = [{"parties": {"chat": {"n": 1, "ttft": {"p99": value}}}} for value in (0.1, 0.2, 9.0)]
    kept = decide._kept(target, runs, certain=False)
    # Mean 3.1, standard error 2.95: half of the interval is 4.30 times that.
    assert kept["value"] == pytest.approx(3.1)
    assert kept["low"] == 0
    assert kept["high"] == pytest.approx(3.1 + 4.302653 * 2.950141, rel=1e-5)


def test_the_payer_is_named_also_where_that_is_not_sure() -> None:
    made = replace(tuned(), runs=3)
    row = {"setting": "fair", "promised": False, "n": 5, "p99_before": 1.0, "p99_after": 1.0}
    chat = {**row, "party": "chat", "promised": True, "before": 9.0, "after": 1.0, "difference": -8.0}
    unsure = {
        **row,
        "party": "ben",
        "before": 1.0,
        "after": 5.0,
        "difference": 4.0,
        "low": -2.0,
        "high": 10.0,
    }
    surely = {**row, "party": "eva", "before": 1.0, "after": 2.0, "difference": 1.0, "low": 0.5, "high": 1.5}
    once = {**row, "party": "kim", "before": 1.0, "after": 4.0, "difference": 3.0}
    once |= {"low": math.nan, "high": math.nan}

    def paid(payer: str, *rows: dict[str, Any]) -> str:
        table = made.table.assign(payer=payer)
        (line,) = [
            line
            for line in replace(made, payers=pd.DataFrame([chat, *rows]), table=table).lines()
            if line.startswith("Who pays")
        ]
        return line.removeprefix("Who pays (mean latency): ")

    assert paid("ben", unsure, surely) == (
        "ben 1.00 → 5.00 s (5.00× more, +4 ±6.00 s, not sure); eva 1.00 → 2.00 s (2.00× more, +1 ±0.500 s)."
    )
    assert paid("eva", surely, {**unsure, "after": 1.5}) == "eva 1.00 → 2.00 s (2.00× more, +1 ±0.500 s)."
    assert paid("kim", once) == "kim 1.00 → 4.00 s (4.00× more, not sure: too few runs with it)."


def test_the_front_is_what_nothing_beats() -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    x, y = rng.integers(0, 6, 40).astype(float), rng.integers(0, 6, 40).astype(float)
    points = list(zip(x, y, strict=True))
    front = {point for point, kept in zip(points, decide._front(x, y), strict=True) if kept}
    for (a, b), (c, d) in product(front, points):
        assert not (c <= a and d <= b and (c < a or d < b))
    for a, b in set(points) - front:
        assert any(c <= a and d <= b for c, d in front)


# -- targets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("chat p99 ttft < 2 s", Target("chat", "p99", "ttft", 2.0)),
        ("chat p99 ttft<2s", Target("chat", "p99", "ttft", 2.0)),
        ("p50 latency <= 500 ms", Target("all", "p50", "latency", 0.5, or_equal=True)),
        ("my team p99.9 wait < 1.5 min", Target("my team", "p99.9", "wait", 90.0)),
        ("'p99 people' mean latency < 1 h", Target("p99 people", "mean", "latency", 3600.0)),
        ("each MAX Wait < 3 s", Target("each", "max", "wait", 3.0)),
        ("chat median ttft < 2 s", Target("chat", "p50", "ttft", 2.0)),
    ],
)
def test_the_grammar(text: str, target: Target) -> None:
    assert parse_targets(text) == [target]


def test_and_joins_promises_but_not_names() -> None:
    found = parse_targets("search and rescue p99 ttft < 2 s and chat p50 wait < 100 ms")
    assert [(t.who, t.bound_s) for t in found] == [("search and rescue", 2.0), ("chat", 0.1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chat p99 ttft 2 s", "there is no <"),
        ("chat p99 ttft > 2 s", "a promise is an upper bound: write <"),
        ("chat ttft < 2 s", "no statistic (p99, p50, mean, max) in 'chat ttft'"),
        ("chat p99 ttfl < 2 s", "'ttfl' is not one of wait, ttft, latency; did you mean 'ttft'?"),
        ("chat p99 ttft < 2", "the unit must be one of ms, s, min, h, there is none"),
        ("chat p99 ttft < 2 days", "the unit must be one of ms, s, min, h, got 'days'"),
        ("chat p99 ttft < fast", "no number after <, got 'fast'"),
        ("chat p99 ttft < -2 s", "the bound must be a number > 0, got '-2'"),
        ("chat p99 ttft < 0 s", "the bound must be a number > 0, got '0'"),
        ("chat p100 ttft < 2 s", "a percentile lies between 0 and 100, got 'p100'"),
        ("", "there is no <"),
    ],
)
def test_what_is_wrong_with_a_target_is_said(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_targets(text)
    assert message in str(error.value)


def test_a_target_for_nobody_is_said() -> None:
    with pytest.raises(
        InputError, match=r"no tenant or group 'chta' \(there are batch, chat\); did you mean 'chat'"
    ):
        tuned("chta p99 ttft < 2 s")


# -- what comes out -------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Collects what a page would load, and its pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.pictures: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.loads += [str(given[name]) for name in ("src", "href") if name in given]
        if tag == "img":
            self.pictures.append(str(given.get("alt")))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_files_and_the_page(tmp_path: Path) -> None:
    made = tuned()
    paths = {path.name for path in made.save(tmp_path)}
    assert paths == {
        *("report.html", "pareto.png", "pareto.svg", "who_pays.png", "who_pays.svg", "policy.yaml"),
        *("settings.csv", "payers.csv", "how_to_type_it.md", "asyncio_gateway.py"),
    }
    page = Page()
    page.feed((tmp_path / "report.html").read_text())
    page.close()
    assert not page.open
    assert all(address.startswith("data:image/png;base64,") for address in page.loads), (
        "nothing from elsewhere"
    )
    assert len(page.pictures) == 2
    assert "2 of" not in page.pictures[0] or "settings reach chat max wait < 2 s" in page.pictures[0]
    assert "batch: 10.5 → 11.4" in page.pictures[1]
    assert made._repr_html_().startswith("<style>")


def test_names_are_escaped(tmp_path: Path) -> None:
    data = json.loads(json.dumps(HAND).replace('"batch"', '"<b>&\\"$x$"'))
    made = tune(
        Scenario.from_data(data), "chat max wait < 2 s", families=["as written"], jobs=1, capacity=False
    )
    assert "<b>&" not in re.sub(r"<style>.*?</style>", "", made.html(), flags=re.DOTALL)
    page = Page()
    page.feed(made.html())


def test_the_policy_file_loads_back_to_the_same_schedule(tmp_path: Path) -> None:
    made = tuned()
    made.save(tmp_path)
    scenario = made.scenario
    workload = scenario.workload()
    again = simulate(workload, load_policy(tmp_path / "policy.yaml", workload), scenario.engine()).requests
    chat = again[again["tenant"] == "chat"]
    assert float(chat["wait"].iloc[0]) == 0.5
    assert (tmp_path / "policy.yaml").read_text().startswith("# Apply '")


@pytest.mark.parametrize(
    "policy",
    [
        {"policy": "drr", "quantum": 500, "weights": {"chat": 8}},
        {"policy": "caps", "groups": {"others": {"keys": ["agent", "nightly"], "limit": 2}},
         "per_key": {"agent": 1}, "around": {"policy": "vtc", "weights": {"code": 3}}},
        {"policy": "floors", "slots": 8, "floors": {"chat": {"keys": ["chat"], "slots": 2}},
         "around": {"policy": "fifo"}},
        {"policy": "nested", "branches": {"people": ["chat", "code"]}, "weights": {"people": 2},
         "inside": {"policy": "vtc"}},
        {"policy": "levels", "levels": {0: {"policy": "drr", "quantum": 500}, 1: {"policy": "fifo"}}},
    ],
)  # fmt: skip
def test_a_policy_that_stands_alone_is_the_same(policy: dict[str, Any], tmp_path: Path) -> None:
    scenario = Scenario.load("noisy_burst").with_({"horizon_s": 90, "policies": {"it": policy}})
    workload = scenario.workload()
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(alone(policy, workload)))
    runs = [
        simulate(workload, it, scenario.engine(), seed=3) for it in (scenario.policy("it"), load_policy(path))
    ]
    assert runs[0].requests.equals(runs[1].requests)
    if policy["policy"] != "levels":
        as_written = tmp_path / "written.yaml"
        as_written.write_text(yaml.safe_dump(policy))
        other = simulate(workload, load_policy(as_written), scenario.engine(), seed=3)
        assert not runs[0].requests.equals(other.requests), "names of groups say nothing without the tenants"


def test_the_points_of_the_chart_are_the_table() -> None:
    from fairq.tune.charts import pareto, who_pays

    made = tuned()
    chart = pareto(made)
    assert [point[0] for point in chart.data["points"]] == made.table["setting"].tolist()
    assert "chat max wait < 2 s" in chart.alt
    assert who_pays(made).data["parties"]["batch"] == (10.5, 11.45)
    assert chart.to_bytes("svg") == pareto(made).to_bytes("svg")


def test_every_name_in_the_chart_is_tied_to_its_own_mark() -> None:
    from fairq.tune.charts import pareto

    # Marks as close as those of a real tuning: their names once stood beside each other's.
    made = tuned()
    of_target = [14.0, 0.68, 0.61, 0.63, 0.632, 0.645, 0.66]
    price = [1.0, 1.52, 6.50, 5.78, 3.02, 2.24, 2.07]
    names = ["FIFO", "fair", *(f"all but chat capped at {n} together, then DRR" for n in range(2, 7))]
    table = pd.DataFrame(
        {
            **{"setting": names, "of_target": of_target, "price": price, "front": True, "verdict": "meets"},
            **{"value": of_target, "low": np.array(of_target) * 0.9, "high": np.array(of_target) * 1.1},
        }
    )
    settings_ = [replace(made.settings[0], name=name) for name in names]
    chart = pareto(replace(made, table=table, settings=settings_, chosen=settings_[1]))
    chart.to_bytes("png")
    (axes,) = chart.axes
    pixels = {
        n: axes.transData.transform((x * 2.0, y)) for n, x, y in zip(names, of_target, price, strict=True)
    }
    texts = {text.get_gid(): text.get_window_extent() for text in axes.texts}
    lines = {line.get_gid(): line for line in axes.lines if str(line.get_gid()).startswith("line to")}
    assert {"FIFO", "fair"} <= set(texts)
    assert len(texts) >= 5
    for name, box in texts.items():
        (from_x, to_x), (from_y, to_y) = lines[f"line to {name}"].get_data()
        start, end = axes.transAxes.transform([(from_x, from_y), (to_x, to_y)])
        assert start == pytest.approx(pixels[name], abs=1.0), "it begins at its own mark"
        assert min(abs(end[0] - box.x0), abs(end[0] - box.x1)) < 10, "and ends beside its own name"
        assert box.y0 - 3 < end[1] < box.y1 + 3
        assert not any(box.contains(*mark) for mark in pixels.values()), "no mark below a name"
        assert not any(box.overlaps(other) for who, other in texts.items() if who != name)


# -- how to type it -------------------------------------------------------------------------------------

FIFO = {"policy": "fifo"}


def typed(
    policy: dict[str, Any], keys: dict[str, tuple[str, ...]] | None = None
) -> dict[str, tuple[str, str]]:
    return {each.tool: (each.text, "\n".join(each.cannot)) for each in how_to(policy, 8, keys)}


def test_fifo_is_what_they_all_do() -> None:
    made = typed(FIFO)
    assert made["vLLM"][0] == "vllm serve MODEL --max-num-seqs 8 --scheduling-policy fcfs"
    assert "-np 8 -c 65536" in made["llama.cpp"][0]
    assert "limit_conn all 8;" in made["nginx"][0]
    assert "shares" not in "".join(cannot for _, cannot in made.values())


def test_a_program_that_says_it_all_is_said_to() -> None:
    text = how_to_text(how_to(FIFO, 8))
    assert "Cannot express:\n\n\n" not in text
    assert "This expresses all of the setting." in text


def test_the_context_to_type_is_the_kv_cache_there_is() -> None:
    made = {each.tool: each for each in how_to(FIFO, 37, None, 41408)}["llama.cpp"]
    assert "-np 37 -c 41408 " in made.text
    assert "1,119 each" in made.text
    assert any("more than 1,119 tokens" in each for each in made.cannot)
    assert made.cannot[0] == "any order but first come, first served"


def test_caps_per_key() -> None:
    made = typed(
        {"policy": "caps", "default": 2, "per_key": {"nightly": 1}, "around": FIFO}, {"nightly": ("k1", "k2")}
    )
    assert "limit_conn per_key 2;" in made["nginx"][0]
    assert '{"max_parallel_requests": 2}' in made["LiteLLM proxy"][0]
    assert '{"key": "k2", "max_parallel_requests": 1}' in made["LiteLLM proxy"][0]
    assert "refused (429)" in made["LiteLLM proxy"][1]
    assert "how many requests of one key run at once" in made["vLLM"][1]
    assert "refused, not queued" in made["nginx"][1]


def test_a_group_has_a_deployment_of_its_own() -> None:
    policy = {"policy": "caps", "groups": {"others": {"keys": ["batch"], "limit": 3}}, "around": FIFO}
    made = typed(policy, {"batch": ('sk-"1', "sk-2")})
    config = yaml.safe_load(made["LiteLLM proxy"][0])
    assert [each["litellm_params"]["max_parallel_requests"] for each in config["model_list"]] == [8, 3]
    assert "map $http_authorization $group_1 {" in made["nginx"][0]
    assert r'"Bearer sk-\"1"  1;' in made["nginx"][0]
    assert "limit_conn group_1 3;" in made["nginx"][0]
    assert made["nginx"][0].count("{") == made["nginx"][0].count("}")


def test_priorities_and_what_ageing_loses() -> None:
    made = typed({"policy": "priority", "ageing_s": 600})
    assert "--scheduling-policy priority" in made["vLLM"][0]
    assert "ageing (600 s of waiting worth a level)" in made["vLLM"][1]
    assert "ageing" not in typed({"policy": "priority", "ageing_s": None})["vLLM"][1]
    assert "priority levels" in made["llama.cpp"][1]


@pytest.mark.parametrize("kind", ["drr", "vtc", "sfq"])
def test_shares_are_in_none_of_them(kind: str) -> None:
    policy = {"policy": kind, "weights": {"chat": 4}} | ({"quantum": 500} if kind == "drr" else {})
    for text, cannot in typed(policy).values():
        assert "fair shares" in cannot
        assert "weights chat 4" in cannot
        assert text


@pytest.mark.parametrize("target", ["chat p99 ttft < 2 s", "each p99 ttft < 2 s"])
def test_every_setting_tried_can_be_typed_and_loads(target: str) -> None:
    scenario = Scenario.load("noisy_burst")
    tried = settings(scenario, parse_targets(target))
    assert len(tried) > 25
    assert len({each.name for each in tried}) == len(tried)
    for each in tried:
        each.scenario(scenario).policy("tuned")
        assert len(how_to(each.policy, 8)) == 4


# -- the command ----------------------------------------------------------------------------------------


def call(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["tune", *map(str, arguments)], terminal_width=200)
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    return hand().dump(tmp_path / "hand.yaml")


ONLY = ("--try", "as written", "--jobs", "1")


def test_the_command(scenario_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = call(scenario_file, "--target", "chat max wait < 2 s", "--out", out, *ONLY)
    assert "Apply 'fair': it reaches chat max wait < 2 s with 0.500 s" in text
    assert "With 'FIFO' it would take 7 slots (there are 1)." in text
    assert {"report.html", "policy.yaml", "journal.jsonl", "scenario.yaml"} <= {p.name for p in out.iterdir()}
    document = json.loads(
        call(scenario_file, "--target", "chat max wait < 2 s", "--out", out, "--resume", "--json", *ONLY)
    )
    assert (document["setting"], document["meets"]) == ("fair", True)
    assert document["policy"] == {"policy": "drr", "quantum": 1}
    before = (out / "journal.jsonl").read_bytes()
    call(
        scenario_file, "--target", "chat max wait < 2 s", "--out", out, "--backend", "dusk://x", *ONLY, code=2
    )
    assert (out / "journal.jsonl").read_bytes() == before
    call(scenario_file, "--target", "chat max wait < 2 s", "--out", out, *ONLY)
    assert (out / "journal.jsonl.bak").read_bytes() == before


def test_stopping_says_how_to_go_on(
    scenario_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = decide.run_cell, []

    def stops_at_the_second(cell: Cell) -> dict[str, Any]:
        calls.append(cell)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(cell)

    monkeypatch.setattr(decide, "run_cell", stops_at_the_second)
    out = tmp_path / "out"
    arguments = (scenario_file, "--target", "chat max wait < 2 s", "--out", out, *ONLY)
    assert "the same call with --resume goes on" in call(*arguments, code=130)
    assert len((out / "journal.jsonl").read_text().splitlines()) == 1
    assert "Apply 'fair'" in call(*arguments, "--resume")
    with_slots = [cell.scenario.spec for cell in calls]
    assert with_slots.count(calls[0].scenario.spec) == 1, "the one that was kept"
    assert with_slots.count(calls[1].scenario.spec) == 2, "the one that was stopped"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "chat p99 < 2 s"], "none of wait, ttft, latency in 'chat p99'"),
        (["--target", "chat p99 ttft < 2 s", "--try", "magic"], "--try must be one of as written, fifo"),
        (
            ["--target", "chat p99 ttft < 2 s", "--today", "x"],
            "policies: no policy 'x'; there are: FIFO, fair",
        ),
        (["--target", "chat p99 ttft < 2 s", "--users", "2"], "--users needs --fit"),
        (
            ["--target", "chat p99 ttft < 2 s", "--replications", "3"],
            "replications must be 1 where nothing is",
        ),
        (["--target", "chat p99 ttft < 2 s", "--backend", "slurm"], "--backend must be dask://HOST:PORT"),
    ],
)
def test_bad_input_is_one_line(
    scenario_file: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    text = call(scenario_file, *arguments, "--out", tmp_path / "out", code=2)
    assert message in text
    assert text.count("\n") == 1


# -- a log ----------------------------------------------------------------------------------------------


def test_a_log_is_one_complete_replay(tmp_path: Path) -> None:
    rows = "".join(f"{i * 0.01:.2f},noisy,1,30\n" for i in range(60)) + "0.3,small,1,30\n"
    log = tmp_path / "log.csv"
    log.write_text("arrived_s,tenant,input_tokens,output_tokens\n" + rows)
    scenario = Scenario.from_log(log)
    made = tune(scenario, "small p99 ttft < 2 s", families=["as written"], jobs=1, capacity=False)
    assert made.replay
    assert made.requests == 61
    assert made.table["low"].isna().all(), "a replay has no interval"
    assert made.chosen is not None
    assert made.row(made.chosen)["verdict"] == "meets"
    assert made.check is not None, "a model fitted to the log has one"
    assert made.check.set_index("setting").loc[made.chosen.name, "verdict"] == "meets"
    assert made.check["low"].notna().all()
    assert made.lines()[-1].startswith("One complete replay, n = 61 requests: facts of this run")


def by_log_and_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policies: list[str]) -> Tuning:
    """Twenty jobs of ten seconds and one chat request of five; in the model of it that one takes twelve."""
    log = tmp_path / "log.csv"
    rows = "0,batch,0,10\n" * 20 + "5,chat,0,5\n"
    log.write_text("arrived_s,tenant,input_tokens,output_tokens\n" + rows)
    known = {
        "FIFO": {"policy": "fifo"},
        "short": {"policy": "shortest"},
        "fair": {"policy": "drr", "quantum": 10},
    }
    changes = {"engine": HAND["engine"], "policies": {name: known[name] for name in policies}}
    ten, twelve = ({"prompt_tokens": 0, "output_tokens": n} for n in (10, 12))
    tenants = {
        "batch": {"arrivals": {"kind": "dump", "at_s": 0, "requests": 20}, **ten},
        "chat": {"arrivals": {"kind": "dump", "at_s": 5, "requests": 1}, **twelve},
    }
    model = hand(tenants=tenants, **changes)
    monkeypatch.setattr(Scenario, "fitted", lambda scenario: model)
    scenario = Scenario.from_log(log).with_(changes)
    return tune(scenario, "chat max wait < 60 s", families=["as written"], jobs=1, capacity=False)


def test_what_the_model_of_a_log_does_not_hold_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = by_log_and_model(tmp_path, monkeypatch, ["FIFO", "short", "fair"])
    # In the log chat is the shortest and waits 5 s; in the model it is the longest, and waits for all twenty.
    assert [(row["setting"], row["value"]) for row in records(made.table)][:2] == [
        ("FIFO", 195),
        ("short", 5),
    ]
    assert made.check is not None
    checked = {row["setting"]: (row["value"], row["verdict"]) for row in records(made.check)}
    assert checked["short"] == (195, "misses")
    assert checked["fair"][1] == "meets"
    assert made.chosen is not None
    assert made.chosen.name == "fair"
    assert made.lines()[0].startswith("Apply 'fair'")
    assert "But" not in made.lines()[0]
    assert any(line.startswith("Passed over: 'short', 5.00 s in the replay") for line in made.lines())


def test_a_promise_that_the_model_of_a_log_breaks_is_said_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = by_log_and_model(tmp_path, monkeypatch, ["FIFO", "short"])
    assert made.chosen is not None
    assert made.chosen.name == "short"
    assert made.lines()[0].endswith("But that is this log alone: on a model fitted to it not, 195 s.")
    assert "But that is this log alone" in made.html()


def test_the_engine_a_log_shows_serves_it_as_it_was_served() -> None:
    """A real vLLM run on an RTX 4090: the model of the box replays its own latencies."""
    from fairq.tune.engine import engine_of

    path = Path(__file__).parents[2].parent / "shared" / "traces" / "vllm_rtx4090_llama31_8b_requests.jsonl"
    if not path.exists():
        pytest.skip("no local copy of the real run")
    scenario = Scenario.from_log(path)
    log = scenario.read()
    seen = engine_of(log)
    assert seen is not None
    assert log.served is not None
    same = scenario.with_({"engine": seen.data})
    rows = simulate(same.workload(), same.policy("FIFO"), same.engine()).requests
    real = (log.served["finish"] - log.served["arrival"]).to_numpy()
    model = rows["latency"].to_numpy(dtype=float)
    assert model.mean() == pytest.approx(real.mean(), rel=0.05)
    for q in (50, 90, 99):
        assert np.percentile(model, q) == pytest.approx(np.percentile(real, q), rel=0.1)


def test_a_run_bound_by_its_kv_cache_gets_no_advice_of_slots() -> None:
    from fairq.tune.engine import as_served

    path = Path(__file__).parents[2].parent / "shared" / "traces" / "vllm_rtx4090_llama31_8b_requests.jsonl"
    if not path.exists():
        pytest.skip("no local copy of the real run")
    scenario = as_served(Scenario.from_log(path))
    made = tune(scenario, "all p99 ttft < 30 s", families=["as written"], jobs=1)
    # num_kv_tokens of its meta file.
    assert made.kv_tokens == 41408
    text = " ".join(made.lines())
    assert "The KV cache binds, not slots: its 41,408 tokens" in text
    assert "it would take" not in text
    assert "-c 41408 " in made.html()
    slower = scenario.with_({"engine.slots": 30})
    assert tune(slower, "all p99 ttft < 30 s", families=["as written"], jobs=1).kv_tokens is None


def test_a_log_without_ends_shows_no_engine(tmp_path: Path) -> None:
    from fairq.tune.engine import engine_of

    log = tmp_path / "log.csv"
    log.write_text("arrived_s,tenant,input_tokens,output_tokens\n0,a,1,1\n1,a,1,1\n")
    assert engine_of(Scenario.from_log(log).read()) is None


def test_a_policy_file_is_run_beside_the_chosen_policy(scenario_file: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("policy: vtc\n")
    words = ["run", str(scenario_file), "--policy", "FIFO", "--policy-file", str(own), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert list(json.loads(done.stdout)["policies"]) == ["FIFO", "own"]
