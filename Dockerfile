# Sexton's one image: Airflow's services, Spark's master and worker, and the one-shot services of docker-compose.yaml.
# Driver and executors have to agree on Python and on every package, which one image settles.
# Debian 12 because later ones have no Java 17; Spark 4.1 runs on 17 and 21.
FROM python:3.12.14-slim-bookworm@sha256:392307d22300de8b5986851a12d9176dfc0fc073e65bf6523ebd7dcbeb23564e

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    AIRFLOW_HOME=/opt/airflow \
    SEXTON_HOME=/opt/sexton \
    NUMBA_CACHE_DIR=/opt/sexton/.cache/numba \
    PYSPARK_PYTHON=/opt/venv/bin/python \
    GX_ANALYTICS_ENABLED=false
WORKDIR /opt/sexton

# The packages first: they change least, and are most of the image. uv is in the lock as well, with its hashes.
COPY requirements.txt ./
RUN python -m venv /opt/venv \
    && awk '/^uv==/ {on = 1} on {print} on && !/\\$/ {exit}' requirements.txt >/tmp/uv.txt \
    && pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes -r /tmp/uv.txt \
    && uv pip sync --no-cache --compile-bytecode --python /opt/venv/bin/python --require-hashes requirements.txt \
    && rm /tmp/uv.txt

# The user's id is in sexton.local.compose_init too, which hands out the secrets. The code stays root's: tasks cannot change it.
RUN groupadd --gid 10001 sexton \
    && useradd --uid 10001 --gid sexton --create-home sexton \
    && mkdir -p .cache var /opt/airflow \
    && chown sexton:sexton .cache var /opt/airflow

COPY pyproject.toml README.md LICENSE ./
COPY include ./include
COPY dags ./dags
COPY plugins ./plugins
COPY spark_jobs ./spark_jobs
# Whole seconds, because layers keep no parts of them, and a compiled kernel counts as long as its source's time is the same.
RUN find include dags plugins spark_jobs -type f -exec touch --date=2026-01-01T00:00:00Z {} + \
    && uv pip install --no-cache --offline --no-deps --no-build-isolation --python /opt/venv/bin/python --editable . \
    && python -m compileall -q include dags plugins

USER sexton
RUN python -m sexton.kafka.jars ensure spark s3 \
    && python -c 'from sexton.kernels.warm_up import warm_up; warm_up()' \
    && python -c 'from sexton.replicas.warm_up import warm_up; warm_up()'

CMD ["sexton", "--help"]
