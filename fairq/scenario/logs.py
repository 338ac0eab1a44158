"""The ``log:`` of a scenario, in place of ``tenants:``: a file of requests → a trace that is replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from fairq.files import InputError
from fairq.scenario.spec import Count, Limit, Name, NonNegative, Positive, ScenarioError, Spec, at_least
from fairq.workload.readers import Log, read_log
from fairq.workload.trace import Trace, TraceError


class LogError(InputError, TraceError):
    """A log that cannot be read, met in a scenario."""


class LogSpec(Spec):
    """``{file: requests.csv, arrival: arrived_s, prompt_tokens: …, output_tokens: …, tenant: user}``.

    ``file`` (CSV, JSONL, JSON or Parquet) is relative to the scenario's own folder. Columns may be left out
    where the ``form`` is known. Without a ``tenant`` column all is one tenant's, or ``tenants: N`` draws one
    per row (``zipf``, ``seed``). ``skip_bad`` leaves out rows that cannot be read; ``hash_keys`` hides names
    under that text. ``load`` makes the same requests come that many times as densely, ``burst`` in clumps of
    about that many.
    """

    file: Name
    form: Name | None = None
    arrival: Name | None = None
    prompt_tokens: Name | None = None
    output_tokens: Name | None = None
    tenant: Name | None = None
    tenants: Count | None = None
    zipf: NonNegative = 1.0
    seed: Limit = 0
    key: Name | None = None
    priority: Name | None = None
    start: Name | None = None
    first_token: Name | None = None
    finish: Name | None = None
    time_unit: Literal["s", "ms", "us", "ns", "iso"] | None = None
    weights: dict[Name, Positive] = Field(default={})
    skip_bad: bool = False
    hash_keys: Name | None = None
    load: Positive = 1
    burst: Annotated[float, at_least(1)] = 1

    def read(self, folder: Path, source: str) -> Log:
        """The log as it is in the file. Raises LogError, ScenarioError (no such file)."""
        options = {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name not in ("file", "load", "burst")
        }
        try:
            return read_log(folder / self.file, **options)
        except TraceError as error:
            raise LogError(str(error)) from None
        except OSError as error:
            raise ScenarioError(
                source, [f"log.file: cannot be read ({error.strerror}), got {self.file!r}"]
            ) from None

    def scaled(self, trace: Trace) -> Trace:
        """The requests to replay."""
        return trace if self.load == self.burst == 1 else trace.scaled(self.load, self.burst)
