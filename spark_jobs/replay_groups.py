"""replay_groups: replay the archived log up to an instant and write the tables of group state into the run folder."""

from dataclasses import asdict

from sexton.errors import UsageError
from sexton.job_params import ReplayRequest
from sexton.maintenance.check_checkpoint import compare_checkpoint
from sexton.pipeline import job, replay_groups
from sexton.runs.folder import RunFolder, snapshot_cluster
from sexton.runs.processes import engine_of_task


def run(asked: ReplayRequest, folder: RunFolder) -> dict[str, object]:
    cluster_id = asked.cluster_id or snapshot_cluster(folder)
    with engine_of_task() as engine:
        if asked.check:
            if asked.archive is None:
                raise UsageError("only an archive has checkpoints", where="--check", fix="give --archive URI")
            chosen = {"as_of_ms": asked.as_of_ms, "settle_ms": asked.settle_ms}
            return asdict(compare_checkpoint(engine, folder, archive=asked.archive, cluster_id=cluster_id, **chosen))
        record = replay_groups.run(engine, folder, asked.model_copy(update={"cluster_id": cluster_id}))
    unloadable = [f"log partition {part}: {record.blocked[part]}" for part in record.unloadable]
    return {
        **record.counts,
        "engine": record.engine,
        "coverage": record.coverage,
        "base_as_of_ms": record.base_as_of_ms,
        "warnings": record.warnings,
        "alerts": unloadable,
        "exit_code": record.exit_code,
    }


if __name__ == "__main__":
    job.program("replay_groups", __doc__, run)
