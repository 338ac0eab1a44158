"""Try mutants of ``fairq/policies``: change one thing, and see whether a test notices. See MUTANTS.md.

    uv run --with mutmut==3.8.1 python tests/policies/mutants.py                        # all of them
    uv run --with mutmut==3.8.1 python tests/policies/mutants.py "fairq.policies.caps.*" --json caps.json

mutmut makes the mutants, as ``[tool.mutmut]`` in pyproject.toml says. Its own runner asks at every call which
mutant is meant, which slows a queue down many times; here a mutant takes the function's place. All work is
done in a copy of what is committed. A run first notes which test calls which function; then each mutant gets
a process of its own and meets the tests of its function, quick ones and those that have killed first, until
one fails. A test that takes far longer than it should has failed (``timeout``).
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import fnmatch
import importlib
import itertools
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MEMORY = 3 << 30  # bytes a mutant may take
PREFIX, SUFFIX = "mutants_", "__mutmut"


@dataclass
class Function:
    """A function and its mutants; ``places``: the names it goes by."""

    original: Callable[..., Any]
    mutants: dict[str, Callable[..., Any]]
    places: list[tuple[Any, str]]
    tests: list[int] = field(default_factory=list)
    kills: Counter[int] = field(default_factory=Counter)

    def install(self, function: Callable[..., Any]) -> None:
        for owner, name in self.places:
            setattr(owner, name, function)


def make_mutants() -> list[str]:
    """Write them, in the copy; returns the arguments that select the tests."""
    from mutmut import __main__ as mutmut
    from mutmut.configuration import config

    Path("mutants").mkdir(exist_ok=True)
    with contextlib.redirect_stdout(None):
        mutmut.copy_src_dir()
        mutmut.copy_also_copy_files()
        mutmut.create_mutants(1)
    return list(config().pytest_add_cli_args_test_selection)


def functions() -> dict[str, Function]:
    """All that were mutated, by name; in place of mutmut's switches the originals are put."""
    import fairq.policies

    assert Path(fairq.__file__).is_relative_to(Path.cwd()), "the mutants are not what is imported"
    found, switches = {}, {}
    for info in pkgutil.iter_modules(fairq.policies.__path__):
        module = importlib.import_module(f"fairq.policies.{info.name}")
        for table, mutants in list(vars(module).items()):
            if not (table.startswith(PREFIX) and table.endswith(SUFFIX)):
                continue
            name = table.removeprefix(PREFIX).removesuffix(SUFFIX)
            _, *method = name.split("ǁ")  # xǁClassǁmethod, or x_function
            owner = getattr(module, method[0]) if method else module
            plain = method[1] if method else name.removeprefix("x_")
            original = mutants["_mutmut_orig"]
            named = {f"{module.__name__}.{n}": f for n, f in mutants.items() if f is not original}
            found[f"{module.__name__}.{name}"] = function = Function(original, named, [(owner, plain)])
            switches[id(vars(owner)[plain])] = function
    for module in list(sys.modules.values()):
        if module.__name__.split(".")[0] in ("fairq", "policies"):
            for name, value in list(vars(module).items()):
                if id(value) in switches and (module, name) not in switches[id(value)].places:
                    switches[id(value)].places.append((module, name))
    for function in found.values():
        function.install(function.original)
    return found


def fails(item: Any) -> bool:
    import pytest

    item._initrequest()
    try:
        item.session._setupstate.setup(item)
        item.runtest()
    except pytest.skip.Exception:
        return False
    except BaseException:  # a mutant may raise anything
        return True
    finally:
        item.session._setupstate.teardown_exact(None)
    return False


