"""Logs as they lie about: each known form by hand, the public ones whole, what was lost and why."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fairq.cli import app
from fairq.scenario import Scenario
from fairq.sim import simulate
from fairq.workload.readers import FORMS, Log, read_log
from fairq.workload.trace import TraceError

SHARED = Path(__file__).parents[2].parent / "shared" / "traces"


def real(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"no local copy of {name}")
    return path


def written(tmp_path: Path, name: str, rows: Any) -> Path:
    """Text as it is, a list as JSON lines, anything else as one JSON document."""
    path = tmp_path / name
    if isinstance(rows, str):
        path.write_text(rows)
    elif isinstance(rows, list):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows))
    return path


def plain(log: Log) -> list[tuple[Any, ...]]:
    return [(r.tenant, r.arrival, r.prompt_tokens, r.output_tokens) for r in log.trace.requests()]


# -- every form, by hand --------------------------------------------------------------------------------


def test_azure_2024_has_a_zone(tmp_path: Path) -> None:
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 00:00:00.009930+00:00,2162,5\n"
        "2024-05-10 00:00:00.017335+00:00,2399,6\n"
    )
    log = read_log(written(tmp_path, "a.csv", text))
    assert log.account.form == "azure 2023/2024"
    assert plain(log) == [("all", 0.0, 2162, 5), ("all", pytest.approx(0.007405, abs=1e-9), 2399, 6)]
    assert log.account.begin == "2024-05-10T00:00:00.009+00:00"


def test_burstgpt_drops_its_failures(tmp_path: Path) -> None:
    text = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n"
        "45,ChatGPT,1087,0,1087,Conversation log\n"
        "118,GPT-4,417,276,693,API log\n"
    )
    log = read_log(written(tmp_path, "b.csv", text))
    assert plain(log) == [("all", 0.0, 472, 18), ("all", 113.0, 417, 276)]
    assert log.account.dropped == {"failed (no response tokens)": 1}
    assert (log.account.rows, log.account.read) == (3, 2)


def test_mooncake_counts_milliseconds(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]},
        {"timestamp": 27482, "input_length": 7322, "output_length": 490, "hash_ids": [0]},
    ]
    assert plain(read_log(written(tmp_path, "m.jsonl", rows))) == [
        ("all", 0.0, 6758, 500),
        ("all", pytest.approx(27.482), 7322, 490),
    ]


def test_a_vllm_run_says_when_each_was_served(tmp_path: Path) -> None:
    row = {"request_id": "b-0", "input_toks": 10, "output_toks": 5, "arrival_time": 1.7e9, "queued_ts": 100.0}
    row |= {"scheduled_ts": 101.0, "first_token_ts": 101.5, "last_token_ts": 103.0}
    log = read_log(written(tmp_path, "v.jsonl", [row]))
    assert log.served is not None
    assert log.served.iloc[0][["arrival", "start", "first_token", "finish"]].tolist() == [0, 1.0, 1.5, 3.0]
    assert log.account.begin is None, "seconds since the machine started are no date"


def test_a_vllm_bench_result_is_columns(tmp_path: Path) -> None:
    result = {"duration": 3.0, "completed": 2, "input_lens": [10, 20], "output_lens": [3, 4]}
    result |= {"start_times": [50.0, 51.5], "ttfts": [0.1, 0.2], "itls": [[0.1], [0.1]], "errors": ["", ""]}
    log = read_log(written(tmp_path, "r.json", result))
    assert plain(log) == [("all", 0.0, 10, 3), ("all", 1.5, 20, 4)]
    assert log.served is not None
    assert log.served["first_token"].tolist() == pytest.approx([0.1, 1.7])
    assert log.served["finish"].tolist() == pytest.approx([0.2, 1.8])


def test_a_failed_request_of_a_bench_result_was_not_served(tmp_path: Path) -> None:
    result = {"input_lens": [10, 20, 5], "output_lens": [3, 0, 2], "start_times": [50.0, 51.5, 52.0]}
    result |= {"ttfts": [0.1, 0.0, 0.3], "itls": [[0.1, 0.1], [], "broken"], "errors": ["", "timeout", ""]}
    log = read_log(written(tmp_path, "r.json", result))
    assert log.served is not None
    assert log.served["finish"].tolist() == pytest.approx([0.3])
    assert "2 requests without an end after their arrival (not in the card)" in log.account.lines()


def test_the_account_names_every_column_that_was_read(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text(
        "at,who,with,level,in,out,began,ttft_s,latency_s\n0,ana,key-1,0,5,5,0.5,1,2\n1,ben,key-2,1,5,5,1,1,2\n"
    )
    given = {"arrival": "at", "prompt_tokens": "in", "output_tokens": "out", "tenant": "who"}
    columns = "arrival = at (s), prompt = in, output = out, tenant = who"
    assert read_log(path, **given).account.lines()[0].endswith(columns)
    more = read_log(path, **given, key="with", priority="level").account
    assert more.lines()[0].endswith(f"{columns}, key = with, priority = level")
    known = tmp_path / "served.csv"
    known.write_text(
        "arrived_s,tenant,input_tokens,output_tokens,start_s,first_token_s,latency_s\n0,ana,5,5,0.5,1,2\n"
    )
    served = read_log(known).account
    named = [word.split(" (")[0].split(" = ")[1] for word in served.lines()[0].split(", ")]
    assert named == served.columns.used()


def test_the_vtc_artifact_is_one_line(tmp_path: Path) -> None:
    responses = [
        {
            "adapter_dir": f"lora-{i}",
            "prompt_len": 10 + i,
            "output_len": 20,
            "req_time": 2.0 * i,
            "first_token_latency": 0.5,
            "request_latency": 3.0,
        }
        for i in range(3)
    ]
    path = written(tmp_path, "all.jsonl", [{"config": {}, "result": {"responses": responses}}])
    log = read_log(path)
    assert log.account.form == "vtc artifact"
    assert plain(log) == [("lora-0", 0, 10, 20), ("lora-1", 2, 11, 20), ("lora-2", 4, 12, 20)]
    assert log.served is not None
    assert log.served["finish"].tolist() == [3.0, 5.0, 7.0]
    seen = log.in_service()
    assert seen is not None
    assert seen["start"].tolist() == [0.5, 2.5, 4.5], "in service is seen from the first token on"


# -- what fairq itself wrote ----------------------------------------------------------------------------


def test_a_run_of_fairq_reads_back_to_the_last_digit(tmp_path: Path) -> None:
    scenario = Scenario.load("noisy_burst")
    call = ["run", "noisy_burst", "--out", str(tmp_path), "--replications", "2", "--format", "svg"]
    call += ["--policy", "FIFO", "--policy", "fair"]
    outcome = CliRunner().invoke(app, call)
    assert outcome.exit_code == 0, outcome.output
    path = tmp_path / "requests.csv"
    run = simulate(scenario.workload(), scenario.policy("FIFO"), scenario.engine(), seed=scenario.seed)
    rows = run.requests
    log = read_log(path)
    assert log.account.form == "fairq run"
    assert log.account.read == len(rows)
    others = sum(r.strip() != "" for r in path.open()) - 1 - len(rows)
    assert sum(log.account.dropped.values()) == others, "the other policies, and the second replication"
    for read, truth in zip(log.trace.requests(), rows.to_dict("records"), strict=True):
        assert (read.tenant, read.key, read.priority) == (truth["tenant"], truth["key"], truth["priority"])
        assert (read.arrival, read.cost) == (truth["arrival"], truth["cost"])
        assert (read.prompt_tokens, read.output_tokens) == (truth["prompt_tokens"], truth["output_tokens"])
    assert log.served is not None
    for name in ("arrival", "start", "first_token", "finish"):
        assert log.served[name].tolist() == rows[name].tolist(), name
    assert rows["wait"].max() > 60, "the wait that a gateway's log would have lost"
    # Replayed on the same box it is the same run.
    again = simulate(log.trace, scenario.policy("FIFO"), scenario.engine())
    for name in ("arrival", "start", "first_token", "finish"):
        assert again.requests[name].tolist() == rows[name].tolist(), name


OWN = (
    "tenant,key,priority,arrival,start,first_token,finish,cost_estimate,prompt_tokens,output_tokens,"
    "status,dispatch\n"
)


def test_what_was_not_served_was_asked_for_all_the_same(tmp_path: Path) -> None:
    rows = "a,a,0,0.5,0.5,1,1,7,5,2,finished,0\nb,b/1,1,1.5,,,,7,5,2,cancelled,-1\n"
    log = read_log(written(tmp_path, "own.csv", OWN + rows))
    assert plain(log) == [("a", 0.5, 5, 2), ("b", 1.5, 5, 2)]
    assert log.served is not None
    # The first token was also the last: fairq knows, where a gateway may only not have streamed.
    assert log.served[["tenant", "first_token", "finish"]].values.tolist() == [["a", 1, 1]]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a,a,0,0,x,1,1,7,5,2,finished,0", "start must be a number (s), got 'x'"),
        ("a,a,0,3,2,3,4,7,5,2,finished,0", "arrival, start and finish are out of order"),
        ("a,a,0,3,3,3,2,7,5,2,finished,0", "arrival, start and finish are out of order"),
    ],
)
def test_a_damaged_row_of_fairqs_own_is_named(tmp_path: Path, row: str, words: str) -> None:
    good = "a,a,0,0,0,1,1,7,5,2,finished,0\n"
    path = written(tmp_path, "own.csv", OWN + good + row + "\n")
    with pytest.raises(TraceError, match=re.escape(f"own.csv:3: {words}")):
        read_log(path)
    assert read_log(path, skip_bad=True).account.skipped


def test_a_gateway_that_says_when_it_came_and_when_it_began(tmp_path: Path) -> None:
    text = "arrival_time,start_time,end_time,prompt_tokens,completion_tokens,user\n10,12,15,3,4,ann\n"
    log = read_log(written(tmp_path, "g.csv", text))
    assert log.served is not None
    assert log.served.iloc[0][["arrival", "start", "finish"]].tolist() == [0, 2, 5]


SPEND = {
    "request_id": "chatcmpl-1",
    "call_type": "acompletion",
    "api_key": "88dc28d0f030",
    "spend": 0.001,
    "total_tokens": 30,
    "prompt_tokens": 20,
    "completion_tokens": 10,
    "startTime": "2024-05-10T12:00:00.500Z",
    "endTime": "2024-05-10T12:00:04Z",
    "completionStartTime": "2024-05-10T12:00:01Z",
    "model": "m",
    "user": "ann",
    "team_id": None,
    "end_user": "",
    "cache_hit": "False",
    "status": "success",
}


@pytest.mark.parametrize("kind", ["jsonl", "json list"])
def test_litellm_spend_logs(tmp_path: Path, kind: str) -> None:
    rows = [
        SPEND,
        SPEND
        | {"user": "", "api_key": "k2", "startTime": "2024-05-10T14:00:01.500+02:00", "prompt_tokens": 5},
        SPEND | {"status": "failure", "prompt_tokens": 0, "completion_tokens": 0},
        SPEND | {"cache_hit": "True"},
        SPEND | {"prompt_tokens": 0, "completion_tokens": 0},
    ]
    path = tmp_path / ("s.jsonl" if kind == "jsonl" else "s.json")
    path.write_text(
        "".join(json.dumps(r) + "\n" for r in rows) if kind == "jsonl" else json.dumps(rows, indent=1)
    )
    log = read_log(path)
    assert log.account.form == "litellm spend logs"
    assert plain(log) == [("ann", 0.0, 20, 10), ("k2", 1.0, 5, 10)]
    assert [r.key for r in log.trace.requests()] == ["88dc28d0f030", "k2"]
    assert log.account.dropped == {"failed": 1, "answered from the cache": 1, "no tokens": 1}
    assert log.served is not None
    assert log.served["finish"].tolist() == [3.5, 3.5]


def test_an_openai_style_gateway_log_is_nested(tmp_path: Path) -> None:
    rows = [
        {"created": 1715342400, "user": "ann", "api_key": "sk-1", "duration_ms": 1500,
         "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
        {"created": 1715342410, "user": None, "api_key": "sk-2", "duration_ms": 2500,
         "usage": {"prompt_tokens": 8, "completion_tokens": 4}},
    ]  # fmt: skip
    log = read_log(written(tmp_path, "g.jsonl", rows))
    assert log.account.form == "openai-style gateway log"
    assert plain(log) == [("ann", 0.0, 7, 3), ("sk-2", 10.0, 8, 4)]
    assert log.served is not None
    assert log.served["finish"].tolist() == [1.5, 12.5]
    assert log.account.begin == "2024-05-10T12:00:00.000+00:00"


def test_a_gateway_log_in_csv_with_its_own_words(tmp_path: Path) -> None:
    text = "ts,who,tok_in,tok_out\n1715342400000,a,1,2\n1715342401500,b,3,4\n"
    path = written(tmp_path, "own.csv", text)
    with pytest.raises(
        TraceError, match=r"own.csv: prompt_tokens: which column\? It has: ts, who, tok_in, tok_out"
    ):
        read_log(path)
    log = read_log(path, arrival="ts", prompt_tokens="tok_in", output_tokens="tok_out", tenant="who")
    assert plain(log) == [("a", 0.0, 1, 2), ("b", 1.5, 3, 4)]
    assert log.account.time_unit == "ms", "a number of this size is an epoch in milliseconds"


@pytest.mark.parametrize("nested", [False, True])
def test_parquet(tmp_path: Path, nested: bool) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    times = pa.array([1715342400_000_000, 1715342401_250_000], pa.timestamp("us", tz="UTC"))
    usage = [{"prompt_tokens": 7, "completion_tokens": 3}, {"prompt_tokens": 8, "completion_tokens": 4}]
    columns: dict[str, Any] = {"start_time": times, "user": ["a", "b"]}
    columns |= {"usage": usage} if nested else {"prompt_tokens": [7, 8], "completion_tokens": [3, 4]}
    path = tmp_path / "p.parquet"
    parquet.write_table(pa.table(columns), path)
    assert plain(read_log(path)) == [("a", 0.0, 7, 3), ("b", 1.25, 8, 4)]
    if not nested:
        columns["prompt_tokens"] = [7, None]
        parquet.write_table(pa.table(columns), path)
        with pytest.raises(TraceError, match=r"p.parquet:row 2: prompt_tokens must be a whole number >= 0"):
            read_log(path)


# -- the public ones ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form", "rows", "tenants"),
    [
        ("azure_llm_2023_conv.csv", "azure 2023/2024", 19_366, 1),
        ("azure_llm_2023_code.csv", "azure 2023/2024", 8_819, 1),
        ("mooncake_conversation.jsonl", "mooncake", 12_031, 1),
        ("vtc_arena_27_tenants.csv", "vtc arena", 1_500, 27),
        ("vllm_rtx4090_llama31_8b_requests.jsonl", "vllm run", 300, 1),
    ],
)
def test_the_public_traces_are_recognised_and_replayed(name: str, form: str, rows: int, tenants: int) -> None:
    scenario = Scenario.from_log(real(name))
    account = scenario.read().account
    assert (account.form, account.rows, account.read, account.tenants) == (form, rows, rows, tenants)
    assert len(scenario.workload().requests(0)) == rows


def test_what_the_vtc_scheduler_made_of_the_arena_is_read_with_it() -> None:
    log = read_log(real("vtc_arena_27_tenants.csv"))
    assert log.served is not None
    # Read another way: the file's own last column.
    own = np.loadtxt(real("vtc_arena_27_tenants.csv"), delimiter=",", skiprows=1, usecols=5)
    assert (log.served["finish"] - log.served["arrival"]).to_numpy() == pytest.approx(own)


# -- choosing a form ------------------------------------------------------------------------------------


def test_a_form_can_be_named_and_must_fit(tmp_path: Path) -> None:
    path = written(tmp_path, "x.csv", "timestamp,input_length,output_length\n0,1,2\n1000,3,4\n")
    assert read_log(path).trace.arrivals.tolist() == [0.0, 1.0]
    with pytest.raises(TraceError, match=r"x.csv: is not a burstgpt log; it has: timestamp, input_length"):
        read_log(path, form="burstgpt")
    with pytest.raises(TraceError, match=r"x.csv: form must be one of azure 2023/2024, .*, got 'excel'"):
        read_log(path, form="excel")


def test_a_column_given_goes_before_the_forms(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens,MaxTokens\n2024-05-10,1,2,9\n"
    assert plain(read_log(written(tmp_path, "x.csv", text), output_tokens="MaxTokens")) == [("all", 0, 1, 9)]


def test_every_form_says_where_its_names_were_read() -> None:
    assert all(form.source for form in FORMS.values())


# -- bad rows -------------------------------------------------------------------------------------------

BAD = (
    "t,p,o,who\n"
    "0,1,1,a\n"  # 2
    "1,x,1,a\n"  # 3
    "2,1\n"  # 4
    "3,0,0,a\n"  # 5
    "4,1,1,\n"  # 6
    "nan,1,1,a\n"  # 7
    "6,1.5,1,a\n"  # 8
    "7,2,2,b\n"  # 9
)
NAMED = {"arrival": "t", "prompt_tokens": "p", "output_tokens": "o", "tenant": "who"}


def test_the_first_bad_row_stops_the_reading(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"bad.csv:3: p must be a whole number >= 0, got 'x'"):
        read_log(written(tmp_path, "bad.csv", BAD), **NAMED)


@pytest.mark.parametrize(
    ("rows", "unit", "line"),
    [
        ("2024-05-01T10:00:00Z,1,1,a\n", "s", 2),
        ("5,1,1,a\n2024-05-01 10:00:00,1,1,a\n", None, 3),
    ],
)
def test_dates_among_numbers_name_the_setting_that_reads_them(
    tmp_path: Path, rows: str, unit: str | None, line: int
) -> None:
    path = written(tmp_path, "dates.csv", "t,p,o,who\n" + rows)
    wanted = rf"dates.csv:{line}: t must be a number \(s\), got '2024-05-01.*': .*\(--time-unit iso\)$"
    with pytest.raises(TraceError, match=wanted):
        read_log(path, **NAMED, time_unit=unit)


def test_bad_rows_are_skipped_on_request_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "bad.csv", BAD)
    log = read_log(path, **NAMED, skip_bad=True)
    assert plain(log) == [("a", 0.0, 1, 1), ("b", 7.0, 2, 2)]
    assert log.account.rows == 8
    assert log.account.skipped == {
        "2 fields where the header has 4": 1,
        "t must be a number (s)": 1,
        "p must be a whole number >= 0": 2,
        "who must be a name": 1,
        "p and o are both 0": 1,
    }
    assert log.account.first_skipped["p must be a whole number >= 0"] == f"{path}:3"
    assert log.account.rows == log.account.read + sum(log.account.skipped.values())
    text = "\n".join(log.account.lines())
    assert "8 rows: 2 read, 0 dropped, 6 skipped" in text
    assert "skipped 2: p must be a whole number >= 0 (first at" in text


GOOD = '{"timestamp": 0, "input_length": 1, "output_length": 1}\n'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("j.jsonl", GOOD + '{"timestamp": 1\n', r"j.jsonl:2: not JSON"),
        ("j.jsonl", GOOD + "[1]\n", r"j.jsonl:2: must be an object"),
        ("j.jsonl", GOOD + '{"timestamp": 1}\n',
         r"j.jsonl:2: input_length must be a whole number >= 0, got None"),
        ("j.jsonl", '{"timestamp": 0, "input_length": true, "output_length": 1}\n',
         r"j.jsonl:1: input_length must be a whole number >= 0, got True"),
        ("j.jsonl", '{"timestamp": 0, "input_length": NaN}\n', r"j.jsonl:1: not JSON: NaN"),
        ("j.jsonl", "", r"j.jsonl:1: not JSON"),
        ("j.json", '{\n "rows": 3\n}\n', r"j.json:1: no list of requests"),
        ("j.parquet", "no parquet", r"j.parquet: not a Parquet file"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_json_names_file_and_line(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        read_log(written(tmp_path, name, text))


def test_a_line_inside_a_quoted_cell_does_not_shift_the_count(tmp_path: Path) -> None:
    text = 't,p,o,who\n0,1,1,"two\nlines"\n1,x,1,b\n'
    with pytest.raises(TraceError, match=r"q.csv:4: p must be"):
        read_log(written(tmp_path, "q.csv", text), **NAMED)


# -- hiding names ---------------------------------------------------------------------------------------


def test_names_are_hashed_under_a_secret(tmp_path: Path) -> None:
    text = "t,p,o,who,k\n" + "".join(f"{i},1,1,user-{i % 3},sk-{i % 5}\n" for i in range(30))
    path = written(tmp_path, "h.csv", text)
    one, again, other = (read_log(path, **NAMED, key="k", hash_keys=secret) for secret in ("s", "s", "t"))
    assert one.trace.tenants == again.trace.tenants
    assert not set(one.trace.tenants) & set(other.trace.tenants)
    assert len(set(one.trace.tenants)) == 3, "who is who stays visible"
    assert len(set(one.trace.keys or ())) == 5
    everything = " ".join([*one.trace.tenants, *(one.trace.keys or ())])
    assert "user" not in everything
    assert "sk-" not in everything
    # Without the names the requests are the same.
    assert [r.arrival for r in one.trace.requests()] == [float(i) for i in range(30)]


# -- size -----------------------------------------------------------------------------------------------

BIG = """
import resource, sys, time
from fairq.workload.readers import read_log
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
log = read_log(sys.argv[1])
print(log.account.read, time.process_time(), before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_a_million_rows_take_seconds_and_bounded_memory(tmp_path: Path) -> None:
    """Text is held some rows at a time: what grows with the file is arrays alone."""
    rows, used = {}, {}
    for n in (100_000, 1_000_000):
        path = tmp_path / f"{n}.csv"
        with path.open("w") as file:
            file.write("arrived_s,tenant,input_tokens,output_tokens\n")
            file.writelines(f"{i * 0.01:.2f},user-{i % 57},{i % 4000 + 1},{i % 700 + 1}\n" for i in range(n))
        done = subprocess.run([sys.executable, "-c", BIG, path], capture_output=True, text=True, check=True)
        rows[n], cpu, before, peak = (float(word) for word in done.stdout.split())
        used[n] = (peak - before) / 1024
    assert rows == {100_000: 100_000, 1_000_000: 1_000_000}
    assert cpu < 30, "CPU seconds; about 3 on a laptop"
    # As Python text a row takes over 300 bytes; as arrays below 100, sorted copies included.
    assert (used[1_000_000] - used[100_000]) / 0.9 < 200


def test_what_a_bad_row_says_to_try_works_in_every_command_that_reads_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "".join(f"{i},{i + 1},{i + 3},u,10,20\n" for i in range(6))
    path.write_text(
        f"startTime,completionStartTime,endTime,user,prompt_tokens,completion_tokens\n{rows}6,7,9,u,x,1\n"
    )
    for command in (["capacity"], ["saturation"], ["log", "show"]):
        stopped = CliRunner().invoke(app, [*command, str(path)])
        assert stopped.exit_code == 2
        assert stopped.stderr.startswith(f"fairq: {path}:8: ")
        assert "(--skip-bad) leaves such rows out" in stopped.stderr
        read = CliRunner().invoke(app, [*command, str(path), "--skip-bad"])
        assert read.exit_code == 0
        assert "bad rows left out: 1" in read.stdout or "6 read, 0 dropped, 1 skipped" in read.stdout
