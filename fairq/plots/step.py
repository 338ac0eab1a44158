"""One decision of a policy, standing still: the lines, the accounts, the slots, and who goes next.

Drawn from plain data, see ``state`` of :class:`fairq.lab.steps.Steps`. Tenants keep their rows, accounts and
time keep their axes from step to step, so that only what changes moves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fairq.plots.fold import MOST
from fairq.plots.style import (
    GRID,
    INK,
    OTHERS,
    PAD,
    SOFT,
    WIDTH_IN,
    Chart,
    TenantStyle,
    luminance,
    place,
    plain,
    rim,
    shorten,
    styled,
    text_width,
    tick,
    wrap,
    write,
)

ROW = 0.42
"""Height of a tenant's row, in inches."""

BOX, GAP = 0.44, 0.04
LINES_AT, ACCOUNTS_AT = 1.12, 4.3
SLOTS_AT = 0.62
FOOT = 8.0

MEASURES = {
    "deficit": "credit",
    "counter": "charged per weight",
    "start": "start tag",
}
"""The accounts that are drawn, with their headings; all in tokens."""

Scales = Mapping[str, tuple[float, float]]
State = Mapping[str, Any]


def headline(state: State) -> str:
    """What happens at this step, in one line."""
    time = f"{tick(float(state['time']))} s"
    left = sum(len(line) for line in state["lines"].values())
    if state["finished"]:
        if left:
            return f"The end, {time}: {left} can never run"
        served = sum(entry["tenant"] is not None for entry in state["log"])
        return f"The end, {time}: all {served} are served" if served else "No requests: nothing to decide"
    entry, visit = state["next"], state["visit"]
    which = f"Decision {entry['step']} of {state['steps']} at {time}"
    if visit is None:
        return f"{which}: nobody may run, {left} held back"
    turn = "" if visit["round"] is None else f", round {visit['round']}"
    return f"{which}: {entry['name']} into slot {entry['slot'] + 1}{turn}"


def said(decision: Mapping[str, Any]) -> str:
    """Why a decision (or the next one of a state) is taken, after whom it passes."""
    return f"{decision['passed']} {decision['why']}".lstrip()


def described(state: State) -> str:
    """The picture in words."""
    parts = [f"{state['policy']}. {headline(state)}. {said(state)}"]
    waits = [f"{tenant} {len(line)}" for tenant, line in state["lines"].items()]
    if waits:
        parts.append(f"Waiting: {', '.join(waits)}.")
    runs = [
        f"slot {i + 1} {'free' if job is None else job['name']}"
        for i, job in enumerate(state["slots"])
        if job is not None or len(state["slots"]) <= 16
    ]
    parts.append(f"Running: {', '.join(runs) or 'nothing'}.")
    accounts = [
        f"{name} {tick(float(account[measure]))}"
        for name, account in state["accounts"].items()
        for measure in MEASURES
        if measure in account
    ]
    if accounts:
        measures = [m for m in MEASURES if any(m in a for a in state["accounts"].values())]
        heads = " or ".join(MEASURES[m] for m in measures)
        parts.append(f"{heads[:1].upper()}{heads[1:]} (tokens): {', '.join(accounts)}.")
    return " ".join([*parts, *state["limits"]])


