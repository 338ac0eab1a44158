"""Logs: by hand in small, the real ones where they are, and everything that can be wrong with a row."""

from collections import Counter
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairq.commands._catalog import PUBLIC
from fairq.data import data_path
from fairq.workload import synthetic
from fairq.workload.readers import read_log
from fairq.workload.trace import Trace, TraceError

SHARED = Path(__file__).parents[2].parent / "shared" / "traces"
AZURE = {"arrival": "TIMESTAMP", "prompt_tokens": "ContextTokens", "output_tokens": "GeneratedTokens"}
ARENA = {"arrival": "arrived_s", "prompt_tokens": "input_tokens", "output_tokens": "output_tokens"}
COLUMNS = {"arrival": "t", "prompt_tokens": "p", "output_tokens": "o"}


def read_csv(path: Path, **options: Any) -> Trace:
    return read_log(path, **options).trace


def real(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"no local copy of {name}")
    return path


def log(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "log.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# -- the real ones --------------------------------------------------------------------------------------


def test_azure_conversations() -> None:
    trace = read_csv(real("azure_llm_2023_conv.csv"), **AZURE)
    assert len(trace) == 19_366
    first, second = trace.requests()[:2]
    assert (first.tenant, first.arrival, first.prompt_tokens, first.output_tokens) == ("all", 0, 374, 44)
    # 18:15:50.9951690 - 18:15:46.6805900, seven decimals kept.
    assert second.arrival == pytest.approx(4.314579, abs=1e-9)
    assert second.cost == 396 + 109


def test_azure_code_is_very_bursty() -> None:
    trace = read_csv(real("azure_llm_2023_code.csv"), **AZURE)
    gaps = np.diff(trace.arrivals)
    assert len(trace) == 8_819
    assert gaps.std() / gaps.mean() == pytest.approx(13, abs=0.5)


def test_the_arena_trace_has_27_tenants() -> None:
    trace = read_csv(real("vtc_arena_27_tenants.csv"), **ARENA, tenant="tenant")
    assert len(trace) == 1_500
    assert len(trace.weights) == 27
    assert trace.arrivals[-1] == 600.0
    assert sum(r.cost for r in trace.requests()) == int(1500 * 136.26533333333334 + 1500 * 256.198 + 0.5)


@pytest.mark.parametrize(
    ("local", "name"),
    [
        ("azure_llm_2023_conv.csv", "azure-conv-2023"),
        ("azure_llm_2023_code.csv", "azure-code-2023"),
        ("mooncake_conversation.jsonl", "mooncake-conversation"),
        ("vllm_rtx4090_llama31_8b_requests.jsonl", "vllm-rtx4090"),
    ],
)
def test_the_checksums_are_those_of_the_copies(local: str, name: str) -> None:
    PUBLIC[name].check(real(local).read_bytes(), local)


# -- small ones by hand ---------------------------------------------------------------------------------

HAND = "t,who,p,o,extra\n3,b,10,1,x\n1,a,20,2,x\n3,a,30,3,x\n1.5,b,40,4,x\n"


def test_rows_are_sorted_by_time_and_keep_the_files_order_at_one_instant(tmp_path: Path) -> None:
    trace = read_csv(log(tmp_path, HAND), **COLUMNS, tenant="who")
    assert [(r.id, r.tenant, r.arrival, r.prompt_tokens, r.cost) for r in trace.requests()] == [
        (0, "a", 0.0, 20, 22),
        (1, "b", 0.5, 40, 44),
        (2, "b", 2.0, 10, 11),
        (3, "a", 2.0, 30, 33),
    ]
    assert trace.group_of == {"a": "a", "b": "b"}
    assert trace.horizon_s > 2.0
    assert trace.closed_loops() == []


def test_a_trace_is_replayed_whatever_the_seed(tmp_path: Path) -> None:
    trace = read_csv(log(tmp_path, HAND), **COLUMNS, tenant="who", weights={"b": 3})
    assert [r.arrival for r in trace.requests(1)] == [r.arrival for r in trace.requests(2, 5)]
    assert trace.weights == {"a": 1, "b": 3}


def test_twice_the_load_is_twice_as_dense(tmp_path: Path) -> None:
    trace = read_csv(log(tmp_path, HAND), **COLUMNS, tenant="who")
    assert trace.scaled(2).arrivals.tolist() == [0, 0.25, 1, 1]


def test_keys_and_priorities_come_from_columns(tmp_path: Path) -> None:
    text = "t,p,o,who,api,level\n0,1,1,a,k1,1\n1,1,1,a,k2,0\n"
    trace = read_csv(log(tmp_path, text), **COLUMNS, tenant="who", key="api", priority="level")
    assert [(r.key, r.priority) for r in trace.requests()] == [("k1", 1), ("k2", 0)]
    assert trace.keys_of == {"a": ("k1", "k2")}


@pytest.mark.parametrize(
    ("unit", "first", "second"),
    [
        (None, "1700000000.25", "1700000001.75"),
        ("ms", "1700000000250", "1700000001750"),
        ("us", "1700000000250000", "1700000001750000"),
        ("ns", "1700000000250000000", "1700000001750000000"),
        (None, "2023-11-14T22:13:20.25Z", "2023-11-14T22:13:21.75Z"),
        (None, "2023-11-14T23:13:20.25+01:00", "2023-11-14T22:13:21.75Z"),
        ("iso", "2023-11-14 22:13:20.2500000", "2023-11-14 22:13:21.7500000"),
    ],
)
def test_times_in_every_unit(tmp_path: Path, unit: str | None, first: str, second: str) -> None:
    path = log(tmp_path, f"t,p,o\n{first},1,1\n{second},1,1\n")
    assert read_csv(path, **COLUMNS, time_unit=unit).arrivals.tolist() == pytest.approx([0, 1.5], abs=1e-6)


def test_bom_quotes_windows_line_ends_and_a_last_empty_line(tmp_path: Path) -> None:
    path = log(tmp_path, b'\xef\xbb\xbft,who,p,o\r\n0,"a, the first",1,1\r\n1,"two\r\nlines",1,1\r\n\r\n')
    assert read_csv(path, **COLUMNS, tenant="who").tenants == ["a, the first", "two\r\nlines"]


def test_more_rows_than_are_held_as_text_at_one_time(tmp_path: Path) -> None:
    n = 120_001
    path = log(tmp_path, "t,p,o\n" + "".join(f"{i},{i % 7 + 1},1\n" for i in range(n)))
    trace = read_csv(path, **COLUMNS)
    assert len(trace) == n
    assert trace.prompt_tokens.tolist() == [i % 7 + 1 for i in range(n)]
    with path.open("a") as file:
        file.write("1,x,1\n")
    with pytest.raises(TraceError, match=rf"log.csv:{n + 2}: p must be a whole number >= 0, got 'x'"):
        read_csv(path, **COLUMNS)


def test_tenants_are_drawn_with_zipf_weights_and_a_seed(tmp_path: Path) -> None:
    n = 20_000
    path = log(tmp_path, "t,p,o\n" + "".join(f"{i},1,1\n" for i in range(n)))
    drawn = read_csv(path, **COLUMNS, tenants=5, zipf=1.0, seed=3)
    seen = Counter(drawn.tenants)
    total = sum(1 / i for i in range(1, 6))
    for i in range(1, 6):
        chance = 1 / i / total
        assert abs(seen[f"tenant-{i}"] / n - chance) < 4 * sqrt(chance * (1 - chance) / n)
    assert read_csv(path, **COLUMNS, tenants=5, zipf=1.0, seed=3).tenants == drawn.tenants
    assert read_csv(path, **COLUMNS, tenants=5, zipf=1.0, seed=4).tenants != drawn.tenants
    even = Counter(read_csv(path, **COLUMNS, tenants=5, zipf=0.0).tenants)
    assert all(abs(count / n - 0.2) < 4 * sqrt(0.16 / n) for count in even.values())


# -- what can be wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", r"log.csv:1: no column 't'; the header has: nothing"),
        ("t,p\n0,1\n", r"log.csv:1: no column 'o'; the header has: t, p"),
        ("t,p,o,o\n0,1,1,1\n", r"log.csv:1: more than one column 'o'"),
        ("t,p,o\n", r"log.csv:1: no rows below the header"),
        ("t,p,o\n0,1,1\n0,1\n", r"log.csv:3: 2 fields where the header has 3: '0,1'"),
        ("t,p,o\n0,1,1\n0,1,1,1\n", r"log.csv:3: 4 fields where the header has 3"),
        ("t,p,o\n0,1,1\n\n0,1,1\n", r"log.csv:3: an empty line between rows"),
        ("t,p,o\n0,1,1\n0,1.5,1\n", r"log.csv:3: p must be a whole number >= 0, got '1.5'"),
        ("t,p,o\n0,1,1\n0,1,-1\n", r"log.csv:3: o must be a whole number >= 0, got '-1'"),
        ("t,p,o\n0,1,1\n0,,1\n", r"log.csv:3: p must be a whole number >= 0, got ''"),
        ("t,p,o\n0,1,1\n0,nan,1\n", r"log.csv:3: p must be a whole number >= 0, got 'nan'"),
        ("t,p,o\n0,1,1\n0,True,1\n", r"log.csv:3: p must be a whole number >= 0, got 'True'"),
        ("t,p,o\n0,1,1\n0,0x10,1\n", r"log.csv:3: p must be a whole number >= 0, got '0x10'"),
        ("t,p,o\n0,1,1\n0,1_0,1\n", r"log.csv:3: p must be a whole number >= 0, got '1_0'"),
        ("t,p,o\n0,1,1\n0,1e300,1\n", r"log.csv:3: p must be a whole number >= 0, got '1e300'"),
        ("t,p,o\n0,1,1\n0,0,0\n", r"log.csv:3: p and o are both 0"),
        ("t,p,o\n0,1,1\ninf,1,1\n", r"log.csv:3: t must be a number \(s\), got 'inf'"),
        ("t,p,o\n0,1,1\n2023-11-16 18:17:03,1,1\n", r"log.csv:3: t must be a number \(s\), got '2023"),
        ("t,p,o\n2023-11-16,1,1\n2023-13-16,1,1\n", r"log.csv:3: t must be a time .* got '2023-13-16'"),
        ("t,p,o\n2023-11-16,1,1\n17,1,1\n", r"log.csv:3: t must be a time \(ISO 8601\), got '17'"),
        ('t,p,o\n0,1,1\n0,"1,1\n', r"log.csv:3: cannot be read as CSV"),
        (b"t,p,o\n0,1,1\n0,\xff,1\n", r"log.csv:3: is not UTF-8 text: invalid start byte at byte 3 of"),
        (b"t,p,\xe9\n0,1,1\n", r"log.csv:1: is not UTF-8 text: invalid continuation byte at byte 5 of"),
        (b"t,p,o\r0,1,1\r0,\xff,1\r", r"log.csv:3: is not UTF-8 text: invalid start byte at byte 3 of"),
        (b"t,p,o\n" + 9_000 * b"0,1,1\n" + b"\xff,1,1\n", r"log.csv:9002: is not UTF-8 text: invalid start"),
        (b'o,p,t\n1,1,"0\n"\n1,\xc3', r"log.csv:4: is not UTF-8 text: unexpected end of data at byte 3"),
    ],
)  # fmt: skip
def test_a_malformed_row_names_file_and_line(tmp_path: Path, text: str | bytes, where: str) -> None:
    with pytest.raises(TraceError, match=where):
        read_csv(log(tmp_path, text), **COLUMNS)


