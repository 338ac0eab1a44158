"""A log of the reader's own in the lab: upload, replay or model, verdict, capacity, errors, export."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairq.capacity import from_served
from fairq.cli import app
from fairq.lab import Lab
from fairq.saturation import judge, series_of
from fairq.scenario import Scenario
from fairq.sim import simulate
from fairq.workload.readers import read_log

SLOW = {"kind": "slots", "slots": 2, "decode_tokens_per_s": 40}


def rows(n: int = 120, gap_s: float = 0.4) -> str:
    rng = np.random.default_rng(1)
    at = np.cumsum(rng.exponential(gap_s, n))
    names = rng.choice(["ada", "bob", "cai"], n, p=[0.6, 0.3, 0.1])
    lines = [
        f"{t:.3f},{name},{rng.integers(10, 300)},{rng.integers(5, 120)}"
        for t, name in zip(at, names, strict=True)
    ]
    return "\n".join(["arrived_s,tenant,input_tokens,output_tokens", *lines]) + "\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def lab(project: Path) -> Lab:
    made = Lab("published_burst", replications=1)
    made.chart  # noqa: B018  (drawn)
    return made


def upload(lab: Lab, name: str, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    file = {
        "name": name,
        "type": "",
        "size": len(data),
        "content": memoryview(data),
        "last_modified": pd.Timestamp("2026-01-01", tz="UTC"),
    }
    lab._log_upload.set_trait("value", (file,))


def test_an_uploaded_log_is_replayed_kept_and_accounted_for(lab: Lab, project: Path) -> None:
    upload(lab, "my box.csv", rows())
    kept = project / "figures" / "exports" / "logs" / "my-box.csv"
    assert kept.read_text() == rows()
    assert "Error" not in lab._status.value
    assert lab._log_upload.value == ()
    trace = read_log(kept).trace
    scenario = Scenario.from_log(kept)
    assert lab.scenario == scenario
    alone = simulate(trace, scenario.policy("FIFO"), scenario.engine())
    mine = lab.table[lab.table["policy"] == "FIFO"].set_index("tenant")
    for name in ("ada", "bob", "cai"):
        assert mine.loc[name, "latency_p50"] == pytest.approx(alone.latency().loc[name, "latency_p50"])
    assert "120 rows: 120 read, 0 dropped, 0 skipped" in lab._report.value
    assert "<li>my-box.csv: " in lab._report.value
    assert lab._preset.value == "log: my-box"
    lab._preset.menu.value = "published_burst"
    assert lab.scenario == Scenario.load("published_burst")
    lab._preset.menu.value = "log: my-box"
    assert lab.scenario == scenario


def test_jsonl_is_recognised_too(lab: Lab) -> None:
    lines = [
        {"arrival": 0.5 * i, "prompt_tokens": 50 + i, "output_tokens": 20, "tenant": f"t{i % 2}"}
        for i in range(20)
    ]
    table = pd.DataFrame(lines).rename(columns={"arrival": "arrived_s", "prompt_tokens": "input_tokens"})
    upload(lab, "gateway.jsonl", table.to_json(orient="records", lines=True))
    assert "Error" not in lab._status.value, lab._status.value
    assert set(lab.table["tenant"]) == {"t0", "t1"}


def test_a_bad_row_is_told_with_file_and_line_and_changes_nothing(lab: Lab, project: Path) -> None:
    before = lab.settings
    bad = rows(5) + "9.5,ada,many,3\n" + "9.7,ada,3,3\n"
    upload(lab, "bad.csv", bad)
    assert "Error: bad.csv:7: input_tokens must be" in lab._status.value
    assert lab.settings == before
    assert not (project / "figures" / "exports" / "logs").exists()
    lab._skip_bad.value = True
    upload(lab, "bad.csv", bad)
    assert "Error" not in lab._status.value
    assert "7 rows: 6 read, 0 dropped, 1 skipped" in lab._report.value
    assert "bad.csv:7" in lab._report.value


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("cat.png", "x", "cat.png: a log must end in .csv"),
        ("empty.csv", "arrived_s,tenant,input_tokens,output_tokens\n", "empty.csv:1: no rows"),
        ("odd.csv", "a,b\n1,2\n", "odd.csv: arrival: which column"),
        ("../../up.csv", "a,b\n1,2\n", "up.csv: arrival: which column"),
    ],
)
def test_what_is_no_log_is_refused_by_name(lab: Lab, name: str, content: str, words: str) -> None:
    upload(lab, name, content)
    assert words in lab._status.value
    assert lab.scenario == Scenario.load("published_burst")


def test_another_log_of_the_same_name_does_not_replace_the_first(lab: Lab, project: Path) -> None:
    upload(lab, "a.csv", rows(20))
    upload(lab, "a.csv", rows(30))
    upload(lab, "a.csv", rows(30))
    folder = project / "figures" / "exports" / "logs"
    assert sorted(len(p.read_text().splitlines()) for p in folder.iterdir()) == [21, 31]
    assert (folder / "a.csv").read_text() == rows(20)


def test_users_turns_the_log_into_its_model_and_back(lab: Lab) -> None:
    upload(lab, "box.csv", rows())
    replay = lab.scenario
    assert "replications" not in lab.settings
    lab._made["users"].box.value = 2
    assert lab.scenario == replay.fitted(2)
    assert lab.settings["replications"] == 10
    lab.set(replications=2, policies=["FIFO"])
    assert set(lab.table["runs"]) == {2}
    assert len(lab.result["tenant"].unique()) == 6  # each of the three twice
    lab.set(users=0)
    assert lab.scenario == replay
    assert lab.settings["policies"] == ["FIFO"]


def test_the_verdict_is_the_judges_on_the_run_shown(lab: Lab) -> None:
    upload(lab, "box.csv", rows(gap_s=0.4))
    for engine, slots in (("slots", 1), ("slots", 32)):
        lab.set(engine=engine, slots=slots, policies=["FIFO"])
        scenario = lab.scenario
        run = simulate(scenario.workload(), scenario.policy("FIFO"), scenario.engine())
        expected = judge(series_of(run), slots=slots, relief=2.0)
        assert lab.verdict == expected
        assert f"<strong>Under FIFO: {expected.name}</strong>" in lab._report.value
    assert expected.name == "fine"


def test_the_card_is_measured_where_the_log_says_when_it_was_served(lab: Lab) -> None:
    served = "arrived_s,tenant,input_tokens,output_tokens,start_s,first_token_s,latency_s\n" + "".join(
        f"{i * 0.5:.2f},ada,100,40,{i * 0.5:.2f},0.2,4.1\n" for i in range(60)
    )
    upload(lab, "served.csv", served)
    lab.set(chart="capacity")
    table = read_log("figures/exports/logs/served.csv").in_service()
    assert table is not None
    card = from_served(table, source="log served")
    pd.testing.assert_frame_equal(lab.rows, pd.DataFrame(card.as_dict()["by_users"]))
    assert "Capacity (log served)" in lab._report.value
    assert "By the log&#x27;s own times: nothing to schedule" in lab._report.value
    # The same words as in a terminal.
    said = CliRunner().invoke(app, ["capacity", "figures/exports/logs/served.csv"]).output
    lines = [" ".join(point.split()) for point in said.split("· ")]
    for begin in ("what binds: ", "promise: "):
        (line,) = (each for each in lines if each.startswith(begin))
        assert f"<li>{begin[0].upper()}{line[1:]}" in lab._report.value, line
    lab.set(users=1, replications=1)
    assert "own times" not in lab._report.value
    assert "Capacity (scenario served, fitted)" in lab._report.value


def test_a_log_may_be_replayed_on_replicas(lab: Lab) -> None:
    upload(lab, "box.csv", rows(60))
    lab.set(engine="replicas", replicas=2, chart="routers", policies=["FIFO"])
    assert (lab.rows["served"] == 60).all()
    assert lab.verdict.name
    assert "Under FIFO: " in lab._report.value


def test_the_view_of_a_log_and_of_its_model_open_again(lab: Lab, project: Path) -> None:
    upload(lab, "box.csv", rows(60))
    for changes in ({"quantum": 300}, {"users": 2, "replications": 2, "policies": ["fair"]}):
        lab.set(**changes)
        path = lab.save("view", formats=["json"])[0]
        assert json.loads(path.read_text())["scenario"]["log"]["file"] == "logs/box.csv"
        back = Lab.from_json(path)
        assert back.settings == lab.settings
        pd.testing.assert_frame_equal(back.table, lab.table)
        space: dict = {}
        exec(lab.code(), space)
        mine, theirs = (
            table.sort_values(["policy", "tenant"], ignore_index=True)
            for table in (lab.table, space["table"])
        )
        pd.testing.assert_frame_equal(mine, theirs)
