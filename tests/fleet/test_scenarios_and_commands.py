"""The presets, the tables made from them, the charts and the commands: the answers people came for."""

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from fairq.cli import app
from fairq.files import InputError
from fairq.memory import memory_rows
from fairq.models import load_model, model_names
from fairq.plots.engine import batch_chart
from fairq.plots.memory import memory_bars
from fairq.plots.partitions import partition_bars
from fairq.plots.routers import router_bars
from fairq.scenario import Scenario, ScenarioError
from fairq.scenario.alternatives import (
    card_ways,
    named_ways,
    router_choices,
    router_table,
    unfit_ways,
    unhealthy,
    way_table,
)
from fairq.sim import simulate

RUN = CliRunner()


@pytest.fixture(scope="module")
def ways() -> list[dict[str, Any]]:
    return way_table(Scenario.load("two_halves"))


@pytest.fixture(scope="module")
def routers() -> list[dict[str, Any]]:
    return router_table(Scenario.load("replicas"))


def cell(rows: list[dict[str, Any]], column: str, **where: str) -> Any:
    (found,) = [row[column] for row in rows if all(row[k] == v for k, v in where.items())]
    return found


# -- one engine or two halves? -----------------------------------------------------------------------------


def test_halves_are_slower_and_spare_the_neighbour(ways: list[dict[str, Any]]) -> None:
    one = {"way": "one engine", "policy": "fair"}
    assert cell(ways, "tokens_per_s", group="nightly", **one) > 1.4 * cell(
        ways, "tokens_per_s", group="nightly", way="MIG"
    )
    assert cell(ways, "latency_p50", group="chat", **one) < cell(ways, "latency_p50", group="chat", way="MIG")
    down = {(row["way"], row["group"]): row["down_s"] for row in ways}
    assert down["MIG", "chat"] == 0
    assert {way for (way, group), s in down.items() if group == "chat" and s} == {
        "one engine",
        "MPS",
        "time-slicing",
    }
    assert all(s == 45 for (_, group), s in down.items() if group == "nightly")
    assert sum(row["n"] for row in ways) == 5 * (930 + 600)  # nobody is lost


def test_a_fair_queue_protects_chat_on_one_engine() -> None:
    one = card_ways(Scenario.load("two_halves").with_({"engine.outages": []}))["one engine"]
    fifo, fair = (
        simulate(one.workload(), one.policy(name), one.engine(), seed=one.seed).latency("group")
        for name in ("FIFO", "fair")
    )
    assert fair.loc["chat", "ttft_p99"] < fifo.loc["chat", "ttft_p99"] / 2


def test_one_engine_has_all_that_the_parts_have_together() -> None:
    made = card_ways(Scenario.load("two_halves"))
    one, half = made["one engine"].engine(), made["MIG"].engine()
    assert one.slots == half.slots
    part = half.members[0].engine.limits.kv_tokens
    assert one.members[0].engine.limits.kv_tokens > 3 * part  # and no second copy of the weights
    assert half.members[0].engine.profile.a_ms == 2 * one.members[0].engine.profile.a_ms


def test_a_model_that_does_not_fit_says_so() -> None:
    scenario = Scenario.load("two_halves")
    with pytest.raises(
        ScenarioError, match=r"two_halves: engine: model 'llama31-8b' does not fit: a part of"
    ):
        scenario.with_({"engine.model": "llama31-8b"})
    whole = scenario.with_(
        {"engine": {"kind": "one_engine", "model": "llama31-8b", "profile": "rtx4090-llama31-8b"}}
    )
    assert list(card_ways(whole)) == ["one engine"]
    assert set(unfit_ways(whole)) == {"MIG", "MPS", "time-slicing"}
    assert all("does not fit" in why for why in unfit_ways(whole).values())


def test_mps_gains_where_bandwidth_is_idle() -> None:
    rows = way_table(Scenario.load("mps").with_({"engine.outages": []}, horizon_s=240), ["fair"])
    assert cell(rows, "latency_p50", way="MPS", group="writer") < 0.7 * cell(
        rows, "latency_p50", way="time-slicing", group="writer"
    )
    assert cell(rows, "tokens_per_s", way="MPS", group="code") > cell(
        rows, "tokens_per_s", way="time-slicing", group="code"
    )