@styled
def step_chart(
    state: State,
    styles: Mapping[str, TenantStyle],
    *,
    scales: Scales | None = None,
    accounts: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    room: tuple[int, int] = (1, 0),
) -> Chart:
    """Lines and accounts, a row per tenant, above the slots over time.

    Parameters
    ----------
    state : plain data, see ``Steps.state``.
    styles : a look per tenant; those without one share the row "others".
    scales : measure → (least, largest) of the whole run.
    accounts : tenant → where → account; default: the state's accounts, one per tenant.
    room : at least so many rows of text for the reason and for the limits, see :func:`text_rows`.

    Returns
    -------
    Chart; ``data`` is the state.
    """
    lines = _rows(state["lines"], styles)
    if accounts is None:
        accounts = {name: {"": account} for name, account in state["accounts"].items()}
    slots = len(state["slots"])
    reason, foot = _wrapped(said(state), 8.8), _limits(state["limits"])
    reasons, feet = max(room[0], len(reason)), max(room[1], len(foot))
    head = 0.12 + 0.25 + 0.17 * reasons + 0.34
    slots_in = slots * max(0.16, min(0.3, 2.4 / slots))
    below = head + ROW * max(1, len(lines)) + 0.36
    chart = Chart(below + slots_in + 0.56 + 0.15 * feet)
    title = shorten(headline(state), WIDTH_IN - 2 * PAD, 11.5, "bold")
    write(chart, PAD, 0.12, _text(title), fontsize=11.5, fontweight="bold", color=INK)
    for i, row in enumerate(reason):
        write(chart, PAD, 0.37 + 0.17 * i, _text(row), fontsize=8.8, color=INK)
    page = place(chart, 0, 0, WIDTH_IN, float(chart.get_size_inches()[1]))
    page.set_xlim(0, WIDTH_IN)
    page.set_ylim(float(chart.get_size_inches()[1]), 0)
    page.axis("off")
    _head(page, head - 0.16, "waiting, the earliest first (below: tokens)", LINES_AT)
    used = [m for m in MEASURES if any(m in a for each in accounts.values() for a in each.values())]
    if used:
        _head(page, head - 0.16, _account_head(used), ACCOUNTS_AT)
    turn = None if state["visit"] is None else state["visit"]["tenant"]
    for i, (tenant, line) in enumerate(lines.items()):
        y = head + ROW * i
        look = styles.get(tenant, styles[OTHERS])
        _line(page, y, tenant, line, look, turn=_is_turn(tenant, turn, styles), to_end=not used)
        for j, (where, account) in enumerate(accounts.get(tenant, {}).items()):
            _account(page, y, j, len(accounts[tenant]), where, account, line, look, scales or {})
    if not lines:
        page.text(LINES_AT, head + ROW / 2, "nothing", va="center", fontsize=8.8, color=SOFT)
    _head(page, below - 0.16, "slots", PAD)
    _slots(place(chart, SLOTS_AT, below, WIDTH_IN - SLOTS_AT - PAD, slots_in), state, styles)
    for i, row in enumerate(foot):
        page.text(PAD, below + slots_in + 0.6 + 0.15 * i, _text(row), fontsize=FOOT, color=SOFT)
    chart.data = dict(state)
    chart.alt = described(state)
    return chart


def text_rows(reasons: Sequence[str], limits: Sequence[str]) -> tuple[int, int]:
    """Rows of text that the longest reason and the limits take, so that a picture keeps its height."""
    longest = sorted(set(reasons), key=len)[-20:]  # the longest text need not be the one with most rows
    return max([1, *(len(_wrapped(reason, 8.8)) for reason in longest)]), len(_limits(limits))


def _wrapped(text: str, size: float) -> list[str]:
    return wrap(text, WIDTH_IN - 2 * PAD, size)


def _limits(sentences: Sequence[str]) -> list[str]:
    return [row for sentence in sentences for row in _wrapped(sentence, FOOT)][:4]


def _text(text: str) -> str:
    """A sentence as matplotlib text: dollars stay dollars."""
    return text.replace("$", r"\$")


def _account_head(used: Sequence[str]) -> str:
    if list(used) == ["deficit"]:
        return "credit, | the cost to cover"
    return ", ".join(MEASURES[m] for m in used)


def named_tenants(tenants: Sequence[str]) -> list[str]:
    """Those that get a row and a colour of their own, in the order given: all, or the first ``MOST``."""
    return list(tenants) if len(tenants) <= MOST + 1 else list(tenants[:MOST])


def _rows(
    lines: Mapping[str, Sequence[Mapping[str, Any]]], styles: Mapping[str, TenantStyle]
) -> dict[str, list[Mapping[str, Any]]]:
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for tenant, line in lines.items():
        rows.setdefault(tenant if tenant in styles else OTHERS, []).extend(line)
    return rows


def _is_turn(tenant: str, turn: str | None, styles: Mapping[str, TenantStyle]) -> bool:
    return turn is not None and tenant == (turn if turn in styles else OTHERS)


def _head(page: Axes, y: float, text: str, x: float) -> None:
    page.text(x, y, text, fontsize=8.2, color=SOFT, va="center")


