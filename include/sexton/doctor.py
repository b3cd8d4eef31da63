"""Checks whether this machine can run Sexton. Each check examines one thing, and reports what it found and the fix.

Checks fetch no jar and start nothing. `cli.doctor` prints the results.
"""

import base64
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sexton import distributions
from sexton.as_text import now_ms, some
from sexton.errors import SextonError, UsageError
from sexton.ports import HOST, probe_port
from sexton.settings import Settings, variable
from sexton.topics import OFFSETS_TOPIC
from sexton.uris import without_login

if TYPE_CHECKING:
    from sexton.kafka.client import ClientConfig
    from sexton.policy import Policy

PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 14)
LOW_DISK_BYTES = 5 * 1024**3
NO_DISK_BYTES = 1 * 1024**3
CONNECT_TIMEOUT_MS = 5_000
RETRY_FOR_S = 5
GROUPS_CHECKED = 100
"""Maximum number of groups under holds whose ACLs are checked: each group takes a few requests."""
SHOWN = 8
"""Maximum number of missing ACLs that are named."""
INSTALL = "run `make install`"
NO_PIPELINE = f"not installed; the DAGs and `make up` need it: {distributions.PIPELINE}"

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found; `fix` is what to do, None if nothing."""

    name: str
    state: State
    found: str
    fix: str | None = None


def examine(
    config: Settings, *, client: "ClientConfig | None" = None, policy: "Policy | None" = None
) -> Iterator[Check]:
    """Run every check. With `client` also check that the cluster answers, and, if a hold of `policy` has `keep`, that
    the client has the ACLs that `sexton keep` needs.

    A check that raises an unexpected error is reported as a problem.
    """
    pipeline: dict[str, Callable[[], Check]] = {
        "Java": lambda: check_java(config),
        "Spark": check_spark,
        "Iceberg": check_iceberg,
        "jars": lambda: check_jars(config.cache / "jars"),
        "broker port": lambda: check_broker_port(config),
        "Airflow port": lambda: check_port("Airflow port", config.airflow_port, setting="SEXTON_AIRFLOW_PORT"),
    }
    checks: dict[str, Callable[[], Check]] = {
        "Python": lambda: check_python(sys.version_info[:3]),
        "packages": check_packages,
        "kernel cache": lambda: check_writable(
            Path(variable("NUMBA_CACHE_DIR") or config.cache / "numba"), "kernel cache"
        ),
        "run folder": lambda: check_writable(config.var, "run folder"),
        "disk": lambda: check_disk(config.home),
        **(pipeline if distributions.has_pipeline() else {"pipeline": lambda: Check("pipeline", "ok", NO_PIPELINE)}),
    }
    if client:
        checks["cluster"] = lambda: check_cluster(client)
    if client and policy and any(hold.keep_ms is not None for hold in policy.holds):
        checks["keep"] = lambda: check_keep(client, policy)
    for name, check in checks.items():
        try:
            yield check()
        except SextonError as error:
            where = f"{error.where}: " if error.where else ""
            yield Check(name, "problem", f"{where}{error.message}", fix=error.fix)
        except Exception as error:
            yield Check(name, "problem", f"could not be checked: {type(error).__name__}: {without_login(str(error))}")


def check_python(version: tuple[int, ...]) -> Check:
    found = f"{'.'.join(map(str, version))} ({platform.python_implementation()})"
    if PYTHON_FROM <= version[:2] < PYTHON_BELOW:
        return Check("Python", "ok", found)
    return Check("Python", "problem", found, fix="use Python 3.11, 3.12 or 3.13")


def check_java(config: Settings) -> Check:
    """Check for a Java that Spark and the broker support; Javas that were found but are not used are named."""
    from sexton.java import find_java

    java = find_java(config.cache, variable("JAVA_HOME"), variable("PATH"))
    note = f"; {java.note}" if java.note else ""
    return Check("Java", "ok", f"{java.version} from {java.source} at {java.home}{note}")


def check_spark() -> Check:
    """Check that pyspark and pyspark-client, which ship the same files, have equal versions and unaltered files."""
    versions = {name: distributions.version_of(name) for name in ("pyspark", "pyspark-client")}
    if versions["pyspark"] is None:
        return Check("Spark", "problem", "pyspark is not installed", fix=INSTALL)
    installed = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    if mix := distributions.spark_mix():
        fix = "install the versions in requirements.txt: all parts of Spark must have the same version"
        return Check("Spark", "problem", f"{installed} do not fit together: {'; '.join(mix)}", fix=fix)
    altered = altered_files("pyspark", "pyspark-client") if versions["pyspark-client"] else []
    if altered:
        found = f"{installed}: {len(altered)} files are not those of that version, such as {altered[0]}"
        fix = "reinstall both: `uv pip install --reinstall pyspark==X pyspark-client==X` with the version above"
        return Check("Spark", "problem", found, fix=fix)
    return Check("Spark", "ok", f"{installed}, files intact")


def check_packages() -> Check:
    """Check that every required package is installed in a supported version."""
    found = distributions.unmet(missing=True)
    if found:
        return Check("packages", "problem", "; ".join(found), fix=distributions.INSTALL)
    return Check("packages", "ok", "every required package, in versions that fit")


def altered_files(first: str, second: str) -> list[str]:
    """Files that both distributions ship and whose SHA-256 is not the one in both RECORD files."""
    one, other = _recorded(first), _recorded(second)
    return sorted(
        name
        for name in one.keys() & other.keys()
        if one[name][0] != other[name][0] or _record_hash(one[name][1]) != one[name][0]
    )


def check_iceberg() -> Check:
    """Check that the pinned Iceberg runtime jar is made for this Spark: it fails on every other minor release."""
    from sexton.kafka.jars import read_lock

    wanted = ".".join((distributions.version_of("pyspark") or "?").split(".")[:2])
    runtimes = [jar.coordinate for jar in read_lock() if "iceberg-spark-runtime-" in jar.coordinate]
    for coordinate in runtimes:
        made_for = re.search(r"iceberg-spark-runtime-([\d.]+)_", coordinate)
        if made_for and made_for[1] == wanted:
            return Check("Iceberg", "ok", f"{coordinate.split(':', 1)[1]} for Spark {wanted}")
    found = f"{', '.join(runtimes) or 'no runtime'} pinned, Spark is {wanted}"
    return Check("Iceberg", "problem", found, fix="install the pyspark of requirements.txt")


def check_jars(folder: Path) -> Check:
    """Check that Spark's jars are complete and have the pinned bytes. If any of Kafka's jars is there, check them, too.

    Only the embedded broker needs Kafka's jars.
    """
    from sexton.kafka.jars import is_intact, read_lock

    pinned = read_lock()
    sets = {"spark", *(jar.jar_set for jar in pinned if (folder / jar.file_name).is_file())}
    jars = [jar for jar in pinned if jar.jar_set in sets]
    missing = [jar.file_name for jar in jars if not (folder / jar.file_name).is_file()]
    damaged = [
        jar.file_name for jar in jars if jar.file_name not in missing and not is_intact(folder / jar.file_name, jar)
    ]
    if damaged:
        found = f"{len(damaged)} of {len(jars)} damaged, such as {damaged[0]}"
        return Check("jars", "problem", found, fix=f"{INSTALL}: it fetches them again")
    if missing:
        found = f"{len(missing)} of {len(jars)} not fetched yet, such as {missing[0]}"
        return Check("jars", "problem", found, fix=INSTALL)
    note = "" if "kafka" in sets else "; none for the embedded broker"
    return Check("jars", "ok", f"{len(jars)} in {folder}, checksums right{note}")


def check_writable(folder: Path, name: str) -> Check:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-"):
            pass
    except OSError as error:
        fix = "make it writable, or set SEXTON_HOME to a folder that is"
        return Check(name, "problem", f"{folder}: {error.strerror}", fix=fix)
    return Check(name, "ok", f"{folder} is writable")


def check_disk(home: Path) -> Check:
    free = shutil.disk_usage(home).free
    found = f"{free / 1024**3:.1f} GiB free at {home}"
    if free >= LOW_DISK_BYTES:
        return Check("disk", "ok", found)
    fix = "make room, or set SEXTON_HOME to a folder on a larger disk"
    return Check("disk", "problem" if free < NO_DISK_BYTES else "warning", found, fix=fix)


def check_broker_port(config: Settings) -> Check:
    """Check that the first port of SEXTON_BOOTSTRAP_SERVERS is free, if that address is on this machine."""
    host, _, port = config.bootstrap_servers.split(",")[0].rpartition(":")
    if host not in (HOST, "localhost"):
        return Check("broker port", "ok", f"{config.bootstrap_servers} is not on this machine")
    return check_port("broker port", int(port), setting="SEXTON_BOOTSTRAP_SERVERS")


def check_port(name: str, port: int, *, setting: str) -> Check:
    """Check that `port`, set by `setting`, is free; else warn only, because only the embedded system needs the port."""
    try:
        probe_port(port)
    except OSError as error:
        found = f"{port} cannot be used by the embedded system: {os.strerror(error.errno or 0)}"
        fix = f"nothing, if `make up` is running; else stop what listens there, or set {setting} to another port"
        return Check(name, "warning", found, fix=fix)
    return Check(name, "ok", f"{port} is free")


def check_cluster(client: "ClientConfig") -> Check:
    """Check that a broker of the cluster answers and that these credentials see the offsets topic."""
    from sexton.kafka.session import ClusterSession
    from sexton.kafka.topics import describe_topic

    with ClusterSession(client, connect_timeout_ms=CONNECT_TIMEOUT_MS, retry_for_s=RETRY_FOR_S) as session:
        found = f"{some(len(session.broker_ids), 'broker')}, protocol of Kafka {session.broker_version}"
        try:
            topic = describe_topic(session, OFFSETS_TOPIC)
        except UsageError as error:
            return Check("cluster", "warning", f"{found}; {error.message}", fix=error.fix)
    return Check("cluster", "ok", f"{found}, {some(len(topic.leaders), 'log partition')}")


def check_keep(client: "ClientConfig", policy: "Policy") -> Check:
    """Check that these credentials have the ACLs that `sexton keep` needs for the groups that exist now."""
    from sexton.execution.compare_and_set import PREFIX
    from sexton.kafka.group_state import list_groups
    from sexton.kafka.rights import missing_to_keep, sees_all_groups
    from sexton.kafka.session import ClusterSession
    from sexton.policy import CompiledPolicy, GroupInput

    keeping, compiled = {hold.name for hold in policy.holds if hold.keep_ms is not None}, CompiledPolicy(policy)
    with ClusterSession(client, connect_timeout_ms=CONNECT_TIMEOUT_MS, retry_for_s=RETRY_FOR_S) as session:
        held = set()
        for group in list_groups(session).groups:
            facts = GroupInput(
                group_id=group.group_id,
                group_type=group.group_type.capitalize(),
                state=group.state,
                protocol_type=group.protocol_type,
                last_active_ms=None,
                member_count=0,
            )
            hold = compiled.for_group(facts).at(now_ms()).hold
            if hold is not None and hold.name in keeping:
                held.add(group.group_id)
        some_held = sorted(held)[:GROUPS_CHECKED]
        lines = [str(acl) for acl in missing_to_keep(session, some_held, prefix=PREFIX)]
        seen = "" if sees_all_groups(session) else ", without groups that this login may not see"
    found = f"{len(some_held)} of {some(len(held), 'held group')} checked{seen}"
    if lines:
        more = f"; and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
        fix = "grant these ACLs to the principal that runs `sexton keep` (docs/security.md)"
        return Check("keep", "problem", f"{found}: {'; '.join(lines[:SHOWN])}{more}", fix=fix)
    return Check("keep", "ok", f"{found}: every ACL that `sexton keep` needs is there")


def _recorded(distribution: str) -> dict[str, tuple[str, Path]]:
    """File -> (hash in RECORD, path), for files with a hash."""
    files = metadata.distribution(distribution).files or []
    return {str(file): (file.hash.value, Path(str(file.locate()))) for file in files if file.hash is not None}


def _record_hash(path: Path) -> str | None:
    """SHA-256 as written in RECORD; None for a missing file."""
    if not path.is_file():
        return None
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
