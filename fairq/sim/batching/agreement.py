"""How close the engine comes to a real run: the same requests, replayed, and what differs."""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairq.sim.batching.core import BatchCore, Limits
from fairq.sim.batching.profile import Profile
from fairq.sim.batching.replay import replay
from fairq.sim.batching.sequence import Sequence
from fairq.workload.vllm_run import RealRequest

STATISTICS = ("mean", "p50", "p90", "p99")


@dataclass(frozen=True)
class Compared:
    """One measure (seconds), real and replayed: arrays of mean, p50, p90, p99."""

    measure: str
    real: NDArray[np.float64]
    model: NDArray[np.float64]

    @property
    def error(self) -> NDArray[np.float64]:
        """Relative errors, shape (4,): 0.05 is 5 % too slow."""
        error: NDArray[np.float64] = self.model / self.real - 1
        return error


@dataclass(frozen=True)
class Replayed:
    """A replay beside the run it replays. ``core`` holds the series, ``sequences`` the requests' times."""

    requests: Several[RealRequest]
    sequences: Several[Sequence]
    core: BatchCore

    def compared(self) -> list[Compared]:
        """TTFT, time per output token and end-to-end (seconds)."""
        model = measures(self.sequences, [request.arrival for request in self.requests])
        real = {
            "TTFT": np.array([r.ttft for r in self.requests]),
            "TPOT": np.array([np.nan if r.tpot is None else r.tpot for r in self.requests]),
            "e2e": np.array([r.latency for r in self.requests]),
        }
        return [Compared(name, _statistics(real[name]), _statistics(model[name])) for name in real]

    def at_seconds(self, seconds: Several[float]) -> list[tuple[int, int, float]]:
        """(running, waiting, KV in per cent) at those moments (seconds), as a logger would see them."""
        rows = self.core.series
        place = np.searchsorted(np.array([row[0] for row in rows]), np.asarray(seconds), side="right") - 1
        full = self.core.limits.blocks
        return [(rows[i][1], rows[i][2], 100 * rows[i][3] / full) if i >= 0 else (0, 0, 0.0) for i in place]


def replay_run(requests: Several[RealRequest], profile: Profile, limits: Limits) -> Replayed:
    """Replay a real run's arrivals and sizes. Raises ``ValueError`` when a request can never be served."""
    core = BatchCore(profile, limits)
    sequences = [(r.arrival, Sequence(r.prompt_tokens, r.output_tokens, tag=r.id)) for r in requests]
    return Replayed(requests, replay(core, sequences), core)


def measures(sequences: Several[Sequence], arrivals: Several[float]) -> dict[str, NDArray[np.float64]]:
    """TTFT, TPOT and e2e (seconds) of replayed sequences, shape (n,); TPOT is NaN for a single token."""
    first = np.array([s.first for s in sequences], dtype=float)
    finish = np.array([s.finish for s in sequences], dtype=float)
    output = np.array([s.output for s in sequences])
    came = np.asarray(arrivals)
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(output > 1, (finish - first) / (output - 1), np.nan)
    return {"TTFT": first - came, "TPOT": tpot, "e2e": finish - came}


def _statistics(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([np.nanmean(values), *np.nanpercentile(values, [50, 90, 99])])
