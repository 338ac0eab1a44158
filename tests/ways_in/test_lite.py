"""The static site: built by the command, its index and wheels looked at, opened in a browser."""

from __future__ import annotations

import functools
import http.server
import json
import os
import sys
import threading
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from fairq import lite
from fairq.cli import app
from fairq.files import InputError

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
from lab_server import CHROMIUM, FLAGS

ROOT = Path(__file__).parents[2]


def test_the_packages_come_first_and_only_in_a_browser() -> None:
    notebook = (ROOT / "notebooks" / "00_start_here.ipynb").read_text(encoding="utf-8")
    before, after = json.loads(notebook), json.loads(lite.prepared(notebook))
    cells = [cell["cell_type"] for cell in before["cells"]]
    place = cells.index("code")
    added = after["cells"].pop(place)
    assert after == before
    source = "".join(added["source"])
    assert "%pip install" in source
    assert 'if sys.platform == "emscripten":' in source
    # Elsewhere it does nothing: as Python it is one test that fails.
    exec(source.replace("%pip", "raise SystemExit  # "), {})


def test_a_site_that_lacks_something_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no index\.html"):
        lite.check(tmp_path)
    for page in ("index.html", "lab/index.html", "jupyter-lite.json", "files/notebooks/00_start_here.ipynb"):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_text("")
    with pytest.raises(InputError, match="no wheel of fairq"):
        lite.check(tmp_path)
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("do not delete")
    done = CliRunner().invoke(app, ["lite", str(out)])
    assert done.exit_code == 2
    assert "choose another folder" in done.output
    assert (out / "thesis.txt").exists()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lite") / "site"
    done = CliRunner().invoke(app, ["lite", str(out)])
    assert done.exit_code == 0, done.output
    return out


@pytest.mark.slow
def test_the_site_has_an_index_the_notebooks_and_the_wheels(site: Path) -> None:
    wheels = lite.check(site)
    assert any(wheel.startswith("fairq-0.1.0") for wheel in wheels)
    (kit,) = (site / "pypi").glob("fairq-*.whl")
    inside = zipfile.ZipFile(kit).namelist()
    assert {
        "fairq/lab/lab.py",
        "fairq/_data/scenarios/noisy_burst.yaml",
        "fairq/_notebooks/00_start_here.ipynb",
    } <= set(inside)
    listed = json.loads((site / "api/contents/notebooks/all.json").read_text())["content"]
    there = {entry["name"] for entry in listed}
    assert {path.name for path in (ROOT / "notebooks").glob("0?_*.ipynb")} <= there
    # A second build replaces the first.
    config = json.loads((site / "jupyter-lite.json").read_text())
    assert config["jupyter-lite-schema-version"] == 0


@pytest.mark.slow
def test_a_learner_opens_a_notebook_and_only_pyodide_is_fetched(site: Path, tmp_path: Path) -> None:
    """As far as it goes without that network: the page, the notebook, and what would be fetched."""
    if not Path(CHROMIUM).exists():
        if os.environ.get("CI"):
            pytest.fail(f"in CI this must run: no Chromium at {CHROMIUM}")
        pytest.skip(f"no Chromium at {CHROMIUM} (set FAIRQ_CHROMIUM)")
    from playwright.sync_api import sync_playwright

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    outside: list[str] = []

    def only_here(route) -> None:
        url = route.request.url
        if url.startswith(("data:", "blob:")) or urlsplit(url).hostname == "127.0.0.1":
            route.continue_()
        else:
            outside.append(url)
            route.abort()

    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            context.route("**/*", only_here)
            page = context.new_page()
            port = server.server_address[1]
            page.goto(f"http://127.0.0.1:{port}/lab/index.html?path=notebooks/00_start_here.ipynb")
            page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=120_000)
            page.locator(".jp-Notebook h1", has_text="It was fine last week").wait_for(timeout=120_000)
            page.screenshot(path=tmp_path / "lite.png")
            browser.close()
    finally:
        server.shutdown()
        server.server_close()
    assert all("pyodide" in url for url in outside), outside
