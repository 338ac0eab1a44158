"""What can be turned in the lab, read off a scenario. Pure data: no widgets here.

Each provider looks at a scenario and answers with the settings that make sense for it; a new kind of control
is one provider in :data:`PROVIDERS`. A setting that is left at its default changes nothing, so a lab whose
knobs are untouched runs the scenario as it is written: a range is as wide as the scenario's own value needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairq.lab.engines import engine, outages
from fairq.lab.setting import ASKS as ASKS
from fairq.lab.setting import NEXT as NEXT
from fairq.lab.setting import SERVES as SERVES
from fairq.lab.setting import WEIGHTS as WEIGHTS
from fairq.lab.setting import Path as Path
from fairq.lab.setting import Setting as Setting
from fairq.scenario import Scenario, ScenarioError

QUANTA = (1, 10, 50, 100, 200, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 5000, 10_000, 50_000, 1_000_000)
MOST_WHOLE = 2**53 - 1
"""The largest whole number that a browser keeps to the last digit."""
AGES = (0, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 86_400)


def load_and_burst(scenario: Scenario) -> list[Setting]:
    found = [
        Setting(
            "load",
            "Load ×",
            "Steady demand, times this factor: rates, workers, a log's density",
            ASKS,
            1.0,
            0.05,
            20.0,
            0.05,
            slide=(0.1, 3.0),
            factor="load",
        )
    ]
    if scenario.log is not None:
        about = "About so many requests of a tenant come at once; nobody asks for more in all"
        low, high, step, slide = 1.0, 1000.0, 0.5, (1.0, 10.0)
    elif any(spec.arrivals.grows_with_burst for spec in scenario.tenants.values()):
        about = "Size of dumps and on-off bursts, times this factor"
        low, high, step, slide = 0.05, 20.0, 0.05, (0.1, 3.0)
    else:
        return found
    found.append(
        Setting("burst", "Burst size ×", about, ASKS, 1.0, low, high, step, slide=slide, factor="burst")
    )
    return found


def weights(scenario: Scenario) -> list[Setting]:
    if not any(True for _ in specs(scenario, "weighted")):
        return []
    if scenario.log is None:
        places = {g: (("tenants", g, "weight"), float(spec.weight)) for g, spec in scenario.tenants.items()}
    else:
        places = {name: (("log", "weights", name), weight) for name, weight in by_demand(scenario.workload())}
    return [
        Setting(
            f"weight_{name}",
            f"Weight: {name}",
            f"How much service {name} is owed, relative to the others",
            WEIGHTS,
            float(value),
            0.01,
            1000.0,
            0.5,
            slide=(0.5, 16.0),
            paths=(path,),
        )
        for name, (path, value) in places.items()
    ]


def quantum(scenario: Scenario) -> list[Setting]:
    found = [(path, spec["quantum"]) for path, spec in specs(scenario, "drr")]
    if not found:
        return []
    return [
        Setting(
            "quantum",
            "Quantum (tokens)",
            "Tokens a tenant of weight 1 earns on each visit of the round (DRR)",
            NEXT,
            _number(found[0][1]),
            1,
            10_000_000,
            choices=QUANTA,
            paths=tuple((*path, "quantum") for path, _ in found),
        )
    ]


def ageing(scenario: Scenario) -> list[Setting]:
    found = [
        (path, spec["ageing_s"]) for path, spec in specs(scenario, "priority") if spec["ageing_s"] is not None
    ]
    if not found:
        return []
    return [
        Setting(
            "ageing",
            "Ageing (s/level)",
            "Seconds of waiting that are worth one priority level; 0 is FIFO",
            NEXT,
            float(found[0][1]),
            0,
            1_000_000,
            choices=AGES,
            paths=tuple((*path, "ageing_s") for path, _ in found),
        )
    ]


def caps(scenario: Scenario) -> list[Setting]:
    settings: list[Setting] = []
    defaults = [
        (path, spec["default"]) for path, spec in specs(scenario, "caps") if spec.get("default") is not None
    ]
    if defaults:
        settings.append(
            Setting(
                "cap",
                "Cap per key",
                "How many requests of one API key may be in service at once",
                NEXT,
                int(defaults[0][1]),
                0,
                10_000,
                slide=(1, 16),
                paths=tuple((*p, "default") for p, _ in defaults),
            )
        )
    groups: dict[str, list[tuple[Path, int]]] = {}
    for path, spec in specs(scenario, "caps"):
        for name, group in spec.get("groups", {}).items():
            if group["limit"] is not None:
                groups.setdefault(name, []).append(((*path, "groups", name, "limit"), int(group["limit"])))
    for name, places in groups.items():
        settings.append(
            Setting(
                f"cap_{name}",
                f"Cap: {name}",
                f"How many requests of the group {name} may be in service at once",
                NEXT,
                places[0][1],
                0,
                10_000,
                slide=(1, 16),
                paths=tuple(path for path, _ in places),
            )
        )
    return settings


def slots(scenario: Scenario) -> list[Setting]:
    engine = scenario.data().get("engine", {"kind": "slots", "slots": 8})
    if engine.get("kind") != "slots":
        return []
    return [
        Setting(
            "slots",
            "Slots",
            "How many requests the engine serves at once",
            SERVES,
            int(engine.get("slots", 8)),
            1,
            4096,
            slide=(1, 32),
            paths=(("engine", "slots"),),
        )
    ]


def seed(scenario: Scenario) -> list[Setting]:
    words, value = "other requests from the same description", scenario.seed
    path: Path = ("seed",)
    if scenario.log is not None:
        if scenario.log.tenants is None:
            return []
        words, value, path = "another tenant for each request of the log", scenario.log.seed, ("log", "seed")
    return [
        Setting(
            "seed",
            "Seed",
            f"Another seed draws {words}",
            ASKS,
            int(value),
            0,
            MOST_WHOLE,
            slide=(0, 50),
            paths=(path,),
        )
    ]


PROVIDERS: tuple[Callable[[Scenario], list[Setting]], ...] = (
    load_and_burst,
    seed,
    weights,
    quantum,
    ageing,
    caps,
    slots,
    engine,
)

ELSEWHERE = (
    *("load", "burst", "seed", "weight", "quantum", "ageing", "cap", "slots", "users", "replications"),
    *(
        "profile",
        "model",
        "max_num_seqs",
        "max_num_batched_tokens",
        "gateway_slots",
        "kv_tokens",
        "scheduling",
    ),
    *("card_gib", "context", "parts", "part", "replicas", "router", "slack", "cache_tokens"),
    *("outage_at", "outage_part", "outage_s", "outage_kind"),
)
"""Settings, or beginnings of their names, that a scenario of another kind has: a lab may become one."""
WEIGHTLESS = {"fifo", "priority", "caps"}
"""Policies in whose order weights play no part. One that is not known here is taken to depend on them."""


def settings_of(scenario: Scenario) -> list[Setting]:
    """Every setting of a scenario, in the order they are shown.

    Raises
    ------
    ScenarioError : a whole number that a browser would round.
    """
    found = [setting for provider in PROVIDERS for setting in provider(scenario)]
    large = [s for s in found if isinstance(s.default, int) and s.default > MOST_WHOLE]
    if large:
        words = f"must be at most {MOST_WHOLE} in the lab (a browser would round it), got"
        problems = [f"{'.'.join(s.paths[0]) if s.paths else s.name}: {words} {s.default}" for s in large]
        raise ScenarioError(scenario.source, problems)
    return [_holding(setting) for setting in found]


def _holding(setting: Setting) -> Setting:
    """With a range that holds the scenario's own value: a box would change it without a word."""
    if setting.menu is not None:
        return setting
    low, high = min(setting.low, setting.default), max(setting.high, setting.default)
    return replace(setting, low=low, high=high)


