"""The batching engine one step at a time: the slow, obvious twin that the fast core must equal.

Nothing here is shared with the package. Every iteration walks every sequence, as an engine's scheduler does:
running sequences first (a block each when they need one, the newest preempted when none is free), then the
waiting ones while tokens, slots and blocks last; then the clock moves by the step-time formula.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

EPS = 1e-9


@dataclass(eq=False)
class Seq:
    name: object
    prompt: int
    output: int
    arrival: float
    priority: int = 0
    order: int = 0
    made: int = 0  # output tokens so far
    computed: int = 0  # context tokens in the KV cache
    blocks: int = 0
    scheduled: float | None = None
    first: float | None = None
    finish: float | None = None
    preemptions: int = 0

    @property
    def known(self) -> int:
        """Tokens that exist: the prompt and what was generated."""
        return self.prompt + self.made


@dataclass
class PlainEngine:
    a: float
    b: float
    c: float
    p: float
    o: float
    max_num_seqs: int
    budget: int
    kv_tokens: int
    block: int = 16
    scheduling: str = "fcfs"
    reserve_full_prompt: bool = True
    now: float = 0.0
    steps: int = 0
    waiting: list[Seq] = field(default_factory=list)
    running: list[Seq] = field(default_factory=list)
    finished: list[Seq] = field(default_factory=list)
    series: list[tuple[float, int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = self.kv_tokens // self.block

    def add(self, seq: Seq) -> None:
        self.waiting.append(seq)

    def rank(self, seq: Seq) -> tuple[float, int]:
        return (seq.priority, seq.order)

    def grow(self, seq: Seq, tokens: int) -> bool:
        need = math.ceil((seq.computed + tokens) / self.block) - seq.blocks
        if need > self.free:
            return False
        self.free -= need
        seq.blocks += need
        return True

    def preempt(self, seq: Seq) -> None:
        self.running.remove(seq)
        self.free += seq.blocks
        seq.blocks = seq.computed = 0
        seq.preemptions += 1
        self.waiting.insert(0, seq)

    def step(self) -> bool:
        """One iteration; false (and no time passes) when there is nothing to run."""
        budget = self.budget
        plan: dict[int, tuple[Seq, int]] = {}
        preempted = False
        for seq in list(self.running):
            if seq not in self.running:
                continue
            tokens = min(seq.known - seq.computed, budget)
            ok = self.grow(seq, tokens)
            while not ok:
                victim = self.running[-1]
                if self.scheduling == "priority":
                    victim = max(self.running, key=self.rank)
                self.preempt(victim)
                preempted = True
                if id(victim) in plan:
                    budget += plan.pop(id(victim))[1]
                if victim is seq:
                    break
                ok = self.grow(seq, tokens)
            if not ok:
                break
            plan[id(seq)] = (seq, tokens)
            budget -= tokens
        while self.waiting and not preempted and budget > 0 and len(self.running) < self.max_num_seqs:
            # A preempted sequence stands in front; otherwise the order of the engine's own queue.
            head = self.waiting[0]
            if self.scheduling == "priority":
                head = min(self.waiting, key=self.rank)
            tokens = min(head.known, budget)
            whole = head.known if self.reserve_full_prompt else tokens
            if math.ceil(whole / self.block) > self.free or not self.grow(head, tokens):
                break
            self.waiting.remove(head)
            self.running.append(head)
            if head.scheduled is None:
                head.scheduled = self.now
            plan[id(head)] = (head, tokens)
            budget -= tokens
        if not plan:
            # The first in line preempted itself: an empty iteration takes no time, the next one has its
            # blocks.
            return self.step() if preempted else False
        # A sequence short of exactly its latest token decodes; all others compute prompt (or recompute).
        decoding = {i for i, (s, _) in plan.items() if s.made > 0 and s.computed == s.known - 1}
        prefill = sum(tokens for i, (_, tokens) in plan.items() if i not in decoding)
        for seq, tokens in plan.values():
            seq.computed += tokens
        kv = sum(s.computed for s in self.running)
        ms = self.o + max(self.a + self.b * len(plan), self.p * prefill) + self.c * kv
        self.now += ms / 1000.0
        self.steps += 1
        self.series.append(
            (self.now, len(self.running), len(self.waiting), self.kv_tokens // self.block - self.free)
        )
        for seq, _ in plan.values():
            if seq.computed < seq.known:
                continue
            seq.made += 1
            if seq.first is None:
                seq.first = self.now
            if seq.made >= seq.output:
                seq.finish = self.now
                self.running.remove(seq)
                self.free += seq.blocks
                seq.blocks = 0
                self.finished.append(seq)
        return True


def replay(engine: PlainEngine, seqs: list[Seq]) -> list[Seq]:
    """Feed sequences at their arrival times and run until all are done."""
    coming = sorted(seqs, key=lambda s: s.arrival)
    at = 0
    while at < len(coming) or engine.running or engine.waiting:
        while at < len(coming) and coming[at].arrival <= engine.now + EPS:
            engine.add(coming[at])
            at += 1
        if not engine.step():
            if at == len(coming):
                raise RuntimeError("the engine is stuck")
            engine.now = coming[at].arrival
    return seqs
