"""What lag is measured for, as tables, from the rows of tests.plain_lag."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from sexton.archive.time_points import Key
from sexton.lag.measure_lag import COMMITTED, PARTITIONS, Instant
from sexton.tables import TABLES
from tests.plain_lag import Committed, LogRange


def instant_of(
    archive: str,
    committed: Iterable[Committed],
    partitions: Mapping[Key, LogRange],
    *,
    cluster_id: str,
    as_of_ms: int,
    sees_all_topics: bool = True,
    slack_ms: int = 0,
) -> Instant:
    rows = [asdict(each) for each in committed]
    logs = [{"topic": topic, "partition": number, **asdict(log)} for (topic, number), log in partitions.items()]
    ids = pa.array([row.pop("pending_producer_ids") for row in rows], pa.list_(pa.int64()))
    return Instant(
        archive=archive,
        cluster_id=cluster_id,
        as_of_ms=as_of_ms,
        committed=_table("committed_offsets", COMMITTED, rows).append_column("pending_producer_ids", ids),
        partitions=_table("topic_partitions", PARTITIONS, logs),
        sees_all_topics=sees_all_topics,
        slack_ms=slack_ms,
    )


def _table(name: str, columns: list[str], rows: list[dict[str, Any]]) -> pa.Table:
    schema = TABLES[name].arrow_schema()
    return pa.Table.from_pylist(rows, pa.schema([schema.field(column) for column in columns]))
