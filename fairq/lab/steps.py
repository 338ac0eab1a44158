"""One decision at a time: a run of a policy that can be stood still, taken forward and taken back.

No widgets here. Step n of a run is the moment before decision n + 1: what waits, who runs where, what the
policy remembers, whom it will choose and why. The last step is the end, when all has been served. Time runs
as in ``fairq.sim``: at one instant first all finishes (in dispatch order), then all arrivals (in the order
given), then decisions, one after the other, while something waits and a slot is free. When the policy holds
everybody back, that too is a decision; it is asked again at the next finish or arrival.

Going back is exact because nothing is undone: a copy from before is led the same way again. It is also asked
to explain each decision again, for a policy may keep its books differently once it has been looked at.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from typing import Any, Protocol

from fairq.request import Number, Request
from fairq.sim import SlotEngine

MOST = 1000
"""The largest number of requests: every decision is explained once when the run is prepared."""

EVERY = 16
"""After so many decisions a copy is kept to start from."""

NAMED = 6
"""So many of those whose visits are passed are named."""

MEASURES = ("deficit", "counter", "start")
"""What an account may be drawn by, see :meth:`fairq.Policy.snapshot`."""


class Explaining(Protocol):
    """The verbs of a policy that are used here."""

    needs_now: bool

    @property
    def used(self) -> bool: ...
    def put(self, request: Request) -> None: ...
    def get(self, eligible: None = None, now: Number | None = None) -> Request | None: ...
    def peek(self, eligible: None = None, now: Number | None = None) -> Request | None: ...
    def done(self, request: Request, cost: Number | None = None) -> None: ...
    def snapshot(self, now: Number | None = None) -> dict[str, Any]: ...


Source = Explaining | Callable[[], Explaining]
"""An unused policy, or a function without arguments that makes one."""


class Steps:
    """All decisions of one run, any of which can be looked at in any order.

    Parameters
    ----------
    policy : an unused policy (it is copied, and stays unused), or a function that makes a fresh one.
    requests : at most ``MOST``, each with an ``arrival`` (seconds) and a ``service`` (seconds in a slot), or
        with its tokens, from which ``SlotEngine`` derives the service.
    slots : how many may run at once.

    ``len(steps)`` is the number of decisions, ``steps.log`` has them all, ``steps.state(n)`` is step n
    (0 … len), plain data. ``steps.scales``: measure → (least, largest) value in all accounts, for an axis
    that stands still; ``steps.limits``: the longest ``limits`` of any step.

    Raises
    ------
    TypeError, ValueError : what was given cannot be used; the message names it. RuntimeError : a policy
        that decides otherwise when it is led the same way again.
    """

    def __init__(self, policy: Source, requests: Iterable[Request], *, slots: int = 1) -> None:
        engine = SlotEngine(slots)
        self.slots = slots
        self.requests = _in_order(requests, engine)
        self._service = {request: engine.service_s(request) for request in self.requests}
        self._typical = sum(map(float, self._service.values())) / (len(self._service) or 1)
        self._largest = max((request.cost for request in self.requests), default=0)
        self._names = _names(self.requests)
        self.tenants = list(dict.fromkeys(request.tenant for request in self.requests))
        self.scales: dict[str, tuple[Number, Number]] = {}
        self.log: list[dict[str, Any]] = []
        self._chosen: list[Request | None] = []
        self.limits: list[str] = []
        self._walk = _Walk(_fresh(policy), self.requests, self._service, slots)
        self._copies: list[_Walk] = []
        while self._walk.deciding:
            if self._walk.decisions % EVERY == 0:
                self._copies.append(copy.deepcopy(self._walk))
            view = self._walk.snapshot()
            self._widen(view)
            self._record(view)
        self._widen(self._walk.snapshot())

    def __len__(self) -> int:
        return len(self.log)

    def state(self, n: int) -> dict[str, Any]:
        """Step n: the moment before decision n + 1, or the end (n = len).

        ``step, steps, time`` (s), ``policy``; ``lines``: every tenant's waiting requests in order of arrival,
        each a dict of ``id, name, short, key, cost, arrival, priority, next`` (true for the one that goes);
        ``slots``: per slot ``None`` or ``tenant, id, name, short, cost, start, finish``; ``accounts``: as in
        the policy's snapshot; ``limits``: caps, floors and branches in words; ``next``: the decision that
        will be taken, as it will stand in the log, ``None`` at the end; ``visit``: whose turn it is and, in
        a round, which; ``passed``: whose visits are passed on the way there because they cannot pay yet, in
        words, or ``""``; ``why``: a sentence; ``log``: the decisions so far, each a dict of ``step, time,
        tenant, id, name, short, cost, slot, finish, passed, why`` (tenant to finish ``None`` where all were
        held back); ``to_come``: how many have not arrived; ``finished``; ``end``: when the last one ends;
        ``typical``: the mean service (s).

        Raises
        ------
        IndexError : no such step.
        """
        if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= len(self):
            raise IndexError(f"step must be a whole number from 0 to {len(self)}, got {n!r}")
        walk = self._at(n)
        chosen = walk.peek() if walk.deciding else None
        view = walk.snapshot()
        lines: dict[str, list[dict[str, Any]]] = {tenant: [] for tenant in self.tenants}
        for request in walk.waiting:
            lines[request.tenant].append(self._plain(request, request is chosen))
        slots: list[dict[str, Any] | None] = [None] * self.slots
        for finish, decision, request, slot in walk.ends:
            entry = self.log[decision]
            slots[slot] = {
                "tenant": request.tenant,
                "id": request.id,
                **self._name(request),
                "cost": request.cost,
                "start": entry["time"],
                "finish": finish,
            }
        following = dict(self.log[n]) if n < len(self) else None
        return {
            "step": n,
            "steps": len(self),
            "time": walk.time,
            "policy": view["policy"],
            "lines": lines,
            "slots": slots,
            "accounts": view["accounts"],
            "limits": limits(view),
            "next": following,
            "visit": _visit(following, view["accounts"]),
            "passed": "" if following is None else following["passed"],
            "why": view["why"],
            "log": [dict(entry) for entry in self.log[:n]],
            "to_come": walk.to_come,
            "finished": n == len(self),
            "end": max((e["finish"] for e in self.log if e["finish"] is not None), default=walk.time),
            "typical": self._typical,
        }

    # -- leading a policy -----------------------------------------------------------------------

    def _at(self, n: int) -> _Walk:
        nearest = min(n, len(self) - 1) // EVERY
        if self._walk.decisions > n or self._walk.decisions < nearest * EVERY:
            self._walk = copy.deepcopy(self._copies[nearest])
        while self._walk.decisions < n:
            self._walk.snapshot()
            expected = self._chosen[self._walk.decisions]
            request = self._walk.choose()
            self._walk.start(request)
            if request is not expected:
                made = self._walk.decisions
                self._walk = copy.deepcopy(self._copies[0])
                raise RuntimeError(
                    f"decision {made} is not the same the second time, "
                    f"first {expected!r}, then {request!r}; a policy must not draw at random"
                )
        return self._walk

    def _record(self, view: Mapping[str, Any]) -> None:
        walk = self._walk
        time = walk.time
        request = walk.choose()
        after = walk.snapshot()["accounts"]  # as the decision alone leaves them
        slot = walk.start(request)
        self._chosen.append(request)
        self.log.append(
            {
                "step": len(self.log) + 1,
                "time": time,
                "tenant": None if request is None else request.tenant,
                "id": None if request is None else request.id,
                "name": None if request is None else self._names[request][0],
                "short": None if request is None else self._names[request][1],
                "cost": None if request is None else request.cost,
                "slot": slot,
                "finish": None if request is None else time + self._service[request],
                "passed": "" if request is None else passed(view["accounts"], after, request.tenant),
                "why": view["why"],
            }
        )

    # -- plain data -----------------------------------------------------------------------------

    def _name(self, request: Request) -> dict[str, str]:
        name, short = self._names[request]
        return {"name": name, "short": short}

    def _plain(self, request: Request, chosen: bool) -> dict[str, Any]:
        return {
            "id": request.id,
            **self._name(request),
            "key": request.key,
            "cost": request.cost,
            "arrival": request.arrival,
            "priority": request.priority,
            "next": chosen,
        }

    def _widen(self, view: Mapping[str, Any]) -> None:
        for account in view["accounts"].values():
            for measure in MEASURES:
                if measure in account:
                    value = account[measure]
                    # Credit is seen against the largest cost, and what a visit may add on top.
                    most = self._largest + account.get("gain", 0) if measure == "deficit" else value
                    low, high = self.scales.get(measure, (0, 0))
                    self.scales[measure] = (min(low, value), max(high, value, most))
        self.limits = max(self.limits, limits(view), key=lambda sentences: sum(map(len, sentences)))


class _Walk:
    """A policy led along the clock, from decision to decision."""

    def __init__(
        self,
        policy: Explaining,
        requests: list[Request],
        service: Mapping[Request, Number],
        slots: int,
    ) -> None:
        self.policy = policy
        self.time: Number = min(0, requests[0].arrival) if requests else 0  # type: ignore[type-var]
        self.waiting: dict[Request, None] = {}
        self.ends: list[tuple[Number, int, Request, int]] = []
        self.decisions = 0
        self._requests = requests
        self._service = service
        self._idle = list(range(slots))
        self._came = 0
        self._held = False
        self._arrive()
        self._go_on()

    @property
    def deciding(self) -> bool:
        """True while the policy is to be asked now; false at the end."""
        return bool(self.waiting and self._idle and not self._held)

    @property
    def to_come(self) -> int:
        return len(self._requests) - self._came

    @property
    def _now(self) -> Number | None:
        return self.time if self.policy.needs_now else None

    def snapshot(self) -> dict[str, Any]:
        return self.policy.snapshot(now=self._now)

    def peek(self) -> Request | None:
        return self.policy.peek(now=self._now)

    def choose(self) -> Request | None:
        """Ask the policy."""
        return self.policy.get(now=self._now)

    def start(self, request: Request | None) -> int | None:
        """Start what it chose, and go on to the next decision. Returns the slot, if any."""
        slot = None
        if request is None:
            self._held = True
        else:
            del self.waiting[request]
            slot = heappop(self._idle)
            heappush(self.ends, (self.time + self._service[request], self.decisions, request, slot))
        self.decisions += 1
        self._go_on()
        return slot

    def _go_on(self) -> None:
        while not self.deciding:
            moments = [self.ends[0][0]] if self.ends else []
            if self.to_come:
                moments.append(self._requests[self._came].arrival)
            if not moments:
                return
            self.time = min(moments)
            self._held = False
            while self.ends and self.ends[0][0] <= self.time:
                _, _, request, slot = heappop(self.ends)
                prompt, output = request.prompt_tokens, request.output_tokens
                self.policy.done(request, None if prompt is None or output is None else prompt + output)
                heappush(self._idle, slot)
            self._arrive()

    def _arrive(self) -> None:
        while self.to_come and self._requests[self._came].arrival <= self.time:
            request = self._requests[self._came]
            self.policy.put(request)
            self.waiting[request] = None
            self._came += 1


def limits(view: Mapping[str, Any]) -> list[str]:
    """The caps, floors and branches of a policy's snapshot, each kind in one sentence."""
    words = []
    caps, where = view.get("caps"), "Caps"
    while caps:
        held = [_cap(name, cap) for name, cap in caps["keys"].items() if cap["limit"] is not None]
        held += [
            _cap(f"group {name}", cap) for name, cap in caps["groups"].items() if cap["limit"] is not None
        ]
        if held:
            words.append(f"{where}: {', '.join(held)}.")
        caps, where = caps.get("inside"), "Caps inside"
    floors = view.get("floors") or {}
    if floors:
        kept = [f"{name} runs {f['running']}, {f['kept']} kept free" for name, f in floors.items()]
        words.append(f"Floors: {'; '.join(kept)}.")
    branches = view.get("branches") or {}
    if branches:
        said = [f"{n} {_short(b['counter'])} (weight {_short(b['weight'])})" for n, b in branches.items()]
        words.append(f"Charged per weight: {', '.join(said)}.")
    for name, inner in (view.get("inside") or {}).items():
        words += [f"In {name}: {sentence}" for sentence in limits(inner)]
    return words


