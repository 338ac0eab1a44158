"""Find a setting: a promise is typed in, ``fairq.tune`` tries the settings, the recommendation is shown.

The sweep runs beside the kernel's main loop (a thread that waits for worker processes), so that cells and
sliders go on meanwhile and a button can stop it. Whatever touches the page runs on the main loop. Where there
is no main loop (a script, a kernel in the browser) the sweep runs at once.
"""

from __future__ import annotations

import html
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]
import numpy as np
import pandas as pd

from fairq.files import InputError
from fairq.lab import controls, export
from fairq.lab.controls import button, html_box
from fairq.lab.dispatch import after_click, main_loop
from fairq.lab.knobs import Choice
from fairq.scenario import Scenario
from fairq.tune import Tuning, parse_targets, tune
from fairq.tune.decide import SAME
from fairq.tune.report import brief, contents
from fairq.tune.target import ALL, EACH, GRAMMAR, check_names

MOST_JOBS = 4
EVERY_S = 0.2
"""How often the page is told of the progress, at most."""
LINKED = ("policy.yaml", "report.html", "how_to_type_it.md")
"""What gets a link of its own; the folder has the charts and tables, too."""
HELP = (
    "What would you like to promise? Every setting that a gateway could have is tried on the requests above,"
    " with the load and the engine set there: which ones keep the promise, and which of them costs the others"
    f" least? Prices within {100 * SAME:g} % count as the same: of those it names the setting with the least"
    " to set up, such as one that is in the scenario already."
)
NAMED = 6
"""Names shown as examples of WHO."""


class Stopped(Exception):
    """The reader stopped the sweep."""


@dataclass(frozen=True)
class Asked:
    """What a sweep is about. ``replications`` None: as ``tune`` has it."""

    scenario: Scenario
    target: str
    today: str
    replications: int | None


