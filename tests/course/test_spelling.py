"""Common misspellings in what learners and teachers read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .books import NOTEBOOKS

PROSE = [
    *sorted((NOTEBOOKS / "source").glob("*.md")),
    *sorted((NOTEBOOKS / "teacher").glob("*.*")),
    NOTEBOOKS / "glossary.md",
    *sorted((NOTEBOOKS.parent / "fairq" / "check").glob("*.py")),
]
IGNORED = "ba,te"
"""Words that are none of these mistakes."""


def check(files: list[Path]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words-list", IGNORED, *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True)


def test_nothing_is_misspelt() -> None:
    done = check(PROSE)
    assert done.returncode == 0, done.stdout


def test_the_check_finds_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text("A queue can recieve requests.\n")
    done = check([file])
    assert done.returncode != 0
    assert "receive" in done.stdout
