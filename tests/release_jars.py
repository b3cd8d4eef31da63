"""The jars of brokers of other releases, resolved once into the cache: for tests that take minutes."""

from pathlib import Path

from sexton.kafka.jars import central_mirror
from sexton.settings import settings


def jars_of(release: str, *artifacts: str) -> list[Path]:
    """Those of org.apache.kafka:kafka_2.13, or of other artifacts, of a release and of slf4j-simple, with all they
    need."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL, default_maven_repo
    from jgo.maven import MavenContext

    local = default_maven_repo()
    central = central_mirror(local.parent / "settings.xml") or MAVEN_CENTRAL_URL
    folder = settings().cache / "releases"
    folder.mkdir(parents=True, exist_ok=True)
    context = MavenContext(
        repo_cache=folder,
        local_repos=[local] if local.is_dir() else None,
        remote_repos={"central": central, **GlobalSettings.load().repositories},
    )
    own = [f"org.apache.kafka:{artifact}:{release}" for artifact in artifacts or ("kafka_2.13",)]
    roots = [*own, "org.slf4j:slf4j-simple:1.7.36"]
    direct, needed = context.resolver.resolve([context.create_dependency(root, []) for root in roots])
    return [one.resolve() for one in sorted({dep.artifact for dep in [*direct, *needed]}, key=str)]
