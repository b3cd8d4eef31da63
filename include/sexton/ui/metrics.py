"""Metrics of each cluster's newest published run, in Prometheus' text format. No label has a topic's name.

The number of time series depends on the types, states and reasons that Kafka and Sexton define, never on clients. The
setting `metrics_groups` adds series of single groups, at most so many for each owner that the policy names. The first
scrape after a run measures it. Metrics are timestamps instead of ages: Prometheus subtracts.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from sexton import __version__
from sexton.figures import HOUR_MS
from sexton.lake.catalog import Lake
from sexton.lake.database import no_rows
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import PublishedRun
from sexton.policy.field_types import FOREVER_MS
from sexton.summary.audit_counts import newest_transactions
from sexton.tables import TABLES
from sexton.ui.access import Viewer, viewer_of
from sexton.ui.lag_queries import newest_lag
from sexton.ui.overview import HORIZON_HOURS

router = APIRouter()

SEVERITIES = TABLES["dq_results"].column("severity").allowed
ORPHANS = TABLES["offset_verdicts"].column("orphan").allowed
KEPT = TABLES["offset_verdicts"].column("keep_status").allowed
VERDICTS = TABLES["transactions"].column("verdict").allowed
RESETS = TABLES["time_lag"].column("would_reset").allowed
LAG_SECONDS = (60, 600, 3_600, 21_600, 86_400)
Sample = tuple[str, tuple[str, ...], float]
"""A metric of a cluster without prefix, its labels but cluster_id in the order of _OF_CLUSTERS, and the value."""
_OF_GROUP = ("owner", "group_id")
_OF_CLUSTERS: Mapping[str, tuple[str, ...]] = {
    "cluster_info": ("Always 1; the cluster's name in the settings.", "cluster"),
    "published_runs": ("Published runs that are kept.",),
    "run_as_of_timestamp_seconds": ("The instant that the newest run describes.",),
    "run_log_read_timestamp_seconds": ("When that run read the log; the archive ended there.",),
    "run_duration_seconds": ("Time from reading the log until the tables were written.",),
    "run_is_complete": ("1 if every record up to the cut is archived (coverage complete).",),
    "run_warnings": ("Warnings of the run.",),
    "retention_seconds": ("The retention that the run used.",),
    "groups": ("Groups.", "type", "state"),
    "group_members": ("Members of groups.", "type"),
    "offsets": ("Committed offsets by the broker's verdict and its reason.", "verdict", "reason"),
    "offsets_due_within": ("Offsets that the broker keeps now and expires within this number of hours.", "hours"),
    "offsets_by_policy": ("Committed offsets by the policy's verdict.", "verdict"),
    "kept_offsets": ("Committed offsets that a hold keeps alive, by status.", "hold", "status"),
    "kept_offsets_by": ("Held offsets that a commit or a join of Sexton keeps now.", "hold", "by"),
    "kept_until_timestamp_seconds": (
        "When the hold stops keeping its offsets, at the latest; none without an end.",
        "hold",
    ),
    "keep_last_attempt_timestamp_seconds": ("The last attempt to keep offsets of the hold.", "hold"),
    "offsets_orphaned": ("Committed offsets whose topic or partition is gone.", "why"),
    "offsets_pending": ("Transactional offsets that are still pending.",),
    "planned_tombstones": ("Records in the run's plan.",),
    "sweeps": ("Sweeps of the newest run's interval, one for each log partition that lost offsets.",),
    "sweeps_expired_offsets": ("Offsets that these sweeps removed or may have removed.",),
    "commits": ("Offset values written in that interval (a lower bound).",),
    "commits_per_second": ("Offset values written in that interval, per second.",),
    "open_transactions": ("Producers with pending offsets.",),
    "transactions_audit_timestamp_seconds": ("When the newest audit of transactions read their states.",),
    "transactions": ("Open transactions that hold offsets, by the verdict of that audit.", "verdict"),
    "transactions_overdue": ("Open transactions that should have ended.",),
    "offsets_held_by_hanging_transactions": ("Offsets held by transactions that nothing will end.",),
    "lag_as_of_timestamp_seconds": ("The instant of the newest run whose lag in time was audited.",),
    "lag_max_seconds": ("The longest lag in time of that run that is certain.",),
    "offsets_lagging": ("Committed offsets whose lag in time is certainly at least this number of seconds.", "seconds"),
    "offsets_lag_unknown": ("Committed offsets with an unknown lag in time.",),
    "offsets_would_reset": ("Committed offsets from which a returning consumer could not continue.", "why"),
    "offsets_losing_within": (
        "Committed offsets that lose unread messages to retention within this number of hours.",
        "hours",
    ),
    "offsets_held_by_topic_transactions": (
        "Committed offsets at an open transaction of the topic, which the group cannot read past.",
    ),
    "offsets_without_leader_epoch": ("Committed offsets whose consumers cannot notice a truncated log.",),
    "undecodable_records": ("Records that could not be decoded.",),
    "log_size_bytes": ("Size of the offsets topic's log.",),
    "log_records": ("Records in it.",),
    "log_partitions": ("Log partitions by the outcome of a coordinator's load.", "load"),
    "log_partitions_sweep_failing": ("Log partitions whose sweep fails, so nothing expires in them.",),
    "log_slowest_load_seconds": ("Predicted time of the slowest load.",),
    "failed_expectations": ("Expectations that failed.", "severity"),
    "group_last_commit_timestamp_seconds": ("When the group last committed an offset that it still has.", *_OF_GROUP),
    "group_member_count": ("Members of the group.", *_OF_GROUP),
    "group_lag_seconds": ("The longest lag in time of the group that is certain.", *_OF_GROUP),
    "groups_without_series": ("Groups that have no series of their own.", "owner"),
}
"""Help text and labels of each metric of a cluster."""
GAUGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "sexton_build_info": ("Always 1.", ("version",)),
    **{f"sexton_{name}": (text, ("cluster_id", *labels)) for name, (text, *labels) in _OF_CLUSTERS.items()},
}
"""Metric -> its help text and its labels."""


class Metrics:
    """Measures the newest run of each cluster once; the figures are kept until a newer run is published."""

    def __init__(self, tables: PublishedTables, *, groups_per_owner: int = 0) -> None:
        self._tables, self._groups_per_owner = tables, groups_per_owner
        self._lock = threading.Lock()  # one scrape measures at a time
        self._measured: dict[tuple[str, str], tuple[str, list[Sample]]] = {}

    def text(self, viewer: Viewer) -> bytes:
        """The metrics that a viewer may see, in Prometheus' text format."""
        runs = [run for run in self._tables.runs() if viewer.cluster_of(run.key.cluster_id) is not None]
        newest = {run.key.cluster_id: run for run in runs}  # the oldest comes first
        published = Counter(run.key.cluster_id for run in runs)
        names = {cluster.cluster_id: cluster.name or "" for cluster in viewer.clusters if cluster.cluster_id}
        families = {name: GaugeMetricFamily(name, help_, labels=labels) for name, (help_, labels) in GAUGES.items()}
        families["sexton_build_info"].add_metric([__version__], 1)
        for cluster_id in dict.fromkeys([*names, *newest]):
            samples: list[Sample] = [("cluster_info", (names.get(cluster_id, ""),), 1)]
            samples.append(("published_runs", (), published[cluster_id]))
            if cluster_id in newest:
                samples += self._of(newest[cluster_id])
                samples += self._of_audit(cluster_id)
                own = [run for run in runs if run.key.cluster_id == cluster_id]
                samples += self._of_lag(own)
                samples += self._of_groups(own)
            for name, labels, value in samples:
                families[f"sexton_{name}"].add_metric([cluster_id, *labels], value)
        return generate_latest(_Families(families.values()))

    def _of(self, run: PublishedRun) -> list[Sample]:
        return self._once("run", run.key.cluster_id, run.key.run_id, _Run(self._tables, run).samples)

    def _of_audit(self, cluster_id: str) -> list[Sample]:
        """Measured anew when an audit has been appended, of whichever cluster."""
        version = "".join(map(self._tables.current, ("transactions", "transactional_ids")))
        return self._once("transactions", cluster_id, version, lambda: _audit_samples(self._tables.lake, cluster_id))

    def _of_lag(self, runs: Sequence[PublishedRun]) -> list[Sample]:
        """Measured anew when there is a newer audit, or a repeated one."""
        source, cluster_id = newest_lag(self._tables, runs), runs[-1].key.cluster_id
        if source is None:
            return []
        return self._once("lag", cluster_id, source, lambda: _lag_samples(self._tables, source))

    def _of_groups(self, runs: Sequence[PublishedRun]) -> list[Sample]:
        """Measured anew when there is a newer run or a newer audit; nothing unless the settings ask for it."""
        most, run = self._groups_per_owner, runs[-1]
        lag = newest_lag(self._tables, runs) or no_rows("time_lag")
        if not most:
            return []
        version = f"{run.key.run_id} {lag}"
        return self._once("groups", run.key.cluster_id, version, lambda: _group_samples(self._tables, run, lag, most))

    def _once(self, kind: str, cluster_id: str, version: str, measure: Callable[[], Iterable[Sample]]) -> list[Sample]:
        """The samples of a kind, measured anew when their version has changed."""
        with self._lock:
            if self._measured.get((kind, cluster_id), ("", []))[0] != version:
                self._measured[kind, cluster_id] = (version, list(measure()))
            return self._measured[kind, cluster_id][1]


