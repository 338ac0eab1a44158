"""Scenario files: what they build, the round trip, and errors that name file, field and value."""

import re
from pathlib import Path
from typing import Any

import pytest

from fairq import (
    DRR,
    FIFO,
    SFQ,
    VTC,
    AccumulatingPriority,
    Floors,
    KeyCaps,
    Levels,
    Nested,
    Policy,
    Priority,
    Request,
    Shortest,
    SoftCaps,
)
from fairq.counterexamples import NoLift
from fairq.data import data_names, data_path
from fairq.scenario import Scenario, ScenarioError, load_policy, policy_from_data
from fairq.scenario.policies import POLICIES
from fairq.scenario.tenants import ARRIVALS, SIZES
from fairq.scenario.yaml_files import to_yaml
from fairq.workload import (
    ClosedLoop,
    Dump,
    Empirical,
    Estimate,
    Exponential,
    Fixed,
    Gamma,
    Lognormal,
    OnOff,
    Poisson,
    Tenant,
    Times,
    Workload,
)
from fairq.workload.conversations import Conversations
from fairq.workload.trace import TraceError

FULL = """\
name: everything
seed: 7
horizon_s: 600
warmup_s: 10
engine: {kind: slots, slots: 4, overhead_s: 0.05, prefill_tokens_per_s: 8000, decode_tokens_per_s: 40}
tenants:
  chat:
    count: 2
    priority: 0
    weight: 2
    arrivals: {kind: poisson, rate_per_s: 0.2}
    prompt_tokens: {kind: lognormal, median: 400, sigma: 0.8, max: 4000}
    output_tokens: {kind: empirical, values: [10, 20, 400]}
    patience_s: 60
    line_limit: 5
  code:
    arrivals: {kind: gamma, rate_per_s: 1e-1, cv: 4}
    prompt_tokens: {kind: exponential, mean: 900}
    output_tokens: 30
    service_s: {kind: exponential, mean: 2}
  cron:
    arrivals: {kind: on_off, rate_per_s: 5, on_s: 10, off_s: 50}
    prompt_tokens: {kind: fixed, value: 10}
    output_tokens: 10
    keys: [first, second]
  people:
    arrivals: {kind: closed_loop, workers: 3, think_s: 5}
    prompt_tokens: 10
    output_tokens: 10
    keys: 3
  script:
    arrivals: {kind: times, times_s: [0, 0, 1.5]}
    prompt_tokens: 10
    output_tokens: 10
  talkers:
    arrivals:
      {kind: conversations, workers: 2, think_s: 20, turns: 3, history_tokens: 6000, max_context: 9000}
    prompt_tokens: 10
    output_tokens: 10
  nightly:
    priority: 1
    arrivals: {kind: dump, at_s: 60, requests: 500}
    prompt_tokens: 1200
    output_tokens: 300
    estimate: {factor: 1.0, sigma: 0.2}
policies:
  FIFO: {policy: fifo}
  strict: {policy: priority, ageing_s: null}
  aged: {policy: priority, ageing_s: 600}
  fair: {policy: drr, quantum: 500, weights: {chat-1: 5}}
  capped:
    policy: caps
    default: 2
    per_key: {chat: 1, chat-2: 3, second: null}
    groups:
      batch: {keys: [nightly, people], limit: 2}
      several: {keys: [chat, first], limit: 4}
    around: {policy: drr, quantum: 100}
  gaining: {policy: accumulating, rates: {0: 4, 1: 1}}
  short: {policy: shortest}
  counted: {policy: vtc, weights: {chat-1: 5}}
  tagged: {policy: sfq}
  levels: {policy: levels, ageing_s: 60, levels: {0: {policy: drr, quantum: 500}, 1: {policy: vtc}}}
  shares:
    policy: nested
    branches: {people: [chat, people], machines: [cron, script, nightly]}
    weights: {people: 3}
    inside: {policy: vtc}
  lent: {policy: soft_caps, default: 1, groups: {batch: {keys: [nightly], limit: 2}}, around: {policy: fifo}}
  kept: {policy: floors, slots: 4, floors: {chat: {keys: [chat], slots: 2}}, around: {policy: vtc}}
  fault: {policy: counterexample, fault: no_lift}
"""

