"""The batching engine with prompts partly in a prefix cache: by hand, and against the plain engine."""

import random
from dataclasses import dataclass

import pytest
from batching.plain import PlainEngine, Seq, replay

from fairq.sim.batching import BatchCore, Limits, Profile, Sequence

PROFILE = Profile(a_ms=10, b_ms=1, c_ms=0.01, p_ms=0.1)


def drive(core: BatchCore, arrivals: list[tuple[float, Sequence]]) -> list[Sequence]:
    finished: list[Sequence] = []
    waiting = sorted(arrivals, key=lambda pair: pair[0])
    while True:
        change = core.next_change()
        if waiting and (change is None or waiting[0][0] <= change + 1e-9):
            at, sequence = waiting.pop(0)
            core.add(sequence, at)
        elif change is None:
            return finished
        else:
            finished += core.advance().finished


def test_a_cached_prompt_by_hand() -> None:
    # 1,000 tokens, 800 cached: max(10 + 1, 0.1 · 200) + 0.01 · 1,000 = 30 ms, then 11 + 0.01 · 1,001.
    sequence = Sequence(1000, 2, cached=800)
    core = BatchCore(PROFILE, Limits(8, 2048, 10_000))
    drive(core, [(0.0, sequence)])
    assert sequence.first == pytest.approx(0.030)
    assert sequence.finish == pytest.approx(0.030 + 0.02101)
    assert core.kv_blocks == 0


def test_cached_tokens_count_in_the_batch_but_not_in_the_budget() -> None:
    # Budget 256: without a cache 1,000 tokens take four steps; with 800 cached, one.
    steps = []
    for cached in (0, 800):
        core = BatchCore(PROFILE, Limits(8, 256, 10_000))
        drive(core, [(0.0, Sequence(1000, 1, cached=cached))])
        steps.append(core.steps)
    assert steps == [4, 1]


def test_a_prompt_that_is_all_cached_computes_its_last_token() -> None:
    sequence = Sequence(1000, 1, cached=1000)
    drive(BatchCore(PROFILE, Limits(8, 2048, 10_000)), [(0.0, sequence)])
    assert sequence.first == pytest.approx(0.021)  # 10 + 1 and a context of 1,000


def test_cached_tokens_need_blocks() -> None:
    first, second = Sequence(600, 50, cached=590), Sequence(600, 50, cached=590)
    drive(BatchCore(PROFILE, Limits(8, 2048, 1008)), [(0.0, first), (0.0, second)])
    assert second.scheduled == first.finish


@dataclass(eq=False)
class CachedSeq(Seq):
    cached: int = 0


class CachedPlain(PlainEngine):
    """The plain twin, whose newcomers find a part of their prompt computed already."""

    def schedule_waiting(self, plan: dict[int, tuple[Seq, int]], budget: int) -> None:
        while self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            head = self.head()
            given = min(head.cached, head.prompt - 1)  # type: ignore[attr-defined]
            tokens = min(head.known - given, budget)
            if not self.may_start(head, given + tokens) or (head.known - given > tokens and not self.chunked):
                break
            head.computed = given
            self.grow(head, tokens)
            self.waiting.remove(head)
            self.running.append(head)
            if head.scheduled is None:
                head.scheduled = self.now
            plan[id(head)] = (head, tokens)
            budget -= tokens


@pytest.mark.parametrize("admission", ["prompt", "chunk"])
@pytest.mark.parametrize("chunked", [True, False])
def test_it_equals_the_plain_engine_step_by_step(admission: str, chunked: bool) -> None:
    """With prompts cached in part or whole, and preemptions."""
    preempted = 0
    for seed in range(12):
        rng = random.Random(seed)
        limits = Limits(12, 700, 2400, 16, "fcfs", admission, chunked)
        plain = CachedPlain(10, 1, 0.01, 0.1, 0, 12, 700, 2400, admission=admission, chunked=chunked)
        told, seqs = [], []
        for i in range(40):
            at, prompt, output = rng.uniform(0, 3), rng.randint(20, 600), rng.randint(1, 90)
            cached = rng.choice([0, prompt // 16 * 16, 16 * rng.randint(0, prompt // 16)])
            told.append((at, Sequence(prompt, output, tag=i, cached=cached)))
            seqs.append(CachedSeq(i, prompt, output, at, cached=cached))
        core = BatchCore(PROFILE, limits)
        assert len(drive(core, told)) == 40
        assert core.kv_blocks == 0
        replay(plain, list(seqs))
        for (_, ours), theirs in zip(told, seqs, strict=True):
            assert (ours.scheduled, ours.first, ours.finish) == pytest.approx(
                (theirs.scheduled, theirs.first, theirs.finish), abs=1e-9
            )
            assert ours.preemptions == theirs.preemptions
            preempted += ours.preemptions
    assert preempted > 0


def test_demand_is_what_a_step_needs_of_its_time() -> None:
    core = BatchCore(Profile(10, 0, 0.01, 0.1, o_ms=5), Limits(8, 2048, 10_000))
    assert core.demand is None
    core.add(Sequence(1000, 100), 0.0)
    core.next_change()
    # The prompt: 5 idle + 100 of arithmetic beside 10 of weights + 10 of context
    assert core.demand == pytest.approx((20 / 115, 100 / 115, 110 / 115))
    core.advance()
    core.next_change()
    bandwidth, arithmetic, gpu = core.demand or (0, 0, 0)
    assert bandwidth == pytest.approx(gpu)  # writing only reads
    assert gpu == pytest.approx(1 - 5 / (15 + 0.01 * 1050), abs=0.002)
    assert arithmetic == pytest.approx(0.1 / (15 + 0.01 * 1050), abs=0.001)
