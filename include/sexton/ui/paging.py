"""A page of a query's rows, and the parameters that the queries of lists share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query

from sexton.lake.database import Rows
from sexton.lake.published_tables import PublishedTables

MAX_ROWS = 200
"""The largest page of a list."""
_LONGEST_TEXT = 32_767  # as long as a group id can be
Search = Annotated[str, Query(max_length=_LONGEST_TEXT)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
PageSize = Annotated[int, Query(ge=1, le=MAX_ROWS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of rows: up to `size` of the `total` rows, from number `first` on."""

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


def conditions(given: Mapping[str, str], *others: str) -> tuple[str, list[str]]:
    """SQL of the `given` conditions whose value is not empty, together with `others`; and the values of the former."""
    asked = {condition: value for condition, value in given.items() if value}
    return " AND ".join(["true", *asked, *others]), list(asked.values())


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
    """Page `page` of the rows of `source` (SQL after FROM, with its WHERE); the last page if there are fewer pages.

    `order` has to be total, so that no row is on two pages.
    """
    total = tables.rows(f"SELECT count(*) AS total FROM {source}", *values)[0]["total"]
    reachable = total if max_pages is None else min(total, max_pages * size)
    first = min((page - 1) * size, max(reachable - 1, 0) // size * size)
    rows = tables.rows(f"SELECT {columns} FROM {source} ORDER BY {order} LIMIT {size} OFFSET {first}", *values)
    return Page(rows=rows, total=total, first=first, size=size)
