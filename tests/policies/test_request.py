"""Request: what it takes, what it refuses, and that it cannot change."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from fairq import DRR, FIFO, VTC, KeyCaps, Levels, Priority, Request

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("cost", v) for v in (0, -1, 0.0, NAN, INF, "5", None, True, 1j, Decimal("1.5"), 10**400)],
        *[("cost", v) for v in (np.float32("nan"), np.int64(0), np.array([1, 2]))],
        *[("priority", v) for v in (NAN, INF, "0", None, Decimal(1))],
        *[("arrival", v) for v in (NAN, INF, -INF, "now", True, Decimal("sNaN"))],
        *[("service", v) for v in (-1, -0.5, NAN, INF, "1", Decimal(-3))],
        *[("prompt_tokens", v) for v in (-1, NAN, INF, Decimal(3))],
        *[("output_tokens", v) for v in (-1, NAN, INF)],
        *[("tenant", v) for v in ("", None, 7)],
        *[("key", v) for v in ("", 7)],
    ],
)
def test_bad_values_name_field_value_and_request(field, value):
    fields = {"tenant": "acme", "cost": 5, "id": "r-17", field: value}
    with pytest.raises(ValueError) as raised:
        Request(fields.pop("tenant"), fields.pop("cost"), **fields)
    message = str(raised.value)
    assert message.startswith(field)
    assert repr(value) in message
    assert "r-17" in message


@pytest.mark.parametrize(
    "fields",
    [
        {"cost": 1e-9},
        {"cost": Fraction(1, 3)},
        {"cost": 10**30},
        {"cost": 1, "service": 0},
        {"cost": 1, "service": Decimal("0.1"), "arrival": Decimal("0.2")},
        {"cost": 1, "arrival": -5},
        {"cost": 1, "priority": -2.5},
        {"cost": 1, "prompt_tokens": 0, "output_tokens": 0},
    ],
)
def test_good_values_are_kept_as_given(fields):
    request = Request("acme", **fields)
    for field, value in fields.items():
        assert getattr(request, field) is value


@pytest.mark.parametrize(
    ("given", "kind"),
    [(np.float32(0.1), float), (np.float64(2.5), float), (np.uint8(200), int), (np.int64(7), int)],
)
def test_a_scalar_of_numpys_becomes_the_number_it_equals(given, kind):
    request = Request("acme", given, arrival=given, priority=given, service=given, output_tokens=given)
    for field in ("cost", "arrival", "priority", "service", "output_tokens"):
        assert getattr(request, field) == given
        assert type(getattr(request, field)) is kind


def test_small_integers_of_numpys_do_not_overflow_in_the_accounts():
    # As 8-bit numbers, two estimates of 200 tokens would sum to 144.
    queue = DRR(quantum=1)
    for n in range(3):
        queue.put(Request("acme", np.uint8(200), id=n))
    request = queue.get()
    queue.charge(request, np.uint8(250))
    queue.done(request, np.uint8(100))
    assert queue.snapshot()["accounts"]["acme"]["deficit"] == 100


@pytest.mark.parametrize("verb", ["charge", "done"])
def test_a_true_cost_that_no_account_can_hold_is_refused(verb):
    queue = FIFO()
    request = Request("acme", 1.5, id="r-17")
    queue.put(request)
    queue.get()
    with pytest.raises(ValueError, match=r"cost must be a finite number >= 0, got Decimal\('2'\) for .*r-17"):
        getattr(queue, verb)(request, Decimal(2))
    queue.done(request)


@pytest.mark.parametrize(
    "make", [FIFO, VTC, lambda: Priority(ageing=60), lambda: KeyCaps(DRR(500)), lambda: Levels({0: FIFO()})]
)
@pytest.mark.parametrize("value", [3, None, "chat", [1], {"tenant": "acme"}, Request])
def test_a_queue_takes_requests_only(make, value):
    queue = make()
    with pytest.raises(TypeError, match="a queue holds requests: put a Request, got "):
        queue.put(value)
    queue.put(Request("acme", 1, arrival=0, id="good"))
    assert len(queue) == 1
    assert queue.get().id == "good"


def test_the_key_is_the_tenant_unless_given():
    assert Request("acme", 1).key == "acme"
    assert Request("acme", 1, key="k").key == "k"


def test_it_cannot_change():
    request = Request("acme", 1)
    for field in ("cost", "tenant", "note"):
        with pytest.raises(AttributeError, match=field):
            setattr(request, field, 2)
    with pytest.raises(AttributeError, match="cost"):
        del request.cost
    assert request.cost == 1


def test_equal_fields_are_two_requests():
    one, two = Request("acme", 1, id=1), Request("acme", 1, id=1)
    assert one != two
    assert len({one, two}) == 2
    assert copy.copy(one) is one
    assert copy.deepcopy([one])[0] is one


def test_it_survives_a_pickle_with_all_fields():
    request = Request(
        "acme", 3, arrival=1, priority=2, key="k", service=4, prompt_tokens=5, output_tokens=6,
        conversation="c", id=7,
    )  # fmt: skip
    again = pickle.loads(pickle.dumps(request))
    assert all(getattr(again, name) == getattr(request, name) for name in Request.__slots__)
    with pytest.raises(AttributeError):
        again.cost = 1


def test_repr_shows_what_was_given():
    assert repr(Request("acme", 1)) == "Request('acme', 1)"
    assert repr(Request("acme", 1, id="x", priority=1, key="k", arrival=2)) == (
        "Request('acme', 1, id='x', arrival=2, priority=1, key='k')"
    )
