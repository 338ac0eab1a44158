"""Which replica? Engines behind one queue, each with a prefix cache; routers; failure and recovery."""

from fairq.sim.replicas.fleet import Fleet, Outage
from fairq.sim.replicas.prefix import PrefixCache
from fairq.sim.replicas.routers import (
    LABELS,
    ROUTERS,
    LeastBusy,
    LongestPrefix,
    RoundRobin,
    Router,
    SessionAffinity,
    make_router,
    rendezvous,
)

__all__ = [
    "LABELS",
    "ROUTERS",
    "Fleet",
    "LeastBusy",
    "LongestPrefix",
    "Outage",
    "PrefixCache",
    "RoundRobin",
    "Router",
    "SessionAffinity",
    "make_router",
    "rendezvous",
]
