"""One card shared in several ways: what each tenant gets, and whom a failure takes along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairq.plots.bar_grid import Panel, bar_grid
from fairq.plots.style import Chart, TenantStyle, number, plain, styled, tenant_styles


@styled
def partition_bars(
    rows: Sequence[Mapping[str, Any]], *, styles: Mapping[str, TenantStyle] | None = None, note: str = ""
) -> Chart:
    """A block per way to share the card, in it a bar per group of tenants, under four headings.

    Parameters
    ----------
    rows : one per (way, group): ``way, group, tokens_per_s, ttft_p99, latency_p50`` (s), ``down_s``
        (seconds in which nothing could serve the group).
    note : what was simulated, put at the end of the subtitle.

    Raises
    ------
    ValueError : no rows, or a way that lacks a group.
    """
    ways = list(dict.fromkeys(str(row["way"]) for row in rows))
    groups = list(dict.fromkeys(str(row["group"]) for row in rows))
    cells = {(str(row["way"]), str(row["group"])): row for row in rows}
    if not rows or len(cells) != len(ways) * len(groups) or len(cells) != len(rows):
        raise ValueError(f"needs one row per way and group, got {[*cells]!r}")
    looks = dict(styles) if styles is not None else tenant_styles(groups)

    def panel(title: str, column: str, words: Any = number, linear: bool = False) -> Panel:
        values = {way: {group: float(cells[way, group][column]) for group in groups} for way in ways}
        return Panel(title, values, words, linear)

    panels = [
        panel("tokens/s, first arrival to last finish", "tokens_per_s", number, True),
        panel("latency, p50 (s)", "latency_p50"),
        panel("time to first token, p99 (s)", "ttft_p99"),
        panel("seconds without service", "down_s", lambda v: number(v) if v else "none", True),
    ]
    struck = {way: [g for g in groups if cells[way, g]["down_s"]] for way in ways}
    title = _finding(ways, groups, cells, struck, any(struck.values()))
    subtitle = f"The same requests on one card, shared in each way.{' ' + note if note else ''}"
    chart = bar_grid(ways, groups, panels, looks, title=title, subtitle=subtitle)
    chart.alt = f"{title}. " + " ".join(
        f"{way}: "
        + ", ".join(
            f"{group} {number(cells[way, group]['tokens_per_s'])} tokens/s, latency p50"
            f" {number(cells[way, group]['latency_p50'])} s"
            for group in groups
        )
        + "."
        for way in ways
    )
    return chart


def _finding(
    ways: list[str],
    groups: list[str],
    cells: Mapping[tuple[str, str], Mapping[str, Any]],
    struck: Mapping[str, list[str]],
    failed: bool,
) -> str:
    """Who survives a failure where there was one; else where most is done."""
    if failed:
        whole = [way for way in ways if len(struck[way]) < len(groups)]
        if 0 < len(whole) < len(ways):
            spared = [g for g in groups if g not in struck[whole[0]]]
            ways_said = " and ".join(map(plain, whole))
            return f"Only under {ways_said} does {plain(spared[0])} keep its service through the failure"
        return "The failure reaches everybody" if not whole else "The failure reaches one part alone"
    fastest = {group: min(ways, key=lambda w: float(cells[w, group]["latency_p50"])) for group in groups}
    names = set(fastest.values())
    if len(names) == 1:
        return f"{plain(names.pop())} is fastest for everybody at the median"
    return ", ".join(
        f"{plain(group)} is fastest under {plain(way)}" for group, way in list(fastest.items())[:2]
    )
