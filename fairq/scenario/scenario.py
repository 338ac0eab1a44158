"""A whole experiment as plain data: who asks, who goes next, what serves."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from fairq import Policy
from fairq.data import data_names, data_path
from fairq.files import nearest
from fairq.scenario.engines import AnyEngine, EngineSpec, SlotsSpec
from fairq.scenario.logs import LogSpec
from fairq.scenario.policies import AnyPolicy, Names, PolicySpec
from fairq.scenario.spec import Limit, Name, NonNegative, Positive, ScenarioError, Spec, plain, validated
from fairq.scenario.tenants import TenantSpec, too_many
from fairq.scenario.yaml_files import read_yaml, to_yaml, write_yaml
from fairq.workload import Workload
from fairq.workload.readers import Log
from fairq.workload.trace import Trace


class ScenarioSpec(Spec):
    """The fields of a scenario file: ``tenants`` with ``horizon_s``, or a ``log``."""

    name: Name
    seed: Limit = 0
    horizon_s: Positive | None = None
    warmup_s: NonNegative = 0
    engine: AnyEngine = SlotsSpec()
    tenants: dict[Name, TenantSpec] = Field(default={})
    log: LogSpec | None = None
    policies: dict[Name, AnyPolicy]


LOG_POLICIES: Mapping[str, Any] = {
    "FIFO": {"policy": "fifo"},
    "capped": {"policy": "caps", "default": 2, "around": {"policy": "fifo"}},
    "aged": {"policy": "priority", "ageing_s": 600},
    "fair": {"policy": "drr", "quantum": 500},
}
"""What a log is replayed under unless told otherwise. "aged" alone looks at priorities: it is left out where
these are all equal."""


class Scenario:
    """One experiment. Immutable: ``with_`` gives a changed copy; everything it builds is fresh.

    Attributes: ``name``, ``seed``, ``horizon_s`` (None for a log), ``warmup_s``, ``tenants`` and ``policies``
    (specs by name), ``log``, ``source`` (the file, for messages), ``spec`` (all of it).
    """

    def __init__(self, spec: ScenarioSpec, source: str = "scenario", folder: Path | None = None) -> None:
        self.spec = spec
        self.source = source
        self.folder = Path() if folder is None else folder
        self._log: Log | None = None
        self._trace: Trace | None = None
        self._check()

    # -- in and out -------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scenario:
        """Reads a file, or a shipped scenario by its bare name (``noisy_burst``).

        Raises
        ------
        ScenarioError : no such file, or something wrong in it; names file, field and value.
        """
        found = _find(path)
        try:
            return cls.from_data(read_yaml(found), str(path), found.parent)
        except OSError as error:
            raise ScenarioError(str(path), [f"cannot be read: {error.strerror}"]) from None

    @classmethod
    def from_data(cls, data: Any, source: str = "scenario", folder: Path | None = None) -> Scenario:
        """From plain data, as ``data()`` gives it; ``folder`` holds a log's file. Raises ScenarioError."""
        return cls(validated(ScenarioSpec, data, source), source, folder)

    @classmethod
    def from_log(
        cls,
        path: str | os.PathLike[str],
        *,
        engine: Mapping[str, Any] | None = None,
        policies: Mapping[str, Any] | None = None,
        **columns: Any,
    ) -> Scenario:
        """A log replayed under ``policies`` (default: FIFO, capped, aged where the log has priorities that
        differ, and fair). ``columns``: see LogSpec.

        Raises
        ------
        ScenarioError, TraceError : a bad field; a bad log.
        """
        file = Path(path).absolute()
        given = {name: value for name, value in columns.items() if value is not None}
        data: dict[str, Any] = {"name": file.stem, "log": {"file": str(file), **given}}
        if engine is not None:
            data["engine"] = plain(engine)
        data["policies"] = plain(LOG_POLICIES if policies is None else policies)
        scenario = cls.from_data(data, str(path), file.parent)
        priorities = getattr(scenario.workload(), "priorities", None)
        if policies is not None or (priorities is not None and (priorities != priorities[:1]).any()):
            return scenario
        # From the same data: ``with_`` would name the engine, and one that nobody named is judged otherwise.
        del data["policies"]["aged"]
        fewer = cls.from_data(data, str(path), file.parent)
        fewer._share_log(scenario)
        return fewer

    def data(self) -> dict[str, Any]:
        """Plain data that loads back to this scenario."""
        data: dict[str, Any] = self.spec.data()
        # An engine left out is named here, so that a path such as `engine.slots` leads somewhere.
        engine = {"engine": self.spec.engine.data()}
        return {name: (data | engine)[name] for name in ScenarioSpec.model_fields if name in data | engine}

    def yaml(self) -> str:
        """The scenario as the text of a file."""
        return to_yaml(self.data())

    def dump(self, path: str | os.PathLike[str]) -> Path:
        """Writes the scenario file, whole or not at all; a log's path is made to fit. Raises OSError.

        A text under which names were hashed is left out: beside the log it would undo the hashes.
        """
        data, comment = self.data(), ""
        if self.spec.log is not None:
            log = self.folder.absolute() / self.spec.log.file
            data["log"]["file"] = os.path.relpath(log, Path(path).absolute().parent)
            if data["log"].pop("hash_keys", None) is not None:
                comment = "Names were hashed under a text that is not here: log.hash_keys=TEXT does it again."
        return write_yaml(path, data, comment)

    def with_(
        self,
        changes: Mapping[str | Sequence[str], Any] | None = None,
        *,
        load: float = 1,
        burst: float = 1,
        **fields: Any,
    ) -> Scenario:
        """A changed copy: ``with_({"engine.slots": 4, "tenants.chat.weight": 3}, seed=8)``.

        A path is dotted, or a sequence of names where a name has dots in it. ``load`` multiplies the steady
        demand (rates, closed-loop workers, a log's density), ``burst`` the size of dumps, on–off bursts and
        a log's clumps.

        Raises
        ------
        ScenarioError : a path that leads nowhere, or a value that does not fit.
        """
        data = self.data()
        for path, value in [*(changes or {}).items(), *fields.items()]:
            _set(data, path.split(".") if isinstance(path, str) else list(path), plain(value), self.source)
        changed = Scenario.from_data(data, self.source, self.folder)
        changed._share_log(self)
        return changed if load == burst == 1 else changed._scaled(load, burst)

    def __getstate__(self) -> dict[str, Any]:
        # Another process needs the requests, not the account of how they were read.
        return self.__dict__ | {"_log": None}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.yaml())

    def __repr__(self) -> str:
        return f"<Scenario {self.name!r} from {self.source}>"

    # -- parts ------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def seed(self) -> int:
        return self.spec.seed

    @property
    def horizon_s(self) -> float | None:
        return self.spec.horizon_s

    @property
    def warmup_s(self) -> float:
        return self.spec.warmup_s

    @property
    def tenants(self) -> dict[str, TenantSpec]:
        return self.spec.tenants

    @property
    def log(self) -> LogSpec | None:
        return self.spec.log

    @property
    def policies(self) -> dict[str, PolicySpec]:
        return self.spec.policies

    @property
    def engine_spec(self) -> EngineSpec:
        return self.spec.engine

    @property
    def random(self) -> bool:
        """Whether another replication would bring other requests (a log never does)."""
        return any(tenant.random for tenant in self.tenants.values())

    def workload(self) -> Workload | Trace:
        """Who asks. Raises TraceError or ScenarioError for a log that cannot be read."""
        if self.spec.log is None:
            assert self.spec.horizon_s is not None
            tenants = [tenant for group, spec in self.tenants.items() for tenant in spec.build(group)]
            return Workload(tenants, self.spec.horizon_s)
        if self._trace is None:  # a trace is immutable, and a log may be large
            self._trace = self.spec.log.scaled(self.read().trace)
        return self._trace

    def read(self) -> Log:
        """The log as it is in its file, with the account of its reading (a scenario with a ``log`` alone).

        Raises
        ------
        ScenarioError, LogError : no log, no file, a log that cannot be read.
        """
        if self.spec.log is None:
            raise ScenarioError(self.source, ["log: there is none"])
        if self._log is None:
            self._log = self.spec.log.read(self.folder, self.source)
        return self._log

    def fitted(self, users: int = 1, sizes: str = "empirical") -> Scenario:
        """A log as a model of its tenants (``fairq.workload.fit``), ``users`` times as many of each.

        Raises
        ------
        ScenarioError : no log in this scenario. ValueError : users below 1, an unknown kind of sizes.
        """
        from fairq.workload.fit import fitted_tenants

        if self.log is None:
            raise ScenarioError(self.source, ["log: there is none to fit a model to"])
        trace: Any = self.workload()
        tenants, horizon_s = fitted_tenants(trace, users, sizes)
        data = self.data()
        del data["log"]
        data |= {"name": f"{self.name}, fitted", "horizon_s": horizon_s, "tenants": tenants}
        if users > 1:
            data["name"] += f", {users} times the users"
        return Scenario.from_data(data, self.source, self.folder)

    def _share_log(self, other: Scenario) -> None:
        """A file is read once, however often the rest is changed."""
        mine, theirs = self.spec.log, other.spec.log
        if mine is None or theirs is None or self.folder != other.folder:
            return
        if mine == theirs:
            self._log, self._trace = other._log, other._trace
        elif mine.model_copy(update={"load": theirs.load, "burst": theirs.burst}) == theirs:
            self._log = other._log

    def policy(self, name: str) -> Policy:
        """A fresh policy. Raises ScenarioError for a name not in ``policies``."""
        if name not in self.policies:
            near = nearest(name, self.policies)
            raise ScenarioError(
                self.source, [f"policies: no policy {name!r}; there are: {', '.join(self.policies)}{near}"]
            )
        return self._build(name, Names(self.workload()))

    def engine(self) -> Any:
        """A fresh engine."""
        return self.spec.engine.build()

    # -- checks -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        """What no single field shows."""
        spec = self.spec
        problems = [] if spec.policies else ["policies: must not be empty, got {}"]
        if (spec.log is None) == (not spec.tenants):
            got = ", got {}" if "tenants" in spec.model_fields_set else ""
            problems.append("tenants: give tenants or a log" + (got if spec.log is None else ", not both"))
        elif spec.log is None and spec.horizon_s is None:
            problems.append("horizon_s: is missing")
        elif spec.horizon_s is not None:
            for group, tenant in spec.tenants.items():
                problems += [f"tenants.{group}.{problem}" for problem in tenant.problems(spec.horizon_s)]
            crowd = too_many(spec.tenants, spec.horizon_s)
            problems += crowd or self._name_problems()
        if problems:
            raise ScenarioError(self.source, problems)
        if spec.log is None:
            try:
                names = Names(self.workload())
            except ValueError as error:
                raise ScenarioError(self.source, [f"tenants: {error}"]) from None
            for name in spec.policies:
                self._build(name, names)

    def _name_problems(self) -> list[str]:
        owners: dict[str, str] = {}
        problems = []
        for group, tenant in self.tenants.items():
            for name in tenant.names(group):
                again = owners.setdefault(name, group) != group and tenant.count is not None
                if again or (name != group and name in self.tenants):
                    problems.append(f"tenants.{group}: count makes a second tenant named {name!r}")
        return problems

    def _build(self, name: str, names: Names) -> Policy:
        try:
            return self.policies[name].build(names)
        except ValueError as error:
            raise ScenarioError(self.source, [f"policies.{name}.{error}"]) from None

    def _scaled(self, load: float, burst: float) -> Scenario:
        for field, factor in (("load", load), ("burst", burst)):
            if isinstance(factor, bool) or not 0 < factor < math.inf:
                wanted = "finite" if factor == math.inf else "> 0"
                raise ScenarioError(self.source, [f"{field}: must be {wanted}, got {factor!r}"])
        data = self.data()
        for group, tenant in self.tenants.items():
            data["tenants"][group]["arrivals"] = tenant.arrivals.scaled(load, burst)
        if self.spec.log is not None:
            data["log"] |= {"load": self.spec.log.load * load, "burst": self.spec.log.burst * burst}
        scaled = Scenario.from_data(data, self.source, self.folder)
        scaled._share_log(self)
        return scaled