class Finder:
    """The part of the lab that finds a setting.

    ``ask()`` gives the scenario as it is turned now and the runs wanted (None for a replay); it may raise
    ValueError. ``loop`` as in ``after_click``.
    """

    def __init__(
        self, ask: Callable[[], tuple[Scenario, int | None]], loop: Callable[[], Any | None] = main_loop
    ) -> None:
        self._ask, self._loop = ask, loop
        self._base: Scenario | None = None
        self._pressed_on: Scenario | None = None
        self._seen = self._pressed_unseen = False
        """Whether the page had time to show the box of this scenario: a click is one on what stands there."""
        self._own = ""
        """What was put into the box, not typed."""
        self._made: Tuning | None = None
        self._running = False
        self._stop = threading.Event()
        self._told = 0.0
        self._began = 0.0
        self._build()

    # ------------------------------------------------------------------ from the lab

    @property
    def made(self) -> Tuning | None:
        """What was found last, on the scenario that is open."""
        return self._made

    def open(self, base: Scenario) -> None:
        """Another scenario is open (or the same on another engine: then the promise stays)."""
        policies = list(base.policies)
        if base != self._base:
            self._base = base
            self._stop.set()
            # What is being typed is in the browser alone, and ``suggest`` would write over it: not yet.
            self._seen, self._own = False, ""
            self.target.disabled = True
            self.target.value = ""
            self._hint.value = _hint(_names(base))
            self._today.menu.options = [(name, name) for name in policies]
            self._today.menu.value = policies[0]
            self._clear()

    def suggest(self, runs: Callable[[], Mapping[str, pd.DataFrame]]) -> None:
        """A promise to begin with, once per scenario and unless there is one; then the box is the reader's.

        ``runs``: policy → the requests of a run.
        """
        if self._base is None or not self.target.disabled:
            return
        if not self.target.value:
            words = suggested(runs())
            try:
                check_names(parse_targets(words), _names(self._base))
            except InputError:  # a name that the grammar cannot hold
                words = f"{ALL} p99 ttft < 2 s"
            self.target.value = self._own = words
        self.no_suggestion()

    def no_suggestion(self) -> None:
        """There are no numbers to suggest a promise from, or it is made: the box is the reader's."""
        self.target.disabled = False
        base = self._base

        def seen() -> None:
            self._seen = base is self._base

        if not self._seen:
            after_click(seen, self._loop)

    def aged(self, scenario: Scenario) -> None:
        """The lab now shows ``scenario``: was the setting found for that one?"""
        old = self._made is not None and self._made.scenario != scenario
        note = "Found before the knobs above were turned: press the button again." if old else ""
        self._age.value = _note(note)

    def run(self, target: str | None = None, today: str | None = None) -> Tuning:
        """At once, for use from code. Raises InputError."""
        if self._running:
            raise InputError("settings are being tried: stop that first")
        if target is not None:
            self.target.value = target
        if today is not None:
            if today not in self._policies:
                raise InputError(f"today must be one of {', '.join(self._policies)}, got {today!r}")
            self._today.menu.value = today
        asked = self._asked()
        self._start()
        try:
            made = self._tune(asked, self._told_here)
        except BaseException:
            self._over("")
            raise
        self._found(made)
        return made

    # ------------------------------------------------------------------ the page

    def _build(self) -> None:
        self.target: Any = widgets.Text(
            value="",
            description="Promise",
            placeholder="all p99 ttft < 2 s",
            continuous_update=False,
            tooltip=f"{GRAMMAR}; 'and' joins two",
            style={"description_width": "initial"},
            layout=widgets.Layout(width="330px", max_width="100%"),
        )
        self._today = Choice(
            "today", "Today", "The policy in use: prices are measured against it", ["–"], "–", narrow=True
        )
        self._go = button(
            "Find a setting", "Try the settings, and write the report and the policy file", self._pressed
        )
        self._halt = button("Stop", "Stop trying settings", self._halted)
        self._halt.layout.display = "none"
        self._bar: Any = widgets.FloatProgress(
            value=0.0,
            min=0.0,
            max=1.0,
            description="",
            tooltip="Progress of the settings tried",
            layout=widgets.Layout(width="auto", height="8px", margin="0", visibility="hidden"),
        )
        self._hint = html_box()
        self._status = html_box(min_height="28px")
        self._age = html_box()
        self._result = html_box()
        self._links = html_box()
        self._result.add_class("fairq-found")
        row = widgets.Box(
            [self.target, self._today.row, self._go, self._halt],
            layout=widgets.Layout(flex_flow="row wrap", align_items="center"),
        )
        help_text = widgets.HTML(
            f'<div style="line-height:1.4;max-width:60rem">{html.escape(HELP)}</div>', tooltip=""
        )
        self.widget: Any = widgets.VBox(
            [
                controls.head("Find a setting"),
                help_text,
                row,
                self._hint,
                self._bar,
                self._status,
                self._age,
                self._result,
                self._links,
            ],
            layout=widgets.Layout(margin="10px 0 0"),
        )
        self.widget.add_class("fairq-find")

    @property
    def _policies(self) -> list[str]:
        return [name for name, _ in self._today.menu.options]

    def _clear(self) -> None:
        self._made = None
        for box in (self._result, self._links, self._age, self._status):
            box.value = ""

    def _say(self, words: str, error: bool = False) -> None:
        color = "#B3261E" if error else "var(--jp-ui-font-color2,#5B6770)"
        mark = "Error: " if error and words else ""
        self._status.value = (
            f'<div role="status" aria-live="polite" style="color:{color};line-height:1.4;'
            f'overflow-wrap:anywhere">{mark}{html.escape(words)}</div>'
        )

    # ------------------------------------------------------------------ a sweep

    def _pressed(self) -> None:
        self._pressed_on, self._pressed_unseen = self._base, not self._seen
        after_click(self._begin, self._loop)

    def _halted(self) -> None:
        self._stop.set()

    def _begin(self) -> None:
        if self._running:
            return
        # What was typed for a scenario that then opens is gone: a suggestion must not be tried in its place.
        gone = self._pressed_unseen and self.target.value == self._own
        if gone or self._pressed_on is not self._base:
            self._say("Another log or scenario was opened meanwhile: press the button again.", error=True)
            return
        try:
            asked = self._asked()
        except Exception as error:  # in a callback it would vanish: it belongs on the page
            below = "" if self._made is None else "; below is what was found before"
            self._say(f"{_words(error)}{below}", error=True)
            return
        self._start()
        loop = self._loop()
        if loop is None:
            self._work(asked, lambda call, *arguments: call(*arguments))
        else:
            work = threading.Thread(
                target=self._work, args=(asked, loop.add_callback), name="fairq-find", daemon=True
            )
            work.start()

    def _asked(self) -> Asked:
        """What is asked. Raises ValueError: a promise that cannot be read, a scenario that cannot be."""
        target = str(self.target.value).strip()
        targets = parse_targets(target)
        scenario, replications = self._ask()
        check_names(targets, _names(scenario))
        return Asked(scenario, target, str(self._today.value), replications)

    def _start(self) -> None:
        self._stop.clear()
        self._running, self._told, self._began = True, 0.0, time.perf_counter()
        self._clear()
        self._go.disabled = True
        self._halt.layout.display = None
        self._bar.value, self._bar.layout.visibility = 0.0, "visible"
        self._say("The first settings are being tried …")

    def _work(self, asked: Asked, later: Callable[..., None]) -> None:
        """The sweep; ``later(call, …)`` has the main loop do what touches the page."""

        def tell(what: str, done: int, of: int) -> None:
            if self._stop.is_set():
                raise Stopped
            if time.perf_counter() - self._told > EVERY_S:
                self._told = time.perf_counter()
                later(self._tell, what, done, of)

        try:
            made = self._tune(asked, tell)
        except Stopped:
            later(self._over, "Stopped.")
        except Exception as error:  # in a thread it would vanish: it belongs on the page
            later(self._over, _words(error), True)
        else:
            later(self._finished, made)

    def _tune(self, asked: Asked, progress: Callable[[str, int, int], None]) -> Tuning:
        return tune(
            asked.scenario,
            asked.target,
            today=asked.today,
            replications=asked.replications,
            jobs=jobs(),
            progress=progress,
        )

    def _told_here(self, what: str, done: int, of: int) -> None:
        if time.perf_counter() - self._told > EVERY_S:
            self._told = time.perf_counter()
            self._tell(what, done, of)

    def _tell(self, what: str, done: int, of: int) -> None:
        if not self._running:
            return
        self._bar.value = done / max(of, 1)
        self._say(f"Trying {what}: {done:,} of {of:,} runs")

    def _finished(self, made: Tuning) -> None:
        if self._stop.is_set():  # another scenario was opened as the last run came in
            self._over("Stopped.")
            return
        self._found(made)
        try:
            self._write(made)
        except OSError as error:
            self._say(f"{error.filename}: cannot be written: {error.strerror}", error=True)

    def _found(self, made: Tuning) -> None:
        """Show it."""
        self._made = made
        self._result.value = brief(made)
        runs = "once each" if made.runs == 1 else f"{made.runs} runs each"
        self._over(
            f"{len(made.settings)} settings tried on {made.requests:,} requests, {runs}, and what capacity"
            f" would do: {time.perf_counter() - self._began:.0f} s."
        )

    def _write(self, made: Tuning) -> None:
        folder = export.exports_folder() / f"{export.slug(made.scenario.name)}_setting"
        files: dict[Path, bytes] = {folder / name: content for name, content in contents(made).items()}
        export.write(files)
        links = export.links_html({folder / name: files[folder / name] for name in LINKED})
        where = f"All {len(files)} files are in <code>{html.escape(export.shown(folder))}</code>."
        self._links.value = (
            f'<div class="fairq-head">Take the setting with you</div>{links}<div>{where}</div>'
        )

    def _over(self, words: str, error: bool = False) -> None:
        self._running = False
        self._go.disabled = False
        self._halt.layout.display = "none"
        self._bar.layout.visibility = "hidden"
        self._say(words, error)