def note_tests(found: dict[str, Function], items: list[Any]) -> list[float]:
    """Which tests call which function; returns the seconds each test takes."""
    took = []

    def noting(function: Function, called: list[Function]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            called.append(function)
            function.install(function.original)
            return function.original(*args, **more)

        return call

    for number, item in enumerate(items):
        called: list[Function] = []
        for function in found.values():
            function.install(noting(function, called))
        start = time.process_time()
        failed = fails(item)
        took.append(time.process_time() - start)
        for function in found.values():
            function.install(function.original)
        if failed:
            raise SystemExit(f"fails without any mutant: {item.nodeid}")
        for function in {id(f): f for f in called}.values():
            function.tests.append(number)
    return took


def within(order: list[int], took: list[float], seconds: float) -> list[int]:
    """As many of the tests as take so long together, the first at least."""
    together = list(itertools.accumulate(took[number] for number in order))
    return order[: max(1, bisect.bisect_right(together, seconds))]


def attempt(
    function: Function, mutant: str, items: list[Any], took: list[float], seconds: float
) -> tuple[str, int | None]:
    """killed, timeout, survived or no tests; and the number of the test that told."""
    order = sorted(function.tests, key=lambda n: (-function.kills[n], took[n]))
    order = within(order, took, seconds)
    if not order:
        return "no tests", None
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        number = order[0]

        def tell(word: str) -> None:
            os.write(write, f"{word} {number}".encode())
            os._exit(0)

        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGVTALRM, lambda *_: tell("timeout"))
        function.install(function.mutants[mutant])
        for number in order:
            signal.setitimer(signal.ITIMER_VIRTUAL, 2 + 6 * took[number])
            if fails(items[number]):
                tell("killed")
        tell("survived")
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read().split()
    os.waitpid(child, 0)
    if not said:
        return "killed", None  # its process broke down
    if said[0] != "survived":
        function.kills[int(said[1])] += 1
    return said[0], int(said[1])


class Trial:
    """A plugin of pytest that runs the collected tests again and again."""

    def __init__(self, patterns: list[str], seconds: float) -> None:
        self.patterns = patterns
        self.seconds = seconds
        self.verdicts: dict[str, str] = {}

    def chosen(self, found: dict[str, Function]) -> Iterator[tuple[Function, str]]:
        for function in found.values():
            for mutant in function.mutants:
                if any(fnmatch.fnmatch(mutant, pattern) for pattern in self.patterns):
                    yield function, mutant

    def pytest_runtestloop(self, session: Any) -> bool:
        found = functions()
        took = note_tests(found, session.items)
        for function, mutant in self.chosen(found):
            verdict, _ = attempt(function, mutant, session.items, took, self.seconds)
            self.verdicts[mutant] = verdict
            if verdict in ("survived", "no tests"):
                print(f"{verdict}: {mutant}", flush=True)
        return True


def table(verdicts: dict[str, str]) -> str:
    """The verdicts per file, as in MUTANTS.md."""
    counts: dict[str, Counter[str]] = {}
    for mutant, verdict in verdicts.items():
        counts.setdefault(mutant.split(".")[2], Counter())[verdict] += 1
    rows = [
        "| file | mutants | killed | timeout | survived | no tests |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    for name, count in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        shown = [count[verdict] for verdict in ("killed", "timeout", "survived", "no tests")]
        rows.append(f"| {name} | {sum(shown)} | " + " | ".join(map(str, shown)) + " |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Try mutants of the policies.")
    parser.add_argument(
        "patterns", nargs="*", default=["*"], help="which mutants, as in fairq.policies.caps.*"
    )
    parser.add_argument("--json", type=Path, help="write each mutant's verdict into this file")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="of tests for each, the quickest; default: all"
    )
    options = parser.parse_args()
    import pytest

    report = options.json and options.json.absolute()
    with tempfile.TemporaryDirectory() as copy:
        subprocess.run(["git", "clone", "-q", str(ROOT), copy], check=True)
        os.chdir(copy)
        tests = make_mutants()
        os.chdir("mutants")
        sys.path[0] = os.getcwd()
        trial = Trial(options.patterns, options.seconds)
        pytest.main(["--rootdir=.", "-q", "-s", "-n0", "-p", "no:cacheprovider", *tests], plugins=[trial])
        os.chdir(ROOT)
    print(table(trial.verdicts))
    if report:
        report.write_text(json.dumps(trial.verdicts, indent=1) + "\n")


if __name__ == "__main__":
    main()
