"""Takes an admin snapshot of a cluster that hides its offsets log, and archives it (archive.admin_snapshots).

`snapshot_log` calls it if the log is refused. Not here: what several admin snapshots show together
(archive.admin_intervals, pipeline.merge_snapshots).
"""

import time
from collections.abc import Callable

from sexton.archive.admin_snapshots import AdminSnapshot, AdminSnapshotWriter
from sexton.archive.folder import filesystem
from sexton.errors import UsageError
from sexton.failpoints import failpoint
from sexton.job_params import SnapshotRequest
from sexton.kafka.admin_snapshot import snapshot_groups
from sexton.kafka.collect_metadata import collect_metadata
from sexton.kafka.group_state import list_groups
from sexton.kafka.rights import may_read, sees_all_groups, topic_states
from sexton.kafka.session import ClusterSession, Connect
from sexton.kafka.topics import Topic, describe_topic, require_cluster
from sexton.topics import OFFSETS_TOPIC

ASKED_FOR = "an admin snapshot was requested"


def run(
    request: SnapshotRequest,
    *,
    reason: str,
    now_ms: Callable[[], int],
    connect: Connect = ClusterSession,
    sleep: Callable[[float], None] = time.sleep,
) -> AdminSnapshot:
    """Query every group and every topic, and archive the answers. `reason`: why the log is not read.

    A cluster other than the requested one is refused before anything is archived. A killed admin snapshot leaves
    nothing.
    """
    fs, root = filesystem(request.archive)
    writer = AdminSnapshotWriter()
    with connect(request.config) as session:
        taken_at_ms = now_ms()
        topic = _offsets_topic(session)
        metadata, warnings = session.retrying(
            lambda: collect_metadata(session, offsets_topic=topic, taken_at_ms=taken_at_ms)
        )
        require_cluster(metadata.cluster_id, request.cluster_id, where=session.config.bootstrap_servers)
        sees_all = sees_all_groups(session)
        if not sees_all:
            acl = session.missing_acl("GROUP_AUTHORIZATION_FAILED", "ListGroups")
            warnings.append(f"not every group can be seen, so none is considered deleted: {acl}")
        outcome = snapshot_groups(
            session, writer.add, now_ms=now_ms, groups_per_second=request.groups_per_second, sleep=sleep
        )
        finished_at_ms = now_ms()
    warnings += [f"broker {broker}: {error}" for broker, error in sorted(outcome.failed_brokers.items())]
    if outcome.refused:
        warnings.append(f"{outcome.refused} of {outcome.groups} groups were not answered about in full")
    failpoint("snapshot_groups.answered")
    return writer.write(
        fs,
        root,
        AdminSnapshot(
            cluster_id=metadata.cluster_id,
            taken_at_ms=taken_at_ms,
            finished_at_ms=finished_at_ms,
            reason=reason,
            metadata=metadata,
            sees_all_groups=sees_all,
            failed_brokers={str(broker): error for broker, error in outcome.failed_brokers.items()},
            refused=outcome.refused,
            warnings=warnings,
        ),
    )


def why_hidden(session: ClusterSession) -> str | None:
    """Why the offsets topic cannot be read: a refusal, or groups without such a topic. None if it can be read, or if
    the cluster has no group yet."""
    state = topic_states(session, [OFFSETS_TOPIC])[OFFSETS_TOPIC]
    if state == "gone":
        return f"the cluster has groups and shows no topic {OFFSETS_TOPIC}" if list_groups(session).groups else None
    if state == "there" and may_read(session, OFFSETS_TOPIC):
        return None
    call = "Fetch" if state == "there" else "Metadata"
    acl = session.missing_acl("TOPIC_AUTHORIZATION_FAILED", call, topic=OFFSETS_TOPIC)
    return f"TOPIC_AUTHORIZATION_FAILED for {OFFSETS_TOPIC} ({acl})"


def _offsets_topic(session: ClusterSession) -> Topic:
    """The offsets topic as far as it is visible: its partitions decide where a group belongs."""
    try:
        return session.retrying(lambda: describe_topic(session, OFFSETS_TOPIC))
    except UsageError:  # also NotAllowed
        return Topic(name=OFFSETS_TOPIC, topic_id=None, leaders={})
