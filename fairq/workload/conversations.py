"""Conversations of several turns: every prompt holds all that was said before.

A user asks, reads the answer, thinks, and asks again; after some turns a new conversation begins. The prompt
of a turn is the history (what the conversation began with, and every message and answer since) and the new
message. An engine that still has the history in its prefix cache computes the message alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from fairq.request import Request
from fairq.workload.arrivals import ClosedLoop
from fairq.workload.check import whole
from fairq.workload.seeds import stream
from fairq.workload.sizes import Distribution, Fixed, tokens
from fairq.workload.tenants import ClosedLoopSource, Draw, Tenant


class Conversation(str):
    """A conversation's name, which also knows what it begins with: ``shared_tokens`` of ``shared``, a system
    prompt that others begin with too.
    """

    __slots__ = ("shared", "shared_tokens")

    shared: str | None
    shared_tokens: int

    def __new__(cls, name: str, shared: str | None = None, shared_tokens: int = 0) -> Conversation:
        self = super().__new__(cls, name)
        self.shared = shared
        self.shared_tokens = shared_tokens
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:  # for copies and other processes
        return str(self), self.shared, self.shared_tokens


@dataclass(frozen=True, init=False)
class Conversations(ClosedLoop):
    """``workers`` users, each in one conversation at a time. A tenant's ``prompt_tokens`` are those of a new
    message, its ``output_tokens`` those of an answer.

    Parameters
    ----------
    workers : users. think_s : seconds between an answer and the next message (also of a new conversation).
    turns : how many a conversation has, at least 1.
    history_tokens : what a conversation begins with (documents, an earlier part), its own.
    system_tokens : what all conversations of the tenant begin with, before that.
    max_context : a conversation ends early rather than grow beyond so many tokens, answer included; a
        beginning that is longer is cut. None: it grows without end.

    Raises
    ------
    ValueError : names the field and the value.
    """

    turns: Distribution
    history_tokens: Distribution
    system_tokens: int
    max_context: int | None

    source: ClassVar[type[ClosedLoopSource]]

    def __init__(
        self,
        workers: int,
        think_s: float | Distribution,
        turns: float | Distribution = 8,
        history_tokens: float | Distribution = 0,
        system_tokens: int = 0,
        max_context: int | None = None,
    ) -> None:
        super().__init__(workers, think_s)
        turns = _distribution(turns)
        if turns == Fixed(0):
            raise ValueError("turns must be >= 1, got 0")
        whole("system_tokens", system_tokens, least=0)
        if max_context is not None:
            whole("max_context", max_context, least=2)
            if system_tokens + 2 > max_context:
                raise ValueError(f"max_context must be > system_tokens + 1, got {max_context!r}")
        put = object.__setattr__
        put(self, "turns", turns)
        put(self, "history_tokens", _distribution(history_tokens))
        put(self, "system_tokens", system_tokens)
        put(self, "max_context", max_context)


class _Turn(NamedTuple):
    draw: Draw
    conversation: Conversation


class ConversationSource(ClosedLoopSource):
    """The users of one tenant. Turn n of user k is the same under every policy and router."""

    def __init__(
        self, tenant: Tenant, horizon_s: float, seed: int, replication: int, ids: tuple[int, int]
    ) -> None:
        super().__init__(tenant, horizon_s, seed, replication, ids)
        self._turns: dict[int, tuple[list[_Turn], Iterator[_Turn]]] = {}

    def draw(self, worker: int, n: int) -> Draw:
        """Think time and sizes of message ``n`` of ``worker``, over all its conversations (both from 0)."""
        return self._turn(worker, n).draw

    def request(self, worker: int, n: int, arrival: float) -> Request:
        """Message ``n`` of ``worker`` with its history, arriving at ``arrival`` seconds."""
        (_, prompt, output, cost), conversation = self._turn(worker, n)
        plain = super().request(worker, n, arrival)
        return Request(
            plain.tenant,
            cost,
            arrival=arrival,
            priority=plain.priority,
            key=plain.key,
            service=plain.service,
            prompt_tokens=prompt,
            output_tokens=output,
            conversation=conversation,
            id=plain.id,
        )

    def _turn(self, worker: int, n: int) -> _Turn:
        if worker not in self._turns:
            super().draw(worker, 0)  # refuses a worker that is none
            self._turns[worker] = ([], self._conversations(worker))
        told, rest = self._turns[worker]
        while len(told) <= n:
            told.append(next(rest))
        return told[n]

    def _conversations(self, worker: int) -> Iterator[_Turn]:
        loop: Any = self.tenant.arrivals
        seed, replication = self._seeds
        turns = stream(seed, replication, self.tenant.name, "turns", worker)
        histories = stream(seed, replication, self.tenant.name, "history", worker)
        limit = float("inf") if loop.max_context is None else loop.max_context
        shared = f"{self.tenant.name}/system" if loop.system_tokens else None
        n = count = 0
        while True:
            name = f"{self.tenant.name}/{worker}/{count}"
            conversation = Conversation(name, shared, loop.system_tokens)
            history = loop.system_tokens + int(tokens(loop.history_tokens, histories, 1)[0])
            length = max(1, int(tokens(loop.turns, turns, 1)[0]))
            for turn in range(length):
                think, message, output, cost = super().draw(worker, n)
                if history + message + output > limit:
                    if turn:
                        break
                    history = max(loop.system_tokens, int(limit) - message - output)
                    message = max(1, min(message, int(limit) - history - 1))
                    output = min(output, int(limit) - history - message)
                # The gateway knows the prompt it holds; its guess is about the rest.
                yield _Turn(Draw(think, history + message, output, history + cost), conversation)
                history += message + output
                n += 1
            count += 1


Conversations.source = ConversationSource


def _distribution(size: float | Distribution) -> Distribution:
    return Fixed(size) if isinstance(size, (int, float)) else size
