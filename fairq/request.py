"""One piece of work, as a queue sees it."""

from __future__ import annotations

import sys
from decimal import Decimal
from math import isfinite
from numbers import Integral, Rational, Real
from typing import Any, TypeAlias

Number: TypeAlias = Any
"""An int, a float or a ``fractions.Fraction``: kept as given, so integer times stay exact.

A scalar of numpy's becomes the Python number it equals, as its own sums may overflow. A ``Decimal`` cannot
be added to a float: it may be a time, if all times of a run are such or ints, and is refused elsewhere.
"""

_PLAIN = frozenset({int, float})
_MOST = sys.float_info.max


class Request:
    """What a queue needs to know of one piece of work. Immutable; compared by identity.

    Parameters
    ----------
    tenant : who asks; fair shares are per tenant.
    cost : estimated tokens, finite and > 0.
    arrival : when it came, in seconds. Policies whose order needs it raise when it is missing.
    priority : level, lower first (as in vLLM).
    key : the API key it came with; caps count keys. Default: the tenant.
    service : seconds of slot time, finite and >= 0; without it an engine derives it from the tokens.
    prompt_tokens, output_tokens : true sizes, finite and >= 0.
    conversation : which conversation it belongs to (for session affinity).
    id : any name of the caller's; only echoed back.

    Raises
    ------
    ValueError : names the field, the value and the request.
    """

    __slots__ = (
        "arrival",
        "conversation",
        "cost",
        "id",
        "key",
        "output_tokens",
        "priority",
        "prompt_tokens",
        "service",
        "tenant",
    )

    tenant: str
    cost: Number
    arrival: Number | None
    priority: Number
    key: str
    service: Number | None
    prompt_tokens: Number | None
    output_tokens: Number | None
    conversation: Any
    id: Any

    def __init__(
        self,
        tenant: str,
        cost: Number,
        *,
        arrival: Number | None = None,
        priority: Number = 0,
        key: str | None = None,
        service: Number | None = None,
        prompt_tokens: Number | None = None,
        output_tokens: Number | None = None,
        conversation: Any = None,
        id: Any = None,
    ) -> None:
        put = object.__setattr__
        put(self, "tenant", tenant)
        put(self, "cost", cost)
        put(self, "arrival", arrival)
        put(self, "priority", priority)
        put(self, "key", tenant if key is None else key)
        put(self, "service", service)
        put(self, "prompt_tokens", prompt_tokens)
        put(self, "output_tokens", output_tokens)
        put(self, "conversation", conversation)
        put(self, "id", id)
        # One look at what is usual, with no call per field: a queue is given millions of these.
        if not (
            isinstance(tenant, str)
            and tenant
            and (key is None or (isinstance(key, str) and key))
            and type(cost) in _PLAIN
            and 0 < cost <= _MOST
            and type(priority) in _PLAIN
            and -_MOST <= priority <= _MOST
            and (arrival is None or (type(arrival) in _PLAIN and -_MOST <= arrival <= _MOST))
            and (service is None or (type(service) in _PLAIN and 0 <= service <= _MOST))
            and (prompt_tokens is None or (type(prompt_tokens) in _PLAIN and 0 <= prompt_tokens <= _MOST))
            and (output_tokens is None or (type(output_tokens) in _PLAIN and 0 <= output_tokens <= _MOST))
        ):
            self._check()

    def _check(self) -> None:
        for field in ("tenant", "key"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value:
                raise ValueError(f"{field} must be a non-empty string, got {value!r} in {self!r}")
        for field, wanted in _NUMBERS.items():
            value = getattr(self, field)
            if value is None and field not in ("cost", "priority"):
                continue
            number = as_time(value) if field in ("arrival", "service") else as_number(value)
            if (
                number is None
                or (wanted.endswith("> 0") and number <= 0)
                or (wanted.endswith(">= 0") and number < 0)
            ):
                raise ValueError(f"{field} must be {wanted}, got {value!r} in {self!r}")
            object.__setattr__(self, field, number)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Request is immutable: cannot set {name!r} of {self!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Request is immutable: cannot delete {name!r} of {self!r}")

    # A copied queue must hold the very same requests, since they are compared by identity.
    def __copy__(self) -> Request:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Request:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (tuple((name, getattr(self, name)) for name in self.__slots__),)

    def __repr__(self) -> str:
        shown = [f"{self.tenant!r}", f"{self.cost!r}"]
        for name in ("id", "arrival", "priority", "key", "service", "prompt_tokens", "output_tokens"):
            value = getattr(self, name)
            if (
                value is not None
                and not (name == "priority" and value == 0)
                and not (name == "key" and value == self.tenant)
            ):
                shown.append(f"{name}={value!r}")
        return f"Request({', '.join(shown)})"


def _rebuild(fields: tuple[tuple[str, Any], ...]) -> Request:
    values = dict(fields)
    return Request(values.pop("tenant"), values.pop("cost"), **values)


_NUMBERS = {
    "cost": "a finite number > 0",
    "priority": "a finite number",
    "arrival": "a finite number",
    "service": "a finite number >= 0",
    "prompt_tokens": "a finite number >= 0",
    "output_tokens": "a finite number >= 0",
}


def as_number(value: Any) -> Number | None:
    """A finite number that can be added to a float, numpy's as Python's; ``None`` for anything else."""
    if type(value) in _PLAIN:
        return value if -_MOST <= value <= _MOST else None
    try:
        if isinstance(value, bool) or not isfinite(value):
            return None
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real) and not isinstance(value, Rational):
            return float(value)
        value + 0.5  # refused by a Decimal, say
        return value
    except (TypeError, ValueError, OverflowError):  # overflow: an int that no float can stand for
        return None


def as_time(value: Any) -> Number | None:
    """As ``as_number``; finite ``Decimal`` values stay what they are."""
    if isinstance(value, Decimal):
        return value if value.is_finite() else None
    return as_number(value)
