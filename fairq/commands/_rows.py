"""A table of rows: for people, as JSON, and into files (the chart of it too)."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairq.capacity.words import number
from fairq.files import InputError, write_out

Rows = Sequence[Mapping[str, Any]]
CHARTS = (".png", ".svg", ".pdf")
PIPE = 160
"""How wide a table may be where nobody says how wide the page is."""
TABLES = (".csv", ".json")


def check_out(paths: Sequence[Path]) -> None:
    """Before anything runs. Raises InputError for an ending that says nothing."""
    for path in paths:
        if path.suffix not in (*TABLES, *CHARTS):
            raise InputError(f"--out {path}: must end in {', '.join((*TABLES, *CHARTS))}")


def terminal(rows: Rows, columns: Mapping[str, str], words: Mapping[str, Callable[[Any], str]]) -> Table:
    """Chosen ``columns`` (name → heading); ``words`` writes a column that is not a plain number or text."""
    made = Table()
    for name, heading in columns.items():
        made.add_column(heading, justify="left" if isinstance(rows[0][name], str) else "right", no_wrap=True)
    for row in rows:
        made.add_row(*(_cell(row[name], words.get(name)) for name in columns))
    return made


def show(table: Table) -> None:
    """On the terminal; in a file or a pipe no column is cut."""
    console = Console()
    (console if console.is_terminal else Console(width=PIPE)).print(table)


def as_json(data: Any) -> str:
    """JSON text; what is not a number is null."""
    return json.dumps(_finite(data), indent=2, ensure_ascii=False)


def write(paths: Sequence[Path], rows: Rows, chart: Callable[[], Any]) -> list[Path]:
    """Each file by its ending: the rows (.csv, .json) or their chart (.png, .svg, .pdf)."""
    written = []
    for path in paths:
        content: bytes | str
        if path.suffix == ".csv":
            content = _csv(rows)
        elif path.suffix == ".json":
            content = as_json(list(rows)) + "\n"
        else:
            content = chart().to_bytes(path.suffix[1:])
        written.append(write_out(path, content))
    return written


def _csv(rows: Rows) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _cell(value: Any, words: Callable[[Any], str] | None) -> Any:
    if words is not None:
        return words(value)
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else number(float(value))


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
