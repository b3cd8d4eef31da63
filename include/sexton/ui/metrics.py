"""Metrics of each cluster's newest published run, in Prometheus' text format. No label has a topic's name.

The number of time series depends on the types, states and reasons that Kafka and Sexton define, never on clients. The
setting `metrics_groups` adds series of single groups: at most that number of groups for each owner in the policy. The
first scrape after a run is published computes its figures. Timestamps are exported instead of ages, which Prometheus
computes from them.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from sexton import __version__
from sexton.as_text import HOUR_MS
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
"""A metric of a cluster without prefix, its labels except cluster_id in the order of _OF_CLUSTERS, and its value."""
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
    "sweeps_expired_offsets": ("Offsets that the interval's sweeps removed or may have removed.",),
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
    "log_records": ("Records in the offsets topic's log.",),
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


Figures = Mapping[tuple[str, ...], str]
"""A metric and its labels -> SQL of its value, over the rows of one table."""


def _count_if(condition: str) -> str:
    return f"count(*) FILTER ({condition})"


_OF_RUNS: Mapping[str, Figures] = {
    "dq_results": {
        ("failed_expectations", each): _count_if(f"NOT success AND severity = '{each}'") for each in SEVERITIES
    },
    "offset_verdicts": {
        **{
            ("offsets_due_within", str(hours)): _count_if(
                f"broker_verdict = 'keep' AND broker_expires_at_ms <= as_of_ms + {hours * HOUR_MS}"
            )
            for hours in HORIZON_HOURS
        },
        **{("offsets_orphaned", why): _count_if(f"orphan = '{why}'") for why in ORPHANS},
    },
    "pending_offsets": {("offsets_pending",): "count(*)"},
    "tombstones": {("planned_tombstones",): "count(*)"},
    "open_transactions": {("open_transactions",): "count(*)"},
    "undecodable_records": {("undecodable_records",): "count(*)"},
    "load_profile": {
        ("log_size_bytes",): "coalesce(sum(bytes), 0)",
        ("log_records",): "coalesce(sum(records), 0)",
        ("log_slowest_load_seconds",): "coalesce(max(predicted_load_ms), 0) / 1000",
        ("log_partitions", "fine"): _count_if("NOT load_would_fail"),
        ("log_partitions", "would_fail"): _count_if("load_would_fail AND load_outcome <> 'never_ends'"),
        ("log_partitions", "never_ends"): _count_if("load_outcome = 'never_ends'"),
        ("log_partitions_sweep_failing",): _count_if(
            "sweep_blocked_by IS NOT NULL AND coalesce(sweep_blocked_from_ms <= as_of_ms, true)"
        ),
    },
}
_OF_INTERVALS: Mapping[str, Figures] = {
    "expiry_sweeps": {("sweeps",): "count(*)", ("sweeps_expired_offsets",): "coalesce(sum(offsets), 0)"},
    "commit_counts": {
        ("commits",): "coalesce(sum(commits), 0)",
        ("commits_per_second",): "coalesce(sum(commits_per_second), 0)",
    },
}
"""Figures of the interval of a run, only for runs whose evidence shows each event."""
_OF_LAG: Figures = {
    ("lag_as_of_timestamp_seconds",): "max(as_of_ms) / 1000",
    ("lag_max_seconds",): "coalesce(max(lag_min_ms), 0) / 1000",
    **{("offsets_lagging", str(seconds)): _count_if(f"lag_min_ms >= {seconds * 1000}") for seconds in LAG_SECONDS},
    **{
        ("offsets_losing_within", str(hours)): _count_if(f"loses_at_ms <= as_of_ms + {hours * HOUR_MS}")
        for hours in HORIZON_HOURS
    },
    **{("offsets_would_reset", why): _count_if(f"would_reset = '{why}'") for why in RESETS},
    ("offsets_lag_unknown",): _count_if("basis IS NULL"),
    ("offsets_held_by_topic_transactions",): _count_if("held_at IS NOT NULL"),
    ("offsets_without_leader_epoch",): _count_if("leader_epoch IS NULL"),
}


class Metrics:
    """Measures the newest run of each cluster once; the figures are kept until a newer run is published."""

    def __init__(self, tables: PublishedTables, *, groups_per_owner: int = 0) -> None:
        self._tables, self._groups_per_owner = tables, groups_per_owner
        self._lock = threading.Lock()  # one scrape measures at a time
        self._measured: dict[tuple[str, str], tuple[str, list[Sample]]] = {}

    def text(self, viewer: Viewer) -> bytes:
        """The metrics that a viewer may see, in Prometheus' text format."""
        runs = [run for run in self._tables.runs() if viewer.cluster_of(run.key.cluster_id) is not None]
        newest = {run.key.cluster_id: run for run in runs}  # runs are oldest first, so the newest remains
        published = Counter(run.key.cluster_id for run in runs)
        names = {cluster.cluster_id: cluster.name or "" for cluster in viewer.clusters if cluster.cluster_id}
        families = {name: GaugeMetricFamily(name, help_, labels=labels) for name, (help_, labels) in GAUGES.items()}
        families["sexton_build_info"].add_metric([__version__], 1)
        for cluster_id in dict.fromkeys([*names, *newest]):
            samples: list[Sample] = [("cluster_info", (names.get(cluster_id, ""),), 1)]
            samples.append(("published_runs", (), published[cluster_id]))
            if cluster_id in newest:
                samples += self._of([run for run in runs if run.key.cluster_id == cluster_id])
            for name, labels, value in samples:
                families[f"sexton_{name}"].add_metric([cluster_id, *labels], value)
        return generate_latest(_Families(families.values()))

    def _of(self, runs: Sequence[PublishedRun]) -> Iterator[Sample]:
        """The figures of the cluster of `runs`; each kind is measured again only if its input has changed."""
        tables, run, most = self._tables, runs[-1], self._groups_per_owner
        key, audits = run.key, "".join(map(tables.current, ("transactions", "transactional_ids")))
        yield from self._once("run", key.cluster_id, key.run_id, lambda: _run_samples(tables, run))
        yield from self._once(
            "transactions", key.cluster_id, audits, lambda: _audit_samples(tables.lake, key.cluster_id)
        )
        lag = newest_lag(tables, runs)
        if lag is not None:
            yield from self._once("lag", key.cluster_id, lag, lambda: _figures(tables, lag, _OF_LAG))
        if most:
            source = lag or no_rows("time_lag")
            version = f"{key.run_id} {source}"
            yield from self._once("groups", key.cluster_id, version, lambda: _group_samples(tables, run, source, most))

    def _once(self, kind: str, cluster_id: str, version: str, measure: Callable[[], Iterable[Sample]]) -> list[Sample]:
        """The samples of a kind, measured again when their version has changed."""
        with self._lock:
            if self._measured.get((kind, cluster_id), ("", []))[0] != version:
                self._measured[kind, cluster_id] = (version, list(measure()))
            return self._measured[kind, cluster_id][1]


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


