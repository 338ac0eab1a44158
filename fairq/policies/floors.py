"""Floors: slots kept free for a group, so that it never waits for another's work to end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairq.policies.base import Policy, check_mapping, check_name
from fairq.policies.lines import Gate, Hold
from fairq.policies.wrapper import Wrapper, group_of_keys
from fairq.request import Number, Request


class _Floor:
    """How many slots a group is promised, and how many of its requests run."""

    __slots__ = ("running", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.running = 0

    @property
    def kept(self) -> int:
        """Slots that must stay free for it."""
        return max(0, self.slots - self.running)


class _Kept:
    """The hold of all keys that are in the same groups: closed while every free slot is kept for others."""

    __slots__ = ("_floors", "_others")

    def __init__(self, floors: Floors, others: tuple[_Floor, ...]) -> None:
        self._floors = floors
        self._others = others

    @property
    def closed(self) -> bool:
        return self._floors.free <= sum(floor.kept for floor in self._others)


class _FloorGate:
    """The floors as a gate, with the gate handed in from outside behind them."""

    __slots__ = ("_floors", "_outer")

    def __init__(self, floors: Floors, outer: Gate | None) -> None:
        self._floors = floors
        self._outer = outer

    def __call__(self, key: str) -> bool:
        return self.blocker(key) is None

    def blocker(self, key: str) -> Hold | None:
        hold = self._floors._hold_of(key)
        if hold.closed:
            return hold
        return None if self._outer is None else self._outer.blocker(key)


class Floors(Wrapper):
    """Keeps slots free for groups of keys, around any policy.

    Parameters
    ----------
    inner : the policy that orders what may run.
    floors : group → (keys, n): as long as fewer than n requests of these keys run, the slots that n lacks
        are left free for them. The group may use more: a floor is no cap.
    slots : how many slots there are in all, a whole number >= 1.

    A request may start when, without the slots kept for groups that it is not in, one is free. So a group
    that comes back finds up to n slots at once, where the other policies make it wait for running work to
    end. The price: those slots idle while the group is away, n of ``slots``, whatever waits. Where a wait of
    one service time is no harm, weights or ``SoftCaps`` cost nothing.

    Put it around the whole queue: it counts what it handed out. Raises ``ValueError`` for bad numbers, or
    floors that promise more than there is; ``TypeError`` for keys given as one string and
    for what is no mapping.
    """

    def __init__(self, inner: Policy, floors: Mapping[str, tuple[Iterable[str], int]], slots: int) -> None:
        self.slots = _whole("slots", slots, 1)
        self._floors: dict[str, _Floor] = {}
        self._groups_of: dict[str, tuple[str, ...]] = {}
        for name, pair in check_mapping("floors", floors).items():
            keys, n = group_of_keys(f"floor {name!r}", name, pair)
            self._floors[name] = _Floor(_whole(f"floor of {name!r}", n, 0))
            for key in keys:
                self._groups_of[key] = (*self._groups_of.get(key, ()), name)
        promised = sum(floor.slots for floor in self._floors.values())
        if promised > self.slots:
            raise ValueError(f"floors promise {promised} slots, but there are slots={self.slots}")
        self._holds: dict[tuple[str, ...], _Kept] = {}
        self._busy = 0  # as the floors count: what is being handed out does not run yet
        super().__init__(inner)  # last: what is refused leaves the inner policy as it was
        inner._stand_under(lambda key: (self._hold_of(key),))

    @property
    def free(self) -> int:
        """Slots in which nothing runs."""
        return self.slots - self._busy

    def set_floor(self, name: str, slots: int) -> None:
        """Change a group's floor; what runs is left to end by itself."""
        if check_name("the group of a floor", name) not in self._floors:
            raise ValueError(f"no floor for {name!r}; there are {sorted(self._floors)}")
        _whole(f"floor of {name!r}", slots, 0)
        promised = sum(f.slots for n, f in self._floors.items() if n != name) + slots
        if promised > self.slots:
            raise ValueError(f"floors promise {promised} slots, but there are slots={self.slots}")
        self._floors[name].slots = slots

    def set_cap(self, key: str, limit: int | None) -> None:
        self.inner.set_cap(key, limit)

    def _hold_of(self, key: str) -> _Kept:
        groups = self._groups_of.get(key, ())
        hold = self._holds.get(groups)
        if hold is None:
            others = tuple(floor for name, floor in self._floors.items() if name not in groups)
            hold = self._holds[groups] = _Kept(self, others)
        return hold

    def _gate(self, outer: Gate | None) -> Gate:
        return _FloorGate(self, outer)

    def _started(self, request: Request) -> None:
        self._busy += 1
        for name in self._groups_of.get(request.key, ()):
            self._floors[name].running += 1

    def _ended(self, request: Request) -> None:
        self._busy -= 1
        for name in self._groups_of.get(request.key, ()):
            self._floors[name].running -= 1

    def snapshot(self, now: Number | None = None) -> dict[str, Any]:
        """As every policy's, with ``floors``: per group the ``slots`` promised, how many of its requests
        are ``running`` and how many slots are ``kept`` free for it.
        """
        view = super().snapshot(now)
        inside = self.inner.snapshot()  # for its name and caps
        view["policy"] = f"{inside['policy']} over floors"
        view["caps"] = inside.get("caps")
        view["floors"] = {
            name: {"slots": f.slots, "running": f.running, "kept": f.kept} for name, f in self._floors.items()
        }
        if any(self._hold_of(request.key).closed for request in self._waiting):
            names = ", ".join(name for name, floor in self._floors.items() if floor.kept)
            view["why"] += f" The free slots are kept for: {names}." if self.free else ""
        return view


def _whole(field: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{field} must be a whole number >= {least}, got {value!r}")
    return value
