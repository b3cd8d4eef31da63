"""audit_lag: the time lag of every group of the newest published run, what it will lose, and whether it would reset.

The brokers are asked how new their logs are at the run's committed offsets (lag.measure_lag); each answer is archived.
DuckDB checks the rows; then they are written to the table `time_lag` with the run's instant. A repeated attempt
replaces them. The growth of the lag is measured against the audit of an earlier run. Nothing is written to the cluster,
and no message is read.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from sexton.as_text import HOUR_MS
from sexton.audits.publish_audit import publish_audit
from sexton.job_params import LagRequest
from sexton.kafka.session import ClusterSession, Connect
from sexton.kafka.topics import describe_cluster, require_cluster
from sexton.lag.lag_growth import lag_growth, loses_at
from sexton.lag.measure_lag import (
    KEY,
    PARTITIONS,
    Instant,
    LookupResult,
    committed_with_pending,
    look_up,
    matching,
    measure,
    of_held,
)
from sexton.lake.audits import newest_audit_of_a_run
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, published_at, read_published
from sexton.runs.folder import RunFolder
from sexton.runs.source import open_archive
from sexton.tables import COMMITTED_OFFSETS, LOAD_PROFILE, TIME_LAG

_PENDING = [*KEY, "producer_id"]
_COMPARED = [*KEY, "committed_offset", "lag_min_ms", "lag_max_ms", "would_reset", "loses_at_ms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LagAudit:
    """The result for the published run at `run_as_of_ms`: the number of offsets, of `unrefined` partitions for which
    the brokers did not answer, of offsets that would reset (by reason), and of offsets that lose messages within
    `alert_hours`."""

    cluster_id: str
    run_as_of_ms: int
    offsets: int
    rounds: int
    questions: int
    unrefined: int
    resets: dict[str, int]
    losing: int
    alerts: list[str] = field(default_factory=list)


def run(
    folder: RunFolder,
    lake: Lake,
    request: LagRequest,
    *,
    as_of_ms: int,
    now_ms: Callable[[], int],
    connect: Connect = ClusterSession,
) -> LagAudit:
    """Ask, measure, check, publish. NoCoverage without a published run up to `as_of_ms`; Refused if the cluster's id is
    not `request.cluster_id`; DataQualityFailure if a check fails."""
    folder.remove(TIME_LAG.name)
    with connect(request.config) as session:
        cluster_id = describe_cluster(session, ()).cluster_id
        require_cluster(cluster_id, request.cluster_id, where=request.config.bootstrap_servers)
        published = published_at(lake, as_of_ms, cluster_id=cluster_id)
        # `committed` is sorted by group, so that reading one group reads one row group of time_lag.
        loads = read_published(lake, published, LOAD_PROFILE.name, ["log_partition", "load_outcome"])
        committed = of_held(read_published(lake, published, COMMITTED_OFFSETS.name), loads).sort_by(
            [(name, "ascending") for name in KEY]
        )
        instant = _instant(lake, request.archive, published, committed)
        found = look_up(session, instant, now_ms=now_ms)
    lags = measure(instant)
    before_ms, before = _before(lake, published, lags)
    rows = _completed(lags, found, before, as_of_ms=published.key.as_of_ms, before_ms=before_ms)
    key = RunKey(cluster_id=cluster_id, as_of_ms=published.key.as_of_ms, run_id=request.run_id)
    compared = {COMMITTED_OFFSETS: committed}
    alerts = publish_audit(None, folder, lake, key, {TIME_LAG: rows}, cuts=published.cuts, compared=compared)
    within_ms = request.alert_hours * HOUR_MS
    is_losing = _is_losing(rows, key.as_of_ms + within_ms) if within_ms else pa.nulls(rows.num_rows, pa.bool_())
    losing = rows.filter(is_losing)
    is_new = pc.invert(_is_losing(before, before_ms + within_ms))
    return LagAudit(
        cluster_id=cluster_id,
        run_as_of_ms=key.as_of_ms,
        offsets=rows.num_rows,
        rounds=found.look_up.rounds,
        questions=found.questions,
        unrefined=len(found.unanswered),
        resets=dict(Counter(rows["would_reset"].drop_null().to_pylist()).most_common()),
        losing=losing.num_rows,
        alerts=[
            *_reset_alerts(rows, before),
            *_loss_alerts(rows.filter(pc.and_(is_losing, is_new)), request.alert_hours),
            *alerts,
        ],
    )


def _instant(lake: Lake, archive: str, published: PublishedRun, committed: pa.Table) -> Instant:
    """The committed offsets of a published run, with the partitions that its snapshot recorded."""
    source = open_archive(archive, as_of_ms=published.key.as_of_ms, cluster_id=published.key.cluster_id)
    return Instant(
        archive=archive,
        cluster_id=published.key.cluster_id,
        as_of_ms=published.key.as_of_ms,
        committed=committed_with_pending(committed, read_published(lake, published, "pending_offsets", _PENDING)),
        partitions=read_published(lake, published, "topic_partitions", PARTITIONS),
        sees_all_topics=bool(source.sees_all_topics),
    )


def _before(lake: Lake, published: PublishedRun, rows: pa.Table) -> tuple[int, pa.Table]:
    """(instant, rows) of the newest audited run before this one. Its rows are in the order of `rows`, NULL where it has
    no row with the same key."""
    key = published.key
    found = newest_audit_of_a_run(lake, TIME_LAG.name, key.cluster_id, _COMPARED, before_ms=key.as_of_ms)
    as_of_ms, audited = found or (0, TIME_LAG.arrow_schema().empty_table().select(_COMPARED))
    at = matching(rows, audited)
    return as_of_ms, audited.take(pa.array(at, mask=at < 0))


def _completed(lags: pa.Table, found: LookupResult, before: pa.Table, *, as_of_ms: int, before_ms: int) -> pa.Table:
    """The rows of time_lag, in the order of `lags`."""
    growth = lag_growth(before, lags, passed_ms=as_of_ms - before_ms if before.num_rows else 0)
    unanswered = {f"{partition} {topic}": why for (topic, partition), why in found.unanswered.items()}
    places = pc.binary_join_element_wise(lags["partition"].cast(pa.string()), lags["topic"], " ")
    at = pc.index_in(places, value_set=pa.array([*unanswered], pa.string()))
    columns = {
        **{name: lags[name] for name in lags.column_names},
        "lag_growth": growth,
        "loses_at_ms": loses_at(lags["loses_at_min_ms"].combine_chunks(), growth, as_of_ms),
        "unrefined": pa.array([*unanswered.values()], pa.string()).take(at.combine_chunks()),
    }
    schema = TIME_LAG.arrow_schema(with_run=False)
    return pa.table([columns[name] for name in schema.names], schema)


def _is_losing(rows: pa.Table, until_ms: int) -> pa.ChunkedArray:
    return pc.fill_null(pc.less_equal(rows["loses_at_ms"], until_ms), False)


def _reset_alerts(rows: pa.Table, before: pa.Table) -> list[str]:
    """A line for each reset reason that is new for some offsets since the previous audit; no names."""
    is_same = pc.fill_null(pc.equal(rows["would_reset"], before["would_reset"]), False)
    new = rows.filter(pc.and_not(pc.is_valid(rows["would_reset"]), is_same))
    counts = new.group_by("would_reset").aggregate([("group_id", "count"), ("group_id", "count_distinct")])
    return [
        f"{row['group_id_count']} offsets of {row['group_id_count_distinct']} groups became {row['would_reset']}: a "
        "consumer that comes back would not continue there; the table time_lag has them"
        for row in sorted(counts.to_pylist(), key=lambda row: (-row["group_id_count"], row["would_reset"]))
    ]


def _loss_alerts(new: pa.Table, hours: int) -> list[str]:
    """A line about messages that retention will remove unread; no names."""
    if not new.num_rows:
        return []
    groups, first_ms = pc.count_distinct(new["group_id"]), pc.min(new["loses_at_ms"])
    return [
        f"{new.num_rows} offsets of {groups} groups lose unread messages within {hours} hours, the first "
        f"at {first_ms} ms: retention.ms of their topics is reached; the table time_lag has them"
    ]
