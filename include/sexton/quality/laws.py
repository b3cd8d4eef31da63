"""Laws between the tables of a run: each is one SQL query that returns the rows that break it.

A row of offset_verdicts belongs to one row of committed_offsets or unreachable_offsets, a planned tombstone to one
verdict, and so on: rows are matched by key, with joins and anti joins.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from sexton.coordinator.expiry import LOAD_WOULD_FAIL
from sexton.coordinator.loading import HOLDS_NOTHING
from sexton.policy.inputs import TIME_REASONS
from sexton.quality.declared_expectations import of_values
from sexton.quality.expectation import Expectation
from sexton.quality.queried_views import KEY
from sexton.tables import FATES, REPLICA_DIFFERENCES, Severity
from sexton.verdicts.keeping import NOT_KEPT

Law: TypeAlias = tuple[str, str] | tuple[str, str, Severity]
"""A sentence and the SQL of the rows that break it; critical unless a severity follows."""


def _expectations(laws: Mapping[str, Mapping[str, Law]]) -> Iterator[Expectation]:
    for table, by_name in laws.items():
        for name, (sentence, sql, *severity) in by_name.items():
            yield Expectation(
                table=table,
                name=name,
                sentence=sentence,
                sql=" ".join(sql.split()),
                severity=severity[0] if severity else "critical",
            )


def _same(left: str, right: str, columns: Sequence[str] = KEY) -> str:
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in columns)


def _without(rows: str, others: str, key: Sequence[str] = KEY) -> str:
    """SQL of the rows of a table or view for which `others` has none with the same key."""
    return f"SELECT r.* FROM {rows} r ANTI JOIN {others} o ON {_same('o', 'r', key)}"


def _miscounted(table: str, column: str, counted: str, key: Sequence[str]) -> str:
    """SQL of the rows of a table whose `column` is not the number of rows of `counted` with the same key."""
    return f"""SELECT t.*, c.counted FROM {table} t
        LEFT JOIN (SELECT {", ".join(key)}, count(*) AS counted FROM {counted} GROUP BY ALL) c
            ON {_same("t", "c", key)}
        WHERE t.{column} IS DISTINCT FROM coalesce(c.counted, 0)"""


_PARTITION, _GROUP = ("log_partition",), ("log_partition", "group_id")
_OFFSET = ("group_id", "topic", "partition")
_COUNTED = {"offset_count": "committed_offsets", "pending_count": "pending_offsets", "member_count": "members"}
_COUNTED_FATES = {"live": "committed_offsets", "pending": "pending_offsets", "unreachable": "unreachable_offsets"}
_BY_REPLICA = ("log_partition", "replica")
_OFFSETS_OF_REPLICA = ("log_start_offset", "high_watermark", "log_end_offset", "last_stable_offset")
_READ_OF_REPLICA = (*_OFFSETS_OF_REPLICA, "open_transactions", "record_count", "batch_count", "loads")
_REPLICA_KINDS = REPLICA_DIFFERENCES.column("kind").allowed
_NOTHING_HELD = ", ".join(f"'{outcome}'" for outcome in sorted(HOLDS_NOTHING))
_BY_TIME = ", ".join(f"'{reason}'" for reason in sorted(TIME_REASONS))

_OF_RUNS: Mapping[str, Mapping[str, Law]] = {
    "committed_offsets": {
        "without_group": (
            "every committed offset belongs to a group in groups",
            _without("held_offsets", "groups", _GROUP),
        ),
        "misplaced_offsets": (
            "every group's offsets are in the log partition that it hashes to",
            """SELECT o.* FROM committed_offsets o
                SEMI JOIN groups g ON g.group_id = o.group_id AND g.home_log_partition <> o.log_partition
                CROSS JOIN run r WHERE NOT r.one_cache""",
        ),
    },
    "groups": {
        f"{column}s": (
            f"{column} is the number of its rows in {counted}",
            _miscounted("groups", column, counted, _GROUP),
        )
        for column, counted in _COUNTED.items()
    },
    "members": {
        "without_group": ("every member belongs to a group in groups", _without("members", "groups", _GROUP)),
    },
    "offset_verdicts": {
        "missing_verdicts": ("every offset under a group has a verdict", _without("held_offsets", "offset_verdicts")),
        "without_offset": ("every verdict is for an offset that exists", _without("offset_verdicts", "held_offsets")),
        "load_would_fail": (
            f"offsets are kept with the reason {LOAD_WOULD_FAIL} exactly where a load leaves nothing in memory",
            f"""SELECT v.* FROM offset_verdicts v JOIN load_profile p ON p.log_partition = v.log_partition
                WHERE (v.broker_reason = '{LOAD_WOULD_FAIL}') <> (p.load_outcome IN ({_NOTHING_HELD}))""",
        ),
        "held_offsets_kept": (
            "every offset under a hold with keep is kept before the broker expires it",
            f"SELECT * FROM offset_verdicts WHERE keep_status = '{NOT_KEPT}'",
            "warning",
        ),
        "policy_verdicts": (
            "with a policy every row has its verdict, without one none has",
            "SELECT v.* FROM offset_verdicts v CROSS JOIN run r WHERE (v.policy_verdict IS NULL) = r.has_policy",
        ),
        "against_the_broker": (
            "no rule expires what the broker keeps for a reason other than time, or what an open transaction holds",
            f"""SELECT * FROM offset_verdicts WHERE policy_verdict = 'expire'
                AND (broker_reason NOT IN ({_BY_TIME}) OR pinned_by_producer_id IS NOT NULL)""",
        ),
    },
    "load_profile": {
        "missing_log_partitions": (
            "every log partition of the run has a row",
            _without("cuts", "load_profile", _PARTITION),
        ),
        "behind_the_cut": (
            "no record at or after the cut was read",
            """SELECT p.*, c.cut FROM load_profile p JOIN cuts c ON c.log_partition = p.log_partition
                WHERE p.next_log_offset > c.cut""",
        ),
        "conservation": (
            f"read_values = {' + '.join(FATES)}, in every log partition",
            f"SELECT * FROM load_profile WHERE read_values <> {' + '.join(FATES)}",
        ),
        **{
            f"{fate}_rows": (
                f"{fate} is the number of rows in {counted}, in every log partition",
                _miscounted("load_profile", fate, counted, _PARTITION),
            )
            for fate, counted in _COUNTED_FATES.items()
        },
        "sweep_failures": (
            "the broker's sweep works in every log partition",
            "SELECT * FROM failing_sweeps",
            "warning",
        ),
    },
    "tombstones": {
        "without_expire": (
            "every planned offset tombstone targets an offset whose verdict is expire",
            f"SELECT t.* FROM planned_offsets t ANTI JOIN decisions d ON {_same('d', 't')} AND d.verdict = 'expire'",
        ),
        "kept_or_held": (
            "no offset that a verdict keeps or a policy holds is planned",
            f"""SELECT t.*, d.verdict FROM planned_offsets t JOIN decisions d ON {_same("d", "t")}
                WHERE d.verdict <> 'expire'""",
        ),
        "planned_twice": (
            "no offset is planned twice",
            f"""SELECT {", ".join(KEY)}, count(*) AS planned FROM planned_offsets
                GROUP BY {", ".join(KEY)} HAVING count(*) > 1""",
        ),
        "other_target": (
            "every planned offset tombstone names the present value",
            f"""SELECT t.*, o.log_offset, o.committed_offset FROM planned_offsets t
                JOIN held_offsets o ON {_same("o", "t")}
                WHERE t.target_log_offset IS DISTINCT FROM o.log_offset
                    OR t.target_committed_offset IS DISTINCT FROM o.committed_offset""",
        ),
        # Tombstones of a misplaced group that the coordinator serves go to the log partition that its id hashes to.
        "left_out": (
            "every offset whose verdict is expire is planned, where planning is not blocked",
            f"""SELECT d.* FROM decisions d
                ANTI JOIN planned_offsets t ON {_same("t", "d")}
                ANTI JOIN blocked_log_partitions b ON b.log_partition = d.log_partition
                ANTI JOIN (SELECT m.* FROM misplaced_groups m CROSS JOIN run r WHERE r.one_cache) m
                    ON {_same("m", "d", _GROUP)}
                WHERE d.verdict = 'expire'""",
        ),
        # Kafka 4.0.0 checks for open transactions only if the group has offsets to expire.
        "group_with_offsets": (
            "no planned group keeps an offset or has a pending one",
            f"""SELECT t.* FROM planned_groups t CROSS JOIN run r
                WHERE EXISTS (SELECT 1 FROM decisions d WHERE {_same("d", "t", _GROUP)} AND d.verdict <> 'expire')
                    OR (EXISTS (SELECT 1 FROM pending_offsets p WHERE {_same("p", "t", _GROUP)})
                        AND (NOT r.leaks_open_transactions
                            OR EXISTS (SELECT 1 FROM held_offsets o WHERE {_same("o", "t", _GROUP)})))""",
        ),
        "blocked": (
            "nothing is planned where a record is undecodable or the load would fail",
            "SELECT t.* FROM tombstones t SEMI JOIN blocked_log_partitions b ON b.log_partition = t.log_partition",
        ),
        "sweep_fails": (
            "nothing is planned by the broker's rules where its sweep fails",
            """SELECT t.*, s.sweep_blocked_by FROM tombstones t
                JOIN failing_sweeps s ON s.log_partition = t.log_partition
                CROSS JOIN run r WHERE NOT r.has_policy""",
        ),
        "positions": (
            "positions count from 0 without a gap, in every log partition",
            """SELECT log_partition, min(position) AS lowest, max(position) AS highest, count(*) AS planned
                FROM tombstones GROUP BY log_partition
                HAVING min(position) <> 0 OR max(position) + 1 <> count(DISTINCT position)""",
        ),
        "other_plan": (
            "every row carries the run's plan_id",
            "SELECT t.* FROM tombstones t CROSS JOIN run r WHERE t.plan_id IS DISTINCT FROM r.plan_id",
        ),
        "held_groups": (
            "nothing is planned for a group that the policy holds",
            "SELECT t.* FROM tombstones t SEMI JOIN held_groups h ON h.group_id = t.group_id",
        ),
    },
    "expiry_forecast": {
        "not_in_forecast": (
            "every group that loses an offset now is in the forecast",
            f"""SELECT DISTINCT v.log_partition, v.group_id FROM offset_verdicts v
                ANTI JOIN expiry_forecast f ON {_same("f", "v", _GROUP)}
                WHERE v.broker_verdict = 'expire' OR v.policy_verdict = 'expire'""",
        ),
    },
    "undecodable_records": {"found": ("every record could be decoded", "SELECT * FROM undecodable_records", "warning")},
}
_ONLY: Sequence[tuple[str, str, str, Any, str]] = (
    ("runs", "coverage", "is_complete", True, "the log reaches back to its beginning and no log partition is missing"),
    ("load_profile", "load_failures", "load_would_fail", False, "a coordinator could load every log partition"),
    ("load_profile", "unknown_types", "unknown_types", 0, "every record is of a known type"),
    (
        *("load_profile", "future_batches", "future_batches", 0),
        "no batch has a timestamp more than an hour after the snapshot",
    ),
)
"""Table, name, column, the column's only value that raises no warning, and the sentence."""
_REASONS = {
    "group_removed": "no offset is left behind by the removal of its group",
    "misplaced": "no offset is outside the log partition that its group hashes to",
    "share_group": "no offset has the group id of a share group",
    "undetermined": "for each offset it is known from which log partition clients read it",
}
"""Reason why an offset is unreachable -> the sentence that such an offset breaks."""
LAWS: tuple[Expectation, ...] = (
    *_expectations(_OF_RUNS),
    *(
        of_values(table, name, sentence, "allowed", {column: [value]}, "warning")
        for table, name, column, value, sentence in _ONLY
    ),
    *(
        of_values("unreachable_offsets", reason, sentence, "forbidden", {"reason": [reason]}, "warning")
        for reason, sentence in _REASONS.items()
    ),
)
"""Laws of every run."""

