"""``fairq doctor`` on installations that are really broken: other metadata, other kernels, no rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fairq import doctor
from fairq.cli import app

ROOT = Path(__file__).parents[2]


def ask(folder: Path, *arguments: str, **environment: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit code and what is not well, by name, of a doctor in a process of its own."""
    paths = [environment.pop("PYTHONPATH", ""), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-m", "fairq.doctor", "--json", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert told["healthy"] == (done.returncode == 0)
    return done.returncode, {f["what"]: f for f in told["findings"] if f["state"] != "ok"}


def other_version(folder: Path, package: str, version: str, requires: str = "") -> str:
    """A folder whose metadata say that a package has this version; first on the path they win."""
    info = folder / f"{package}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {package.replace('_', '-')}", f"Version: {version}"]
    (info / "METADATA").write_text("\n".join([*lines, *filter(None, [requires])]) + "\n")
    return str(folder)


def test_a_package_outside_its_range(tmp_path: Path) -> None:
    old = other_version(tmp_path / "old", "simpy", "3.0.11")
    code, bad = ask(tmp_path, "--for", "sim", PYTHONPATH=old)
    assert code == 1
    assert "is 3.0.11; fairq[sim] needs <5,>=4.1" in bad["simpy"]["says"]
    assert bad["simpy"]["mend"] == "pip install 'simpy<5,>=4.1'"


def test_a_missing_package(tmp_path: Path) -> None:
    fairq = other_version(
        tmp_path / "fairq",
        "fairq",
        "0.1.0",
        "Requires-Dist: nosuchpackage>=2; extra == 'sim'\nProvides-Extra: sim",
    )
    code, bad = ask(tmp_path, "--for", "sim", PYTHONPATH=fairq)
    assert code == 1
    assert bad["nosuchpackage"]["says"] == "is missing; fairq[sim] needs nosuchpackage>=2"
    assert "pip install 'fairq[sim]'" in bad["nosuchpackage"]["mend"]
    # Who wants the queue alone lacks nothing.
    assert ask(tmp_path, "--for", "library", PYTHONPATH=fairq)[0] == 0


def test_too_old_a_python(tmp_path: Path) -> None:
    """As if: the package wants a Python that does not exist yet."""
    fairq = other_version(tmp_path / "fairq", "fairq", "0.1.0", "Requires-Python: >=3.99")
    code, bad = ask(tmp_path, "--for", "library", PYTHONPATH=fairq)
    assert code == 1
    assert bad["python"]["says"].endswith("fairq needs >=3.99")


@pytest.fixture
def kernel(tmp_path: Path) -> Any:
    """Write a kernelspec named python3 that comes first; the environment that makes it so."""

    def write(*argv: str) -> dict[str, str]:
        folder = tmp_path / "jupyter" / "kernels" / "python3"
        folder.mkdir(parents=True)
        spec = {"argv": [*argv], "display_name": "mine", "language": "python"}
        (folder / "kernel.json").write_text(json.dumps(spec))
        return {"JUPYTER_PATH": str(tmp_path / "jupyter"), "JUPYTER_PREFER_ENV_PATH": "0"}

    return write


def test_widgets_that_do_not_match_and_a_kernel_that_is_gone(kernel: Any, tmp_path: Path) -> None:
    old = other_version(tmp_path / "old", "jupyterlab_widgets", "1.1.0")
    gone = kernel(str(tmp_path / "gone" / "python"), "-m", "ipykernel_launcher")
    code, bad = ask(tmp_path, PYTHONPATH=old, **gone)
    assert code == 1
    assert "jupyterlab-widgets 1.1.0 does not go with ipywidgets 8" in bad["widgets"]["says"]
    assert "model not found" in bad["widgets"]["says"]
    assert "no such file" in bad["kernel"]["says"]
    assert "ipykernel install --sys-prefix" in bad["kernel"]["mend"]


