"""Soft caps: a cap that lends idle slots while nobody within its cap waits, and takes them back."""

from __future__ import annotations

from typing import Any

from fairq.policies.base import Eligible
from fairq.policies.caps import Cap, KeyCaps
from fairq.policies.lines import Hold, gate_of
from fairq.request import Number, Request


class _SoftCap(Cap):
    """Full as any cap, except while its slots are lent."""

    __slots__ = ("_caps",)

    def __init__(self, limit: int | None, caps: SoftCaps) -> None:
        super().__init__(limit)
        self._caps = caps

    @property
    def closed(self) -> bool:
        return not self._caps.lending and super().closed


class SoftCaps(KeyCaps):
    """Caps that no slot idles for. Parameters as for ``KeyCaps``.

    Whoever is within its caps goes first, in the inner policy's order. Only when nobody such waits, a slot
    that would idle is lent to somebody over its cap, again in the inner policy's order. Nothing running is
    interrupted: a loan ends when its request ends, and until then counts against the borrower's cap, so
    that every slot that frees goes first to those within theirs. A limit of 0 means "idle slots only".

    The price: somebody within its cap who comes while all slots are lent waits for one to end, up to the
    longest remaining service. A ``KeyCaps`` slot would have idled for it. ``KeyCaps`` around a ``SoftCaps``
    is a hard ceiling over a soft one.
    """

    lending = False
    """True while the inner policy is asked for somebody to lend to."""

    def get(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        gate = gate_of(eligible)
        request = super().get(gate, now)
        if request is None and len(self):
            self.lending = True
            try:
                request = super().get(gate, now)
            finally:
                self.lending = False
        return request

    def peek(self, eligible: Eligible | None = None, now: Number | None = None) -> Request | None:
        gate = gate_of(eligible)
        request = super().peek(gate, now)
        if request is None and len(self):
            self.lending = True
            try:
                request = super().peek(gate, now)
            finally:
                self.lending = False
        return request

    def _new_cap(self, limit: int | None) -> Cap:
        return _SoftCap(limit, self)

    def _full(self, key: str) -> Hold | None:
        return None if self.lending else super()._full(key)

    def over(self, key: str) -> bool:
        """Whether a key has all that its caps grant: what more it gets is lent."""
        return self._full(key) is not None

    def _why(self, request: Request, now: Number | None) -> str:
        why = super()._why(request, now)
        return f"{why} The slot is lent: nobody within its cap waits." if self.over(request.key) else why

    def snapshot(self, now: Number | None = None) -> dict[str, Any]:
        """As that of ``KeyCaps``; here a key over its cap may be lent a slot."""
        view = super().snapshot(now)
        view["policy"] = view["policy"].removesuffix(" under caps") + " under soft caps"
        view["why"] = view["why"].replace(" Held back by a cap: ", " Over a soft cap: ")
        return view
