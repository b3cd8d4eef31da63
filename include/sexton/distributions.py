"""Checks before anything starts that the installed Python packages fit together.

pyspark and pyspark-client ship the same files, Spark's jars come with pyspark or from SPARK_HOME, and constraints of
others (Airflow's, a base image's) may install a release that Sexton does not support. Such a mix fails late, or
silently gives wrong results. This module reads metadata only; `doctor` compares files, too.
"""

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from sexton.errors import SetupError
from sexton.settings import variable

OURS = "sexton"
INSTALL = "run `make install`, or install what requirements.txt names into an environment of its own"
PIPELINE = "pip install 'sexton[pipeline]'"
"""Installs the packages that only the DAGs and the embedded system need."""
_CORE_JAR = re.compile(r"spark-core_[\d.]+-(.+)\.jar")
_VERSION = re.compile(r"""__version__[^=]*=\s*["']([^"']+)["']""")


def version_of(distribution: str) -> str | None:
    """The installed version; None if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def has_pipeline() -> bool:
    """Whether any package of the extra `pipeline` is installed."""
    return any(version_of(name) for name in ("apache-airflow", "pyspark", "great-expectations"))


def require_fit() -> None:
    """SetupError if installed packages do not fit together; a missing one fails at its import."""
    found = [*spark_mix(), *unmet()]
    if found:
        raise SetupError(f"the installed packages do not fit together: {'; '.join(found)}", fix=INSTALL)


def spark_mix() -> list[str]:
    """A sentence for each part of Spark whose release differs from pyspark's."""
    wanted = version_of("pyspark")
    if wanted is None:
        return []
    client = version_of("pyspark-client")
    parts = {"pyspark-client": client or wanted, **dict(_versions_on_disk())}
    return [f"{name} is {version}, pyspark {wanted}" for name, version in parts.items() if version != wanted]


def unmet(*, missing: bool = False) -> list[str]:
    """A sentence for each package with an unsupported version; with `missing` also for each that is not installed."""
    try:
        needs = metadata.requires(OURS) or []
    except metadata.PackageNotFoundError:
        return []  # Sexton is not installed: it runs from its source
    found, extra = [], "pipeline" if has_pipeline() else ""
    from packaging.requirements import Requirement  # imported late: most processes only call version_of

    for need in map(Requirement, needs):
        if need.marker is not None and not need.marker.evaluate({"extra": extra}):
            continue
        version = version_of(need.name)
        if version is None:
            found += [f"{need.name} is missing"] if missing else []
        elif not need.specifier.contains(version, prereleases=True):
            found.append(f"{need.name} is {version}, needed is {need.specifier}")
    return found


def _versions_on_disk() -> Iterator[tuple[str, str]]:
    """Yield where Spark was found, and its release there: from the names of its jars and from its Python package."""
    package = Path(str(metadata.distribution("pyspark").locate_file("pyspark")))
    homes = {"pyspark's jars": package / "jars"}
    if home := variable("SPARK_HOME"):
        homes["SPARK_HOME"] = Path(home) / "jars"
    for name, folder in homes.items():
        for jar in sorted(folder.glob("spark-core_*.jar")):
            if found := _CORE_JAR.fullmatch(jar.name):
                yield f"{name} ({jar.name})", found[1]
    file = package / "version.py"
    if file.is_file() and (found := _VERSION.search(file.read_text(encoding="utf-8"))):
        yield f"{file.name} of pyspark", found[1]
