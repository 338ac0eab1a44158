"""What serves: a policy in front of an engine on SimPy's clock; rows come out."""

from fairq.result import Result
from fairq.sim.batching import BatchingEngine, Profile
from fairq.sim.clients import Clients
from fairq.sim.clock import Clock
from fairq.sim.engine import Engine, Job
from fairq.sim.run import replicate, simulate
from fairq.sim.slots import SlotEngine

__all__ = [
    "BatchingEngine",
    "Clients",
    "Clock",
    "Engine",
    "Job",
    "Profile",
    "Result",
    "SlotEngine",
    "replicate",
    "simulate",
]
