"""Writes jars.lock: `python -m sexton_dev.jar_lock`.

jgo resolves ROOTS, whose versions are fixed here, with all dependencies.
"""

import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from sexton.kafka.jars import LOCK_FILE, JarSet, maven

ROOTS: dict[JarSet, tuple[str, ...]] = {
    "kafka": (
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.apache.kafka:kafka-tools:4.3.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "spark": (
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "org.xerial:sqlite-jdbc:3.54.1.0",
        "org.postgresql:postgresql:42.7.13",
    ),
    "s3": ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",),
}
EXCLUDED = (
    # kafka-tools brings all of Kafka Connect with a web server, for tools that are not used here.
    "org.apache.kafka:connect-api",
    "org.apache.kafka:connect-json",
    "org.apache.kafka:connect-runtime",
    "org.apache.kafka:connect-transforms",
    "org.checkerframework:checker-qual",  # annotations for compilers, which Postgres's driver has as a dependency
)
_HEAD = "# set, group:artifact:version, bytes, SHA-256. Made by `python -m sexton_dev.jar_lock`."


def make_lock() -> list[str]:
    """The lines of the lock, one for each jar."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="sexton-jars-") as scratch:
        context = maven(Path(scratch))
        excluded = [context.project(*name.split(":")) for name in EXCLUDED]
        for jar_set, roots in ROOTS.items():
            dependencies = [context.create_dependency(root, excluded) for root in roots]
            direct, needed = context.resolver.resolve(dependencies)
            for artifact in sorted({dep.artifact for dep in [*direct, *needed]}, key=str):
                data = artifact.resolve().read_bytes()
                coordinate = f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}"
                lines.append(f"{jar_set} {coordinate} {len(data)} {sha256(data).hexdigest()}")
    return lines


if __name__ == "__main__":
    pinned = make_lock()
    LOCK_FILE.write_text("\n".join([_HEAD, *pinned]) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(pinned)} jars pinned in {LOCK_FILE}\n")
