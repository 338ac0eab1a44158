"""Public traces: where they are, whose, under which licence, and the checksum of the copy that was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath

from fairq.files import InputError, nearest


@dataclass(frozen=True)
class Public:
    """One public file, pinned to a commit of its GitHub repository."""

    name: str
    repo: str
    commit: str
    path: str
    sha256: str
    licence: str
    about: str

    @property
    def address(self) -> str:
        return f"https://raw.githubusercontent.com/{self.repo}/{self.commit}/{self.path}"

    @property
    def file_name(self) -> str:
        """The name it is kept under: ours, with the suffix of theirs."""
        return self.name + PurePosixPath(self.path).suffix

    def check(self, content: bytes, source: str) -> None:
        """Raises InputError when ``content`` (read from ``source``) is not that file, byte for byte."""
        found = sha256(content).hexdigest()
        if found != self.sha256:
            raise InputError(
                f"{source}: wrong checksum for {self.name}, nothing was kept:"
                f" sha256 must be {self.sha256}, got {found}"
            )


_AZURE = ("Azure/AzurePublicDataset", "b469a113cedca53ddc3bdea71a143dc4b7d8700c")

_ALL = (
    Public(
        "azure-conv-2023",
        *_AZURE,
        "data/AzureLLMInferenceTrace_conv.csv",
        "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
        "CC-BY-4.0",
        "one hour of a production chat service, 19,366 requests, no tenants",
    ),
    Public(
        "azure-code-2023",
        *_AZURE,
        "data/AzureLLMInferenceTrace_code.csv",
        "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
        "CC-BY-4.0",
        "one hour of a production code-completion service, 8,819 requests, very bursty, no tenants",
    ),
    Public(
        "mooncake-conversation",
        "kvcache-ai/Mooncake",
        "3b5a594133958449a1feaf1c9e0fc1b553e34a28",
        "FAST25-release/traces/conversation_trace.jsonl",
        "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
        "Apache-2.0",
        "one hour of a long-context chat service with prefix blocks, 12,031 requests",
    ),
    Public(
        "vtc-arena",
        "Ying1123/VTC-artifact",
        "192c2e2014c69c8c6c699d7113c3822e4db632e6",
        "fair_bench/VTC/all_results_real.jsonl",
        "9a3903fc1dae419096b2cdd40910acb391a34ec4bb731729814a4760a558da67",
        "Apache-2.0",
        "27 tenants over ten minutes, with what the VTC scheduler made of them on an A10G",
    ),
    Public(
        "vllm-rtx4090",
        "casys-kaist/LLMServingSim",
        "5daddb21a545658d5150b535712d0494584b5278",
        "bench/examples/RTX4090/Llama-3.1-8B/vllm/requests.jsonl",
        "5a6f2a0b09d5eb84bd75b30ed625d883c22b4bcc0a839cd1128ae42f74ecc90d",
        "MIT",
        "a real vLLM run on an RTX 4090, Llama-3.1-8B, 300 requests",
    ),
)

PUBLIC: Mapping[str, Public] = {each.name: each for each in _ALL}


def public(name: str) -> Public:
    """The public trace of that name. Raises InputError, which lists the names."""
    if name not in PUBLIC:
        raise InputError(f"no public trace {name!r}; there are: {', '.join(PUBLIC)}{nearest(name, PUBLIC)}")
    return PUBLIC[name]