def passed(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]], tenant: str
) -> str:
    """Whose visits a decision for ``tenant`` passes, with the credit they bring, in words; or ``""``."""
    own = {tenant} if tenant in before else {name for name in before if name.startswith(f"{tenant} in ")}
    gained = {}
    for name, account in before.items():
        if "gain" in account and name in after and name not in own:
            was, now = account["deficit"], after[name]["deficit"]
            if now > was:
                gained[name] = was, now
    if not gained:
        return ""
    shown = [f"{n} {_short(a)} + {_short(b - a)} = {_short(b)}" for n, (a, b) in list(gained.items())[:NAMED]]
    if len(gained) > NAMED:
        shown.append(f"and {len(gained) - NAMED} more")
    return f"Visited on the way, and short of credit still: {', '.join(shown)}."


def accounts_of(accounts: Mapping[str, Mapping[str, Any]], tenant: str) -> dict[str, Mapping[str, Any]]:
    """A tenant's accounts by where they are: ``""`` for its only one, "level 0" and so on for several."""
    if tenant in accounts:
        return {"": accounts[tenant]}
    start = f"{tenant} in "
    return {name[len(start) :]: account for name, account in accounts.items() if name.startswith(start)}


def _cap(name: str, cap: Mapping[str, Any]) -> str:
    return f"{name} {cap['running']} of {cap['limit']}"


