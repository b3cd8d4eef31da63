"""Makes what all test files share and no test changes, in .cache, if it is not there yet: `python -m tests.prepare`.

`make test` runs it first. Tests pass without it, and take longer: each worker would compile the kernels for itself.
"""

from contextlib import suppress

from sexton.errors import DownloadError
from sexton.runs.spark_session import compiler_environment
from sexton.settings import set_variables
from tests import airflow_database, rest_catalog


def main() -> None:
    airflow_database.template()
    with suppress(DownloadError):  # the tests that need them say what could not be fetched
        rest_catalog.fetch()
    _compile_kernels()


def _compile_kernels() -> None:
    set_variables(compiler_environment())
    from sexton.kernels import warm_up as of_folds
    from sexton.replicas import warm_up as of_comparisons

    of_folds.warm_up()
    of_comparisons.warm_up()


if __name__ == "__main__":
    main()
