"""Fixtures: a page of a real browser in a real JupyterLab. In CI a missing browser is a failure."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from lab_server import CHROMIUM, Page, chromium_page, jupyter_lab, make_project


def _missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"in CI the browser test must run: {what}")
    pytest.skip(what)


@pytest.fixture
def browser_page(tmp_path: Path) -> Iterator[Page]:
    if importlib.util.find_spec("playwright") is None:
        _missing("playwright is not installed")
    if not Path(CHROMIUM).exists():
        _missing(f"no Chromium at {CHROMIUM} (set FAIRQ_CHROMIUM)")
    project = make_project(tmp_path / "project")
    with jupyter_lab(project, tmp_path / "home") as server, chromium_page(server, project) as page:
        yield page
