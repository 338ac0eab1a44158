"""The lab: sliders around a simulation, a picture that follows them, and files to take away."""

from __future__ import annotations

import base64
import html
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import ipywidgets as widgets  # type: ignore[import-untyped]
import pandas as pd

from fairq.lab import code, controls, export, report, uploads
from fairq.lab.charts import ChartSpec, View, chart_named, charts_for
from fairq.lab.compare import Alternative
from fairq.lab.controls import Control, button, html_box
from fairq.lab.dispatch import LatestOnMain, after_click, main_loop
from fairq.lab.engines import DOWN_S, KINDS, kind_of
from fairq.lab.find import Finder
from fairq.lab.knobs import Choice, Knob, Ticks
from fairq.lab.presets import QUESTIONS, Source, shipped
from fairq.lab.runs import Plan, Runs, Superseded
from fairq.lab.session import CONFIDENT, QUICK, Session
from fairq.lab.setting import FAILS
from fairq.lab.settings import ASKS, NEXT, SERVES, WEIGHTS, check_shown
from fairq.lab.tables import rows_html, table_html
from fairq.plots import Chart, number
from fairq.plots.quick import quick_png
from fairq.result import Result
from fairq.saturation import Verdict
from fairq.scenario import Scenario
from fairq.tune import Tuning
from fairq.tune.engine import as_served

SHOWS, SURE = "Policies", "How sure"
UNHEALTHY, HEALTHY = "Unhealthy now", "Healthy again"
REPLAYED = (
    "A log is replayed once, exactly as it was: its percentiles are facts of this run, so they have no "
    "interval. Of few requests, the p99 is nearly the slowest."
)
LIVE_DPI = 120.0
SWITCHES = ("engine", "users")
"""Controls that bring other controls with them."""
PARTS = ("preset", "find", "unhealthy")
"""Parts of the page that ``controls`` may name beside the settings."""
FORMATS = ("png", "svg", "pdf", "csv", "json")


