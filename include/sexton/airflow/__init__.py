"""Operators, trigger forms, alerts and defaults of the DAGs.

Airflow's DAG processor loads this package often, so the package imports nothing heavier than Airflow and the settings:
no Spark, numba or Kafka client. The work itself is in spark_jobs/ and in the command line, which run without Airflow.

    spark_tasks.py    tasks that run a Spark job          change_tasks.py  tasks that change a cluster
    forms.py          trigger forms                       approval.py      the task that asks a person
    formats.py        formats of form fields              consent.py       whether an answer allows a change
    defaults.py       what DAGs share                     commands.py      `sexton` as a child process
    runs.py           run folders, outcomes of jobs       pools.py         Airflow pools with one slot
    alerts.py         alerts, sent by alert_sinks.py       brokers.py       Kafka connections
    openlineage.py    datasets of each task               listener.py      records how a run was triggered
    assets.py         published tables, their Assets      plugin.py        the Airflow plugin
    keep_tasks.py     tasks that keep offsets alive
"""
