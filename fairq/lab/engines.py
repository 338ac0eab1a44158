"""The engine chooser: which engines there are, what each lets a reader turn, and how one becomes another.

Pure data, as all settings. A knob is shown only for the engine that has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairq.lab.setting import FAILS, SERVES, Path, Setting
from fairq.models import model_names
from fairq.profiles import profile_names
from fairq.scenario import Scenario, ScenarioError
from fairq.scenario.alternatives import WAYS, card_ways, unfit_ways
from fairq.scenario.engines import ENGINES, BatchingSpec
from fairq.scenario.fleets import CardSpec, PartsSpec, ReplicasSpec
from fairq.scenario.spec import plain
from fairq.sim.replicas import LABELS

KINDS: Mapping[str, str] = {
    "slots": "slots",
    "batching": "continuous batching",
    "one_engine": "card: one engine",
    "partitioned": "card: MIG slices",
    "mps": "card: MPS",
    "time_sliced": "card: time-slicing",
    "replicas": "replicas",
}
"""Kinds of engine in the order of the menu, with the words for each."""

SMALL_MODEL = "llama31-8b-int4"
"""What a card serves when it is first chosen: half of a 24 GB card cannot hold the 8B model in 16 bits."""
SEQS = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256, 512)
BUDGETS = (256, 512, 1024, 2048, 4096, 8192, 16_384)
KV = (0, 4096, 8192, 12_288, 16_384, 24_576, 32_768, 41_408, 65_536, 98_304, 131_072, 262_144)
CONTEXTS = (1024, 2048, 4096, 8192, 12_000, 16_384, 32_768, 65_536, 131_072)
MOST_PLACES = 8
DOWN_S = 60.0
"""How long "unhealthy now" lasts unless told otherwise."""


def kind_of(scenario: Scenario) -> str:
    return str(scenario.engine_spec.data()["kind"])


def engine(scenario: Scenario) -> list[Setting]:
    """The settings of the scenario's engine, other than slots."""
    spec = scenario.engine_spec
    if isinstance(spec, BatchingSpec):
        return _batching(spec)
    if isinstance(spec, ReplicasSpec):
        return [*_card(spec), *_replicas(spec), *_failure(scenario, spec, spec.replicas, "Replica")]
    if isinstance(spec, PartsSpec):
        failing = _failure(scenario, spec, spec.parts, "Part")
        return [*_card(spec), *_parts(spec), *failing, *_failure_kind(spec)]
    return []


def engine_as(scenario: Scenario, kind: str) -> dict[str, Any]:
    """The scenario's engine as one of another kind, with what both have in common; plain data.

    Raises
    ------
    ScenarioError : no such kind, or the model does not fit such an engine.
    """
    spec = scenario.engine_spec
    if kind not in KINDS:
        raise ScenarioError(
            scenario.source, [f"engine.kind: must be one of {', '.join(KINDS)}, got {kind!r}"]
        )
    data: dict[str, Any] = scenario.data()["engine"]
    if kind == data["kind"]:
        return data
    if kind == "slots":
        return {"kind": "slots", "slots": 8}
    if isinstance(spec, PartsSpec) and kind in WAYS:
        if WAYS[kind] in unfit_ways(scenario):
            raise ScenarioError(scenario.source, [f"engine: {unfit_ways(scenario)[WAYS[kind]]}"])
        made: dict[str, Any] = card_ways(scenario)[WAYS[kind]].data()["engine"]
        return made
    shared: dict[str, Any] = {
        name: value
        for name, value in data.items()
        if name in ENGINES[kind].model_fields and name not in ("kind", "kv_tokens", "outages")
    }
    if kind == "batching":
        return {"kind": kind, "max_num_seqs": 64, **shared, **_without_memory(spec)}
    if not isinstance(spec, CardSpec):
        seqs = min(shared.get("max_num_seqs", 64), 64)
        shared = {"model": SMALL_MODEL, **shared, "max_num_seqs": seqs}
    parts = {"one_engine": 1}.get(kind, 2)
    if kind == "replicas":
        parts = max(2, getattr(spec, "parts", 2))
        shared["replicas"] = parts
    else:
        shared["parts"] = parts
        if parts > 1:
            groups = list(scenario.tenants)
            shared["place"] = {group: min(i, parts - 1) for i, group in enumerate(groups)}
    outages = [each for each in data.get("outages", []) if each.get("part", 0) < parts]
    return {"kind": kind, **shared, **({"outages": outages} if outages else {})}


