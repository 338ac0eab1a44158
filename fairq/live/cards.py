"""From snapshots of a live engine to levels, a series and a card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isnan, nan
from typing import Any

import numpy as np

from fairq.capacity import Card, Limits, Shape, from_levels, from_profile, relief
from fairq.capacity.measured import Level
from fairq.files import InputError
from fairq.live.scrape import Snapshot
from fairq.saturation import FULL, RELIEF, Series

TELLING = 0.2
"""Part of the busy time from which windows with a known number running are enough for a card."""


@dataclass(frozen=True)
class Window:
    """What happened between two snapshots; rates per second, NaN where the engine does not say.

    ``running, waiting, kv``: means of the two ends; ``steady``: both ends had as many running; ``queued``:
    somebody waited at both.
    """

    seconds: float
    running: float
    waiting: float
    kv: float
    tokens: float
    requests: float
    prompt_tokens: float
    output_tokens: float
    ttft_s: float
    tpot_s: float
    latency_s: float
    steady: bool
    queued: bool

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


def window(before: Snapshot, after: Snapshot) -> Window | None:
    """Between two snapshots; None when the engine was restarted in between (a counter went back).

    Raises
    ------
    InputError : the second is not later than the first, or of another engine.
    """
    if before.engine != after.engine:
        raise InputError(f"two pages of different engines: {before.engine} and {after.engine}")
    seconds = after.at - before.at
    if not seconds > 0:
        raise InputError(f"the second page must be later than the first, got {seconds:g} s")
    counted = {
        name: getattr(after, name) - getattr(before, name)
        for name in ("generated", "prompted", "finished", "preemptions")
    }
    if any(value < 0 for value in counted.values()):
        return None
    finished = counted["finished"]
    return Window(
        seconds=seconds,
        running=(before.running + after.running) / 2,
        waiting=(before.waiting + after.waiting) / 2,
        kv=(before.kv + after.kv) / 2,
        tokens=counted["generated"],
        requests=finished,
        prompt_tokens=_over(counted["prompted"], finished),
        output_tokens=_over(counted["generated"], finished),
        ttft_s=_mean(before, after, "ttft"),
        tpot_s=_mean(before, after, "tpot"),
        latency_s=_mean(before, after, "latency"),
        steady=before.running == after.running,
        queued=min(before.waiting, after.waiting) >= 1,
    )


def series_from(snapshots: Sequence[Snapshot]) -> Series:
    """What a verdict needs, since the engine's last start. Raises ValueError below two snapshots."""
    snaps = _since_restart(snapshots)

    def column(name: str) -> Any:
        values = np.array([getattr(each, name) for each in snaps], dtype=float)
        return None if np.isnan(values).any() else values

    kv = column("kv")
    return Series(
        np.array([each.at for each in snaps]),
        column("running"),
        column("waiting"),
        None if kv is None else np.clip(kv, 0, 1),
        column("finished"),
        column("preemptions"),
    )


def card_of(
    snapshots: Sequence[Snapshot],
    *,
    source: str,
    profile: Any = None,
    engine: dict[str, Any] | None = None,
    **asked: Any,
) -> Card:
    """The card of a live engine from two or more snapshots.

    Parameters
    ----------
    profile : a ``Profile``: then the rows are those of the profile with the requests that were seen, and what
        was measured stands beside them.
    engine : its settings, as ``from_profile`` takes them. asked : as ``make_card`` takes them.

    Raises
    ------
    InputError : no tokens on the page or none generated in between; nothing ran.
    """
    snaps = _since_restart(snapshots)
    if len(snaps) < 2:
        raise InputError(f"{source}: the engine was restarted between the two pages: take two more")
    whole = window(snaps[0], snaps[-1])
    assert whole is not None  # no restart among them
    if isnan(whole.tokens):
        raise InputError(
            f"{source}: missing series: {snaps[-1].engine} does not count generated tokens there"
        )
    steps = [each for each in (window(a, b) for a, b in pairwise(snaps) if b.at > a.at) if each is not None]
    if not whole.tokens > 0:
        raise InputError(f"{source}: nothing was generated between the first and the last page: nobody asked")
    steps = [_as_ran(each, whole) for each in steps]
    levels = _levels(_telling(steps))
    if not levels:
        raise InputError(
            f"{source}: {whole.tokens:,.0f} tokens were generated, but nothing ran at the moment of any page:"
            " take more pages, at shorter intervals"
        )
    busy = [each for each in steps if each.running > 0 and each.tokens > 0]
    running = sum(each.running * each.seconds for each in busy) / sum(each.seconds for each in busy)
    caveats = []
    if len(snaps) == 2 and not whole.steady:
        caveats.append(
            f"{snaps[0].running:g} ran at the first page and {snaps[1].running:g} at the second: what ran in"
            " between is a guess; more pages (--url, or fairq watch) tell"
        )
    notes = [
        f"measured over {whole.seconds:,.0f} s: {running:.1f} ran, {whole.tokens_per_s:,.1f} tokens/s in all,"
        f" {whole.tokens_per_s / running:,.1f} each ({running:.1f} × {whole.tokens_per_s / running:,.1f} ="
        f" {whole.tokens_per_s:,.1f})"
    ]
    if not isnan(whole.ttft_s):
        notes.append(f"first token after {whole.ttft_s:.2f} s on average, waiting included")
    shape = _shape(whole)
    if profile is not None:
        settings = {name: value for name, value in (engine or {}).items() if value is not None}
        card = from_profile(
            profile,
            shape,
            source=f"{source} and profile {profile.name}",
            caveats=caveats,
            **settings,
            **asked,
        )
        nearest = card.at(max(round(running), 1))
        notes.append(
            f"the profile says {nearest.tokens_per_s:,.1f} tokens/s for {nearest.streams:g} streams of these"
            " requests"
        )
        return _noted(card, notes)
    slots = _slots(snaps)
    held = [each.kv / each.running for each in steps if each.running >= 1 and each.kv > 0.02]
    most = max(round(max(each.streams for each in levels)), round(max(each.running for each in snaps)), 1)
    # A cache that is fuller than counts as full holds what runs in it all the same.
    kv = max(int(FULL / float(np.median(held))), most) if held else None
    if kv is not None:
        notes.append(f"a stream holds {100 * float(np.median(held)):.1f} % of the KV cache: about {kv} fit")
    limits = Limits(slots=slots, kv=kv)
    known = limits.streams
    if known is not None and known > most:
        # What was not measured is not promised further than twice as far.
        known = min(known, 2 * most)
        notes.append(f"at most {most} ran: rows beyond that carry the line on")
    part = _first_part(whole, shape, running)
    if not part:
        notes.append("how long the first token takes once in service is not on that page")
    return from_levels(
        levels,
        shape,
        limits if known is None or limits.streams == known else Limits(),
        first_part=part,
        most_streams=known or most,
        kind="live",
        source=source,
        notes=notes,
        caveats=caveats,
        **asked,
    )


