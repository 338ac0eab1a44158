"""Request: what it takes, what it refuses, and that it cannot change."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import pytest

from fairq import Request

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("cost", v) for v in (0, -1, 0.0, NAN, INF, "5", None, True, 1j)],
        *[("priority", v) for v in (NAN, INF, "0", None)],
        *[("arrival", v) for v in (NAN, INF, -INF, "now", True)],
        *[("service", v) for v in (-1, -0.5, NAN, INF, "1")],
        *[("prompt_tokens", v) for v in (-1, NAN, INF)],
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
        {"cost": 1, "arrival": -5},
        {"cost": 1, "priority": -2.5},
        {"cost": 1, "prompt_tokens": 0, "output_tokens": 0},
    ],
)
def test_good_values_are_kept_as_given(fields):
    request = Request("acme", **fields)
    for field, value in fields.items():
        assert getattr(request, field) is value


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
