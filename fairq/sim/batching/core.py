"""Continuous batching from one batch change to the next: time per request, not per token.

The scheduler is that of vLLM V1: each step first gives every running sequence its next token (and the KV
block it may need, preempting the newest, or the lowest priority, when none is free), then admits waiting ones
while the token budget, the slots and the blocks last. A prompt longer than the budget left is computed in
chunks. At most one sequence is ever half prefilled, and it is the last one admitted.

While the batch stays the same, steps differ only by the context, which grows by the same number of tokens
each time, so n steps take ``n·x + y·n·(n−1)/2`` (x the first step, y its growth). The end of such a *stretch*
is known in advance: somebody finishes, a prompt is done, or the blocks run out. An arrival shortens it to the
next step's boundary, and only if it can be admitted there.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from math import ceil, inf, isfinite, sqrt

from fairq.sim.batching.profile import Profile
from fairq.sim.batching.sequence import FcfsWaiting, PriorityWaiting, Sequence, Waiting

EPS = 1e-9
"""Seconds. An arrival this close after a step's boundary makes it into the step, whatever the rounding."""

RECHECK_STEPS = 10
"""Steps after which admission by peak looks at a blocked head again (as S-LoRA does)."""


@dataclass(frozen=True)
class Limits:
    """What the engine was started with (vLLM's names).

    ``admission``: when a waiting sequence may start. ``"prompt"``: its whole prompt fits the free blocks
    (vLLM since 0.19); ``"chunk"``: its first chunk does (vLLM before); ``"peak"``: the batch with it never
    outgrows the cache, so that nobody is preempted (LightLLM and S-LoRA; needs to know the output lengths).
    The peak moves as the batch runs, so there a blocked head is looked at again after ``RECHECK_STEPS``.

    ``chunked_prefill``: prompts are computed along with the decodes, in chunks where the budget is short.
    Without it a step computes whole prompts and nothing else, as soon as one may start, and those that decode
    wait (vLLM before chunked prefill, LightLLM and S-LoRA).

    Raises
    ------
    ValueError : names the setting. Sizes are whole numbers >= 1, the token budget covers one token for each
        sequence, ``scheduling`` is ``"fcfs"`` or ``"priority"``.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    kv_tokens: int
    block_tokens: int = 16
    scheduling: str = "fcfs"
    admission: str = "prompt"
    chunked_prefill: bool = True

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "kv_tokens", "block_tokens"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be >= max_num_seqs "
                f"({self.max_num_seqs}): every running sequence needs a token of the budget"
            )
        if self.kv_tokens < self.block_tokens:
            raise ValueError(f"kv_tokens ({self.kv_tokens}) must hold a block of {self.block_tokens} tokens")
        for name, choices in (
            ("scheduling", ("fcfs", "priority")),
            ("admission", ("prompt", "chunk", "peak")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")

    @property
    def blocks(self) -> int:
        """KV blocks in all; a remainder smaller than a block is lost."""
        return self.kv_tokens // self.block_tokens

    def check(self, prompt: int, output: int) -> None:
        """Raise ``ValueError`` for work that could never finish here."""
        for name, value, least in (("prompt_tokens", prompt, 1), ("output_tokens", output, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f"{name} must be a whole number >= {least} for a batching engine, got {value!r}"
                )
        room = self.blocks * self.block_tokens
        if prompt > room:
            raise ValueError(f"prompt_tokens = {prompt} is longer than the KV cache ({room} tokens)")
        # The last token is returned, never read again, so it needs no place in the cache.
        if prompt + output - 1 > room:
            raise ValueError(
                f"prompt_tokens + output_tokens = {prompt} + {output} do not fit the KV cache ({room} tokens)"
            )
        # After a preemption, what was generated is computed again along with the prompt.
        if not self.chunked_prefill and prompt + max(output - 1, 0) > self.max_num_batched_tokens:
            raise ValueError(
                f"prompt_tokens + output_tokens = {prompt} + {output} do not fit one step "
                f"(max_num_batched_tokens = {self.max_num_batched_tokens}) without chunked prefill"
            )


@dataclass(slots=True)
class Stretch:
    """``steps`` equal steps from ``at`` (seconds): the first takes ``first_ms``, each next ``growth_ms``
    more.

    ``prefills``: who computes how many prompt tokens per step. ``idle``: who runs but sits this step out.
    ``open``: whether a newcomer could be admitted at a boundary inside (tokens and slots are left).
    ``growth``: context tokens that each step adds.
    """

    at: float
    steps: int
    first_ms: float
    growth_ms: float
    growth: int
    prefills: list[tuple[Sequence, int]]
    idle: list[Sequence]
    open: bool

    def time(self, n: int) -> float:
        """When n of its steps are over, in seconds."""
        return self.at + (n * self.first_ms + self.growth_ms * (n * (n - 1) // 2)) / 1000.0

    def boundary(self, t: float) -> int:
        """The fewest steps that are over no earlier than t (less EPS): the quadratic, then its neighbours."""
        ms = (t - EPS - self.at) * 1000.0
        if ms <= 0:
            return 0
        x, y = self.first_ms, self.growth_ms
        if y <= 0:
            n = ceil(ms / x)
        else:
            # n·(x − y/2) + n²·y/2 = ms; written without cancellation.
            half = x - y / 2
            n = ceil(2 * ms / (half + sqrt(half * half + 2 * y * ms)))
        n = max(n, 1)
        while n > 1 and self.time(n - 1) >= t - EPS:
            n -= 1
        while self.time(n) < t - EPS:
            n += 1
        return n


@dataclass(slots=True)
class Change:
    """What happened at one boundary: who made a first token, who finished (both in order of admission)."""

    at: float
    first: list[Sequence] = field(default_factory=list)
    finished: list[Sequence] = field(default_factory=list)


class BatchCore:
    """The engine without a clock: ``add`` sequences, ask for the ``next_change``, ``advance`` to it.

    Times are given and returned in seconds and must not go back. Pure: no SimPy, no randomness.
    ``max_steps`` bounds a stretch: with 1 every step is a change of its own. ``waiting``: its own queue, when
    it is not the one ``limits.scheduling`` names.
    """

    def __init__(
        self,
        profile: Profile,
        limits: Limits,
        *,
        max_steps: int | None = None,
        waiting: Waiting | None = None,
    ) -> None:
        self.profile = profile
        self.limits = limits
        self.max_steps = max_steps
        self._by_peak = limits.admission == "peak"
        self.at = -inf
        """The last boundary, in seconds."""
        self.steps = 0
        """Steps done since the start."""
        self.changes = 0
        """Stretches simulated since the start: what the work grows with."""
        if waiting is None:
            waiting = PriorityWaiting() if limits.scheduling == "priority" else FcfsWaiting()
        self.waiting = waiting
        self.running: dict[Sequence, None] = {}
        self.series: list[tuple[float, int, int, int]] = []
        """Rows (seconds, running, waiting, KV blocks in use)."""
        self._free = limits.blocks
        self._context = 0
        self._decoding = 0
        # Sequences that decode, by when in a cycle of a block's length they need their next block.
        self._phases = [0] * limits.block_tokens
        self._finishing: list[tuple[int, int, int, Sequence]] = []
        self._partial: Sequence | None = None
        self._stretch: Stretch | None = None
        self._added = 0

    # -- from outside ---------------------------------------------------------------------------

    def add(self, sequence: Sequence, now: float) -> None:
        """It joins the engine's own queue.

        Raises ``ValueError`` when it can never be served, or time went back.
        """
        self.limits.check(sequence.prompt, sequence.output)
        if not isfinite(now) or now < self.at - EPS:
            raise ValueError(
                f"time went back: a sequence added at {now!r} s, after the step at {self.at!r} s"
            )
        stretch = self._stretch
        if self.idle:
            self.at = max(self.at, now)
        elif stretch is None and now > self.at + EPS:
            stretch = self._plan()
            if stretch is None:
                self.at = now  # all that wait were held back until now
        sequence.order = self._added
        self._added += 1
        alone = len(self.waiting) == 0
        self.waiting.push(sequence)
        if stretch is None:
            return
        done = self._steps_by(stretch, now)
        self._record(now, self.kv_blocks + self._new_blocks(done, stretch.prefills))
        if not stretch.open or not (alone or self.waiting.head(now) is sequence):
            return
        n = max(stretch.boundary(now), 1)
        if n >= stretch.steps:
            return
        # Those that decode along take their blocks first. What does not fit now fits no later, since free
        # blocks only dwindle; a peak may move.
        budget = self.limits.max_num_batched_tokens
        steps = n
        if self.limits.chunked_prefill:
            steps += 1
            budget -= self._decoding
        free = self._free - self._new_blocks(steps, stretch.prefills)
        if self._by_peak or self._fits(sequence, free, budget):
            stretch.steps = n

    def next_change(self) -> float | None:
        """When the batch changes next, in seconds; ``None`` while there is nothing to do."""
        stretch = self._stretch or self._plan()
        return None if stretch is None else stretch.time(stretch.steps)

    def advance(self) -> Change:
        """Go to the next change. Raises ``RuntimeError`` when there is nothing to do."""
        stretch = self._stretch or self._plan()
        if stretch is None:
            raise RuntimeError("the engine has nothing to do")
        self._stretch = None
        return self._finish(stretch)

    @property
    def demand(self) -> tuple[float, float, float] | None:
        """Shares of its time in which the steps planned would use the memory's bandwidth, the arithmetic
        units, and the GPU at all, had it the card to itself; ``None`` while no step is planned.
        """
        stretch = self._stretch
        if stretch is None:
            return None
        profile = self.profile
        prompt = sum(tokens for _, tokens in stretch.prefills)
        step = stretch.first_ms + stretch.growth_ms * (stretch.steps - 1) / 2
        in_step = self._decoding + len(stretch.prefills)
        weights = profile.a_ms + profile.b_ms * in_step
        context = step - profile.o_ms - max(weights, profile.p_ms * prompt)
        compute = profile.p_ms * (prompt + self._decoding)
        return (weights + context) / step, min(compute, step) / step, (step - profile.o_ms) / step

    @property
    def planned(self) -> bool:
        """Whether the next step is decided: a sequence added now waits for the boundary after it."""
        return self._stretch is not None

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.running and not self.waiting

    def made(self, sequence: Sequence, now: float) -> int:
        """Output tokens a sequence has made by ``now`` (seconds, not before the last boundary)."""
        if not sequence.decoding:
            return sequence.made
        steps = self.steps
        if self._stretch is not None:
            steps += self._steps_by(self._stretch, now)
        return sequence.made + steps - sequence.since

    @property
    def kv_blocks(self) -> int:
        """KV blocks in use at the last boundary."""
        return self.limits.blocks - self._free

    # -- one stretch ----------------------------------------------------------------------------

    def _plan(self) -> Stretch | None:
        """Decide the next step, and for how many steps it stays the same."""
        while not self.idle:
            plan = self._schedule()
            if plan is not None:
                self._stretch = plan
                self._record(self.at, self.kv_blocks)
                return plan
            if not self.running:
                return None  # its own queue holds back all that wait
        return None

    def _schedule(self) -> Stretch | None:
        """Decide who is in the next step; ``None`` for an empty one (its only sequence preempted itself)."""
        limits = self.limits
        if not limits.chunked_prefill and self.waiting:
            prompts: list[tuple[Sequence, int]] = []
            self._admit(prompts, limits.max_num_batched_tokens, self._free)
            if prompts:
                decoding = [sequence for sequence in self.running if sequence.decoding]
                for sequence in decoding:
                    self._pause(sequence)
                return self._stretch_of(prompts, decoding, budget=0)
        idle: list[Sequence] = []
        partial = self._partial
        chunk = 0 if partial is None else min(_left(partial), limits.max_num_batched_tokens - self._decoding)
        prefills = [] if partial is None else [(partial, chunk)]
        need = self._new_blocks(1, prefills)
        preempted = need > self._free
        if preempted:
            prefills, idle = self._make_room()
            if self._decoding + len(prefills) == 0:
                for sequence in idle:
                    self._resume(sequence)
                return None
        budget = limits.max_num_batched_tokens - self._decoding - sum(tokens for _, tokens in prefills)
        if not preempted and limits.chunked_prefill:
            budget = self._admit(prefills, budget, self._free - need)
        if self._decoding + len(prefills) == 0:
            return None
        stretch = self._stretch_of(prefills, idle, budget)
        if not preempted and self.max_steps != 1:
            stretch.steps = self._equal_steps(prefills)
            if self.max_steps is not None:
                stretch.steps = min(stretch.steps, self.max_steps)
            if self._by_peak and self.waiting and stretch.open:
                stretch.steps = min(stretch.steps, RECHECK_STEPS)
        return stretch

    def _stretch_of(self, prefills: list[tuple[Sequence, int]], idle: list[Sequence], budget: int) -> Stretch:
        """One step of those that decode, the prompts given, and nobody else."""
        tokens = sum(tokens for _, tokens in prefills)
        growth = self._decoding + tokens
        context = self._context + growth - sum(sequence.computed for sequence in idle)
        return Stretch(
            at=self.at,
            steps=1,
            first_ms=self.profile.step_ms(self._decoding + len(prefills), tokens, context),
            growth_ms=self.profile.c_ms * growth,
            growth=growth,
            prefills=prefills,
            idle=idle,
            open=budget > 0 and len(self.running) < self.limits.max_num_seqs,
        )

    def _admit(self, prefills: list[tuple[Sequence, int]], budget: int, free: int) -> int:
        """Take from the engine's queue while tokens and blocks last; returns the token budget left."""
        while self.waiting and budget > 0 and len(self.running) < self.limits.max_num_seqs:
            sequence = self.waiting.head(self.at)
            if sequence is None or not self._fits(sequence, free, budget):
                break
            self.waiting.pop(self.at)
            self.running[sequence] = None
            if sequence.scheduled is None:
                sequence.scheduled = self.at
            if sequence.cached:
                # What it is given is there at once; at least the last token is computed, for its answer.
                sequence.computed = min(sequence.cached, sequence.prompt - 1)
                self._free -= self._blocks(sequence.computed)
                self._context += sequence.computed
            chunk = min(_left(sequence), budget)
            prefills.append((sequence, chunk))
            free -= self._blocks(sequence.computed + chunk)
            budget -= chunk
        return budget

    def _fits(self, sequence: Sequence, free: int, budget: int) -> bool:
        """Whether a waiting sequence may start with so many free blocks and tokens of the budget."""
        tokens = _left(sequence)
        cached = min(sequence.cached, sequence.prompt - 1)
        if not self.limits.chunked_prefill and tokens - cached > budget:
            return False
        if self.limits.admission == "chunk":
            tokens = min(tokens, cached + budget)
        if self._blocks(tokens) > free:
            return False
        return not self._by_peak or not self.running or self._peak_fits(sequence)

    def _peak_fits(self, newcomer: Sequence) -> bool:
        """Whether the batch with the newcomer never outgrows the cache, if all run to their ends.

        The context only shrinks when somebody finishes, so it is enough to look at those moments: when the
        one with ``left`` steps to go ends, all that have as many or more hold what they know plus ``left``.
        """
        size = self.limits.block_tokens
        # What a step leaves at least for a prompt beside the decodes.
        chunk = max(self.limits.max_num_batched_tokens - len(self.running), 1)
        members = []
        for sequence in (*self.running, newcomer):
            made, late = sequence.made, 0
            if sequence.decoding:
                made += self.steps - sequence.since
            elif self.limits.chunked_prefill:
                late = -(-_left(sequence) // chunk)  # others grow while its prompt is computed
            else:
                made += 1  # in a step of its own, while those that decode wait
            members.append((max(sequence.output - made - 1, 0) + late, sequence.prompt + made))
        members.sort(reverse=True)
        room = self.limits.blocks * size
        held = 0
        for count, (left, known) in enumerate(members, 1):
            # A sequence's last block may be all but empty.
            held += known + size - 1
            if held + count * left > room:
                return False
        return True

    def _make_room(self) -> tuple[list[tuple[Sequence, int]], list[Sequence]]:
        """Preempt until every sequence still running has its next block, in the scheduler's own order.

        Returns the half-done prompt's part of the step, and those that must sit this step out: where the one
        to go is the very one being scheduled (priority), those after it are not looked at until the next
        step.
        """
        free, budget = self._free, self.limits.max_num_batched_tokens
        granted: dict[Sequence, int] = {}
        prefills: list[tuple[Sequence, int]] = []
        for sequence in list(self.running):
            if sequence not in self.running:
                continue
            computed = self._computed(sequence)
            tokens = 1 if sequence.decoding else min(_left(sequence), budget)
            need = self._blocks(computed + tokens) - self._blocks(computed)
            while need > free and sequence in self.running:
                victim = self._victim()
                free += self._blocks(self._computed(victim)) + granted.get(victim, 0)
                budget += victim in granted
                granted.pop(victim, None)
                self._preempt(victim)
            if sequence not in self.running:
                break
            granted[sequence] = need
            free -= need
            budget -= tokens
            if not sequence.decoding:
                prefills.append((sequence, tokens))
        idle = [sequence for sequence in self.running if sequence not in granted]
        for sequence in idle:
            self._pause(sequence)
        return prefills, idle

    def _victim(self) -> Sequence:
        if self.limits.scheduling == "priority":
            return max(self.running, key=_rank)
        return next(reversed(self.running))

    def _preempt(self, sequence: Sequence) -> None:
        """Give up its blocks; it will compute its context again, what it generated included."""
        self._pause(sequence)
        del self.running[sequence]
        self._free += self._blocks(sequence.computed)
        self._context -= sequence.computed
        sequence.computed = 0
        sequence.preemptions += 1
        if self._partial is sequence:
            self._partial = None
        self.waiting.push_back(sequence)

    def _equal_steps(self, prefills: list[tuple[Sequence, int]]) -> int:
        """For how many steps the batch stays as it is now, at least 1."""
        steps = self._steps_to_finish()
        if prefills:
            sequence, chunk = prefills[-1]
            left = _left(sequence)
            if len(prefills) > 1 or chunk == left:
                return 1
            # The last, smaller chunk is another step: it leaves tokens for others.
            partial_steps = -(-left // chunk) - 1
            steps = partial_steps if steps is None else min(steps, partial_steps)
        assert steps is not None  # a step holds a prompt or a sequence that decodes
        if self._new_blocks(steps, prefills) <= self._free:
            return steps
        enough, short = 1, steps
        while short - enough > 1:
            middle = (enough + short) // 2
            if self._new_blocks(middle, prefills) <= self._free:
                enough = middle
            else:
                short = middle
        return enough

    def _steps_to_finish(self) -> int | None:
        heap = self._finishing
        while heap:
            at, _, since, sequence = heap[0]
            if sequence.decoding and sequence.since == since:
                return at - self.steps
            heapq.heappop(heap)
        return None

    def _finish(self, stretch: Stretch) -> Change:
        """Book what the steps of a stretch did."""
        n = stretch.steps
        self._free -= self._new_blocks(n, stretch.prefills)
        self._context += n * stretch.growth
        self.at = stretch.time(n)
        self.steps += n
        self.changes += 1
        self._record(self.at, self.kv_blocks)
        change = Change(self.at)
        if stretch.prefills:
            self._partial = None
        for sequence, chunk in stretch.prefills:
            sequence.computed += n * chunk
            left = _left(sequence)
            if left == 0:
                sequence.made += 1
                if sequence.first is None:
                    sequence.first = self.at
                    change.first.append(sequence)
                if sequence.made >= sequence.output:
                    change.finished.append(sequence)
                    continue
            elif left > 1 or sequence.made == 0:
                self._partial = sequence
                continue
            # What is left of a recomputed context is its latest token: from here on it decodes.
            self._decode(sequence)
        for sequence in stretch.idle:
            self._resume(sequence)
        while self._steps_to_finish() == 0:
            sequence = heapq.heappop(self._finishing)[3]
            self._pause(sequence)
            change.finished.append(sequence)
        change.finished.sort(key=_order)
        for sequence in change.finished:
            self._leave(sequence)
        if self.idle:
            self._record(self.at, self.kv_blocks)
        return change

    def _leave(self, sequence: Sequence) -> None:
        sequence.finish = self.at
        del self.running[sequence]
        self._free += self._blocks(sequence.computed)
        self._context -= sequence.computed

    # -- sequences that decode ------------------------------------------------------------------

    def _decode(self, sequence: Sequence) -> None:
        """From the next step on it makes one token per step."""
        sequence.decoding = True
        sequence.since = self.steps
        self._decoding += 1
        self._phases[(sequence.computed - self.steps) % self.limits.block_tokens] += 1
        finish = self.steps + max(sequence.output - sequence.made, 0)
        heapq.heappush(self._finishing, (finish, sequence.order, self.steps, sequence))

    def _pause(self, sequence: Sequence) -> None:
        """Write down how far it is; it no longer moves by itself."""
        if not sequence.decoding:
            return
        self._phases[(sequence.computed - sequence.since) % self.limits.block_tokens] -= 1
        self._decoding -= 1
        steps = self.steps - sequence.since
        sequence.made += steps
        sequence.computed += steps
        sequence.decoding = False

    def _resume(self, sequence: Sequence) -> None:
        if sequence is not self._partial:
            self._decode(sequence)

    def _computed(self, sequence: Sequence) -> int:
        return sequence.computed + (self.steps - sequence.since if sequence.decoding else 0)

    # -- blocks ---------------------------------------------------------------------------------

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_tokens)

    def _new_blocks(self, steps: int, prefills: list[tuple[Sequence, int]]) -> int:
        """Blocks that the next so many equal steps take."""
        size = self.limits.block_tokens
        cycles, rest = divmod(steps, size)
        need = cycles * self._decoding
        for j in range(rest):
            # Due for a block at this step: context at a multiple of a block's length.
            need += self._phases[-(self.steps + j) % size]
        for sequence, chunk in prefills:
            need += self._blocks(sequence.computed + steps * chunk) - self._blocks(sequence.computed)
        return need

    def _steps_by(self, stretch: Stretch, now: float) -> int:
        """How many of a stretch's steps are over at a moment inside it."""
        n = stretch.boundary(now)
        if n > 0 and stretch.time(n) > now + EPS:
            n -= 1
        return min(n, stretch.steps)

    def _record(self, now: float, blocks: int) -> None:
        self.series.append((now, len(self.running), len(self.waiting), blocks))


def _left(sequence: Sequence) -> int:
    """Tokens of a prompt (and of what was generated before a preemption) not computed yet."""
    return sequence.prompt + sequence.made - sequence.computed


def _rank(sequence: Sequence) -> tuple[object, int]:
    return sequence.rank


def _order(sequence: Sequence) -> int:
    return sequence.order
