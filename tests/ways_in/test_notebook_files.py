"""Copies of the notebooks to work in, and back to the original; commands without the model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairq import notebooks
from fairq.cli import app
from fairq.files import InputError

ROOT = Path(__file__).parents[2]
START = "00_start_here.ipynb"


def committed(name: str) -> bytes:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    return subprocess.run(
        ["git", "show", f"HEAD:notebooks/{name}"], cwd=ROOT, capture_output=True, check=True
    ).stdout


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["notebooks", *arguments])
    return done.exit_code, done.output


def test_copy_then_spoil_then_reset(tmp_path: Path) -> None:
    code, said = run("copy", str(tmp_path))
    assert code == 0, said
    mine = tmp_path / "notebooks" / START
    assert mine.read_bytes() == committed(START)
    assert len(list((tmp_path / "notebooks").glob("0?_*.ipynb"))) == len(said.splitlines()) - sum(
        "solutions" in line for line in said.splitlines()
    )
    # Pictures are in the notebooks; the pages that these link to come along.
    assert "attachment:fifo_or_fair.png" in mine.read_text(encoding="utf-8")
    for notebook in (tmp_path / "notebooks").glob("*.ipynb"):
        for link in re.findall(r"\]\(([a-z_]+\.(?:md|ipynb))[)#]", notebook.read_text(encoding="utf-8")):
            assert (tmp_path / "notebooks" / link).is_file(), f"{notebook.name}: {link}"

    for page in (tmp_path / "notebooks").glob("*.md"):
        for link in re.findall(r"\]\((?!\w+:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"

    mine.write_text("my answers")
    code, said = run("copy", str(tmp_path))
    assert (code, mine.read_text()) == (0, "my answers")  # never over somebody's work
    assert "already" in said

    for number in (1, 2):
        mine.write_text(f"my answers {number}")
        code, said = run("reset", "00", "--in", str(tmp_path))
        assert code == 0, said
        assert mine.read_bytes() == committed(START)
        kept = mine.with_name(f"00_start_here.mine-{number}.ipynb")
        assert kept.read_text() == f"my answers {number}"
        assert str(kept) in said
    # From within the folder of notebooks, and where nothing was changed: nothing is kept.
    code, said = run("reset", START, "--in", str(mine.parent))
    assert (code, said.splitlines()) == (0, [f"as it was: {mine}"])


def test_names(tmp_path: Path) -> None:
    code, said = run("list")
    assert code == 0
    assert START in said.splitlines()
    assert notebooks.find("00") == notebooks.find("00_start_here") == notebooks.find(START) == START
    for wrong in ("0", "no_such", "../README"):
        code, said = run("reset", wrong, "--in", str(tmp_path))
        assert code == 2
        assert f"no notebook '{wrong}'; there are: {START}" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["a folder", "a link to nowhere"])
def test_something_else_in_a_notebook_s_place(what: str, tmp_path: Path) -> None:
    there = tmp_path / "notebooks" / "03_how_many_at_once.ipynb"
    assert there.name in notebooks.names()
    there.parent.mkdir()
    if what == "a folder":
        there.mkdir()
    else:
        there.symlink_to(tmp_path / "nowhere")
    for arguments in (("copy", str(tmp_path)), ("reset", "03", "--in", str(tmp_path))):
        code, said = run(*arguments)
        assert code == 2, said
        assert f"{there}: is not a file, move it away" in said
    assert not list(there.parent.glob("0?_*.mine-*"))
    assert there.is_dir() == (what == "a folder")
    assert there.is_symlink() != (what == "a folder")
    assert [path for path in there.parent.glob("*.ipynb") if path != there] == [], "none, rather than some"


@pytest.mark.parametrize("what", ["a file", "a link to nowhere"])
@pytest.mark.parametrize("where", ["notebooks", "notebooks/solutions"])
def test_something_else_in_a_folder_s_place(where: str, what: str, tmp_path: Path) -> None:
    there = tmp_path / where
    there.parent.mkdir(exist_ok=True)
    if what == "a file":
        there.write_text("mine")
    else:
        there.symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.rglob("*"))
    solution = next(name for name in notebooks.names() if name.startswith("solutions/"))
    for arguments in (("copy", str(tmp_path)), ("reset", solution, "--in", str(tmp_path))):
        code, said = run(*arguments)
        assert code == 2, said
        assert f"{there}: is not a folder, move it away" in said
        assert sorted(tmp_path.rglob("*")) == before, "none, rather than some"


def test_reset_makes_no_second_place_to_work_in(tmp_path: Path) -> None:
    run("copy", str(tmp_path))
    work = tmp_path / "notebooks"
    (work / START).unlink()
    for wrong in ("mistyped", f"notebooks/{notebooks.names()[1]}"):
        code, said = run("reset", "00", "--in", str(tmp_path / wrong))
        assert code == 2, said
        assert f"{tmp_path / wrong}: is no folder with notebooks in it" in said
    # A notebook that was thrown away comes back, from within the folder too.
    code, said = run("reset", "00", "--in", str(work))
    assert (code, said.splitlines()) == (0, [f"as it was: {work / START}"])
    assert (work / START).read_bytes() == committed(START)
    assert not (tmp_path / "mistyped").exists()
    assert not (work / "notebooks").exists()


def test_the_name_of_a_link_to_nowhere_is_taken(tmp_path: Path) -> None:
    work = tmp_path / "notebooks"
    work.mkdir()
    (work / START).write_text("my answers")
    link = work / "00_start_here.mine-1.ipynb"
    link.symlink_to(tmp_path / "elsewhere.ipynb")
    code, said = run("reset", "00", "--in", str(tmp_path))
    assert code == 0, said
    assert link.is_symlink()
    assert (work / "00_start_here.mine-2.ipynb").read_text() == "my answers"


def test_an_original_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone carried over without its ``.git``."""
    (tmp_path / "fairq").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "00_x.ipynb").write_text("{}")
    monkeypatch.setattr(notebooks, "_PACKAGE", tmp_path / "fairq")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(InputError, match="a clone needs git for it"):
        notebooks.original("00_x.ipynb")
    # Copies still work: what is there is all there is.
    assert [path.name for path in notebooks.copy_all(tmp_path / "out")] == ["00_x.ipynb"]
    monkeypatch.setattr(notebooks, "_PACKAGE", tmp_path / "nowhere" / "fairq")
    with pytest.raises(InputError, match="carries no notebooks"):
        notebooks.names()


def test_a_wheel_carries_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Laid out as in a wheel (the wheel itself is built and installed in the slow tests)."""
    inside = tmp_path / "fairq" / "_notebooks"
    inside.mkdir(parents=True)
    (inside / "00_x.ipynb").write_text("{}")
    monkeypatch.setattr(notebooks, "_PACKAGE", tmp_path / "fairq")
    notebooks.copy_all(tmp_path / "out")
    assert (tmp_path / "out/notebooks/00_x.ipynb").read_text() == "{}"


WITHOUT = """
import sys
for name in {missing}:
    sys.modules[name] = None  # as if it were not installed
sys.argv = ["fairq", *{arguments}]
import fairq.cli
fairq.cli.main()
"""


@pytest.mark.parametrize(
    ("missing", "arguments", "words"),
    [
        (["typer"], [], "pip install 'fairq[sim]'"),
        (["typer"], ["run", "noisy_burst"], "python -m fairq.doctor"),
        (["simpy"], ["run", "noisy_burst"], "`fairq doctor` says what to install"),
    ],
)
def test_without_the_model_a_command_says_what_to_install(
    missing: list[str], arguments: list[str], words: str, tmp_path: Path
) -> None:
    script = WITHOUT.format(missing=missing, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