def _short(value: Number) -> str:
    return f"{float(value):g}"


def _visit(following: Mapping[str, Any] | None, accounts: Mapping[str, Any]) -> dict[str, Any] | None:
    if following is None or following["tenant"] is None:
        return None
    tenant = following["tenant"]
    found = [account for account in accounts_of(accounts, tenant).values() if "due" in account]
    if len(found) != 1:
        return {"tenant": tenant, "round": None}
    account = found[0]
    goes_on = account["open"] and account["deficit"] >= following["cost"]
    return {"tenant": tenant, "round": account["round"] if goes_on else account["due"]}


def _fresh(policy: Source) -> Explaining:
    """A policy of our own: what the function makes, or a copy of the one given."""
    made: Any = policy
    given = hasattr(policy, "put") and not isinstance(policy, type)
    if not given:
        if not callable(policy):
            raise TypeError(f"policy must be an unused policy or a function that makes one, got {policy!r}")
        made = policy()
    if not hasattr(made, "snapshot") or not hasattr(made, "used"):
        raise TypeError(f"a step-through needs a policy, got {made!r}")
    if made.used:
        raise ValueError(f"a step-through needs an unused policy, got a used one: {made!r}")
    return copy.deepcopy(made)  # type: ignore[no-any-return]


def _in_order(requests: Iterable[Request], engine: SlotEngine) -> list[Request]:
    """By arrival; the order given settles ties."""
    given = list(requests)
    if len(given) > MOST:
        raise ValueError(f"a step-through takes at most {MOST} requests, got {len(given)}")
    arrivals: dict[Request, Number] = {}
    for request in given:
        if not isinstance(request, Request):
            raise TypeError(f"a step-through needs Requests, got {request!r}")
        if request.arrival is None:
            raise ValueError(f"a step-through needs an arrival (seconds), got None in {request!r}")
        if request in arrivals:
            raise ValueError(f"request was given twice: {request!r}")
        engine.check(request)
        arrivals[request] = request.arrival
    return sorted(given, key=arrivals.__getitem__)


def _names(requests: Iterable[Request]) -> dict[Request, tuple[str, str]]:
    """What each is called, in words and in a box of its tenant's line: its id, or else its number."""
    counts: dict[str, int] = {}
    names = {}
    for request in requests:
        tenant = request.tenant
        counts[tenant] = number = counts.get(tenant, 0) + 1
        said = str(request.id)
        names[request] = (f"{tenant} {number}", f"#{number}") if request.id is None else (said, said)
    return names
