"""What each task reads and writes, as OpenLineage datasets. Used where Airflow's OpenLineage provider is installed.

The datasets are the offsets topic, the archive, the folder of a DAG's runs and the published tables, named as the
OpenLineage specification demands. No name contains a login, a run id or a name that a client of the cluster chose.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from sexton.settings import settings
from sexton.topics import OFFSETS_TOPIC
from sexton.uris import split_login

if TYPE_CHECKING:
    from sexton.airflow.spark_tasks import Job

NAMESPACE = "sexton"
"""The catalog's namespace, as in `lake.catalog.Lake`."""
_USER_IS_PLACE = ("abfs", "abfss")
"""Schemes whose part before the @ is not a login."""

DatasetKind = Literal["topic", "archive", "runs"]
Dataset = tuple[str, str]
"""Namespace and name."""


def lineage_of(job: "Job", *, dag_id: str, broker: str | None) -> Any:
    """Return what a task has read and written; `broker` is the cluster's address, None if the task used no broker."""
    from airflow.providers.common.compat.openlineage.facet import Dataset as NamedDataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    config = settings()
    known: dict[DatasetKind, list[Dataset]] = {
        "topic": [] if broker is None else [(kafka_namespace(broker), OFFSETS_TOPIC)],
        "archive": [dataset_of(config.archive_uri)],
        "runs": [dataset_of(f"{config.runs_uri}/{dag_id}")],
    }

    def named(kinds: Iterable[DatasetKind], tables: Iterable[str]) -> list[NamedDataset]:
        found = [dataset for kind in kinds for dataset in known[kind]]
        found += [dataset_of(f"{config.warehouse_uri}/{NAMESPACE}/{table}") for table in tables]
        return [NamedDataset(namespace=space, name=name) for space, name in found]

    return OperatorLineage(inputs=named(job.reads, job.reads_tables), outputs=named(job.writes, job.writes_tables))


def kafka_namespace(bootstrap_servers: str) -> str:
    """Return the namespace for the first address of `bootstrap_servers`, without a listener's name."""
    return f"kafka://{bootstrap_servers.partition(',')[0].strip().rpartition('://')[2]}"


def dataset_of(uri: str) -> Dataset:
    """The dataset of a folder or URI, without its login and options."""
    if "://" not in uri:
        return "file", str(Path(uri).absolute())
    is_place = uri.partition("://")[0] in _USER_IS_PLACE and ":" not in uri.partition("://")[2].partition("@")[0]
    parts = urlsplit(uri if is_place else split_login(uri)[1])
    if parts.scheme == "file":
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
