"""The dispatcher: work is done on the main thread, the newest call wins, nothing is lost."""

from __future__ import annotations

import asyncio
import threading

from tornado.ioloop import IOLoop

from fairq.lab.dispatch import AFTER_CLICK_S, LatestOnMain, after_click, main_loop


class Loop:
    """A main loop that runs its callbacks when told to."""

    def __init__(self) -> None:
        self.queue: list = []

    def add_callback(self, call) -> None:
        self.queue.append(call)

    def turn(self) -> None:
        calls, self.queue = self.queue, []
        for call in calls:
            call()


def elsewhere(call) -> None:
    """Run it on another thread, as JupyterLab's subshell does."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_outside_a_kernel_the_work_is_done_at_once() -> None:
    assert main_loop() is None
    done = []
    LatestOnMain(lambda: done.append(1))()
    assert done == [1]


def test_from_another_thread_the_work_waits_for_the_main_loop() -> None:
    loop, threads = Loop(), []
    dispatch = LatestOnMain(lambda: threads.append(threading.current_thread()), lambda: loop)
    elsewhere(dispatch)
    assert threads == []
    assert dispatch.waiting
    loop.turn()
    assert threads == [threading.main_thread()]
    assert not dispatch.waiting


def test_calls_before_the_work_starts_are_merged_into_one() -> None:
    loop, seen, value = Loop(), [], [0]
    dispatch = LatestOnMain(lambda: seen.append(value[0]), lambda: loop)
    for i in range(1, 6):
        value[0] = i
        elsewhere(dispatch)
    loop.turn()
    assert seen == [5]


def test_a_call_during_the_work_is_done_afterwards() -> None:
    loop, seen, value = Loop(), [], [1]

    def work() -> None:
        seen.append(value[0])
        if value[0] == 1:
            value[0] = 2
            elsewhere(dispatch)
            assert dispatch.waiting

    dispatch = LatestOnMain(work, lambda: loop)
    elsewhere(dispatch)
    loop.turn()
    assert seen == [1]
    loop.turn()
    assert seen == [1, 2]


def test_on_the_main_thread_of_a_kernel_the_work_is_done_at_once() -> None:
    loop, done = Loop(), []
    LatestOnMain(lambda: done.append(1), lambda: loop)()
    assert done == [1]
    assert loop.queue == []


def test_a_click_is_handled_after_what_was_typed_before_it() -> None:
    """On a real loop: the click is delivered first, on the main thread, the text later, on another thread."""
    box, read = ["old"], []

    async def page() -> None:
        loop = IOLoop.current()
        over = asyncio.Event()

        def button() -> None:
            read.append((box[0], threading.current_thread()))
            over.set()

        after_click(button, lambda: loop)
        loop.call_later(AFTER_CLICK_S / 5, elsewhere, lambda: box.__setitem__(0, "new"))
        await asyncio.wait_for(over.wait(), 60)

    asyncio.run(page())
    assert read == [("new", threading.main_thread())]


def test_outside_a_kernel_a_click_is_handled_at_once() -> None:
    done = []
    after_click(lambda: done.append(1))
    assert done == [1]
