"""A box whose truth is known: eight slots of 40 tokens/s, first come first served, a job of 160 in between.

A request of the mean size takes 0.05 s, its prompt at 8,000 tokens/s and a token every 25 ms: about 40.2
tokens/s for each stream, 321 for all eight. Written without fairq.
"""

import json

import numpy as np

SLOTS, EACH, TOTAL = 8, 40.2, 321.0


def served(seed=5):
    """Rows of (tenant, arrival, start, first token, finish, prompt, output)."""
    draw = np.random.default_rng(seed)

    def tokens(mean, sigma):
        return int(draw.lognormal(mean, sigma)) + 1

    asked = []
    for who in ("ana", "ben", "eva", "kim"):
        t = draw.exponential(8)
        while t < 900:
            asked.append((t, who, tokens(6, 0.8), tokens(5.3, 0.6)))
            t += draw.exponential(8)
    asked += [(200 + i * 0.05, "nightly", tokens(7, 0.4), tokens(5.6, 0.4)) for i in range(160)]
    free, rows = [0.0] * SLOTS, []
    for t, who, prompt, output in sorted(asked):
        slot = min(range(SLOTS), key=free.__getitem__)
        start = max(t, free[slot])
        first = start + 0.05 + prompt / 8000
        free[slot] = first + (output - 1) / 40
        rows.append((who, t, start, first, free[slot], prompt, output))
    return rows


def ends_only(path):
    """A gateway's log that has no first token: arrivals and ends."""
    with path.open("w") as file:
        for who, arrival, _, _, finish, prompt, output in served():
            usage = {"prompt_tokens": prompt, "completion_tokens": output}
            row = {"user": who, "usage": usage, "start_time": 1.7e9 + arrival, "end_time": 1.7e9 + finish}
            file.write(json.dumps(row) + "\n")
    return path


def spend_log(path):
    """A LiteLLM spend log: with first tokens."""
    head = "startTime,completionStartTime,endTime,user,api_key,prompt_tokens,completion_tokens\n"
    path.write_text(
        head
        + "".join(
            f"{1.7e9 + arrival:.6f},{1.7e9 + first:.6f},{1.7e9 + finish:.6f},{who},k,{prompt},{output}\n"
            for who, arrival, _, first, finish, prompt, output in served()
        )
    )
    return path


def bench_result(path):
    """What ``vllm bench serve --save-result --save-detailed`` writes: waits and gaps."""
    rows = served()
    result = {
        "input_lens": [prompt for *_, prompt, _ in rows],
        "output_lens": [output for *_, output in rows],
        "start_times": [1e5 + arrival for _, arrival, *_ in rows],
        "ttfts": [first - arrival for _, arrival, _, first, *_ in rows],
        "itls": [[1 / 40] * (output - 1) for *_, output in rows],
        "errors": [""] * len(rows),
    }
    path.write_text(json.dumps(result))
    return path
