"""A real JupyterLab server and a real Chromium, both on loopback and both thrown away afterwards."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = os.environ.get("FAIRQ_CHROMIUM", "/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

SERVER = """
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
"""

SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    # Every cell stays in the page, so that all outputs can be looked at.
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
}


@dataclass
class Page:
    """A browser page, the addresses it asked for, and the project it works in."""

    page: Any
    url: str
    token: str
    project: Path
    asked: list[str] = field(default_factory=list)

    def open(self, notebook: str) -> None:
        self.page.goto(f"{self.url}/lab/tree/notebooks/{notebook}?token={self.token}")
        # Before its kernel is idle, "Run All Cells" would ask for one.
        self.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)

    def run_all(self) -> None:
        """Every cell, then wait until the last one has its number."""
        self.page.click("li.lm-MenuBar-item:has-text('Run')")
        self.page.click("li.lm-Menu-item:has-text('Run All Cells')")
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]"
            r".every(e => /\[\d+\]:/.test(e.textContent))",
            timeout=180_000,
        )
        self.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)

    def outside(self) -> list[str]:
        """Addresses that are not on this machine."""
        local = {"127.0.0.1", "localhost", "", None}
        return [
            a
            for a in self.asked
            if urlsplit(a).hostname not in local and not a.startswith(("data:", "blob:"))
        ]


def _missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"in CI the browser test must run: {what}")
    pytest.skip(what)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the notebooks in it and nothing else."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    shutil.copytree(NOTEBOOKS, root / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return root


@pytest.fixture
def server(project: Path, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Address and token of a JupyterLab that knows nothing of the user's own settings."""
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    (home / "config" / "jupyter_server_config.py").write_text(SERVER)
    for name, values in SETTINGS.items():
        file = home / "lab-settings" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    token, port = secrets.token_hex(16), _free_port()
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "lab-settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "lab-workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_TOKEN": token,
    }
    command = [sys.executable, "-m", "jupyter", "lab", f"--port={port}", f"--ServerApp.root_dir={project}"]
    with (
        (tmp_path / "server.log").open("w+") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            assert process.stderr is not None
            for line in process.stderr:
                log.write(line)
                if "is running at" in line:
                    break
            else:
                pytest.fail(f"the server did not start:\n{(tmp_path / 'server.log').read_text()}")
            # Whatever it says later must not fill the pipe.
            drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=log)
            yield f"http://127.0.0.1:{port}", token
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
            drain.wait(5)


@pytest.fixture
def browser_page(server: tuple[str, str], project: Path) -> Iterator[Page]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is not installed")
    if not Path(CHROMIUM).exists():
        _missing(f"no Chromium at {CHROMIUM} (set FAIRQ_CHROMIUM)")
    url, token = server
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            opened = Page(page, url, token, project)
            page.on("request", lambda request: opened.asked.append(request.url))
            page.on("websocket", lambda socket: opened.asked.append(socket.url))
            yield opened
        finally:
            browser.close()
