"""Which setting keeps a promise, who pays for it, and how to type it."""

from fairq.tune.decide import Capacity, Tuning, tune
from fairq.tune.settings import FAMILIES, Setting, settings
from fairq.tune.target import Target, parse_targets

__all__ = ["FAMILIES", "Capacity", "Setting", "Target", "Tuning", "parse_targets", "settings", "tune"]
