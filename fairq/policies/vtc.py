"""The virtual token counter.

Sheng, Cao, Li, Zhu, Li, Zhuo, Gonzalez & Stoica, "Fairness in serving large language models", OSDI 2024,
algorithm 2 (counters and lift), section 4.1 (bounds) and 4.3 (weights).
"""

from __future__ import annotations

from fairq.policies.counters import Counting
from fairq.request import Number


class VTC(Counting):
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

    Under caps the weights hold among all whose caps do not bind, and among those who share a group cap. A
    tenant that its caps held back may catch up with a few requests, not with what the cap denied it.
    """

    def _level(self) -> Number:
        return self._lift.level(self._pool)
