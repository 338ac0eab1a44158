"""``tune``: try the settings, see who pays, and say which one to apply; or what capacity would do instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairq import metrics
from fairq.files import InputError, nearest
from fairq.scenario import Scenario
from fairq.sweep import sweep
from fairq.tune.cells import STATISTICS, Cell, digest, parties, run_cell, workload_digest
from fairq.tune.engine import kv_of
from fairq.tune.settings import FAMILIES, Setting, settings
from fairq.tune.target import Target, check_names, parse_targets

REPLICATIONS = 10
LARGE_LOG = 100_000
"""Requests above which a log's fitted model is not also run (each replication is as long as the log)."""
MOST_CHECKED = 8
"""Settings that keep the promise in a log's replay and are looked at on its model, until one keeps it."""
SAME = 0.02
"""Prices closer than this part are the same price."""
PRICE = ("latency", "mean")
"""What the others pay with: their mean latency, as a multiple of today's."""

Progress = Callable[[str, int, int], None]
"""Called with (what is being tried, done, of how many)."""


@dataclass(frozen=True)
class Capacity:
    """What capacity would do under ``setting``.

    ``slots`` (there are ``now``) reach the target; or, where an engine has no slots to add, the target holds
    at ``load`` times today's demand. None: not within what was tried (``most``).
    """

    setting: str
    now: int | None = None
    slots: int | None = None
    load: float | None = None
    most: float = 0


@dataclass(frozen=True)
class Tuning:
    """What was tried and what came of it.

    ``table``: a row per setting: ``setting, value`` (seconds; of the worst target, with ``low, high``, the
    95 % interval over replications, NaN for a replay), ``of_target`` (value / bound), ``verdict`` (``meets``,
    ``perhaps``: the interval holds the bound, ``misses``), ``price`` (the worst of the others' mean latency,
    times today's), ``payer`` (who that is), ``unserved, tokens_per_s, utilisation, knobs, front`` (nothing
    else is better in both).
    ``payers``: a row per setting and party: ``party, before, after, difference, low, high`` (mean latency in
    seconds, paired by replication) and ``p99_before, p99_after``.
    ``check``: the same on a model fitted to a log, for today's, the chosen setting and those passed over for
    it because they miss the target there; or None.
    """

    scenario: Scenario
    targets: Sequence[Target]
    settings: Sequence[Setting]
    table: pd.DataFrame
    payers: pd.DataFrame
    chosen: Setting | None
    capacity: Sequence[Capacity]
    runs: int
    requests: int
    check: pd.DataFrame | None = None
    kv_tokens: int | None = None
    """What the engine's KV cache holds, where that and not slots is what binds."""

    @property
    def today(self) -> Setting:
        """What is set now."""
        return self.settings[0]

    @property
    def best(self) -> Setting:
        """The chosen one, or that which comes nearest to the target."""
        if self.chosen is not None:
            return self.chosen
        nearest = self.table["of_target"].fillna(inf).to_numpy(dtype=float).argmin()
        return self.settings[int(nearest)]

    def row(self, setting: Setting) -> Mapping[str, Any]:
        """Its row of ``table``."""
        rows = self.table[self.table["setting"] == setting.name]
        return {str(name): value for name, value in rows.iloc[0].items()}

    @property
    def replay(self) -> bool:
        """One complete replay of a log: facts, without an interval."""
        return self.runs == 1 and not self.scenario.random

    def policy_yaml(self) -> str:
        """The policy file of the best setting; ``fairq.scenario.load_policy`` reads it back.

        It stands alone: groups and weights of the scenario's tenants are written out.
        """
        from fairq.scenario.yaml_files import to_yaml
        from fairq.tune.alone import alone

        return to_yaml(alone(self.best.policy, self.scenario.workload()))

    def lines(self) -> list[str]:
        """The verdict in sentences."""
        from fairq.tune.words import verdict

        return verdict(self)

    def html(self) -> str:
        """A self-contained page."""
        from fairq.tune.report import page

        return page(self)

    def save(self, folder: str | Path) -> list[Path]:
        """Writes report, charts, tables, policy file, example and how to type it; returns the paths.

        Raises
        ------
        OSError : the folder cannot be written.
        """
        from fairq.tune.report import write

        return write(self, Path(folder))

    def _repr_html_(self) -> str:
        from fairq.tune.report import fragment

        return fragment(self)


