"""What each router costs: prompt tokens computed, hit rate, time to first token, imbalance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairq.plots.bar_grid import Panel, bar_grid
from fairq.plots.style import Chart, number, plain, styled, tenant_styles


@styled
def router_bars(rows: Sequence[Mapping[str, Any]], *, note: str = "", runs: int = 1) -> Chart:
    """A bar per router under each of four headings.

    Parameters
    ----------
    rows : one per router: ``router, hit_rate, ttft_p50, ttft_p99`` (s), ``imbalance``
        (requests of the busiest replica over the mean), ``ttft_mean, prefill_per_request, served``.
    note : what was simulated, put at the end of the subtitle.
    runs : how many runs each row is the mean of.

    Raises
    ------
    ValueError : no rows, or two of one router.
    """
    names = [str(row["router"]) for row in rows]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"needs one row per router, got {names!r}")
    looks = tenant_styles(["requests"])
    one = {"requests": looks["requests"]}

    def panel(title: str, column: str, words: Any, linear: bool = False, factor: float = 1) -> Panel:
        values = {str(row["router"]): {"requests": factor * float(row[column])} for row in rows}
        return Panel(title, values, words, linear, "ttft" if column.startswith("ttft") else "")

    panels = [
        panel("prompt tokens computed per request", "prefill_per_request", number, True),
        panel("prompt tokens found in the cache", "hit_rate", lambda v: f"{v:.1f} %", True, 100),
        panel("time to first token, p50 (s)", "ttft_p50", number),
        panel("time to first token, p99 (s)", "ttft_p99", number),
        panel("busiest replica / mean (requests)", "imbalance", lambda v: f"{v:.2f}×", True),
    ]
    if len({row["served"] for row in rows}) > 1:  # people who wait ask less
        panels.append(panel("requests served", "served", number, True))
    else:
        panels.append(panel("time to first token, mean (s)", "ttft_mean", number))
    fastest = min(rows, key=lambda row: float(row["ttft_mean"]))
    most = max(rows, key=lambda row: float(row["hit_rate"]))
    uneven = max(rows, key=lambda row: float(row["imbalance"]))
    title = (
        f"{_capital(plain(fastest['router']))} answers first: {number(fastest['ttft_mean'])} s on average,"
        f" {100 * fastest['hit_rate']:.0f} % of prompt tokens found"
    )
    how = "one run each" if runs == 1 else f"means of {runs} runs"
    same = "The same requests under every router"
    if len({row["served"] for row in rows}) > 1:
        same = "The same people under every router; who is answered sooner asks again sooner"
    subtitle = f"{same}. {_capital(how)}.{' ' + note if note else ''}"
    chart = bar_grid(names, ["requests"], panels, one, title=title, subtitle=subtitle, legend=False)
    chart.alt = (
        f"Routers compared. Fastest to the first token: {fastest['router']}, mean"
        f" {number(fastest['ttft_mean'])} s. Most found in caches: {most['router']},"
        f" {100 * most['hit_rate']:.1f} % of prompt tokens. Least even: {uneven['router']}, its busiest"
        f" replica has {uneven['imbalance']:.2f} times the mean."
    )
    return chart


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
