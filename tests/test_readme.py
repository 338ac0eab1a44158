"""Every example and figure of the README is run and compared; what it names exists."""

import asyncio
import doctest
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fairq import DRR, Request, bench
from fairq.cli import app
from fairq.commands._catalog import PUBLIC
from fairq.lab import Lab

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
ARENA = ROOT.parent / "shared/traces/vtc_arena_27_tenants.csv"

# Commands of the README that another test runs, or that cannot be run from within one.
ELSEWHERE = {
    "pip install uv",  # .ci/run
    "uv run pytest",  # .ci/run
    "uv run jupyter lab notebooks/00_start_here.ipynb",  # tests/browser
}
INLINE = {
    "uv run",
    "uv run …",
    "uv run python -m fairq.bench",
    "uv run fairq traces list",
    "uv run fairq figures",  # tests/gallery
    "uv run fairq doctor",  # tests/ways_in, as the next two
    "uv run voila notebooks/00_start_here.ipynb",
    "uv run fairq lite site",
    "fairq traces get NAME",  # tests/test_cli.py, from a local copy
    'pip install ".[sim]"',
    'pip install ".[lab]"',
    "conda env create -f environment.yml",
    "pip install",
}

# Named by the question they answer; what each does is held by its own tests.
BY_QUESTION = {
    "fairq capacity --profile rtx4090-llama-3.1-8b",
    "fairq saturation FILE",
    "fairq watch URL",
    'fairq tune my_log.csv --target "chat p99 ttft < 2 s"',
    "fairq eta STATE.json",
    "fairq partitions",
    "fairq memory",
    "fairq routers",
    "fairq replay RUN.jsonl",
    "fairq calibrate",
    "fairq serve-metrics noisy_burst",
    "fairq log show FILE",
    "fairq log convert --hash-keys",
    "fairq prove",
}


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def run(command: str, folder: Path) -> str:
    """What a command prints, in another folder; ``uv run`` is taken to be the environment of this test."""
    words = shlex.split(command)
    assert words[:2] == ["uv", "run"], command
    program = {"python": [sys.executable], "fairq": [sys.executable, "-m", "fairq.cli"]}[words[2]]
    done = subprocess.run(
        [*program, *words[3:]], cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def test_no_block_is_of_a_kind_that_nothing_checks() -> None:
    assert {name for name, _ in BLOCKS} == {"sh", "console", "pycon", "python", "text"}
    assert README.count("```") == 2 * len(BLOCKS)


def test_the_sessions_in_python() -> None:
    names: dict[str, object] = {}
    sessions = blocks("pycon")
    assert sessions
    for number, text in enumerate(sessions, 1):
        session = doctest.DocTestParser().get_doctest(text, names, f"session {number}", "README.md", 0)
        assert session.examples
        runner = doctest.DocTestRunner()
        runner.run(session, clear_globs=False)
        assert runner.summarize(verbose=False).failed == 0
        names = session.globs  # later sessions go on where earlier ones stopped


def test_the_programs_print_what_is_shown_below_them() -> None:
    programs = [i for i, (name, _) in enumerate(BLOCKS) if name == "python"]
    assert len(programs) == len(blocks("text"))
    for i in programs:
        assert BLOCKS[i + 1][0] == "text"
        shown = subprocess.run(
            [sys.executable, "-W", "error", "-c", BLOCKS[i][1]], capture_output=True, text=True, check=True
        )
        assert shown.stdout == BLOCKS[i + 1][1]


@pytest.fixture
def gateway() -> Any:
    """The gateway class of the README, without the run below it."""
    (program,) = blocks("python")
    names: dict[str, Any] = {}
    exec(program.replace("asyncio.run(main())\n", ""), names)
    return names["Gateway"](DRR(quantum=500), slots=1)


def test_the_gateway_survives_callers_who_hang_up_and_an_engine_that_fails(gateway: Any) -> None:
    served: list[str] = []
    leaving: dict[str, Callable[[], object]] = {}

    async def engine(request: Request) -> tuple[str, int]:
        served.append(request.id)
        await asyncio.sleep(0)
        if request.id == "failed":
            raise ConnectionError("the engine is gone")
        leaving.get(request.id, lambda: None)()
        return "answer", 900  # the estimate was 400

    async def story() -> None:
        names = ("first", "before", "middle", "after", "failed", "last", "waits")
        tasks = {
            name: asyncio.create_task(gateway.ask(Request("ana", 400, id=name), engine)) for name in names
        }
        # One hangs up just before its turn comes, and one after that, before it is told so.
        leaving["first"] = tasks["before"].cancel
        leaving["middle"] = lambda: asyncio.get_running_loop().call_soon(tasks["after"].cancel)
        await asyncio.sleep(0)
        tasks["waits"].cancel()
        await asyncio.wait(tasks.values())
        assert [name for name in names if tasks[name].cancelled()] == ["before", "after", "waits"]
        assert isinstance(tasks["failed"].exception(), ConnectionError)
        assert [tasks[name].result() for name in ("first", "middle", "last")] == ["answer"] * 3

    asyncio.run(story())
    assert served == ["first", "middle", "failed", "last"]
    # Nothing leaks: no slot, no turn, no running request.
    assert (gateway.free, gateway.turns) == (1, {})
    assert (len(gateway.policy), gateway.policy.running) == (0, 0)


def test_the_commands_shown_with_their_output(tmp_path: Path) -> None:
    sessions = blocks("console")
    assert sessions
    for text in sessions:
        command, _, expected = text.partition("\n")
        assert command.startswith("$ uv run ")
        printed = run(command.removeprefix("$ "), tmp_path)
        assert expected.count("\n...\n") <= 1
        head, _, tail = expected.partition("...\n")
        assert printed.startswith(head)
        assert printed.endswith(tail)


def shell_commands() -> list[str]:
    return [line for text in blocks("sh") for line in text.splitlines() if line not in ELSEWHERE]


@pytest.mark.parametrize("command", shell_commands())
def test_a_command_for_a_log_leaves_charts_and_tables(command: str, tmp_path: Path) -> None:
    if "my_log.csv" in command:
        shutil.copy(ROOT / "data/logs/synthetic_27_tenants.csv", tmp_path / "my_log.csv")
    if "vtc_arena" in command:
        if not ARENA.exists():
            pytest.skip("no local copy of the arena trace")
        shutil.copy(ARENA, tmp_path)
    printed = run(command, tmp_path)
    out = tmp_path / shlex.split(command)[-1]
    assert {"before_after.png", "before_after.svg", "latency.png", "table.csv", "requests.csv"} <= {
        path.name for path in out.iterdir()
    }
    assert f"{out.relative_to(tmp_path)}/before_after.png" in printed.replace("\\", "/")
    picture = (out / "before_after.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_every_shell_command_is_known() -> None:
    lines = [line for text in blocks("sh") for line in text.splitlines()]
    assert set(lines) >= ELSEWHERE
    assert {line.split()[0] for line in lines} <= {"uv", "pip"}
    # (?<!`) and the like: spans of prose in single backticks.
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    spans = {
        span for span in re.findall(r"`([^`\n]+)`", prose) if re.match(r"(uv run|fairq |pip |conda )", span)
    }
    assert spans == INLINE | BY_QUESTION


@pytest.mark.parametrize("line", sorted(BY_QUESTION))
def test_a_command_by_question_exists_with_its_options(line: str) -> None:
    words = shlex.split(line)[1:]
    names = words[:2] if words[0] == "log" else words[:1]
    shown = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    for word in words:
        if word.startswith("--"):
            assert word in shown.output, f"{line}: {word}"


def test_the_commands_named_in_passing(tmp_path: Path) -> None:
    # "names public logs with licence and checksum"
    listed = run("uv run fairq traces list", tmp_path)
    for trace in PUBLIC.values():
        assert re.search(
            rf"^{trace.name}$(\n  .*)*{trace.licence}(.*\n  ).*{trace.sha256}", listed, re.MULTILINE
        )
    for options in ("--quantum 100", "--weight ana=2"):
        assert f"`{options}`" in README
        assert "last answer" in run(f"uv run python -m fairq.demo {options}", tmp_path)
    assert "`--tenants 20 --zipf 1`" in README
    plain = (ROOT / "data/logs/synthetic_27_tenants.csv").read_text().splitlines()
    bare = [",".join([row[0], *row[2:]]) for row in (line.split(",") for line in plain)]
    (tmp_path / "bare.csv").write_text("\n".join(bare) + "\n")
    columns = "--arrival arrived_s --prompt-tokens input_tokens --output-tokens output_tokens"
    assert "tenant-1" in run(f"uv run fairq run bare.csv {columns} --tenants 20 --zipf 1", tmp_path)


@pytest.mark.parametrize("case", bench.CASES, ids=lambda case: case.scenario)
def test_the_tables_are_those_of_the_bench(case: bench.Case) -> None:
    _, _, after = README.partition(f"<!-- bench: {case.scenario} -->\n")
    table = after.partition("\n\n")[0].splitlines()
    heads = [cell.strip() for cell in table[0].strip("|").split("|")]
    assert heads[1:] == ["small p50, s", "small p99, s", "noisy p50, s", "requests/s", "all done, s"]
    names = ("small_p50_s", "small_p99_s", "noisy_p50_s", "requests_per_s", "makespan_s")
    runs = bench.run(case)
    computed = bench.figures(case, runs)
    shown = {}
    for line in table[2:]:
        policy, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        shown[policy] = [float(cell) for cell in cells]
    assert list(shown) == list(computed)
    for policy, cells in shown.items():
        for name, cell in zip(names, cells, strict=True):
            # To half of the last figure shown.
            step = 0.0005 if name == "requests_per_s" else 0.005
            assert cell == pytest.approx(computed[policy][name], abs=1.01 * step), (policy, name)
    if case.scenario == "published_burst":
        saved, paid = bench.saved_and_paid(case, runs, "drr")
        assert f"wait {saved:,.0f} s less" in README.replace("\n", " ")
        assert f"noisy ones {paid:,.0f} s more" in README.replace("\n", " ")
    else:
        assert f"Means of {case.replications} runs" in README


def test_the_buttons_it_names_are_in_the_lab() -> None:
    def texts(widget: Any) -> Iterator[str]:
        yield from (getattr(widget, "description", ""), str(getattr(widget, "value", "")))
        for child in getattr(widget, "children", ()):
            yield from texts(child)

    start = README.partition("## Start\n")[2].partition("\n## ")[0]
    named = [words for words in re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", start) if "→" not in words]
    assert len(named) >= 4
    there = list(texts(Lab("noisy_burst", replications=1).widget))
    for words in named:
        assert any(re.search(rf"(^|>){re.escape(words)}($|<)", text) for text in there), words


def test_what_is_linked_or_listed_exists() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link
    _, _, rooms = README.partition("## Rooms\n")
    named = re.findall(r"^\| (.*?) \|", rooms.partition("\n## ")[0], flags=re.MULTILINE)
    paths = [path for cell in named for path in re.findall(r"`([^`]+)`", cell)]
    assert len(paths) > 10
    for path in paths:
        assert (ROOT / path).exists(), path
    for picture in re.findall(r"!\[([^\]]*)\]", README):
        assert len(picture) > 20, "a picture needs a text that says what it shows"