def test_the_line_of_a_byte_that_is_no_text_is_told_in_every_form(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(2 * b'{"t": 0, "p": 1, "o": 1}\n' + b'{"t": 0, "p": 1, "o": \xff}\n')
    with pytest.raises(
        TraceError, match=r"log.jsonl:3: is not UTF-8 text: invalid start byte at byte 23 of the"
    ):
        read_csv(path, **COLUMNS)
    path.write_bytes(b'[{"t": 0, "p": 1, "o": 1},\n{"t": 0, "p": 1, "o": \xff}]\n')
    with pytest.raises(
        TraceError, match=r"log.jsonl:2: is not UTF-8 text: invalid start byte at byte 23 of the"
    ):
        read_csv(path, **COLUMNS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tenant": "who"}, r"log.csv:2: who must be a name, got ' '"),
        ({"tenant": "nobody"}, r"log.csv:1: no column 'nobody'"),
        ({"tenant": "who", "tenants": 3}, r"a tenant column or a number of tenants, not both"),
        ({"tenants": 0}, r"tenants must be a whole number >= 1, got 0"),
        ({"tenants": 2, "zipf": -1}, r"zipf must be .* >= 0, got -1"),
        ({"time_unit": "h"}, r"time_unit must be one of s, ms, us, ns, iso, got 'h'"),
        ({"weights": {"x": 1}}, r"weights: no tenant 'x' in this log"),
        ({"weights": {"all": 0}}, r"weight of 'all' must be .* > 0, got 0"),
    ],
)
def test_bad_options_are_named(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_csv(log(tmp_path, "t,p,o,who\n0,1,1, \n"), **COLUMNS, **options)


# -- the synthetic one ----------------------------------------------------------------------------------


def test_the_shipped_log_is_made_again_byte_for_byte() -> None:
    shipped = data_path(f"logs/{synthetic.NAME}").read_bytes()
    assert synthetic.csv_text().encode() == shipped


def test_the_synthetic_log_looks_like_one_and_is_named_so() -> None:
    path = data_path(f"logs/{synthetic.NAME}")
    assert "synthetic" in path.name
    trace = read_csv(path, **ARENA, tenant="tenant")
    assert len(trace.weights) == synthetic.TENANTS
    heavy = Counter(trace.tenants).most_common(1)[0]
    assert heavy[0] == "tenant-1"
    in_burst = [
        t for t, who in zip(trace.arrivals, trace.tenants, strict=True) if who == "tenant-1" and 90 <= t < 100
    ]
    assert len(in_burst) >= synthetic.BURST_REQUESTS
