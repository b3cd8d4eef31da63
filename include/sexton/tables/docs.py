"""The page docs/tables.md, made from the declarations: `python -m sexton.tables.docs docs/tables.md`."""

import sys
from pathlib import Path

from sexton.tables import TABLES
from sexton.tables.ddl import spark_type
from sexton.tables.table import RUN_COLUMNS, Column, Kind, Table

_HEAD = """# Tables

Made from the declarations in `include/sexton/tables` by `python -m sexton.tables.docs docs/tables.md`.

Kafka's fields keep Kafka's names. Names that end in `_ms` are epoch milliseconds or durations in milliseconds. NULL
means absent, and only where Kafka itself declares absence or where a column of ours does not apply; the wire's own
sign of absence (-1, an empty string, the zero id) is never stored there.

In a run folder each table is Parquet files, one a log partition, or one for the whole run. In the lake it is an Iceberg
table of the same columns, partitioned by `cluster_id` and `as_of_ms`. Read it through `runs`: a run that is not named
there is not published.
"""
_KINDS: dict[Kind, str] = {
    "snapshot": "A run replaces its own `(cluster_id, as_of_ms)`.",
    "interval": "An interval replaces its own rows.",
    "append": "Append only.",
    "index": "A run replaces its own `(cluster_id, as_of_ms)`, after all its other tables.",
}


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, "## Columns of every table\n", _columns(RUN_COLUMNS), *map(_section, TABLES.values())])


def _section(table: Table) -> str:
    key = f"Key: {', '.join(f'`{name}`' for name in table.key)}. " if table.key else ""
    return "\n".join(
        [
            f"## {table.name}\n",
            f"One row is {table.grain}. {key}{_KINDS[table.kind]}",
            *([table.doc] if table.doc else []),
            "",
            _columns(table.columns),
        ]
    )


def _columns(columns: tuple[Column, ...]) -> str:
    rows = [
        f"| `{c.name}` | {spark_type(c.type).lower()} | {_null(c)} | {_cell(c.doc)} | {_rule(c)} |" for c in columns
    ]
    return "\n".join(["| column | type | NULL | meaning | values |", "|---|---|---|---|---|", *rows, ""])


def _null(column: Column) -> str:
    if not column.nullable:
        return "never"
    return "may be" if column.absent is None else f"for `{column.absent}`" if column.absent != "" else 'for `""`'


def _rule(column: Column) -> str:
    rules = []
    if column.allowed:
        rules.append(", ".join(column.allowed))
    if column.minimum is not None:
        rules.append(f"at least {column.minimum}")
    if column.below_cut:
        rules.append("below the cut")
    if rules and column.severity == "warning":
        rules.append("else a warning")
    return "; ".join(rules)


def _cell(text: str) -> str:
    """Text that stays inside its cell and is not taken for markup."""
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text.replace("|", "\\|")


def main(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m sexton.tables.docs docs/tables.md")
    main(Path(sys.argv[1]))
