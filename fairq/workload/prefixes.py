"""The Mooncake trace: requests of a long-context chat service with the blocks that their prompts consist of.

One JSON object per line: ``timestamp`` (ms), ``input_length`` and ``output_length`` (tokens), ``hash_ids``: a
name per block of 512 prompt tokens; equal names mean equal prompts up to there. All rows begin with the same
block, so two blocks name a session. (github.com/kvcache-ai/Mooncake, FAST25 release; Qin et al. 2025.)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from fairq.workload.trace import TraceError, readable

BLOCK_TOKENS = 512
SESSION_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class PrefixRow:
    """One request: seconds, tokens, and the names of its prompt's blocks."""

    arrival: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]

    @property
    def session(self) -> str:
        """The name of its session: its first two blocks."""
        return "/".join(map(str, self.blocks[:SESSION_BLOCKS]))


def read_prefixes(path: str | PathLike[str]) -> list[PrefixRow]:
    """The rows of a Mooncake trace, all of them or none.

    Raises
    ------
    TraceError : a line that cannot be read, that goes back in time, or whose number of blocks is not that of
        its prompt; names file, line, field and value. OSError : the file cannot be read.
    """
    path = Path(path)
    rows: list[PrefixRow] = []
    with readable(path), path.open(encoding="utf-8-sig") as file:
        for line, text in enumerate(file, 1):
            if text.strip():
                rows.append(_row(text, f"{path}:{line}"))
                if len(rows) > 1 and rows[-1].arrival < rows[-2].arrival:
                    raise TraceError(
                        f"{path}:{line}: timestamp goes back in time:"
                        f" {1000 * rows[-1].arrival:g} ms after {1000 * rows[-2].arrival:g} ms"
                    )
    if not rows:
        raise TraceError(f"{path}: no requests in it")
    return rows


def _row(text: str, place: str) -> PrefixRow:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError(f"{place}: not JSON: {error.msg}") from None
    if not isinstance(data, dict):
        raise TraceError(f"{place}: must be an object, got {text.strip()[:40]}")
    at = data.get("timestamp")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not isfinite(at) or at < 0:
        raise TraceError(f"{place}: timestamp must be a finite number of milliseconds >= 0, got {at!r}")
    prompt, output = (_tokens(data, name, place) for name in ("input_length", "output_length"))
    blocks = data.get("hash_ids")
    if not isinstance(blocks, list) or not all(isinstance(each, int) for each in blocks):
        raise TraceError(f"{place}: hash_ids must be a list of whole numbers, got {str(blocks)[:40]}")
    if len(blocks) != -(-prompt // BLOCK_TOKENS):
        raise TraceError(
            f"{place}: hash_ids must name {-(-prompt // BLOCK_TOKENS)} blocks of {BLOCK_TOKENS} tokens"
            f" (input_length {prompt}), got {len(blocks)}"
        )
    return PrefixRow(at / 1000, prompt, output, tuple(blocks))


def _tokens(data: dict[str, Any], name: str, place: str) -> int:
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TraceError(f"{place}: {name} must be a whole number >= 1, got {value!r}")
    return value
