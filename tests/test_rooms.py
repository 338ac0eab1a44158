"""Who may import whom: the rooms of the package, walked statement by statement."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FAIRQ = Path(__file__).parents[1] / "fairq"

# Room → what its files may import besides the standard library and the room itself. ``files`` (written whole
# or not at all, the error for bad input) and ``data`` (where the shipped files are) belong to no one room.
RULES = {
    "__init__": {"fairq.policies", "fairq.request"},
    "request": set(),
    "policies": {"fairq.request"},
    "files": set(),
    "data": set(),
    "workload": {"fairq.request", "fairq.files", "numpy", "pandas", "pyarrow"},
    "sim": {"fairq.policies.base", "fairq.workload", "fairq.request", "fairq.result", "simpy", "numpy"},
    "metrics": {"numpy", "pandas"},
    "result": {"fairq.metrics", "fairq.request", "numpy", "pandas"},
    "plots": {"matplotlib", "numpy", "pandas"},
    "scenario": {
        "fairq",  # the public names of the library
        "fairq.policies",
        "fairq.workload",
        "fairq.sim",
        "fairq.profiles",
        "fairq.memory",
        "fairq.models",
        "fairq.counterexamples",
        "fairq.files",
        "fairq.data",
        "pydantic",
        "pydantic_core",
        "yaml",
    },
    "lab": {
        "fairq.request",
        "fairq.scenario",
        "fairq.sim",
        "fairq.result",
        "fairq.metrics",
        "fairq.plots",
        "fairq.files",
        "fairq.data",
        "fairq.memory",
        "fairq.models",
        "fairq.profiles",  # the names in the menu of cards
        "fairq.saturation",  # the verdict on a log, a plain function of a run
        "fairq.capacity",  # the card of a log or an engine, a plain function too
        "fairq.tune",  # the setting that keeps a promise, another one
        "joblib",  # how many processes that may take
        "numpy",
        "pandas",
        "ipywidgets",
        "IPython",
    },
    "memory": set(),
    # Plain functions of a run, a log or a scenario, for commands and the lab.
    "capacity": {
        "fairq.scenario",
        "fairq.workload",
        "fairq.result",
        "fairq.saturation",
        "fairq.files",
        "numpy",
        "pandas",
    },
    "saturation": {"fairq.files", "numpy"},
    "saturation_truth": {
        "fairq",
        "fairq.workload",
        "fairq.sim",
        "fairq.saturation",
        "fairq.profiles",
        "numpy",
        "pandas",
    },
    "sweep": {"fairq.files", "joblib", "distributed"},
    "tune": {
        "fairq.scenario",
        "fairq.workload",
        "fairq.sim",
        "fairq.metrics",
        "fairq.capacity",
        "fairq.sweep",
        "fairq.plots",
        "fairq.files",
        "fairq.data",
        "matplotlib",
        "numpy",
        "pandas",
        "yaml",
    },
    "eta": {"fairq.policies.base", "fairq.request", "numpy"},
    # What is shipped as YAML, read.
    "models": {
        "fairq.memory",
        "fairq.scenario.yaml_files",
        "fairq.sim.batching",
        "fairq.files",
        "fairq.data",
    },
    "profiles": {"fairq.scenario.yaml_files", "fairq.sim.batching", "fairq.files", "fairq.data", "yaml"},
    # Are the policies right?
    "counterexamples": {"fairq.policies", "fairq.request"},
    "prove": {"fairq.policies", "fairq.request", "fairq.counterexamples", "fairq.sim", "numpy"},
    # What a command does, where it is more than its options.
    "gallery": {
        "fairq",
        "fairq.scenario",
        "fairq.workload",
        "fairq.sim",
        "fairq.metrics",
        "fairq.plots",
        "fairq.capacity",
        "fairq.saturation",
        "fairq.files",
        "fairq.memory",
        "fairq.models",
        "fairq.profiles",
        "fairq.counterexamples",
        "fairq.prove",
        "matplotlib",
        "numpy",
        "pandas",
    },
    "live": {
        "fairq.capacity",
        "fairq.saturation",
        "fairq.files",
        "prometheus_client",
        "numpy",
        "pandas",
    },
    "notebooks": {"fairq.files"},
    "lite": {"fairq.notebooks", "fairq.files"},
    "doctor": {"fairq.data", "jupyter_client"},
    "demo": {"fairq", "fairq.request"},
    "bench": {"fairq.scenario", "fairq.sim", "fairq.metrics"},
    "check": {
        "fairq",
        "fairq.sim",
        "fairq.metrics",
        "fairq.capacity",
        "fairq.files",
        "fairq.memory",
        "fairq.models",
        "fairq.profiles",
        "fairq.prove",
        "numpy",
    },
    "cli": {"fairq.commands", "fairq.files", "typer"},
}
RULES["commands"] = {
    *(f"fairq.{room}" for room in RULES),
    *("numpy", "pandas", "typer", "rich", "pooch", "requests"),
}
COMMANDS = {"fairq.cli", "fairq.commands", "fairq.demo", "fairq.bench", "fairq.check", "fairq.lab"}
"""What nothing else may import."""


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and module of every import in a file, also those within functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import hides its room"
            module = node.module or ""
            for alias in node.names:
                # `from fairq import metrics` imports a room, `from fairq import DRR` a public name.
                room = (FAIRQ / alias.name).is_dir() or (FAIRQ / f"{alias.name}.py").is_file()
                yield node.lineno, f"fairq.{alias.name}" if module == "fairq" and room else module


def rooms() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in sorted(FAIRQ.rglob("*.py")):
        found.setdefault(file.relative_to(FAIRQ).parts[0].removesuffix(".py"), []).append(file)
    return found


def within(module: str, allowed: set[str]) -> bool:
    return any(module == name or (name != "fairq" and module.startswith(f"{name}.")) for name in allowed)


@pytest.mark.parametrize("room", RULES)
def test_a_room_imports_what_it_may(room: str) -> None:
    allowed = RULES[room] | {f"fairq.{room}"}
    bad = [
        f"{file.relative_to(FAIRQ.parent)}:{line} imports {module}"
        for file in rooms()[room]
        for line, module in imports(file)
        if module.partition(".")[0] not in sys.stdlib_module_names and not within(module, allowed)
    ]
    assert not bad, "\n".join(bad)


def without_a_rule() -> list[str]:
    return [room for room in rooms() if room not in RULES]


def test_every_room_has_a_rule() -> None:
    assert without_a_rule() == []


def test_a_new_room_has_no_rule_until_it_is_given_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "attic").mkdir()
    for file in ("files.py", "cellar.py", "attic/box.py"):
        (tmp_path / file).write_text("")
    monkeypatch.setattr(sys.modules[__name__], "FAIRQ", tmp_path)
    assert without_a_rule() == ["attic", "cellar"]


def test_nothing_imports_a_command_or_the_lab_but_themselves() -> None:
    bad = []
    for room, files in rooms().items():
        allowed = {f"fairq.{room}"} | ({"fairq.commands"} if room == "cli" else set())
        for file in files:
            for line, module in imports(file):
                if within(module, COMMANDS) and not within(module, allowed):
                    bad.append(f"{file.relative_to(FAIRQ.parent)}:{line} imports {module}")
    assert not bad, "\n".join(bad)


def test_nobody_uses_pyplot() -> None:
    """Its figures are global: two of them at once, or one in a thread, and charts get lost."""
    for files in rooms().values():
        for file in files:
            for line, module in imports(file):
                assert not module.startswith(("matplotlib.pyplot", "pylab")), f"{file}:{line}"


def test_the_walk_sees_imports_wherever_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("import os.path\ndef f():\n    from fairq import lab, DRR\n    import fairq.cli as c\n")
    assert set(imports(file)) == {(1, "os.path"), (3, "fairq.lab"), (3, "fairq"), (4, "fairq.cli")}
