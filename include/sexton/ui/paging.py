"""A page of a query's rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sexton.ui.database import Rows
from sexton.ui.published_tables import PublishedTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Rows from `first` on, of `total`."""

    rows: Rows
    total: int
    first: int
    size: int

    @property
    def number(self) -> int:
        return self.first // self.size + 1

    @property
    def count(self) -> int:
        """Pages in all, at least one."""
        return max(-(-self.total // self.size), 1)


def page_of(
    tables: PublishedTables,
    columns: str,
    source: str,
    values: Sequence[Any] = (),
    *,
    order: str,
    page: int = 1,
    size: int,
    max_pages: int | None = None,
) -> Page:
    """Page `page` of the rows of `source` (SQL after FROM, with its WHERE); the last page if there are fewer.

    `order` has to be total, so that no row is on two pages.
    """
    total = tables.rows(f"SELECT count(*) AS total FROM {source}", *values)[0]["total"]
    reachable = total if max_pages is None else min(total, max_pages * size)
    first = min((page - 1) * size, max(reachable - 1, 0) // size * size)
    rows = tables.rows(f"SELECT {columns} FROM {source} ORDER BY {order} LIMIT {size} OFFSET {first}", *values)
    return Page(rows=rows, total=total, first=first, size=size)
