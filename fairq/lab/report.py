"""What a scenario or a log says of the box, in words: how it was read, the verdict, the capacity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from fairq.capacity import Card, from_scenario
from fairq.capacity.logs import Served, card_of_served, served_of
from fairq.capacity.verdicts import series_of_served
from fairq.capacity.words import few_lines
from fairq.saturation import Evidence, Verdict, judge
from fairq.scenario import Scenario
from fairq.scenario.fleets import CardSpec


def has_card(scenario: Scenario) -> bool:
    """Whether one engine serves, of which a card can be made."""
    return not isinstance(scenario.engine_spec, CardSpec)


def draws_card(scenario: Scenario) -> bool:
    """Whether the card can be drawn: not where a log does not tell who of those in flight was served."""
    if not has_card(scenario):
        return False
    served = _served(scenario)
    return served is None or served.in_service


def card_of(scenario: Scenario) -> Card:
    """Measured, where the scenario is a log as it is that says when it was served; else of the engine.

    Raises
    ------
    ValueError : requests without tokens.
    """
    served = _served(scenario)
    if served is not None:
        return card_of_served(served, source=f"log {scenario.name}")
    return from_scenario(scenario)


def _served(scenario: Scenario) -> Served | None:
    """What a log says of its service, where it is shown as it is."""
    log = scenario.log
    return served_of(scenario.read()) if log is not None and log.load == log.burst == 1 else None


def verdict_line(verdict: Verdict) -> str:
    """The verdict, what would help, and the evidence for it."""
    because = "; ".join(f"{each.what} {_measured(each)} (wanted {each.wanted})" for each in verdict.because)
    return f"{_advice(verdict)}. Because: {because}." if because else f"{_advice(verdict)}."


def log_line(scenario: Scenario) -> str:
    """The verdict by the log's own times; "" where it does not tell them, or is not shown as it is."""
    served = _served(scenario)
    if served is None or not served.in_service:
        return ""
    try:
        verdict = judge(series_of_served(served.table))
    except ValueError:  # all in one moment
        return ""
    return f"By the log's own times: {verdict.advice}."


def card_lines(card: Card) -> list[str]:
    """The card in a few sentences, as ``fairq capacity`` has them."""
    return [f"{line[:1].upper()}{line[1:]}." for line in few_lines(card)]


def report_html(headline: str, lines: Sequence[str]) -> str:
    """The verdict in bold, the rest as a list."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return (
        '<div style="line-height:1.45;margin-top:4px;overflow-wrap:anywhere">'
        f"<strong>{escape(headline)}</strong>"
        f'<ul style="margin:2px 0;padding-left:1.2em">{items}</ul></div>'
    )


def _advice(verdict: Verdict) -> str:
    return verdict.advice[:1].upper() + verdict.advice[1:]


def _measured(each: Evidence) -> str:
    value: Any = float(each.measured)
    if math.isnan(value):
        return "not known"
    return f"{value:.0%}" if each.wanted.rstrip().endswith("%") else f"{value:.3g}"