# -- which replica? ------------------------------------------------------------------------------------------


def test_affinity_halves_what_is_computed(routers: list[dict[str, Any]]) -> None:
    found = {row["router"]: row for row in routers}
    assert found["session affinity"]["hit_rate"] > 2 * found["round robin"]["hit_rate"]
    assert (
        found["session affinity"]["prefill_per_request"] < 0.6 * found["round robin"]["prefill_per_request"]
    )
    assert found["longest prefix, guarded"]["ttft_mean"] < found["round robin"]["ttft_mean"]
    assert found["longest prefix, pure"]["imbalance"] == 3
    assert found["longest prefix, pure"]["ttft_mean"] > 10 * found["session affinity"]["ttft_mean"]


def test_unhealthy_now_adds_an_outage() -> None:
    scenario = unhealthy(Scenario.load("replicas"), 100, replica=2, down_s=30)
    assert [outage.part for outage in scenario.spec.engine.outages] == [1, 2]  # type: ignore[attr-defined]
    with pytest.raises(ScenarioError, match="outage: member must be < 3, got 5"):
        unhealthy(scenario, 100, replica=5)
    calm = router_choices(scenario, failing=False)["session affinity"]
    assert calm.spec.engine.outages == ()  # type: ignore[attr-defined]


# -- the hidden queue ----------------------------------------------------------------------------------------


def test_a_fair_policy_is_powerless_before_a_hidden_queue() -> None:
    scenario = Scenario.load("hidden_queue")

    def chat_p99(policy: str, slots: int) -> float:
        changed = scenario.with_({"engine.gateway_slots": slots})
        result = simulate(changed.workload(), changed.policy(policy), changed.engine(), seed=changed.seed)
        return float(result.latency("group").loc["chat", "ttft_p99"])  # type: ignore[arg-type]

    assert chat_p99("fair", 256) == chat_p99("FIFO", 256)
    assert chat_p99("fair", 40) < chat_p99("fair", 256) / 10


# -- scenario files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine.parts": 0}, "engine.parts: must be >= 1, got 0"),
        ({"engine.max_num_seqs": 0}, "engine.max_num_seqs: must be >= 1, got 0"),
        ({"engine.place": {"chat": 7}}, "place of 'chat' must be a member"),
        ({"engine.outages": [{"at_s": -1}]}, "outages.0.at_s: must be >= 0, got -1"),
        ({"engine.outages": [{"at_s": 1, "kind": "fire"}]}, "engine.outages.0.kind"),
        ({"engine.model": "gpt"}, "no model 'gpt'"),
        ({"engine.utilisation": 2}, "utilisation must be a finite number"),
        ({"engine.router": "session"}, "engine.router: unknown field"),
        ({"engine.profile": "a10g-llama-7b"}, "cannot be scaled"),
    ],
)
def test_bad_engines_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ScenarioError, InputError), match=message):
        Scenario.load("two_halves").with_(changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine.replicas": 0}, "engine.replicas: must be >= 1, got 0"),
        ({"engine.router": "best"}, "engine.router: .*got 'best'"),
        ({"engine.cache_tokens": 10_000_000}, "cache_tokens: must leave KV tokens for the engine"),
        ({"tenants.people.arrivals.turns": 0}, "turns must be >= 1, got 0"),
        ({"tenants.people.arrivals.max_context": 1}, "max_context must be a whole number >= 2"),
    ],
)
def test_bad_replicas_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        Scenario.load("replicas").with_(changes)


def test_comparisons_want_the_right_engine() -> None:
    with pytest.raises(ScenarioError, match=r"engine.kind: must be one of one_engine, .* got 'replicas'"):
        card_ways(Scenario.load("replicas"))
    with pytest.raises(ScenarioError, match=r"engine.kind: must be replicas to compare routers, got 'slots'"):
        router_choices(Scenario.load("noisy_burst"))


