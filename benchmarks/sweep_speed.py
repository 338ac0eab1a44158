"""How much faster is a sweep on two processes? A ratio from one run, printed with the setting.

    python benchmarks/sweep_speed.py [--settings 40] [--replications 10] [--rounds 2] [--json]

The task is that of ``fairq tune noisy_burst --target "chat p99 ttft < 2 s"`` (its first settings and
replications): once in this process, once on two, by the clock on the wall and interleaved; the least of
``--rounds`` counts. Starting the two processes and loading the model in each is given apart, since a sweep
does it once however long it is. The rows are compared bit for bit.

``by processor time`` is what two idle cores would show if nobody waited for anybody: the seconds of the one
process over half of those of the two and of their parent (starting them not counted). Other programs that run
here matter little to it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Callable
from typing import Any

import joblib

from fairq.scenario import Scenario
from fairq.sweep import sweep
from fairq.tune import parse_targets, settings
from fairq.tune.cells import Cell, digest, parties, run_cell, workload_digest

TARGET = "chat p99 ttft < 2 s"
WANTED = 1.7


def tasks(count: int, replications: int) -> dict[str, Cell]:
    """The first ``count`` settings of the tuning, each ``replications`` times."""
    scenario, targets = Scenario.load("noisy_burst"), parse_targets(TARGET)
    workload, (whose, _) = workload_digest(scenario), parties(scenario, targets)
    cells = [
        Cell(setting.scenario(scenario), replication, whose)
        for setting in settings(scenario, targets)[:count]
        for replication in range(replications)
    ]
    return {digest(cell, workload): cell for cell in cells}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds by the wall clock, and what came out."""
    begin = time.perf_counter()
    made = work()
    return time.perf_counter() - begin, made


def children_s() -> float:
    """Processor seconds of this process's ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stop_workers() -> None:
    """Ends joblib's workers, so that their processor time is known."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def measure(count: int, replications: int, rounds: int) -> dict[str, float]:
    cells = tasks(count, replications)
    few = dict(list(cells.items())[:2])
    begin = children_s()
    first, _ = timed(lambda: sweep(run_cell, few, jobs=2))
    stop_workers()
    starting = children_s() - begin
    sweep(run_cell, few, jobs=2)
    one_s, two_s = [], []
    one_cpu, two_cpu = 0.0, -children_s() - starting
    for _ in range(rounds):
        begin = time.process_time()
        seconds, serial = timed(lambda: sweep(run_cell, cells, jobs=1))
        one_s.append(seconds)
        middle = time.process_time()
        seconds, parallel = timed(lambda: sweep(run_cell, cells, jobs=2))
        two_s.append(seconds)
        one_cpu += middle - begin
        two_cpu += time.process_time() - middle
        if json.dumps(serial) != json.dumps(parallel):
            raise SystemExit("the rows differ")
    stop_workers()
    two_cpu += children_s()
    return {
        "tasks": len(cells),
        "one process s": min(one_s),
        "two processes s": min(two_s),
        "starting them s": first,
        "two against one": min(one_s) / min(two_s),
        "by processor time": one_cpu / (two_cpu / 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--settings", type=int, default=40)
    parser.add_argument("--replications", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    setting = {
        "sweep": f"noisy_burst, {TARGET}",
        "rounds": options.rounds,
        "cores": os.cpu_count(),
        "others on this machine (load)": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "joblib": joblib.__version__,
    }
    figures = measure(options.settings, options.replications, options.rounds)
    if options.json:
        print(json.dumps({"setting": setting, **figures}, indent=1))
        return
    print(", ".join(f"{name}: {value}" for name, value in setting.items()))
    print("the rows are equal bit for bit")
    for name, value in figures.items():
        verdict = ""
        if name == "two against one":
            verdict = f"   wanted >= {WANTED:g}: {'holds' if value >= WANTED else 'FAILS'}"
        print(f"{name:>18} {value:10.3f}{verdict}")


if __name__ == "__main__":
    main()
