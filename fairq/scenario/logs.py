"""The ``log:`` of a scenario, in place of ``tenants:``: a CSV file → a trace that is replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from fairq.files import InputError
from fairq.scenario.spec import Count, Limit, Name, NonNegative, Positive, ScenarioError, Spec
from fairq.workload.trace import Form, Trace, TraceError, form_of, read_csv


class LogError(InputError, TraceError):
    """A log that cannot be read, met in a scenario."""


class LogSpec(Spec):
    """``{file: requests.csv, arrival: arrived_s, prompt_tokens: …, output_tokens: …, tenant: user}``.

    ``file`` is relative to the scenario's own folder. Columns may be left out where the header is known.
    Without a ``tenant`` column all is one tenant's, or ``tenants: N`` draws one per row (``zipf``, ``seed``).
    ``load`` makes the same requests come that many times as densely.
    """

    file: Name
    arrival: Name | None = None
    prompt_tokens: Name | None = None
    output_tokens: Name | None = None
    tenant: Name | None = None
    tenants: Count | None = None
    zipf: NonNegative = 1.0
    seed: Limit = 0
    key: Name | None = None
    priority: Name | None = None
    time_unit: Literal["s", "ms", "us", "ns", "iso"] | None = None
    weights: dict[Name, Positive] = Field(default={})
    load: Positive = 1

    def build(self, folder: Path, source: str) -> Trace:
        """Reads the log. Raises TraceError, ScenarioError (columns not named and not known)."""
        path = folder / self.file
        try:
            form = self._form(path, source)
            trace = read_csv(
                path,
                arrival=form.arrival,
                prompt_tokens=form.prompt_tokens,
                output_tokens=form.output_tokens,
                tenant=form.tenant,
                tenants=self.tenants,
                zipf=self.zipf,
                seed=self.seed,
                key=self.key,
                priority=self.priority,
                time_unit=self.time_unit,
                weights=self.weights,
            )
        except TraceError as error:
            raise LogError(str(error)) from None
        except OSError as error:
            raise ScenarioError(
                source, [f"log.file: cannot be read ({error.strerror}), got {self.file!r}"]
            ) from None
        return trace if self.load == 1 else trace.scaled(self.load)

    def _form(self, path: Path, source: str) -> Form:
        named = {name: getattr(self, name) for name in ("arrival", "prompt_tokens", "output_tokens")}
        missing = [name for name, column in named.items() if column is None]
        known = form_of(path) if missing else None
        if missing and known is None:
            raise ScenarioError(source, [f"log.{name}: is missing (which column?)" for name in missing])
        if known is not None:
            named = {name: column or getattr(known, name) for name, column in named.items()}
        by_form = known.tenant if known is not None and self.tenants is None else None
        return Form(**named, tenant=self.tenant or by_form)