_OF_CHANGES: Mapping[str, Mapping[str, Law]] = {
    "offset_changes": {
        "no_change": (
            "an offset that was set has another committed_offset than before",
            """SELECT * FROM values_set
                WHERE old_committed_offset = new_committed_offset OR new_committed_offset IS NULL""",
        ),
        "not_gone": (
            "an offset that disappeared had a value and has none",
            "SELECT * FROM values_gone WHERE old_committed_offset IS NULL OR new_committed_offset IS NOT NULL",
        ),
        "not_due": (
            "nothing expired before it was due",
            "SELECT * FROM offset_changes WHERE kind = 'expired' AND due_at_ms > timestamp_ms",
        ),
        "candidates": (
            "candidates are recorded where a change is ambiguous, and only there",
            "SELECT * FROM offset_changes WHERE (kind = 'ambiguous') <> coalesce(size(candidates) > 1, false)",
        ),
        "other_end": (
            "the changes end in what committed_offsets and unreachable_offsets hold",
            f"""SELECT s.*, o.log_offset AS stored_log_offset, o.committed_offset AS stored_committed_offset
                FROM values_set s LEFT JOIN stored_values o ON {_same("o", "s")}
                WHERE o.log_offset IS DISTINCT FROM s.log_offset
                    OR o.committed_offset IS DISTINCT FROM s.new_committed_offset
                UNION ALL
                SELECT g.*, o.log_offset AS stored_log_offset, o.committed_offset AS stored_committed_offset
                FROM values_gone g JOIN stored_values o ON {_same("o", "g")}
                ANTI JOIN values_set s ON {_same("s", "g")}""",
        ),
        "set_twice": (
            "no offset is set twice in an interval",
            f"SELECT {', '.join(KEY)} FROM values_set GROUP BY {', '.join(KEY)} HAVING count(*) > 1",
        ),
    },
}
CHANGE_LAWS = tuple(_expectations(_OF_CHANGES))
"""Laws of runs that write the changes of an interval: the last change gives the value in the run's state tables."""

