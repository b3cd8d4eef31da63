"""publish_tables: publish a run's checked branch table by table, the row in `runs` last."""

from dataclasses import asdict

from sexton.audits.due_audits import announce
from sexton.job_params import PublishRequest
from sexton.lake.catalog import open_lake
from sexton.pipeline import job, publish_tables
from sexton.pipeline.validate_tables import failed_count
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_of_task


def run(asked: PublishRequest, folder: RunFolder) -> dict[str, object]:
    with engine_of_task(iceberg=True) as engine:
        published = publish_tables.run(engine, folder, archive=asked.archive)
    counts = {each["table"]: each["rows"] for each in published.row["counts"]}
    due = {"due": announce(open_lake(), asked.archive, published.key)} if asked.archive else {}
    return {
        **due,
        **asdict(published.key),
        **{name: published.row[name] for name in ("coverage", "engine", "plan_id")},
        "counts": {table: count for table, count in counts.items() if count},
        "failed_expectations": failed_count(folder),
        "lake": open_lake().where,
    }


if __name__ == "__main__":
    job.program("publish_tables", __doc__, run)
