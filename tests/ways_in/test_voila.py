"""The lab as a web page with no code: Voila in a real Chromium, a slider moved by keyboard."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
from lab_server import CHROMIUM, ERRORS, FLAGS, free_port, make_project

pytestmark = pytest.mark.slow

PICTURE = ".fairq-lab .fairq-picture img"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where Voila shows the first notebook, as the README starts it."""
    if not Path(CHROMIUM).exists():
        if os.environ.get("CI"):
            pytest.fail(f"in CI this must run: no Chromium at {CHROMIUM}")
        pytest.skip(f"no Chromium at {CHROMIUM} (set FAIRQ_CHROMIUM)")
    project = make_project(tmp_path / "project")
    port = free_port()
    homes = {
        name: str(tmp_path / name)
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    command = [
        sys.executable,
        "-m",
        "voila",
        "notebooks/00_start_here.ipynb",
        "--no-browser",
        f"--port={port}",
    ]
    with subprocess.Popen(
        command,
        cwd=project,
        env=os.environ | homes,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as voila:
        assert voila.stderr is not None
        said = []
        try:
            for line in voila.stderr:
                said.append(line)
                if "Voilà is running" in line or "http://" in line:
                    break
            else:
                pytest.fail(f"Voila did not start:\n{''.join(said)}")
            threading.Thread(target=voila.stderr.read, daemon=True).start()
            yield f"http://127.0.0.1:{port}/"
        finally:
            voila.terminate()
            try:
                voila.wait(20)
            except subprocess.TimeoutExpired:
                voila.kill()


def test_the_lab_is_a_page_without_code(address: str, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    asked: list[str] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.on("request", lambda request: asked.append(request.url))
            # Nothing outside is reached, whatever the page asks for.
            page.route("**/*", lambda route: route.continue_() if _here(route.request.url) else route.abort())
            page.goto(address, timeout=240_000)
            picture = page.locator(PICTURE).first
            picture.wait_for(timeout=240_000)
            before = picture.get_attribute("src")
            assert before.startswith("data:image/png;base64,")
            assert "p99" in picture.get_attribute("alt")

            # No code: neither cells' inputs nor their prompts.
            assert page.locator(".jp-InputArea-editor:visible, .jp-InputPrompt:visible").count() == 0
            assert "from fairq" not in page.inner_text("body")
            assert page.locator(ERRORS).count() == 0

            lab = page.locator(".fairq-lab").first
            box = lab.get_by_label("Slots")
            slots = int(box.input_value())
            row = box.locator("xpath=ancestor::*[contains(@class,'widget-hbox')][1]")
            row.locator(".noUi-handle").focus()
            page.keyboard.press("ArrowRight")
            page.wait_for_function(
                "([q, old]) => document.querySelector(q).src !== old", arg=[PICTURE, before], timeout=120_000
            )
            assert int(box.input_value()) == slots + 1
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth + 1")
            page.screenshot(path=tmp_path / "voila.png")
        finally:
            browser.close()
    # Voila's own template asks for Font Awesome; the kit asks nobody.
    outside = {urlsplit(url).hostname for url in asked if not _here(url)}
    assert outside <= {"cdnjs.cloudflare.com", "cdn.jsdelivr.net", "use.fontawesome.com"}, outside
    assert all("awesome" in url for url in asked if not _here(url)), asked


def _here(url: str) -> bool:
    return url.startswith(("data:", "blob:", "about:")) or urlsplit(url).hostname in (
        "127.0.0.1",
        "localhost",
    )


def test_the_port_is_of_this_machine_alone(address: str) -> None:
    """Voila listens on loopback: nobody else on the network can run code here."""
    port = int(address.rstrip("/").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for other in others - {"127.0.0.1"}:
        if other.startswith("127."):
            continue
        with pytest.raises(OSError), socket.create_connection((other, port), timeout=5):
            pass
