"""``fairq prove``: the table, the exit code, and that a check that fails or breaks is seen."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from typer.testing import CliRunner

from fairq.cli import app
from fairq.prove import fair, laws, others, run
from fairq.prove.line import Line, not_checked, number

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


def test_one_that_was_not_checked_says_so_and_counts_for_neither(claims):
    claims(lambda: [GOOD, not_checked("one is three", "nobody", "three is not installed")])
    result = prove()
    assert result.exit_code == 0
    assert "1 of 2 lines hold, 1 not checked" in result.stdout
    assert "not checked: three is not installed" in result.stdout
    assert "Does not hold" not in result.stdout
    assert [line["holds"] for line in json.loads(prove("--json").stdout)] == [True, None]


def test_a_package_that_is_missing_leaves_no_line_out(monkeypatch):
    """Each claim against another simulator is in the table, whether that is there or not."""
    monkeypatch.setattr(others, "find_spec", lambda name: None)
    lines = others.ciw_lines() + others.ns_lines()
    assert len(lines) == len(others.CIW) + 1
    assert {line.measured for line in lines} == {
        "not checked: ciw is not installed",
        "not checked: ns.py is not installed",
    }
    assert {line.holds for line in lines} == {None}


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


def test_every_part_has_checks_and_is_named_in_the_help():
    assert {module for module, _ in run.tasks()} == set(run.MODULES)
    words = prove("--help").stdout.replace(",", " ").split()
    assert set(run.MODULES) <= set(words)


def test_the_one_server_bound_must_be_passed_as_far_as_the_line_says(monkeypatch):
    assert fair.slot_seconds(range(10), slots=1)[0] <= 1  # on one server it is a bound
    assert fair.slot_seconds(range(10), slots=2)[0] < 4
    monkeypatch.setattr(fair, "slot_seconds", lambda seeds: (3.9, 0.8))
    assert [line.holds for line in fair.slot_second_lines()] == [False, True]


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
