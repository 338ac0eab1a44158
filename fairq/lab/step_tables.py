"""A step of a policy as HTML: the reason, the lines and accounts as a table, and the decisions so far."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from fairq.lab.steps import accounts_of
from fairq.lab.tables import swatch
from fairq.plots import OTHERS, TenantStyle, number
from fairq.plots.step import MEASURES, said
from fairq.request import Number

State = Mapping[str, Any]

CSS = """
<style>
.fairq-lab .fairq-log{max-height:260px;overflow:auto}
.fairq-lab .fairq-log td.fairq-why{white-space:normal;text-align:left;min-width:260px}
.fairq-lab .fairq-table tr.fairq-turn th,.fairq-lab .fairq-table tr.fairq-turn td{font-weight:600}
.fairq-lab .fairq-log:focus-visible{outline:3px solid #0072B2}
</style>"""

LEGENDS = {
    "deficit": "Bar: the credit a tenant has left. Black mark: the cost it must cover. "
    "Dashed: what the visit adds.",
    "counter": "Mark: what a tenant was charged so far, per weight. The leftmost that may run goes first.",
    "start": "Mark: the start tag of a tenant's next request. The leftmost that may run goes first.",
}

FIELDS = {
    "gain": "credit that a visit brings (quantum × weight)",
    "deficit": "credit left; below 0 a debt",
    "round": "of the last visit",
    "open": "that visit goes on",
    "due": "round in which the next request goes",
    "counter": "charged so far, per weight",
    "start": "start tag of the next request",
    "place": "in the order, from 0",
}
"""What the columns of an account say."""


def legend_html(scales: Mapping[str, Any]) -> str:
    """How to read the accounts, for the measures there are."""
    words = [LEGENDS[measure] for measure in MEASURES if measure in scales]
    said = " ".join(words) or "This policy keeps no account of a tenant."
    return f'<div style="line-height:1.4;color:var(--jp-ui-font-color2,#5B6770)">{escape(said)}</div>'


def state_html(state: State, styles: Mapping[str, TenantStyle]) -> str:
    """A row per tenant (and account): who waits and runs, first in line, and every field of the account."""
    accounts = {tenant: accounts_of(state["accounts"], tenant) for tenant in state["lines"]}
    fields = list(dict.fromkeys(f for each in accounts.values() for a in each.values() for f in a))
    names = ("Tenant", "First in line")
    heads = ("Waiting", "Running", *fields)
    top = f'<th scope="col" class="fairq-name">{names[0]}</th>'
    top += f'<th scope="col" class="fairq-name">{names[1]}</th>'
    top += "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    turn = None if state["visit"] is None else state["visit"]["tenant"]
    body = []
    for tenant, line in state["lines"].items():
        running = sum(job is not None and job["tenant"] == tenant for job in state["slots"])
        first = f"{line[0]['name']} ({_value(line[0]['cost'])} tokens)" if line else "–"
        color = styles.get(tenant, styles[OTHERS]).color
        said = f"{tenant}, next" if tenant == turn else tenant
        rows = list(accounts[tenant].values()) or [{}]
        many = len(rows) > 1
        # A tenant with several accounts has several rows, and one name for them.
        scope, span = ("rowgroup", f' rowspan="{len(rows)}"') if many else ("row", "")
        head = (
            f'<th scope="{scope}"{span} class="fairq-name">{swatch(color) + escape(said)}</th>'
            f'<td{span} class="fairq-name">{escape(first)}</td>'
            f"<td{span}>{len(line)}</td><td{span}>{running}</td>"
        )
        body.append("<tbody>")
        for i, account in enumerate(rows):
            body.append(
                f'<tr class="{"fairq-first" if i == 0 else ""} {"fairq-turn" if tenant == turn else ""}">'
                + ("" if i else head)
                + "".join(f"<td>{escape(_value(account.get(field)))}</td>" for field in fields)
                + "</tr>"
            )
        body.append("</tbody>")
    said = "; ".join(f"<strong>{field}</strong>: {FIELDS[field]}" for field in fields if field in FIELDS)
    limits = f'<div style="color:var(--jp-ui-font-color2,#5B6770)">{said}</div>' if said else ""
    limits += "".join(f"<div>{escape(sentence)}</div>" for sentence in state["limits"])
    return (
        f'<div class="fairq-table"><table><caption>The same in numbers ({escape(str(state["policy"]))})'
        f"</caption><thead><tr>{top}</tr></thead>{''.join(body)}</table>{limits}</div>"
    )


def log_html(state: State, styles: Mapping[str, TenantStyle]) -> str:
    """The decisions so far, the latest first."""
    top = "".join(
        f'<th scope="col"{kind}>{head}</th>'
        for head, kind in (
            ("#", ""),
            ("Time (s)", ""),
            ("Request", ' class="fairq-name"'),
            ("Slot", ""),
            ("Why", ' class="fairq-name"'),
        )
    )
    body = []
    for entry in reversed(state["log"]):
        name, slot = "nobody", "–"
        if entry["tenant"] is not None:
            color = styles.get(entry["tenant"], styles[OTHERS]).color
            name, slot = swatch(color) + escape(entry["name"]), str(entry["slot"] + 1)
        body.append(
            f"<tr><td>{entry['step']}</td><td>{_value(entry['time'])}</td>"
            f'<td class="fairq-name">{name}</td><td>{slot}</td>'
            f'<td class="fairq-why">{escape(said(entry))}</td></tr>'
        )
    if not body:
        return '<div class="fairq-table">No decision so far.</div>'
    return (
        '<div class="fairq-table fairq-log" tabindex="0" role="region" aria-label="Decisions so far"><table>'
        f"<caption>Decisions so far, the latest first</caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _value(value: Number) -> str:
    """A field of an account: short, readable."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) or hasattr(value, "numerator"):
        exact = float(value)
        return f"{exact:,.0f}" if exact.is_integer() else number(exact)
    return str(value)
