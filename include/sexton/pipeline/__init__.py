"""The pipeline, one module for each stage, named like the DAG's tasks and the files of spark_jobs/.

snapshot_log -> replay_groups -> find_expired -> plan_tombstones -> validate_tables -> publish_tables

Every stage reads and writes one run folder (`runs.folder.RunFolder`): a stage can be killed and run again, and
`sexton audit` and the DAG run the same code. `fetch_log` and `continuation` belong to snapshot_log, `run_record` and
`misplaced` to replay_groups. `import_log` archives a broker's disk; `standalone` runs the stages without Airflow or a
lake; `job` is the command line of every Spark job.
"""
