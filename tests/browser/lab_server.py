"""A real JupyterLab server and a real Chromium, both on loopback and both thrown away afterwards.

Used by the browser tests and by ``benchmarks/lab_speed.py``.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
ERRORS = ", ".join(f"[data-mime-type='application/vnd.jupyter.{kind}']" for kind in ("stderr", "error"))
"""What a cell says when it fails: JupyterLab has shown it under either name."""

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
        self.page.goto(f"{self.url}/lab/tree/{notebook}?token={self.token}")
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

    def widths_of_pictures_in_prose(self) -> list[int]:
        """Of each picture in a cell of prose, also those that are folded in: 0, it did not come."""
        self.page.wait_for_function("() => [...document.images].every(e => e.complete)", timeout=60_000)
        pictures = self.page.locator(".jp-MarkdownCell img")
        assert pictures.count() > 0
        return [int(picture.evaluate("e => e.naturalWidth")) for picture in pictures.all()]

    def outside(self) -> list[str]:
        """Addresses that are not on this machine."""
        local = {"127.0.0.1", "localhost", "", None}
        return [
            a
            for a in self.asked
            if urlsplit(a).hostname not in local and not a.startswith(("data:", "blob:"))
        ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_project(root: Path) -> Path:
    """A project with the notebooks in it and nothing else."""
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    shutil.copytree(NOTEBOOKS, root / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return root


@contextmanager
def jupyter_lab(project: Path, home: Path) -> Iterator[tuple[str, str]]:
    """Address and token of a JupyterLab that knows nothing of the user's own settings.

    Started by README's line, which makes the notebooks' folder the root of the server.

    Raises
    ------
    RuntimeError : it did not start; holds what it said.
    """
    (home / "config").mkdir(parents=True)
    (home / "config" / "jupyter_server_config.py").write_text(SERVER)
    for name, values in SETTINGS.items():
        file = home / "lab-settings" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    token = secrets.token_hex(16)
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "lab-settings",
        "JUPYTERLAB_WORKSPACES_DIR": "lab-workspaces",
        "IPYTHONDIR": "ipython",
    }
    environment = os.environ | {name: str(home / folder) for name, folder in places.items()}
    environment["JUPYTER_TOKEN"] = token
    port = free_port()
    command = [sys.executable, "-m", "jupyter", "lab", "notebooks/00_start_here.ipynb", f"--port={port}"]
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                said.append(line)
                if "is running at" in line:
                    break
            else:
                raise RuntimeError(f"the server did not start:\n{''.join(said)}")
            # Whatever it says later must not fill the pipe.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield f"http://127.0.0.1:{port}", token
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def chromium_page(server: tuple[str, str], project: Path) -> Iterator[Page]:
    """A fresh browser with one page; every address it asks for is noted."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            opened = Page(page, *server, project)
            page.on("request", lambda request: opened.asked.append(request.url))
            page.on("websocket", lambda socket: opened.asked.append(socket.url))
            yield opened
        finally:
            browser.close()
