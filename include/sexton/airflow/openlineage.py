"""What each task reads and writes, as OpenLineage datasets. Used where Airflow's OpenLineage provider is installed.

Datasets are named as the OpenLineage specification demands: the offsets topic, the archive, the folder of a DAG's runs,
the published tables. No name has a login, a run id or a name that a client of the cluster chose.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sexton.settings import settings
from sexton.uris import split_login

OFFSETS_TOPIC = "__consumer_offsets"
NAMESPACE = "sexton"
"""The catalog's namespace, as in `lake.catalog.Lake`."""
TOPIC, ARCHIVE, RUNS, TABLES = "topic", "archive", "runs", "tables"
READS = {
    "snapshot_log": (TOPIC,),
    "replay_groups": (ARCHIVE,),
    "find_expired": (RUNS,),
    "plan_tombstones": (RUNS,),
    "validate_tables": (RUNS,),
    "publish_tables": (RUNS,),
    "verify": (ARCHIVE,),
    "check_checkpoint": (ARCHIVE,),
    "reconcile": (TOPIC, ARCHIVE),
}
WRITES = {
    "snapshot_log": (ARCHIVE,),
    "replay_groups": (ARCHIVE, RUNS),
    "find_expired": (RUNS,),
    "plan_tombstones": (RUNS,),
    "publish_tables": (ARCHIVE, TABLES),
    "expire_runs": (ARCHIVE, TABLES),
    "compact_tables": (TABLES,),
    "reconcile": (ARCHIVE,),
}
_USER_IS_PLACE = ("abfs", "abfss")
"""Schemes in which the part before the @ is no login."""

Dataset = tuple[str, str]
"""Namespace and name."""


def lineage_of(step: str, dag_id: str, *, broker: str | None, tables: Iterable[str]) -> Any:
    """Return what a task has read and written; `broker` is the cluster's address if it talked to one."""
    from airflow.providers.common.compat.openlineage.facet import Dataset as NamedDataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    known = {
        TOPIC: [],
        ARCHIVE: [dataset_of(settings().archive_uri)],
        RUNS: [dataset_of(f"{settings().runs_uri}/{dag_id}")],
    }
    if broker is not None:
        known[TOPIC] = [(kafka_namespace(broker), OFFSETS_TOPIC)]
    known[TABLES] = [dataset_of(f"{settings().warehouse_uri}/{NAMESPACE}/{table}") for table in tables]

    def named(kinds: Iterable[str]) -> Iterator[NamedDataset]:
        return (NamedDataset(namespace=space, name=name) for kind in kinds for space, name in known[kind])

    return OperatorLineage(inputs=list(named(READS.get(step, ()))), outputs=list(named(WRITES.get(step, ()))))


def kafka_namespace(bootstrap_servers: str) -> str:
    """Return the namespace of the first address, without a listener's name."""
    return f"kafka://{bootstrap_servers.partition(',')[0].strip().rpartition('://')[2]}"


def dataset_of(uri: str) -> Dataset:
    """A folder or URI, without a login or options that it may hold."""
    if "://" not in uri:
        return "file", str(Path(uri).absolute())
    is_place = uri.partition("://")[0] in _USER_IS_PLACE and ":" not in uri.partition("://")[2].partition("@")[0]
    parts = urlsplit(uri if is_place else split_login(uri)[1])
    if parts.scheme == "file":
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