def _words(error: Exception) -> str:
    known = isinstance(error, (ValueError, OSError))
    return str(error) if known else f"{type(error).__name__}: {error}"


def suggested(runs: Mapping[str, pd.DataFrame]) -> str:
    """A promise worth a look: to those with the most requests, whoever brings the most tokens left out.

    The bound is what the best of these policies gives them (p99 of the time to the first token), rounded up.
    ``runs``: policy → the rows of a run.
    """
    rows = next(iter(runs.values()))
    groups = rows.groupby(rows["group"].astype(str)).agg(
        n=("cost", "size"), tokens=("cost", "sum"), level=("priority", "min")
    )
    who = ALL
    if len(groups) > 1:
        rest = groups.drop(groups["tokens"].idxmax())
        who = str(rest[rest["level"] == rest["level"].min()]["n"].idxmax())
    best = inf
    for each in runs.values():
        mine = each if who == ALL else each[(each["group"].astype(str) == who).to_numpy()]
        served = mine["ttft"].to_numpy(dtype=float)
        if len(served) and np.isfinite(served).all():
            best = min(best, float(np.percentile(served, 99)))
    return f"{who} p99 ttft < {_round_up(best):g} s"


def _round_up(seconds: float) -> float:
    """The next of 0.1, 0.2, 0.5, 1, 2, 5, … above; 2 where nothing is known."""
    if not isfinite(seconds):
        return 2.0
    steps = [float(f"{digit}e{power}") for power in range(-1, 7) for digit in (1, 2, 5)]
    return next((step for step in steps if step > seconds), steps[-1])


def jobs() -> int:
    """Worker processes of a sweep: one per core, a few at most; 1 in a browser's kernel, which has none."""
    if sys.platform == "emscripten":
        return 1
    from joblib import cpu_count  # type: ignore[import-untyped]

    return min(MOST_JOBS, int(cpu_count()))


def _names(scenario: Scenario) -> list[str]:
    """Groups, then tenants."""
    workload: Any = scenario.workload()
    return list(dict.fromkeys([*workload.group_of.values(), *workload.group_of]))


def _hint(names: list[str]) -> str:
    some = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
    words = (
        f"{GRAMMAR}. WHO: {some}; {EACH} (every tenant on its own) or {ALL} (all requests together)."
        " “and” joins two promises."
    )
    return _note(words)


def _note(words: str) -> str:
    if not words:
        return ""
    return (
        '<div style="line-height:1.4;color:var(--jp-ui-font-color2,#5B6770);overflow-wrap:anywhere">'
        f"{html.escape(words)}</div>"
    )
