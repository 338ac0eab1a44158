"""How every chart looks: colours and marks per tenant, number formats, the page, and repeatable bytes.

Colours are the eight of Okabe & Ito (2008), carried as hex codes because matplotlib ships them only from
3.11. A colour never stands alone: each tenant also has a hatch, a marker and a line style, so a grey print
still tells them apart. Text is never parsed as mathematics: a tenant may be called ``$x$``, and mathtext is
what breaks first when two threads draw.
"""

from __future__ import annotations

import base64
import functools
import html
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "||||", ".")
MARKERS = ("o", "s", "^", "D", "v", "p", "X", "*")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (3, 1)),
    (0, (9, 2)),
    (0, (2, 2)),
    (0, (6, 1, 1, 1, 1, 1)),
)
OTHERS = "others"

INK = "#1F2933"
SOFT = "#5B6770"
GRID = "#D9DEE3"
WIDTH_IN = 6.0
"""Width of every chart: fits a two-column page, and the lab beside its controls."""

_RC: dict[str, Any] = {
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.bbox": None,
    "savefig.transparent": False,
    "axes.facecolor": "white",
    "axes.edgecolor": "#9AA5AE",
    "axes.linewidth": 0.8,
    "axes.labelcolor": SOFT,
    "axes.labelsize": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "axes.grid": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "grid.linestyle": "-",
    "text.color": INK,
    "xtick.color": "#9AA5AE",
    "ytick.color": "#9AA5AE",
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "hatch.linewidth": 0.6,
    "lines.solid_capstyle": "butt",
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "svg.hashsalt": "fairq",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "path.simplify": True,
}


def page_style() -> AbstractContextManager[None]:
    """The kit's own settings, whatever style the reader's session uses; undone on leaving."""
    return mpl.rc_context(cast(Any, _RC))


P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Run a chart function under :func:`page_style`."""

    @functools.wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with page_style():
            return draw(*args, **kwargs)

    return wrapper


class Chart(Figure):
    """A private matplotlib Figure (pyplot never sees it) that knows its own description.

    ``alt`` is the sentence a screen reader gets; ``data`` holds the numbers drawn, for tests and tables.
    Shown at the end of a notebook cell it is an ``<img alt=…>``.
    """

    alt: str
    data: dict[str, Any]

    def __init__(self, height_in: float, *, alt: str = "", width_in: float = WIDTH_IN) -> None:
        # Whole hundredths: a float a hair below would lose a row of pixels at some resolutions.
        super().__init__(figsize=(width_in, round(height_in, 2)), dpi=100)
        self.alt = alt
        self.data = {}

    def to_bytes(self, format: str = "png", *, dpi: float = 120.0) -> bytes:
        """The file's content, the same bytes for the same chart every time.

        Parameters
        ----------
        format : "png", "svg" or "pdf".
        dpi : pixels per inch of a PNG.

        Raises
        ------
        ValueError : an unknown format.
        """
        # Dates and version strings would change the bytes; the description travels inside the file.
        metadata: dict[str, dict[str, Any]] = {
            "png": {"Software": None, "Description": self.alt},
            "svg": {"Date": None, "Creator": "fairq", "Description": self.alt},
            "pdf": {"CreationDate": None, "Creator": "fairq", "Producer": "fairq", "Subject": self.alt},
        }
        if format not in metadata:
            raise ValueError(f"format must be one of {', '.join(metadata)}, got {format!r}")
        buffer = io.BytesIO()
        with page_style():
            self.savefig(buffer, format=format, dpi=dpi, metadata=metadata[format])
        return buffer.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        png = base64.b64encode(self.to_bytes("png")).decode("ascii")
        picture = f'<img alt="{html.escape(self.alt, quote=True)}" src="data:image/png;base64,{png}">'
        return {"text/plain": self.alt, "text/html": picture, "image/png": png}


@dataclass(frozen=True)
class TenantStyle:
    """One tenant's look in every chart: a colour, and three ways to tell it apart without colour."""

    color: str
    hatch: str
    marker: str
    dash: Any


