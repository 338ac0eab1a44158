"""The page that shows the whole gallery, for whoever reads the folder on the web or in an editor."""

from __future__ import annotations

from collections.abc import Sequence

from fairq.gallery.core import Made

HEAD = """\
# The gallery

One chart per idea, as PNG and as SVG, each drawn from the CSV file beside it. `uv run fairq figures` makes
them all again from their seeds, this page included; a test compares the data. Use them in a lecture or a
paper: the [licence](../LICENSE) of the project allows it. Everything here is modelled, not measured.
"""


def index(made: Sequence[Made]) -> str:
    """The page as Markdown: per figure its question, the picture with its text, files, where it is from."""
    parts = [HEAD]
    parts.append(
        "\n".join(f"- [{each.idea.question}](#{anchor(each.idea.question)})" for each in made) + "\n"
    )
    for each in made:
        name = each.idea.name
        parts.append(
            f"## {each.idea.question}\n\n"
            f"![{alt(each)}]({name}.png)\n\n"
            f"{each.idea.about} Notebook {each.idea.notebook}. [SVG]({name}.svg), [data]({name}.csv).\n"
        )
    return "\n".join(parts)


def alt(made: Made) -> str:
    """The chart's description on one line, safe between the brackets of a Markdown image."""
    words = " ".join(made.chart.alt.replace("\u00a0", " ").split())
    return words.replace("[", "(").replace("]", ")")


def anchor(heading: str) -> str:
    """What GitHub makes of a heading."""
    kept = "".join(char for char in heading.lower() if char.isalnum() or char in " -")
    return kept.replace(" ", "-")
