"""A tuning as a page: self-contained HTML, the same in a notebook cell, and everything as files."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairq.data import data_path
from fairq.files import write_whole
from fairq.plots.style import Chart, number
from fairq.tune.charts import pareto, who_pays
from fairq.tune.howto import HowTo, how_to
from fairq.tune.words import price, records, value

if TYPE_CHECKING:
    from fairq.tune.decide import Tuning

ALL_OF_IT = "This expresses all of the setting."
EXAMPLE = "examples/asyncio_gateway.py"

_PAGE = (
    "body{font:15px/1.5 system-ui,sans-serif;background:#fff;margin:2rem auto;max-width:60rem;padding:0 1rem}"
)
_STYLE = """
.fairq{font-family:system-ui,sans-serif;color:#1F2933;background:#fff;max-width:60rem;line-height:1.5}
.fairq h1{font-size:1.5rem;margin:.2rem 0}.fairq h2{font-size:1.15rem;margin:1.6rem 0 .4rem}
.fairq .lead{font-size:1.05rem;border-left:4px solid #009E73;padding:.4rem .8rem;background:#F1F8F5}
.fairq .none{border-color:#D55E00;background:#FDF3EC}
.fairq table{border-collapse:collapse;font-size:.88rem;margin:.4rem 0}
.fairq td,.fairq th{padding:.2rem .6rem;border-bottom:1px solid #D9DEE3;text-align:right;font-weight:400}
.fairq th{color:#5B6770;font-weight:600}.fairq td:first-child,.fairq th:first-child{text-align:left}
.fairq tr.best td{font-weight:700;background:#F1F8F5}.fairq tr.today td{background:#F4F6F8}
.fairq pre{background:#F4F6F8;padding:.7rem .9rem;overflow-x:auto;font-size:.85rem;line-height:1.4}
.fairq summary{cursor:pointer;padding:.25rem 0;font-weight:600}
.fairq img{max-width:100%;height:auto}.fairq .soft{color:#5B6770}
"""


def page(made: Tuning) -> str:
    """A whole document that needs nothing from elsewhere."""
    title = html.escape(f"fairq tune: {made.scenario.name}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_PAGE}</style></head>\n"
        f"<body>{fragment(made)}</body></html>\n"
    )


def fragment(made: Tuning) -> str:
    """The same for a notebook cell."""
    return f'<style>{_STYLE}</style>\n<div class="fairq">' + "\n".join(_parts(made)) + "</div>"


def brief(made: Tuning) -> str:
    """The same where there is little room: the recommendation and its picture, the rest to be unfolded."""
    folded = {
        "Who pays, party by party": _picture(who_pays(made)) + _payers(made),
        "How to type it: vLLM, LiteLLM, llama.cpp, nginx": "\n".join(_typed(made)),
        f"All {len(made.settings)} settings that were tried": _settings(made),
    }
    parts = [
        *_verdict(made),
        _picture(pareto(made)),
        *_policy(made, "h3"),
        *(f"<details><summary>{title}</summary>{body}</details>" for title, body in folded.items()),
    ]
    return f'<style>{_STYLE}</style>\n<div class="fairq">' + "\n".join(parts) + "</div>"


def _parts(made: Tuning) -> Iterator[str]:
    promise = " and ".join(map(str, made.targets))
    yield f"<h1>{_text(made.scenario.name)}: {_text(promise)}</h1>"
    yield from _verdict(made)
    yield "<h2>What each setting gives, and what it costs</h2>" + _picture(pareto(made))
    yield "<h2>Who pays</h2>" + _picture(who_pays(made))
    yield _payers(made)
    yield from _policy(made, "h2")
    yield "<h2>How to type it</h2>"
    yield from _typed(made)
    yield "<h3>In front of the engine, exactly</h3>"
    yield f"<pre>{_text(example())}</pre>"
    yield "<h2>All settings</h2>" + _settings(made)


def _verdict(made: Tuning) -> Iterator[str]:
    first, *rest = made.lines()
    yield f'<p class="lead{"" if made.chosen else " none"}">{_text(first)}</p>'
    yield "<ul>" + "".join(f"<li>{_text(line)}</li>" for line in rest) + "</ul>"


def _policy(made: Tuning, heading: str) -> Iterator[str]:
    yield f"<{heading}>The policy file</{heading}><p class=soft>It loads back: "
    yield f'<code>fairq.scenario.load_policy("policy.yaml")</code>{_text(_engine_words(made))}</p>'
    yield f"<pre>{_text(made.policy_yaml())}</pre>"


def _typed(made: Tuning) -> Iterator[str]:
    for each in hows(made):
        yield f"<h3>{_text(each.tool)}</h3><pre>{_text(each.text)}</pre>"
        if not each.cannot:
            yield f"<p class=soft>{ALL_OF_IT}</p>"
            continue
        yield "<p class=soft>What this cannot express:</p><ul class=soft>"
        yield "".join(f"<li>{_text(one)}</li>" for one in each.cannot) + "</ul>"


def hows(made: Tuning) -> list[HowTo]:
    """How to type the best setting."""
    workload: Any = made.scenario.workload()
    keys: dict[str, tuple[str, ...]] = dict(workload.keys_of)
    groups: dict[str, list[str]] = {}
    for tenant, group in workload.group_of.items():
        groups.setdefault(group, []).append(tenant)
    of = {group: tuple(key for t in members for key in keys[t]) for group, members in groups.items()}
    engine = made.best.scenario(made.scenario).engine()
    kv_tokens = getattr(getattr(engine, "limits", None), "kv_tokens", made.kv_tokens)
    return how_to(made.best.policy, slots_of(made), of | keys, kv_tokens)


def slots_of(made: Tuning) -> int | None:
    """How many requests the engine serves at once under the best setting, where that is a number."""
    engine = made.best.scenario(made.scenario).engine()
    limits = getattr(engine, "limits", None)
    return engine.slots or getattr(limits, "max_num_seqs", None)


def example() -> str:
    """The asyncio example that puts a policy file in front of an engine."""
    return data_path(EXAMPLE).read_text(encoding="utf-8")


def contents(made: Tuning) -> dict[str, bytes]:
    """All of it as files, by name."""
    texts = {
        "report.html": page(made),
        "policy.yaml": _commented(made),
        "settings.csv": made.table.to_csv(index=False, lineterminator="\n"),
        "payers.csv": made.payers.to_csv(index=False, lineterminator="\n"),
        "how_to_type_it.md": how_to_text(hows(made)),
        "asyncio_gateway.py": example(),
    }
    pictures = {
        f"{name}.{format}": chart.to_bytes(format)
        for name, chart in (("pareto", pareto(made)), ("who_pays", who_pays(made)))
        for format in ("png", "svg")
    }
    return {name: text.encode("utf-8") for name, text in texts.items()} | pictures


def write(made: Tuning, folder: Path) -> list[Path]:
    """All of it into a folder, the report first. Raises OSError."""
    return [write_whole(folder / name, content) for name, content in contents(made).items()]


def how_to_text(several: Iterable[HowTo]) -> str:
    """Markdown."""
    parts = []
    for each in several:
        lost = "\n".join(f"- {one}" for one in each.cannot)
        words = f"Cannot express:\n\n{lost}" if lost else ALL_OF_IT
        parts.append(f"## {each.tool}\n\n```\n{each.text.rstrip()}\n```\n\n{words}\n")
    return "\n".join(parts)


def _commented(made: Tuning) -> str:
    words = [made.lines()[0], f"From `fairq tune` on {made.scenario.name}.{_engine_words(made)}"]
    return "".join(f"# {line}\n" for line in words) + made.policy_yaml()


def _engine_words(made: Tuning) -> str:
    changes = ", ".join(f"{name}: {value}" for name, value in made.best.engine.items())
    return f" With the engine's {changes}." if changes else ""


def _payers(made: Tuning) -> str:
    rows = made.payers[made.payers["setting"] == made.best.name]
    several = made.runs > 1
    head = [
        "party",
        "requests",
        "mean latency today (s)",
        "then (s)",
        "difference (s)",
        "p99 today (s)",
        "p99 then (s)",
    ]
    body = []
    for row in records(rows):
        half = (row["high"] - row["low"]) / 2
        difference = f"{row['difference']:+.3g}" + (f" ±{number(half)}" if several and half == half else "")
        name = f"{row['party']} (promised)" if row["promised"] else str(row["party"])
        numbers = [number(row[c]) for c in ("before", "after")]
        p99 = [number(row[c]) for c in ("p99_before", "p99_after")]
        body.append(("", [name, f"{row['n']:,}", *numbers, difference, *p99]))
    return _table(head, body)


def _settings(made: Tuning) -> str:
    head = ["setting", "value", "verdict", "price", "slots busy", "not served"]
    body = []
    for row in records(made.table.sort_values("of_target", kind="stable")):
        kind = (
            "best"
            if row["setting"] == made.best.name
            else "today"
            if row["setting"] == made.today.name
            else ""
        )
        busy = "–" if pd.isna(row["utilisation"]) else f"{row['utilisation']:.0%}"
        cells = [row["setting"], value(row), row["verdict"], price(row), busy, f"{row['unserved']:,}"]
        body.append((kind, cells))
    return _table(head, body)


def _table(head: list[str], body: list[tuple[str, list[str]]]) -> str:
    top = "".join(f"<th>{_text(name)}</th>" for name in head)
    rows = "".join(
        f'<tr class="{kind}">' + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>"
        for kind, cells in body
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>"


def _picture(chart: Chart) -> str:
    png = base64.b64encode(chart.to_bytes("png")).decode("ascii")
    return f'<img alt="{html.escape(chart.alt, quote=True)}" src="data:image/png;base64,{png}">'


def _text(words: str) -> str:
    return html.escape(str(words), quote=False)
