"""A policy of one's own inside the wrappers: all it needs to know of who may run is ``eligible(key)``."""

from __future__ import annotations

import pytest

from fairq import FIFO, Floors, KeyCaps, Request, SoftCaps


class Latest(FIFO):
    """The key that asked last goes next, among those that may run."""

    def get(self, eligible=None, now=None):
        self.waiting("")  # over to a line per key: the base class may then take any of them
        latest = next((r.key for r in reversed(self._waiting) if eligible is None or eligible(r.key)), None)
        return super().get(lambda key: key == latest, now)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda p: KeyCaps(p, {"a": 0, "b": 1}),
        lambda p: SoftCaps(KeyCaps(p, {"a": 0, "b": 1})),
        lambda p: Floors(KeyCaps(p, {"a": 0, "b": 1}), {"nobody": (["x"], 1)}, slots=4),
        lambda p: KeyCaps(Floors(p, {"nobody": (["x"], 1)}, slots=4), {"a": 0, "b": 1}),
    ],
)
def test_the_gate_answers_like_a_predicate(wrap):
    queue = wrap(Latest())
    for key in "dcbba":
        queue.put(Request(key, 1))
    served = [queue.get(lambda key: key != "c"), queue.get(lambda key: key != "c"), queue.get()]
    assert [r and r.key for r in served] == ["b", "d", "c"]
    assert queue.get() is None


def test_the_floors_gate_closes():
    queue = Floors(Latest(), {"x": (["x"], 1)}, slots=2)
    for key in "xab":
        queue.put(Request(key, 1))
    assert [r and r.key for r in (queue.get(), queue.get(), queue.get())] == ["b", "x", None]
