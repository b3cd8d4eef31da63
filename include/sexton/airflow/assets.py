"""The published tables, grouped by their writers, and the Assets that runs update."""

from pathlib import Path

from airflow.sdk import Asset, AssetAlias

from sexton.settings import Cluster, settings
from sexton.uris import split_login

INTERVAL_TABLES = ("offset_changes", "expiry_sweeps", "commit_counts")
"""Published tables whose rows outlive their run."""
PUBLISHED_TABLES = (
    *("committed_offsets", "unreachable_offsets", "pending_offsets", "groups", "members"),
    *("offset_verdicts", "expiry_forecast", "tombstones"),
    *("open_transactions", "undecodable_records", "load_profile"),
    *INTERVAL_TABLES,
    *("topic_partitions", "dq_results", "runs"),
)
"""What a run of offset_retention publishes."""
REPLICA_TABLES, TRANSACTION_TABLES = ("replica_state", "replica_differences"), ("transactions", "transactional_ids")
EXPIRING_TABLES = (*(table for table in PUBLISHED_TABLES if table not in INTERVAL_TABLES), "time_lag")
"""Tables from which expire_runs deletes."""
ALL_TABLES = (*PUBLISHED_TABLES, *REPLICA_TABLES, *TRANSACTION_TABLES, "time_lag", "apply_ledger")


def table_assets(cluster: Cluster) -> list[Asset]:
    """Return one Asset of the cluster per published table, for DAGs that are scheduled on updates of the table."""
    _, warehouse = split_login(settings().warehouse_uri)
    root = (warehouse if "://" in warehouse else Path(warehouse).absolute().as_uri()).rstrip("/")
    part = "" if cluster.is_first else f"/cluster_id={cluster.cluster_id}"
    return [
        Asset(name=cluster.scoped_name(f"sexton.{table}"), uri=f"{root}/{table}{part}", group="sexton")
        for table in PUBLISHED_TABLES
    ]


def due_asset(name: str) -> Asset:
    """Return the Asset on whose updates an audit is scheduled; `name` is also its alias's.

    A publication that makes the audit due updates the Asset.
    """
    return Asset(name=name, group="sexton")


def due_audits(cluster: Cluster) -> list[AssetAlias]:
    """Return the aliases of the Assets of the cluster's audits.

    A task may leave the Asset of an alias without an update; it always updates a plain outlet.
    """
    return [
        AssetAlias(name=due_name(cluster, dag_id), group="sexton") for dag_id in ("audit_lag", "audit_transactions")
    ]


def due_name(cluster: Cluster, dag_id: str) -> str:
    return cluster.scoped_name(f"sexton.{dag_id}.due")
