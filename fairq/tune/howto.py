"""How to type it: the nearest setting in the programs people run, and what each cannot say.

Names read in: the vLLM docs (``vllm serve``: ``--max-num-seqs``, ``--scheduling-policy``, per-request
``priority``), the LiteLLM proxy docs (``max_parallel_requests`` of keys and deployments; request
priority, beta), llama.cpp ``tools/server`` (``-np``, ``-c``), the nginx docs (``limit_conn``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml


@dataclass(frozen=True)
class HowTo:
    """``text`` to type into ``tool``; ``cannot``: what it does not express of the setting."""

    tool: str
    text: str
    cannot: tuple[str, ...]


@dataclass
class _Parts:
    """What a nested policy asks for, taken apart."""

    order: str = "fifo"
    cap: int | None = None
    soft: bool = False
    per_key: dict[str, int | None] = field(default_factory=dict)
    groups: dict[str, tuple[list[str], int | None]] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    levels: bool = False
    ageing: float | None = None
    floors: dict[str, int] = field(default_factory=dict)


ORDERS = {
    "fifo": "first come, first served",
    "drr": "fair shares by deficit round robin",
    "vtc": "fair shares by virtual token counter",
    "sfq": "fair shares by start-time fair queueing",
    "nested": "shares of shares",
    "shortest": "shortest first",
    "priority": "priority",
    "accumulating": "priority gained while waiting",
    "counterexample": "a faulty policy",
}


def how_to(
    policy: Mapping[str, Any],
    slots: int | None,
    keys: Mapping[str, tuple[str, ...]] | None = None,
    kv_tokens: int | None = None,
) -> list[HowTo]:
    """The nearest settings for a policy (plain data) in front of an engine that serves ``slots`` at once.

    ``keys``: a group's or tenant's name → its API keys, where known. ``kv_tokens``: the KV cache there is.
    """
    parts = _Parts()
    _take_apart(policy, parts)
    known = dict(keys or {})
    return [
        _vllm(parts, slots),
        _litellm(parts, slots, known),
        _llama(parts, slots, kv_tokens),
        _nginx(parts, slots, known),
    ]


def _take_apart(policy: Mapping[str, Any], parts: _Parts) -> None:
    kind = policy["policy"]
    if kind in ("caps", "soft_caps"):
        parts.cap = policy.get("default")
        parts.soft = kind == "soft_caps"
        parts.per_key = dict(policy.get("per_key", {}))
        parts.groups = {name: (list(g["keys"]), g["limit"]) for name, g in policy.get("groups", {}).items()}
        _take_apart(policy["around"], parts)
    elif kind == "floors":
        parts.floors = {name: floor["slots"] for name, floor in policy["floors"].items()}
        _take_apart(policy["around"], parts)
    elif kind == "levels":
        parts.levels, parts.ageing = True, policy.get("ageing_s")
        _take_apart(next(iter(policy["levels"].values())), parts)
    else:
        parts.order = kind
        parts.weights = dict(policy.get("weights", {}))
        if kind == "priority":
            parts.levels, parts.ageing = True, policy["ageing_s"]


def _lost(parts: _Parts, *, caps: bool = False, groups: bool = False, levels: bool = False) -> list[str]:
    """What a program without these abilities does not say."""
    lost = []
    if parts.order in ("drr", "vtc", "sfq", "nested"):
        lost.append(f"{ORDERS[parts.order]}: it has no shares between tenants")
        if parts.weights:
            lost.append("weights " + ", ".join(f"{name} {value:g}" for name, value in parts.weights.items()))
    elif parts.order in ("shortest", "accumulating", "counterexample"):
        lost.append(ORDERS[parts.order])
    if not caps and (parts.cap is not None or parts.per_key):
        lost.append("how many requests of one key run at once")
    if not groups and parts.groups:
        lost += [f"at most {limit} of {', '.join(names)} together" for names, limit in parts.groups.values()]
    if parts.soft:
        lost.append("lending a slot that would idle to a key at its cap")
    if parts.floors:
        lost += [f"{slots} slots kept free for {name}" for name, slots in parts.floors.items()]
    if parts.levels and not levels:
        lost.append("priority levels")
    if parts.levels and parts.ageing is not None:
        lost.append(f"ageing ({parts.ageing:g} s of waiting worth a level): low levels can starve")
    return lost


def _vllm(parts: _Parts, slots: int | None) -> HowTo:
    flags = [f"--max-num-seqs {slots}"] if slots else []
    if parts.levels:
        flags.append("--scheduling-policy priority")
    else:
        flags.append("--scheduling-policy fcfs")
    text = "vllm serve MODEL " + " ".join(flags)
    if parts.levels:
        text += '\n# and "priority": LEVEL in the body of every request (lower goes first)'
    lost = _lost(parts, levels=True)
    if parts.levels:
        lost.append("who may claim which priority: it believes what the request says")
    lost.append("it orders its own queue alone; do not let a gateway fill it beyond --max-num-seqs")
    return HowTo("vLLM", text, tuple(lost))


def _litellm(parts: _Parts, slots: int | None, keys: Mapping[str, tuple[str, ...]]) -> HowTo:
    deployment: dict[str, Any] = {"model": "hosted_vllm/MODEL", "api_base": "http://ENGINE:8000/v1"}
    if slots:
        deployment["max_parallel_requests"] = slots
    models = [{"model_name": "MODEL", "litellm_params": deployment}]
    # A team's own limit is stored but not enforced (BerriAI/litellm pull 41828): a deployment's is.
    for name, (_, limit) in parts.groups.items():
        if limit is not None:
            limited = {**deployment, "max_parallel_requests": limit}
            models.append({"model_name": f"MODEL-{name}", "litellm_params": limited})
    config: dict[str, Any] = {"model_list": models}
    text = "# config.yaml\n" + yaml.safe_dump(config, sort_keys=False)
    calls = []
    if parts.cap is not None:
        calls.append(f'POST /key/generate   {{"max_parallel_requests": {parts.cap}}}   # for every key')
    for name, limit in parts.per_key.items():
        for key in keys.get(name, (name,)):
            calls.append(f'POST /key/update     {{"key": "{key}", "max_parallel_requests": {_null(limit)}}}')
    for name, (members, limit) in parts.groups.items():
        if limit is not None:
            calls.append(
                f'POST /key/update     {{"key": …, "models": ["MODEL-{name}"]}}   # {", ".join(members)}'
            )
    if parts.levels:
        calls.append('"priority": LEVEL in the body of every request (beta; lower goes first)')
    if calls:
        text += "# and\n" + "\n".join(f"#   {call}" for call in calls) + "\n"
    lost = _lost(parts, caps=True, groups=True, levels=True)
    if parts.cap is not None or parts.per_key:
        lost.append("waiting: a request above its key's limit is refused (429) and must be sent again")
    if parts.groups:
        lost.append(
            "one limit for two deployments of one engine: both together may send more than it has slots"
        )
    return HowTo("LiteLLM proxy", text, tuple(lost))


def _llama(parts: _Parts, slots: int | None, kv_tokens: int | None) -> HowTo:
    n = slots or 8
    each = 8192 if kv_tokens is None else kv_tokens // n
    context = n * each if kv_tokens is None else kv_tokens
    text = (
        f"llama-server -m MODEL.gguf -np {n} -c {context}   # {n} slots; -c is shared by them ({each:,} each)"
    )
    lost = _lost(parts)
    if parts.order != "fifo" or not lost:
        lost.insert(0, "any order but first come, first served")
    if kv_tokens is not None:
        lost.append(f"requests of more than {each:,} tokens, unless there are fewer slots")
    return HowTo("llama.cpp", text, tuple(lost))


def _nginx(parts: _Parts, slots: int | None, keys: Mapping[str, tuple[str, ...]]) -> HowTo:
    top, inner = [], []
    if parts.cap is not None:
        top.append("limit_conn_zone $http_authorization zone=per_key:10m;")
        inner.append(f"    limit_conn per_key {parts.cap};")
    for number, (name, (members, limit)) in enumerate(parts.groups.items(), 1):
        bearers = [key for member in members for key in keys.get(member, (member,))]
        lines = [f'    "Bearer {_quoted(key)}"  {number};' for key in bearers[:20]]
        if len(bearers) > 20:
            lines.append(f"    # … and {len(bearers) - 20} more keys")
        top += [f"map $http_authorization $group_{number} {{  # {name}", '    default  "";', *lines, "}"]
        top.append(f"limit_conn_zone $group_{number} zone=group_{number}:1m;")
        if limit is not None:
            inner.append(f"    limit_conn group_{number} {limit};")
    if slots:
        top.append("limit_conn_zone $server_name zone=all:1m;")
        inner.append(f"    limit_conn all {slots};")
    text = "\n".join(
        [
            *top,
            "server {",
            *inner,
            "    limit_conn_status 429;",
            "    location / { proxy_pass http://ENGINE:8000; }",
            "}",
        ]
    )
    lost = _lost(parts, caps=True, groups=True)
    lost.append("waiting: a connection above a limit is refused, not queued; whoever retries fastest gets in")
    lost.append("order: among those let in, first come, first served")
    return HowTo("nginx", text, tuple(lost))


def _null(limit: int | None) -> str:
    return "null" if limit is None else str(limit)


def _quoted(key: str) -> str:
    return key.replace("\\", "\\\\").replace('"', '\\"')
