"""The context of a request: cluster, run and language; and the links of its page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from sexton.lake.published_tables import PublishedTables, at, of_cluster
from sexton.lake.read import PublishedRun
from sexton.settings import Cluster
from sexton.ui.access import Viewer
from sexton.ui.texts import Texts

PREFIX = "/sexton"
"""Where the dashboard is mounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """The context of a request: the published `runs` that its viewer may see, and the chosen `run` (None: no runs)."""

    tables: PublishedTables
    viewer: Viewer
    base: str
    texts: Texts
    path: str = "/"
    query: tuple[tuple[str, str], ...] = ()
    as_of_ms: int | None = None
    cluster_id: str | None = None
    runs: Sequence[PublishedRun] = ()
    run: PublishedRun | None = None

    @property
    def chosen(self) -> PublishedRun:
        """The run; raises NoCoverage while nothing is published."""
        return self.run if self.run is not None else at((), cluster_id=None, as_of_ms=None)

    @property
    def cluster(self) -> Cluster | None:
        """The cluster of the run, from the settings; None while nothing is published."""
        return self.viewer.cluster_of(self.run.key.cluster_id) if self.run else None

    @property
    def clusters(self) -> list[str]:
        """Ids of the clusters with published runs that the viewer may see, in the settings' order."""
        found = {run.key.cluster_id for run in self.runs}
        named = [cluster.cluster_id for cluster in self.viewer.clusters if cluster.cluster_id is not None]
        return [each for each in named if each in found] or sorted(found)

    def label(self, cluster_id: str) -> str:
        """The name of a cluster in the settings, or its id."""
        cluster = self.viewer.cluster_of(cluster_id)
        return cluster_id if cluster is None else cluster.name or cluster_id

    def dag(self, kind: str) -> str:
        """The id of a DAG of the cluster; while nothing is published, of the viewer's first cluster."""
        cluster = self.cluster or next(iter(self.viewer.clusters), None)
        return cluster.scoped_name(kind) if cluster else kind

    @property
    def own_runs(self) -> list[PublishedRun]:
        """Runs of the chosen run's cluster, oldest first."""
        return of_cluster(self.runs, self.run.key.cluster_id) if self.run else []

    @property
    def until_now(self) -> list[PublishedRun]:
        """The runs of the same cluster up to the chosen run: a page shows nothing later."""
        return [run for run in self.own_runs if run.key.as_of_ms <= self.chosen.key.as_of_ms]

    @property
    def is_newest(self) -> bool:
        return self.run is None or self.own_runs[-1].key == self.run.key

    def neighbour(self, step: int) -> PublishedRun | None:
        """The run before (-1) or after (+1) the chosen run; None if there is none."""
        runs = self.own_runs
        number = runs.index(self.chosen) + step
        return runs[number] if 0 <= number < len(runs) else None

    @property
    def instants(self) -> str:
        """The as_of of every run of the cluster, for the slider."""
        return ",".join(str(run.key.as_of_ms) for run in self.own_runs)

    def at(self, run: PublishedRun | None) -> str:
        """A link to the same page for another run; for None, to the newest one at the time of the click."""
        query = {**dict(self.query), "as_of": None if run is None else run.key.as_of_ms}
        encoded = urlencode({name: value for name, value in query.items() if value is not None})
        return f"{self.base}{self.path}" + (f"?{encoded}" if encoded else "")

    def of(self, cluster_id: str) -> str:
        """A link to the overview of another cluster."""
        return self.url("", cluster=cluster_id, as_of=None)

    def airflow(self, path: str) -> str:
        """A link to a page of Airflow."""
        return f"{self.base.removesuffix(PREFIX)}/{path}"

    def url(self, page: str, /, **query: Any) -> str:
        """A link to a page of the dashboard, for the same cluster and instant unless `query` has others.

        None and empty values are left out, except for an id: "" is a legal group id.
        """
        kept = {"cluster": self.cluster_id, "as_of": self.as_of_ms, **query}
        given = {name: value for name, value in kept.items() if value is not None and (value != "" or name == "id")}
        encoded = urlencode(given)
        return f"{self.base}/{page}" + (f"?{encoded}" if encoded else "")