def test_files_say_what_they_build(tmp_path: Path) -> None:
    for name in ("two_halves", "mps", "replicas", "hidden_queue"):
        scenario = Scenario.load(name)
        assert Scenario.load(scenario.dump(tmp_path / f"{name}.yaml")) == scenario


# -- charts --------------------------------------------------------------------------------------------------


def test_memory_bars_say_what_fits() -> None:
    rows = memory_rows(map(load_model, model_names()), [("one engine", 1), ("MIG", 2), ("MPS", 3)])
    chart = memory_bars(rows)
    assert "14B int4, MIG × 2: does not fit" in chart.alt
    assert "8B int4, one engine: 120,128 KV tokens" in chart.alt
    words = " ".join(text.get_text() for text in chart.texts)
    assert "does not fit: KV for 704 of 4,096 tokens" in words, "of what one request may need"
    assert "8B bf16 and 14B int4 do not fit half of this card" in words.replace("\n", " ")
    fits = memory_bars(memory_rows([load_model("llama31-8b-int4")]))
    # 15.7 GB of KV in one, 2 · 4.4 in two halves
    assert "has 44 % less room for KV in all" in fits.alt
    with pytest.raises(ValueError, match="nothing to draw"):
        memory_bars([])


def test_partition_bars_name_the_survivor(ways: list[dict[str, Any]]) -> None:
    chart = partition_bars(named_ways(ways))
    assert chart.alt.startswith("Only under MIG does chat keep its service through the failure")
    bars = chart.data["bars"]
    assert bars["seconds without service", "MIG", "chat"] == 0
    assert ("latency, p50 (s)", "one engine, fair", "nightly") in bars
    assert len(bars) == 4 * 5 * 2
    with pytest.raises(ValueError, match="one row per way and group"):
        partition_bars(ways)  # one engine is there twice
    with pytest.raises(ValueError, match="one row per way and group"):
        partition_bars([])


def test_router_bars_name_the_fastest_and_the_least_even(routers: list[dict[str, Any]]) -> None:
    chart = router_bars(routers)
    assert "Least even: longest prefix, pure" in chart.alt
    shown = chart.data["bars"]["prompt tokens found in the cache", "session affinity", "requests"]
    assert shown == pytest.approx(100 * cell(routers, "hit_rate", router="session affinity"))
    with pytest.raises(ValueError, match="one row per router"):
        router_bars([*routers, routers[0]])


def test_the_batch_chart_shows_time_means() -> None:
    # 2 for a second, 4 for a second, then 0 for two
    series = pd.DataFrame(
        {"t": [0.0, 1, 2, 4], "running": [2, 4, 0, 0], "waiting": [0, 0, 0, 0], "kv_pct": [50.0, 100, 0, 0]}
    )
    chart = batch_chart(series)
    grid, running = chart.data["grid"], chart.data["lines"]["running", 0]
    middle = (grid[:-1] + grid[1:]) / 2
    assert running[middle < 1] == pytest.approx(2)
    assert running[(middle > 1) & (middle < 2)] == pytest.approx(4)
    assert running[middle > 2] == pytest.approx(0)
    assert running.mean() * 4 == pytest.approx(6)
    two = pd.concat([series.assign(member=0), series.assign(member=1, running=1)])
    chart = batch_chart(two, member_words="replica", window=(0, 2))
    assert chart.data["lines"]["running", 1] == pytest.approx(1)
    assert "replica 1" in chart.alt
    with pytest.raises(ValueError, match="no engine series"):
        batch_chart(series.iloc[:0])
    with pytest.raises(ValueError, match="window must be"):
        batch_chart(series, window=(2, 2))


@pytest.mark.parametrize("format", ["png", "svg"])
def test_charts_are_the_same_bytes_twice(ways: list[dict[str, Any]], format: str) -> None:
    once, again = (partition_bars(named_ways(ways)).to_bytes(format) for _ in range(2))
    assert once == again


# -- commands ------------------------------------------------------------------------------------------------


def run(*words: str, code: int = 0) -> Any:
    result = RUN.invoke(app, list(words), env={"COLUMNS": "180"})
    assert result.exit_code == code, result.output
    return result


