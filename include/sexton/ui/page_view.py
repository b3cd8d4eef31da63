"""What a request asks about: which cluster at which instant, in which language; and how links of its page go on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from sexton.lake.read import PublishedRun
from sexton.settings import Cluster
from sexton.ui.access import Viewer
from sexton.ui.published_tables import PublishedTables, at, of_cluster
from sexton.ui.texts import Texts

PREFIX = "/sexton"
"""Where the dashboard is mounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """A request's run among all published ones that its viewer may see. `run` is None while there is none."""

    tables: PublishedTables
    viewer: Viewer
    base: str
    texts: Texts
    runs: Sequence[PublishedRun]
    run: PublishedRun | None
    as_of_ms: int | None
    cluster_id: str | None
    path: str = "/"
    asked: tuple[tuple[str, str], ...] = ()

    @property
    def chosen(self) -> PublishedRun:
        """The run; NoCoverage while nothing is published."""
        return self.run if self.run is not None else at((), cluster_id=None, as_of_ms=None)

    @property
    def cluster(self) -> Cluster | None:
        """The cluster of the run, as the settings have it; None while nothing is published."""
        return self.viewer.cluster_of(self.run.key.cluster_id) if self.run else None

    @property
    def clusters(self) -> list[str]:
        """Ids of the clusters that the viewer may see and of which something is published, in the settings' order."""
        found = {run.key.cluster_id for run in self.runs}
        named = [cluster.cluster_id for cluster in self.viewer.clusters if cluster.cluster_id is not None]
        return [each for each in named if each in found] or sorted(found)

    def label(self, cluster_id: str) -> str:
        """What people call a cluster: the settings' name for it, or its id."""
        cluster = self.viewer.cluster_of(cluster_id)
        return cluster_id if cluster is None else cluster.name or cluster_id

    def dag(self, kind: str) -> str:
        """The id of the cluster's DAG of a kind; while nothing is published, of the viewer's first cluster."""
        cluster = self.cluster or next(iter(self.viewer.clusters), None)
        return cluster.scoped_name(kind) if cluster else kind

    @property
    def own_runs(self) -> list[PublishedRun]:
        """Runs of the same cluster, oldest first."""
        return of_cluster(self.runs, self.run.key.cluster_id) if self.run else []

    @property
    def until_now(self) -> list[PublishedRun]:
        """Those of them that are no later than the chosen one: what is shown of an instant knows nothing later."""
        return [run for run in self.own_runs if run.key.as_of_ms <= self.chosen.key.as_of_ms]

    @property
    def is_newest(self) -> bool:
        return self.run is None or self.own_runs[-1].key == self.run.key

    def neighbour(self, step: int) -> PublishedRun | None:
        """The run before (-1) or after (+1) this one."""
        runs = self.own_runs
        number = runs.index(self.chosen) + step
        return runs[number] if 0 <= number < len(runs) else None

    @property
    def instants(self) -> str:
        """The as_of of every run of the cluster, for the slider."""
        return ",".join(str(run.key.as_of_ms) for run in self.own_runs)

    def at(self, run: PublishedRun | None) -> str:
        """The same page about another run; None: about the newest, also when a newer one comes."""
        return self._same(as_of=None if run is None else run.key.as_of_ms)

    def of(self, cluster_id: str) -> str:
        """The overview of another cluster."""
        return self.url("", cluster=cluster_id, as_of=None)

    def _same(self, **changes: Any) -> str:
        asked = {**dict(self.asked), **changes}
        told = urlencode({name: value for name, value in asked.items() if value is not None})
        return f"{self.base}{self.path}" + (f"?{told}" if told else "")

    def airflow(self, path: str) -> str:
        """A page of Airflow's own."""
        return f"{self.base.removesuffix(PREFIX)}/{path}"

    def url(self, page: str, /, **query: Any) -> str:
        """A link to a page of the dashboard, about the same cluster and instant unless `query` says otherwise.

        What is None or empty is left out, but for an id: "" is a legal one.
        """
        kept = {"cluster": self.cluster_id, "as_of": self.as_of_ms, **query}
        told = {name: value for name, value in kept.items() if value is not None and (value != "" or name == "id")}
        asked = urlencode(told)
        return f"{self.base}/{page}" + (f"?{asked}" if asked else "")

    @classmethod
    def asked_for(
        cls,
        tables: PublishedTables,
        *,
        viewer: Viewer,
        cluster_id: str | None,
        as_of_ms: int | None,
        base: str,
        texts: Texts,
        path: str,
        asked: Sequence[tuple[str, str]],
    ) -> "PageView":
        """The view of a request; NoCoverage when runs are published, but none that it asks about.

        Runs that the viewer may not see are not there, so that asking for them answers as asking for none does.
        """
        runs = [run for run in tables.runs() if viewer.cluster_of(run.key.cluster_id)]
        view = cls(
            tables=tables,
            viewer=viewer,
            base=base,
            texts=texts,
            runs=runs,
            run=None,
            as_of_ms=as_of_ms,
            cluster_id=cluster_id,
            path=path,
            asked=tuple(asked),
        )
        if not runs:
            return view
        is_named = viewer.clusters[0].name is not None
        wanted = cluster_id or (view.clusters[0] if is_named else None)
        return replace(view, run=at(runs, cluster_id=wanted, as_of_ms=as_of_ms))
