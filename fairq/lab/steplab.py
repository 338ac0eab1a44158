"""The step-through: one decision of a policy at a time, with the reason for it."""

from __future__ import annotations

import base64
import html
import threading
from collections.abc import Iterable
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from fairq.lab import controls, step_tables
from fairq.lab.controls import button, html_box
from fairq.lab.dispatch import LatestOnMain
from fairq.lab.knobs import Knob
from fairq.lab.steps import Source, Steps, accounts_of
from fairq.plots import Chart, tenant_styles
from fairq.plots.quick import quick_png
from fairq.plots.step import named_tenants, said, step_chart, text_rows
from fairq.request import Request

DPI = 120.0
BEAT_MS = 1200
"""Between two steps of Play."""


class StepLab:
    """Walk through a policy's decisions: Next, Back, Play.

    Parameters
    ----------
    policy : an unused policy (it is copied, and stays unused), or a function that makes a fresh one:
        ``DRR(10)``, ``lambda: KeyCaps(DRR(10), default=1)``, ``VTC``.
    requests : at most 1000 Requests, each with ``arrival`` and ``service`` (or its tokens).
    slots : how many may run at once.

    From code: ``step.next()``, ``step.back()``, ``step.to(n)``, ``step.reset()``; ``step.state`` (plain data,
    see :meth:`fairq.lab.steps.Steps.state`), ``step.why``, ``step.log`` (all decisions), ``step.chart``.
    Step n stands before decision n + 1; the last step is the end.

    Raises
    ------
    TypeError, ValueError : what was given cannot be used; the message names it.
    """

    def __init__(self, policy: Source, requests: Iterable[Request], *, slots: int = 1) -> None:
        self._steps = Steps(policy, requests, slots=slots)
        self._lock = threading.RLock()
        self._styles = tenant_styles(named_tenants(self._steps.tenants))
        last = self._steps.state(len(self._steps))
        whys = [*(said(entry) for entry in self._steps.log), said(last)]
        self._room = text_rows(whys, self._steps.limits)
        self._state = self._steps.state(0)
        self._chart: Chart | None = None
        self._png = ""
        self._following = False
        self._dispatch = LatestOnMain(self._refresh)
        self._build()

    # ------------------------------------------------------------------ from code

    def __len__(self) -> int:
        """How many decisions there are."""
        return len(self._steps)

    def next(self) -> StepLab:
        """Take the decision; at the end nothing happens."""
        return self.to(min(self._knob.value + 1, len(self)))

    def back(self) -> StepLab:
        """To the moment before the last decision; at the start nothing happens."""
        return self.to(max(self._knob.value - 1, 0))

    def reset(self) -> StepLab:
        """Back to the start."""
        return self.to(0)

    def to(self, n: int) -> StepLab:
        """To step n, 0 … ``len(step)``.

        Raises
        ------
        ValueError : no such step.
        """
        self._knob.value = n
        self._settle()
        return self

    @property
    def state(self) -> dict[str, Any]:
        """Where it stands, plain data (see :meth:`fairq.lab.steps.Steps.state`)."""
        self._settle()
        return self._state

    @property
    def why(self) -> str:
        """Why the next request is the next, in a sentence."""
        return str(self.state["why"])

    @property
    def log(self) -> list[dict[str, Any]]:
        """All decisions from the first to the last, whatever the step shown."""
        return [dict(entry) for entry in self._steps.log]

    @property
    def chart(self) -> Chart:
        """The picture of this step, a matplotlib Figure."""
        self._settle()
        self._draw()
        self._tell()
        assert self._chart is not None
        return self._chart

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        # Both: buttons where a kernel runs, the picture where none does (GitHub, an untrusted notebook).
        chart = self.chart
        bundle = dict(self.widget._repr_mimebundle_() or {})
        bundle["text/plain"] = chart.alt
        bundle["image/png"] = self._png
        return bundle

    # ------------------------------------------------------------------ the page

    def _build(self) -> None:
        last = max(1, len(self))
        tip = "Which step is shown: how many decisions were taken"
        self._knob = Knob("step", "Step", tip, 0, low=0, high=len(self), narrow=True)
        self._knob.box.style.description_width = "initial"
        self._knob.box.layout = widgets.Layout(width="104px", margin="1px 0")
        # A slider needs a range, also where there is nothing to decide.
        self._knob.slider.max = last
        self._knob.slider.disabled = len(self) == 0
        self._knob.slider.layout = widgets.Layout(width="230px", margin="1px 0 1px 4px")
        self._knob.on_change(self._moved)
        # The browser keeps the time: the kernel is free between two steps. Its own buttons have no names,
        # so they stay hidden and a labelled one presses them.
        self._clock: Any = widgets.Play(
            value=0,
            min=0,
            max=last,
            step=1,
            interval=BEAT_MS,
            tooltip="",
            layout=widgets.Layout(display="none"),
        )
        self._clock.observe(self._ticked, "value")
        self._clock.observe(self._started, "playing")
        self._play = button("Play", "One decision after the other, by itself", self._play_clicked)
        buttons = [
            button("Back", "To the moment before the last decision", self._back_clicked),
            button("Next", "Take the decision and go to the next one", self._next_clicked),
            self._play,
            button("Reset", "Back to the start", self._reset_clicked),
        ]
        bar = widgets.Box(
            [*buttons, self._knob.row, self._clock],
            layout=widgets.Layout(flex_flow="row wrap", align_items="center"),
        )
        self._status = html_box(min_height="28px")
        self._picture = html_box()
        self._picture.add_class("fairq-picture")
        self._numbers = html_box()
        self._listing = html_box()
        legend = html_box()
        legend.value = step_tables.legend_html(self._steps.scales)
        style = widgets.HTML(controls.CSS + step_tables.CSS, tooltip="")
        self.widget: Any = widgets.VBox(
            [style, bar, self._status, self._picture, legend, self._numbers, self._listing]
        )
        self.widget.add_class("fairq-lab")
        controls.fill_tooltips(self.widget)

    # ------------------------------------------------------------------ what happens on a change

    def _moved(self) -> None:
        if self._clock.value != self._knob.value:
            self._following = True
            try:
                self._clock.value = self._knob.value
            finally:
                self._following = False
        if self._chart is not None:  # from code alone nothing is drawn until it is asked for
            self._dispatch()

    def _ticked(self, change: Any) -> None:
        if not self._following:
            self._knob.value = min(change["new"], len(self))

    def _started(self, change: Any) -> None:
        self._play.description = "Pause" if change["new"] else "Play"

    def _settle(self) -> None:
        """The state of the step that is set; errors to the caller."""
        with self._lock:
            if self._state["step"] != self._knob.value:
                self._state = self._steps.state(self._knob.value)

    def _refresh(self) -> None:
        with self._lock:
            try:
                self._settle()
                self._draw()
                self._tell()
            except Exception as error:  # in a callback an error would vanish: it belongs on the page
                self._say(f"{type(error).__name__}: {error}. Reset goes back to the start.", error=True)

    def _draw(self) -> None:
        with self._lock:
            state = self._state
            if self._chart is not None and self._chart.data["step"] == state["step"]:
                return
            accounts = {tenant: accounts_of(state["accounts"], tenant) for tenant in state["lines"]}
            chart = step_chart(
                state, self._styles, scales=self._steps.scales, accounts=accounts, room=self._room
            )
            self._png = base64.b64encode(quick_png(chart, DPI)).decode("ascii")
            self._chart = chart
            self._picture.value = controls.picture_html(chart, DPI, self._png)
            self._numbers.value = step_tables.state_html(state, self._styles)
            self._listing.value = step_tables.log_html(state, self._styles)

    def _tell(self) -> None:
        state = self._state
        end = " This is the end." if state["finished"] else ""
        self._say(f"{state['step']} of {len(self)} decisions taken. {said(state)}{end}")

    def _say(self, words: str, error: bool = False) -> None:
        color = "#B3261E" if error else "var(--jp-ui-font-color1,#1F2933)"
        mark = "Error: " if error else ""
        attributes = f'role="status" aria-live="polite" style="color:{color};line-height:1.4"'
        self._status.value = f"<div {attributes}>{mark}{html.escape(words)}</div>"

    # ------------------------------------------------------------------ buttons

    def _stop_and_set(self, n: int) -> None:
        self._clock.playing = False
        self._knob.value = min(max(n, 0), len(self))

    def _next_clicked(self) -> None:
        self._stop_and_set(self._knob.value + 1)

    def _back_clicked(self) -> None:
        self._stop_and_set(self._knob.value - 1)

    def _reset_clicked(self) -> None:
        self._stop_and_set(0)

    def _play_clicked(self) -> None:
        if not self._clock.playing and self._knob.value >= len(self):
            self._knob.value = 0
        self._clock.playing = not self._clock.playing and len(self) > 0
