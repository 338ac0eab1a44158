"""fairq: who goes next on a shared GPU. This module loads the standard library alone."""

from fairq.request import Request

__all__ = ["Request"]
