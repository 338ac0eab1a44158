"""Continuous batching on one GPU: profile (how long a step takes), core (what is in it), engine (SimPy)."""

from fairq.sim.batching.core import BatchCore, Limits
from fairq.sim.batching.engine import BatchingEngine
from fairq.sim.batching.profile import Profile
from fairq.sim.batching.replay import replay
from fairq.sim.batching.sequence import Sequence

__all__ = ["BatchCore", "BatchingEngine", "Limits", "Profile", "Sequence", "replay"]
