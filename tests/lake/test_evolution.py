"""A lake of an earlier release gets the columns declared since with its next run; what was published stays readable."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sexton.archive.folder import Folder
from sexton.lake.branch import RunKey, ensure_tables, read_branch, write_branch
from sexton.lake.catalog import Lake
from sexton.lake.publish import publish
from sexton.lake.read import load, published_runs, read_published
from sexton.tables import TABLES, Table, ddl
from tests.lake.test_publish import FACTS, HOUR, write_rows
from tests.quality import world

pytestmark = pytest.mark.parametrize("lake", ["sqlite"], indirect=True, scope="module")

NAMES = ("offset_verdicts", "tombstones")
SINCE = {
    "offset_verdicts": {
        "policy_owner", "changes_by", "orphan", "left_topic", "behind_log_start", "pinned_by_producer_id",
        "pinned_first_log_offset", "pinned_since_ms", "pinned_by_transactional_id", "pinned_verdict",
    },
    "tombstones": set[str](),
    "apply_ledger": {"action", "group_id", "topic", "partition", "written_log_offset", "window_ms"},
    "runs": {"plan_sha256"},
}  # fmt: skip
"""By table the columns that the release before had not."""
NEW = ("expiry_forecast", "expiry_sweeps", "commit_counts")
"""The tables that it had not."""
PROPERTY_SINCE = "write.parquet.row-group-size-bytes"
LEDGER_ROW: dict[str, Any] = {
    "action": "tombstone",
    "outcome": "done",
    "window_ms": 3,
    "before": {"committed_offset": 5, "leader_epoch": None, "metadata": "", "commit_timestamp_ms": 1},
}


def older(name: str) -> Table:
    return replace(TABLES[name], columns=tuple(c for c in TABLES[name].columns if c.name not in SINCE[name]))


@pytest.fixture(scope="module")
def evolved(spark: SparkSession, lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """One run published by the release before, and one by this."""
    folder = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch:
        for name in SINCE:
            patch.setitem(TABLES, name, older(name))
        patch.setattr(ddl, "_OF_RUNS", {})
        ensure_tables(spark, lake, [TABLES[name] for name in SINCE])
        put(spark, lake, folder, "before", 1)
    ensure_tables(spark, lake, [TABLES[name] for name in (*SINCE, *NEW)])
    put(spark, lake, folder, "after", 2)
    return lake


def put(spark: SparkSession, lake: Lake, folder: Path, run_id: str, hour: int) -> None:
    key = RunKey(cluster_id="c", as_of_ms=hour * HOUR, run_id=run_id)
    told = {"orphan": "topic_gone", "left_topic": True, "policy_owner": "build"}
    rows = {"offset_verdicts": [{**world.verdict("g", 0, 5, "expire"), **told}], "tombstones": [world.tombstone(0, 5)]}
    write_rows(spark, lake, folder, key, rows)
    facts = {name: FACTS.get(name) for name in TABLES["runs"].column_names if name != "snapshots"}
    facts["counts"] = [{"table": name, "rows": len(found)} for name, found in rows.items()]
    publish(lambda: spark, lake, key, NAMES, facts)


def test_every_table_has_all_its_columns(evolved: Lake) -> None:
    for name in (*SINCE, *NEW):
        assert {field.name for field in load(evolved, name).schema().fields} == set(TABLES[name].arrow_schema().names)


def test_every_table_has_all_its_properties(evolved: Lake) -> None:
    for name in (*SINCE, *NEW):
        wanted = ddl.properties_of(TABLES[name]).items() - {("format-version", "2")}
        assert wanted <= load(evolved, name).properties.items()


def test_what_somebody_has_set_stays(evolved: Lake, spark: SparkSession) -> None:
    spark.sql(ddl.set_properties({PROPERTY_SINCE: "7"}, evolved.identifier("tombstones")))
    ensure_tables(spark, evolved, [TABLES["tombstones"]])
    assert load(evolved, "tombstones").properties[PROPERTY_SINCE] == "7"


def test_both_runs_are_read_in_the_declared_shape(evolved: Lake) -> None:
    before, after = published_runs(evolved)
    assert (before.row["plan_sha256"], after.key.run_id) == (None, "after")
    for run, told in ((before, (None, None, None)), (after, ("topic_gone", True, "build"))):
        (row,) = read_published(evolved, run, "offset_verdicts").to_pylist()
        assert (row["orphan"], row["left_topic"], row["policy_owner"]) == told
        assert (row["group_id"], row["broker_verdict"], row["run_id"]) == ("g", "expire", run.key.run_id)
        some = read_published(evolved, run, "offset_verdicts", ["group_id", "orphan"])
        assert some.to_pylist() == [{"group_id": "g", "orphan": told[0]}]
    assert all(read_published(evolved, before, name).num_rows == 0 for name in NEW)


def test_a_run_of_then_is_checked_as_one_that_lacks_them(evolved: Lake, spark: SparkSession, tmp_path: Path) -> None:
    """A branch is read as it was written, now with every column: what an older writer left out is NULL."""
    key = RunKey(cluster_id="c", as_of_ms=3 * HOUR, run_id="old writer")
    own = {"cluster_id": key.cluster_id, "as_of_ms": key.as_of_ms, "run_id": key.run_id}
    table = pa.Table.from_pylist(
        [{**world.verdict("g", 0, 5, "keep"), **own}], schema=older("offset_verdicts").arrow_schema()
    )
    pq.write_table(table, tmp_path / "0.parquet")
    write_branch(spark, evolved, key, Folder(tmp_path), {"offset_verdicts": ["0.parquet"]})
    found = read_branch(spark, evolved, key, "offset_verdicts").toArrow()
    assert found.to_pylist() == [{**table.to_pylist()[0], **dict.fromkeys(SINCE["offset_verdicts"])}]


def test_the_ledger_takes_its_rows(evolved: Lake) -> None:
    row = {**world.row("apply_ledger", plan_id="p", position=0), **LEDGER_ROW}
    load(evolved, "apply_ledger").append(pa.Table.from_pylist([row], schema=TABLES["apply_ledger"].arrow_schema()))
    (found,) = load(evolved, "apply_ledger").scan().to_arrow().to_pylist()
    assert found == row
