"""One engine or several on one card? MIG, MPS, time-slicing, and one engine for all.

============ ========================== ============================== ==================================
way          speed of a part            memory                         what a failure takes along
============ ========================== ============================== ==================================
one engine   the whole card             one copy of the weights        everything: it is one process
MIG          its share, always          its share, hard border         nothing: memory and faults stay inside
MPS          what the others leave      one copy each, soft border     all: out of memory, or a kernel's fault
time-slicing its turn                   one copy each, soft border     all when out of memory; a fault stays
============ ========================== ============================== ==================================

(NVIDIA, MIG user guide; MPS documentation, "limited error containment": processes are clients of one server,
and a fatal fault of one ends them all; for time-slicing NVIDIA promises no isolation, and separate processes
give that of faults.)

A MIG slice reads all the weights with its share of the bandwidth. With W bytes of weights and k bytes of
context per sequence, a step of one engine with B sequences reads W + B·k; n slices with B / n each take as
long as one card that reads n·W + B·k. So throughput at equal B falls by (W + B·k) / (n·W + B·k).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fairq.sim.batching.engine import BatchingEngine
from fairq.sim.batching.profile import Profile
from fairq.sim.replicas.fleet import Fleet, Outage
from fairq.sim.replicas.routers import LeastBusy, Router
from fairq.sim.shared_card import Rule, mps, time_sliced


@dataclass(frozen=True)
class Way:
    """How a card is shared. ``sliced``: a part has its share and no more; ``sharing``: else, how fast each
    process runs; ``takes_along``: the kinds of outage that end all parts.
    """

    name: str
    sliced: bool = False
    sharing: Rule | None = None
    takes_along: frozenset[str] = frozenset()


WAYS: Mapping[str, Way] = MappingProxyType(
    {
        "one": Way("one engine"),
        "mig": Way("MIG", sliced=True),
        "mps": Way("MPS", sharing=mps, takes_along=frozenset({"oom", "fault"})),
        "time_sliced": Way("time-slicing", sharing=time_sliced, takes_along=frozenset({"oom"})),
    }
)


def slice_profile(profile: Profile, bandwidth: float, compute: float | None = None) -> Profile:
    """The profile of a MIG slice with these shares of the card's bandwidth and arithmetic, in (0, 1].

    The slice still reads all the weights. ``compute``: default as ``bandwidth`` (of seven compute slices and
    eight memory slices an A100's ``3g`` has 3/7 and 4/8). What the CPU does between steps takes as long.
    """
    compute = bandwidth if compute is None else compute
    for field, share in (("bandwidth", bandwidth), ("compute", compute)):
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise ValueError(f"{field} share must be in (0, 1], got {share!r}")
    return profile.with_(
        a_ms=profile.a_ms / bandwidth,
        b_ms=profile.b_ms / compute,
        c_ms=profile.c_ms / bandwidth,
        p_ms=profile.p_ms / compute,
        name=f"{profile.name}, {bandwidth:.3g} of it",
        kind="modelled",
        source=f"a slice of {profile.name}",
    )


def mig_ratio(weights: float, per_sequence: float, batch: float, parts: int) -> float:
    """Throughput of ``parts`` equal slices over that of the whole card, at ``batch`` sequences in all.

    ``weights`` and ``per_sequence`` (its context): what a step reads, in one unit (bytes, or ms on the card).
    """
    read = weights + batch * per_sequence
    return read / ((parts - 1) * weights + read)


def decode_table(profile: Profile, batches: Iterable[int], parts: int, context: int) -> list[dict[str, Any]]:
    """Tokens/s of the whole card and of ``parts`` MIG slices together, everybody writing.

    ``batches``: sequences in all; ``context``: tokens each holds. Columns: ``batch, one_tokens_per_s,
    mig_tokens_per_s, ratio, closed_form`` (of W and k; differs from ``ratio`` by the idle time between steps
    alone). Batches that do not divide evenly are left out.

    Raises
    ------
    ValueError : parts or context below 1.
    """
    for field, value in (("parts", parts), ("context", context)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{field} must be a whole number >= 1, got {value!r}")
    part = slice_profile(profile, 1 / parts)
    per_sequence = profile.b_ms + profile.c_ms * context
    rows = []
    for batch in batches:
        if batch % parts:
            continue
        one = 1000 * batch / profile.step_ms(batch, 0, batch * context)
        each = batch // parts
        cut = 1000 * batch / part.step_ms(each, 0, each * context)
        rows.append(
            {
                "batch": batch,
                "one_tokens_per_s": one,
                "mig_tokens_per_s": cut,
                "ratio": cut / one,
                "closed_form": mig_ratio(profile.a_ms, per_sequence, batch, parts),
            }
        )
    return rows


def partitioned(
    way: str,
    profile: Profile,
    parts: int,
    kv_tokens: int,
    *,
    place: Mapping[str, int] | None = None,
    router: Router | None = None,
    outages: Iterable[Outage] = (),
    **settings: Any,
) -> Fleet:
    """One card, shared in a ``way`` (``WAYS``) by ``parts`` engines, each with ``kv_tokens``.

    ``profile``: of the whole card. ``place``: which tenant is served where; tenants not named go where fewest
    requests are in flight, or where ``router`` says. ``settings``: of each ``BatchingEngine``.

    Raises
    ------
    ValueError : names the setting and the value.
    """
    if way not in WAYS:
        raise ValueError(f"way must be one of {', '.join(WAYS)}, got {way!r}")
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise ValueError(f"parts must be a whole number >= 1, got {parts!r}")
    if way == "one" and parts != 1:
        raise ValueError(f"one engine has 1 part, got parts = {parts!r}")
    how = WAYS[way]
    part_profile = slice_profile(profile, 1 / parts) if how.sliced and parts > 1 else profile
    return Fleet(
        lambda _: BatchingEngine(part_profile, kv_tokens=kv_tokens, **settings),
        parts,
        router=LeastBusy() if router is None else router,
        place=place,
        outages=outages,
        takes_along=how.takes_along,
        sharing=how.sharing,
    )
