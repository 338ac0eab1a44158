"""The virtual token counter.

Sheng, Cao, Li, Zhu, Li, Zhuo, Gonzalez & Stoica, "Fairness in serving large language models", OSDI 2024,
algorithm 2 (counters and lift), section 4.1 (bounds) and 4.3 (weights).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from fairq.policies.counters import Account, Counting
from fairq.policies.lines import Pool
from fairq.request import Number


class Counted(Protocol):
    """Whoever has a counter."""

    counter: Any


C = TypeVar("C", bound=Counted)


class Lift(Generic[C]):
    """The lift: who comes back starts level with those who wait, so that an idle time earns nothing."""

    _pool: Pool
    _last: C | None
    """The one whose line emptied last."""

    def _level(self) -> Number:
        least = self._pool.least()
        if least is not None:
            return least[0]
        return 0 if self._last is None else self._last.counter

    def _lift(self, state: C) -> None:
        state.counter = max(state.counter, self._level())


class VTC(Lift[Account], Counting):
    """Shares in proportion to weights, by what each tenant was charged; exact for any cost.

    Parameters
    ----------
    weights : tenant → weight, finite and > 0; default 1.

    The estimate is charged at ``get``; ``charge`` and ``done`` true it up both ways, at once. A tenant whose
    line was empty is lifted to the least counter among the waiting tenants, or, when none waits, to that of
    the tenant whose line emptied last. It is never lowered: a debt stays.

    Bounds, for two tenants with waiting work throughout an interval, on any number of slots: the costs D
    charged at ``get`` differ by ``|Dᵢ/wᵢ − Dⱼ/wⱼ| ≤ Lᵢ/wᵢ + Lⱼ/wⱼ``, L the largest cost; it holds for true
    costs too once they are settled, with what is still running added. Charged token by token in a
    continuous batch (input tokens at ``get`` at a price w_p, output as they come at w_q) the weighted
    service differs by at most ``2·max(w_p·L_in, w_q·M)``, M the most tokens a batch holds (theorem 4.4;
    where input is dearer than output, w_p > w_q, that is too small and ``2·(w_p·L_in + w_q·(M − L_in))``
    holds). Charged only at the end there is no bound but the number of slots.

    Under caps a tenant that is held back falls behind the others for as long as its cap binds: that memory
    is what keeps the weights among all who share a cap exact.
    """

    def __init__(self, weights: Mapping[str, Number] | None = None) -> None:
        super().__init__(weights)
        self._last = None

    def _join(self, state: Account) -> None:
        self._lift(state)

    def _emptied(self, state: Account) -> None:
        self._last = state
