"""A kernel's main loop, for tests that are on the main thread themselves."""

from __future__ import annotations

import queue
from typing import Any


class Loop:
    """A main loop whose calls the test makes."""

    def __init__(self) -> None:
        self.calls: queue.Queue[tuple[Any, ...]] = queue.Queue()

    def add_callback(self, call: Any, *arguments: Any) -> None:
        self.calls.put((call, *arguments))

    def call_later(self, seconds: float, call: Any) -> None:
        assert seconds > 0
        self.calls.put((call,))

    def step(self) -> str:
        call, *arguments = self.calls.get(timeout=60)
        call(*arguments)
        return str(call.__name__)