def load_policy(path: str | os.PathLike[str], workload: Any = None) -> Policy:
    """A fresh policy from a policy file (one entry of a scenario's ``policies``).

    With a ``workload``, weights come from its tenants, and names of groups and tenants stand for their keys;
    without one every name is taken as it stands.

    Raises
    ------
    ScenarioError : names file, field and value.
    """
    source = str(path)
    try:
        data = read_yaml(path)
    except OSError as error:
        raise ScenarioError(source, [f"cannot be read: {error.strerror}"]) from None
    return policy_from_data(data, workload, source)


def policy_from_data(data: Any, workload: Any = None, source: str = "policy") -> Policy:
    """A fresh policy from the plain data of one entry. Raises ScenarioError."""
    holder = validated(_PolicyFile, {"policy": data}, source)
    try:
        built: Policy = holder.policy.build(Names(workload))
    except ValueError as error:
        raise ScenarioError(source, [str(error)]) from None
    return built


class _PolicyFile(Spec):
    policy: AnyPolicy


def _find(path: str | os.PathLike[str]) -> Path:
    name = os.fspath(path)
    if Path(name).is_file():
        return Path(name)
    shipped = data_names("scenarios", ".yaml")
    if name in shipped:
        return data_path(f"scenarios/{name}.yaml")
    near = nearest(name.removesuffix(".yaml").removesuffix(".yml"), shipped)
    raise ScenarioError(name, [f"no such file, nor a shipped scenario ({', '.join(shipped)}){near}"])


def _set(data: dict[str, Any], path: list[str], value: Any, source: str) -> None:
    at: Any = data
    for depth, name in enumerate(path[:-1]):
        if not isinstance(at, dict) or (
            name not in at and depth == 0 and name not in ScenarioSpec.model_fields
        ):
            raise ScenarioError(
                source, [f"{'.'.join(path)}: there is nothing at {'.'.join(path[: depth + 1])!r}"]
            )
        at = at.setdefault(name, {})
    if not isinstance(at, dict):
        raise ScenarioError(source, [f"{'.'.join(path)}: there is nothing at {'.'.join(path)!r}"])
    at[path[-1]] = value
