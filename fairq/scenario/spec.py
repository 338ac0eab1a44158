"""What all parts of a scenario file share: strict fields, plain data out, errors that name the place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainValidator, StringConstraints, ValidationError
from pydantic_core import PydanticCustomError

from fairq.files import InputError
from fairq.workload.check import CONTROL


class ScenarioError(InputError):
    """A scenario that cannot be run: ``file: tenants.chat.arrivals.rate_per_s: must be > 0, got -1``.

    ``problems`` lists all that was found, one line each; the message is the first.
    """

    def __init__(self, source: str, problems: list[str]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{source}: {problems[0]}{more}")
        self.source = source
        self.problems = problems

    def __reduce__(self) -> tuple[Any, ...]:
        return ScenarioError, (self.source, self.problems)


class Spec(BaseModel):
    """A mapping of a scenario file. Frozen; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tag: ClassVar[tuple[str, str] | None] = None
    """Field and value that choose this kind among others: ``("kind", "poisson")``."""

    def data(self) -> Any:
        """Plain data that validates back to this, with what was left out left out."""
        tag = {} if self.tag is None else dict([self.tag])
        given = (name for name in type(self).model_fields if name in self.model_fields_set)
        return tag | {name: plain(getattr(self, name)) for name in given}


def plain(value: Any) -> Any:
    """Specs, mappings and sequences as dicts, lists and scalars."""
    if isinstance(value, Spec):
        return value.data()
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def choice(kinds: Mapping[str, type[Spec]], field: str) -> PlainValidator:
    """Chooses the spec by ``field``: a new kind is one class and one row in ``kinds``."""

    def validate(value: Any) -> Spec:
        if isinstance(value, Spec) and value.tag and value.tag[0] == field:
            return value
        if not isinstance(value, Mapping):
            raise ValueError(
                f"must be a mapping with `{field}` (one of {', '.join(kinds)}), got {_short(value)}"
            )
        given = dict(value)
        name = given.pop(field, None)
        if not isinstance(name, str) or name not in kinds:
            raise _at(field, f"must be one of {', '.join(kinds)}, got {_short(name)}", name)
        return kinds[name].model_validate(given)

    return PlainValidator(validate)


def _at(field: str, message: str, value: Any) -> ValidationError:
    """An error of a field, for a validator of the mapping that holds it."""
    problem = PydanticCustomError("place", "{message}", {"message": message})
    return ValidationError.from_exception_data(
        "scenario", [{"type": problem, "loc": (field,), "input": value}]
    )


def _number(
    above: float | None = None, least: float | None = None, most: int | None = None, whole: bool = False
) -> PlainValidator:
    limits = [f"> {above:g}" if above is not None else "", f">= {least:g}" if least is not None else ""]
    wanted = " and ".join(filter(None, limits))
    kind = "a whole number" if whole else "a number"

    def validate(value: Any) -> Any:
        number = _from_text(value) if isinstance(value, str) else value
        if whole and isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int if whole else (int, float)):
            raise ValueError(f"must be {kind} {wanted}".rstrip() + f", got {_short(value)}")
        if not math.isfinite(number):
            raise ValueError(f"must be finite, got {_short(value)}")
        if not ((above is None or number > above) and (least is None or number >= least)):
            raise ValueError(f"must be {wanted}, got {_short(value)}")
        if most is not None and number > most:
            raise ValueError(f"must be {wanted} and <= {most:,}, got {_short(value)}")
        return number

    return PlainValidator(validate)


def _from_text(text: str) -> Any:
    # YAML 1.1 reads 1e3 as text; a person means a number.
    try:
        return text if "_" in text else float(text)
    except ValueError:
        return text


Number = Annotated[float, _number()]
Positive = Annotated[float, _number(above=0)]
NonNegative = Annotated[float, _number(least=0)]
Count = Annotated[int, _number(least=1, whole=True)]
Slots = Annotated[int, _number(least=1, most=1_000_000, whole=True)]
Replicas = Annotated[int, _number(least=1, most=10_000, whole=True)]
"""Each slot and each replica is an entry in a list; more are a typing mistake, not a machine."""
Limit = Annotated[int, _number(least=0, whole=True)]
Cv = Annotated[float, _number(above=0, most=100)]


def at_least(least: float) -> PlainValidator:
    """A finite number from ``least`` on."""
    return _number(least=least)


def _printable(name: str) -> str:
    if CONTROL.search(name):
        raise PydanticCustomError("name", "must be a name without control characters")
    return name


Name = Annotated[str, StringConstraints(min_length=1, strict=True), AfterValidator(_printable)]


def validated(kind: type[Spec], data: Any, source: str) -> Any:
    """``data`` as a ``kind``. Raises ScenarioError with every problem, each with field and value."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        # A misspelt field is also a missing one: say first what was written.
        found = sorted(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
        raise ScenarioError(source, [_problem(each) for each in found]) from None


def _problem(error: Any) -> str:
    where = [str(part) for part in error["loc"] if part != "[key]"]
    if error["loc"] and (error["loc"][-1] == "[key]" or error["type"] == "invalid_key"):
        where[-1] = str(error["input"])  # as YAML read it; pydantic calls True 1
    what, value = error["msg"], _short(error["input"])
    if error["type"] == "value_error":
        what = str(error["ctx"]["error"])  # ours: names the value itself
    elif error["type"] == "place":
        pass
    elif error["type"] in ("string_type", "invalid_key"):
        what = f"must be a valid string, got {value}{_quoting(error['input'])}"
    elif error["type"] == "string_too_short":
        what = f"must not be empty, got {value}"
        if where and not where[-1]:  # a key
            where, what = where[:-1], f"a name {what}"
    elif error["type"] == "missing":
        what = "is missing"
    elif error["type"] == "extra_forbidden":
        what = f"unknown field, got {value}"
    elif error["type"] in ("model_type", "dict_type"):
        what = f"must be a mapping, got {value}"
    else:
        what = f"{what.replace('Input should', 'must')}, got {value}"
    return f"{'.'.join(where)}: {what}" if where else what


def _quoting(value: Any) -> str:
    """What to do where a name was meant and YAML read something else."""
    if isinstance(value, bool) or value is None:
        bare = {True: "yes, on or true", False: "no, off or false", None: "null, ~ or nothing"}[value]
        return f" (YAML for a bare {bare}): quote it if it is a name"
    return f': quote it if it is a name ("{value}")' if isinstance(value, (int, float, date)) else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