def tenant_styles(tenants: Iterable[str], rest: str = OTHERS) -> dict[str, TenantStyle]:
    """A look per tenant, in the order given; ``rest``, those counted together, is always grey and last. After
    eight the colours begin again."""
    looks: dict[str, TenantStyle] = {}
    for name in tenants:
        if name != rest and name not in looks:
            i = len(looks) % len(OKABE_ITO)
            looks[name] = TenantStyle(OKABE_ITO[i], HATCHES[i], MARKERS[i], DASHES[i])
    looks[rest] = TenantStyle("#9AA5AE", "oo", ".", (0, (1, 2)))
    return looks


# ---------------------------------------------------------------- words and numbers


def plain(text: object) -> str:
    """Any name as matplotlib text: dollars stay dollars, line breaks become spaces, long names are cut."""
    words = " ".join(str(text).split())
    if len(words) > 24:
        words = words[:23] + "…"
    return words.replace("$", r"\$")


def number(value: float) -> str:
    """Three significant digits without exponents: 0.0123, 1.15, 31.9, 352, 12,300."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    value = float(f"{value:.3g}")
    size = abs(value)
    digits = max(0, 2 - math.floor(math.log10(size)))
    if size >= 1000:
        return f"{round(value, 2 - math.floor(math.log10(size))):,.0f}"
    text = f"{value:.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text and size < 0.1 else text


def tick(value: float) -> str:
    """A number on an axis: as short as it can be, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def plus_minus(value: float, half: float) -> str:
    """ "31.9 ±0.4": the half-width with the value's decimals; none when it is below what is shown."""
    text = number(value)
    decimals = len(text.partition(".")[2])
    shown = f"{half:,.{decimals}f}"
    return f"{text} ±{shown}" if float(shown.replace(",", "")) > 0 else text


def ratio_words(before: float, after: float) -> str:
    """ "28× less", "1.4× more" or "same": what happened to a number, readable without a sign."""
    if not (math.isfinite(before) and math.isfinite(after)):
        return ""
    if before <= 0 or after <= 0:
        return "same" if before == after else ""
    factor = after / before
    if 0.975 < factor < 1.025:
        return "same"
    times = number(round(factor if factor > 1 else 1 / factor, 2))
    return f"{times}× more" if factor > 1 else f"{times}× less"


def text_width(text: str, size: float = 9.0, weight: str = "normal") -> float:
    """Width of one line of text in inches, without a renderer (so margins need no layout pass)."""
    ems = sum(_advance(char, weight) for char in text.replace(r"\$", "$"))
    # Screen renderers hint glyphs to whole pixels, which widens text by some percent.
    return ems * size / 72.0 * 1.035


@functools.lru_cache(maxsize=4096)
def _advance(char: str, weight: str) -> float:
    """How far one character moves the pen, in units of the font size."""
    font = get_font(findfont(FontProperties(family="DejaVu Sans", weight=weight)))
    font.set_size(100.0, 72)
    return float(font.load_char(ord(char)).linearHoriAdvance) / 65536.0 / 100.0


def shorten(text: str, width_in: float, size: float, weight: str = "normal") -> str:
    """The text, cut with an ellipsis when it is wider than ``width_in`` inches."""
    if text_width(text, size, weight) <= width_in:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if text_width(text[:middle] + "…", size, weight) <= width_in else (low, middle - 1)
        )
    return text[:low].rstrip(" ,;:") + "…"


# ---------------------------------------------------------------- axes


def wants_log(values: Iterable[float]) -> bool:
    """True when the positive values spread over more than a factor of 30: short bars would vanish."""
    positive = [v for v in values if math.isfinite(v) and v > 0]
    return bool(positive) and max(positive) / min(positive) > 30


