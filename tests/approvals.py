"""Standing approvals as the DAG approve_keep writes them."""

from typing import Any

from pyarrow import fs as pafs

from sexton.execution.standing_approval import StandingApproval, Terms, write_approval

LOCAL = pafs.LocalFileSystem()


def give_approval(root: str, *, cluster_id: str, policy_sha256: str, at_ms: int, **terms: Any) -> str:
    """Write one for a day into the archive in a folder; returns its approval_id."""
    given = {"patterns": [".*"], "max_offsets_per_hour": 100, "max_joins_per_hour": 100, "days": 1, **terms}
    approval = StandingApproval(
        terms=Terms(cluster_id=cluster_id, policy_sha256=policy_sha256, **given),
        approved_by="bea",
        approved_at_ms=at_ms,
        dag_id="approve_keep",
        run_id="manual",
        request_sha256="b" * 64,
    )
    return write_approval(LOCAL, root, approval)
