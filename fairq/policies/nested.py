"""Shares of shares: an organisation has its share, its users share that, and each user has keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from fairq.policies.base import Policy, check_mapping, check_name, check_number, check_weights, show
from fairq.policies.composite import Composite
from fairq.policies.counters import Units
from fairq.policies.lift import Lift
from fairq.policies.lines import REFUSED, Gate, Hold, Member, Pool
from fairq.request import Number, Request


class _Open:
    """Lets everything through. A branch may be held back all the same, by caps of its own."""

    def __call__(self, key: str) -> bool:
        return True

    def blocker(self, key: str) -> Hold | None:
        return None


OPEN = _Open()


class _Branch(Member):
    """A branch as a member of the pool: its rank is that of the request its policy would send next."""

    __slots__ = ("_nested", "abreast", "counter", "inner", "keys", "lags", "name", "waiting")

    def __init__(self, name: str, inner: Policy, nested: Nested) -> None:
        super().__init__()
        self.name = name
        self.inner = inner
        self.counter: Number = 0  # in the policy's units
        self.waiting = 0
        self.abreast = self.lags = False  # where it stands: see lift.py
        self.keys: dict[str, int] = {}  # of its waiting requests, how many each; kept under group caps only
        self.exact = False
        self._nested = nested

    def rank(self, gate: Gate | None) -> Any:
        head = self.inner.peek(None if gate is OPEN else gate, self._nested._now)
        return None if head is None else (self.counter, *self._nested._waiting[head][:-1])

    def group_holds(self) -> Iterable[Hold]:
        """The group caps around that its waiting requests stand under."""
        cover = self._nested._cover
        return {hold for key in self.keys for hold in cover(key)}

    def holds(self, gate: Gate) -> Iterable[Hold]:
        return (REFUSED,)  # what holds all of it back is the inner policy's affair: ask anew


class Nested(Composite):
    """Fair shares among branches (organisations), and any policy among the tenants of each.

    Parameters
    ----------
    of : which branch a request belongs to: tenant → branch (a tenant not named is a branch of its own), or
        a function of the request.
    inner : branch → a fresh policy for its requests. It may be ``Nested`` again.
    weights : branch → weight, finite and > 0; default 1.
    needs_now : whether the inner policies order by time.

    Between branches it is VTC: the branch charged least goes, true cost is settled, and a branch that was
    empty is lifted. So for two branches with waiting work throughout, on any number of slots, the costs
    dispatched differ by ``|Dᵢ/wᵢ − Dⱼ/wⱼ| ≤ Lᵢ/wᵢ + Lⱼ/wⱼ``; inside a branch the inner policy's bound
    holds, of the branch's service. A user gains nothing by spreading over keys, nor an organisation by
    spreading over users.

    A branch that its own caps or the caller hold back is asked again at every decision: that costs a step
    for each such branch, where caps around the tenants of one queue cost none.

    ``Nested({"ann": "physics", "bob": "physics"}, lambda org: DRR(500), weights={"physics": 2})``
    """

    def __init__(
        self,
        of: Mapping[str, str] | Callable[[Request], str],
        inner: Callable[[str], Policy],
        weights: Mapping[str, Number] | None = None,
        *,
        needs_now: bool = False,
    ) -> None:
        super().__init__()
        self._of = of if callable(of) else _lookup(dict(check_mapping("of", of)))
        self._make = inner
        self._weights = check_weights(weights)
        self._units = Units(self._weights.values())
        self.needs_now = needs_now
        self._branches: dict[str, _Branch] = {}
        self._branch_of: dict[Policy, _Branch] = {}
        self._tenant_weights: dict[str, Number] = {}
        self._pool = Pool()
        self._lift: Lift[_Branch] = Lift(watching=True)  # an inner policy may hold its branch back unseen
        self._now: Number | None = None

    def weight(self, branch: str) -> Number:
        """A branch's weight."""
        return self._weights.get(branch, 1)

    def set_branch_weight(self, branch: str, weight: Number) -> None:
        """Change a branch's weight from its next turn on."""
        check_name("the branch of a weight", branch)
        self._weights[branch] = check_number(f"weight of {branch!r}", weight, above=True)
        factor = self._units.finer(weight)
        if factor != 1:
            self._lift.rescale(factor, self._branches.values())
            for each in self._branches.values():
                if each.waiting:
                    self._place(each)

    def set_weight(self, tenant: str, weight: Number) -> None:
        """Change a tenant's weight inside its branch, now or when the branch is first met."""
        check_name("the tenant of a weight", tenant)
        check_number(f"weight of {tenant!r}", weight, above=True)
        if self._branches:
            super().set_weight(tenant, weight)
        self._tenant_weights[tenant] = weight

    # -- the books ------------------------------------------------------------------------------

    def _route(self, request: Request) -> Policy:
        name = self._of(request)
        branch = self._branches.get(name)
        if branch is None:
            branch = self._branches[name] = self._open(name)
        return branch.inner

    def _open(self, name: str) -> _Branch:
        inner = self._adopt(self._make(name), f"branch {name!r}")
        if inner.needs_now and not self.needs_now:
            raise ValueError(f"branch {name!r} orders by time: say needs_now=True to Nested")
        branch = _Branch(name, inner, self)
        self._branch_of[inner] = branch
        for tenant, weight in self._tenant_weights.items():
            with suppress(TypeError):  # not every branch needs to have weights
                inner.set_weight(tenant, weight)
        return branch

    def _enter(self, request: Request, arrival: Number, order: int) -> Any:
        entry = super()._enter(request, arrival, order)
        branch = self._branch_of[self._home[request]]
        branch.waiting += 1
        if self._covers:
            branch.keys[request.key] = branch.keys.get(request.key, 0) + 1
        if branch.waiting == 1:
            self._lift.joined(branch, self._level())
        elif branch.lags:
            self._lift.grouped(branch)  # its key may be under another group cap
        self._place(branch)
        return entry

    def _pick(self, gate: Gate | None, now: Number | None) -> Policy | None:
        self._now = now
        branch: _Branch | None = self._pool.best(OPEN if gate is None else gate)
        return None if branch is None else branch.inner

    def _leave(self, request: Request, gate: Gate | None) -> None:
        super()._leave(request, gate)
        branch = self._branch_of[self._home[request]]
        cost = self._units.of(request.cost, self.weight(branch.name))
        self._lift.passing(branch, gate, ())
        if branch.lags:
            self._lift.forgive(branch, cost, self._level(), self._place)
        branch.counter += cost
        self._lift.moved(branch, self._level)
        self._shrink(branch, request)

    def _drop(self, request: Request) -> None:
        branch = self._branch_of[self._home[request]]
        self._home.pop(request).cancel(request)
        super()._leave(request, None)
        self._shrink(branch, request)

    def _true_up(self, request: Request, difference: Number) -> None:
        branch = self._branch_of[self._home[request]]
        branch.counter += self._units.of(difference, self.weight(branch.name))
        if branch.waiting:
            self._lift.moved(branch, self._level)
            self._place(branch)

    def _shrink(self, branch: _Branch, request: Request) -> None:
        branch.waiting -= 1
        if self._covers:
            branch.keys[request.key] -= 1
            if not branch.keys[request.key]:
                del branch.keys[request.key]
        if branch.waiting:
            self._place(branch)
        else:
            self._pool.remove(branch)
            self._lift.emptied(branch)

    def _level(self) -> Number:
        return self._lift.level(self._pool)

    def _place(self, branch: _Branch) -> None:
        # No later than its next request, whichever that is.
        self._pool.place(branch, (branch.counter, float("-inf"), -1))

    def _inners(self) -> Iterator[tuple[str, Policy]]:
        return ((branch.name, branch.inner) for branch in self._branches.values())

    # -- explaining -----------------------------------------------------------------------------

    def _why(self, request: Request, now: Number | None) -> str:
        branch = self._branch_of[self._home[request]]
        inside = branch.inner._why(request, now)
        return (
            f"{branch.name} has been charged least among the branches with work that may run: "
            f"{show(self._units.tokens(branch.counter))} tokens per weight. In it: {inside}"
        )

    def snapshot(self, now: Number | None = None) -> dict[str, Any]:
        """As every policy's, with ``branches``: each one's ``weight``, ``counter`` (tokens per weight) and
        how many wait; ``inside``: the snapshot of each.
        """
        view = super().snapshot(now)
        view["branches"] = {
            b.name: {
                "weight": self.weight(b.name),
                "counter": self._units.tokens(b.counter),
                "waiting": b.waiting,
            }
            for b in self._branches.values()
        }
        return view


def _lookup(of: Mapping[str, str]) -> Callable[[Request], str]:
    return lambda request: of.get(request.tenant, request.tenant)