def value_axis(
    axes: Axes, values: Iterable[float], *, log: bool, room: float = 0.0, axis: str = "x"
) -> tuple[float, float]:
    """Scale, limits and tick labels of an axis. Returns the limits.

    A linear axis begins at 0, or below the least value where one is negative; a log axis has room for the
    positive values alone. ``room`` is the part of the axis (0 … 0.9) kept free after the largest value, for
    labels.
    """
    values = list(values)
    positive = [v for v in values if math.isfinite(v) and v > 0] or [1.0]
    top, least = max(positive), min(positive)
    keep = 1.0 - min(max(room, 0.0), 0.9)
    target = axes.xaxis if axis == "x" else axes.yaxis
    set_scale, set_limits = (
        (axes.set_xscale, axes.set_xlim) if axis == "x" else (axes.set_yscale, axes.set_ylim)
    )
    if log:
        box = axes.get_window_extent()
        length = (box.width if axis == "x" else box.height) / axes.figure.dpi
        # Bars on a log axis start somewhat below the least value, so that the least bar is seen too.
        low = least / 1.6
        high = low * (top * 1.04 / low) ** (1.0 / keep)
        set_scale("log")
        target.set_major_locator(FixedLocator(_log_ticks(low, high, top, length)))
        target.set_minor_locator(NullLocator())
        target.set_minor_formatter(NullFormatter())
    else:
        lowest = min((v for v in values if math.isfinite(v)), default=0.0)
        if lowest < 0:
            top = max(0.0, *(v for v in values if math.isfinite(v)))
        low = lowest - 0.05 * (top - lowest) if lowest < 0 else 0.0
        high = low + (top - low) * 1.02 / keep
        target.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    set_limits(low, high)
    target.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
    return low, high


