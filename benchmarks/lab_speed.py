"""From a slider to the new picture in the browser: median of 20 key presses, and where the time goes.

    uv run python benchmarks/lab_speed.py [--json]

A real JupyterLab, a real Chromium, the shipped default scenario. The clock starts at the key press and stops
when the browser has decoded the new picture. *Simulate* and *draw* are measured in the kernel; *transfer* is
the rest: the browser, two websocket hops and the kernel's message loop.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))
from lab_server import chromium_page, jupyter_lab, make_project

PRESSES = 20
AIM_MS = 300

# What a slider changes, and the chart that is seen meanwhile.
CASES = {
    "weight (one policy runs again), p50 and p99": ("Weight: chat", "p50 and p99"),
    "slots (all policies run again), p50 and p99": ("Slots", "p50 and p99"),
    "weight (one policy runs again), before → after": ("Weight: code", "Before → after"),
    "weight (one policy runs again), distribution": ("Weight: notebook", "Distribution"),
    "weight (one policy runs again), queue": ("Weight: agent", "Queue"),
    "weight (one policy runs again), slots": ("Weight: nightly", "Slots"),
}

# Resolves with the milliseconds from the key press to the decoded picture, and the kernel's own parts of it.
WATCH = """
([slider, picture]) => new Promise(resolve => {
  const lab = document.querySelector('.fairq-lab');
  const box = lab.querySelector('.fairq-picture');
  let pressed = null;
  slider.addEventListener('keydown', e => { pressed = e.timeStamp; }, {once: true, capture: true});
  const watch = new MutationObserver(async () => {
    const img = box.querySelector('img');
    if (!img || img.src === picture || pressed === null) return;
    watch.disconnect();
    await img.decode();
    const {simulateMs, drawMs} = img.dataset;
    resolve([performance.now() - pressed, Number(simulateMs), Number(drawMs)]);
  });
  watch.observe(box, {childList: true, subtree: true, attributes: true});
})
"""
RESTED = """() => {
  const words = document.querySelector('.fairq-lab [role=status]').textContent;
  return /drawn in/.test(words) && !/follow/.test(words);
}"""


def measure(page: Any, label: str, chart: str) -> dict[str, float]:
    """Medians over the presses, in milliseconds. The slider only ever moves to values not seen before."""
    lab = page.locator(".fairq-lab").first
    lab.get_by_role("button", name="Reset", exact=True).click()
    lab.get_by_role("button", name=chart, exact=True).click()
    page.wait_for_function(RESTED, timeout=120_000)
    box = lab.get_by_label(label, exact=True)
    handle = box.locator("xpath=ancestor::*[contains(@class,'widget-hbox')][1]").locator(".noUi-handle")
    handle.focus()
    times: list[tuple[float, float, float]] = []
    for _ in range(PRESSES):
        picture = lab.locator(".fairq-picture img")
        pending = page.evaluate_handle(
            f"([slider, old]) => ({{done: ({WATCH})([slider, old])}})",
            [handle.element_handle(), picture.get_attribute("src")],
        )
        page.keyboard.press("ArrowRight")
        whole, simulate, draw = pending.evaluate("p => p.done")
        times.append((whole, simulate, draw))
        page.wait_for_function(RESTED, timeout=120_000)
    whole, simulate, draw = (median(column) for column in zip(*times, strict=True))
    rest = median(w - s - d for w, s, d in times)
    return {"press_to_picture_ms": whole, "simulate_ms": simulate, "draw_ms": draw, "transfer_ms": rest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "project")
        with jupyter_lab(project, Path(folder) / "home") as server, chromium_page(server, project) as at:
            at.open("00_start_here.ipynb")
            at.run_all()
            found = {name: measure(at.page, *case) for name, case in CASES.items()}
    setting = {
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "presses": PRESSES,
        "scenario": "noisy_burst",
        "aim_ms": AIM_MS,
    }
    if arguments.json:
        print(json.dumps({"setting": setting, "median_ms": found}, indent=2))
        return
    print("  ".join(f"{name}: {value}" for name, value in setting.items()))
    heads = ("whole", "simulate", "draw", "transfer")
    print(f"{f'milliseconds, median of {PRESSES}':48} " + "{:>6} {:>9} {:>6} {:>9}".format(*heads))
    for name, row in found.items():
        print(f"{name:48} " + "{:6.0f} {:9.0f} {:6.0f} {:9.0f}".format(*row.values()))


if __name__ == "__main__":
    main()