def _lag_samples(tables: PublishedTables, source: str) -> Iterator[Sample]:
    lagging = [f"lag_min_ms >= {seconds * 1000}" for seconds in LAG_SECONDS]
    losing = [f"loses_at_ms <= as_of_ms + {hours * HOUR_MS}" for hours in HORIZON_HOURS]
    resets = [f"would_reset = '{why}'" for why in RESETS]
    others = ["basis IS NULL", "held_at IS NOT NULL", "leader_epoch IS NULL"]
    counts = [
        f"count(*) FILTER ({each})::DOUBLE AS n{n}" for n, each in enumerate([*lagging, *losing, *resets, *others])
    ]
    whole = "max(as_of_ms)::DOUBLE AS at, coalesce(max(lag_min_ms), 0)::DOUBLE AS longest"
    (row,) = tables.rows(f"SELECT {whole}, {', '.join(counts)} FROM {source}")
    as_of_ms, longest_ms, *found = row.values()
    yield "lag_as_of_timestamp_seconds", (), as_of_ms / 1000
    yield "lag_max_seconds", (), longest_ms / 1000
    labels = (
        *(("offsets_lagging", str(seconds)) for seconds in LAG_SECONDS),
        *(("offsets_losing_within", str(hours)) for hours in HORIZON_HOURS),
        *(("offsets_would_reset", why) for why in RESETS),
        *(("offsets_lag_unknown",), ("offsets_held_by_topic_transactions",), ("offsets_without_leader_epoch",)),
    )
    for (name, *label), value in zip(labels, found, strict=True):
        yield name, (*label,), value