def outages(settings: Sequence[Setting], values: Mapping[str, Any]) -> dict[Path, Any]:
    """The failures of the engine, if one of their settings was turned."""
    mine = [setting for setting in settings if setting.outage]
    now = {s.outage: values.get(s.name, s.default) for s in mine}
    if all(now[s.outage] == s.default for s in mine):
        return {}
    others = [other for setting in mine for other in setting.others]
    return {("engine", "outages"): [now, *others] if now["down_s"] else others}


def _without_memory(spec: Any) -> dict[str, Any]:
    """What a card's memory and model say, as one batching engine is told it."""
    if not isinstance(spec, CardSpec):
        return {}
    profile = spec.profile if spec.model is None else plain(spec.card_profile().as_dict())
    return {"profile": profile, "kv_tokens": spec.tokens_of_part(1)}


def _batching(spec: BatchingSpec) -> list[Setting]:
    gateway = -1 if spec.gateway_slots is None else spec.gateway_slots
    return [
        *_profile(spec.profile),
        _seqs(spec.max_num_seqs),
        Setting(
            "gateway_slots",
            "Gateway releases",
            "How many requests the gateway hands to the engine at once; 0: no limit; "
            "-1: as many as may run at once. What does not fit waits inside, out of reach of the policy",
            SERVES,
            gateway,
            -1,
            100_000,
            choices=(-1, 0, *SEQS),
            paths=(("engine", "gateway_slots"),),
            unset=-1,
        ),
        Setting(
            "kv_tokens",
            "KV cache (tokens)",
            "Tokens that the KV cache holds; 0: what the profile says",
            SERVES,
            spec.kv_tokens or 0,
            0,
            100_000_000,
            choices=KV,
            paths=(("engine", "kv_tokens"),),
            unset=0,
        ),
        _budget(spec.max_num_batched_tokens),
        Setting(
            "scheduling",
            "Inside it goes",
            "The order of the engine's own queue (vLLM's --scheduling-policy)",
            SERVES,
            spec.scheduling,
            menu=(("first come", "fcfs"), ("by priority", "priority")),
            paths=(("engine", "scheduling"),),
        ),
    ]


def _card(spec: CardSpec) -> list[Setting]:
    models = (*model_names(), *([spec.model] if spec.model and spec.model not in model_names() else []))
    memory = [
        Setting(
            "card_gib",
            "Card (GiB)",
            "Memory that one card shows (a 24 GB card: 23.5)",
            SERVES,
            float(spec.card_gib or 23.5),
            1,
            2048,
            0.5,
            choices=(11.5, 15.5, 23.5, 31.5, 39.5, 47.5, 79.2),
            paths=(("engine", "card_gib"),),
        ),
        Setting(
            "kv_tokens",
            "KV cache (tokens)",
            "Tokens that the KV cache of each engine holds; 0: what its memory leaves",
            SERVES,
            spec.kv_tokens or 0,
            0,
            100_000_000,
            choices=KV,
            paths=(("engine", "kv_tokens"),),
            unset=0,
        ),
        Setting(
            "context",
            "Longest request",
            "Tokens of the longest request; an engine that cannot hold one does not start",
            SERVES,
            spec.context,
            1,
            10_000_000,
            choices=CONTEXTS,
            paths=(("engine", "context"),),
        ),
    ]
    return [
        *_profile(spec.profile),
        Setting(
            "model",
            "Model",
            "The model served; the profile is scaled to it",
            SERVES,
            spec.model or "",
            menu=(("the profile's", ""), *((name, name) for name in models)),
            paths=(("engine", "model"),),
            unset="",
        ),
        _seqs(spec.max_num_seqs),
        *memory,
        _budget(spec.max_num_batched_tokens),
    ]


def _parts(spec: PartsSpec) -> list[Setting]:
    if spec.data()["kind"] == "one_engine":
        return []
    places = [
        Setting(
            f"part_{name}",
            f"Part of {name}",
            f"Which part of the card serves {name}, from 0",
            SERVES,
            int(part),
            0,
            64,
            slide=(0, max(1, spec.parts - 1)),
            paths=(("engine", "place", name),),
        )
        for name, part in list(spec.place.items())[:MOST_PLACES]
    ]
    return [
        Setting(
            "parts",
            "Parts",
            "How many engines share the card",
            SERVES,
            spec.parts,
            1,
            64,
            slide=(1, 7),
            paths=(("engine", "parts"),),
        ),
        *places,
    ]