_OF_AUDITS: Mapping[str, Mapping[str, Law]] = {
    "transactions": {
        "abort_arguments": (
            "a transaction has arguments that abort it if it hangs, and only then",
            "SELECT t.* FROM transactions t WHERE (t.verdict = 'hanging') <> (t.abort_arguments IS NOT NULL)",
        ),
        "ends_at": (
            "a transaction has an end if it is running, and only then",
            "SELECT t.* FROM transactions t WHERE (t.verdict = 'running') <> (t.ends_at_ms IS NOT NULL)",
        ),
        "known_id": (
            "the transactional id of a transaction is in transactional_ids",
            f"""{_without("transactions", "transactional_ids", ["transactional_id"])}
                WHERE r.transactional_id IS NOT NULL""",
        ),
    },
    "transactional_ids": {
        "expires_at": (
            "a transactional id expires unless its transaction is open",
            """SELECT i.* FROM transactional_ids i
                WHERE (i.state IN ('Empty', 'CompleteCommit', 'CompleteAbort')) <> (i.expires_at_ms IS NOT NULL)""",
        ),
    },
    "time_lag": {
        "not_measured": (
            "every committed offset of the run has its lag",
            _without("committed_offsets", "time_lag", (*_OFFSET, "committed_offset")),
        ),
        "without_offset": (
            "every lag is that of a committed offset of the run",
            _without("time_lag", "committed_offsets", _OFFSET),
        ),
        "interval": (
            "lag_min_ms is not above lag_max_ms, and there is a basis where there is one, and only there",
            """SELECT t.* FROM time_lag t
                WHERE t.lag_min_ms > t.lag_max_ms OR (t.basis IS NULL) <> (t.lag_min_ms IS NULL)
                    OR (t.basis IS NULL AND t.lag_max_ms IS NOT NULL)""",
        ),
        "log_end": (
            "at the end of its partition a group has no lag and loses nothing",
            """SELECT t.* FROM time_lag t
                WHERE t.basis = 'log_end' AND (t.lag_max_ms <> 0 OR t.loses_at_min_ms IS NOT NULL)""",
        ),
        "lag_records": (
            "lag is log_end_offset minus committed_offset, 0 at least",
            """SELECT t.* FROM time_lag t
                WHERE t.lag IS DISTINCT FROM
                    CASE WHEN t.log_end_offset IS NULL THEN NULL
                        ELSE greatest(t.log_end_offset - t.committed_offset, 0) END""",
        ),
        "behind_log_start": (
            "an offset is behind_log_start if it is before log_start_offset, and only then",
            """SELECT t.* FROM time_lag t
                WHERE (t.would_reset IS NOT DISTINCT FROM 'behind_log_start')
                    <> coalesce(t.committed_offset < t.log_start_offset, false)""",
        ),
        "loses_at": (
            "nothing is lost before the earliest instant at which retention can take it, and nothing where that is "
            "unknown",
            """SELECT t.* FROM time_lag t WHERE t.loses_at_ms < t.loses_at_min_ms
                OR (t.loses_at_min_ms IS NULL AND t.loses_at_ms IS NOT NULL)""",
        ),
    },
    "replica_state": {
        "not_compared": (
            "every log partition that was read has its replicas",
            _without("cuts", "replica_state", _PARTITION),
        ),
        "empty": (
            f"NULL where a replica is empty, and only there: {', '.join(_READ_OF_REPLICA)}",
            f"""SELECT s.* FROM replica_state s
                WHERE {" OR ".join(f"(s.status = 'empty') <> (s.{name} IS NULL)" for name in _READ_OF_REPLICA)}""",
        ),
        "alone": (
            "a replica is alone if no other one of its log partition has a segment",
            """SELECT s.* FROM replica_state s SEMI JOIN replica_state o ON o.log_partition = s.log_partition
                AND o.replica <> s.replica AND o.status <> 'empty' WHERE s.status = 'alone'""",
        ),
        "corrupt_bytes": (
            "a replica is corrupt if it has corrupt bytes, and only then",
            "SELECT s.* FROM replica_state s WHERE (s.status = 'corrupt') <> (size(s.corrupt_bytes) > 0)",
        ),
        "load_error": (
            "there is a load_error if a coordinator could not load the replica, and only then",
            "SELECT s.* FROM replica_state s WHERE coalesce(s.loads, true) <> (s.load_error IS NULL)",
        ),
        "differs": (
            "a replica differs if a difference that any leader change would show calls it wrong, and only then",
            f"""SELECT s.* FROM replica_state s LEFT JOIN
                (SELECT DISTINCT o.log_partition, o.replica FROM replica_state o JOIN replica_differences d
                    ON d.log_partition = o.log_partition AND array_contains(d.wrong_replicas, o.replica)
                    WHERE NOT d.needs_unclean_election) w ON {_same("w", "s", _BY_REPLICA)}
                WHERE (s.status = 'differs') <> (w.replica IS NOT NULL)""",
        ),
        # log_start_offset and high_watermark are as the broker recorded them.
        "log_offsets": (
            "log_start_offset <= high_watermark <= log_end_offset, and last_stable_offset <= log_end_offset",
            """SELECT s.* FROM replica_state s WHERE s.log_start_offset > s.high_watermark
                OR s.high_watermark > s.log_end_offset OR s.last_stable_offset > s.log_end_offset""",
            "warning",
        ),
    },
    "replica_differences": {
        "replicas": (
            "some replica is wrong; each that is wrong or right, never both, was compared and is in replica_state",
            """SELECT d.* FROM replica_differences d JOIN
                (SELECT d.log_partition, d.ordinal, count(s.replica) AS compared
                    FROM replica_differences d LEFT JOIN replica_state s ON s.log_partition = d.log_partition
                        AND s.status NOT IN ('corrupt', 'empty', 'alone')
                        AND (array_contains(d.wrong_replicas, s.replica)
                            OR array_contains(d.right_replicas, s.replica))
                    GROUP BY d.log_partition, d.ordinal) c
                ON c.log_partition = d.log_partition AND c.ordinal = d.ordinal
                WHERE size(d.wrong_replicas) = 0
                    OR c.compared <> size(d.wrong_replicas) + size(d.right_replicas)""",
        ),
        "kinds": (
            "kinds are declared ones, none twice, and kind is one of them",
            f"""SELECT d.* FROM replica_differences d WHERE NOT array_contains(d.kinds, d.kind) OR size(d.kinds) <>
                {" + ".join(f"CAST(array_contains(d.kinds, '{kind}') AS INT)" for kind in _REPLICA_KINDS)}""",
        ),
        "key": (
            "topic and partition are both there or both not, and only with a group",
            """SELECT d.* FROM replica_differences d
                WHERE (d.topic IS NULL) <> (d.partition IS NULL) OR (d.group_id IS NULL AND d.topic IS NOT NULL)""",
        ),
        "since": (
            "a tombstone or marker that is proof is there, and each with its time",
            """SELECT d.* FROM replica_differences d
                WHERE (d.since_log_offset IS NULL) <> (d.since_timestamp_ms IS NULL)
                    OR (d.proof IN ('tombstone', 'marker') AND d.since_log_offset IS NULL)""",
        ),
        "ordinals": (
            "ordinals count from 0 without a gap, in every log partition",
            """SELECT log_partition, min(ordinal) AS lowest, max(ordinal) AS highest, count(*) AS differences
                FROM replica_differences GROUP BY log_partition
                HAVING min(ordinal) <> 0 OR max(ordinal) + 1 <> count(DISTINCT ordinal)""",
        ),
    },
}
AUDIT_LAWS = tuple(_expectations(_OF_AUDITS))
"""Laws of the tables that audits write."""