def check_shown(asked: Sequence[str], here: Sequence[str]) -> None:
    """Raises ValueError for a name that is no setting, nor the beginning of one. ``here``: those there."""
    for name in asked:
        if not any(known == name or known.startswith(f"{name}_") for known in (*here, *ELSEWHERE)):
            raise ValueError(f"controls: no setting {name!r}; there are: {', '.join(here)}")


def specs(scenario: Scenario, kind: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The policies of one kind (or "weighted") in the data, wrapped ones too, each with its path."""
    for name, data in scenario.data()["policies"].items():
        for path, spec in _nested(("policies", name), data):
            if spec["policy"] == kind or (kind == "weighted" and spec["policy"] not in WEIGHTLESS):
                yield path, spec


def _nested(path: Path, data: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if "policy" in data:
        yield path, data
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _nested((*path, name), value)


def weighted(policy: Mapping[str, Any]) -> bool:
    """True when a policy's order may depend on weights."""
    return any(spec["policy"] not in WEIGHTLESS for _, spec in _nested((), policy))


def changes(
    settings: Sequence[Setting], values: Mapping[str, Any]
) -> tuple[dict[Path, Any], dict[str, float]]:
    """What the turned settings change: places in the data with their values, and the factors."""
    places: dict[Path, Any] = {}
    factors: dict[str, float] = {}
    for setting in settings:
        value = values.get(setting.name, setting.default)
        if value == setting.default:
            continue
        if setting.factor is not None:
            factors[setting.factor] = value
        for path in setting.paths:
            places[path] = None if setting.unset is not None and value == setting.unset else value
    return places | outages(settings, values), factors


def applied(scenario: Scenario, settings: Sequence[Setting], values: Mapping[str, Any]) -> Scenario:
    """The scenario with the turned settings in place. Raises ScenarioError."""
    places, factors = changes(settings, values)
    moved: dict[str | Sequence[str], Any] = dict(places.items())
    return scenario.with_(moved, **factors) if places or factors else scenario


def by_demand(log: Any) -> list[tuple[str, float]]:
    """The tenants of a log with their weights, those with the most tokens first."""
    tokens: Counter[str] = Counter()
    for tenant, cost in zip(log.tenants, (log.prompt_tokens + log.output_tokens).tolist(), strict=True):
        tokens[tenant] += cost
    return [(name, float(log.weights[name])) for name, _ in tokens.most_common()]


def _number(value: Any) -> float:
    whole = float(value).is_integer() and value <= MOST_WHOLE
    return int(value) if whole else float(value)
