"""Many runs on all cores (or several machines), through joblib; what is done is never lost.

The same results bit for bit wherever they were computed: every task is self-contained, a row is plain data,
and what comes out is in the order of the tasks. With a journal each row is on disk as soon as it is there, so
an interrupted or killed sweep goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from fairq.files import InputError, unreadable

Row = Any
"""Plain data: what JSON can hold."""

Run = Callable[[Any], Row]
"""Computes one task's row. Must be importable by name, since other processes call it."""

TRIES = 3
"""How often workers may die without any row in between."""


class SweepError(RuntimeError):
    """Workers kept dying. The journal, if there is one, has all that was done."""


def sweep(
    run: Run,
    tasks: Mapping[str, Any],
    *,
    jobs: int | None = None,
    backend: str | None = None,
    journal: Path | None = None,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Row]:
    """``run(task)`` for every task; key → row, in the order of the tasks.

    Parameters
    ----------
    tasks : by a key that says all that the row depends on (a digest): a journal is matched by it.
    jobs : processes; None: one per core; 1: here, one after the other.
    backend : None: this machine; ``dask://HOST:PORT``: the workers of that scheduler.
    journal : file that takes each row as it comes. resume : take the rows that it has already; without it
        the file of an earlier call is put aside (``aside``) as soon as there is a first row.
    progress : called with (done, of how many).

    Raises
    ------
    InputError : a backend that is unknown or cannot be reached. SweepError : workers keep dying.
    Whatever ``run`` raises, KeyboardInterrupt : the journal keeps what is done.
    """
    rows: dict[str, Row] = _load(journal) if journal is not None and resume else {}
    rows = {key: row for key, row in rows.items() if key in tasks}
    with _appending(journal, fresh=not resume) as keep:
        if progress is not None:
            progress(len(rows), len(tasks))
        failures = 0
        while len(rows) < len(tasks):
            before = len(rows)
            left = {key: task for key, task in tasks.items() if key not in rows}
            try:
                with _computed(run, left, jobs, backend) as computed:
                    for key, row in computed:
                        rows[key] = row
                        keep(key, row)
                        if progress is not None:
                            progress(len(rows), len(tasks))
            except _died() as error:
                failures = failures + 1 if len(rows) == before else 0
                if failures == TRIES:
                    raise SweepError(
                        f"workers died {TRIES} times in a row ({type(error).__name__});"
                        f" {len(rows)} of {len(tasks)} are done"
                    ) from error
    return {key: rows[key] for key in tasks}


def one(run: Run, key: str, task: Any) -> tuple[str, Row]:
    """A task's row as it would come out of a journal (tuples are lists, all floats exact)."""
    return key, json.loads(json.dumps(run(task)))


def _one_apart(starter: int, run: Run, key: str, task: Any) -> tuple[str, Row]:
    """The same in a process of its own here: Ctrl-C is for the one that started it, which ends this one."""
    if os.getpid() != starter and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return one(run, key, task)


# -- who computes -------------------------------------------------------------------------------------


@contextmanager
def _computed(
    run: Run, tasks: Mapping[str, Any], jobs: int | None, backend: str | None
) -> Iterator[Iterable[tuple[str, Row]]]:
    if backend is None and jobs == 1:
        yield (one(run, key, task) for key, task in tasks.items())
        return
    from joblib import Parallel, delayed  # type: ignore[import-untyped]

    each = partial(_one_apart, os.getpid()) if backend is None else one
    calls = (delayed(each)(run, key, task) for key, task in tasks.items())
    with _workers(backend), _calm():
        parallel = Parallel(
            n_jobs=-1 if jobs is None else jobs,
            return_as="generator_unordered",
            # Enough at hand that a worker never waits for this process to wake up.
            pre_dispatch="6*n_jobs",
        )
        computed = parallel(calls)
        try:
            yield computed
        finally:
            with warnings.catch_warnings():
                # joblib warns of what it drops, as it is meant to.
                warnings.simplefilter("ignore", UserWarning)
                computed.close()


@contextmanager
def _calm() -> Iterator[None]:
    """When joblib is stopped (it may be so anywhere) its own thread may trip over a task that is no longer
    there: nothing to read.
    """
    plain = threading.excepthook

    def hook(failure: Any) -> None:
        tripped = getattr(failure.thread, "name", "") == "ExecutorManagerThread"
        if not (tripped and issubclass(failure.exc_type, KeyError)):
            plain(failure)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = plain


@contextmanager
def _workers(backend: str | None) -> Iterator[None]:
    if backend is None:
        with nullcontext():
            yield
        return
    kind, _, address = backend.partition("://")
    if kind != "dask" or not address:
        raise InputError(f"--backend must be dask://HOST:PORT, got {backend!r}")
    try:
        from distributed import Client
    except ImportError:
        raise InputError(f"--backend {backend}: needs distributed: install fairq[dask]") from None
    from joblib import parallel_config

    try:
        client: Any = Client(f"tcp://{address}", timeout="5s", set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise InputError(f"--backend {backend}: no scheduler answers ({type(error).__name__})") from None
    with client, parallel_config(backend="dask", client=client):
        yield


def _died() -> tuple[type[BaseException], ...]:
    """What it looks like when a worker was killed."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # type: ignore[import-untyped]

    try:
        from distributed.scheduler import KilledWorker
    except ImportError:
        return (TerminatedWorkerError,)
    return (TerminatedWorkerError, KilledWorker)


# -- the journal --------------------------------------------------------------------------------------


def _load(path: Path) -> dict[str, Row]:
    """The whole lines of a journal; a line that was being written when the end came is not one."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(unreadable(path, error)) from None
    rows = {}
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            break
        try:
            entry = json.loads(line)
            rows[entry["key"]] = entry["row"]
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{path}:{number}: not a line of a journal; delete the file to start anew"
            ) from None
    return rows


def aside(path: Path) -> Path:
    """The name under which an earlier journal is kept when a new one takes its place: one that is free."""
    names = (path.with_name(f"{path.name}.bak{number if number > 1 else ''}") for number in count(1))
    return next(name for name in names if not name.exists())


@contextmanager
def _appending(path: Path | None, fresh: bool) -> Iterator[Callable[[str, Row], None]]:
    """``fresh``: with the first row, and not before, what is in the file is put aside."""
    if path is None:
        yield lambda key, row: None
        return
    with ExitStack() as stack:
        # Before anything is computed: can it be written? Nothing is changed by that.
        file = stack.enter_context(_opened(path))
        if not fresh:
            # Cut off a line that was never finished.
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)

        def keep(key: str, row: Row) -> None:
            nonlocal file, fresh
            if fresh and path.stat().st_size:
                path.replace(aside(path))
                file = stack.enter_context(_opened(path))
            fresh = False
            file.write(json.dumps({"key": key, "row": row}).encode("utf-8") + b"\n")
            file.flush()
            os.fsync(file.fileno())

        yield keep


def _opened(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+b")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
