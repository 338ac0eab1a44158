"""The page about the policies: its numbers are those of the script, its names are those of the library."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import fairq
from fairq import counterexamples

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "fairq/policies/README.md").read_text(encoding="utf-8")


def test_every_number_on_the_page_is_the_scripts():
    spec = importlib.util.spec_from_file_location("policy_page", ROOT / "benchmarks/policy_page.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.fill_in(PAGE) == PAGE


def test_the_page_names_every_policy_and_nothing_else():
    known = set(fairq.__all__) - {"Policy", "Request"} | set(counterexamples.__all__)
    assert {name for name in known if name not in PAGE} == set()
    called = set(re.findall(r"`([A-Z]\w+)\(", PAGE))
    assert called <= known


def test_the_page_is_one_page():
    assert len(PAGE.splitlines()) < 160
