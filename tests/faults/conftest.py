"""Airflow reads its configuration when it is imported, so its home is set before any test module is."""

import os
import tempfile

_HOME = tempfile.TemporaryDirectory(prefix="sexton-airflow-")
os.environ.setdefault("AIRFLOW_HOME", _HOME.name)
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
