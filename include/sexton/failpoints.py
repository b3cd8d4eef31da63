"""Named places where tests kill the process, to prove that running again ends in the same bytes as a run that was not
killed.

A failpoint does nothing unless the setting `failpoint` (SEXTON_FAILPOINT) names it: `<name>`, or `<name>:<n>` for the
n-th time that a process reaches it. There the process sends itself SIGKILL. `sexton doctor --failpoints` lists all
failpoints.
"""

import os
import signal
from collections import Counter
from collections.abc import Mapping

from sexton.settings import settings

FAILPOINTS: Mapping[str, str] = {
    "snapshot.compared": "cluster and archive are compared, nothing is written",
    "snapshot.planned": "every new lineage has its origin, no segment is fetched",
    "snapshot.between": "a log partition is fetched, another is not",
    "snapshot.fetched": "every segment is archived, the cluster metadata is not",
    "snapshot.done": "everything is archived, no one was notified",
    "origin.before": "a lineage is about to be begun",
    "origin.half": "an origin is written and has no name",
    "origin.after": "a lineage has its origin and nothing else",
    "segment.before": "a segment is about to be written",
    "segment.half": "a segment is written and has no name",
    "segment.after": "a segment is written, it has no manifest",
    "manifest.half": "a manifest is written and has no name",
    "manifest.after": "a segment has its manifest",
    "cluster_metadata.before": "the cluster metadata is about to be written",
    "cluster_metadata.half": "the cluster metadata is written under another name",
    "cluster_metadata.after": "the cluster metadata is archived",
    "time_points.half": "the points of a lookup are written and have no name",
    "time_points.after": "the points of a lookup are written, they have no manifest",
    "time_points_manifest.half": "the manifest of a lookup is written and has no name",
    "time_points_manifest.after": "a lookup is archived",
    "snapshot_groups.answered": "the answers about every group are in, nothing of the admin snapshot is written",
    "admin_snapshot.half": "a file of an admin snapshot is written and has no name",
    "admin_snapshot.after": "a file of an admin snapshot is written, it has no manifest",
    "admin_snapshot_manifest.half": "the manifest of an admin snapshot is written and has no name",
    "admin_snapshot_manifest.after": "an admin snapshot is archived",
    "import.checked": "a broker's disk continues the archive, nothing is copied",
    "import.between": "a log partition is copied, another is not",
    "import.copied": "every segment is archived, the cluster metadata is not",
    "replay.settled": "the cuts of an instant are stored, nothing is folded",
    "replay.folded": "every log partition has its fold, no table is written",
    "replay.done": "every table is written, no one was notified",
    "cuts.half": "the cuts of an instant are written under another name",
    "cuts.after": "the cuts of an instant are stored",
    "plan.files": "every file of a run's plan is written, its plan.json is not",
    "plan.made": "a run has its plan, its record does not name it",
    "publish.between": "a published table has a run's rows, another has not",
    "publish.unnamed": "every published table has a run's rows, `runs` does not name it",
    "publish.branched": "a run is in `runs`, its branches are still there",
    "publish.named": "a run is in `runs`, its checkpoint is not kept",
    "checkpoint.between": "a file of a checkpoint is written, another is not",
    "checkpoint.copied": "every file of a checkpoint is written, it has no manifest",
    "checkpoint.half": "the manifest of a checkpoint is written under another name",
    "checkpoint.after": "a checkpoint has its manifest",
    "plan.between": "a file of a plan is in the archive, another is not",
    "plan.copied": "every file of a plan is in the archive, its plan.json is not",
    "plan.half": "the plan.json of a plan is written under another name",
    "plan.after": "a plan is kept in the archive",
    "history.built": "an instant of a history has its tables, checked; the next has none",
    "history.written": "the instants of a batch are on its branch, nothing is published",
    "history.published": "a batch is published, its checkpoint is not kept",
    "expire_runs.half": "the note of what expire_runs removes is written under another name",
    "expire_runs.after": "the note of what expire_runs removes is written or closed",
    "expire_runs.unnamed": "the runs that go are no longer in `runs`, and in every other table",
    "expire_runs.between": "the runs that go are in some tables and not in others",
    "expire_runs.emptied": "the runs that go are in no table, their checkpoints are there",
    "expire_runs.unmade": "a checkpoint has lost its manifest and nothing else",
    "ledger.half": "an entry of a ledger is written and has no name",
    "ledger.after": "an entry of a ledger is written, no one was notified",
    "ledger.claimed": "an attempt at a plan has begun, nothing was read yet",
    "apply.checked": "a plan may be applied, nobody has claimed it",
    "apply.settled": "what earlier attempts left open is settled",
    "apply.compared": "a group is as planned, nothing is intended yet",
    "apply.intended": "the ledger says what a call will do, the preflight check is to come",
    "apply.preflight": "the preflight check found nothing, the call comes next",
    "apply.pended": "offsets are pended in a transaction, which has not ended",
    "apply.committed": "a transaction has its end, what it did was not read",
    "apply.called": "a call was answered, what it did was not read",
    "apply.seen": "what a call did was read, the ledger does not say it",
    "apply.recorded": "the ledger says what a call did",
    "apply.returning": "the ledger says what will be put back, it is not",
    "apply.returned": "what a race took along is put back, the ledger does not say it",
    "apply.appending": "the ledger says what will be written into the log itself",
    "apply.appended": "tombstones were written into the log itself, the ledger does not say it",
    "apply.between": "a group of a plan is done, another is not",
    "apply.ended": "every item has an outcome, the attempt is not closed",
    "apply.closed": "an attempt is closed, the table does not have it",
    "rows.replaced": "rows of an append-only table are replaced, which is not committed",
    "ledger.published": "the table says what the ledger says, no one was notified",
}
"""Failpoint -> what is true when a process reaches it."""

_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Kill this process if the setting names this failpoint."""
    if name not in FAILPOINTS:
        raise ValueError(f"no such failpoint: {name}")
    wanted, _, times = settings().failpoint.partition(":")
    if wanted == name:
        _passed[name] += 1
        if _passed[name] == int(times or 1):
            os.kill(os.getpid(), signal.SIGKILL)