MINIMAL: dict[str, Any] = {
    "name": "minimal",
    "horizon_s": 10,
    "tenants": {
        "a": {"arrivals": {"kind": "dump", "at_s": 0, "requests": 3}, "prompt_tokens": 1, "output_tokens": 1}
    },
    "policies": {"FIFO": {"policy": "fifo"}},
}


@pytest.fixture
def full(tmp_path: Path) -> Scenario:
    path = tmp_path / "full.yaml"
    path.write_text(FULL)
    return Scenario.load(path)


# -- what a file builds ---------------------------------------------------------------------------------


def test_tenants_are_built_as_written(full: Scenario) -> None:
    chat = (Poisson(0.2), Lognormal(400, 0.8, max=4000), Empirical((10, 20, 400)))
    workload = full.workload()
    assert isinstance(workload, Workload)
    assert workload.horizon_s == 600
    assert workload.tenants == (
        Tenant("chat-1", "chat", *chat, weight=2, patience_s=60, line_limit=5),
        Tenant("chat-2", "chat", *chat, weight=2, patience_s=60, line_limit=5),
        Tenant("code", "code", Gamma(0.1, 4), Exponential(900), 30, service=Exponential(2)),
        Tenant("cron", "cron", OnOff(5, 10, 50), 10, 10, keys=("first", "second")),
        Tenant("people", "people", ClosedLoop(3, Fixed(5)), 10, 10, keys=3),
        Tenant("script", "script", Times((0, 0, 1.5)), 10, 10),
        Tenant("talkers", "talkers", Conversations(2, 20, 3, 6000, max_context=9000), 10, 10),
        Tenant("nightly", "nightly", Dump(60, 500), 1200, 300, priority=1, estimate=Estimate(1.0, 0.2)),
    )
    assert (full.name, full.seed, full.warmup_s) == ("everything", 7, 10)


def test_every_kind_is_in_that_file() -> None:
    for kinds, field in ((ARRIVALS, "kind"), (SIZES, "kind"), (POLICIES, "policy")):
        missing = [kind for kind in kinds if f"{field}: {kind}" not in FULL]
        assert missing == []


def test_policies_are_fresh_and_of_their_kind(full: Scenario) -> None:
    kinds = {
        "FIFO": FIFO,
        "strict": Priority,
        "aged": Priority,
        "fair": DRR,
        "capped": KeyCaps,
        "gaining": AccumulatingPriority,
        "short": Shortest,
        "counted": VTC,
        "tagged": SFQ,
        "levels": Levels,
        "shares": Nested,
        "lent": SoftCaps,
        "kept": Floors,
        "fault": NoLift,
    }
    assert {name: type(full.policy(name)) for name in full.policies} == kinds
    assert full.policy("fair") is not full.policy("fair")


def served(policy: Policy, requests: list[Request]) -> list[Any]:
    for request in requests:
        policy.put(request)
    order = []
    while (request := policy.get()) is not None:
        order.append(request.id)
        policy.done(request)
    return order


def running(policy: Policy, requests: list[Request]) -> list[Any]:
    """Who is in service together when nothing ends."""
    for request in requests:
        policy.put(request)
    together = []
    while (request := policy.get()) is not None:
        together.append(request.id)
    return together


def test_weights_come_from_the_tenants_unless_overridden(full: Scenario) -> None:
    # Quantum 500: a visit sends 5 for chat-1 (overridden), 2 for chat-2 (its own weight), 1 for code.
    backlog = [
        Request(who, 500, arrival=0, id=f"{who}/{n}")
        for n in range(5)
        for who in ("chat-1", "chat-2", "code")
    ]
    first_round = [who.split("/")[0] for who in served(full.policy("fair"), backlog)[:8]]
    assert first_round == ["chat-1"] * 5 + ["chat-2"] * 2 + ["code"]


def test_strict_priority_starves_and_ageing_does_not(full: Scenario) -> None:
    old, new = (
        Request("nightly", 1, arrival=0, priority=1, id="old"),
        Request("chat-1", 1, arrival=700, id="new"),
    )
    assert served(full.policy("strict"), [old, new]) == ["new", "old"]
    assert served(full.policy("aged"), [old, new]) == ["old", "new"]


