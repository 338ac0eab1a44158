"""Who asks: tenants, their arrivals and sizes, and logs of real ones (``fairq.workload.trace``)."""

from fairq.workload.arrivals import Arrivals, ClosedLoop, Dump, Gamma, OnOff, Poisson, Times
from fairq.workload.seeds import PURPOSES, hash32, stream
from fairq.workload.sizes import Distribution, Empirical, Estimate, Exponential, Fixed, Lognormal
from fairq.workload.tenants import ClosedLoopSource, Draw, Tenant, Workload

__all__ = [
    "PURPOSES",
    "Arrivals",
    "ClosedLoop",
    "ClosedLoopSource",
    "Distribution",
    "Draw",
    "Dump",
    "Empirical",
    "Estimate",
    "Exponential",
    "Fixed",
    "Gamma",
    "Lognormal",
    "OnOff",
    "Poisson",
    "Tenant",
    "Times",
    "Workload",
    "hash32",
    "stream",
]
