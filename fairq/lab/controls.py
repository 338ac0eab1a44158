"""The lab's widgets and where they stand on the page. They know nothing of simulations."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from fairq.lab import tables
from fairq.lab.charts import CHARTS, ChartSpec
from fairq.lab.knobs import Choice, Knob, Ticks, Unseen
from fairq.lab.settings import Setting
from fairq.plots import MEASURES, Chart

Control = Knob | Choice | Ticks | Unseen

CSS = (
    "<style>"
    + tables.CSS
    + """
.fairq-lab{border:1px solid var(--jp-border-color2,#cfd6dc);border-radius:8px;padding:10px 12px}
/* However narrow the cell: what is wider than its place scrolls there, not the page. */
.fairq-lab,.fairq-lab .widget-box,.fairq-lab .widget-html,.fairq-lab .widget-html-content{
  min-width:0;max-width:100%}
.fairq-lab .widget-label{white-space:nowrap;text-overflow:ellipsis}
.fairq-lab .fairq-head{font-weight:600;font-size:13px;margin:8px 0 2px;color:var(--jp-ui-font-color1,#1f2933)}
.fairq-lab .fairq-picture img{width:100%;max-width:912px;height:auto;display:block;border-radius:4px}
.fairq-lab button:focus-visible,.fairq-lab .noUi-handle:focus{outline:3px solid #0072B2;outline-offset:1px}
/* Which button is pressed, in words for a screen reader: the widget says it by colour alone. */
.fairq-lab .widget-toggle-buttons .mod-active{position:relative}
.fairq-lab .widget-toggle-buttons .mod-active::after{content:" (shown)";position:absolute;left:0;
  width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.fairq-lab pre{background:var(--jp-layout-color2,#f3f5f7);padding:10px;border-radius:4px;line-height:1.4}
.fairq-lab pre{overflow-x:auto}
</style>"""
)


def html_box(**layout: str) -> Any:
    """An empty place for HTML as wide as its column (the default margin would stick out)."""
    return widgets.HTML("", tooltip="", layout=widgets.Layout(width="auto", margin="0", **layout))


def picture_html(chart: Chart, dpi: float, png: str, attributes: str = "") -> str:
    """The chart with its words. Its size is said, so that the page keeps its place while it is decoded."""
    wide, high = (round(inches * dpi) for inches in chart.get_size_inches())
    alt = html.escape(chart.alt, quote=True)
    size = f'width="{wide}" height="{high}"'
    return f'<img alt="{alt}" {size} {attributes} src="data:image/png;base64,{png}">'


def button(label: str, tooltip: str, call: Callable[[], None]) -> Any:
    layout = widgets.Layout(width="auto", margin="2px 4px 2px 0", align_self="flex-start")
    made = widgets.Button(description=label, tooltip=tooltip, layout=layout)
    made.on_click(lambda _: call())
    return made


def head(text: str) -> Any:
    return widgets.HTML(f'<div class="fairq-head">{html.escape(text)}</div>', tooltip="")


def knobs(settings: Sequence[Setting], asked: Sequence[str] = ()) -> dict[str, Control]:
    """A knob or a menu per setting, at its default; one that is not shown has widgets when ``asked`` for."""
    return {s.name: _control(s, s.shown or s.name in asked) for s in settings}


def _control(setting: Setting, shown: bool) -> Choice | Knob | Unseen:
    if setting.menu is not None:
        return Choice(setting.name, setting.label, setting.tooltip, setting.menu, setting.default)
    if not shown:
        return Unseen(setting.name, setting.default, setting.low, setting.high)
    return Knob(
        setting.name,
        setting.label,
        setting.tooltip,
        setting.default,
        low=setting.low,
        high=setting.high,
        step=setting.step,
        choices=setting.choices,
        slide=setting.slide,
    )


def chart_controls(policies: Sequence[str], chart: str) -> dict[str, Control]:
    """What chooses and shapes the picture; none of it needs a new run."""
    first, last = policies[0], policies[-1]
    times = [(words, name) for name, words in MEASURES.items()]
    counts = [("tenant", "tenant"), ("group of tenants", "group")]
    return {
        "measure": Choice("measure", "Show", "Which time is drawn", times, "latency", narrow=True),
        "by": Choice(
            "by", "by", "A row per tenant, or a group's tenants together", counts, "tenant", narrow=True
        ),
        "before": Choice("before", "Before", "The policy to compare from", policies, first, narrow=True),
        "after": Choice("after", "After", "The policy to compare to", policies, last, narrow=True),
        "under": Choice(
            "under", "Policy", "The policy of the queue in this picture", policies, last, narrow=True
        ),
        "time_from": _time("time_from", "From (s)", "Start of the time shown"),
        "time_to": _time("time_to", "To (s)", "End of the time shown; 0: automatic"),
    }


def _time(name: str, label: str, tooltip: str) -> Knob:
    return Knob(name, label, tooltip, 0.0, low=0.0, high=1e9, step=10.0, slide=(0.0, 1200.0), narrow=True)


def chart_chooser(chart: str) -> Any:
    """Buttons, one of them pressed; arrow and tab keys reach each."""
    return widgets.ToggleButtons(
        options=[(c.label, c.name) for c in CHARTS],
        value=chart,
        tooltips=[c.tooltip for c in CHARTS],
        tooltip="Which chart is shown",
        description="",
        style={"button_width": "auto"},
        layout=widgets.Layout(margin="0 0 4px"),
    )


def offer_charts(chooser: Any, charts: Sequence[ChartSpec], chosen: str) -> None:
    """Only these buttons, that one pressed."""
    options = [(c.label, c.name) for c in charts]
    if list(chooser.options) != options:
        # The buttons are made anew for new options: their tooltips must be there already.
        chooser.tooltips = [c.tooltip for c in charts]
        chooser.options = options
    chooser.value = chosen


def side(sections: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The rows of the left column under their headings."""
    rows: list[Any] = []
    for title, parts in sections.items():
        if parts:
            rows += [head(title), *parts]
    return rows


def fill_tooltips(widget: Any) -> None:
    """An unset tooltip becomes the title text "null" in the page: containers get an empty one."""
    if getattr(widget, "tooltip", "") is None:
        widget.tooltip = ""
    for child in getattr(widget, "children", ()):
        fill_tooltips(child)
