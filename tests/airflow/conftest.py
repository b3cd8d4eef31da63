"""Airflow reads its configuration when it is imported, so its home is set before any test module is."""

import os
import tempfile

_HOME = tempfile.TemporaryDirectory(prefix="sexton-airflow-")
os.environ["AIRFLOW_HOME"] = _HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"
