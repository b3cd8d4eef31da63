#!/bin/sh
# Postgres's image runs this once, on an empty volume: a role and a database of its own for Airflow, and for Iceberg's
# catalog. SECRETS is the folder of their passwords; psql reads them itself, so that no argument and no log has them.
set -eu
for NAME in airflow iceberg; do
    export NAME
    psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\set name `echo "$NAME"`
\set password `cat "$SECRETS/$NAME"`
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
done