@pytest.mark.parametrize(
    ("keys", "together"),
    [
        (["code"], 2),  # the default
        (["chat-1"], 1),  # its group's cap
        (["chat-2"], 3),  # its own, which is nearer than its group's
        (["second"], 9),  # lifted
        (["nightly"], 2),  # a group of caps
        (["people/1", "people/2", "people/3"], 2),  # a tenant stands for its keys
        (["people/1", "nightly"], 2),  # the group counts them together
        (["chat-1", "chat-2", "first"], 4),  # as many as the group of caps lets in
    ],
)
def test_caps_name_groups_tenants_and_keys(full: Scenario, keys: list[str], together: int) -> None:
    requests = [Request(key, 100, key=key, arrival=0, id=(key, n)) for n in range(9) for key in keys]
    assert len(running(full.policy("capped"), requests)) == together


def test_branches_name_groups_and_tenants_and_the_rest_is_by_group(full: Scenario) -> None:
    backlog = [
        Request(who, 300, arrival=0, id=f"{who}/{n}")
        for n in range(9)
        for who in ("chat-1", "chat-2", "nightly", "code")
    ]
    order = [who.split("/")[0] for who in served(full.policy("shares"), backlog)[:10]]
    # people 3, machines 1, code (a branch of its own) 1; among people both chats weigh 2
    assert [order.count(who) for who in ("chat-1", "chat-2", "nightly", "code")] == [3, 3, 2, 2]


def test_floors_and_soft_caps_are_built_as_written(full: Scenario) -> None:
    def ask(keys: str) -> list[Request]:
        return [Request(key, 100, arrival=0, id=(n, key)) for n, key in enumerate(keys.split())]

    assert running(full.policy("kept"), ask("code code code chat-1")) == [
        (0, "code"),
        (3, "chat-1"),
        (1, "code"),
    ]
    lent = running(full.policy("lent"), ask("code code nightly nightly nightly"))
    assert lent == [(0, "code"), (2, "nightly"), (1, "code"), (3, "nightly"), (4, "nightly")]


def test_the_shipped_scenarios_load() -> None:
    for name in data_names("scenarios", ".yaml"):
        assert Scenario.load(name) == Scenario.load(data_path(f"scenarios/{name}.yaml"))


# -- round trip -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, *data_names("scenarios", ".yaml")])
def test_round_trip(tmp_path: Path, full: Scenario, name: str | None) -> None:
    scenario = full if name is None else Scenario.load(name)
    copy = Scenario.load(scenario.dump(tmp_path / "copy.yaml"))
    assert copy == scenario
    assert copy.data() == scenario.data()
    assert copy.dump(tmp_path / "again.yaml").read_bytes() == (tmp_path / "copy.yaml").read_bytes()
    before, after = scenario.workload(), copy.workload()
    assert before == after


def test_json_is_yaml_too(tmp_path: Path, full: Scenario) -> None:
    import json

    path = tmp_path / "full.json"
    path.write_text(json.dumps(full.data()))
    assert Scenario.load(path) == full


# -- changed copies -------------------------------------------------------------------------------------


def test_with_changes_a_copy_by_path(full: Scenario) -> None:
    changed = full.with_(
        {"engine.slots": 2, ("tenants", "chat", "weight"): 3, "policies.fair.quantum": 50}, seed=9
    )
    assert changed.workload().weights["chat-1"] == 3
    assert (changed.seed, full.seed) == (9, 7)
    assert changed.data()["engine"]["slots"] == 2
    assert changed.data()["policies"]["fair"]["quantum"] == 50
    assert full.workload().weights["chat-1"] == 2


def test_load_scales_the_steady_demand_and_burst_the_bursts(full: Scenario) -> None:
    arrivals = {tenant.name: tenant.arrivals for tenant in full.with_(load=2, burst=3).workload().tenants}
    assert arrivals == {
        "chat-1": Poisson(0.4),
        "chat-2": Poisson(0.4),
        "code": Gamma(0.2, 4),
        "cron": OnOff(30, 10, 50),
        "people": ClosedLoop(6, 5),
        "script": Times((0, 0, 1.5)),
        "talkers": Conversations(4, 20, 3, 6000, max_context=9000),
        "nightly": Dump(60, 1500),
    }
    smallest = full.with_(burst=1e-6).workload().tenants[-1].arrivals
    assert smallest == Dump(60, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tenant.chat.weight": 3}, r"tenant.chat.weight: there is nothing at 'tenant'"),
        ({"seed.x": 3}, r"seed.x: there is nothing at"),
        ({"tenants.chat.weight": 0}, r"tenants.chat.weight: must be > 0, got 0"),
        ({"load": 0}, r"load: must be > 0, got 0"),
        ({"burst": -1}, r"burst: must be > 0, got -1"),
    ],
)
def test_a_change_that_does_not_fit_is_named(full: Scenario, changes: dict[str, Any], message: str) -> None:
    options = {name: changes.pop(name) for name in ("load", "burst") if name in changes}
    with pytest.raises(ScenarioError, match=message):
        full.with_(changes, **options)


