"""A tuning in sentences, and in rows for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from fairq.plots.style import number, ratio_words

if TYPE_CHECKING:
    import pandas as pd

    from fairq.tune.decide import Capacity, Tuning

NOTABLE = 0.05
"""A change of somebody's mean below this part is not worth a word."""


def verdict(made: Tuning) -> list[str]:
    """What to apply, what it does, who pays, how sure that is, and what else would do."""
    return [_headline(made), *_changes(made), *_others(made), *_capacities(made), _certainty(made)]


def headline(made: Tuning) -> str:
    """The first sentence."""
    return _headline(made)


def _headline(made: Tuning) -> str:
    promise = " and ".join(map(str, made.targets))
    now, best = made.row(made.today), made.row(made.best)
    if made.chosen is None:
        return (
            f"None of {len(made.settings)} settings reaches {promise}. The nearest is {made.best.name!r}:"
            f" {value(best)} (today, {made.today.name!r}: {value(now)})."
        )
    if made.chosen == made.today:
        words = (
            f"Leave it: {made.today.name!r} already reaches {promise} ({value(now)}), and none is cheaper."
        )
    else:
        words = (
            f"Apply {made.chosen.name!r}: it reaches {promise} with {value(best)};"
            f" today, {made.today.name!r}, it is {value(now)}."
        )
    return words + _but(made)


def _but(made: Tuning) -> str:
    """What the replay promises and a model of the log does not hold belongs in the first sentence."""
    for row in _checked(made):
        if row["setting"] == made.best.name and row["verdict"] != "meets":
            how = "only perhaps" if row["verdict"] == "perhaps" else "not"
            return f" But that is this log alone: on a model fitted to it {how}, {value(row)}."
    return ""


def _checked(made: Tuning) -> list[dict[str, Any]]:
    return [] if made.check is None else records(made.check)


def _changes(made: Tuning) -> Iterator[str]:
    """Who pays, and who gains beside the one promised."""
    if made.best == made.today:
        return
    rows = [row for row in records(made.payers) if row["setting"] == made.best.name]
    others = [row for row in rows if not row["promised"]]
    several, payer = made.runs > 1, made.row(made.best)["payer"]
    sure = [row["party"] for row in others if _sure(row, True, several) or _sure(row, False, several)]
    # The price is somebody's: that one is named even where it may be chance.
    worse = [row for row in others if _ratio(row) > 1 + NOTABLE and row["party"] in (*sure, payer)]
    better = [row for row in others if _ratio(row) < 1 - NOTABLE and row["party"] in sure]
    if worse:
        worse.sort(key=_ratio, reverse=True)
        changes = [_change(row, row["party"] in sure) for row in worse[:6]]
        yield "Who pays (mean latency): " + "; ".join(changes) + _more(worse, 6) + "."
    elif others:
        yield "Nobody else pays: no other party's mean latency grows noticeably."
    if better:
        better.sort(key=_ratio)
        yield "Who gains too: " + "; ".join(map(_change, better[:4])) + _more(better, 4) + "."
    lost = made.row(made.best)["unserved"] - made.row(made.today)["unserved"]
    if lost > 0:
        yield f"{lost:,} more requests are never served."


def _others(made: Tuning) -> Iterator[str]:
    by_name = {row["setting"]: row for row in records(made.table)}
    others = [
        row
        for row in _checked(made)
        if row["setting"] != made.best.name and by_name[row["setting"]]["verdict"] == "meets"
    ]
    if _but(made) and others:
        names = ", ".join(repr(row["setting"]) for row in others)
        yield f"Nor surely there, though in the replay: {names}."
    for row in [] if _but(made) else others:
        replay = by_name[row["setting"]]
        yield (
            f"Passed over: {row['setting']!r}, {value(replay)} in the replay at a price of {price(replay)},"
            f" but {value(row)} on a model fitted to the log ({row['verdict']})."
        )
    shown = [made.best.name, *(row["setting"] for row in others)]
    table = made.table[~made.table["setting"].isin(shown) & made.table["front"]]
    meets = table[table["verdict"] == "meets"].sort_values("price")
    for row in records(meets.head(2)):
        where = "" if made.check is None else " in the replay (not looked at on the model)"
        yield f"Also meets it{where}: {row['setting']!r}, {value(row)}, at a price of {price(row)}."
    perhaps = table[table["verdict"] == "perhaps"].sort_values("price")
    for row in records(perhaps.head(1)):
        words = f"{row['setting']!r}, {value(row)} at a price of {price(row)}"
        yield f"Perhaps: {words}; more replications would tell."


