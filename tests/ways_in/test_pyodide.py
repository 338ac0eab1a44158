"""The kit's Python in WebAssembly: Pyodide from npm, in Node. Slow: it is installed and started here.

The npm package carries Python and its standard library alone: the queue, the demo and the event loop of the
model run there and must do exactly what they do here. Numpy, pandas and matplotlib come from Pyodide's CDN,
which is not asked; tables and charts are therefore not tried here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import simpy

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

START = """
import {{ loadPyodide }} from "pyodide";
const pyodide = await loadPyodide();
pyodide.mountNodeFS("/kit", {kit});
pyodide.mountNodeFS("/simpy", {simpy});
pyodide.runPython(`import sys; sys.path[:0] = ["/kit", "/simpy"]; sys.dont_write_bytecode = True`);
const said = pyodide.runPython({script});
console.log(said);
"""

SCRIPT = """
import contextlib, io, json, random, sys
from types import ModuleType

out = {"platform": sys.platform}

# The demo, word for word.
from fairq import demo
text = io.StringIO()
with contextlib.redirect_stdout(text):
    demo.main([])
out["demo"] = text.getvalue()

# Every policy on the same traffic.
import fairq
from fairq import Request
def order(policy):
    draw = random.Random(5)
    served = []
    for n in range(400):
        tenant = draw.choice(["ana", "ben", "eva"])
        policy.put(Request(tenant, draw.randint(1, 900), arrival=n, priority=draw.randint(0, 1), id=n))
        if n % 3 == 2:
            request = policy.get()
            served.append(request.id)
            policy.done(request, request.cost + draw.randint(0, 50))
    while (request := policy.get()) is not None:
        served.append(request.id)
        policy.done(request)
    return served
out["orders"] = {
    "FIFO": order(fairq.FIFO()),
    "Priority": order(fairq.Priority(ageing=20)),
    "DRR": order(fairq.DRR(quantum=300, weights={"ana": 2})),
    "VTC": order(fairq.VTC()),
    "SFQ": order(fairq.SFQ()),
    "caps": order(fairq.KeyCaps(fairq.DRR(quantum=300), default=5)),
}

# The model's event loop on SimPy. Its tables need numpy and pandas, so the room's own __init__ stays out.
import fairq.policies.base
from pathlib import Path
room = ModuleType("fairq.sim")
room.__path__ = [str(Path(fairq.__file__).parent / "sim")]
kept = {name: module for name, module in sys.modules.items() if name.partition(".")[2].startswith("sim")}
for name in kept:
    del sys.modules[name]
sys.modules["fairq.sim"] = room
from fairq.sim.clock import Clock
from fairq.sim.gateway import serve
from fairq.sim.slots import SlotEngine
draw = random.Random(9)
requests = [
    Request(draw.choice(["ana", "ben", "eva"]), 100 + n % 7 * 50, arrival=n * 0.4, prompt_tokens=100,
            output_tokens=n % 7 * 50 + 1, id=n)
    for n in range(500)
]
rows = serve(Clock(0), fairq.DRR(quantum=200), SlotEngine(3), requests, None, None)
out["model"] = [[r.id, s, f] for r, s, f in zip(rows.request, rows.start, rows.finish)]
out["numpy"] = "numpy" in sys.modules
json.dumps(out)
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the npm package in it."""

    def missing(what: str) -> None:
        if os.environ.get("CI"):
            pytest.fail(f"in CI this must run: {what}")
        pytest.skip(what)

    if shutil.which("npm") is None or shutil.which("node") is None:
        missing("Node and npm are not installed")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    done = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "pyodide@314"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        missing(f"npm cannot fetch pyodide: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return folder


def natively() -> dict[str, Any]:
    """The same script in this Python."""
    script = f"{SCRIPT.rstrip().removesuffix('json.dumps(out)')}print(json.dumps(out))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


def test_queue_demo_and_event_loop_do_the_same_in_webassembly(node: Path) -> None:
    text = START.format(
        kit=json.dumps(str(ROOT)),
        simpy=json.dumps(str(Path(simpy.__file__).parents[1])),
        script=json.dumps(SCRIPT),
    )
    (node / "run.mjs").write_text(text)
    done = subprocess.run(
        ["node", "run.mjs"], cwd=node, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    there, here = json.loads(done.stdout.strip().splitlines()[-1]), natively()
    assert there.pop("platform") == "emscripten" != here.pop("platform")
    assert len(there["model"]) == 500
    assert "DRR, quantum 400" in there["demo"]
    assert there == here
    assert not there["numpy"]  # or more could be tried