def _group_samples(tables: PublishedTables, run: PublishedRun, lag: str, most: int) -> Iterator[Sample]:
    """Metrics of up to `most` groups per owner: first those with the longest lag, then those with members, then those
    with the oldest last commit."""
    rows = tables.rows(
        f"""WITH commits AS (
            SELECT group_id, max(commit_timestamp_ms) AS committed_ms
            FROM {tables.held(run, "committed_offsets")} GROUP BY group_id
        ), owners AS (
            SELECT group_id, min(policy_owner) AS owner FROM {tables.held(run, "offset_verdicts")} GROUP BY group_id
        ), lags AS (
            SELECT group_id, max(lag_min_ms) AS lag_ms FROM {lag} GROUP BY group_id
        ), found AS (
            SELECT coalesce(owner, '') AS owner, group_id, coalesce(max(member_count), 0) AS members,
                max(committed_ms) AS committed_ms, max(lag_ms) AS lag_ms
            FROM {tables.held(run, "groups")} LEFT JOIN commits USING (group_id) LEFT JOIN owners USING (group_id)
                LEFT JOIN lags USING (group_id)
            GROUP BY owner, group_id
        )
        SELECT *, count(*) OVER (PARTITION BY owner) AS groups FROM found
        QUALIFY row_number() OVER (
            PARTITION BY owner ORDER BY lag_ms DESC NULLS LAST, members > 0 DESC, committed_ms NULLS LAST, group_id
        ) <= {most} ORDER BY owner, group_id"""
    )
    for row in rows:
        labels = (row["owner"], row["group_id"])
        if row["committed_ms"] is not None:
            yield "group_last_commit_timestamp_seconds", labels, row["committed_ms"] / 1000
        yield "group_member_count", labels, row["members"]
        if row["lag_ms"] is not None:
            yield "group_lag_seconds", labels, row["lag_ms"] / 1000
    for owner, groups in {row["owner"]: row["groups"] for row in rows}.items():
        yield "groups_without_series", (owner,), max(groups - most, 0)


