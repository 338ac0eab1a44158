"""A table of the page as somebody hears it: every row with its heads, those that span rows in each."""

from __future__ import annotations

from html.parser import HTMLParser


class _Rows(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[tuple[str, str]]] = []
        self._spans: list[tuple[int, int, tuple[str, str]]] = []
        self._cell: list[str] | None = None
        self._kind, self._span = "", 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
            self._spans = [(left - 1, place, cell) for left, place, cell in self._spans if left > 0]
            for _, place, cell in self._spans:
                self.rows[-1].insert(place, cell)
        elif tag in ("td", "th"):
            given = dict(attrs)
            self._cell, self._kind = [], given.get("scope") or tag
            self._span = int(given.get("rowspan") or 1)

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            cell = (self._kind, "".join(self._cell).strip())
            if self._span > 1:
                self._spans.append((self._span - 1, len(self.rows[-1]), cell))
            self.rows[-1].append(cell)
            self._cell = None


def rows_of(html: str) -> list[list[tuple[str, str]]]:
    """(scope, words) of each cell, row by row; the scope of what is no head is "td"."""
    reader = _Rows()
    reader.feed(html)
    return reader.rows