# -- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate_per_s: 0.2", "rate_per_s: -1", "tenants.chat.arrivals.rate_per_s: must be > 0, got -1"),
        (
            "rate_per_s: 0.2",
            "rate_per_s: often",
            "tenants.chat.arrivals.rate_per_s: must be a number > 0, got 'often'",
        ),
        ("rate_per_s: 0.2", "rate_per_s: .inf", "tenants.chat.arrivals.rate_per_s: must be finite, got inf"),
        (
            "rate_per_s: 0.2",
            "rate_per_s: yes",
            "tenants.chat.arrivals.rate_per_s: must be a number > 0, got True",
        ),
        ("rate_per_s: 0.2", "rate: 0.2", "tenants.chat.arrivals.rate: unknown field, got 0.2 (and 1 more)"),
        ("kind: poisson", "kind: poison", "tenants.chat.arrivals.kind: must be one of poisson, gamma"),
        ("{kind: poisson, rate_per_s: 0.2}", "0.2", "tenants.chat.arrivals: must be a mapping with `kind`"),
        ("cv: 4", "cv: 400", "tenants.code.arrivals.cv: must be > 0 and <= 100, got 400"),
        (
            "requests: 500",
            "requests: 2.5",
            "tenants.nightly.arrivals.requests: must be a whole number >= 1, got 2.5",
        ),
        ("at_s: 60", "at_s: 600", "tenants.nightly.arrivals.at_s: must be < horizon_s (600), got 600"),
        (
            "times_s: [0, 0, 1.5]",
            "times_s: [0, 900]",
            "tenants.script.arrivals.times_s: must be < horizon_s (600)",
        ),
        (
            "times_s: [0, 0, 1.5]",
            "times_s: [2, 0]",
            "tenants.script.arrivals.times_s: must not go back in time",
        ),
        (
            "times_s: [0, 0, 1.5]",
            "times_s: [0, x]",
            "tenants.script.arrivals.times_s.1: must be a number >= 0, got",
        ),
        (
            "values: [10, 20, 400]",
            "values: []",
            "tenants.chat.output_tokens.values: must not be empty, got []",
        ),
        (
            "prompt_tokens: 10\n    output_tokens: 10",
            "prompt_tokens: 0\n    output_tokens: 0",
            "tenants.people.output_tokens: must be > 0 where prompt_tokens may be 0, got 0",
        ),
        ("prompt_tokens: 1200", "prompt_tokens: -1", "tenants.nightly.prompt_tokens: must be >= 0, got -1"),
        ("count: 2", "count: 0", "tenants.chat.count: must be >= 1, got 0"),
        (
            "keys: [first, second]",
            "keys: 0",
            "tenants.cron.keys: must be a whole number >= 1 or a list of names, got 0",
        ),
        ("weight: 2", "weight: 0", "tenants.chat.weight: must be > 0, got 0"),
        ("  script:\n", "  chat-1:\n", "tenants.chat: count makes a second tenant named 'chat-1'"),
        ("seed: 7", "seed: -7", "seed: must be >= 0, got -7"),
        ("seed: 7", "sead: 7", "sead: unknown field, got 7"),
        ("name: everything", "name: 5", "name: must be a valid string, got 5"),
        ("rates: {0: 4, 1: 1}", "rates: {0: 4}", "policies.gaining.rates: there is none for priority 1 of"),
        ("rates: {0: 4, 1: 1}", "rates: {}", "policies.gaining.rates: "),
        (
            "0: {policy: drr, quantum: 500}",
            "0: {policy: drr}",
            "policies.levels.levels.0.quantum: is missing",
        ),
        (
            ", 1: {policy: vtc}}",
            "}",
            "policies.levels.levels: there is none for priority 1 of tenant 'nightly'",
        ),
        (
            "machines: [cron,",
            "machines: [chat,",
            "policies.shares.branches.machines: 'chat-1' is in 'people'",
        ),
        (
            "machines: [cron,",
            "machines: [x,",
            "policies.shares.branches.machines: no tenant or group is named",
        ),
        (
            "weights: {people: 3}",
            "weights: {pople: 3}",
            "policies.shares.weights: no branch is named 'pople'",
        ),
        ("keys: [chat], slots: 2", "keys: [chat], slots: 9", "policies.kept.floors: floors promise 9 slots"),
        ("fault: no_lift", "fault: none", "policies.fault.fault: must be 'charge_at_the_end', "),
        ("horizon_s: 600\n", "", "horizon_s: is missing"),
        ("kind: slots", "kind: gpus", "engine.kind: must be one of slots"),
        ("slots: 4", "slots: 0", "engine.slots: must be >= 1, got 0"),
        ("quantum: 500", "quantum: 0", "policies.fair.quantum: must be > 0, got 0"),
        (", ageing_s: null", "", "policies.strict.ageing_s: is missing"),
        ("policy: fifo", "policy: lifo", "policies.FIFO.policy: must be one of fifo, priority, "),
        (
            "around: {policy: drr, quantum: 100}",
            "around: {policy: drr}",
            "policies.capped.around.quantum: is missing",
        ),
        ("    around: {policy: drr, quantum: 100}\n", "", "policies.capped.around: is missing"),
        (
            "keys: [nightly, people]",
            "keys: [nigtly]",
            "policies.capped.groups.batch.keys: no group, tenant or key is",
        ),
        (
            "weights: {chat-1: 5}",
            "weights: {chut: 5}",
            "policies.fair.weights: no tenant or group is named 'chut'",
        ),
        ("default: 2", "default: -1", "policies.capped.default: must be >= 0, got -1"),
        (
            "{chat: 1, chat-2: 3",
            "{chat: x, chat-2: 3",
            "policies.capped.per_key.chat: must be a whole number >= 0",
        ),
        (FULL[FULL.index("policies:") :], "policies: {}", "policies: must not be empty, got {}"),
        ("keys: 3\n", "keys: 3\n    colour: red\n", "tenants.people.colour: unknown field, got 'red'"),
    ],
)
def test_an_error_names_file_field_and_value(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in FULL
    path = tmp_path / "bad.yaml"
    path.write_text(FULL.replace(old, new, 1))
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nseed: [1, 2\n", r"bad.yaml:3: bad YAML: "),
        ("name: x\n\tseed: 1\n", r"bad.yaml:2: bad YAML: "),
        (
            "name: x\nseed: 1\nname: y\n",
            r"bad.yaml:3: bad YAML: key 'name' is given twice \(first on line 1\)",
        ),
        (
            "tenants:\n  a: {weight: 1,\n      weight: 2}\n",
            r"bad.yaml:3: bad YAML: key 'weight' is given twice",
        ),
        ("? [a, b]\n: 1\n", r"bad.yaml:1: bad YAML: a key must be a name"),
        ("name: !!python/object:os.system x\n", r"bad.yaml:1: bad YAML: could not determine a constructor"),
        ("name: &a [*a]\n", r"bad.yaml: name: must be a valid string"),
        ("", r"bad.yaml: the file is empty"),
        ("- a\n- b\n", r"bad.yaml: must be a mapping, got \['a', 'b'\]"),
        ("5: x\n", r"bad.yaml: "),
        ("[" * 5000, r"bad.yaml.*: bad YAML"),
    ],
)
def test_bad_yaml_names_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=message):
        Scenario.load(path)


