"""``fairq prove``: the table, the exit code, and that a check that fails or breaks is seen."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from typer.testing import CliRunner

from fairq.cli import app
from fairq.prove import laws, run
from fairq.prove.line import Line, number

GOOD = Line("one is one", "Peano 1889", "by looking", "1", "1", True)
BAD = Line("one is two", "nobody", "by looking", "1", "2", False)


def breaks():
    raise ZeroDivisionError("by nought")


@pytest.fixture
def claims(monkeypatch):
    """A table of our own: ``claims(check, …)`` makes it the only part."""

    def install(*checks):
        module = ModuleType("fairq.prove.ours")
        module.CHECKS = list(checks)
        monkeypatch.setitem(sys.modules, "fairq.prove.ours", module)
        monkeypatch.setattr(run, "MODULES", ("ours",))

    return install


def prove(*args):
    return CliRunner().invoke(app, ["prove", "--jobs", "1", *args])


def test_all_lines_hold(claims):
    claims(lambda: [GOOD, GOOD])
    result = prove()
    assert result.exit_code == 0
    assert "Peano 1889" in result.stdout
    assert "2 of 2 lines hold" in result.stdout


def test_one_that_fails_fails_the_command(claims):
    claims(lambda: [GOOD], lambda: [BAD])
    result = prove()
    assert result.exit_code == 1
    assert "1 of 2 lines hold" in result.stdout
    assert "Does not hold: one is two" in result.stdout


def test_one_that_breaks_fails_the_command_and_the_others_are_shown(claims):
    claims(breaks, lambda: [GOOD])
    result = prove()
    assert result.exit_code == 1
    assert "ZeroDivisionError: by nought" in result.stdout
    assert "one is one" in result.stdout


def test_json(claims):
    claims(lambda: [GOOD, BAD])
    result = prove("--json")
    assert result.exit_code == 1
    assert [line["holds"] for line in json.loads(result.stdout)] == [True, False]
    assert set(json.loads(result.stdout)[0]) == {"claim", "source", "how", "measured", "bound", "holds"}


def test_an_unknown_part_is_named():
    result = prove("--part", "magic")
    assert result.exit_code == 2
    assert "'magic'" in result.stderr


def test_a_check_for_real():
    lines = run.run(("laws", [check.__name__ for check in laws.CHECKS].index("starvation_lines")))
    assert [line.holds for line in lines] == [True, True]


def test_every_part_has_checks():
    assert {module for module, _ in run.tasks()} == set(run.MODULES)


@pytest.mark.slow
def test_a_part_from_the_command_line():
    result = CliRunner().invoke(app, ["prove", "--part", "laws", "--json"])
    assert result.exit_code == 0, result.stdout
    claims = [line["claim"] for line in json.loads(result.stdout)]
    assert any("Little" in claim for claim in claims)


@pytest.mark.slow
def test_every_line_holds():
    failed = [line for line in run.prove() if not line.holds]
    assert not failed, failed


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (1.23456, "1.235"), (31.9, "31.9"), (1e-5, "1.00e-05"), (2, "2")]
)
def test_numbers(value, shown):
    assert number(value) == shown