class Lab:
    """Turn a knob, see who waits.

    Parameters
    ----------
    source : a Scenario, a scenario file or shipped name ("noisy_burst"), or a log (``.csv``, ``.jsonl``,
        ``.json``, ``.parquet``; its form is recognised).
    policies : which of the scenario's policies are ticked; default all.
    replications : runs behind each number once the sliders rest; 10 by default, 1 for the replay of a log.
    chart : "bars", "before_after", "ecdf", "queue" or "slots"; and where the engine has what they show
        "batch", "memory", "ways", "routers".
    controls : names (or beginnings of names) of the settings to show, such as ``("quantum", "weight")``;
        default all. Hidden ones keep working from code. ``"find"`` is the part that finds a setting; below a
        log it always is.
    columns : for a log: the columns, as in ``Scenario.from_log``. A log that says when it was served opens
        on the engine it shows (``fairq.tune.engine``), unless ``engine`` is given.

    From code: ``lab.set(quantum=1000, weight_chat=3, chart="slots")``, ``lab.set(engine="replicas",
    router="prefix")``, ``lab.table``, ``lab.rows`` (of a chart of engines), ``lab.result``,
    ``lab.find("chat p99 ttft < 2 s")``, ``lab.save("name")``, ``lab.code()``, ``Lab.from_json(path)``.

    Raises
    ------
    ScenarioError, TraceError, ValueError : what was given cannot be used, a control that no scenario has, a
        whole number that a browser would round; the message names it.
    """

    def __init__(
        self,
        source: Source = "noisy_burst",
        *,
        policies: Sequence[str] | None = None,
        replications: int | None = None,
        chart: str = "bars",
        controls: Sequence[str] | None = None,
        **columns: Any,
    ) -> None:
        chart_named(chart)
        self._lock = threading.RLock()
        asked = [controls] if isinstance(controls, str) else controls
        self._shown = None if asked is None else tuple(asked)
        self._generation = 0
        self._muted = False
        self._dirty = True
        self._replications = 0
        self._chart: Chart | None = None
        self._png = ""
        self._table: pd.DataFrame | None = None
        self._rows: pd.DataFrame | None = None
        self._warnings: list[str] = []
        self._next_source: Any = None
        self._aside: dict[str, Any] = {}
        self.timing: dict[str, float] = {}
        self._runs = Runs()
        self._dispatch = LatestOnMain(self._refresh)
        scenario = open_source(source, columns)
        self._presets = shipped()
        first = next((name for name, known in self._presets.items() if known == source), scenario.name)
        if first not in self._presets:
            self._presets = {first: scenario, **self._presets}
        self._build(first, chart)
        with self._quiet():
            self._open(scenario, policies=policies, replications=replications)
            self._control("chart").value = chart
        self._shape_for_chart()
        check_shown(self._shown or (), [*PARTS, *self._made])

    # ------------------------------------------------------------------ from code

    def set(self, /, **values: Any) -> Lab:
        """Turn several knobs at once.

        ``lab.set(quantum=1000, weight={"chat": 3}, policies=["FIFO", "fair"])``. Returns the lab;
        ``lab.table`` then has the new numbers.

        Raises
        ------
        ValueError : an unknown name (the message lists the known ones) or a value that does not fit; then
            nothing has changed.
        """
        before = self.settings
        with self._lock, self._quiet():
            try:
                self._put(values)
                self._plan()
            except ValueError:
                self._put(before)
                raise
        self._dirty = True
        if self._drawn:
            self._settle()
        return self

    def reset(self) -> Lab:
        """Every knob back to where the scenario has it."""
        with self._lock:
            self._put_defaults()
        self._dirty = True
        if self._drawn:
            self._settle()
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting with its value, as ``set`` takes them."""
        found = {name: control.value for name, control in self._controls.items()}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}

    @property
    def scenario(self) -> Scenario:
        """The scenario with what was turned in place."""
        return self._plan().scenario

    @property
    def table(self) -> pd.DataFrame:
        """One row per policy and tenant, the numbers of the bars (seconds; see :func:`fairq.lab.summary`)."""
        self._settle()
        assert self._table is not None
        return self._table.copy()

    @property
    def rows(self) -> pd.DataFrame:
        """The rows behind a chart of engines ("batch", "memory", "ways", "routers").

        Raises
        ------
        ValueError : the chart now shown is of tenants; its numbers are ``lab.table``.
        """
        self._settle()
        if self._rows is None:
            raise ValueError(f"chart {self._chooser.value!r} is of tenants: its numbers are lab.table")
        return self._rows.copy()

    @property
    def verdict(self) -> Verdict:
        """Is the box too small, or is the queue unfair? On the first run of the last ticked policy."""
        self._settle()
        return self._session.verdict(self._plan(), self._choices(self._policies)["under"])

    @property
    def result(self) -> pd.DataFrame:
        """Every request of every run: ``policy, replication``, then the columns of ``Result.requests``."""
        self._settle()
        return self._session.rows(self._plan(), self._policies, self._replications)

    @property
    def results(self) -> dict[str, list[Result]]:
        """The Results themselves, one per replication, by policy."""
        self._settle()
        plan = self._plan()
        return {p: [self._runs.run(plan, p, r) for r in range(self._replications)] for p in self._policies}

    @property
    def chart(self) -> Chart:
        """The chart now shown, a matplotlib Figure."""
        self._settle()
        assert self._chart is not None
        return self._chart

    def find(self, target: str | None = None, today: str | None = None) -> Tuning:
        """The setting that keeps a promise at the lowest price to the others, as ``fairq.tune.tune`` finds it
        for what is shown now; the page shows it, too, and ``.save(folder)`` writes it.

        Parameters
        ----------
        target : as in ``fairq tune --target``; None: what stands in the box.
        today : the policy in use (default: the one chosen there, first the scenario's first).

        Raises
        ------
        InputError : a promise or policy that is wrong. KeyboardInterrupt : interrupted, nothing is shown.
        """
        self._settle()
        return self._finder.run(target, today)

    @property
    def found(self) -> Tuning | None:
        """What ``find`` or its button found last, for the scenario that is open."""
        return self._finder.made

    def code(self) -> str:
        """Python that makes the same numbers without the lab."""
        places, factors = self._session.changes(self.settings)
        by = self.settings["by"]
        return code.python(
            self._session.base,
            places,
            factors,
            policies=self._policies,
            replications=self._wanted,
            measure=self.settings["measure"],
            by=by,
            named=self._session.named(by),
            more=self._more_code(),
            users=self._session.users,
        )

    def save(self, name: str | os.PathLike[str], formats: Sequence[str] = FORMATS) -> list[Path]:
        """Write the chart (``.png .svg .pdf``), ``_table.csv``, ``_rows.csv`` and the view (``.json``).

        A bare name goes to ``figures/exports`` of the project, a path is used as it is. Returns the paths.

        Raises
        ------
        ValueError : an unknown format. OSError : a file cannot be written.
        """
        files = self._contents(export.target(name), formats)
        return export.write(files)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Lab:
        """The view that ``save`` wrote.

        Raises
        ------
        InputError : not such a file, or its scenario, its log or a setting cannot be used; names the file and
            what is wrong. OSError : it cannot be read.
        """
        file = Path(path)
        scenario, values, warnings = export.read_document(
            file.read_bytes(), str(path), file.absolute().parent
        )
        lab = cls._of_view(scenario, values, str(path))
        lab._warnings = warnings
        return lab

    @classmethod
    def _of_view(cls, scenario: Scenario, values: Mapping[str, Any], source: str) -> Lab:
        lab = cls(scenario)
        try:
            return lab.set(**values)
        except ValueError as error:
            raise export.LabFileError(f"{source}: settings: {error}") from None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        # Both: sliders where a kernel runs, the picture where none does (GitHub, an untrusted notebook).
        self._settle()
        assert self._chart is not None
        bundle = dict(self.widget._repr_mimebundle_() or {})
        bundle["text/plain"] = self._chart.alt
        bundle["image/png"] = self._png
        return bundle

    # ------------------------------------------------------------------ the page

    def _build(self, preset: str, chart: str) -> None:
        self._preset = Choice(
            "preset", "Preset", "Another scenario or log", list(self._presets), preset, narrow=True
        )
        self._preset.menu.layout.width = "302px"
        self._preset.on_change(self._preset_chosen)
        self._chooser = controls.chart_chooser(chart)
        self._unhealthy = button(
            UNHEALTHY, "One of the engines fails at the time set on the left", self._fail_now
        )
        self._chooser.observe(lambda _: self._changed(), "value")
        self._first_chart = chart
        self._picture = html_box()
        self._picture.add_class("fairq-picture")
        self._numbers = html_box()
        self._status = html_box(min_height="28px")
        self._bar: Any = widgets.FloatProgress(
            value=0.0,
            min=0.0,
            max=1.0,
            description="",
            tooltip="Progress of the simulation",
            layout=widgets.Layout(width="auto", height="8px", margin="0", visibility="hidden"),
        )
        self._report = html_box()
        self._links = html_box()
        self._listing = html_box()
        self._listing_open = False
        self._upload: Any = widgets.FileUpload(
            accept=".json",
            multiple=False,
            description="Open a saved view",
            tooltip="Open a JSON file that was saved here",
            layout=widgets.Layout(width="auto"),
        )
        self._upload.observe(self._uploaded, "value")
        self._log_upload: Any = widgets.FileUpload(
            accept=",".join(uploads.ENDINGS),
            multiple=False,
            description="Open a log",
            tooltip="Replay a log of your own: CSV, JSON lines, JSON or Parquet; its form is recognised",
            layout=widgets.Layout(width="auto"),
        )
        self._log_upload.observe(self._log_uploaded, "value")
        self._skip_bad: Any = widgets.Checkbox(
            value=False,
            description="leave out bad rows",
            tooltip="When a log is opened: count rows that cannot be read, do not stop at the first",
            indent=False,
            layout=widgets.Layout(width="auto", margin="2px 8px"),
        )
        self._weights = widgets.VBox([])
        self._left = widgets.VBox(
            [], layout=widgets.Layout(width="312px", flex="0 0 auto", margin="0 12px 0 0")
        )
        self._shown_time = widgets.HTML("", tooltip="", layout=widgets.Layout(align_self="center"))
        self._shape = widgets.Box([], layout=widgets.Layout(flex_flow="row wrap"))
        exports = widgets.Box(
            [
                button(text, tip, partial(self._export, formats))
                for text, tip, formats in (
                    ("PNG", "Write the chart as a PNG file", ("png",)),
                    ("SVG", "Write the chart as an SVG file", ("svg",)),
                    ("PDF", "Write the chart as a PDF file", ("pdf",)),
                    ("CSV", "Write the table and the rows of all requests as CSV files", ("csv",)),
                    ("JSON", "Write scenario, settings, seed and versions; it opens here again", ("json",)),
                    ("All files", "Write all of these", FORMATS),
                )
            ]
            + [button("Show code", "Python that makes the same numbers", self._toggle_code), self._upload]
            + [self._log_upload, self._skip_bad],
            layout=widgets.Layout(flex_flow="row wrap"),
        )
        right = widgets.VBox(
            [
                self._chooser,
                self._shape,
                self._bar,
                self._picture,
                self._status,
                self._report,
                controls.head("Take it with you"),
                exports,
                self._links,
                self._listing,
            ],
            layout=widgets.Layout(flex="1 1 450px", min_width="0"),
        )
        page = widgets.Box(
            [self._left, right], layout=widgets.Layout(flex_flow="row wrap", align_items="flex-start")
        )
        self._finder = Finder(self._to_tune)
        style = widgets.HTML(controls.CSS, tooltip="")
        self.widget: Any = widgets.VBox([style, page, self._numbers, self._finder.widget])
        self.widget.add_class("fairq-lab")

    def _open(
        self,
        scenario: Scenario,
        *,
        engine: str | None = None,
        users: int = 0,
        policies: Sequence[str] | None = None,
        replications: int | None = None,
    ) -> None:
        """Show another scenario, or the same on another engine: new knobs, everything at its default."""
        session = Session(scenario, self._runs, engine, users)
        names = list(scenario.policies)
        ticks = Ticks("policies", names, names, {n: f"Simulate {n}" for n in names}, self._keep_last)
        made: dict[str, Control] = {"policies": ticks}
        if policies is not None:
            ticks.value = policies
        if not session.replay:
            made["replications"] = Knob(
                "replications",
                "Runs",
                "Independent runs behind each number once the sliders rest",
                CONFIDENT,
                low=1,
                high=200,
                slide=(1, 30),
            )
            if replications is not None:
                made["replications"].value = replications
        elif replications not in (None, 1):
            raise ValueError(f"replications must be 1 for the replay of a log, got {replications!r}")
        kinds = [(words, kind) for kind, words in KINDS.items()]
        if scenario.log is not None:
            made["users"] = Knob(
                "users",
                "Users ×",
                "0: the log as it was; 1: a model fitted to it; 2: twice the users of that model, …",
                users,
                low=0,
                high=100,
                slide=(0, 10),
            )
        made["engine"] = Choice("engine", "Engine", "What serves the requests", kinds, session.engine)
        made |= controls.knobs(session.settings, self._shown or ())
        made |= controls.chart_controls(names, self._chooser.value)
        for control in made.values():
            control.on_change(self._changed)
        self._aside = {}
        self._session, self._made = session, made
        charts = charts_for(session.start)
        chart = self._chooser.value if self._chooser.value in [c.name for c in charts] else "bars"
        controls.offer_charts(self._chooser, charts, chart)
        self._controls: dict[str, Any] = {**made, "chart": _Chart(self._chooser)}
        self._defaults = {name: control.value for name, control in made.items()}
        self._defaults |= {"engine": kind_of(scenario), "chart": self._first_chart}
        if "users" in made:
            self._defaults["users"] = 0
        self._finder.open(scenario)
        self._lay_out()
        self._dirty = True

    def _switch(self, kind: str, users: int) -> None:
        """The same on another engine, or a log as a model; what was turned stays, or waits until it has a
        meaning again.

        Raises
        ------
        ValueError : no such engine, or it cannot serve this; then nothing has changed.
        """
        if (kind, users) != (self._session.engine, self._session.users):
            turned = self._aside | {
                name: control.value
                for name, control in self._made.items()
                if name not in SWITCHES and control.value != self._defaults[name]
            }
            fresh: dict[str, Any] = {"policies": self._defaults["policies"]}
            if self._session.base.log is None:
                fresh["replications"] = self._defaults["replications"]
            self._open(self._session.base, engine=kind, users=users, **fresh)
            self._turn_back(turned)
        self._made["engine"].value = kind
        if "users" in self._made:
            self._made["users"].value = users

    def _turn_back(self, turned: Mapping[str, Any]) -> None:
        """Turn again what was turned. What has no knob now, or does not fit it, is kept aside."""
        self._aside = dict(turned)
        for name in sorted(turned, key=lambda name: name != "seed"):
            if name in self._made:
                with suppress(ValueError):  # a part that this engine does not have
                    self._made[name].value = turned[name]
                    self._aside.pop(name, None)
            if name == "seed":
                self._follow_draw()

    def _follow_draw(self) -> None:
        """Another seed draws the tenants of a log: their weights, and those of them with sliders, are others.

        Raises
        ------
        ValueError : the log has no such weights; then nothing has changed.
        """
        session = self._session
        seed = int(cast(Any, self._made["seed"].value)) if session.drawn is not None else None
        if seed == session.drawn:
            return
        fresh = Session(session.base, self._runs, session.engine, session.users, seed)
        old = [s.name for s in session.settings if s.section == WEIGHTS]
        turned = {n: self._made[n].value for n in old if self._made[n].value != self._defaults[n]}
        ours = controls.knobs([s for s in fresh.settings if s.section == WEIGHTS], self._shown or ())
        for control in ours.values():
            control.on_change(self._changed)
        self._session = fresh
        self._made = _exchanged(self._made, old, ours)
        self._defaults = _exchanged(self._defaults, old, {n: control.value for n, control in ours.items()})
        self._controls = self._made | {"chart": self._controls["chart"]}
        with self._quiet():
            self._turn_back(self._aside | turned)
        if bool(self._weight_rows()) == bool(self._weights.children):
            self._weights.children = self._weight_rows()
            controls.fill_tooltips(self._weights)
        else:
            self._lay_out()

    def _weight_rows(self) -> list[Any]:
        weights = [s.name for s in self._session.settings if s.section == WEIGHTS and self._visible(s.name)]
        return [self._made[name].row for name in weights if self._made[name].row is not None]

    def _lay_out(self) -> None:
        sections: dict[str, list[Any]] = {
            SHOWS: [self._made["policies"].row],
            NEXT: [],
            WEIGHTS: [self._weights] if self._weight_rows() else [],
            ASKS: [],
            SERVES: [self._made["engine"].row] if self._visible("engine") else [],
            FAILS: [],
            SURE: [],
        }
        self._weights.children = self._weight_rows()
        for setting in self._session.settings:
            row = self._made[setting.name].row
            if setting.section != WEIGHTS and self._visible(setting.name) and row is not None:
                sections.setdefault(setting.section, []).append(row)
        if "users" in self._made and self._visible("users"):
            sections[ASKS].insert(0, self._made["users"].row)
        if "replications" in self._made and self._visible("replications"):
            sections[SURE].append(self._made["replications"].row)
        if self._session.replay:
            sections[SURE].append(
                widgets.HTML(f'<div style="line-height:1.3;max-width:290px">{REPLAYED}</div>', tooltip="")
            )
        reset = button("Reset", "Every knob back to where the scenario has it", self._reset_clicked)
        top = [self._preset.row] if self._visible("preset") else []
        self._left.children = [*top, *controls.side(sections), reset]
        offered = self._visible("find") or self._session.base.log is not None
        self._finder.widget.layout.display = None if offered else "none"
        self._shape_for_chart()
        controls.fill_tooltips(self.widget)

    def _shape_for_chart(self) -> None:
        spec = chart_named(self._chooser.value)
        wanted = [*spec.controls, *(["by"] if self._has_groups and spec.table is None else [])]
        rows = [self._made[name].row for name in wanted]
        if spec.failing and "outage_s" in self._made and self._visible("unhealthy"):
            rows.append(self._unhealthy)
            self._unhealthy.description = HEALTHY if self._made["outage_s"].value else UNHEALTHY
        if "time_to" in spec.controls:
            rows.append(self._shown_time)
        if list(self._shape.children) != rows:
            self._shape.children = rows
        for setting in self._session.settings:
            if setting.only is not None:
                other, value = setting.only
                shown = self._made[other].value == value
                self._made[setting.name].row.layout.display = None if shown else "none"

    @property
    def _has_groups(self) -> bool:
        return any(spec.count is not None for spec in self._session.start.tenants.values())

    def _visible(self, name: str) -> bool:
        return self._shown is None or any(name == s or name.startswith(f"{s}_") for s in self._shown)

    # ------------------------------------------------------------------ what happens on a change

    @property
    def _drawn(self) -> bool:
        return self._chart is not None

    @property
    def _policies(self) -> tuple[str, ...]:
        return tuple(self._made["policies"].value)

    @property
    def _wanted(self) -> int:
        return 1 if self._session.replay else int(cast(Any, self._made["replications"].value))

    @property
    def _spec(self) -> ChartSpec:
        return chart_named(self._chooser.value)

    def _alternatives(self, plan: Plan, policies: Sequence[str]) -> list[tuple[Alternative, Plan]]:
        return self._session.alternatives(plan, self._spec, policies, self._choices(policies)["under"])

    def _plan(self) -> Plan:
        return self._session.plan(self.settings)

    def _changed(self) -> None:
        if not self._muted:
            self._generation += 1
            self._dirty = True
            self._dispatch()

    def _refresh(self) -> None:
        """A widget changed: a quick picture now, a confident one when the sliders rest."""
        with self._lock:
            generation = self._generation
            try:
                self._take_source()
                plan, policies, wanted = self._plan(), self._policies, self._wanted
                loop = main_loop()
                now = (
                    wanted
                    if loop is None
                    else min(wanted, max(QUICK, self._session.ready(plan, policies, wanted)))
                )
                self._simulate(plan, policies, now)
                self._draw(plan, policies, now)
            except Superseded:
                return
            except Exception as error:  # in a callback an error would vanish: it belongs on the page
                self._fail(error)
                return
            if now < wanted:
                self._say(f"{self._words()} More runs follow…")
                # Those that are there already; the others are counted as they are made.
                more = len(policies) * (wanted - now)
                self.timing["kept"] += more - len(self._session.missing(plan, policies, wanted))
                _later(0.25, self._settle_step, generation)

    def _settle_step(self, generation: int) -> None:
        """One more run, then back to the main loop, so that cells and sliders are never kept waiting."""
        with self._lock:
            if generation != self._generation or self._dispatch.waiting or not self._dirty:
                return
            try:
                plan, policies, wanted = self._plan(), self._policies, self._wanted
                missing = self._session.missing(plan, policies, wanted)
                if missing:
                    whole = len(policies) * wanted
                    self._progress((whole - len(missing)) / whole)
                    began = time.perf_counter()
                    self._runs.run(plan, *missing[0])
                    self.timing["simulate"] += time.perf_counter() - began
                    self.timing["made"] += 1
                    _later(0.0, self._settle_step, generation)
                else:
                    self._progress(None)
                    self._draw(plan, policies, wanted)
            except Exception as error:
                self._fail(error)

    def _settle(self) -> None:
        """All the runs wanted, at once, errors to the caller (for use from code)."""
        with self._lock:
            if not self._dirty:
                return
            self._generation += 1
            plan, policies, wanted = self._plan(), self._policies, self._wanted
            try:
                self._simulate(plan, policies, wanted, stop=False)
                self._draw(plan, policies, wanted)
            except Exception as error:
                self._fail(error)
                raise

    def _simulate(self, plan: Plan, policies: Sequence[str], replications: int, stop: bool = True) -> None:
        shown = 0.0

        def progress(part: float) -> None:
            nonlocal shown
            if stop and self._dispatch.waiting:
                raise Superseded
            if time.perf_counter() - shown > 0.1:
                shown = time.perf_counter()
                self._progress(part)

        began = time.perf_counter()
        shown = began  # a run that is over within a tenth of a second shows no bar
        try:
            self._session.simulate(plan, policies, replications, progress)
            self._session.simulate_alternatives(self._alternatives(plan, policies), progress)
        finally:
            self._progress(None)
        self.timing = dict(self._session.seconds)

    def _draw(self, plan: Plan, policies: Sequence[str], replications: int) -> None:
        began = time.perf_counter()
        self._shape_for_chart()
        choices = self._choices(policies)
        view = self._session.view(plan, policies, replications, choices, self._alternatives(plan, policies))
        chart = self._spec.draw(view)
        png = quick_png(chart, LIVE_DPI)
        self._chart, self._table, self._replications = chart, view.table, replications
        self._png = picture = base64.b64encode(png).decode("ascii")
        spent = {"simulate": self.timing.get("simulate", 0.0), "draw": time.perf_counter() - began}
        measured = " ".join(f'data-{name}-ms="{1000 * seconds:.1f}"' for name, seconds in spent.items())
        self._picture.value = controls.picture_html(chart, LIVE_DPI, picture, measured)
        if "time_to" in self._spec.controls:
            # In seconds, as the boxes beside it, whatever the unit of the axis.
            low, high = chart.data["window"]
            automatic = "" if choices["time_to"] > choices["time_from"] else " (automatic)"
            self._shown_time.value = f"shown: {number(low)} to {number(high)} s{automatic}"
        self._numbers.value = self._numbers_html(view, choices)
        self._report.value = self._report_html(plan, choices["under"])
        self._finder.aged(plan.scenario)
        if self._listing_open:
            self._listing.value = self._listing_html()
        self.timing["draw"] = time.perf_counter() - began
        if replications >= self._wanted:
            self._dirty = False
        self._say(self._words())
        # Last: it opens the box for typing, and by then all that stands above it is in its place.
        self._finder.suggest(lambda: {p: self._runs.run(plan, p, 0).requests for p in policies})

    def _numbers_html(self, view: View, choices: Mapping[str, Any]) -> str:
        """The table under the picture: the numbers that the picture shows."""
        table = self._spec.table
        if table is None:
            self._rows = None
            return table_html(view.table, choices["measure"], view.styles)
        rows = table.rows(view)
        self._rows = pd.DataFrame(rows)
        return rows_html(rows, table.columns, table.caption)

    def _report_html(self, plan: Plan, policy: str) -> str:
        """Of a log, and beside a chart of one engine: the verdict, the capacity, how the log was read."""
        log = self._session.base.log
        if log is None and self._chooser.value not in ("capacity", "batch"):
            return ""
        verdict = self._session.verdict(plan, policy)
        lines = [line for line in (report.verdict_line(verdict), report.log_line(plan.scenario)) if line]
        if report.has_card(plan.scenario):
            lines += report.card_lines(report.card_of(plan.scenario))
        if log is not None:
            account = self._session.base.read().account
            words = self._session.engine_words
            lines += [f"{words[:1].upper()}{words[1:]}."] if words else []
            lines += replace(account, source=Path(log.file).name).lines()
        return report.report_html(f"Under {policy}: {verdict.name}", lines)

    def _to_tune(self) -> tuple[Scenario, int | None]:
        """What is shown, and the runs behind a number where there are several. Raises ValueError."""
        scenario = self._plan().scenario
        return scenario, self._wanted if scenario.random else None

    def _choices(self, policies: Sequence[str]) -> dict[str, Any]:
        choices = self.settings
        # A policy that is no longer ticked gives way to one that is, not to the one it is compared with.
        if choices["before"] not in policies:
            choices["before"] = next((p for p in policies if p != choices["after"]), policies[0])
        if choices["after"] not in policies:
            choices["after"] = next((p for p in policies[::-1] if p != choices["before"]), policies[-1])
        if choices["under"] not in policies:
            choices["under"] = policies[-1]
        return choices

    def _words(self) -> str:
        made, kept = int(self.timing.get("made", 0)), int(self.timing.get("kept", 0))
        runs = "One run" if self._replications == 1 else f"{self._replications} runs"
        many = len(self._policies)
        what = f"{runs} of {many} {'policy' if many == 1 else 'policies'}"
        fresh = f"{made} new in {_ms(self.timing.get('simulate', 0))}, {kept} from memory"
        notes = "".join(f" Note: {w}." for w in [*self._warnings, *self._unfit()])
        return f"{what}: {fresh}; drawn in {_ms(self.timing.get('draw', 0))}.{notes}"

    def _unfit(self) -> list[str]:
        """What was turned before the engine, the users or the draw changed, and does not fit now."""
        return [
            f"{name} = {value:g} does not fit here, {self._made[name].value:g} counts"
            for name, value in self._aside.items()
            if name in self._made
        ]

    def _keep_last(self, policy: str) -> None:
        self._say(f"{policy} stays: it is the last policy ticked. Tick another one first.")

    def _say(self, words: str, error: bool = False) -> None:
        color = "#B3261E" if error else "var(--jp-ui-font-color2,#5B6770)"
        mark = "Error: " if error else ""
        attributes = f'role="status" aria-live="polite" style="color:{color};line-height:1.4"'
        self._status.value = f"<div {attributes}>{mark}{html.escape(words)}</div>"

    def _fail(self, error: Exception) -> None:
        words = str(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"
        self._say(f"{words}. Reset brings the scenario's own values back.", error=True)
        self._finder.no_suggestion()

    def _progress(self, part: float | None) -> None:
        self._bar.layout.visibility = "hidden" if part is None else "visible"
        self._bar.value = part or 0.0

    # ------------------------------------------------------------------ buttons

    def _reset_clicked(self) -> None:
        with self._lock:
            self._put_defaults()
        self._changed()

    def _fail_now(self) -> None:
        """ "Unhealthy now": what was set to fail fails, or nothing does."""
        down = self._made["outage_s"]
        down.value = 0.0 if down.value else self._defaults["outage_s"] or DOWN_S

    def _preset_chosen(self) -> None:
        if not self._muted:
            self._next_source = self._presets[self._preset.value]
            self._changed()

    def _uploaded(self, change: Any) -> None:
        if change["new"]:
            file = change["new"][0]
            self._next_source = (bytes(file["content"]), str(file["name"]))
            self._changed()

    def _log_uploaded(self, change: Any) -> None:
        if change["new"]:
            file = change["new"][0]
            self._next_source = uploads.Upload(
                bytes(file["content"]), str(file["name"]), bool(self._skip_bad.value)
            )
            self._changed()

    def _take_source(self) -> None:
        """Open what a preset, an upload or a menu asked for (on the main thread, as all that draws)."""
        source, self._next_source = self._next_source, None
        if source is None:
            self._follow_menus()
            return
        self._warnings = []
        if isinstance(source, uploads.Upload):
            self._log_upload.value = ()
            scenario = source.open()
            with self._quiet():
                self._open(scenario)
                self._list(f"log: {scenario.name}", scenario)
        elif isinstance(source, tuple):
            content, name = source
            scenario, values, warnings = export.read_document(content, name, export.exports_folder())
            self._of_view(scenario, values, name)  # where that fails, nothing here has changed
            with self._quiet():
                self._open(scenario)
                self._put(values)
                self._list(f"view: {scenario.name}", scenario)
            self._warnings = warnings
            self._upload.value = ()
        else:
            scenario = open_source(source, {})
            with self._quiet():
                offered = [spec.name for spec in charts_for(scenario)]
                question = QUESTIONS.get(source) if isinstance(source, str) else None
                chart = self._first_chart if question is None else question.chart
                self._first_chart = chart if chart in offered else "bars"
                self._open(scenario)
                if question is not None:
                    self._control("chart").value = question.chart
                    self._shape_for_chart()

    def _list(self, words: str, source: Source) -> None:
        """What was opened stands in the preset menu from now on."""
        self._presets[words] = source
        self._preset.menu.options = list(self._presets)
        self._preset.menu.value = words

    def _follow_menus(self) -> None:
        """Another engine, a log as a model, tenants drawn anew: other knobs. Where that cannot be, they go
        back."""
        now = (self._session.engine, self._session.users)
        users = self._made["users"].value if "users" in self._made else 0
        wanted = (str(self._made["engine"].value), int(cast(Any, users)))
        with self._quiet():
            try:
                self._switch(*wanted)
                self._follow_draw()
            except ValueError:
                self._switch(*now)
                if self._session.drawn is not None:
                    self._made["seed"].value = self._session.drawn
                raise

    def _export(self, formats: Sequence[str]) -> None:
        def work() -> None:
            with self._lock:
                try:
                    self._settle()
                    name = f"{export.slug(self._session.base.name)}_{self._chooser.value}"
                    files = self._contents(export.target(name), formats)
                    export.write(files)
                    self._links.value = export.links_html(files)
                    self._say(
                        f"Wrote {len(files)} file{'s' if len(files) > 1 else ''} to {export.exports_folder()}"
                    )
                except Exception as error:
                    self._fail(error)

        after_click(work, main_loop)

    def _contents(self, stem: Path, formats: Sequence[str]) -> dict[Path, bytes]:
        unknown = [f for f in formats if f not in FORMATS]
        if unknown or not formats:
            raise ValueError(f"formats must be some of {', '.join(FORMATS)}, got {list(formats)!r}")
        chart = self.chart
        files: dict[Path, bytes] = {}
        for format in formats:
            if format == "csv":
                files[Path(f"{stem}_table.csv")] = _csv(self.table)
                files[Path(f"{stem}_rows.csv")] = _csv(self.result)
                if self._rows is not None:
                    files[Path(f"{stem}_chart.csv")] = _csv(self._rows)
            elif format == "json":
                data = export.document(self._session.base, self.settings, stem.absolute().parent)
                files[Path(f"{stem}.json")] = export.to_json(data).encode("utf-8")
            else:
                dpi = 200 if format == "png" else 100
                files[Path(f"{stem}.{format}")] = chart.to_bytes(format, dpi=dpi)
        return files

    def _more_code(self) -> str:
        table, policies = self._spec.table, self._policies
        if table is None or not table.code:
            return ""
        return table.code.format(policies=list(policies), under=self._choices(policies)["under"])

    def _toggle_code(self) -> None:
        self._listing_open = not self._listing_open
        self._listing.value = self._listing_html() if self._listing_open else ""

    def _listing_html(self) -> str:
        return f'<pre tabindex="0" aria-label="Python code">{html.escape(self.code())}</pre>'

    # ------------------------------------------------------------------ small things

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        before, self._muted = self._muted, True
        try:
            yield
        finally:
            self._muted = before

    def _control(self, name: str) -> Any:
        if name not in self._controls:
            raise ValueError(f"no setting {name!r}; there are: {', '.join(self._controls)}")
        return self._controls[name]

    def _put(self, values: Mapping[str, Any]) -> None:
        """Turn knobs, without a redraw; the engine first, for the others may be its own, then the draw of a
        log's tenants, for their weights.

        Raises
        ------
        ValueError : an unknown name, or a value that does not fit.
        """
        rest = dict(values)
        now = (self._session.engine, self._session.users)
        if "users" in rest and "users" not in self._made:
            self._control("users")
        if "users" in rest:  # its limits are the knob's
            self._made["users"].value = rest["users"]
        wanted = (rest.pop("engine", now[0]), rest.pop("users", now[1]))
        if not isinstance(wanted[0], str):
            raise ValueError(f"engine must be one of {', '.join(KINDS)}, got {wanted[0]!r}")
        if wanted == now and ("seed" not in rest or self._session.drawn is None):
            self._flat(rest)
        self._switch(*wanted)
        if "seed" in rest:
            self._control("seed").value = rest.pop("seed")
            self._follow_draw()
        for name, value in self._flat(rest).items():
            self._control(name).value = tuple(value) if isinstance(value, list) else value
            self._aside.pop(name, None)

    def _put_defaults(self) -> None:
        with self._quiet():
            self._switch(str(self._defaults["engine"]), 0)
            if self._session.drawn is not None:
                self._made["seed"].value = self._defaults["seed"]
                self._follow_draw()
            self._aside = {}
            self._put(self._defaults)

    def _flat(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """``weight={"chat": 3}`` as ``weight_chat=3``; every name known."""
        flat: dict[str, Any] = {}
        for name, value in values.items():
            inner = (
                {f"{name}_{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {name: value}
            )
            flat |= inner
        for name in flat:
            self._control(name)
        return flat


def _exchanged(old: Mapping[str, Any], without: Sequence[str], new: Mapping[str, Any]) -> dict[str, Any]:
    """``new`` in the place of those in ``without``."""
    names: dict[str, Any] = {}
    for name, value in old.items():
        names |= new if name in without else {name: value}
    return names


class _Chart:
    """The chart chooser as a setting."""

    def __init__(self, chooser: Any) -> None:
        self._chooser = chooser

    @property
    def value(self) -> str:
        return str(self._chooser.value)

    @value.setter
    def value(self, name: str) -> None:
        offered = [value for _, value in self._chooser.options]
        if chart_named(name).name not in offered:
            raise ValueError(
                f"chart {name!r} does not go with this engine; those that do: {', '.join(offered)}"
            )
        self._chooser.value = name


def open_source(source: Any, columns: Mapping[str, Any]) -> Scenario:
    """A Scenario from whatever names one. Raises ValueError (ScenarioError, TraceError), TypeError."""
    if isinstance(source, Scenario):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            f"source must be a Scenario, a scenario's name or file, or a log's file, got {source!r}"
        )
    if str(source).lower().endswith(uploads.ENDINGS):
        return as_served(Scenario.from_log(source, **columns))
    return Scenario.load(source)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms"


def _later(delay_s: float, call: Callable[..., None], *arguments: Any) -> None:
    """On the kernel's main loop, when it has time."""
    loop = main_loop()
    assert loop is not None
    loop.call_later(delay_s, call, *arguments)


def _csv(table: pd.DataFrame) -> bytes:
    # One line end on every system, so that the bytes are the same.
    return table.to_csv(index=False, lineterminator="\n").encode("utf-8")