def test_a_tenant_may_take_over_another_ones_fields(tmp_path: Path) -> None:
    path = tmp_path / "merge.yaml"
    path.write_text(
        "name: x\nhorizon_s: 10\npolicies: {FIFO: {policy: fifo}}\ntenants:\n  a: &a\n    weight: 1\n"
        "    arrivals: {kind: dump, at_s: 0, requests: 3}\n    prompt_tokens: 1\n    output_tokens: 1\n"
        "  b: {<<: *a, weight: 2}\n"
    )
    assert Scenario.load(path).workload().weights == {"a": 1, "b": 2}


def test_text_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(b"horizon_s: 1\nname: \xff\n")
    with pytest.raises(
        ScenarioError, match=r"bad.yaml:2: is not UTF-8 text: invalid start byte at byte 7 of the line$"
    ):
        Scenario.load(path)


def test_a_scenario_without_tenants_shows_what_was_given() -> None:
    rest = {"name": "x", "horizon_s": 10, "policies": {"FIFO": {"policy": "fifo"}}}
    for given, message in (({"tenants": {}}, "give tenants or a log, got {}"), ({}, "give tenants or a log")):
        with pytest.raises(ScenarioError) as error:
            Scenario.from_data(rest | given, "s.yaml")
        assert str(error.value) == f"s.yaml: tenants: {message}"