def _line(
    page: Axes,
    y: float,
    tenant: str,
    line: Sequence[Mapping[str, Any]],
    look: TenantStyle,
    *,
    turn: bool,
    to_end: bool,
) -> None:
    """A tenant's name and its waiting requests as boxes; the one that goes is outlined."""
    middle = y + ROW / 2
    if turn:
        page.add_artist(
            Rectangle((0.06, y + 0.01), WIDTH_IN - 0.12, ROW - 0.02, facecolor="#EEF3F7", linewidth=0)
        )
        page.text(PAD - 0.04, middle, "▶", fontsize=8, color=INK, va="center")
    page.add_artist(
        Rectangle(
            (PAD + 0.12, middle - 0.06),
            0.12,
            0.12,
            facecolor=look.color,
            edgecolor=_ink(look.color),
            hatch=look.hatch,
            linewidth=0,
        )
    )
    name = shorten(" ".join(tenant.split()), LINES_AT - PAD - 0.36, 8.8, "bold" if turn else "normal")
    page.text(
        PAD + 0.3, middle, plain(name), fontsize=8.8, color=INK, va="center", weight="bold" if turn else None
    )
    right = WIDTH_IN - PAD if to_end else ACCOUNTS_AT - 0.15
    room = int((right - LINES_AT - 0.36) / (BOX + GAP))
    shown = _shown(line, room)
    for i, request in enumerate(shown):
        _box(page, LINES_AT + i * (BOX + GAP), y, request, look)
    if len(shown) < len(line):
        x = LINES_AT + len(shown) * (BOX + GAP) + 0.02
        page.text(x, middle, f"+{len(line) - len(shown)}", fontsize=8.2, color=SOFT, va="center")
    if not line:
        page.text(LINES_AT, middle, "–", fontsize=8.8, color=SOFT, va="center")


def _shown(line: Sequence[Mapping[str, Any]], room: int) -> list[Mapping[str, Any]]:
    """The first of a line, and always the one that goes."""
    shown = list(line[:room])
    late = [request for request in line[room:] if request["next"]]
    return [*shown[: room - 1], *late] if late else shown


def _box(page: Axes, x: float, y: float, request: Mapping[str, Any], look: TenantStyle) -> None:
    chosen = request["next"]
    page.add_artist(
        Rectangle(
            (x, y + 0.04),
            BOX,
            ROW - 0.08,
            facecolor=look.color if chosen else "white",
            edgecolor=INK if chosen else rim(look.color),
            linewidth=2.0 if chosen else 1.1,
        )
    )
    ink = _ink(look.color) if chosen else INK
    top = shorten(str(request["short"]), BOX - 0.04, 7.8, "bold")
    page.text(
        x + BOX / 2,
        y + 0.155,
        plain(top),
        fontsize=7.8,
        weight="bold",
        color=ink,
        ha="center",
        va="center",
    )
    cost = shorten(tick(float(request["cost"])), BOX - 0.02, 7.2)
    page.text(x + BOX / 2, y + 0.29, cost, fontsize=7.2, color=ink, ha="center", va="center")


def _account(
    page: Axes,
    y: float,
    j: int,
    many: int,
    where: str,
    account: Mapping[str, Any],
    line: Sequence[Mapping[str, Any]],
    look: TenantStyle,
    scales: Scales,
) -> None:
    """Credit is a bar, with the cost it must cover; what was charged is a mark, the leftmost goes first."""
    measure = next((m for m in MEASURES if m in account), None)
    if measure is None or j >= 3:
        return
    height = (ROW - 0.1) / min(many, 3)
    middle = y + 0.05 + height * (j + 0.5)
    value = float(account[measure])
    need = next((float(r["cost"]) for r in line if r["next"]), float(line[0]["cost"]) if line else 0.0)
    chosen = any(r["next"] for r in line)
    gain = float(account.get("gain", 0))
    covered = value
    if measure == "deficit" and chosen and many == 1 and gain > 0 and value < need:
        covered = value + gain * math.ceil((need - value) / gain)
    known = [float(v) for v in scales.get(measure, (0, need))]
    low, high = min(0.0, value, *known), max(value, covered, *known)
    label_in, size = (0.86, 7.0) if where else (0.56, 7.6)
    left, width = ACCOUNTS_AT, WIDTH_IN - PAD - ACCOUNTS_AT - label_in
    unit = width / ((high - low) or 1.0)

    def at(v: float) -> float:
        return left + (v - low) * unit

    page.plot([left, left + width], [middle, middle], color=GRID, linewidth=0.8, zorder=1)
    if measure == "deficit":
        bar = min(height * 0.6, 0.17)
        if covered > value:
            page.add_artist(
                Rectangle(
                    (at(max(value, 0.0)), middle - bar / 2),
                    at(covered) - at(max(value, 0.0)),
                    bar,
                    facecolor="white",
                    edgecolor=rim(look.color),
                    linewidth=1.0,
                    linestyle=(0, (2, 1.5)),
                    zorder=2,
                )
            )
        page.add_artist(
            Rectangle(
                (at(min(0.0, value)), middle - bar / 2),
                abs(value) * unit,
                bar,
                facecolor=look.color,
                edgecolor=_ink(look.color),
                hatch=look.hatch,
                linewidth=0,
                zorder=3,
            )
        )
        page.plot([at(0)] * 2, [middle - 0.12, middle + 0.12], color=SOFT, linewidth=0.8, zorder=4)
        if need and many == 1:
            page.plot([at(need)] * 2, [middle - 0.13, middle + 0.13], color=INK, linewidth=1.6, zorder=5)
    else:
        page.plot(
            [at(value)],
            [middle],
            marker=look.marker,
            markersize=7 if many == 1 else 5,
            color=look.color,
            markeredgecolor=INK,
            markeredgewidth=0.6,
            zorder=4,
        )
    said = tick(value) if covered <= value else f"{tick(value)}→{tick(covered)}"
    if where:
        said = f"{where}: {said}"
    page.text(
        left + width + 0.11,
        middle,
        plain(shorten(said, label_in, size)),
        fontsize=size,
        color=INK,
        va="center",
    )