def test_the_memory_command(tmp_path: Path) -> None:
    files = [tmp_path / f"m.{ending}" for ending in ("csv", "json", "png")]
    shown = run("memory", *(word for file in files for word in ("--out", str(file)))).output
    assert "does not fit: KV for 704 tokens" in shown
    assert "33,504 KV tokens each" in shown
    assert len(list(csv.DictReader(files[0].open()))) == 8
    assert json.loads(files[1].read_text())[1]["fits"] is False
    assert files[2].read_bytes().startswith(b"\x89PNG")
    rows = json.loads(run("memory", "llama32-3b", "--parts", "3", "--way", "mps", "--json").stdout)
    assert [(row["way"], row["parts"], row["fits"]) for row in rows] == [("MPS", 3, False)]


def test_the_partitions_command(tmp_path: Path) -> None:
    out = tmp_path / "p.svg"
    short = Scenario.load("two_halves").with_(horizon_s=130).dump(tmp_path / "short.yaml")
    shown = run("partitions", str(short), "--policy", "fair", "--out", str(out)).output
    assert "time-slicing" in shown
    assert "(W+Bk)/(nW+Bk)" in shown
    assert out.read_text().lstrip().startswith("<?xml")
    data = json.loads(run("partitions", str(short), "--no-outages", "--policy", "FIFO", "--json").stdout)
    assert {row["down_s"] for row in data["ways"]} == {0}
    assert all(row["ratio"] == pytest.approx(row["closed_form"]) for row in data["decode"])


def test_the_routers_command(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    rows = [
        {"timestamp": 1000 * i, "input_length": 1024 + 10 * (i // 4), "output_length": 5}
        | {"hash_ids": [0, 1 + i % 4, *([9 + i] if i >= 4 else [])]}
        for i in range(40)
    ]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "r.csv"
    shown = run("routers", "--trace", str(trace), "--replicas", "3", "--out", str(out)).output
    assert "40 requests of t.jsonl: 3 replicas of 3,000 blocks" in shown
    table = {row["router"]: row for row in csv.DictReader(out.open())}
    # Four sessions: under affinity each but the first of a session finds its 1,024 tokens.
    computed = sum(row["input_length"] for row in rows) - 36 * 1024
    # The two of one replica share block 0; those sent to a replica that has it find 512 more.
    homes = {each for each in json.loads(table["session affinity"]["requests"]) if each}
    assert computed - 4 * 512 < float(table["session affinity"]["prefill_tokens"]) <= computed
    assert homes
    assert json.loads(table["longest prefix, pure"]["requests"]) == [40, 0, 0]
    short = Scenario.load("replicas").with_(horizon_s=60).dump(tmp_path / "short.yaml")
    data = json.loads(run("routers", str(short), "--no-outages", "--replicas", "2", "--json").stdout)
    assert len(data) == 5
    assert {row["retries"] for row in data} == {0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["memory", "--out", "x.doc"], "--out x.doc: must end in .csv, .json, .png, .svg, .pdf"),
        (["memory", "--way", "magic"], "--way must be one of MIG, MPS, time-slicing, got 'magic'"),
        (["memory", "--parts", "0"], "parts must be a whole number >= 1, got 0"),
        (["memory", "--card-gib", "-1"], "card_gib must be a finite number > 0"),
        (["memory", "gpt"], "no model 'gpt'"),
        (["partitions", "--model", "llama31-8b"], "does not fit"),
        (["partitions", "--parts", "0"], "engine.parts: must be >= 1, got 0"),
        (["partitions", "replicas"], "engine.kind: must be one of one_engine"),
        (["partitions", "--by", "key"], "--by must be group or tenant"),
        (["partitions", "--policy", "best"], "no policy 'best'"),
        (["routers", "--trace", "nowhere.jsonl"], "nowhere.jsonl: cannot be read"),
        (["routers", "two_halves"], "must be replicas to compare routers"),
        (["routers", "--replicas", "0"], "engine.replicas: must be >= 1, got 0"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words, code=2)
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
