"""`consumer_groups`: the groups at an instant, or another table of the replay, computed from the log in one task.

For a log of many gigabytes read the published tables instead, which the DAG computes with many tasks.
"""

import tempfile
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from sexton.as_text import now_ms
from sexton.errors import UsageError
from sexton.job_params import ReplayRequest
from sexton.pipeline.replay_groups import STATE_TABLES, run
from sexton.runs.choose_profile import AUTO
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from sexton.spark.input import instant_of, is_disk, path_of
from sexton.tables import TABLES
from sexton.tables.ddl import spark_schema


class ConsumerGroups(DataSource):
    """Options: `as_of` (an instant; by default the end of the log), `table` (groups, committed_offsets, ...),
    `profile`, `topics` (a file) and `cluster_id`.
    """

    @classmethod
    def name(cls) -> str:
        return "consumer_groups"

    def schema(self) -> str:
        return spark_schema(TABLES[self._table()])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # it is always the whole
        return GroupReader(dict(self.options), self._table())

    def _table(self) -> str:
        table = self.options.get("table", "groups")
        if table not in STATE_TABLES:
            raise UsageError(f"no table {table!r}", where="option table", fix=f"one of {', '.join(STATE_TABLES)}")
        return table


class GroupReader(DataSourceReader):
    """Rows in the same form as `sexton audit` writes them."""

    def __init__(self, options: dict[str, str], table: str) -> None:
        self._options, self._table = options, table
        self._as_of_ms = instant_of(options, "as_of")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  # there is one
        path = path_of(self._options, ConsumerGroups.name())
        on_disk = is_disk(path)
        request = ReplayRequest(
            run_id="spark",
            as_of_ms=self._as_of_ms,
            taken_at_ms=now_ms(),
            profile=self._options.get("profile", AUTO),
            topics_file=self._options.get("topics"),
            cluster_id=self._options.get("cluster_id"),
            segments=path if on_disk else None,
            archive=None if on_disk else path,
        )
        schema = TABLES[self._table].arrow_schema()
        with tempfile.TemporaryDirectory(prefix="sexton-") as scratch, SerialEngine(quiet=True) as engine:
            folder = RunFolder(scratch)
            run(engine, folder, request)
            for file in sorted((folder.local / self._table).glob("*.parquet")):
                yield from pq.read_table(file, columns=schema.names).cast(schema).to_batches()
