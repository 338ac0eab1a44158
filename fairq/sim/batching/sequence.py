"""One request inside the engine, and the engine's own queue of those that wait."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any, Protocol


class Sequence:
    """Prompt, output, and how far it is. Times in seconds, sizes in tokens.

    A sequence that decodes advances by one token per step like all others, so its progress is not stored: it
    is ``tokens`` at the step counted ``since``, plus the steps since then.
    """

    __slots__ = (
        "computed",
        "decoding",
        "finish",
        "first",
        "made",
        "order",
        "output",
        "preemptions",
        "priority",
        "prompt",
        "scheduled",
        "since",
        "tag",
    )

    def __init__(
        self, prompt: int, output: int, *, priority: Any = 0, order: int = 0, tag: Any = None
    ) -> None:
        self.prompt = prompt
        self.output = output
        self.priority = priority
        self.order = order
        self.tag = tag
        self.made = 0
        self.computed = 0
        self.since = 0
        self.decoding = False
        self.preemptions = 0
        self.scheduled: float | None = None
        self.first: float | None = None
        self.finish: float | None = None

    @property
    def rank(self) -> tuple[Any, int]:
        """Lower goes first, higher is preempted first, where the engine ranks by priority."""
        return (self.priority, self.order)


class Waiting(Protocol):
    """The engine's own queue."""

    def push(self, sequence: Sequence) -> None: ...
    def push_back(self, sequence: Sequence) -> None: ...
    def head(self) -> Sequence: ...
    def pop(self) -> Sequence: ...
    def __len__(self) -> int: ...


class FcfsWaiting:
    """First come, first served; a preempted sequence returns to the front."""

    def __init__(self) -> None:
        self._line: deque[Sequence] = deque()

    def push(self, sequence: Sequence) -> None:
        self._line.append(sequence)

    def push_back(self, sequence: Sequence) -> None:
        self._line.appendleft(sequence)

    def head(self) -> Sequence:
        return self._line[0]

    def pop(self) -> Sequence:
        return self._line.popleft()

    def __len__(self) -> int:
        return len(self._line)


class PriorityWaiting:
    """Lowest priority number first, then who came first; a preempted sequence keeps its place."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Sequence]] = []

    def push(self, sequence: Sequence) -> None:
        heapq.heappush(self._heap, (*sequence.rank, sequence))

    push_back = push

    def head(self) -> Sequence:
        return self._heap[0][2]

    def pop(self) -> Sequence:
        return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)
