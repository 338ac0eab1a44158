"""What the lab's preset menu offers: the shipped scenarios and logs, those that answer a question by it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from fairq.data import data_names, data_path
from fairq.scenario import Scenario

Source = Scenario | str | os.PathLike[str]


@dataclass(frozen=True)
class Question:
    """A shipped scenario as the question it answers, and the chart that answers it at a glance."""

    words: str
    chart: str


QUESTIONS: Mapping[str, Question] = {
    "two_halves": Question("One engine or two halves?", "ways"),
    "mps": Question("MPS?", "ways"),
    "replicas": Question("Which replica?", "routers"),
    "hidden_queue": Question("Where does the queue hide?", "batch"),
}


def shipped() -> dict[str, Source]:
    """The scenarios and logs that come with fairq, by the words in the menu."""
    names = data_names("scenarios", ".yaml")
    plain: dict[str, Source] = {name: name for name in names if name not in QUESTIONS}
    asked: dict[str, Source] = {q.words: name for name, q in QUESTIONS.items() if name in names}
    logs = {f"log: {name}": data_path(f"logs/{name}.csv") for name in data_names("logs", ".csv")}
    return plain | asked | logs
