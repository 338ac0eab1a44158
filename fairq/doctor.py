"""What is wrong with this installation, and how to mend it. Needs nothing but Python.

``fairq doctor``, or ``python -m fairq.doctor`` where the command line is what is missing.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

OK, WARNING, PROBLEM = "ok", "warning", "problem"
PURPOSES = ("library", "sim", "lab")
"""What one wants to do: the queue alone; the model, charts and commands; the notebooks."""

WIDGETS = {"ipywidgets": 8, "jupyterlab-widgets": 3, "widgetsnbextension": 4}
"""Major versions that belong together (ipywidgets 8)."""
MANAGER = "labextensions/@jupyter-widgets/jupyterlab-manager/package.json"


@dataclass(frozen=True)
class Finding:
    """One thing looked at: ``state`` is ok, warning or problem; ``mend`` says what to type."""

    what: str
    state: str
    says: str
    mend: str = ""


def examine(purpose: str = "lab") -> list[Finding]:
    """Look at everything that ``purpose`` needs. Raises ValueError for another purpose."""
    if purpose not in PURPOSES:
        raise ValueError(f"purpose must be one of {', '.join(PURPOSES)}, got {purpose!r}")
    looks: list[Callable[[], Iterator[Finding]]] = [_python, _fairq]
    if purpose != "library":
        looks += [lambda: _packages(purpose), _data, _exports]
    if purpose == "lab":
        looks += [_widgets, _kernel, _command, _browser]
    return [finding for look in looks for finding in look()]


def sick(findings: Sequence[Finding]) -> bool:
    """Whether any of them is a problem."""
    return any(finding.state == PROBLEM for finding in findings)


# -- what is looked at --------------------------------------------------------------------------------------


def _python() -> Iterator[Finding]:
    here = platform.python_version()
    says = f"{here} at {sys.executable} on {platform.system()}"
    try:
        wanted = str(metadata("fairq").json.get("requires_python") or ">=3.11")
    except PackageNotFoundError:
        wanted = ">=3.11"
    if fits(here, wanted):
        yield Finding("python", OK, says)
    else:
        yield Finding("python", PROBLEM, f"{says}; fairq needs {wanted}", "uv run --python 3.12 …")


def _fairq() -> Iterator[Finding]:
    here = Path(__file__).resolve().parent
    try:
        name = f"{version('fairq')} at {here}"
    except PackageNotFoundError:
        yield Finding(
            "fairq",
            WARNING,
            f"runs from {here}, but is not installed: its ranges of versions are not known",
            "uv sync, or pip install -e '.[lab]', in the clone",
        )
        return
    stands = Path.cwd().resolve()
    for folder in (stands, *stands.parents):
        if (folder / "fairq" / "doctor.py").is_file() and folder / "fairq" != here:
            yield Finding(
                "fairq",
                WARNING,
                f"{name}, but you stand in another copy: {folder}",
                "in the clone, put `uv run` before the command",
            )
            return
    yield Finding("fairq", OK, name)


def _packages(purpose: str) -> Iterator[Finding]:
    try:
        lines = requires("fairq") or []
    except PackageNotFoundError:
        return
    # Package → its ranges and the least extra that brings it.
    wanted: dict[str, tuple[str, str]] = {}
    for extra in PURPOSES[1 : PURPOSES.index(purpose) + 1]:
        for line in lines:
            if (found := _requirement(line, extra)) is not None:
                wanted.setdefault(found[0], (found[1], extra))
    good = 0
    for name, (ranges, extra) in wanted.items():
        try:
            there = version(name)
        except PackageNotFoundError:
            yield Finding(
                name,
                PROBLEM,
                f"is missing; fairq[{extra}] needs {name}{ranges}",
                f"pip install 'fairq[{extra}]' (in a clone: uv sync)",
            )
            continue
        if fits(there, ranges):
            good += 1
        else:
            yield Finding(
                name, PROBLEM, f"is {there}; fairq[{extra}] needs {ranges}", f"pip install '{name}{ranges}'"
            )
    if good:
        yield Finding(f"packages of fairq[{purpose}]", OK, f"{good} of {len(wanted)} as wanted")


def _data() -> Iterator[Finding]:
    from fairq.data import data_folder

    try:
        yield Finding("data", OK, f"scenarios, logs and profiles in {data_folder()}")
    except FileNotFoundError as error:
        yield Finding("data", PROBLEM, str(error), "install the wheel, or work in a whole clone")


def _exports() -> Iterator[Finding]:
    # Where the lab writes: figures/exports of the project, else of this folder.
    here = Path.cwd().resolve()
    roots = [f for f in (here, *here.parents) if (f / "pyproject.toml").is_file() or (f / ".git").exists()]
    folder = (roots[0] if roots else here) / "figures" / "exports"
    made = [each for each in (folder, folder.parent) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        yield Finding("exports", OK, f"can be written to {folder}")
    except OSError as error:
        yield Finding(
            "exports",
            PROBLEM,
            f"cannot be written to {folder}: {error.strerror}",
            "start in a folder that is yours, or make this one writable",
        )
    for each in made:
        try:
            each.rmdir()
        except OSError:
            break


def _widgets() -> Iterator[Finding]:
    there = {name: _version(name) for name in WIDGETS}
    if there["ipywidgets"] is None:
        return  # said above
    mend = "pip install --upgrade 'ipywidgets>=8.1.9,<9' (brings the two others), then reload the page"
    for name, major in WIDGETS.items():
        found = there[name]
        if found is None:
            yield Finding("widgets", PROBLEM, f"{name} is missing: sliders stay text", mend)
        elif _release(found)[:1] != (major,):
            yield Finding(
                "widgets",
                PROBLEM,
                f"{name} {found} does not go with ipywidgets {there['ipywidgets']} (needs {major}.x):"
                " the page says “model not found”",
                mend,
            )
    installed = [
        Path(root) / "share/jupyter" / MANAGER for root in dict.fromkeys((sys.prefix, sys.base_prefix))
    ]
    packages = [path for path in installed if path.is_file()]
    if not packages:
        yield Finding("widgets", PROBLEM, f"no {MANAGER} under {sys.prefix}", mend)
        return
    shown = str(json.loads(packages[0].read_text(encoding="utf-8")).get("version", "?"))
    if _release(shown)[:1] != (5,):
        yield Finding(
            "widgets", PROBLEM, f"JupyterLab would load a manager of version {shown}, not 5.x", mend
        )
    elif all(_release(found or "0")[:1] == (WIDGETS[name],) for name, found in there.items()):
        yield Finding("widgets", OK, ", ".join(f"{name} {found}" for name, found in there.items()))


def _kernel() -> Iterator[Finding]:
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ImportError:
        yield Finding("kernel", PROBLEM, "jupyter_client is missing", "pip install 'fairq[lab]'")
        return
    mend = "python -m ipykernel install --sys-prefix"
    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        yield Finding("kernel", PROBLEM, "there is no kernel named python3", mend)
        return
    name = spec.argv[0] if spec.argv else ""
    # Jupyter takes a plain "python" for the one that it runs under itself.
    plain = name in ("python", "python3", f"python3.{sys.version_info.minor}")
    program = sys.executable if plain else shutil.which(name)
    if program is None:
        yield Finding(
            "kernel", PROBLEM, f"python3 in {spec.resource_dir} starts {spec.argv[:1]}: no such file", mend
        )
        return
    # Asked, not assumed: what counts is which modules the kernel's own Python finds.
    ask = "import ipykernel, ipywidgets, fairq, sys; print(sys.prefix)"
    try:
        told = subprocess.run([program, "-c", ask], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("kernel", PROBLEM, f"python3 does not start: {error}", mend)
        return
    if told.returncode:
        last = (told.stderr.strip().splitlines() or ["it failed"])[-1]
        yield Finding("kernel", PROBLEM, f"python3 runs {program}: {last}", mend)
    elif Path(told.stdout.strip()).resolve() != Path(sys.prefix).resolve():
        yield Finding("kernel", WARNING, f"python3 runs another Python: {program}", mend)
    else:
        yield Finding("kernel", OK, f"python3 runs {program}")


def _command() -> Iterator[Finding]:
    found = shutil.which("jupyter-lab")
    if found is None:
        yield Finding(
            "jupyter lab", WARNING, "is not on the PATH", "uv run jupyter lab …, or python -m jupyter lab …"
        )
    elif not Path(found).absolute().is_relative_to(Path(sys.prefix).absolute()):
        yield Finding(
            "jupyter lab",
            WARNING,
            f"on the PATH is of another environment: {found}; its widgets may not match",
            "uv run jupyter lab …, or python -m jupyter lab …",
        )
    else:
        yield Finding("jupyter lab", OK, found)


def _browser() -> Iterator[Finding]:
    try:
        name = getattr(webbrowser.get(), "name", "the system's")
        yield Finding("browser", OK, f"{name} would be opened")
    except webbrowser.Error:
        yield Finding(
            "browser",
            WARNING,
            "none was found, so none will open by itself",
            "copy the address with its token that jupyter lab prints into a browser",
        )


# -- versions -----------------------------------------------------------------------------------------------


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _requirement(line: str, extra: str) -> tuple[str, str] | None:
    """Name and ranges of one line of the metadata, where it belongs to the extra itself."""
    head, _, marker = line.partition(";")
    named = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
    found = re.match(r"\s*([A-Za-z0-9._-]+)\s*(\[[^\]]*\])?\s*\(?([^)]*)\)?", head)
    if named is None or named[1] != extra or found is None or found[1] == "fairq":
        return None
    return found[1], found[3].replace(" ", "")


def fits(there: str, ranges: str) -> bool:
    """Whether a version is within ranges such as ``>=4.1,<5``; of a pre-release the numbers alone count."""
    here = _release(there)
    for part in filter(None, ranges.split(",")):
        found = re.match(r"\s*(>=|<=|==|!=|~=|>|<)\s*([0-9][0-9.]*)", part)
        if found is None:
            continue
        wanted = _release(found[2])
        size = max(len(here), len(wanted))
        a, b = (each + (0,) * (size - len(each)) for each in (here, wanted))
        same = here[: len(wanted)] == wanted if part.rstrip().endswith(".*") else a == b
        holds = {
            ">=": a >= b,
            "<=": a <= b,
            ">": a > b,
            "<": a < b,
            "==": same,
            "!=": not same,
            "~=": a >= b and here[: len(wanted) - 1] == wanted[:-1],
        }
        if not holds[found[1]]:
            return False
    return True


def _release(text: str) -> tuple[int, ...]:
    found = re.match(r"\s*v?(\d+(?:\.\d+)*)", text)
    return tuple(map(int, found[1].split("."))) if found else (0,)


# -- for people ---------------------------------------------------------------------------------------------


def report(findings: Sequence[Finding]) -> str:
    """A line per finding, the way to mend it below, and a last line that sums up."""
    signs = {OK: "ok     ", WARNING: "note   ", PROBLEM: "PROBLEM"}
    lines = []
    for finding in findings:
        lines.append(f"{signs[finding.state]}  {finding.what}: {finding.says}")
        if finding.mend:
            lines.append(f"         mend: {finding.mend}")
    problems = sum(finding.state == PROBLEM for finding in findings)
    lines.append(
        f"{problems} problem{'s' if problems != 1 else ''} found." if problems else "Nothing is in the way."
    )
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    """The findings for programs."""
    return json.dumps(
        {"healthy": not sick(findings), "findings": [asdict(finding) for finding in findings]}, indent=1
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; the exit code is 1 when there is a problem."""
    parser = argparse.ArgumentParser(
        prog="python -m fairq.doctor", description="What is wrong with this installation, and how to mend it."
    )
    parser.add_argument("--for", dest="purpose", choices=PURPOSES, default="lab", help="what you want to do")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(arguments)
    findings = examine(asked.purpose)
    print(as_json(findings) if asked.json else report(findings))
    return 1 if sick(findings) else 0


if __name__ == "__main__":
    sys.exit(main())
