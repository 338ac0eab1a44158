"""The kinds of log that are known by their columns, and which column is what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fairq.files import nearest
from fairq.workload.trace import TraceError


@dataclass(frozen=True)
class Columns:
    """Which column is what; ``""``: there is none. A dotted name reaches into nested JSON.

    ``tenant`` may name several columns: the first that is not empty in a row counts. ``start`` (service
    granted), ``first_token`` and ``finish`` are times like ``arrival``; ``ttft`` and ``latency`` are seconds
    (times ``durations``) since the arrival.
    """

    arrival: str
    prompt_tokens: str
    output_tokens: str
    tenant: tuple[str, ...] = ()
    key: str = ""
    priority: str = ""
    start: str = ""
    first_token: str = ""
    finish: str = ""
    ttft: str = ""
    latency: str = ""
    durations: float = 1.0

    def used(self) -> list[str]:
        """Every column named, once, in the order of the fields."""
        named = [
            getattr(self, each.name) for each in fields(self) if each.name not in ("tenant", "durations")
        ]
        return list(dict.fromkeys([*filter(None, named[:3]), *self.tenant, *filter(None, named[3:])]))


@dataclass(frozen=True)
class Drop:
    """Rows that are no served requests: those whose ``column`` is one of ``values``."""

    column: str
    values: tuple[Any, ...]
    why: str


@dataclass(frozen=True)
class Form:
    """A kind of log. Every field lists the names its column may have, the best first.

    ``time_unit`` as in ``read_log``; ``shape``: how the rows lie in the file (``rows``, or one JSON object
    that holds them: ``responses``, ``arrays``). ``source``: where the names were read.
    ``needs``: columns without which it is not this form. ``one_run``: columns that tell several runs in one
    file apart; the first run is read. ``as_it_is``: times count from the beginning of the run and are
    believed to the last digit, where those of other programs are counted from the first arrival.
    """

    name: str
    arrival: tuple[str, ...]
    prompt_tokens: tuple[str, ...]
    output_tokens: tuple[str, ...]
    tenant: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    priority: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    first_token: tuple[str, ...] = ()
    finish: tuple[str, ...] = ()
    ttft: tuple[str, ...] = ()
    latency: tuple[str, ...] = ()
    durations: Mapping[str, float] = field(default_factory=dict)
    time_unit: str | None = None
    drop: tuple[Drop, ...] = ()
    shape: str = "rows"
    source: str = ""
    needs: tuple[str, ...] = ()
    one_run: tuple[str, ...] = ()
    as_it_is: bool = False

    def columns(self, header: Iterable[str]) -> Columns | None:
        """Which columns of this header they are; None when one that is needed is not there."""
        there = set(header)

        def one(names: tuple[str, ...]) -> str:
            return next((name for name in names if name in there), "")

        arrival, prompt, output = one(self.arrival), one(self.prompt_tokens), one(self.output_tokens)
        if not (arrival and prompt and output and there.issuperset(self.needs)):
            return None
        latency = one(self.latency)
        return Columns(
            arrival,
            prompt,
            output,
            tenant=tuple(name for name in self.tenant if name in there),
            key=one(self.key),
            priority=one(self.priority),
            start=one(tuple(name for name in self.start if name != arrival)),
            first_token=one(self.first_token),
            finish=one(self.finish),
            ttft=one(self.ttft),
            latency=latency,
            durations=self.durations.get(latency, 1.0),
        )


_ALL = (
    Form(
        "azure 2023/2024",
        ("TIMESTAMP",),
        ("ContextTokens",),
        ("GeneratedTokens",),
        source="github Azure/AzurePublicDataset: 2023 without a zone and seven decimals, 2024 with +00:00",
    ),
    Form(
        "burstgpt",
        ("Timestamp",),
        ("Request tokens",),
        ("Response tokens",),
        tenant=("Session ID",),
        latency=("Elapsed time",),
        time_unit="s",
        drop=(Drop("Response tokens", (0, "0"), "failed (no response tokens)"),),
        source="github HPMLL/BurstGPT",
    ),
    Form(
        "mooncake",
        ("timestamp",),
        ("input_length",),
        ("output_length",),
        time_unit="ms",
        source="github kvcache-ai/Mooncake, FAST25-release/traces",
    ),
    Form(
        "vllm run",
        ("queued_ts",),
        ("input_toks",),
        ("output_toks",),
        start=("scheduled_ts",),
        first_token=("first_token_ts",),
        finish=("last_token_ts",),
        time_unit="s",
        source="github casys-kaist/LLMServingSim, bench/",
    ),
    Form(
        "vllm bench result",
        ("start_times",),
        ("input_lens",),
        ("output_lens",),
        ttft=("ttfts",),
        latency=("ttfts+itls",),
        time_unit="s",
        shape="arrays",
        source="vllm bench serve --save-result --save-detailed",
    ),
    Form(
        "vtc arena",
        ("arrived_s",),
        ("input_tokens",),
        ("output_tokens",),
        tenant=("tenant",),
        key=("key",),
        # Not "priority": others write that, and may mean that more goes first, or words.
        priority=("priority_level",),
        start=("start_s",),
        ttft=("first_token_s",),
        latency=("latency_s",),
        time_unit="s",
        source="the form `fairq log convert` writes",
    ),
    Form(
        "vtc artifact",
        ("req_time",),
        ("prompt_len",),
        ("output_len",),
        tenant=("adapter_dir",),
        ttft=("first_token_latency",),
        latency=("request_latency",),
        time_unit="s",
        shape="responses",
        source="github Ying1123/VTC-artifact, fair_bench/",
    ),
    Form(
        "litellm spend logs",
        ("startTime",),
        ("prompt_tokens",),
        ("completion_tokens",),
        tenant=("user", "end_user", "api_key"),
        key=("api_key",),
        first_token=("completionStartTime",),
        finish=("endTime",),
        drop=(
            Drop("status", ("failure",), "failed"),
            Drop("cache_hit", ("True", "true", True), "answered from the cache"),
        ),
        source="github BerriAI/litellm, schema.prisma, LiteLLM_SpendLogs",
    ),
    Form(
        "fairq run",
        ("arrival",),
        ("prompt_tokens",),
        ("output_tokens",),
        tenant=("tenant",),
        key=("key",),
        priority=("priority",),
        start=("start",),
        first_token=("first_token",),
        finish=("finish",),
        time_unit="s",
        source="requests.csv of `fairq run --out`, and `Result.to_csv`: the first policy's first run",
        needs=("start", "first_token", "finish", "cost_estimate", "status", "dispatch"),
        one_run=("policy", "replication"),
        as_it_is=True,
    ),
    Form(
        "openai-style gateway log",
        (
            *("arrival", "arrival_time", "start_time", "started_at", "start", "request_time"),
            *("created_at", "created", "timestamp", "time", "ts"),
        ),
        (
            *("usage.prompt_tokens", "usage.input_tokens", "response.usage.prompt_tokens"),
            *("response.usage.input_tokens", "prompt_tokens", "input_tokens"),
        ),
        (
            *("usage.completion_tokens", "usage.output_tokens", "response.usage.completion_tokens"),
            *("response.usage.output_tokens", "completion_tokens", "output_tokens"),
        ),
        tenant=(
            *("user", "user_id", "tenant", "end_user", "request.user", "team", "team_id"),
            *("api_key", "api_key_id", "key", "key_id"),
        ),
        key=("api_key", "api_key_id", "key", "key_id"),
        start=("start_time", "started_at", "start"),
        first_token=("first_token_time", "first_token_at", "first_token"),
        finish=("end_time", "ended_at", "end", "finished_at", "completed_at", "finish"),
        latency=("latency_s", "duration_s", "latency_ms", "duration_ms", "response_time_ms"),
        durations={"latency_ms": 1e-3, "duration_ms": 1e-3, "response_time_ms": 1e-3},
        source="the field names of the OpenAI API and of gateways around it",
    ),
)

_OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "tenant": (),
    "key": (),
    "priority": (),
    "start": (),
    "first_token": ("ttft",),
    "finish": ("latency",),
}
"""Fields that a log need not have, and what says as much."""

FORMS: Mapping[str, Form] = {form.name: form for form in _ALL}


def known_as(field_name: str, header: Iterable[str]) -> bool:
    """Whether a column of the header has a name that some form knows for that field."""
    return not _names(field_name).isdisjoint(header)


def _names(field_name: str) -> set[str]:
    """The names of columns that some form knows for that field."""
    return {name for form in FORMS.values() for name in getattr(form, field_name)}


def unread(columns: Columns, header: Iterable[str]) -> dict[str, str]:
    """Fields that nobody named → a column that is called like one all the same, and is not read."""
    names, used = list(header), {*columns.used()}
    found = {}
    for field_name, instead in _OPTIONAL.items():
        if any(getattr(columns, name) for name in (field_name, *instead)):
            continue
        known = {name.casefold() for name in (field_name, *_names(field_name))}
        hit = next((name for name in names if name not in used and name.casefold() in known), None)
        if hit is not None:
            found[field_name] = hit
    return found


def find_form(header: Iterable[str], shape: str, source: str, named: str | None = None) -> Form | None:
    """The form named, or the first whose columns are in the header; None when there is none.

    Raises
    ------
    TraceError : no form of that name, or its columns are not there.
    """
    names = list(header)
    if named is None:
        fitting = (form for form in FORMS.values() if form.shape == shape and form.columns(names) is not None)
        return next(fitting, None)
    if named not in FORMS:
        raise TraceError(
            f"{source}: form must be one of {', '.join(FORMS)}, got {named!r}{nearest(named, FORMS)}"
        )
    form = FORMS[named]
    if form.shape != shape or form.columns(names) is None:
        raise TraceError(f"{source}: is not a {named} log; it has: {', '.join(names[:20]) or 'nothing'}")
    return form
