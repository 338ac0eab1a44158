"""What is shipped, and what the files around the code say about it."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name_and_range(requirement: str) -> tuple[str, str]:
    found = re.fullmatch(r"([A-Za-z0-9._-]+)\s*(.*)", requirement)
    assert found is not None, requirement
    return found[1].lower().replace("_", "-"), found[2].replace(" ", "")


# -- the files agree -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def environment() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    return loaded


def test_conda_and_pip_ask_for_the_same_ranges(environment: dict[str, Any]) -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = [r for r in [*extras["sim"], *extras["lab"]] if r != "fairq[sim]"]
    listed = [
        d for d in environment["dependencies"] if isinstance(d, str) and not d.startswith(("python=", "pip"))
    ]
    assert dict(map(name_and_range, listed)) == dict(map(name_and_range, wanted))
    assert not [d for d in listed if "==" in d], "exact pins rot"


def test_conda_takes_conda_forge_alone_and_one_minor_of_python(environment: dict[str, Any]) -> None:
    assert environment["name"] == "fairq"
    assert environment["channels"] == ["conda-forge"]
    python = environment["dependencies"][0]
    assert re.fullmatch(r"python=3\.\d+", python)
    floor = PROJECT["requires-python"].removeprefix(">=")
    assert tuple(map(int, python[7:].split("."))) >= tuple(map(int, floor.split(".")))
    # repo2docker stages the whole clone when the last entry installs it in place.
    assert environment["dependencies"][-2:] == ["pip", {"pip": ["-e .[lab]"]}]


def test_the_citation_file_is_whole_and_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    # Required by the schema of CFF 1.2.0.
    assert citation["cff-version"] == "1.2.0"
    assert isinstance(citation["message"], str)
    assert isinstance(citation["title"], str)
    assert all(set(author) & {"name", "family-names"} for author in citation["authors"])
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= set(reference)
    assert citation["type"] in ("software", "dataset")
    assert str(citation["version"]) == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["keywords"] == PROJECT["keywords"]


def tracked() -> list[str]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_nothing_tracked_binds_the_project_to_a_machine_or_a_registry() -> None:
    files = tracked()
    assert not [name for name in files if name.split("/")[-1] in ("uv.lock", "requirements.txt", "pip.conf")]
    # An index chosen here would be used by everybody who clones.
    chosen = re.compile(r"tool\.uv\.index|index-url|extra-index|UV_INDEX|PIP_INDEX|/simple/?\"")
    for name in files:
        if name.endswith((".toml", ".yml", ".yaml", ".cfg", ".txt", ".ipynb")) or name == ".ci/run":
            text = (ROOT / name).read_text(encoding="utf-8")
            assert not chosen.search(text), f"{name} names a registry"


def test_ci_runs_the_tests_of_the_readme_first() -> None:
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    lines = script.read_text(encoding="utf-8").splitlines()
    assert "set -euo pipefail" in lines
    runs = [line for line in lines if line.startswith("uv run ")]
    assert runs[0] == "uv run pytest"
    assert runs[-1].startswith("uv run pytest -m slow")
    assert "uv run pytest" in (ROOT / "README.md").read_text(encoding="utf-8")


# -- what is installed ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive and the wheel made from it."""
    if shutil.which("uv") is None:
        pytest.skip("uv is needed to build")
    folder = tmp_path_factory.mktemp("dist")
    made = subprocess.run(
        ["uv", "build", "--out-dir", str(folder), str(ROOT)], capture_output=True, text=True, check=False
    )
    if made.returncode and "Failed to resolve requirements from `build-system.requires`" in made.stderr:
        pytest.skip("the build backend cannot be fetched")
    assert made.returncode == 0, made.stderr
    return folder


def test_the_source_archive_holds_the_kit_and_no_leftovers(built: Path) -> None:
    (archive,) = built.glob("fairq-*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.split("/", 1)[1] for name in opened.getnames() if "/" in name}
    assert {"README.md", "LICENSE", "CITATION.cff", "environment.yml", "pyproject.toml"} <= names
    assert "data/scenarios/noisy_burst.yaml" in names
    assert not [
        n for n in names if n.startswith((".venv", "figures/exports", "dist")) or n.endswith("uv.lock")
    ]


ASK = """
import sys
import fairq
from importlib.metadata import distributions
assert sorted(d.metadata["Name"] for d in distributions()) == ["fairq"], list(distributions())
queue = fairq.KeyCaps(fairq.DRR(quantum=500), default=2)
queue.put(fairq.Request("ana", 300))
assert queue.get().tenant == "ana"
loaded = {name.partition(".")[0] for name in sys.modules if not name.startswith("_")}
assert loaded <= {*sys.stdlib_module_names, "fairq", "sitecustomize"}, loaded - set(sys.stdlib_module_names)
print(fairq.__file__)
"""


def test_the_queue_alone_works_with_nothing_else_installed(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("fairq-*.whl")
    venv = tmp_path / "venv"
    subprocess.run(
        ["uv", "venv", "--quiet", "--no-project", "--python", sys.executable, str(venv)],
        check=True,
        cwd=tmp_path,
    )
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    subprocess.run(
        ["uv", "pip", "install", "--quiet", "--offline", "--python", str(python), str(wheel)],
        check=True,
        cwd=tmp_path,
    )
    # Without the virtualenv's own hooks (-I leaves PYTHONPATH and the working folder out).
    asked = subprocess.run(
        [str(python), "-I", "-c", ASK], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    assert str(venv) in asked.stdout
    shown = subprocess.run(
        [str(python), "-I", "-m", "fairq.demo"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "DRR, quantum 400" in shown.stdout
    refused = subprocess.run(
        [str(python), "-I", "-m", "fairq.bench"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert refused.stderr.endswith("pip install 'fairq[sim]'\n")
