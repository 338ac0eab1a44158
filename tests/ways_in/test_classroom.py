"""The page for teachers: its commands are run as written, those for a laptop where there is no network."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "notebooks" / "CLASSROOM.md").read_text(encoding="utf-8")
BLOCKS = [block.strip().splitlines() for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)]
CARRY, LAPTOP, OTHER, RESET, VOILA, LITE = BLOCKS


def test_the_page_says_what_is_tested_and_links_lead_somewhere() -> None:
    assert [block[0].split()[0] for block in BLOCKS] == ["python", "python", "python", "fairq", "uv", "uv"]
    assert VOILA == ["uv run voila notebooks/00_start_here.ipynb"]  # as in test_voila
    assert LITE == ["uv run fairq lite site"]  # as in test_lite
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert (ROOT / "notebooks" / link).exists(), link
    for words in ("Windows", "macOS", "Linux", "CDN", "127.0.0.1"):
        assert words in PAGE


def run(line: str, folder: Path, *before: str, **environment: str) -> str:
    done = subprocess.run(
        [*before, *shlex.split(line)],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"
    return done.stdout


def no_network(folder: Path) -> list[str]:
    """What to put before a command so that it has no network: a namespace of its own (Linux)."""
    lone = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None:
        return []
    tried = subprocess.run([*lone, "cat", "/proc/net/route"], capture_output=True, text=True, check=False)
    if tried.returncode:
        return []
    # Not a single route: only the heading is left.
    assert len(tried.stdout.splitlines()) <= 1
    return lone


def checkout(folder: Path) -> Path:
    """The tracked files, as they are."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.slow
def test_wheels_are_carried_and_installed_without_network(tmp_path: Path) -> None:
    if shutil.which("uv") is None:
        pytest.skip("uv is needed to make a Python with pip")
    tools = tmp_path / "tools"
    run(f"uv venv -q --no-project --seed --python {sys.executable} {tools}", tmp_path)
    with_pip = {"PATH": f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    clone = checkout(tmp_path / "clone")
    for line in CARRY:
        run(line, clone, **with_pip)
    wheels = list((clone / "wheels").iterdir())
    assert len(wheels) > 60
    assert sum(path.stat().st_size for path in wheels) < 250_000_000

    # The stick, and a laptop that knows no index: an empty home, no settings, no network.
    laptop = tmp_path / "laptop"
    shutil.move(clone / "wheels", laptop / "wheels")
    settings = {"HOME": str(laptop), "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "", **with_pip}
    lone = no_network(tmp_path)
    *commands, start = LAPTOP
    assert start.endswith("jupyter lab course/notebooks/00_start_here.ipynb")
    said = [run(line, laptop, *lone, **settings) for line in commands]
    assert said[2].splitlines()[-1] == "Nothing is in the way."
    assert (laptop / "course/notebooks/00_start_here.ipynb").is_file()
    run(f"{start.partition(' ')[0]} lab --version", laptop, *lone, **settings)

    # The commands, the model and the charts work there, from the wheel alone.
    fairq = laptop / "course-env/bin/fairq"
    run(f"{fairq} run published_burst --out charts", laptop, *lone, **settings)
    assert (laptop / "charts/latency.png").stat().st_size > 10_000
    (laptop / "course/notebooks/03_how_many_at_once.ipynb").write_text("spoilt")
    (line,) = RESET
    said_again = run(line.replace("fairq", str(fairq), 1), laptop, *lone, **settings)
    assert ".mine-1.ipynb" in said_again
    assert (laptop / "course/notebooks/03_how_many_at_once.ipynb").read_text().startswith("{")


@pytest.mark.slow
@pytest.mark.parametrize(("system", "platform"), [("windows", "win_amd64"), ("macos", "macosx_13_0_arm64")])
def test_wheels_for_another_system_are_all_there(system: str, platform: str, tmp_path: Path) -> None:
    """Downloaded here as the page says; then resolved for that system with nothing but the folder."""
    if shutil.which("uv") is None:
        pytest.skip("uv is needed")
    assert f"`{system}`" in PAGE or system == "windows"
    assert platform in PAGE
    clone = checkout(tmp_path / "clone")
    run(f"uv venv -q --no-project --seed --python {sys.executable} {tmp_path / 'tools'}", tmp_path)
    with_pip = {"PATH": f"{tmp_path / 'tools/bin'}{os.pathsep}{os.environ['PATH']}"}
    for line in OTHER:
        run(line.replace("windows", system).replace("win_amd64", platform), clone, **with_pip)
    offered = {path.name.partition("-")[0].lower() for path in (clone / f"wheels-{system}").glob("*.whl")}
    # What that system alone needs.
    assert {"windows": {"pywinpty", "colorama"}, "macos": {"appnope"}}[system] <= offered
    run(
        f"uv pip install --dry-run --no-index --find-links wheels-{system} --python-platform {system}"
        f" --python-version 3.12 --python {tmp_path / 'tools/bin/python'} fairq[lab]",
        clone,
    )


@pytest.mark.slow
def test_the_library_alone_says_what_a_command_needs(tmp_path: Path) -> None:
    """The wheel with no extra, in an environment with nothing else: `fairq` ends in words."""
    if shutil.which("uv") is None:
        pytest.skip("uv is needed")
    run(f"uv build -q --wheel --out-dir {tmp_path / 'dist'} {ROOT}", tmp_path)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    run(f"uv venv -q --no-project --python {sys.executable} env", tmp_path)
    run(f"uv pip install -q --offline --python env/bin/python {wheel}", tmp_path)
    bare = subprocess.run([tmp_path / "env/bin/fairq", "--help"], capture_output=True, text=True, check=False)
    assert bare.returncode == 1
    assert "pip install 'fairq[sim]'" in bare.stderr
    assert "Traceback" not in bare.stderr
    doctor = subprocess.run(
        [tmp_path / "env/bin/python", "-I", "-m", "fairq.doctor"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert doctor.returncode == 1
    assert "PROBLEM  simpy: is missing; fairq[sim] needs simpy" in doctor.stdout
    assert "PROBLEM  jupyterlab: is missing; fairq[lab] needs jupyterlab" in doctor.stdout
    alone = subprocess.run(
        [tmp_path / "env/bin/python", "-I", "-m", "fairq.doctor", "--for", "library"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert alone.returncode == 0, alone.stdout
