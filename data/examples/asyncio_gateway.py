"""A policy file in front of an OpenAI-style engine, in one event loop.

    python asyncio_gateway.py policy.yaml http://ENGINE:8000/v1/completions 8 < requests.jsonl

Each line of the input is the JSON body of a request; its "user" is the tenant, its "key" (default: the user)
is what caps count. At most 8 requests are with the engine at any time; who goes next is the policy's choice.
Answers come out in the order they finish.
"""

import asyncio
import json
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fairq import Policy, Request
from fairq.scenario import load_policy


class Gate:
    """Lets ``slots`` requests through at once, in the order of a policy. Belongs to one event loop."""

    def __init__(self, policy: Policy, slots: int) -> None:
        self.policy = policy
        self.free = slots
        self._turns: dict[Request, asyncio.Future[None]] = {}

    async def serve(self, request: Request, call: Callable[[], Awaitable[tuple[Any, int]]]) -> Any:
        """Waits for its turn, then awaits ``call()`` → (answer, true tokens); returns the answer."""
        turn = self._turns[request] = asyncio.get_running_loop().create_future()
        self.policy.put(request)
        self._dispatch()
        try:
            await turn
        except asyncio.CancelledError:
            if self.policy.cancel(request):
                del self._turns[request]
            elif turn.done() and not turn.cancelled():
                # It was handed out in the very moment in which its caller gave up.
                self._leave(request, 0)
            raise
        tokens = None
        try:
            answer, tokens = await call()
            return answer
        finally:
            self._leave(request, tokens)

    def _leave(self, request: Request, tokens: int | None) -> None:
        self.policy.done(request, tokens)
        self.free += 1
        self._dispatch()

    def _dispatch(self) -> None:
        now = asyncio.get_running_loop().time()
        while self.free and (request := self.policy.get(now=now)) is not None:
            turn = self._turns.pop(request)
            if turn.cancelled():
                self.policy.done(request, 0)
                continue
            self.free -= 1
            turn.set_result(None)


async def ask(pool: ThreadPoolExecutor, url: str, body: dict[str, Any]) -> tuple[Any, int]:
    """One request to the engine, from a thread of the pool: (its answer, the tokens it cost)."""

    def post() -> Any:
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as reply:
            return json.load(reply)

    answer = await asyncio.get_running_loop().run_in_executor(pool, post)
    usage = answer["usage"]
    return answer, usage["prompt_tokens"] + usage["completion_tokens"]


async def main(policy_file: str, url: str, slots: int) -> None:
    gate = Gate(load_policy(policy_file), slots)
    # A thread for every slot: with fewer (asyncio's own pool has few) those let through would queue again,
    # where no policy reaches.
    pool = ThreadPoolExecutor(max_workers=slots)

    async def one(body: dict[str, Any]) -> None:
        # What is not known before: a rough guess of the prompt, and all that may be generated.
        cost = len(str(body.get("prompt", body.get("messages", "")))) // 4 + body.get("max_tokens", 256)
        now = asyncio.get_running_loop().time()
        user = body.get("user", "anonymous")
        key, level = body.pop("key", user), body.get("priority", 0)
        request = Request(user, cost, arrival=now, priority=level, key=key)
        answer = await gate.serve(request, lambda: ask(pool, url, body))
        print(json.dumps({"user": user, "answer": answer}), flush=True)

    with pool:
        await asyncio.gather(*(one(json.loads(line)) for line in sys.stdin if line.strip()))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
