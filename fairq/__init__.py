"""fairq: who goes next on a shared GPU. This module loads the standard library alone."""

from fairq.policies.base import Policy
from fairq.policies.caps import KeyCaps
from fairq.policies.drr import DRR
from fairq.policies.fifo import FIFO
from fairq.policies.priority import Priority
from fairq.request import Request

__all__ = ["DRR", "FIFO", "KeyCaps", "Policy", "Priority", "Request"]
