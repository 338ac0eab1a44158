"""What four engines call the same things on their ``/metrics`` page.

Sources, each the engine's own: vLLM ``v1/metrics/loggers.py`` (``gpu_cache_usage_perc`` and
``time_per_output_token_seconds`` are its older names); SGLang "Production Metrics"; llama.cpp
``tools/server`` (started with ``--metrics``; ``kv_cache_usage_ratio`` was dropped in 2025); TensorRT-LLM:
``trtllm-serve`` (``/prometheus/metrics``) and the Triton backend (``nv_trt_llm_*``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Selector:
    """A series by name and labels."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        inside = ",".join(f'{key}="{value}"' for key, value in self.labels.items())
        return f"{self.name}{{{inside}}}" if inside else self.name


def _(name: str, **labels: str) -> Selector:
    return Selector(name, labels)


NEEDED = ("running", "waiting")
"""Without these there is nothing to watch."""

WANTED = ("generated", "kv")
"""Without these there are no tokens/s, and KV cannot be judged."""

GAUGES = ("running", "waiting", "kv", "slots")
COUNTERS = ("generated", "prompted", "finished", "preemptions")
HISTOGRAMS = ("ttft", "tpot", "latency")
"""In seconds; read as the ``_sum`` and ``_count`` of the name."""


@dataclass(frozen=True)
class EngineNames:
    """One engine: what it is called, the prefix of its series, and their names (the first found counts)."""

    name: str
    prefix: str
    series: Mapping[str, Sequence[Selector]]
    hint: str


VLLM = EngineNames(
    "vLLM",
    "vllm:",
    {
        "running": [_("vllm:num_requests_running")],
        "waiting": [_("vllm:num_requests_waiting")],
        "kv": [_("vllm:kv_cache_usage_perc"), _("vllm:gpu_cache_usage_perc")],
        "generated": [_("vllm:generation_tokens_total")],
        "prompted": [_("vllm:prompt_tokens_total")],
        "finished": [_("vllm:request_success_total")],
        "preemptions": [_("vllm:num_preemptions_total")],
        "ttft": [_("vllm:time_to_first_token_seconds")],
        "tpot": [
            _("vllm:request_time_per_output_token_seconds"),
            _("vllm:inter_token_latency_seconds"),
            _("vllm:time_per_output_token_seconds"),
        ],
        "latency": [_("vllm:e2e_request_latency_seconds")],
    },
    "vLLM serves /metrics unless started with --disable-log-stats",
)

SGLANG = EngineNames(
    "SGLang",
    "sglang:",
    {
        "running": [_("sglang:num_running_reqs")],
        "waiting": [_("sglang:num_queue_reqs")],
        "kv": [_("sglang:token_usage")],
        "slots": [_("sglang:max_running_requests")],
        "generated": [_("sglang:generation_tokens_total")],
        "prompted": [_("sglang:prompt_tokens_total")],
        "finished": [_("sglang:num_requests_total"), _("sglang:e2e_request_latency_seconds_count")],
        "preemptions": [_("sglang:num_retracted_requests_total")],
        "ttft": [_("sglang:time_to_first_token_seconds")],
        "tpot": [_("sglang:inter_token_latency_seconds"), _("sglang:time_per_output_token_seconds")],
        "latency": [_("sglang:e2e_request_latency_seconds")],
    },
    "SGLang serves /metrics only with --enable-metrics",
)

LLAMA_CPP = EngineNames(
    "llama.cpp",
    "llamacpp:",
    {
        "running": [_("llamacpp:requests_processing")],
        "waiting": [_("llamacpp:requests_deferred")],
        "kv": [_("llamacpp:kv_cache_usage_ratio")],
        "generated": [_("llamacpp:tokens_predicted_total")],
        "prompted": [_("llamacpp:prompt_tokens_total")],
    },
    "llama.cpp's server serves /metrics only with --metrics",
)

TRTLLM = EngineNames(
    "TensorRT-LLM",
    "trtllm_",
    {
        "running": [_("trtllm_num_requests_running")],
        "waiting": [_("trtllm_num_requests_waiting")],
        "kv": [_("trtllm_kv_cache_utilization")],
        "generated": [_("trtllm_generation_tokens_total")],
        "prompted": [_("trtllm_prompt_tokens_total")],
        "finished": [_("trtllm_request_success_total")],
        "ttft": [_("trtllm_time_to_first_token_seconds")],
        "tpot": [_("trtllm_time_per_output_token_seconds")],
        "latency": [_("trtllm_e2e_request_latency_seconds")],
    },
    "trtllm-serve has its page at /prometheus/metrics",
)

TRITON = EngineNames(
    "TensorRT-LLM in Triton",
    "nv_trt_llm_",
    {
        "running": [
            _("nv_trt_llm_request_metrics", request_type="scheduled"),
            _("nv_trt_llm_request_metrics", request_type="active"),
        ],
        "waiting": [_("nv_trt_llm_request_metrics", request_type="waiting")],
        "slots": [_("nv_trt_llm_request_metrics", request_type="max")],
        "kv": [_("nv_trt_llm_kv_cache_block_metrics", kv_cache_block_type="fraction")],
        "finished": [_("nv_inference_request_success")],
    },
    "Triton has its page at port 8002",
)

ENGINES: Mapping[str, EngineNames] = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "llamacpp": LLAMA_CPP,
    "trtllm": TRTLLM,
    "triton": TRITON,
}

SPEED = "fairq_simulation_speed"
"""Simulated seconds per second, where a simulation serves the page."""
CLOCK = "fairq_simulated_seconds"
"""The simulation's clock."""