def _audit_samples(lake: Lake, cluster_id: str) -> Iterator[Sample]:
    found = newest_transactions(lake, cluster_id, until_ms=None)
    if found is None:
        return
    yield "transactions_audit_timestamp_seconds", (), found.as_of_ms / 1000
    for verdict in VERDICTS:
        yield "transactions", (verdict,), found.verdicts.get(verdict, 0)
    yield "transactions_overdue", (), found.overdue
    yield "offsets_held_by_hanging_transactions", (), found.hanging_offsets


class _Run:
    """Measures one run."""

    def __init__(self, tables: PublishedTables, run: PublishedRun) -> None:
        self._tables, self._run = tables, run

    def samples(self) -> Iterator[Sample]:
        """Every metric of the run."""
        return chain(self._itself(), self._groups(), self._offsets(), self._log(), self._interval())

    def _itself(self) -> Iterator[Sample]:
        facts, read_ms = self._run.row, self._run.row["taken_at_ms"]
        yield "run_as_of_timestamp_seconds", (), self._run.key.as_of_ms / 1000
        yield "run_log_read_timestamp_seconds", (), read_ms / 1000
        written_ms = self._tables.written_at_ms(self._run)
        if written_ms is not None:
            yield "run_duration_seconds", (), max(written_ms - read_ms, 0) / 1000
        yield "run_is_complete", (), facts["coverage"] == "complete"
        yield "run_warnings", (), len(facts["warnings"] or ())
        yield "retention_seconds", (), facts["retention_ms"] / 1000
        failed = self._by("dq_results", "severity", "count(*) FILTER (NOT success)")
        for severity in SEVERITIES:
            yield "failed_expectations", (severity,), failed.get((severity,), 0)

    def _groups(self) -> Iterator[Sample]:
        for key, groups in self._by("groups", "group_type, state", "count(*)").items():
            yield "groups", key, groups
        for key, members in self._by("groups", "group_type", "coalesce(sum(member_count), 0)").items():
            yield "group_members", key, members

    def _offsets(self) -> Iterator[Sample]:
        for key, offsets in self._by("offset_verdicts", "broker_verdict, broker_reason", "count(*)").items():
            yield "offsets", key, offsets
        for key, offsets in self._by("offset_verdicts", "policy_verdict", "count(policy_verdict)").items():
            if offsets:
                yield "offsets_by_policy", key, offsets
        yield from self._kept()
        untils_ms = [self._run.key.as_of_ms + hours * HOUR_MS for hours in HORIZON_HOURS]
        due = [f"count(*) FILTER (broker_verdict = 'keep' AND broker_expires_at_ms <= {at_ms})" for at_ms in untils_ms]
        for hours, offsets in zip(HORIZON_HOURS, self._all("offset_verdicts", *due), strict=True):
            yield "offsets_due_within", (str(hours),), offsets
        orphans = self._by("offset_verdicts", "orphan", "count(orphan)")
        for why in ORPHANS:
            yield "offsets_orphaned", (why,), orphans.get((why,), 0)
        yield "offsets_pending", (), self._count("pending_offsets")
        yield "planned_tombstones", (), self._count("tombstones")

    def _kept(self) -> Iterator[Sample]:
        """What each hold keeps alive; a hold is a name of the policy, and there are few."""
        found = self._tables.rows(
            f"""SELECT policy_rule, {", ".join(f"count(*) FILTER (keep_status = '{one}') AS {one}" for one in KEPT)},
                count(client_commit_timestamp_ms) AS by_commit, count(client_state_timestamp_ms) AS by_join,
                nullif(max(kept_until_ms), {FOREVER_MS}) AS until_ms, max(keep_at_ms) AS last_ms
                FROM {self._tables.held(self._run, "offset_verdicts")} WHERE keep_status IS NOT NULL
                GROUP BY ALL ORDER BY ALL"""
        )
        for row in found:
            hold = row["policy_rule"]
            for status in KEPT:
                yield "kept_offsets", (hold, status), row[status]
            for by in ("commit", "join"):
                yield "kept_offsets_by", (hold, by), row[f"by_{by}"]
            for name, at_ms in (("kept_until", row["until_ms"]), ("keep_last_attempt", row["last_ms"])):
                if at_ms is not None:
                    yield f"{name}_timestamp_seconds", (hold,), at_ms / 1000

    def _log(self) -> Iterator[Sample]:
        yield "open_transactions", (), self._count("open_transactions")
        yield "undecodable_records", (), self._count("undecodable_records")
        fails = f"sweep_blocked_by IS NOT NULL AND coalesce(sweep_blocked_from_ms <= {self._run.key.as_of_ms}, true)"
        size, records, slowest_ms, fine, would_fail, never_ends, sweep_failing = self._all(
            "load_profile",
            *("coalesce(sum(bytes), 0)", "coalesce(sum(records), 0)", "coalesce(max(predicted_load_ms), 0)"),
            "count(*) FILTER (NOT load_would_fail)",
            "count(*) FILTER (load_would_fail AND load_outcome <> 'never_ends')",
            "count(*) FILTER (load_outcome = 'never_ends')",
            f"count(*) FILTER ({fails})",
        )
        yield "log_size_bytes", (), size
        yield "log_records", (), records
        yield "log_partitions", ("fine",), fine
        yield "log_partitions", ("would_fail",), would_fail
        yield "log_partitions_sweep_failing", (), sweep_failing
        yield "log_partitions", ("never_ends",), never_ends
        yield "log_slowest_load_seconds", (), slowest_ms / 1000

    def _interval(self) -> Iterator[Sample]:
        """The counts of the run's interval; nothing without an interval, or if its evidence does not show each
        event."""
        if not any(each["table"] == "expiry_sweeps" for each in self._run.row["counts"] or ()):
            return
        sweeps, expired = self._all("expiry_sweeps", "count(*)", "coalesce(sum(offsets), 0)")
        yield "sweeps", (), sweeps
        yield "sweeps_expired_offsets", (), expired
        values = ("coalesce(sum(commits), 0)", "coalesce(sum(commits_per_second), 0)")
        commits, rate = self._all("commit_counts", *values)
        yield "commits", (), commits
        yield "commits_per_second", (), rate

    def _by(self, table: str, labels: str, value: str) -> dict[tuple[str, ...], float]:
        """A number for each combination of labels."""
        rows = self._tables.rows(
            f"SELECT {labels}, ({value})::DOUBLE AS value FROM {self._tables.held(self._run, table)} GROUP BY ALL "
            "ORDER BY ALL"
        )
        return {tuple(str(label) for name, label in row.items() if name != "value"): row["value"] for row in rows}

    def _count(self, table: str) -> float:
        return self._all(table, "count(*)")[0]

    def _all(self, table: str, *values: str) -> list[float]:
        """Aggregates of a whole table, in one query."""
        columns = ", ".join(f"({value})::DOUBLE AS value_{number}" for number, value in enumerate(values))
        (row,) = self._tables.rows(f"SELECT {columns} FROM {self._tables.held(self._run, table)}")
        return list(row.values())


class _Families(list[GaugeMetricFamily]):
    """What prometheus_client writes: a Collector."""

    def collect(self) -> list[GaugeMetricFamily]:
        return self


@router.get("/metrics", include_in_schema=False)
def get_metrics(request: Request) -> Response:
    """Access is checked as for all routes; Prometheus sends a bearer token."""
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text(viewer_of(request)), media_type=CONTENT_TYPE_LATEST)
