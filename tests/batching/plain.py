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
    admission: str = "prompt"
    chunked: bool = True
    now: float = 0.0
    steps: int = 0
    waiting: list[Seq] = field(default_factory=list)
    running: list[Seq] = field(default_factory=list)
    finished: list[Seq] = field(default_factory=list)
    series: list[tuple[float, int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = self.kv_tokens // self.block
        self.look = True  # by peak, a blocked head is looked at when the batch changed, or after ten steps
        self.since_look = 0

    def add(self, seq: Seq) -> None:
        self.waiting.append(seq)
        if self.head() is seq:
            self.look = True

    def head(self) -> Seq:
        """A preempted sequence stands in front; otherwise the order of the engine's own queue."""
        return min(self.waiting, key=self.rank) if self.scheduling == "priority" else self.waiting[0]

    def may_start(self, seq: Seq, tokens: int) -> bool:
        """Enough blocks now, and (by peak) at every later step if all run to their ends."""
        whole = tokens if self.admission == "chunk" else seq.known
        if math.ceil(whole / self.block) > self.free:
            return False
        if self.admission != "peak" or not self.running:
            return True
        members = [*self.running, seq]
        chunk = max(self.budget - len(self.running), 1)
        to_go, held_now = {}, {}
        for s in members:
            done = s.made
            late = 0
            if s.made == 0 or s.computed < s.known - 1:
                # Its prompt is yet to be computed: in chunks while others grow, or in a step of its own.
                late = math.ceil((s.known - s.computed) / chunk) if self.chunked else 0
                done += 0 if self.chunked else 1
            to_go[s.order] = max(s.output - done - 1, 0) + late
            held_now[s.order] = s.prompt + done + self.block - 1
        for later in range(max(to_go.values()) + 1):
            held = sum(held_now[s.order] + later for s in members if to_go[s.order] >= later)
            if held > self.kv_tokens // self.block * self.block:
                return False
        return True

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

    def schedule_running(self, plan: dict[int, tuple[Seq, int]]) -> tuple[int, bool]:
        """Each running sequence gets its next token and a block for it; the budget left, anyone preempted."""
        budget = self.budget
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
        return budget, preempted

    def schedule_waiting(self, plan: dict[int, tuple[Seq, int]], budget: int) -> None:
        """Admit while tokens, slots and blocks last."""
        self.since_look += 1
        looks = self.admission != "peak" or self.look or self.since_look >= 10
        if looks:
            self.look, self.since_look = False, 0
        while looks and self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            head = self.head()
            tokens = min(head.known, budget)
            if not self.may_start(head, tokens) or (head.known > tokens and not self.chunked):
                break
            self.grow(head, tokens)
            self.waiting.remove(head)
            self.running.append(head)
            if head.scheduled is None:
                head.scheduled = self.now
            plan[id(head)] = (head, tokens)
            budget -= tokens

    def step(self) -> bool:
        """One iteration; false (and no time passes) when there is nothing to run."""
        plan: dict[int, tuple[Seq, int]] = {}
        preempted = False
        if self.chunked:
            budget, preempted = self.schedule_running(plan)
            if not preempted:
                self.schedule_waiting(plan, budget)
        else:
            self.schedule_waiting(plan, self.budget)
            if not plan:
                _, preempted = self.schedule_running(plan)
        if not plan:
            # The first in line preempted itself: an empty iteration takes no time, the next one has its
            # blocks.
            return self.step() if preempted else False
        # A sequence short of exactly its latest token decodes; all others compute prompt (or recompute).
        decoding = {i for i, (s, _) in plan.items() if s.made > 0 and s.computed == s.known - 1}
        prefill = sum(tokens for i, (_, tokens) in plan.items() if i not in decoding)
        self.look = self.look or prefill > 0 or preempted
        for seq, tokens in plan.values():
            seq.computed += tokens
        kv = sum(s.computed for s, _ in plan.values())
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
                self.look = True
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
