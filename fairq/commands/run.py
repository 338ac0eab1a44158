"""``fairq run``: one scenario or log under several policies, as a table, CSV files and charts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.commands._columns import LOG_ENDINGS, only_for_logs, takes_columns, tell_lost
from fairq.files import InputError, nearest, readable, write_whole

if TYPE_CHECKING:
    import pandas as pd

    from fairq.commands._tables import Results
    from fairq.scenario import Scenario

MOST = 12
"""Tenants of one policy shown in a terminal."""

FORMATS = ("png", "svg", "pdf")


def register(app: typer.Typer) -> None:
    app.command("run")(run)


@takes_columns()
def run(
    file: Annotated[
        str,
        typer.Argument(help="A scenario file, a shipped scenario (noisy_burst), or a log (any form)."),
    ],
    policy: Annotated[
        list[str] | None, typer.Option(help="Only this policy of the file (repeat for more).")
    ] = None,
    policy_file: Annotated[list[Path] | None, typer.Option(help="Also the policy in this YAML file.")] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the file's; for a log: of --tenants.")] = None,
    replications: Annotated[
        int | None,
        typer.Option(min=1, help="Independent runs (default 10; 1 where nothing is random, such as a log)."),
    ] = None,
    load: Annotated[float, typer.Option(help="Times the steady demand.")] = 1.0,
    burst: Annotated[float, typer.Option(help="Times the size of bursts.")] = 1.0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a field: engine.slots=4.")
    ] = None,
    by: Annotated[str, typer.Option(help="Rows: tenant or group.")] = "tenant",
    all_rows: Annotated[bool, typer.Option("--all", help=f"Show more than {MOST} rows.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for CSV files, charts and the scenario.")] = None,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="Of the charts: png, svg, pdf (default png and svg).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
    *,
    columns: dict[str, Any],
) -> None:
    """Run a scenario or log under its policies: the same requests, another order."""
    if by not in ("tenant", "group"):
        raise InputError(f"--by must be tenant or group, got {by!r}")
    for format in formats or ():
        if format not in FORMATS:
            raise InputError(f"--format must be one of {', '.join(FORMATS)}, got {format!r}")
    scenario = open_scenario(file, columns)
    tell_lost(scenario)
    scenario = _changed(scenario, policy_file or [], policy or [], changes or [], seed)
    scenario = scenario.with_(load=load, burst=burst)
    if not scenario.random and (replications or 1) > 1:
        raise InputError(
            f"--replications must be 1 where nothing is random (such as a log), got {replications}"
        )
    if out is not None:
        _check_folder(out)
    results = simulate_all(scenario, replications or (10 if scenario.random else 1))
    # Files first: whoever reads what is printed (`| head`) may leave in the middle.
    written = [] if out is None else _write(results, scenario, by, out, formats or ["png", "svg"])
    _show(results, scenario, by, as_json, None if all_rows else MOST)
    for path in written:
        typer.echo(path, err=as_json)


def open_scenario(file: str, columns: dict[str, Any] | None = None) -> Scenario:
    """A scenario from a scenario file, a shipped name, or a log (or a fetched trace) with its columns.

    Raises
    ------
    InputError : names file, field and value.
    """
    from fairq.commands._catalog import PUBLIC
    from fairq.data import data_names
    from fairq.scenario import Scenario

    path = log_file(file)
    if path is not None:
        with readable(path), path.open("rb"):
            pass  # said of the file that was named, not of a field of a scenario
        return Scenario.from_log(path, **(columns or {}))
    only_for_logs(columns, file, "a scenario")
    logs = [*data_names("logs", ".csv"), *PUBLIC]
    near = nearest(file, logs)
    if near and not Path(file).exists() and file not in data_names("scenarios", ".yaml"):
        raise InputError(f"{file}: no such file; logs with a name are {', '.join(logs)}{near}")
    return Scenario.load(file)


def log_file(file: str) -> Path | None:
    """The log that is meant by a path, or by the name of a shipped or a fetched one; None: no log.

    Raises InputError for a public trace that was not fetched yet.
    """
    from fairq.commands._catalog import PUBLIC
    from fairq.commands.traces import trace_folder
    from fairq.data import data_names, data_path

    path = Path(file)
    if not path.exists() and file in data_names("logs", ".csv"):
        path = data_path(f"logs/{file}.csv")
    if not path.exists() and file in PUBLIC:
        path = trace_folder() / PUBLIC[file].file_name
        if not path.exists():
            raise InputError(f"{file}: is not here yet; `fairq traces get {file}` fetches it")
    return path if path.suffix.lower() in LOG_ENDINGS else None


def simulate_all(scenario: Scenario, replications: int) -> Results:
    """Every policy on the same requests, with a progress bar where somebody watches. Raises InputError."""
    from fairq.sim import simulate

    workload = scenario.workload()
    results: dict[str, list[Any]] = {}
    with _progress(len(scenario.policies) * replications) as progress:
        for name in scenario.policies:
            results[name] = []
            for replication in range(replications):
                try:
                    result = simulate(
                        workload,
                        scenario.policy(name),
                        scenario.engine(),
                        seed=scenario.seed,
                        replication=replication,
                        warmup=scenario.warmup_s,
                        progress=progress(f"{name}, run {replication + 1} of {replications}"),
                    )
                except ValueError as error:
                    raise InputError(f"{scenario.source}: {name}: {error}") from error
                results[name].append(result)
    return results


@contextmanager
def _progress(runs: int) -> Iterator[Any]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=runs)
        begun = 0

        def begin(what: str) -> Any:
            nonlocal begun
            before, begun = begun, begun + 1
            bar.update(task, description=escape(what), completed=before)
            return lambda done, expected: bar.update(task, completed=before + done / max(expected, 1))

        yield begin


def _changed(
    scenario: Scenario, files: list[Path], only: list[str], changes: list[str], seed: int | None
) -> Scenario:
    from fairq.scenario import ScenarioError
    from fairq.scenario.yaml_files import parse_yaml, read_yaml

    for change in changes:
        field, equals, text = change.partition("=")
        if not equals:
            raise InputError(f"--set must be PATH=VALUE, got {change!r}")
        scenario = scenario.with_({field: parse_yaml(text, f"--set {field}")})
    policies = scenario.data()["policies"]
    for path in files:
        try:
            policies[path.stem] = read_yaml(path)
        except OSError as error:
            raise ScenarioError(str(path), [f"cannot be read: {error.strerror}"]) from None
    for name in only:
        if name not in policies:
            near = nearest(name, policies)
            raise InputError(f"--policy must be one of {', '.join(policies)}, got {name!r}{near}")
    # A file that was named is meant, whatever else is chosen.
    chosen = dict.fromkeys([*only, *(path.stem for path in files)]) if only else policies
    wanted = {name: policies[name] for name in chosen}
    where = "seed" if scenario.log is None else "log.seed"
    return scenario.with_({"policies": wanted, **({} if seed is None else {where: seed})})


def _show(results: Results, scenario: Scenario, by: str, as_json: bool, most: int | None) -> None:
    from rich.console import Console

    from fairq.commands._tables import headline, note, overall, table, terminal

    rows, whole = table(results, by, _order(scenario, by)), overall(results)
    if as_json:
        typer.echo(json.dumps(_document(rows, whole, scenario, by), indent=1, ensure_ascii=False))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)  # a file or a pipe has no width of its own
    certain, shares = not scenario.random, bool(rows["share"].notna().all())
    for policy in results:
        console.print(headline(policy, whole[policy]), style="bold", highlight=False, markup=False)
        console.print(terminal(rows[rows["policy"] == policy], by, certain, most, shares))
    console.print(note(rows["runs"], certain), style="dim", highlight=False)


def _order(scenario: Scenario, by: str) -> list[str] | None:
    """As in the file; for a log, nobody wrote an order down."""
    if scenario.log is not None:
        return None
    group_of = scenario.workload().group_of
    return list(group_of) if by == "tenant" else list(dict.fromkeys(group_of.values()))


def _document(
    rows: pd.DataFrame, whole: dict[str, dict[str, float]], scenario: Scenario, by: str
) -> dict[str, Any]:
    policies = {
        policy: {
            **{name: _plain(value) for name, value in figures.items()},
            by: {
                row[by]: {name: _plain(value) for name, value in row.items() if name not in ("policy", by)}
                for row in rows[rows["policy"] == policy].to_dict("records")
            },
        }
        for policy, figures in whole.items()
    }
    return {"scenario": scenario.name, "seed": scenario.seed, "policies": policies}


def _plain(value: Any) -> Any:
    # JSON has no NaN.
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _check_folder(folder: Path) -> None:
    """Before anything runs: can files be written there? Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written: {error.strerror}") from None


def _write(results: Results, scenario: Scenario, by: str, folder: Path, formats: list[str]) -> list[Path]:
    import pandas as pd

    from fairq.commands._charts import write_charts
    from fairq.commands._tables import table

    order = _order(scenario, by)
    rows = pd.concat(
        [
            run.requests.assign(policy=policy, replication=run.replication)
            for policy, runs in results.items()
            for run in runs
        ],
        ignore_index=True,
    )
    rows = rows[["policy", "replication", *rows.columns.drop(["policy", "replication"])]]
    try:
        return [
            write_whole(folder / "table.csv", _csv(table(results, by, order))),
            write_whole(folder / "requests.csv", _csv(rows)),
            scenario.dump(folder / "scenario.yaml"),
            *write_charts(results, by, order, not scenario.random, folder, formats),
        ]
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written: {error.strerror}") from None


def _csv(rows: pd.DataFrame) -> str:
    return rows.to_csv(index=False, lineterminator="\n")
