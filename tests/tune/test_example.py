"""The asyncio example in front of an engine: run as it is printed, and its gate alone when people give up."""

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Lock, Thread
from types import ModuleType
from typing import Any

import pytest

from fairq import DRR, FIFO, KeyCaps, Request
from fairq.data import data_path

EXAMPLE = data_path("examples/asyncio_gateway.py")


class Server(ThreadingHTTPServer):
    request_queue_size = 128


class Engine(BaseHTTPRequestHandler):
    """Answers like an OpenAI-style engine, and remembers who came and how many were in at once.

    ``together``: nobody is answered before as many are in.
    """

    lock = Lock()
    came: list[str] = []  # noqa: RUF012
    inside = 0
    most = 0
    together: Barrier | None = None

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with Engine.lock:
            Engine.came.append(body["user"])
            Engine.inside += 1
            Engine.most = max(Engine.most, Engine.inside)
        if Engine.together is not None:
            with suppress(BrokenBarrierError):  # too few came: `most` tells
                Engine.together.wait(timeout=20)
        reply = {
            "choices": [{"text": "ok"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": body["max_tokens"]},
        }
        content = json.dumps(reply).encode()
        with Engine.lock:
            Engine.inside -= 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[str]:
    Engine.came, Engine.inside, Engine.most, Engine.together = [], 0, 0, None
    server = Server(("127.0.0.1", 0), Engine)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/completions"
    server.shutdown()
    server.server_close()


def run(policy: str, url: str, slots: int, tmp_path: Path, batch: int = 12) -> list[str]:
    """Who was answered, in order: twelve (``batch``) of one user, then one of another."""
    file = tmp_path / "policy.yaml"
    file.write_text(policy)
    bodies = [{"user": "batch", "prompt": "x" * 40, "max_tokens": 90}] * batch
    bodies += [{"user": "chat", "prompt": "x" * 40, "max_tokens": 90}]
    done = subprocess.run(
        [sys.executable, EXAMPLE, file, url, str(slots)],
        input="".join(json.dumps(body) + "\n" for body in bodies),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [json.loads(line)["user"] for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_the_example_with_a_fifo_file_makes_chat_wait(engine: str, tmp_path: Path) -> None:
    assert run("policy: fifo\n", engine, 1, tmp_path).index("chat") == 12


def test_the_example_serves_in_the_order_of_the_policy_file(engine: str, tmp_path: Path) -> None:
    answered = run("{policy: drr, quantum: 100}\n", engine, 1, tmp_path)
    # One of the batch has gone in before anybody else came; then they take turns.
    assert answered.index("chat") <= 2
    assert Engine.came.index("chat") <= 2
    assert Engine.most == 1
    assert len(answered) == 13


def test_every_slot_reaches_the_engine(engine: str, tmp_path: Path) -> None:
    # More than the 32 threads that asyncio's own pool has at most; one round of 40 and one of 40.
    slots = 40
    Engine.together = Barrier(slots)
    answered = run("policy: fifo\n", engine, slots, tmp_path, batch=2 * slots - 1)
    assert len(answered) == 2 * slots
    assert Engine.most == slots


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("asyncio_gateway", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_who_gives_up_leaves_nothing_behind(example: ModuleType) -> None:
    async def scene() -> tuple[list[str], Any]:
        policy = KeyCaps(DRR(quantum=10), default=1)
        gate = example.Gate(policy, 2)
        served: list[str] = []
        hold = asyncio.Event()

        def one(name: str, wait: bool) -> asyncio.Task[Any]:
            async def call() -> tuple[str, int]:
                served.append(name)
                if wait:
                    await hold.wait()
                return name, 7

            return asyncio.create_task(gate.serve(Request(name, 10, arrival=0), call))

        first, second = one("a", True), one("b", True)
        waiting, late, last = one("c", False), one("d", False), one("e", False)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert served == ["a", "b"]
        waiting.cancel()  # gives up in the queue
        second.cancel()  # gives up in service
        late.cancel()  # gives up in the moment in which it may be handed out
        hold.set()
        answers = await asyncio.gather(first, second, waiting, late, last, return_exceptions=True)
        return served, (gate, policy, answers)

    served, (gate, policy, answers) = asyncio.run(scene())
    assert served == ["a", "b", "e"]
    assert answers[0] == "a"
    assert answers[4] == "e"
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[1:4])
    assert gate.free == 2, "every slot came back"
    assert len(policy) == policy.running == 0
    assert not gate._turns, "nor is anybody's turn kept"


def test_an_engine_that_fails_gives_its_slot_back(example: ModuleType) -> None:
    async def scene() -> Any:
        gate = example.Gate(FIFO(), 1)

        async def fails() -> tuple[str, int]:
            raise OSError("engine is gone")

        async def works() -> tuple[str, int]:
            return "fine", 3

        results = await asyncio.gather(
            gate.serve(Request("a", 5, arrival=0), fails),
            gate.serve(Request("b", 5, arrival=0), works),
            return_exceptions=True,
        )
        return results, gate.free

    (first, second), free = asyncio.run(scene())
    assert isinstance(first, OSError)
    assert (second, free) == ("fine", 1)
