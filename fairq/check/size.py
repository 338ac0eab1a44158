"""How much work a notebook does: all of it for a reader, little of it for a quick test."""

from __future__ import annotations

import os


def size(full: int, *, fast: int) -> int:
    """``full``, or ``fast`` where the environment says ``FAIRQ_FAST=1``."""
    return fast if os.environ.get("FAIRQ_FAST") == "1" else full
