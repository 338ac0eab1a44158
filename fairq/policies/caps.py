"""Caps: at most so many requests of a key, or of a group of keys, run at once. Wraps any policy.

Eligibility is pushed down into the wrapped policy, so that a capped key blocks nobody behind it and
caps nest. Caps can leave slots idle while work waits: that is their price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairq.policies.base import Policy, check_mapping, check_name
from fairq.policies.lines import Gate, Hold
from fairq.policies.wrapper import Wrapper, group_of_keys
from fairq.request import Number, Request


class Cap:
    """A limit and how many run under it: the hold of the keys it covers while it is full."""

    __slots__ = ("limit", "running")

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.running = 0

    @property
    def closed(self) -> bool:
        return self.limit is not None and self.running >= self.limit


class _CapGate:
    """The caps as a gate, with the gate handed in from outside behind them."""

    __slots__ = ("_caps", "_outer")

    def __init__(self, caps: KeyCaps, outer: Gate | None) -> None:
        self._caps = caps
        self._outer = outer

    def __call__(self, key: str) -> bool:
        return self.blocker(key) is None

    def blocker(self, key: str) -> Hold | None:
        hold = self._caps._full(key)
        if hold is None and self._outer is not None:
            return self._outer.blocker(key)
        return hold


class KeyCaps(Wrapper):
    """Caps on running requests per key and per group of keys, around any policy.

    Parameters
    ----------
    inner : the policy that orders what may run.
    per_key : key → limit.
    default : the limit of every other key; ``None`` = uncapped, 0 = blocked.
    groups : name → (keys, limit): a limit the keys share.

    Limits are whole numbers >= 0 or ``None``. A key obeys every cap it falls under. "Interactive keys
    two each, batch keys two in total" is
    ``KeyCaps(FIFO(), default=2, per_key={"x": None, "y": None}, groups={"batch": (["x", "y"], 2)})``.

    Raises ``ValueError`` naming the cap for a bad limit, ``TypeError`` for keys given as one string and for
    what is no mapping.
    """

    def __init__(
        self,
        inner: Policy,
        per_key: Mapping[str, int | None] | None = None,
        default: int | None = None,
        groups: Mapping[str, tuple[Iterable[str], int | None]] | None = None,
    ) -> None:
        self.default = _check_limit("default", default)
        self._own = {
            check_name("a key of per_key", key): self._new_cap(_check_limit(key, limit))
            for key, limit in check_mapping("per_key", per_key).items()
        }
        self._explicit = set(self._own)
        self._groups: dict[str, Cap] = {}
        self._groups_of: dict[str, tuple[Cap, ...]] = {}
        # One hold for all keys whose limit is 0: each would else be asked about at every call.
        self._shut = self._new_cap(0)
        for name, pair in check_mapping("groups", groups).items():
            keys, limit = group_of_keys(f"group {name!r}", name, pair)
            cap = self._groups[name] = self._new_cap(_check_limit(name, limit))
            for key in keys:
                self._groups_of[key] = (*self._groups_of.get(key, ()), cap)
        super().__init__(inner)  # last: what is refused leaves the inner policy as it was
        if self._groups:
            inner._stand_under(lambda key: self._groups_of.get(key, ()))

    def set_cap(self, key: str, limit: int | None) -> None:
        """Change a key's own limit; what runs already is left to end by itself.

        Raises ``ValueError`` for a name that no key can have, and for that of a group, unless a key of that
        name is in a group, has a limit of its own, waits or runs.
        """
        check_name("the key of a cap", key)
        _check_limit(key, limit)
        if key in self._groups and not self._knows(key):
            raise ValueError(f"{key!r} is a group of keys, not a key: change its cap with set_group_cap")
        self._cap(key).limit = limit
        self._explicit.add(key)
        self._reopen()

    def set_group_cap(self, name: str, limit: int | None) -> None:
        """Change the limit that a group of keys shares. Raises ``ValueError`` for an unknown group."""
        if check_name("the group of a cap", name) not in self._groups:
            raise ValueError(f"no group {name!r}; there are {sorted(self._groups)}")
        self._groups[name].limit = _check_limit(name, limit)
        self._reopen()

    def _gate(self, outer: Gate | None) -> Gate:
        return _CapGate(self, outer)

    def _started(self, request: Request) -> None:
        for cap in self._caps_of(request.key):
            cap.running += 1

    def _ended(self, request: Request) -> None:
        key = request.key
        for cap in self._caps_of(key):
            cap.running -= 1
        if key not in self._explicit and not self._own[key].running:
            del self._own[key]

    def _knows(self, key: str) -> bool:
        return (
            key in self._own or key in self._groups_of or any(request.key == key for request in self._waiting)
        )

    def _new_cap(self, limit: int | None) -> Cap:
        return Cap(limit)

    def _cap(self, key: str) -> Cap:
        cap = self._own.get(key)
        if cap is None:
            cap = self._own[key] = self._new_cap(self.default)
        return cap

    def _caps_of(self, key: str) -> list[Cap]:
        return [self._cap(key), *self._groups_of.get(key, ())]

    def _full(self, key: str) -> Hold | None:
        own = self._own.get(key)
        limit = self.default if own is None else own.limit
        if limit == 0:
            return self._shut
        if own is not None and own.closed:
            return own
        for cap in self._groups_of.get(key, ()):
            if cap.closed:
                return cap
        return None

    def _reopen(self) -> None:
        self._shut.limit = None
        self._shut = self._new_cap(0)

    def snapshot(self, now: Number | None = None) -> dict[str, Any]:
        """As every policy's, with ``caps``: per key that runs or has a limit of its own, and per group."""
        view = super().snapshot(now)
        inside = self.inner.snapshot()  # for its name and caps
        view["policy"] = f"{inside['policy']} under caps"
        keys = {key: {"running": cap.running, "limit": cap.limit} for key, cap in self._own.items()}
        groups = {name: {"running": cap.running, "limit": cap.limit} for name, cap in self._groups.items()}
        view["caps"] = {"keys": keys, "groups": groups, "inside": inside.get("caps")}
        held = sorted({request.key for request in self._waiting if self._full(request.key)})
        if held:
            view["why"] += f" Held back by a cap: {', '.join(held)}."
        return view


def _check_limit(name: str, limit: Any) -> int | None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise ValueError(f"cap of {name!r} must be a whole number >= 0 or None, got {limit!r}")
    return limit
