"""The pipeline, one module a stage, under the names that the DAG's tasks and the files of spark_jobs/ have too.

snapshot_log -> replay_groups -> find_expired -> plan_tombstones -> validate_tables -> publish_tables

Every stage reads and fills one run folder (`run.RunFolder`), so that a stage can be killed and run again, and so that
`sexton audit` and the DAG are the same code.
"""
