"""All checks, on as many processes as there are processors; the lines come in the order of the table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from multiprocessing import get_context

from fairq.prove.line import Line

MODULES = ("fair", "nests", "caps", "price", "agree", "calls", "others", "laws", "waits")

Task = tuple[str, int]
"""Which check: module, place in its ``CHECKS``."""

Report = Callable[[int, int], None]
"""Called with (checks done, checks in all)."""


def tasks(modules: tuple[str, ...] = MODULES) -> list[Task]:
    """Every check, in the order of the table."""
    return [(module, k) for module in modules for k in range(len(_checks(module)))]


def run(task: Task) -> list[Line]:
    """The lines of one check. A check that breaks is a line that does not hold."""
    module, place = task
    check = _checks(module)[place]
    try:
        return check()
    except Exception as error:
        name = f"{module} {place}"
        return [Line(f"check {name} runs", "", "", f"{type(error).__name__}: {error}", "no error", False)]


def prove(
    modules: tuple[str, ...] = MODULES, jobs: int | None = None, report: Report | None = None
) -> Iterator[Line]:
    """The lines of the table. Results do not depend on ``jobs``: every check has its own seeds."""
    todo = tasks(modules)
    jobs = jobs or os.cpu_count() or 1
    done = 0
    if jobs == 1:
        for task in todo:
            yield from run(task)
            done += 1
            if report is not None:
                report(done, len(todo))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(run, task) for task in todo]
        if report is not None:
            for _ in as_completed(futures):
                done += 1
                report(done, len(todo))
        for future in futures:
            yield from future.result()


def _checks(module: str) -> list[Callable[[], list[Line]]]:
    checks: list[Callable[[], list[Line]]] = import_module(f"fairq.prove.{module}").CHECKS
    return checks