def _slots(axes: Axes, state: State, styles: Mapping[str, TenantStyle]) -> None:
    """Who held which slot so far, who holds it now, and where the next one goes."""
    now = float(state["time"])
    low, high = _window(state)
    count = len(state["slots"])
    inches = float(axes.get_window_extent().width) / 100.0 / (high - low)
    following = state["next"]
    entries = [*state["log"], *([following] if following else [])]
    for entry in entries:
        if entry["tenant"] is None or float(entry["finish"]) < low or float(entry["time"]) > high:
            continue
        look = styles.get(entry["tenant"], styles[OTHERS])
        start, finish = float(entry["time"]), float(entry["finish"])
        coming, done = entry is following, finish <= now
        tall = 0.78
        axes.add_patch(
            Rectangle(
                (start, entry["slot"] - tall / 2),
                max(finish - start, (high - low) / 700),
                tall,
                facecolor="white" if coming else look.color,
                edgecolor=INK if coming else "white",
                hatch="" if coming else look.hatch,
                linewidth=1.8 if coming else 0.9,
                linestyle=(0, (3, 1.5)) if coming else "-",
                alpha=0.45 if done else 1.0,
                zorder=3 if coming else 2,
            )
        )
        shown_in = (min(finish, high) - max(start, low)) * inches
        text = str(entry["short"])
        if text_width(text, 7.4) + 0.04 < shown_in:
            axes.text(
                (max(start, low) + min(finish, high)) / 2,
                entry["slot"],
                plain(text),
                fontsize=7.4,
                color=INK,
                ha="center",
                va="center",
                zorder=6,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
            )
    axes.axvline(now, color=INK, linewidth=1.2, zorder=5)
    axes.set_xlim(low, high)
    axes.set_ylim(count - 0.5, -0.5)
    step = max(1, -(-count // 10))
    axes.set_yticks(list(range(0, count, step)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v + 1:.0f}"))
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: tick(v)))
    axes.set_xlabel(f"time (s); the line is now, {tick(now)} s", color=INK)
    axes.spines["left"].set_visible(False)


BARS = 24
"""How many requests of mean length fit into the time shown."""


def _window(state: State) -> tuple[float, float]:
    """The whole run, or the part round now in which bars can be read; it moves in whole halves."""
    first = min([0.0, *(float(e["time"]) for e in state["log"])])
    end, now = float(state["end"]), float(state["time"])
    width = BARS * float(state["typical"])
    if width <= 0 or end - first <= 1.3 * width:
        return first, end if end > first else first + 1.0
    page = max(0, math.floor((now - first) / (width / 2)) - 1)
    low = first + page * width / 2
    return low, low + 1.25 * width


def _ink(color: str) -> str:
    """Writing that can be read on that fill."""
    return INK if luminance(color) > 0.42 else "white"
