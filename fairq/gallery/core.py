"""An idea of the gallery: a table from seeds, a chart from the table."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fairq.plots import Chart

DPI = 150.0
"""Of the PNG files: 900 pixels across, sharp on a slide and small in a clone."""
DIGITS = 9
"""Significant digits of a float in the CSV; the chart is drawn from what is in the file."""


class GalleryError(RuntimeError):
    """The data do not show what the chart is there to show."""


@dataclass(frozen=True)
class Idea:
    """One chart of the gallery.

    Parameters
    ----------
    name : of its files. question : what it answers.
    notebook : number of the notebook that plays with it.
    compute : the table, from fixed seeds. draw : the chart, from the table alone.
    about : how the data came to be, and the formula's source.
    """

    name: str
    question: str
    notebook: str
    compute: Callable[[], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Chart]
    about: str


@dataclass(frozen=True)
class Made:
    """An idea carried out: the text of its CSV, and its chart."""

    idea: Idea
    csv: str
    chart: Chart

    @property
    def title(self) -> str:
        """What the chart says it shows."""
        return str(self.chart.data["title"])

    def files(self) -> dict[str, bytes]:
        """File name → content."""
        name = self.idea.name
        return {
            f"{name}.csv": self.csv.encode("utf-8"),
            f"{name}.png": self.chart.to_bytes("png", dpi=DPI),
            f"{name}.svg": self.chart.to_bytes("svg"),
        }


def make(idea: Idea) -> Made:
    """Compute and draw. Raises GalleryError when the data no longer show what the title would say."""
    csv = csv_text(idea.compute())
    # From the text, so that whoever has the file can draw the same picture.
    return Made(idea, csv, idea.draw(table_of(csv)))


def csv_text(table: pd.DataFrame) -> str:
    """A table as the text of a CSV file, floats to ``DIGITS`` significant digits."""
    text: str = table.to_csv(index=False, float_format=f"%.{DIGITS}g", lineterminator="\n")
    return text


def table_of(csv: str) -> pd.DataFrame:
    """The table of such a text. An empty cell is NaN; names are never taken for one."""
    return pd.read_csv(io.StringIO(csv), keep_default_na=False, na_values=[""])


def read_table(path: str | Path) -> pd.DataFrame:
    """The table of a committed CSV file. Raises OSError."""
    return table_of(Path(path).read_text(encoding="utf-8"))