def test_this_installation_is_well_whatever_python_is_on_the_path(kernel: Any, tmp_path: Path) -> None:
    """The kernel as ipykernel installs it: a plain `python` is the one that Jupyter runs under."""
    spoilt = tmp_path / "bin"
    spoilt.mkdir()
    (spoilt / "python").write_text("#!/bin/sh\nexit 1\n")
    (spoilt / "python").chmod(0o755)
    path = f"{spoilt}{os.pathsep}{os.environ['PATH']}"
    code, bad = ask(tmp_path, PATH=path, **kernel("python", "-m", "ipykernel_launcher"))
    assert code == 0, bad
    assert set(bad) <= {"browser", "jupyter lab"}  # a machine without a screen; a test run without `uv run`


@pytest.mark.skipif(os.name == "nt", reason="a script stands for a Python")
def test_a_kernel_whose_python_lacks_fairq(kernel: Any, tmp_path: Path) -> None:
    """A real Python without any package (-I -S), as a kernel left from another course would be."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    script.chmod(0o755)
    code, bad = ask(tmp_path, **kernel(str(script), "-m", "ipykernel_launcher"))
    assert code == 1
    assert "No module named 'ipykernel'" in bad["kernel"]["says"]


def test_exports_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "figures").write_text("a file where the folder should be")
    code, bad = ask(tmp_path, "--for", "sim")
    assert code == 1
    assert str(tmp_path / "figures" / "exports") in bad["exports"]["says"]


def test_it_leaves_no_folders_behind(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    ask(tmp_path, "--for", "sim")
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]


def test_another_copy_under_your_feet(tmp_path: Path) -> None:
    (tmp_path / "fairq").mkdir()
    (tmp_path / "fairq" / "doctor.py").write_text("")
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from fairq.doctor import main; main(['--json', '--for', 'library'])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    found = {f["what"]: f for f in json.loads(done.stdout)["findings"]}["fairq"]
    assert found["state"] == "warning"
    assert "another copy" in found["says"]


def test_versions_and_ranges() -> None:
    for there, ranges, wanted in (
        ("4.1.2", ">=4.1,<5", True),
        ("5.0", ">=4.1,<5", False),
        ("4.1", ">=4.1,<5", True),
        ("4.0.9", ">=4.1", False),
        ("2.0.0rc1", ">=1.26", True),
        ("1.26", "==1.26.0", True),
        ("1.26.3", "==1.26.*", True),
        ("1.27", "~=1.26", True),
        ("2.0", "~=1.26", False),
        ("1.2", "!=1.2", False),
        ("10.0", ">9", True),
        ("3", "", True),
    ):
        assert doctor.fits(there, ranges) is wanted, (there, ranges)


def test_the_ranges_agree_with_the_library_for_them() -> None:
    """Against ``packaging`` (which comes with matplotlib), over a grid."""
    from packaging.specifiers import SpecifierSet

    versions = ("0.9", "1.0", "1.0.1", "1.26", "1.26.4", "2", "2.0.1", "3.1.1", "8.1.9", "10.2")
    for ranges in (">=1.26", ">=1,<2", "~=1.26", "~=1.0.0", "==1.0", "!=2", ">1.0,<=8.1.9", "==1.26.*"):
        for there in versions:
            assert doctor.fits(there, ranges) == SpecifierSet(ranges).contains(there), (there, ranges)


def test_the_command_and_its_words() -> None:
    wrong = CliRunner().invoke(app, ["doctor", "--for", "fun"])
    assert wrong.exit_code == 2
    assert "must be one of library, sim, lab" in wrong.output
    well = CliRunner().invoke(app, ["doctor", "--for", "sim"])
    assert well.exit_code == 0, well.output
    assert well.output.splitlines()[-1] == "Nothing is in the way."
    findings = [doctor.Finding("simpy", doctor.PROBLEM, "is missing", "pip install simpy")]
    assert doctor.report(findings).splitlines() == [
        "PROBLEM  simpy: is missing",
        "         mend: pip install simpy",
        "1 problem found.",
    ]
    with pytest.raises(ValueError, match="purpose must be one of"):
        doctor.examine("fun")
