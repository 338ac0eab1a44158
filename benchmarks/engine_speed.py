"""How fast is the batching engine? Ratios from one run, printed with the setting.

    uv run python benchmarks/engine_speed.py [--run …requests.jsonl] [--rounds 5] [--json]

Compared:

* ``plain / core``: stepping through every iteration (the tests' twin) against from one batch change to the
  next, on a real run of 300 requests (../shared/traces by default; without it, a drawn one of that size);
* ``2,000 / 200 tokens``: 10,000 requests with ten times the output, as many batch changes in both;
* ``gateway / core``: the same run through ``simulate``, tables included.

Times are the least of ``--rounds`` interleaved rounds (processor time).
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fairq import FIFO, Request
from fairq.sim import simulate
from fairq.sim.batching import BatchCore, BatchingEngine, Limits, Profile, Sequence, replay
from fairq.workload.vllm_run import read_run

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT.parent / "shared/traces/vllm_rtx4090_llama31_8b_requests.jsonl"
PROFILE = Profile(16.875, 0.042, 1.493e-4, 0.0932, kv_tokens=41408)
LIMITS = {"plain / core": (">=", 3.0), "2,000 / 200 tokens": ("<=", 1.5)}

Sizes = list[tuple[float, int, int]]
"""(arrival s, prompt, output tokens)"""


def run_or_drawn(path: Path) -> tuple[str, Sizes]:
    if path.is_file():
        return path.name, [(r.arrival, r.prompt_tokens, r.output_tokens) for r in read_run(path).requests]
    rng = random.Random(1)
    at, sizes = 0.0, []
    for _ in range(300):
        at += rng.expovariate(10)
        sizes.append((at, int(rng.lognormvariate(6, 1)) + 1, int(rng.lognormvariate(6, 0.7)) + 1))
    return "300 drawn requests", sizes


def plain(sizes: Sizes) -> None:
    from plain import PlainEngine, Seq
    from plain import replay as step_through

    engine = PlainEngine(16.875, 0.042, 1.493e-4, 0.0932, 0.0, 256, 2048, 41408)
    step_through(engine, [Seq(i, p, out, t, order=i) for i, (t, p, out) in enumerate(sizes)])


def core(sizes: Sizes) -> None:
    replay(BatchCore(PROFILE, Limits(256, 2048, 41408)), [(t, Sequence(p, out)) for t, p, out in sizes])


def gateway(sizes: Sizes) -> None:
    requests = [Request("t", p + out, arrival=t, prompt_tokens=p, output_tokens=out) for t, p, out in sizes]
    simulate(requests, FIFO(), BatchingEngine(PROFILE, gateway_slots=0))


def long_outputs(output: int) -> BatchCore:
    """All there from the start, so that there are as many batch changes whatever the length."""
    engine = BatchCore(PROFILE, Limits(256, 2048, 256 * 4096))
    work = [(0.0, Sequence(100 + i % 50, output + i * 37 % 97)) for i in range(10_000)]
    replay(engine, work)
    return engine


def least(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Least processor seconds of each way, taking turns."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            gc.collect()
            start = time.process_time()
            way()
            best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--run", type=Path, default=RUN)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests/batching"))

    name, sizes = run_or_drawn(given.run)
    seconds = least(
        {
            "plain": lambda: plain(sizes),
            "core": lambda: core(sizes),
            "gateway": lambda: gateway(sizes),
            "200 tokens": lambda: long_outputs(200),
            "2,000 tokens": lambda: long_outputs(2000),
        },
        given.rounds,
    )
    short, long = long_outputs(200), long_outputs(2000)
    ratios = {
        "plain / core": seconds["plain"] / seconds["core"],
        "2,000 / 200 tokens": seconds["2,000 tokens"] / seconds["200 tokens"],
        "gateway / core": seconds["gateway"] / seconds["core"],
    }
    setting = {
        "run": name,
        "rounds": given.rounds,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "batch changes, 200 tokens": short.changes,
        "batch changes, 2,000 tokens": long.changes,
        "steps, 2,000 tokens": long.steps,
    }
    if given.json:
        print(json.dumps({"setting": setting, "seconds": seconds, "ratios": ratios}, indent=1))
        return
    for key, value in setting.items():
        print(f"{key}: {value}")
    for key, value in seconds.items():
        print(f"{key:>14}: {value:8.4f} s")
    for key, value in ratios.items():
        wanted = "" if key not in LIMITS else "  wanted {} {}".format(*LIMITS[key])
        print(f"{key:>20}: {value:6.2f}{wanted}")


if __name__ == "__main__":
    main()
