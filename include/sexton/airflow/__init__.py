"""What our DAG files are made of: operators, alerts, defaults. Imported by DAGs only.

Airflow's DAG processor loads this package again and again, so it knows Airflow and the settings and nothing heavier: no
Spark, no numba, no Kafka client. The work itself is in spark_jobs/, which runs without Airflow.
"""