def _as_ran(step: Window, whole: Window) -> Window:
    """The window with how many ran on average, where its two ends cannot tell.

    They tell while people wait, or when the window is shorter than an answer. Else Little's law does: tokens
    per second, times the seconds that each takes.
    """
    answer = whole.output_tokens * whole.tpot_s
    told = step.steady and (step.queued or isnan(answer) or step.seconds <= answer)
    if told or not (step.tpot_s > 0 and step.tokens > 0):
        return step
    return replace(step, running=step.tokens_per_s * step.tpot_s, steady=True)


def _telling(steps: Sequence[Window]) -> Sequence[Window]:
    """The windows of which it is known how many ran; all, where those are not a fifth of the busy time."""
    busy = [each for each in steps if each.running > 0 and each.tokens > 0]
    steady = [each for each in busy if each.steady]
    enough = sum(each.seconds for each in steady) >= TELLING * sum(each.seconds for each in busy)
    return steady if steady and enough else busy


def _first_part(whole: Window, shape: Shape, running: float) -> float:
    """Part of the time in service before the first token: what is left beside the tokens after it."""
    if isnan(whole.tpot_s) or isnan(whole.output_tokens):
        return 0.0
    service = shape.output_tokens * running / whole.tokens_per_s
    return min(max(1 - (shape.output_tokens - 1) * whole.tpot_s / service, 0.0), 0.99)


def relief_from(snapshots: Sequence[Snapshot], profile: Any, slots: int | None) -> float:
    """What twice the slots and KV cache would give, of a known profile and the requests that were seen."""
    whole = window(snapshots[0], snapshots[-1]) if len(snapshots) > 1 else None
    if profile is None or whole is None or isnan(whole.output_tokens):
        return RELIEF
    return relief(profile, _shape(whole), **({"max_num_seqs": slots} if slots else {}))


def _slots(snaps: Sequence[Snapshot]) -> int | None:
    """What the page says, or as many as ran whenever somebody waited, if that was always the same number.

    Not where the KV cache was full meanwhile: then that is what people waited for.
    """
    said = snaps[-1].slots
    if said >= 1:
        return int(said)
    queued = [each for each in snaps if each.waiting >= 1]
    if any(each.kv >= FULL for each in queued):
        return None
    full = {each.running for each in queued}
    always = full.pop() if len(full) == 1 else 0
    return int(always) if always >= max(1, *(each.running for each in snaps)) else None


def _noted(card: Card, notes: Sequence[str]) -> Card:
    return replace(card, kind="live", notes=[*notes, *card.notes])


def _levels(steps: Sequence[Window]) -> list[Level]:
    """Windows with as many running, taken together."""
    sums: dict[int, list[float]] = {}
    for each in steps:
        if each.running > 0 and each.tokens > 0:
            row = sums.setdefault(max(round(each.running), 1), [0.0, 0.0, 0.0])
            row[0] += each.running * each.seconds
            row[1] += each.seconds
            row[2] += each.tokens
    return [Level(streams / seconds, seconds, tokens) for streams, seconds, tokens in sums.values()]


def _shape(whole: Window) -> Shape:
    prompt, output = whole.prompt_tokens, whole.output_tokens
    if isnan(prompt) or isnan(output) or output < 1:
        # Nobody finished, or nobody counts: the speed is known, the length of an answer is not.
        return Shape.of(0.0, 100.0)
    return Shape.of(prompt, output)


def _since_restart(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    snaps: list[Snapshot] = []
    for each in snapshots:
        if snaps and each.at <= snaps[-1].at and each.generated >= snaps[-1].generated:
            continue  # a clock that stood still
        if snaps and (
            each.at <= snaps[-1].at or each.engine != snaps[-1].engine or window(snaps[-1], each) is None
        ):
            snaps = []
        snaps.append(each)
    return snaps


def _mean(before: Snapshot, after: Snapshot, what: str) -> float:
    if what not in before.sums or what not in after.sums:
        return nan
    (early_sum, early), (late_sum, late) = before.sums[what], after.sums[what]
    return _over(late_sum - early_sum, late - early)


def _over(amount: float, count: float) -> float:
    return amount / count if count > 0 else nan
