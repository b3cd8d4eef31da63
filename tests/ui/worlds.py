"""A small published lake in which every page has something to tell, and the app over it for whoever a test lets in."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from sexton.lake.branch import RunKey
from sexton.lake.published_tables import PublishedTables
from sexton.settings import Cluster, Settings
from sexton.ui.access import Access, MayRead
from sexton.ui.app import make_app
from tests.report.run_folder import HOSTILE_NAMES
from tests.ui.lakes import RETENTION_MS, Row, WrittenLake, as_table, lake_at

HOUR_MS = 3_600_000
FIRST_MS = 1_795_262_400_000
MAIN, OTHER = "cluster-1", "cluster-2"
RUNS = 4
PREFIX = "/sexton"
PLAIN = Settings(clusters={}).every_cluster
PLAN_IDS = tuple(f"{number}f" * 32 for number in range(RUNS))
"""The plan of each run."""
LIVING, DYING, GONE, UNHELD = "living", "dying", "gone", "unheld"
"""Groups: one with members and a pending offset, one that loses two of its three offsets, one that goes, and one of a
log partition whose load fails, which counts for nothing."""


def key(number: int, cluster_id: str = MAIN) -> RunKey:
    return RunKey(cluster_id=cluster_id, as_of_ms=FIRST_MS + number * HOUR_MS, run_id=f"run-{number}")


def write_world(folder: Path, names: tuple[str, ...] = HOSTILE_NAMES) -> WrittenLake:
    """RUNS hourly runs of one cluster, whose last has groups, topics and members by all those names; one of another."""
    lake = lake_at(folder)
    for number in range(RUNS):
        tables = _tables(key(number), number, names if number == RUNS - 1 else ())
        tables["expiry_sweeps"] = []
        lake.publish(key(number), tables, warnings=["look here"] if number else [], plan_id=PLAN_IDS[number])
    lake.append("apply_ledger", as_table("apply_ledger", _ledger(names), key(RUNS - 1)))
    for number in (1, RUNS - 1):
        audit = key(number)
        lake.append("replica_state", as_table("replica_state", _replica_states(number), audit))
        lake.append("replica_differences", as_table("replica_differences", _replica_differences(number, names), audit))
        lake.append("transactions", as_table("transactions", _transactions(names), audit))
        lake.append("transactional_ids", as_table("transactional_ids", _ids(names), audit))
        lake.append("time_lag", as_table("time_lag", _lags(audit.as_of_ms, number, names), audit))
    lake.publish(key(0, OTHER), {"groups": [_group("elsewhere", 1)]})
    return lake


def _lags(as_of_ms: int, number: int, names: tuple[str, ...]) -> list[Row]:
    """LIVING is two hours and a few minutes late, by an exact lag and an interval; of DYING one offset is an hour from
    its loss, one would reset, and one is held; of the names one is known by an interval without an end."""
    late = {"topic": "orders", "lag_min_ms": 2 * HOUR_MS, "basis": "timestamps", "loses_at_min_ms": as_of_ms + HOUR_MS}
    return [
        _lag(LIVING, 0, **late, lag_max_ms=2 * HOUR_MS, lag_growth=0.01, loses_at_ms=as_of_ms + 100 * HOUR_MS),
        _lag(LIVING, 1, **late, lag_max_ms=2 * HOUR_MS + 300_000, lag_growth=-0.5),
        _lag(DYING, 0, lag_min_ms=5_000, lag_max_ms=5_000, lag_growth=1.0, loses_at_ms=as_of_ms + HOUR_MS),
        _lag(DYING, 1, lag_min_ms=9_000, would_reset="truncated", diverged_at=4),
        _lag(DYING, 2, lag_min_ms=0, lag_max_ms=0, held_at=5, basis="timestamps"),
        *(_lag(name, 0, topic=name, lag_min_ms=number * HOUR_MS, leader_epoch=0) for name in names),
    ]


def _lag(group_id: str, partition: int, **values: Any) -> Row:
    return {"group_id": group_id, "topic": "old", "partition": partition, "committed_offset": 5, **values}


def _transactions(names: tuple[str, ...]) -> list[Row]:
    common = {"log_partition": 0, "producer_epoch": 0, "last_log_offset": 9, "offsets": [], "since_ms": FIRST_MS}
    common |= {"is_overdue": False, "is_confirmed": True, "evidence": "why", "group_ids": [*names], "start_offset": 3}
    running = {"verdict": "running", "reason": "ongoing", "ends_at_ms": FIRST_MS}
    running |= {"transactional_id": names[0] if names else "app-1"}
    held = [{"group_id": "g", "topic": "t", "partition": n, "committed_offset": 7} for n in (0, 1)]
    hanging = {"verdict": "hanging", "reason": "ended", "abort_arguments": "abort --start-offset 3", "held_bytes": 10}
    hanging |= {"offsets": held}
    return [{**common, **running, "producer_id": 1}, {**common, **hanging, "producer_id": 2}]


def _ids(names: tuple[str, ...]) -> list[Row]:
    """Two with open transactions, and two that ended an hour and three days ago, the last of a family by that name."""
    ended = {"state": "CompleteCommit", "expires_at_ms": FIRST_MS + 7 * 24 * HOUR_MS}
    ages = [{**ended, "age_ms": hours * HOUR_MS} for hours in (1, 72)]
    ages[-1]["family"] = names[0] if names else "app-*"
    return [_id(number) | more for number, more in enumerate(({}, {}, *ages), start=1)]


def _id(number: int) -> Row:
    common = {"state_log_partition": 0, "state_log_offset": number, "family": "app-*", "producer_epoch": 0}
    common |= {"timeout_ms": 1, "updated_at_ms": FIRST_MS, "age_ms": 0, "partitions": [], "state": "Ongoing"}
    return {**common, "transactional_id": f"app-{number}", "producer_id": number, "client_transaction_version": 0}


def _replica_states(number: int) -> list[Row]:
    common = {"log_partition": 0, "leader_epochs": [], "corrupt_bytes": [], "folder": "/copies"}
    ends = {"log_start_offset": 0, "high_watermark": 40, "log_end_offset": 40, "open_transactions": 0}
    return [
        {**common, **ends, "replica": "broker-1", "status": "same", "last_stable_offset": 40, "loads": True},
        {**common, **ends, "replica": "broker-3", "status": "differs" if number > 1 else "same", "loads": True},
    ]


def _replica_differences(number: int, names: tuple[str, ...]) -> list[Row]:
    """None in the first audit."""
    return [
        {
            "log_partition": 0, "ordinal": ordinal, "group_id": name, "topic": name, "partition": 0,
            "kind": "resurrected", "kinds": ["resurrected"], "wrong_replicas": ["broker-3"],
            "right_replicas": ["broker-1"], "proof": "tombstone", "needs_unclean_election": False, "answers": [],
            "log_offsets": [12], "since_log_offset": 20, "since_timestamp_ms": FIRST_MS,
            "evidence": f"broker-1 has a tombstone of {name} at log_offset 20",
            "noticed_by": "consumers of the group", "advice": f"stop broker-3, move its copy away; --group {name}",
        }
        for ordinal, name in enumerate(names if number > 1 else ())
    ]  # fmt: skip


def _tables(run: RunKey, number: int, names: tuple[str, ...]) -> dict[str, list[Row]]:
    as_of_ms = run.as_of_ms
    groups = [
        _group(LIVING, 2, state="Stable", member_count=1, pending_count=1, log_partition=1, protocol_type="consumer"),
        _group(DYING, 3),
        *([_group(GONE, 0)] if number < 2 else []),
        _group(UNHELD, 1, state="Stable", member_count=1, pending_count=1, log_partition=2),
        *(_group(name, 1) for name in names),
    ]
    offsets = [
        _offset(LIVING, "orders", 0, 100 + 10 * number, as_of_ms, log_partition=1),
        _offset(LIVING, "orders", 1, 7, as_of_ms, log_partition=1),
        *(_offset(DYING, "old", partition, 5, as_of_ms) for partition in range(3)),
        _offset(UNHELD, "old", 0, 5, as_of_ms, log_partition=2),
        *(_offset(name, name, 0, 1, as_of_ms, metadata=name) for name in names),
    ]
    owner = {"pinned_by_transactional_id": names[0], "pinned_verdict": "hanging"} if names else {}
    verdicts = [
        _cache(LIVING, "orders", 0, "subscribed", log_partition=1, changes_by="subscription"),
        _cache(LIVING, "orders", 1, "pending_transaction", log_partition=1, pinned_by_producer_id=77, **owner),
        _due(
            DYING,
            0,
            as_of_ms,
            orphan="topic_gone",
            policy_verdict="hold",
            policy_rule="legal",
            policy_owner="law",
            kept_until_ms=as_of_ms + HOUR_MS,
            keep_status="not_kept",
            keep_at_ms=as_of_ms - HOUR_MS,
            keep_outcome="refused",
            keep_error="topic_gone",
            client_commit_timestamp_ms=as_of_ms - 9 * HOUR_MS,
        ),
        _due(
            DYING, 1, as_of_ms, policy_verdict="expire", policy_rule="ci", policy_reason="idle", behind_log_start=True
        ),
        _cache(UNHELD, "old", 0, "load_would_fail", log_partition=2, orphan="topic_gone", policy_verdict="expire"),
        _cache(DYING, "old", 2, "not_due", broker_expires_at_ms=as_of_ms + HOUR_MS, left_topic=True),
        *(
            _cache(
                name, name, 0, "not_due", policy_rule=name, policy_owner=name, policy_reason=name, policy_verdict="keep"
            )
            for name in names
        ),
    ]
    return {
        "groups": groups,
        "committed_offsets": offsets,
        "offset_verdicts": verdicts,
        "pending_offsets": [
            _offset(LIVING, "orders", 1, 9, as_of_ms, log_partition=1, producer_id=77),
            _offset(UNHELD, "old", 0, 9, as_of_ms, log_partition=2, producer_id=78),
        ],
        "members": [
            {
                "group_id": LIVING, "member_id": "m-1", "client_id": "app", "client_host": "/10.0.0.1",
                "log_partition": 1,
            },
            *(
                {
                    "group_id": name, "member_id": name, "client_id": name, "client_host": name,
                    "group_instance_id": name, "subscribed_topics": [name], "assignment": [f"{name}-0"],
                }
                for name in names
            ),
        ],
        "open_transactions": [
            {
                "producer_id": 77, "log_partition": 1, "first_log_offset": 3, "last_log_offset": 3,
                "first_timestamp_ms": as_of_ms - 5_000, "group_ids": [LIVING, *names],
            },
            {"producer_id": 78, "log_partition": 2, "first_timestamp_ms": as_of_ms - 9_000, "group_ids": [UNHELD]},
        ],
        "offset_changes": [
            _change(LIVING, "orders", 0, "set", as_of_ms, new_committed_offset=100 + 10 * number, log_partition=1),
            *([_change(GONE, "old", 0, "group_deleted", as_of_ms, old_committed_offset=3)] if number == 2 else []),
            *(
                _change(name, name, 0, "ambiguous", as_of_ms, evidence=name, candidates=[name], by_plan_id=name or "x")
                for name in names
            ),
        ],
        "load_profile": [
            {"log_partition": 0, "bytes": 1_000, "records": 9, "load_outcome": "loaded", "hot_groups": list(names[:1])},
            {
                "log_partition": 2, "records": 5, "load_would_fail": True,
                "load_failure": names[0] if names else "why", "load_outcome": "not_coordinator", "undecodable": 1,
                "misplaced_groups": 2, "first_unstable_log_offset": 3,
            },
        ],
        "topic_partitions": [
            {"topic": "orders", "partition": 0, "log_start_offset": 0, "log_end_offset": 200 + 100 * number},
        ],
        "expiry_forecast": [
            {"group_id": DYING, "horizon_days": 1, "by": "broker", "offset_count": 3, "is_whole_group": True},
            *({"group_id": name, "horizon_days": 7, "by": f"rule:{name}", "offset_count": 1} for name in names),
        ],
        "dq_results": [
            {"table": "groups", "expectation": "key is unique", "severity": "critical", "success": True},
            *(
                {"table": name, "expectation": name, "severity": "warning", "success": False, "observed": name}
                for name in names[:4]
            ),
        ],
        "tombstones": [
            _tombstone(number, 0, DYING, "old", 0),
            *([_tombstone(number, 1, DYING, "old", number)] if number else []),
            *(_tombstone(number, 2 + place, name, name, 0, cause=f"rule:{name}") for place, name in enumerate(names)),
        ],
        "undecodable_records": [{"log_partition": 1, "reason": "bad_crc"}],
    }  # fmt: skip


def _tombstone(number: int, position: int, group_id: str, topic: str, partition: int, **values: Any) -> Row:
    where = {"group_id": group_id, "topic": topic, "partition": partition}
    told = {"plan_id": PLAN_IDS[number], "position": position, "record_type": 1, "cause": "broker_retention"}
    return {**where, **told, "target_committed_offset": 5, **values}


def _ledger(names: tuple[str, ...]) -> list[Row]:
    """Of the plan of run 0 the one item refused; of that of run 1 the first done, the second refused and then done; of
    run 3 items by those names."""
    done = [
        _acted(PLAN_IDS[0], 0, 1, "refused", DYING, error="GROUP_AUTHORIZATION_FAILED"),
        _acted(PLAN_IDS[1], 0, 1, "done", DYING, before={"committed_offset": 5}),
        _acted(PLAN_IDS[1], 1, 1, "refused", DYING, error="GROUP_SUBSCRIBED_TO_TOPIC"),
        _acted(PLAN_IDS[1], 1, 2, "done", DYING),
    ]
    hostile = [
        _acted(PLAN_IDS[3], 2 + place, 1, "not_done", name, error=name, topic=name, approved_by=name)
        for place, name in enumerate(names)
    ]
    return [*done, *hostile]


def _acted(plan_id: str, position: int, attempt: int, outcome: str, group_id: str, **values: Any) -> Row:
    told = {"plan_id": plan_id, "action": "tombstone", "position": position, "attempt": attempt, "outcome": outcome}
    who = {"group_id": group_id, "topic": "old", "partition": position, "approved_by": "ada"}
    return {**told, **who, "intent_at_ms": FIRST_MS + attempt, "outcome_at_ms": FIRST_MS + attempt, **values}


def _group(group_id: str, offset_count: int, **values: Any) -> Row:
    return {"group_id": group_id, "group_type": "Classic", "state": "Empty", "offset_count": offset_count, **values}


def _offset(group_id: str, topic: str, partition: int, offset: int, as_of_ms: int, **values: Any) -> Row:
    where = {"group_id": group_id, "topic": topic, "partition": partition}
    return {**where, "committed_offset": offset, "commit_timestamp_ms": as_of_ms - HOUR_MS, **values}


def _cache(group_id: str, topic: str, partition: int, reason: str, **values: Any) -> Row:
    where = {"group_id": group_id, "topic": topic, "partition": partition}
    return {**where, "broker_verdict": "keep", "broker_reason": reason, **values}


def _due(group_id: str, partition: int, as_of_ms: int, **values: Any) -> Row:
    where = {"group_id": group_id, "topic": "old", "partition": partition}
    told = {"broker_verdict": "expire", "broker_reason": "expired", "broker_expires_at_ms": as_of_ms - HOUR_MS}
    return {**where, **told, "base_timestamp_ms": as_of_ms - HOUR_MS - RETENTION_MS, **values}


def _change(group_id: str, topic: str, partition: int, kind: str, as_of_ms: int, **values: Any) -> Row:
    where = {"group_id": group_id, "topic": topic, "partition": partition, "kind": kind}
    return {**where, "timestamp_ms": as_of_ms - 1_000, "log_offset": 1, **values}


def allow() -> MayRead:
    """Lets everybody read every DAG."""
    return lambda _dag_id: True


def only(*dag_ids: str) -> Callable[[], MayRead]:
    """Lets everybody read these DAGs."""
    return lambda: lambda dag_id: dag_id in dag_ids


def refuse(status: int) -> Callable[[Request], MayRead]:
    def refuse_all(request: Request) -> MayRead:
        raise HTTPException(status_code=status, detail="no")

    return refuse_all


def app_over(
    lake: WrittenLake, asks: Any = allow, *, clusters: Sequence[Cluster] = PLAIN, metrics_groups: int = 0
) -> FastAPI:
    """The dashboard, mounted as Airflow mounts it."""
    root, access = FastAPI(), Access(may_read=asks, clusters=clusters)
    root.mount(PREFIX, make_app(PublishedTables(lambda: lake.lake), access, metrics_groups=metrics_groups))
    return root


def client_of(app: FastAPI, **options: Any) -> TestClient:
    return TestClient(app, base_url="http://dashboard", raise_server_exceptions=True, **options)