def test_a_missing_file_lists_the_shipped_ones(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"nope: no such file, nor a shipped scenario \(.*noisy_burst"):
        Scenario.load("nope")
    with pytest.raises(ScenarioError, match=r"cannot be read|no such file"):
        Scenario.load(tmp_path)


def test_all_problems_are_kept_and_the_first_is_shown() -> None:
    data = {**MINIMAL, "seed": -1, "policies": {"x": {"policy": "drr", "quantum": 0}}}
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_data(data, "here")
    assert str(caught.value) == "here: seed: must be >= 0, got -1 (and 1 more)"
    assert caught.value.problems == ["seed: must be >= 0, got -1", "policies.x.quantum: must be > 0, got 0"]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("yes", "tenants.True: must be a valid string, got True (YAML for a bare yes, on or true): quote it"),
        ("off", "tenants.False: must be a valid string, got False (YAML for a bare no, off or false): quote"),
        ("~", "tenants.None: must be a valid string, got None (YAML for a bare null, ~ or nothing): quote"),
        ("1", 'tenants.1: must be a valid string, got 1: quote it if it is a name ("1")'),
        ("2.50", 'tenants.2.5: must be a valid string, got 2.5: quote it if it is a name ("2.5")'),
        ("''", "tenants: a name must not be empty, got ''"),
        ("2024-05-01", "a key must be a name, got 2024-05-01: quote it"),
        ("", "found ':' (is the name before it missing?)"),
    ],
)
def test_a_name_that_yaml_reads_as_something_else(tmp_path: Path, written: str, message: str) -> None:
    text = to_yaml(MINIMAL).replace("  a:", f"  {written}:")
    path = tmp_path / "odd.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=re.escape(message)):
        Scenario.load(path)


def test_more_requests_than_memory_holds_is_an_error() -> None:
    arrivals = {"kind": "poisson", "rate_per_s": 1e9}
    tenant = {"arrivals": arrivals, "prompt_tokens": 1, "output_tokens": 1}
    with pytest.raises(ScenarioError, match=r"tenants: tenant 'a': .* would send 1e\+10 requests"):
        Scenario.from_data({**MINIMAL, "tenants": {"a": tenant}})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"count": 10**9}, "tenants.a.count: 1,000,000,000 tenants; at most 100,000 are possible"),
        ({"count": 10**5, "keys": 11}, "tenants.a.keys: 1,100,000 keys; at most 1,000,000 are possible"),
        (
            {"count": 20_000, "arrivals": {"kind": "poisson", "rate_per_s": 100}},
            "tenants.a.arrivals: 20,000,000 requests in horizon_s = 10 s; at most 10,000,000 are possible",
        ),
        (
            {"count": 10, "arrivals": {"kind": "closed_loop", "workers": 20_000, "think_s": 1}},
            "tenants.a.arrivals.workers: 200,000 closed-loop workers; at most 100,000 are possible",
        ),
    ],
)
def test_absurd_sizes_are_refused_before_anything_is_listed(fields: dict, message: str) -> None:
    arrivals = {"kind": "dump", "at_s": 0, "requests": 1}
    tenant = {"arrivals": arrivals, "prompt_tokens": 1, "output_tokens": 1, **fields}
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_data({**MINIMAL, "tenants": {"a": tenant}}, "here")
    assert caught.value.problems[0] == message


