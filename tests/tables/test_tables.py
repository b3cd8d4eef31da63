"""Declarations are whole, and what is derived from them is current."""

import pyarrow as pa
import pytest

from sexton.tables import SNAPSHOT_TABLES, TABLES, Table
from sexton.tables.ddl import create_table, spark_schema, spark_type

CONTRACT = {
    "committed_offsets": "group_id topic partition committed_offset leader_epoch metadata commit_timestamp_ms "
    "expire_timestamp_ms topic_id log_partition log_offset producer_id",
    "unreachable_offsets": "group_id topic partition committed_offset leader_epoch metadata commit_timestamp_ms "
    "expire_timestamp_ms topic_id log_partition log_offset producer_id reason",
    "pending_offsets": "group_id topic partition committed_offset leader_epoch metadata commit_timestamp_ms "
    "expire_timestamp_ms topic_id log_partition log_offset producer_id",
    "groups": "group_id group_type state protocol_type protocol generation leader current_state_timestamp_ms "
    "member_count subscribed_topics subscription_known offset_count pending_count log_partition log_offset",
    "members": "group_id member_id group_instance_id client_id client_host rack_id session_timeout_ms "
    "rebalance_timeout_ms member_epoch subscribed_topics assignment",
    "offset_verdicts": "group_id topic partition broker_verdict broker_reason broker_expires_at_ms policy_verdict "
    "policy_reason policy_rule policy_expires_at_ms policy_owner base_timestamp_ms changes_by orphan left_topic "
    "behind_log_start pinned_by_producer_id pinned_first_log_offset pinned_since_ms pinned_by_transactional_id "
    "pinned_verdict",
    "expiry_forecast": "group_id horizon_days by offset_count is_whole_group first_expires_at_ms last_expires_at_ms",
    "tombstones": "plan_id log_partition position record_type group_id topic partition member_id regular_expression "
    "key cause target_log_offset target_committed_offset",
    "open_transactions": "producer_id producer_epoch log_partition first_log_offset last_log_offset "
    "first_timestamp_ms group_ids",
    "undecodable_records": "log_partition base_offset log_offset record_type reason key value",
    "load_profile": "bytes batches records live_records tombstones control_records largest_batch_bytes "
    "first_log_offset next_log_offset misplaced_groups load_would_fail predicted_load_ms",
    "offset_changes": "group_id topic partition old_committed_offset new_committed_offset kind candidates by_plan_id "
    "log_offset timestamp_ms",
    "expiry_sweeps": "log_partition first_log_offset last_log_offset started_at_ms offsets certain_offsets groups",
    "commit_counts": "group_id log_partition commits commits_per_second is_whole",
    "topic_partitions": "topic topic_id partition log_start_offset log_end_offset",
    "replica_state": "log_partition replica status log_start_offset high_watermark last_stable_offset loads load_error",
    "transactions": "log_partition producer_id producer_epoch verdict reason transactional_id state start_offset "
    "since_ms ends_at_ms is_overdue group_ids offsets held_bytes abort_arguments evidence",
    "transactional_ids": "transactional_id state_log_partition family producer_id producer_epoch state timeout_ms "
    "started_at_ms updated_at_ms age_ms expires_at_ms partitions",
    "time_lag": "group_id topic partition committed_offset leader_epoch log_start_offset log_end_offset lag lag_min_ms "
    "lag_max_ms basis timestamp_type held_at pending_producer_ids would_reset diverged_at loses_at_min_ms lag_growth "
    "loses_at_ms",
    "replica_differences": "log_partition group_id topic partition kind wrong_replicas right_replicas answers "
    "log_offsets evidence since_timestamp_ms noticed_by advice",
    "apply_ledger": "plan_id action log_partition position attempt group_id topic partition intent_at_ms outcome_at_ms "
    "outcome error before written_log_offset window_ms approved_by",
    "dq_results": "table expectation severity success observed",
    "runs": "cuts coverage snapshots checkpoint_sha256 code_version plan_id plan_sha256 policy_sha256 counts",
}
"""The columns that readers were promised; more may be added, none may go."""
TYPES = {
    "group_id": pa.string(), "topic": pa.string(), "partition": pa.int32(), "log_partition": pa.int32(),
    "leader_epoch": pa.int32(), "generation": pa.int32(), "producer_epoch": pa.int32(), "record_type": pa.int32(),
    "producer_id": pa.int64(), "topic_id": pa.string(), "key": pa.binary(),
    "subscribed_topics": pa.list_(pa.string()),
}  # fmt: skip
each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


def test_promised_columns_are_there() -> None:
    assert {name: set(columns.split()) - set(TABLES[name].column_names) for name, columns in CONTRACT.items()} == {
        name: set() for name in TABLES
    }


@each_table
def test_declarations_agree_with_each_other(table: Table) -> None:
    names = [column.name for column in table.all_columns]
    assert names[:3] == ["cluster_id", "as_of_ms", "run_id"]
    assert len(set(names)) == len(names)
    assert set(table.key) <= set(names)
    assert not [name for name in table.key if table.column(name).nullable]
    assert table.per_log_partition == ("log_partition" in table.column_names)
    assert table.grain
    assert not [column.name for column in table.columns if not column.doc]


@each_table
def test_types_follow_the_names(table: Table) -> None:
    for column in table.columns:
        if column.name.endswith("_ms"):
            assert column.type in {pa.int32(), pa.int64()}, column.name
        if column.name.endswith("_offset"):
            assert column.type == pa.int64(), column.name
        assert column.type == TYPES.get(column.name, column.type), column.name
        if column.allowed or column.absent is not None:
            assert column.type == (pa.string() if isinstance(column.absent, str) or column.allowed else column.type)
        if column.absent is not None:
            assert column.nullable, column.name


@each_table
def test_arrow_schema_adds_the_run_in_front(table: Table) -> None:
    whole, own = table.arrow_schema(with_run=True), table.arrow_schema(with_run=False)
    assert whole.names == ["cluster_id", "as_of_ms", "run_id", *own.names]
    assert tuple(own.names) == table.column_names


@each_table
def test_ddl_declares_every_column_with_its_meaning(table: Table) -> None:
    ddl = create_table(table, "lake.sexton.t")
    for column in table.all_columns:
        assert f"`{column.name}` {spark_type(column.type)} COMMENT" in ddl
    assert "PARTITIONED BY (cluster_id, as_of_ms)" in ddl
    assert spark_schema(table).startswith("`cluster_id` STRING, `as_of_ms` BIGINT, `run_id` STRING, ")


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (pa.string(), "STRING"),
        (pa.list_(pa.string()), "ARRAY<STRING>"),
        (pa.list_(pa.struct([("a", pa.int32()), ("b", pa.int64())])), "ARRAY<STRUCT<`a`: INT, `b`: BIGINT>>"),
    ],
)
def test_spark_types(kind: pa.DataType, told: str) -> None:
    assert spark_type(kind) == told


def test_what_a_run_writes_anew() -> None:
    assert set(TABLES) - {table.name for table in SNAPSHOT_TABLES} == {
        "offset_changes", "expiry_sweeps", "commit_counts", "apply_ledger", "replica_state", "replica_differences",
        "transactions", "transactional_ids", "time_lag", "runs",
    }  # fmt: skip
