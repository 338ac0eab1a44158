"""One piece of work, as a queue sees it."""

from __future__ import annotations

from math import isfinite
from typing import Any, TypeAlias

Number: TypeAlias = Any
"""An int, a float or a ``fractions.Fraction``: kept as given, so integer times stay exact."""


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
        self._check()

    def _check(self) -> None:
        for field in ("tenant", "key"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value:
                raise ValueError(f"{field} must be a non-empty string, got {value!r} in {self!r}")
        if not _finite(self.cost) or self.cost <= 0:
            raise ValueError(f"cost must be a finite number > 0, got {self.cost!r} in {self!r}")
        if not _finite(self.priority):
            raise ValueError(f"priority must be a finite number, got {self.priority!r} in {self!r}")
        if self.arrival is not None and not _finite(self.arrival):
            raise ValueError(f"arrival must be a finite number, got {self.arrival!r} in {self!r}")
        for field in ("service", "prompt_tokens", "output_tokens"):
            value = getattr(self, field)
            if value is not None and (not _finite(value) or value < 0):
                raise ValueError(f"{field} must be a finite number >= 0, got {value!r} in {self!r}")

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


def _finite(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and isfinite(value)
    except (TypeError, OverflowError):
        return False