def test_sizes_are_summed_over_the_tenants() -> None:
    arrivals = {"kind": "poisson", "rate_per_s": 600_000}
    tenant = {"arrivals": arrivals, "prompt_tokens": 1, "output_tokens": 1}
    with pytest.raises(ScenarioError, match="tenants: 12,000,000 requests in all; at most 10,000,000"):
        Scenario.from_data({**MINIMAL, "tenants": {"a": tenant, "b": tenant}})


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"kind": "slots", "slots": 10**9}, "engine.slots: must be >= 1 and <= 1,000,000, got 1000000000"),
        ({"kind": "replicas", "replicas": 10**6}, "engine.replicas: must be >= 1 and <= 10,000, got 1000000"),
    ],
)
def test_absurd_engines_are_refused(engine: dict, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        Scenario.from_data({**MINIMAL, "engine": engine})


# -- policy files ---------------------------------------------------------------------------------------


def test_each_entry_alone_is_a_policy_file(tmp_path: Path, full: Scenario) -> None:
    from fairq.scenario.yaml_files import write_yaml

    for name, spec in full.policies.items():
        path = write_yaml(tmp_path / f"{name}.yaml", spec.data())
        assert type(load_policy(path)) is type(full.policy(name))
        assert type(load_policy(path, full.workload())) is type(full.policy(name))


def test_a_policy_file_alone_takes_names_as_they_stand() -> None:
    data = {
        "policy": "caps",
        "groups": {"batch": {"keys": ["nightly"], "limit": 1}},
        "around": {"policy": "fifo"},
    }
    requests = [
        Request("nightly", 1, arrival=0, key=key, id=key) for key in ("nightly", "nightly/1", "nightly")
    ]
    assert running(policy_from_data(data), requests) == ["nightly", "nightly/1"]
    fifty = Workload([Tenant("nightly", "nightly", Dump(0, 1), 1, 1, keys=50)], 1)
    assert running(policy_from_data(data, fifty), requests) == ["nightly", "nightly/1", "nightly"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy: drr\n", r"p.yaml: .*quantum: is missing"),
        ("policy: drr\nquantum: x\n", r"p.yaml: .*quantum: must be a number > 0, got 'x'"),
        ("fifo\n", r"p.yaml: .*must be a mapping with `policy`"),
    ],
)
def test_a_bad_policy_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=message):
        load_policy(path)


def test_a_missing_policy_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"p.yaml: cannot be read: No such file"):
        load_policy(tmp_path / "p.yaml")


# -- logs -----------------------------------------------------------------------------------------------


def test_a_log_becomes_a_scenario(tmp_path: Path) -> None:
    scenario = Scenario.from_log(data_path("logs/synthetic_27_tenants.csv"))
    assert len(scenario.workload().weights) == 27
    assert list(scenario.policies) == ["FIFO", "capped", "fair"]
    copy = Scenario.load(scenario.dump(tmp_path / "deep" / "log.yaml"))
    assert copy.log is not None
    assert not Path(copy.log.file).is_absolute()
    first, second = ([r.arrival for r in each.workload().requests(0)] for each in (scenario, copy))
    assert first == second
    dense = scenario.with_(load=2).workload()
    assert dense.requests(0)[-1].arrival == pytest.approx(first[-1] / 2)


def test_a_log_with_priorities_that_differ_is_replayed_with_ageing_too(tmp_path: Path) -> None:
    def replayed(levels: str, **options: Any) -> dict[str, Any]:
        path = tmp_path / "log.csv"
        path.write_text("t,p,o,level\n" + "".join(f"{i},5,5,{level}\n" for i, level in enumerate(levels)))
        columns = {"arrival": "t", "prompt_tokens": "p", "output_tokens": "o"}
        scenario = Scenario.from_log(path, **columns, **options)
        assert "engine" not in scenario.spec.model_fields_set, "nobody named one"
        return dict(scenario.data()["policies"])

    aged = {"policy": "priority", "ageing_s": 600}
    assert list(replayed("0110", priority="level")) == ["FIFO", "capped", "aged", "fair"]
    assert replayed("0110", priority="level")["aged"] == aged
    assert list(replayed("0110")) == ["FIFO", "capped", "fair"]
    assert list(replayed("1111", priority="level")) == ["FIFO", "capped", "fair"]
    only = {"mine": {"policy": "fifo"}}
    assert replayed("0110", priority="level", policies=only) == only