def _run_samples(tables: PublishedTables, run: PublishedRun) -> Iterator[Sample]:
    """Every metric of a run."""
    facts, read_ms, written_ms = run.row, run.row["taken_at_ms"], tables.written_at_ms(run)
    yield "run_as_of_timestamp_seconds", (), run.key.as_of_ms / 1000
    yield "run_log_read_timestamp_seconds", (), read_ms / 1000
    if written_ms is not None:
        yield "run_duration_seconds", (), max(written_ms - read_ms, 0) / 1000
    yield "run_is_complete", (), facts["coverage"] == "complete"
    yield "run_warnings", (), len(facts["warnings"] or ())
    yield "retention_seconds", (), facts["retention_ms"] / 1000
    groups, verdicts = tables.held(run, "groups"), tables.held(run, "offset_verdicts")
    yield from _by(tables, "groups", groups, "group_type, state")
    yield from _by(tables, "group_members", groups, "group_type", "coalesce(sum(member_count), 0)")
    yield from _by(tables, "offsets", verdicts, "broker_verdict, broker_reason")
    yield from _by(tables, "offsets_by_policy", f"{verdicts} WHERE policy_verdict IS NOT NULL", "policy_verdict")
    yield from _kept(tables, verdicts)
    has_interval = any(each["table"] == "expiry_sweeps" for each in facts["counts"] or ())
    for table, figures in {**_OF_RUNS, **(_OF_INTERVALS if has_interval else {})}.items():
        yield from _figures(tables, tables.held(run, table), figures)


def _figures(tables: PublishedTables, source: str, figures: Figures) -> Iterator[Sample]:
    """The figures of a table, in one query."""
    columns = ", ".join(f"({value})::DOUBLE AS value_{number}" for number, value in enumerate(figures.values()))
    (row,) = tables.rows(f"SELECT {columns} FROM {source}")
    for (name, *labels), value in zip(figures, row.values(), strict=True):
        yield name, (*labels,), value


def _by(tables: PublishedTables, name: str, source: str, labels: str, value: str = "count(*)") -> Iterator[Sample]:
    """A number for each combination of labels."""
    for row in tables.rows(f"SELECT {labels}, ({value})::DOUBLE FROM {source} GROUP BY ALL ORDER BY ALL"):
        *found, number = row.values()
        yield name, tuple(map(str, found)), number


def _kept(tables: PublishedTables, verdicts: str) -> Iterator[Sample]:
    """What each hold keeps alive, labelled with the hold's name in the policy: there are few."""
    found = tables.rows(
        f"""SELECT policy_rule, {", ".join(f"count(*) FILTER (keep_status = '{one}') AS {one}" for one in KEPT)},
            count(client_commit_timestamp_ms) AS by_commit, count(client_state_timestamp_ms) AS by_join,
            nullif(max(kept_until_ms), {FOREVER_MS}) AS until_ms, max(keep_at_ms) AS last_ms
            FROM {verdicts} WHERE keep_status IS NOT NULL GROUP BY ALL ORDER BY ALL"""
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


class _Families(list[GaugeMetricFamily]):
    """Metric families as the Collector that prometheus_client expects."""

    def collect(self) -> list[GaugeMetricFamily]:
        return self


@router.get("/metrics", include_in_schema=False)
def get_metrics(request: Request) -> Response:
    """Access is checked as for all routes; Prometheus sends a bearer token."""
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text(viewer_of(request)), media_type=CONTENT_TYPE_LATEST)
