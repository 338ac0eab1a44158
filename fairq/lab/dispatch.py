"""Redraw safely: hand the work to the kernel's main loop, the newest request wins.

JupyterLab delivers widget messages on a subshell thread, also while a cell runs. Matplotlib is not
thread-safe, so nothing is drawn there: the callback only notes that something changed, and the main loop does
the work once the running cell is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

AFTER_CLICK_S = 0.25


def main_loop() -> Any | None:
    """The running kernel's event loop (``add_callback``, ``call_later``), or None outside a kernel."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return getattr(getattr(shell, "kernel", None), "io_loop", None)


class LatestOnMain:
    """Calls ``work()`` on the main thread; calls that arrive before it starts are merged into one.

    Outside a kernel, or already on the main thread, it is called at once. ``work`` must catch its own errors.
    """

    def __init__(self, work: Callable[[], None], loop: Callable[[], Any | None] = main_loop) -> None:
        self._work = work
        self._loop = loop
        self._lock = threading.Lock()
        self._queued = False

    @property
    def waiting(self) -> bool:
        """True while a newer call waits for the main loop: whoever works now may stop."""
        return self._queued

    def __call__(self) -> None:
        loop = self._loop()
        if loop is None or threading.current_thread() is threading.main_thread():
            self._work()
            return
        with self._lock:
            if self._queued:
                return
            self._queued = True
        loop.add_callback(self._run)

    def _run(self) -> None:
        with self._lock:
            self._queued = False
        self._work()


def after_click(call: Callable[[], None], loop: Callable[[], Any | None] = main_loop) -> None:
    """For a button that reads the boxes: calls on the main loop, a moment after the click.

    A click on a button leaves the box that was typed in, so the page sends the text, then the click. But
    JupyterLab may send the text to its subshell and the click to the main thread, where it is handled first.
    Outside a kernel it is called at once. ``call`` must catch its own errors.
    """
    main = loop()
    if main is None:
        call()
    else:
        main.add_callback(main.call_later, AFTER_CLICK_S, call)