def tune(
    scenario: Scenario | str | Path,
    target: str | Sequence[str],
    *,
    today: str | None = None,
    families: Sequence[str] = FAMILIES,
    replications: int | None = None,
    jobs: int | None = None,
    backend: str | None = None,
    journal: Path | None = None,
    resume: bool = False,
    capacity: bool = True,
    kv_tokens: int | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Find the setting that keeps a promise and costs the others least.

    Every setting meets the same requests (common random numbers). A setting *meets* the target when the whole
    95 % interval over replications is below it; a log is replayed once, as it was, and of the settings that
    meet it so the first is chosen that also meets it on a model fitted to the log, where there is one.

    Parameters
    ----------
    scenario : a ``Scenario``, or a file or shipped name of one. target : as in ``fairq.tune.target``.
    today : the policy in use (a name in the scenario; None: its first); prices are measured against it.
    families : which settings to try. replications : default 10, 1 for a log.
    jobs, backend, journal, resume : as in ``fairq.sweep.sweep``.
    capacity : also say what more slots (or less load) would do.
    kv_tokens : the engine's KV cache, where that and not slots is what binds (default: as a log shows it);
        then more slots would do nothing, and less load is looked at.

    Raises
    ------
    InputError : a target, family or scenario that is wrong. SweepError : workers keep dying.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    targets = parse_targets(target)
    unknown = [family for family in families if family not in FAMILIES]
    if unknown:
        near = nearest(unknown[0], FAMILIES)
        raise InputError(f"--try must be one of {', '.join(FAMILIES)}, got {unknown[0]!r}{near}")
    workload: Any = scenario.workload()
    check_names(targets, list(dict.fromkeys([*workload.group_of, *workload.group_of.values()])))
    runs = _runs(scenario, replications)
    tried = settings(scenario, targets, families, today)
    lab = _Bench(scenario, targets, runs, jobs, backend, journal, resume, progress)
    rows = lab.run(tried, "settings")
    table, payers = lab.table(tried, rows), _payers(tried, rows, lab.payers)
    kv_tokens = kv_of(scenario) if kv_tokens is None else kv_tokens
    good = _ranked(tried, table)
    chosen = good[0] if good else None
    more: list[Capacity] = []
    if capacity:
        best = chosen or tried[int(table["of_target"].fillna(inf).to_numpy(dtype=float).argmin())]
        more = _capacity(lab, [tried[0]] if chosen is not None else [best, tried[0]], kv_tokens is not None)
    requests = int(rows[0][0]["requests"])
    made = Tuning(scenario, targets, tried, table, payers, chosen, more, runs, requests, kv_tokens=kv_tokens)
    if scenario.log is not None and requests <= LARGE_LOG:
        check, chosen = _check(made, good, jobs, backend, journal, progress)
        made = replace(made, check=check, chosen=chosen)
    return made


def _runs(scenario: Scenario, asked: int | None) -> int:
    if asked is not None and asked < 1:
        raise InputError(f"replications must be >= 1, got {asked}")
    if not scenario.random:
        if (asked or 1) > 1:
            raise InputError(
                f"replications must be 1 where nothing is random (such as a log), got {asked};"
                " a model fitted to the log has replications (--fit, or scenario.fitted())"
            )
        return 1
    return asked or REPLICATIONS


class _Bench:
    """Runs settings of one scenario, each row once."""

    def __init__(
        self,
        scenario: Scenario,
        targets: Sequence[Target],
        runs: int,
        jobs: int | None,
        backend: str | None,
        journal: Path | None,
        resume: bool,
        progress: Progress | None,
    ) -> None:
        self.scenario = scenario
        self.targets = targets
        self.runs = runs
        self.parties, self.payers = parties(scenario, targets)
        self.statistics = tuple(dict.fromkeys([*STATISTICS, *(t.statistic for t in targets)]))
        self._how: dict[str, Any] = {"jobs": jobs, "backend": backend, "journal": journal}
        self._resume = resume
        self._progress = progress
        self._workload = workload_digest(scenario)

    def run(self, tried: Sequence[Setting], what: str, load: float = 1.0) -> list[list[dict[str, Any]]]:
        """The rows of every setting, one per replication."""
        scenario = self.scenario if load == 1 else _demand(self.scenario, load)
        workload = self._workload if load == 1 else workload_digest(scenario)
        tasks: dict[str, Cell] = {}
        keys = []
        for setting in tried:
            changed = setting.scenario(scenario)
            cells = [Cell(changed, run, self.parties, self.statistics) for run in range(self.runs)]
            mine = [digest(cell, workload) for cell in cells]
            tasks |= dict(zip(mine, cells, strict=True))
            keys.append(mine)
        tell = self._progress
        rows = sweep(
            run_cell,
            tasks,
            resume=self._resume,
            progress=None if tell is None else (lambda done, of: tell(what, done, of)),
            **self._how,
        )
        # What is in the journal by now is this sweep's own.
        self._resume = True
        return [[rows[key] for key in mine] for mine in keys]

    def meets(self, setting: Setting, what: str, load: float = 1.0) -> bool:
        """Whether the setting surely keeps every promise."""
        table = self.table([setting], self.run([setting], what, load))
        return bool(table["verdict"].iloc[0] == "meets")

    def table(self, tried: Sequence[Setting], rows: Sequence[Sequence[Mapping[str, Any]]]) -> pd.DataFrame:
        """A row per setting; see ``Tuning.table``."""
        return _table(tried, rows, self.targets, self.payers, certain=not self.scenario.random)


def _demand(scenario: Scenario, part: float) -> Scenario:
    """So much of the demand, steady and in bursts."""
    less = scenario.with_(load=part)
    for name, tenant in scenario.tenants.items():
        requests = getattr(tenant.arrivals, "requests", None)  # a dump has no rate
        if requests is not None:
            fewer = max(1, round(requests * part))
            less = less.with_({("tenants", name, "arrivals", "requests"): fewer})
    return less


# -- tables -------------------------------------------------------------------------------------------


def _table(
    tried: Sequence[Setting],
    rows: Sequence[Sequence[Mapping[str, Any]]],
    targets: Sequence[Target],
    payers: Sequence[str],
    certain: bool,
) -> pd.DataFrame:
    today = rows[0]
    made = []
    for setting, runs in zip(tried, rows, strict=True):
        kept = [_kept(target, runs, certain) for target in targets]
        worst = max(kept, key=lambda each: (each["of_target"], each["verdict"] == "misses"))
        verdicts = [each["verdict"] for each in kept]
        price, payer = _price(runs, today, payers)
        made.append(
            {
                "setting": setting.name,
                **worst,
                "verdict": next((v for v in ("misses", "perhaps") if v in verdicts), "meets"),
                "price": price,
                "payer": payer,
                "unserved": sum(_unserved(run) for run in runs),
                **{
                    name: _mean([run[name] for run in runs])
                    for name in ("tokens_per_s", "utilisation", "end_s")
                },
                "knobs": setting.knobs,
            }
        )
    table = pd.DataFrame(made)
    table["front"] = _front(table["of_target"].to_numpy(dtype=float), table["price"].to_numpy(dtype=float))
    return table


def _kept(target: Target, runs: Sequence[Mapping[str, Any]], certain: bool) -> dict[str, Any]:
    """How well one promise is kept over the replications. ``certain``: every run would be the same.

    One run of many that might have been says "perhaps" at best.
    """
    values = [run["parties"][target.who][target.metric][target.statistic] for run in runs]
    n = sum(run["parties"][target.who]["n"] for run in runs)
    if any(value == inf for value in values):
        mean, low, high = inf, nan, nan
    else:
        mean, low, high = metrics.t_interval(values)
        # A t-interval knows nothing of times, which are not negative.
        low = low if isnan(low) else max(low, 0.0)
    if isnan(mean) or not target.met(mean):
        verdict = "misses"
    else:
        sure = target.met(high) if len(runs) > 1 else certain
        verdict = "meets" if sure else "perhaps"
    return {
        "target": str(target),
        "value": mean,
        "low": low,
        "high": high,
        "of_target": mean / target.bound_s if not isnan(mean) else inf,
        "verdict": verdict,
        "n": n,
    }


def _price(
    runs: Sequence[Mapping[str, Any]], today: Sequence[Mapping[str, Any]], payers: Sequence[str]
) -> tuple[float, str]:
    """The worst ratio of mean latencies, and whose it is; 1 and nobody where nobody else is there."""
    metric, statistic = PRICE
    worst, who = -inf, ""
    for label in payers:
        now, was = (
            _mean([run["parties"][label][metric][statistic] for run in each]) for each in (runs, today)
        )
        ratio = now / was if was > 0 else nan
        if ratio > worst:
            worst, who = ratio, label
    return (worst, who) if who else (1.0, "")


def _payers(
    tried: Sequence[Setting], rows: Sequence[Sequence[Mapping[str, Any]]], payers: Sequence[str]
) -> pd.DataFrame:
    made = []
    labels = [*(label for label in rows[0][0]["parties"] if label not in payers), *payers]
    for setting, runs in zip(tried, rows, strict=True):
        for label in labels:
            now, was = ([run["parties"][label]["latency"] for run in each] for each in (runs, rows[0]))
            after, before = ([each["mean"] for each in side] for side in (now, was))
            # An infinite latency (never served) has no difference.
            finite = all(map(isfinite, [*after, *before]))
            difference = (
                metrics.paired_difference(after, before) if finite else metrics.Interval(nan, nan, nan)
            )
            made.append(
                {
                    "setting": setting.name,
                    "party": label,
                    "promised": label not in payers,
                    "n": int(_mean([run["parties"][label]["n"] for run in runs])),
                    "before": _mean(before),
                    "after": _mean(after),
                    "difference": difference.mean,
                    "low": difference.low,
                    "high": difference.high,
                    "p99_before": _mean([each["p99"] for each in was]),
                    "p99_after": _mean([each["p99"] for each in now]),
                }
            )
    return pd.DataFrame(made)


def _front(x: Any, y: Any) -> list[bool]:
    """Which points no other one beats: at least as small in both, smaller in one; of equals the first."""
    front = []
    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        beaten = (x <= a) & (y <= b) & ((x < a) | (y < b))
        beaten[:i] |= (x[:i] == a) & (y[:i] == b)
        front.append(bool(np.isfinite(a) and not beaten.any()))
    return front


def _ranked(tried: Sequence[Setting], table: pd.DataFrame) -> list[Setting]:
    """Those that meet the target: the lowest price first, then the simplest, then the one with most room."""
    good = table[(table["verdict"] == "meets") & (table["unserved"] <= table["unserved"].iloc[0])]
    ranked = []
    while not good.empty:
        lowest = good["price"].min()
        same = good[good["price"] <= max(lowest * (1 + SAME), lowest + 1e-9)]
        row = same.sort_values(["knobs", "of_target"], kind="stable").index[0]
        ranked.append(tried[int(row)])
        good = good.drop(row)
    return ranked


def _unserved(run: Mapping[str, Any]) -> int:
    return int(sum(each["unserved"] for each in run["parties"].values()))


def _mean(values: Sequence[float]) -> float:
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[~np.isnan(numbers)]
    return float(numbers.mean()) if numbers.size else nan


# -- capacity -----------------------------------------------------------------------------------------


def _capacity(lab: _Bench, tried: Sequence[Setting], kv_binds: bool) -> list[Capacity]:
    found = []
    for setting in {each.name: each for each in tried}.values():
        spec = lab.scenario.engine_spec
        slots = getattr(spec, "slots", None)
        if isinstance(slots, int) and not kv_binds:
            found.append(_more_slots(lab, setting, slots))
        else:
            found.append(_less_load(lab, setting))
    return found


def _more_slots(lab: _Bench, setting: Setting, now: int, most: int = 16) -> Capacity:
    """The least number of slots with which the setting meets the target: doubling, then halving the gap."""

    def enough(slots: int) -> bool:
        changed = replace(setting, engine={**setting.engine, "slots": slots})
        return lab.meets(changed, f"{setting.name} with {slots} slots")

    short, good = now, now
    while not enough(good):
        short, good = good, 2 * good
        if good > most * now:
            return Capacity(setting.name, now=now, most=most * now)
    while good - short > 1:
        middle = (short + good) // 2
        short, good = (short, middle) if enough(middle) else (middle, good)
    return Capacity(setting.name, now=now, slots=good, most=most * now)


def _less_load(lab: _Bench, setting: Setting, step: float = 0.05) -> Capacity:
    """The most of today's load (in steps) at which the setting meets the target."""
    low, high = 0, round(1 / step)
    while high - low > 1:
        middle = (low + high) // 2
        load = middle * step
        low, high = (
            (middle, high)
            if lab.meets(setting, f"{setting.name} at {load:.0%} load", load)
            else (low, middle)
        )
    return Capacity(setting.name, load=low * step if low else None, most=step)


# -- a log's model ------------------------------------------------------------------------------------


def _check(
    made: Tuning,
    good: Sequence[Setting],
    jobs: int | None,
    backend: str | None,
    journal: Path | None,
    progress: Progress | None,
) -> tuple[pd.DataFrame, Setting | None]:
    """Today's and the best settings on a model fitted to the log, with intervals; and the one to choose.

    ``good``: those that meet the target in the replay, the best first. The first that meets it on the model
    is chosen; where none does, one that perhaps does, or else the best of the replay.
    """
    model = made.scenario.fitted()
    lab = _Bench(model, made.targets, REPLICATIONS, jobs, backend, journal, journal is not None, progress)
    looked: dict[str, Setting] = {}
    rows: list[list[dict[str, Any]]] = []

    def look(several: Sequence[Setting]) -> pd.DataFrame:
        new = list({each.name: each for each in several if each.name not in looked}.values())
        if new:
            rows.extend(lab.run(new, "a model of the log"))
        looked.update({each.name: each for each in new})
        return lab.table(list(looked.values()), rows)

    table = look([made.today, *(good[:1] or [made.best])])
    if not good:
        return table, None
    verdicts = {}
    for setting in good[:MOST_CHECKED]:
        table = look([setting])
        verdicts[setting.name] = str(table.loc[table["setting"] == setting.name, "verdict"].iloc[0])
        if verdicts[setting.name] == "meets":
            return table, setting
    perhaps = [each for each in good if verdicts.get(each.name) == "perhaps"]
    return table, [*perhaps, *good][0]