def _log_ticks(low: float, high: float, top: float, length_in: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    wide = math.log10(high / low) > 2.2
    ticks = [m * 10.0**e for e in decades for m in ((1,) if wide else (1, 2, 5))]
    # Beyond the data there is only room for labels, and nothing to read off.
    inside = [t for t in ticks if low <= t <= min(high, top * 1.6)]
    step = 1
    while step < len(inside) and _crowded(inside[::step], low, high, length_in):
        step += 1
    return inside[::step]


def _crowded(ticks: Sequence[float], low: float, high: float, length_in: float) -> bool:
    """True when two neighbours' labels would touch."""
    at = [math.log10(t / low) / math.log10(high / low) * length_in for t in ticks]
    half = [text_width(tick(t), 8.5) / 2 for t in ticks]
    return any(a + w + 0.08 > b - v for a, w, b, v in zip(at, half, at[1:], half[1:], strict=False))


def time_unit(span_s: float) -> tuple[float, str]:
    """Divisor and name for a time axis that covers ``span_s`` seconds."""
    if span_s > 3 * 3600:
        return 3600.0, "h"
    return (60.0, "min") if span_s > 900 else (1.0, "s")


def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place given in inches from the top left corner of the page."""
    page_w, page_h = figure.get_size_inches()
    return figure.add_axes((left / page_w, 1 - (top + height) / page_h, width / page_w, height / page_h))


def write(figure: Figure, x: float, y: float, text: str, **style: Any) -> None:
    """Text at a place given in inches from the top left corner of the page."""
    page_w, page_h = figure.get_size_inches()
    style.setdefault("va", "top")
    figure.text(x / page_w, 1 - y / page_h, text, **style)


PAD = 0.14
"""White edge of the page in inches."""


def heading(figure: Figure, title: str, subtitle: str) -> float:
    """Title (what is seen) and subtitle (what is drawn). Returns where the chart may begin (inches)."""
    width = float(figure.get_size_inches()[0]) - 2 * PAD
    lines = wrap(title, width, 11.5, "bold")[:2]
    for i, line in enumerate(lines):
        write(figure, PAD, 0.12 + 0.21 * i, line, fontsize=11.5, fontweight="bold", color=INK)
    y = 0.12 + 0.21 * len(lines) + 0.04
    for line in wrap(subtitle, width, 8.8)[:2]:
        write(figure, PAD, y, line, fontsize=8.8, color=SOFT)
        y += 0.17
    return y + 0.05


def heading_height(title: str, subtitle: str, width_in: float = WIDTH_IN) -> float:
    """What :func:`heading` will take, in inches (needed before the page has a height)."""
    width = width_in - 2 * PAD
    return (
        0.12
        + 0.21 * len(wrap(title, width, 11.5, "bold")[:2])
        + 0.04
        + 0.17 * len(wrap(subtitle, width, 8.8)[:2])
        + 0.05
    )


def wrap(text: str, width_in: float, size: float, weight: str = "normal") -> list[str]:
    """Break text into lines no wider than ``width_in`` inches, at plain spaces alone."""
    lines: list[str] = []
    line = ""
    for word in re.split(r"[ \t\n]+", text.strip(" \t\n")):
        longer = f"{line} {word}" if line else word
        if line and text_width(longer, size, weight) > width_in:
            lines.append(line)
            line = word
        else:
            line = longer
    return [*lines, line] if line else lines


def legend_rows(names: Sequence[str], width_in: float) -> list[list[str]]:
    """Names laid out in rows that fit the width (each takes a key of 0.44 inch and its text)."""
    rows: list[list[str]] = [[]]
    used = 0.0
    for name in names:
        need = 0.44 + text_width(plain(name), 8.8)
        if rows[-1] and used + need > width_in:
            rows.append([])
            used = 0.0
        rows[-1].append(name)
        used += need
    return rows


LEGEND_ROW_IN = 0.19


def tenant_legend(
    figure: Figure, y: float, names: Sequence[str], styles: dict[str, TenantStyle], *, lines: bool
) -> float:
    """One key per tenant across the top of the page. Returns the inches used.

    ``lines`` draws line keys (colour, dash, marker), otherwise filled boxes (colour, hatch).
    """
    page_w, page_h = (float(v) for v in figure.get_size_inches())
    rows = legend_rows(names, page_w - 2 * PAD)
    for row in rows:
        x = PAD
        for name in row:
            look = styles[name]
            middle = 1 - (y + 0.085) / page_h
            if lines:
                ends = [x / page_w, (x + 0.3) / page_w]
                key = Line2D(ends, [middle, middle], color=look.color, linestyle=look.dash, linewidth=1.8)
                outline(key)
                figure.add_artist(key)
                figure.add_artist(
                    Line2D(
                        [(x + 0.15) / page_w],
                        [middle],
                        color=look.color,
                        marker=look.marker,
                        markersize=5,
                        markeredgecolor="white",
                        markeredgewidth=0.5,
                    )
                )
            else:
                figure.add_artist(
                    Rectangle(
                        (x / page_w, 1 - (y + 0.145) / page_h),
                        0.24 / page_w,
                        0.12 / page_h,
                        facecolor=look.color,
                        hatch=look.hatch,
                        edgecolor=hatch_ink(look.color),
                        linewidth=0.0,
                        transform=figure.transFigure,
                    )
                )
            write(figure, x + (0.35 if lines else 0.29), y, plain(name), fontsize=8.8, color=INK)
            x += 0.44 + text_width(plain(name), 8.8)
        y += LEGEND_ROW_IN
    return LEGEND_ROW_IN * len(rows) + 0.05


def luminance(color: str) -> float:
    """How light a hex colour is, 0 (black) to 1 (white)."""
    r, g, b = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def hatch_ink(color: str) -> str:
    """A hatch colour seen on that fill: dark on light fills, white on dark ones."""
    return INK if luminance(color) > 0.55 else "white"


def rim(color: str) -> str:
    """An edge that keeps a shape visible on white paper: dark around a very light fill."""
    return SOFT if luminance(color) > 0.8 else color


def outline(line: Line2D) -> None:
    """A thin dark rim around a line too light for white paper."""
    if luminance(str(line.get_color())) > 0.8:
        line.set_path_effects([Stroke(linewidth=line.get_linewidth() + 1.2, foreground=SOFT), Normal()])
