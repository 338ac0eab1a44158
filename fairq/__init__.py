"""fairq: who goes next on a shared GPU. This module loads the standard library alone."""

from fairq.policies.accumulating import AccumulatingPriority
from fairq.policies.base import Policy
from fairq.policies.caps import KeyCaps
from fairq.policies.drr import DRR
from fairq.policies.fifo import FIFO
from fairq.policies.floors import Floors
from fairq.policies.levels import Levels
from fairq.policies.nested import Nested
from fairq.policies.priority import Priority
from fairq.policies.sfq import SFQ
from fairq.policies.shortest import Shortest
from fairq.policies.soft_caps import SoftCaps
from fairq.policies.vtc import VTC
from fairq.request import Request

__all__ = [
    "DRR",
    "FIFO",
    "SFQ",
    "VTC",
    "AccumulatingPriority",
    "Floors",
    "KeyCaps",
    "Levels",
    "Nested",
    "Policy",
    "Priority",
    "Request",
    "Shortest",
    "SoftCaps",
]