def test_a_log_takes_columns_tenants_and_weights(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("when,in,out\n0,1,1\n1,2,2\n")
    columns = {"arrival": "when", "prompt_tokens": "in", "output_tokens": "out"}
    scenario = Scenario.from_log(path, **columns, tenants=1, engine={"kind": "slots", "slots": 2})
    assert [(r.tenant, r.cost) for r in scenario.workload().requests(0)] == [("tenant-1", 2), ("tenant-1", 4)]
    assert scenario.data()["engine"] == {"kind": "slots", "slots": 2}
    weighted = scenario.with_({"log.weights.tenant-1": 3})
    assert weighted.workload().weights == {"tenant-1": 3}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, TraceError, r"log.csv: arrival: which column\? It has: when, in, out"),
        ({"colour": "red"}, ScenarioError, r"log.csv: log.colour: unknown field, got 'red'"),
        ({"tenants": 0}, ScenarioError, r"log.csv: log.tenants: must be >= 1, got 0"),
        (
            {"arrival": "x", "prompt_tokens": "in", "output_tokens": "out"},
            TraceError,
            r"log.csv:1: no column 'x'",
        ),
    ],
)
def test_a_bad_log_is_named(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("when,in,out\n0,1,1\n")
    with pytest.raises(error, match=message):
        Scenario.from_log(path, **options)


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"log.file: cannot be read \(No such file or directory\), got"):
        Scenario.from_log(tmp_path / "nope.csv")


def test_tenants_or_a_log_not_both_nor_none() -> None:
    with pytest.raises(ScenarioError, match="tenants: give tenants or a log, not both"):
        Scenario.from_data({**MINIMAL, "log": {"file": "x.csv"}})
    with pytest.raises(ScenarioError, match="tenants: give tenants or a log"):
        Scenario.from_data({**MINIMAL, "tenants": {}})


def test_a_name_in_a_policy_that_the_log_does_not_know_is_an_error() -> None:
    policies = {"x": {"policy": "drr", "quantum": 1, "weights": {"nobody": 2}}}
    scenario = Scenario.from_log(data_path("logs/synthetic_27_tenants.csv"), policies=policies)
    with pytest.raises(ScenarioError, match=r"policies.x.weights: no tenant or group is named 'nobody'"):
        scenario.policy("x")


def test_whether_anything_is_random(full: Scenario) -> None:
    fixed = {"prompt_tokens": 1000, "output_tokens": 1000}
    dump = {"kind": "dump", "at_s": 0, "requests": 3}
    loop = {"kind": "closed_loop", "workers": 1, "think_s": 2}
    exponential = {"kind": "exponential", "mean": 2}
    for tenant, random in (
        ({"arrivals": dump, **fixed}, False),
        ({"arrivals": {"kind": "times", "times_s": [1]}, **fixed, "service_s": 2}, False),
        ({"arrivals": loop, **fixed, "estimate": {"factor": 2}}, False),
        ({"arrivals": {**loop, "think_s": exponential}, **fixed}, True),
        ({"arrivals": {"kind": "poisson", "rate_per_s": 1}, **fixed}, True),
        ({"arrivals": dump, **fixed, "output_tokens": exponential}, True),
        ({"arrivals": dump, **fixed, "service_s": exponential}, True),
        ({"arrivals": dump, **fixed, "estimate": {"sigma": 0.1}}, True),
    ):
        scenario = Scenario.from_data({**MINIMAL, "tenants": {"a": tenant}})
        assert scenario.random is random, tenant
        draws = [
            [(r.arrival, r.cost, r.service) for r in scenario.workload().requests(0, replication)]
            + [
                (*source.draw(0, n), source.request(0, n, 0).service)
                for source in scenario.workload().closed_loops(0, replication)
                for n in range(5)
            ]
            for replication in range(3)
        ]
        assert (draws[0] == draws[1] == draws[2]) is not random, tenant
    assert not Scenario.from_log(data_path("logs/synthetic_27_tenants.csv")).random


def test_an_engine_left_out_can_still_be_changed() -> None:
    assert Scenario.from_data(MINIMAL).with_({"engine.slots": 3}).data()["engine"] == {
        "kind": "slots",
        "slots": 3,
    }


def test_a_log_is_read_once_however_often_the_rest_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arrived_s,input_tokens,output_tokens\n0,1,1\n")
    scenario = Scenario.from_log(path)
    path.unlink()
    assert len(scenario.with_({"engine.slots": 3}).workload().requests(0)) == 1
    assert len(scenario.with_(load=2).workload().requests(0)) == 1
    with pytest.raises(ScenarioError, match=r"log.file: cannot be read"):
        scenario.with_({"log.skip_bad": True}).workload()