def _replicas(spec: ReplicasSpec) -> list[Setting]:
    return [
        Setting(
            "replicas",
            "Replicas",
            "How many engines, each on a card of its own",
            SERVES,
            spec.replicas,
            1,
            256,
            slide=(1, 8),
            paths=(("engine", "replicas"),),
        ),
        Setting(
            "router",
            "Router",
            "Which replica a request goes to",
            SERVES,
            spec.router,
            menu=tuple((words, name) for name, words in LABELS.items()),
            paths=(("engine", "router"),),
        ),
        Setting(
            "slack",
            "Guard (requests)",
            "How many requests more than the least busy one the replica with the longest prefix may have",
            SERVES,
            float(spec.slack),
            0,
            10_000,
            slide=(0, 32),
            paths=(("engine", "slack"),),
            only=("router", "prefix"),
        ),
        Setting(
            "cache_tokens",
            "Prefix cache",
            "Tokens of each engine's KV that keep old prompts; -1: half of them",
            SERVES,
            -1 if spec.cache_tokens is None else spec.cache_tokens,
            -1,
            100_000_000,
            choices=(-1, 0, 5000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000, 200_000),
            paths=(("engine", "cache_tokens"),),
            unset=-1,
        ),
    ]


def _failure(scenario: Scenario, spec: CardSpec, members: int, word: str) -> list[Setting]:
    """The first failure, as numbers; with nothing in the scenario it stands ready and lasts 0 s."""
    first, *others = spec.outages or (None,)
    half = 0.5 * float(scenario.horizon_s or 600)
    kept = tuple(plain(other) for other in others)
    return [
        Setting(
            "outage_at",
            "Fails at (s)",
            "When it fails",
            FAILS,
            float(half if first is None else first.at_s),
            0,
            1e7,
            5.0,
            slide=(0.0, 2 * half),
            outage="at_s",
            others=kept,
        ),
        Setting(
            "outage_part",
            word,
            "Which one fails, from 0",
            FAILS,
            0 if first is None else int(first.part),
            0,
            max(members - 1, 1),
            outage="part",
        ),
        Setting(
            "outage_s",
            "Down for (s)",
            "How long until it is back, with nothing in its memory; 0: nothing fails",
            FAILS,
            0.0 if first is None else float(first.down_s),
            0,
            1e7,
            5.0,
            slide=(0.0, 300.0),
            outage="down_s",
        ),
    ]


def _failure_kind(spec: PartsSpec) -> list[Setting]:
    first = spec.outages[0].kind if spec.outages else "fault"
    return [
        Setting(
            "outage_kind",
            "By",
            "A fault of the process, or out of memory: under MPS that takes the neighbours along",
            FAILS,
            first,
            menu=(("a fault", "fault"), ("out of memory", "oom")),
            outage="kind",
        )
    ]


def _profile(profile: Any) -> list[Setting]:
    names = profile_names()
    if profile not in names:
        return []  # coefficients, or a file: nothing to choose among
    return [
        Setting(
            "profile",
            "Profile",
            "The card and the model that the step times were measured or modelled with",
            SERVES,
            profile,
            menu=tuple((name, name) for name in names),
            paths=(("engine", "profile"),),
        )
    ]


def _seqs(value: int) -> Setting:
    return Setting(
        "max_num_seqs",
        "Runs at once",
        "How many requests one engine runs at once (vLLM's --max-num-seqs, llama.cpp's -np)",
        SERVES,
        int(value),
        1,
        100_000,
        choices=SEQS,
        paths=(("engine", "max_num_seqs"),),
    )


def _budget(value: int) -> Setting:
    return Setting(
        "max_num_batched_tokens",
        "Tokens of a step",
        "Tokens that one step computes, prompts and answers together (--max-num-batched-tokens)",
        SERVES,
        int(value),
        1,
        1_000_000,
        choices=BUDGETS,
        paths=(("engine", "max_num_batched_tokens"),),
    )