def _capacities(made: Tuning) -> Iterator[str]:
    slots = getattr(made.scenario.engine_spec, "slots", None)
    if made.kv_tokens is not None and slots:
        yield (
            f"The KV cache binds, not slots: its {made.kv_tokens:,} tokens hold {slots} of these requests at"
            " once on average. More slots would do nothing; a larger cache or shorter requests would."
        )
    for each in made.capacity:
        yield capacity_words(each)


def capacity_words(each: Capacity) -> str:
    """What more slots, or less load, would do."""
    if each.now is not None:
        if each.slots == each.now:
            return f"{each.setting!r} reaches it with the {each.now} slots there are."
        if each.slots is not None:
            return f"With {each.setting!r} it would take {each.slots} slots (there are {each.now})."
        return f"With {each.setting!r} not even {each.most:,.0f} slots would do (there are {each.now})."
    if each.load is not None:
        return (
            f"With {each.setting!r} it holds at {each.load:.0%} of this load: {1 / each.load:.1f} times the"
            " machine, or that much less demand."
        )
    return f"With {each.setting!r} it does not even hold at {each.most:.0%} of this load."


def _certainty(made: Tuning) -> str:
    if made.replay:
        words = (
            f"One complete replay, n = {made.requests:,} requests: facts of this run, without an interval."
        )
        if made.check is not None:
            shown = [row for row in _checked(made) if row["setting"] in (made.today.name, made.best.name)]
            parts = [f"{row['setting']!r} {value(row)} ({row['verdict']})" for row in shown]
            words += " On a model fitted to the log, 10 replications: " + "; ".join(parts) + "."
        return words
    if made.runs == 1:
        return "One replication: no interval. Use 10 before you decide."
    return (
        f"Means of {made.runs} replications with their 95 % intervals; every setting met the same requests."
        " 'Meets' means that the whole interval is below the bound."
    )


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table."""
    return [{str(name): cell for name, cell in row.items()} for row in table.to_dict("records")]


def value(row: Mapping[str, Any]) -> str:
    """A target's figure: "1.2 s (0.9 to 1.5)"."""
    mean, low, high = (float(row[name]) for name in ("value", "low", "high"))
    if mean == inf:
        return "never served"
    # Equal runs differ in the last digit of a sum; that is no spread.
    spread = f" ({number(low)} to {number(high)})" if isfinite(low) and high - low > 1e-9 * abs(mean) else ""
    return f"{number(mean)} s{spread}"


def price(row: Mapping[str, Any]) -> str:
    """ "×1.5 (nightly)": the worst of the others' mean latency, times today's."""
    who = f" ({row['payer']})" if row["payer"] else ""
    return f"×{number(float(row['price']))}{who}"


def _change(row: Mapping[str, Any], sure: bool = True) -> str:
    half = (row["high"] - row["low"]) / 2
    spread = f", {row['difference']:+.3g} ±{number(half)} s" if isfinite(half) and half > 0 else ""
    change = ratio_words(row["before"], row["after"]) or "not all served"
    doubt = "" if sure else ", not sure" if spread else ", not sure: too few runs with it"
    return f"{row['party']} {number(row['before'])} → {number(row['after'])} s ({change}{spread}{doubt})"


def _ratio(row: Mapping[str, Any]) -> float:
    return float(row["after"] / row["before"]) if row["before"] > 0 else 1.0


def _sure(row: Mapping[str, Any], above: bool, several: bool) -> bool:
    """The paired interval does not hold 0; a replay has none and needs none, as who is never served."""
    end = row["low"] if above else row["high"]
    if not isfinite(end):
        return not several or row["after"] == inf or row["before"] == inf
    return bool(end > 0 if above else end < 0)


def _more(rows: list[Any], shown: int) -> str:
    return f"; and {len(rows) - shown} more" if len(rows) > shown else ""
