"""What a router, or a way to share a card, did: rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairq.result import Result
from fairq.sim.replicas.replay import Prefilled


def router_row(result: Result, replicas: int) -> dict[str, Any]:
    """Of a run of a ``Fleet``. Columns as in ``figures``, and ``tokens_per_s, retries``."""
    rows = result.requests
    done = rows[(rows["status"] == "finished").to_numpy()]
    row = figures(
        done["member"].to_numpy(dtype=int),
        done["prompt_tokens"].to_numpy(dtype=float),
        done["cached_tokens"].to_numpy(dtype=float),
        done["ttft"].to_numpy(dtype=float),
        replicas,
    )
    # What a failure threw away was computed too.
    row["prefill_tokens"] = float(done["prefill_tokens"].sum())
    return row | {
        "tokens_per_s": result.tokens_per_s,
        "retries": int(rows["retries"].sum()),
    }


def replay_row(outcome: Sequence[Prefilled], replicas: int) -> dict[str, Any]:
    """Of a trace of prompts (``replay_prefixes``). Columns as in ``figures``."""
    return figures(
        [each.replica for each in outcome],
        [each.prompt_tokens for each in outcome],
        [each.cached_tokens for each in outcome],
        [each.ttft for each in outcome],
        replicas,
    )


def figures(
    replica: ArrayLike, prompt_tokens: ArrayLike, cached_tokens: ArrayLike, ttft: ArrayLike, replicas: int
) -> dict[str, Any]:
    """A row from one value per request, shape (n,) each.

    ``prompt_tokens`` (in all), ``prefill_tokens`` (of them computed; also ``prefill_per_request``),
    ``hit_rate`` (the rest, as a share), ``ttft_mean, ttft_p50, ttft_p99`` (s), ``imbalance``: requests of
    the busiest replica over the mean (1: even, ``replicas``: one has all), ``work_imbalance``: the same for
    tokens computed, ``served``: how many, ``requests``: per replica. NaN where nothing was served.
    """
    where: NDArray[np.int64] = np.asarray(replica, dtype=np.int64)
    prompt, cached, first = (np.asarray(each, dtype=float) for each in (prompt_tokens, cached_tokens, ttft))
    requests = np.bincount(where, minlength=replicas) if len(where) else np.zeros(replicas, dtype=int)
    work = np.bincount(where, weights=prompt - cached, minlength=replicas) if len(where) else requests
    total = float(prompt.sum())
    p50, p99 = np.percentile(first, [50, 99]) if len(first) else (np.nan, np.nan)
    return {
        "prompt_tokens": total,
        "prefill_tokens": total - float(cached.sum()),
        "prefill_per_request": (total - float(cached.sum())) / len(where) if len(where) else float("nan"),
        "hit_rate": float(cached.sum()) / total if total else float("nan"),
        "ttft_mean": float(first.mean()) if len(first) else float("nan"),
        "ttft_p50": float(p50),
        "ttft_p99": float(p99),
        "imbalance": _imbalance(requests),
        "work_imbalance": _imbalance(work),
        "served": len(where),
        "requests": requests.tolist(),
    }


def part_rows(result: Result, by: str = "group") -> list[dict[str, Any]]:
    """Of a run on a shared card: one row per group (or tenant, …), in order of first arrival.

    ``n`` finished, ``tokens_per_s`` (its own, from its first arrival to its last finish), ``ttft_p50,
    ttft_p99, latency_p50, latency_p99`` (s),
    ``retries`` (times that a failure threw a request of it back), ``prefill_tokens`` (computed), ``status``
    counts beside: ``unfinished, cancelled, refused``. Rates and percentiles are of those that finished.
    """
    rows = result.requests
    table = result.latency(by)
    columns = ("ttft_p50", "ttft_p99", "latency_p50", "latency_p99")
    counts = ("n", "unfinished", "cancelled", "refused")
    made = []
    for name in dict.fromkeys(rows[by].astype(str)):
        all_mine = rows[(rows[by].astype(str) == name).to_numpy()]
        mine = all_mine[(all_mine["status"] == "finished").to_numpy()]
        line: Any = table.loc[name]
        made.append(
            {
                by: name,
                **{count: int(line[count]) if count in table.columns else 0 for count in counts},
                "tokens_per_s": float(mine["cost"].sum() / (mine["finish"].max() - mine["arrival"].min())),
                **{column: float(line[column]) for column in columns},
                "retries": int(all_mine["retries"].sum()),
                "prefill_tokens": int(mine["prefill_tokens"].sum()),
            }
        )
    return made


def _imbalance(per_replica: NDArray[Any]) -> float:
    mean = float(per_replica.mean())
    return float(per_replica.max()) / mean if mean else float("nan")
