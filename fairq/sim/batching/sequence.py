"""One request inside the engine, and the engine's own queue of those that wait."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from fairq.policies.base import Policy
from fairq.request import Request


class Sequence:
    """Prompt, output, and how far it is. Times in seconds, sizes in tokens.

    ``cached``: leading tokens of its prompt that a prefix cache gives it: they take room and are not
    computed.

    A sequence that decodes advances by one token per step like all others, so its progress is not stored: it
    is ``tokens`` at the step counted ``since``, plus the steps since then.
    """

    __slots__ = (
        "cached",
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
        self,
        prompt: int,
        output: int,
        *,
        priority: Any = 0,
        order: int = 0,
        tag: Any = None,
        cached: int = 0,
    ) -> None:
        self.prompt = prompt
        self.output = output
        self.priority = priority
        self.order = order
        self.tag = tag
        self.cached = cached
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

    def push(self, sequence: Sequence) -> None:
        """A new one waits."""

    def push_back(self, sequence: Sequence) -> None:
        """A preempted one waits again."""

    def head(self, now: float) -> Sequence | None:
        """Who goes next (seconds); ``None`` when nobody that waits may."""

    def pop(self, now: float) -> None:
        """The head leaves."""

    def __len__(self) -> int: ...


class FcfsWaiting:
    """First come, first served; a preempted sequence returns to the front."""

    def __init__(self) -> None:
        self._line: deque[Sequence] = deque()

    def push(self, sequence: Sequence) -> None:
        self._line.append(sequence)

    def push_back(self, sequence: Sequence) -> None:
        self._line.appendleft(sequence)

    def head(self, now: float) -> Sequence | None:
        return self._line[0] if self._line else None

    def pop(self, now: float) -> None:
        self._line.popleft()

    def __len__(self) -> int:
        return len(self._line)


class PriorityWaiting:
    """Lowest priority number first, then who came first; a preempted sequence keeps its place."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Sequence]] = []

    def push(self, sequence: Sequence) -> None:
        heapq.heappush(self._heap, (*sequence.rank, sequence))

    push_back = push

    def head(self, now: float) -> Sequence | None:
        return self._heap[0][2] if self._heap else None

    def pop(self, now: float) -> None:
        heapq.heappop(self._heap)

    def __len__(self) -> int:
        return len(self._heap)


class PolicyWaiting:
    """Any policy as the engine's own queue, as a scheduler built into the engine would have it.

    A preempted sequence returns to the front: the policy chose it already. ``request`` gives a sequence's
    request.
    """

    def __init__(self, policy: Policy, request: Callable[[Sequence], Request]) -> None:
        self._policy = policy
        self._request = request
        self._preempted: deque[Sequence] = deque()
        self._sequences: dict[Request, Sequence] = {}

    def push(self, sequence: Sequence) -> None:
        request = self._request(sequence)
        self._policy.put(request)
        self._sequences[request] = sequence

    def push_back(self, sequence: Sequence) -> None:
        self._preempted.appendleft(sequence)

    def head(self, now: float) -> Sequence | None:
        if self._preempted:
            return self._preempted[0]
        request = self._policy.peek(now=now)
        return None if request is None else self._sequences[request]

    def pop(self, now: float) -> None:
        if self._preempted:
            self._preempted.popleft()
            return
        request = self._policy.get(now=now)
        assert request is not None  # there was a head
        del self._sequences[request]

    def __len__(self) -> int:
        return len(self._preempted) + len(self._policy)
