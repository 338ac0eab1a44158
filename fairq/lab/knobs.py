"""Labelled controls: a number box that has the label, and a slider linked to it.

A Jupyter slider has no accessible name, and one over chosen values announces an index; the box beside it says
what is set and to what. The box is the truth, the slider a handle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

LABEL = "122px"
_BOX = widgets.Layout(width="202px", margin="1px 0")
_SLIDER = widgets.Layout(width="96px", margin="1px 0 1px 4px")


class Knob:
    """One setting: ``value``, ``on_change(f)`` and the widget ``row`` that shows it.

    Parameters
    ----------
    name : the setting's name, as in ``lab.set(name=…)``.
    label, tooltip : what the reader sees.
    value : where it starts; an int makes an integer box.
    low, high : limits of the box, inclusive.
    choices : values of the slider, rising; or None for a plain slider from ``slide[0]`` to ``slide[1]``.
    slide : limits of a plain slider (default: those of the box).
    step : of the box and a plain slider.
    narrow : the label takes only the room it needs (for controls side by side).
    """

    def __init__(
        self,
        name: str,
        label: str,
        tooltip: str,
        value: float,
        *,
        low: float,
        high: float,
        step: float = 1,
        choices: Sequence[float] | None = None,
        slide: tuple[float, float] | None = None,
        narrow: bool = False,
    ) -> None:
        self.name, self.label = name, label
        whole = isinstance(value, int) and isinstance(step, int)
        box_type = widgets.BoundedIntText if whole else widgets.BoundedFloatText
        self.box: Any = box_type(
            value=value,
            min=low,
            max=high,
            step=step,
            description=label,
            tooltip=tooltip,
            style={"description_width": "56px" if narrow else LABEL},
            layout=widgets.Layout(width="132px", margin="1px 0") if narrow else _BOX,
        )
        self.low, self.high, self.whole = low, high, whole
        self._choices = list(choices) if choices else None
        bottom, top = slide or (low, high)
        if self._choices:
            self.slider: Any = widgets.SelectionSlider(
                options=[(f"{c:g}", c) for c in self._choices],
                value=self._nearest(value),
                readout=False,
                continuous_update=False,
                tooltip=tooltip,
                layout=_SLIDER,
            )
        else:
            slider_type = widgets.IntSlider if whole else widgets.FloatSlider
            self.slider = slider_type(
                value=min(max(value, bottom), top),
                min=bottom,
                max=top,
                step=step,
                readout=False,
                continuous_update=False,
                tooltip=tooltip,
                layout=_SLIDER,
            )
        self._following = False
        self.slider.observe(self._slid, "value")
        self.box.observe(self._typed, "value")
        shape = widgets.Layout(align_items="center", margin="0 10px 0 0" if narrow else "0")
        self.row = widgets.HBox([self.box, self.slider], layout=shape)

    @property
    def value(self) -> Any:
        return self.box.value

    @value.setter
    def value(self, value: Any) -> None:
        self.box.value = _checked(self.name, value, self.low, self.high, self.whole)

    def on_change(self, call: Callable[[], None]) -> None:
        self.box.observe(lambda _: call(), "value")

    def _nearest(self, value: float) -> float:
        assert self._choices is not None
        return min(self._choices, key=lambda c: abs(c - value))

    def _slid(self, change: Any) -> None:
        if not self._following:
            self.box.value = change["new"]

    def _typed(self, change: Any) -> None:
        # The slider follows as near as it can, without writing its own value back into the box.
        value = change["new"]
        self._following = True
        try:
            self.slider.value = (
                self._nearest(value) if self._choices else min(max(value, self.slider.min), self.slider.max)
            )
        finally:
            self._following = False


class Unseen:
    """A knob without widgets: there may be hundreds, and each widget has its price in a page."""

    row: Any = None

    def __init__(self, name: str, value: float, low: float, high: float) -> None:
        self.name, self.low, self.high = name, low, high
        self._value = value
        self._calls: list[Callable[[], None]] = []

    @property
    def value(self) -> Any:
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        before, self._value = self._value, _checked(self.name, value, self.low, self.high, False)
        if self._value != before:
            for call in self._calls:
                call()

    def on_change(self, call: Callable[[], None]) -> None:
        self._calls.append(call)


def _checked(name: str, value: Any, low: float, high: float, whole: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if whole and value != int(value):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {_limit(low)} to {_limit(high)}, got {value!r}")
    return int(value) if whole else float(value)


def _limit(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.12g}"


class Ticks:
    """Tick-boxes for a set of names; at least one stays ticked. ``value`` is a tuple in the order given.

    ``on_refusal`` is told which box ticked itself again, being the last.
    """

    def __init__(
        self,
        name: str,
        options: Sequence[str],
        value: Sequence[str],
        tooltips: dict[str, str],
        on_refusal: Callable[[str], None] = lambda option: None,
    ) -> None:
        self.name = name
        self._on_refusal = on_refusal
        self.boxes: dict[str, Any] = {
            option: widgets.Checkbox(
                value=option in value,
                description=option,
                tooltip=tooltips.get(option, option),
                indent=False,
                layout=widgets.Layout(width="auto", margin="0 14px 0 0"),
            )
            for option in options
        }
        self.row = widgets.Box(list(self.boxes.values()), layout=widgets.Layout(flex_flow="row wrap"))
        self._calls: list[Callable[[], None]] = []
        self._quiet = False
        for box in self.boxes.values():
            box.observe(self._ticked, "value")

    @property
    def value(self) -> tuple[str, ...]:
        return tuple(name for name, box in self.boxes.items() if box.value)

    @value.setter
    def value(self, names: Sequence[str]) -> None:
        try:
            wanted = [names] if isinstance(names, str) else list(names)
        except TypeError:
            raise ValueError(f"{self.name} must be a list of names, got {names!r}") from None
        for name in wanted:
            if not isinstance(name, str) or name not in self.boxes:
                raise ValueError(f"{self.name}: no {name!r}; choose from {', '.join(self.boxes)}")
        if not wanted:
            raise ValueError(f"{self.name} must name at least one of {', '.join(self.boxes)}")
        before = self.value
        self._quiet = True
        try:
            for name, box in self.boxes.items():
                box.value = name in wanted
        finally:
            self._quiet = False
        if self.value != before:
            self._tell()

    def on_change(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def _ticked(self, change: Any) -> None:
        if self._quiet:
            return
        if not self.value:
            # Unticking the last one would leave nothing to draw: it ticks itself again.
            self._quiet = True
            try:
                change["owner"].value = True
            finally:
                self._quiet = False
            self._on_refusal(change["owner"].description)
            return
        self._tell()

    def _tell(self) -> None:
        for call in self._calls:
            call()


class Choice:
    """A labelled drop-down. ``value`` is one of the options; ``narrow`` as for a knob."""

    def __init__(
        self,
        name: str,
        label: str,
        tooltip: str,
        options: Sequence[Any],
        value: Any,
        *,
        narrow: bool = False,
    ) -> None:
        self.name = name
        self.menu: Any = widgets.Dropdown(
            options=list(options),
            value=value,
            description=label,
            tooltip=tooltip,
            style={"description_width": f"{8 * len(label) + 6}px" if narrow else LABEL},
            layout=widgets.Layout(width="auto", margin="1px 10px 1px 0")
            if narrow
            else widgets.Layout(width="302px", margin="1px 0"),
        )
        self.row = self.menu

    @property
    def value(self) -> Any:
        return self.menu.value

    @value.setter
    def value(self, value: Any) -> None:
        known = [o[1] if isinstance(o, tuple) else o for o in self.menu.options]
        if value not in known:
            raise ValueError(f"{self.name} must be one of {', '.join(map(str, known))}, got {value!r}")
        self.menu.value = value

    def on_change(self, call: Callable[[], None]) -> None:
        self.menu.observe(lambda _: call(), "value")
