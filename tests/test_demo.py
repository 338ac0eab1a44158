"""The demo's page, and its figures against a ring walked by hand."""

import subprocess
import sys
from collections import deque
from fractions import Fraction
from pathlib import Path

import pytest

from fairq import demo

ROOT = Path(__file__).parents[1]

# Worked out by hand: quantum 400, so ben must save a turn for 500; ana pays twice in its first turn.
PAGE = """\
One slot serves one request at a time, 100 tokens a second. At 0 s nightly sends
six requests of 400 tokens; right after it ana sends three of 200, and ben one
of 500 and one of 300.

    FIFO                         DRR, quantum 400
    request    tokens    done      round  request    tokens    done       credit
 1  nightly-1     400     4 s          1  nightly-1     400     4 s     400 -> 0
 2  nightly-2     400     8 s          1  ana-1         200     6 s   400 -> 200
 3  nightly-3     400    12 s          1  ana-2         200     8 s     200 -> 0
 4  nightly-4     400    16 s          2  nightly-2     400    12 s     400 -> 0
 5  nightly-5     400    20 s          2  ana-3         200    14 s   400 -> 200
 6  nightly-6     400    24 s          2  ben-1         500    19 s   800 -> 300
 7  ana-1         200    26 s          2  ben-2         300    22 s     300 -> 0
 8  ana-2         200    28 s          3  nightly-3     400    26 s     400 -> 0
 9  ana-3         200    30 s          4  nightly-4     400    30 s     400 -> 0
10  ben-1         500    35 s          5  nightly-5     400    34 s     400 -> 0
11  ben-2         300    38 s          6  nightly-6     400    38 s     400 -> 0

credit of each round: had + gained - sent = left
         nightly                ana                    ben
    1    0 + 400 - 400 = 0      0 + 400 - 400 = 0      0 + 400 - 0 = 400
    2    0 + 400 - 400 = 0      0 + 400 - 200 = 200 *  400 + 400 - 800 = 0 *
    3    0 + 400 - 400 = 0      -                      -
    4    0 + 400 - 400 = 0      -                      -
    5    0 + 400 - 400 = 0      -                      -
    6    0 + 400 - 400 = 0 *    -                      -
* its line is empty: it leaves the ring and forfeits what is left

last answer    FIFO       DRR
nightly        24 s      38 s   14 s later
ana            30 s      14 s   16 s sooner
ben            38 s      22 s   16 s sooner
The slot is never idle: both orders are done at the same time.
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with the standard library and fairq alone: ``-S`` leaves site-packages out."""
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = {list(arguments)!r}; "
        "runpy.run_module('fairq.demo', run_name='__main__')"
    )
    return subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)


def test_the_page_is_the_one_worked_out_by_hand_and_needs_python_alone() -> None:
    shown = run()
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == PAGE


def test_the_page_fits_a_terminal_and_is_ascii() -> None:
    assert max(map(len, PAGE.splitlines())) <= 80
    assert PAGE.isascii()


def ring(
    quantum: Fraction, weights: dict[str, int]
) -> tuple[list[tuple[str, int]], dict[tuple[int, str], tuple[Fraction, Fraction, Fraction]]]:
    """DRR as in the paper, one visit after the other: the sends, and (before, sent, after) of each visit."""
    lines = {tenant: deque(sizes) for tenant, sizes in demo.BURST}
    credit = dict.fromkeys(lines, Fraction(0))
    sends, visits, number = [], {}, 0
    while lines:
        number += 1
        for tenant in list(lines):
            before = credit[tenant]
            credit[tenant] += quantum * weights.get(tenant, 1)
            sent = Fraction(0)
            while lines[tenant] and lines[tenant][0] <= credit[tenant]:
                cost = lines[tenant].popleft()
                credit[tenant] -= cost
                sent += cost
                sends.append((tenant, number))
            visits[number, tenant] = (before, sent, credit[tenant])
            if not lines[tenant]:
                del lines[tenant]
    return sends, visits


@pytest.mark.parametrize("quantum", [Fraction(400), Fraction(1, 3), Fraction(70), Fraction(900)])
@pytest.mark.parametrize("weights", [{}, {"ana": 3, "nightly": 2}])
def test_orders_rounds_and_credits_are_those_of_the_ring(quantum: Fraction, weights: dict[str, int]) -> None:
    sends, visits = ring(quantum, weights)
    shown = demo.drr_order(quantum, weights)
    assert [(send.request.tenant, send.round) for send in shown] == sends

    turns = demo.turns(shown)
    assert list(turns) == sorted({number for _, number in sends})
    for number, row in turns.items():
        assert set(row) == {tenant for at, tenant in visits if at == number}
        for tenant, turn in row.items():
            _, sent, left = visits[number, tenant]
            assert (turn.sent, turn.left) == (sent, left)
            assert turn.had + turn.gained - turn.sent == turn.left
            assert turn.leaves == ((number + 1, tenant) not in visits)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--weight", "bob=3"], "there is no tenant 'bob', only nightly, ana, ben"),
        (["--weight", "ana=heavy"], "--weight ana: must be a number > 0, got 'heavy'"),
        (["--weight", "ana=0"], "weight of 'ana' must be a finite number > 0, got 0.0"),
        (["--quantum", "nan"], "quantum must be a finite number > 0, got nan"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str) -> None:
    shown = run(*arguments)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr
