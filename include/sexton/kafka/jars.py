"""The jars that Spark and the embedded broker need: pinned in jars.lock, fetched once into the cache, verified.

jars.lock is flat: every artifact of a set with its size and SHA-256, so nothing is resolved at run time, and a jar that
was replaced in transit is refused (`python -m sexton_dev.jar_lock` writes the file anew). jgo fetches the jars. Maven's
local repository is used first. The remote repository is jgo's default unless the user configures another:
`[repositories]` in jgo's own settings file, or a mirror of `central` in Maven's settings.xml; HTTP(S) proxies as usual.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args
from xml.etree import ElementTree

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from tenacity import RetryError, Retrying, stop_after_attempt, wait_random_exponential

from sexton.distributions import PIPELINE
from sexton.errors import DownloadError, SetupError, SextonError, UsageError
from sexton.settings import settings

if TYPE_CHECKING:
    from jgo.maven import MavenContext

LOCK_FILE = Path(__file__).with_name("jars.lock")
CONNECTIONS = 4
ATTEMPTS = 3
TIMEOUT_S = 30
FIX = "check the network, the proxy or the mirror, then run `make install` again"

JarSet = Literal["kafka", "spark", "s3"]

ALL_SETS: tuple[JarSet, ...] = get_args(JarSet)
EVERYWHERE: tuple[JarSet, ...] = ("kafka", "spark")
"""The sets that are always needed. `s3` (AWS SDK for Iceberg's S3FileIO) is only for a warehouse in an object store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One line of jars.lock. `coordinate` is group:artifact:version, with a classifier if the jar has one."""

    jar_set: str
    coordinate: str
    size_bytes: int
    sha256: str

    @property
    def file_name(self) -> str:
        return "-".join(self.coordinate.split(":")[1:]) + ".jar"


def ensure(cache: Path, jar_set: JarSet, *, lock: Path = LOCK_FILE) -> list[Path]:
    """The jars of `jar_set`, in class path order, under `<cache>/jars`; missing or damaged ones are fetched first.

    Every jar is hashed when it arrives and whenever its size or timestamp has changed since; otherwise a start costs
    one stat per jar. DownloadError names a coordinate that could not be fetched.
    """
    folder = cache / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    jars = [jar for jar in read_lock(lock) if jar.jar_set == jar_set]
    stamp = folder / f"{jar_set}.verified"
    if not (stamp.is_file() and stamp.read_text(encoding="utf-8") == _state(folder, jars)):
        _fetch(folder, [jar for jar in jars if not is_intact(folder / jar.file_name, jar)])
        stamp.write_text(_state(folder, jars), encoding="utf-8")
    return [folder / jar.file_name for jar in jars]


def read_lock(lock: Path = LOCK_FILE) -> list[Jar]:
    """The lines of jars.lock: set, coordinate, size in bytes, SHA-256; `#` opens a comment."""
    jars = []
    for number, line in enumerate(lock.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            jar_set, coordinate, size, digest = line.split()
            _, _, _, *_ = coordinate.split(":")
            jars.append(Jar(jar_set=jar_set, coordinate=coordinate, size_bytes=int(size), sha256=digest))
        except ValueError:
            raise UsageError(
                f"expected `set group:artifact:version bytes sha256`, got `{line}`", where=f"{lock} line {number}"
            ) from None
    return jars


def _state(folder: Path, jars: Iterable[Jar]) -> str:
    """File attributes that must be unchanged for the jars to count as verified."""
    lines = []
    for jar in jars:
        path = folder / jar.file_name
        stat = path.stat() if path.is_file() else None
        lines.append(f"{jar.sha256} {jar.file_name} {(stat.st_size, stat.st_mtime_ns) if stat else 'missing'}")
    return "\n".join(lines)


def is_intact(path: Path, jar: Jar) -> bool:
    """Whether a file is there and has the pinned bytes."""
    if not path.is_file() or path.stat().st_size != jar.size_bytes:
        return False
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest() == jar.sha256


def _fetch(folder: Path, jars: Sequence[Jar]) -> None:
    """Fetch `jars` in parallel; each appears in `folder` complete and verified, or not at all."""
    if not jars:
        return
    console = Console(stderr=True)  # a bar on a terminal, silence in a pipe
    columns = (TextColumn("fetching jars"), BarColumn(), DownloadColumn())
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch,
        Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress,
        ThreadPoolExecutor(CONNECTIONS) as pool,
    ):
        context = maven(Path(scratch))
        task = progress.add_task("", total=sum(jar.size_bytes for jar in jars))
        waiting = {pool.submit(_fetch_one, context, jar, folder): jar for jar in jars}
        try:
            for done in as_completed(waiting):
                done.result()
                progress.advance(task, waiting[done].size_bytes)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch_one(context: "MavenContext", jar: Jar, folder: Path) -> None:
    group, artifact, version, *classifier = jar.coordinate.split(":")
    wanted = context.project(group, artifact).at_version(version).artifact(*classifier)
    retrying = Retrying(stop=stop_after_attempt(ATTEMPTS), wait=wait_random_exponential(max=5))
    try:
        for attempt in retrying:
            with attempt:
                # A partial file of an earlier attempt would be taken for a complete one.
                if wanted.cached_path and attempt.retry_state.attempt_number > 1:
                    wanted.cached_path.unlink(missing_ok=True)
                    context.local_repos.clear()
                path = wanted.resolve()
                if not is_intact(path, jar):
                    raise DownloadError(f"got {path.stat().st_size} bytes that are not the {jar.size_bytes} pinned")
    except RetryError as error:
        cause = error.last_attempt.exception()
        said = str(cause).split(" in remote repositories")[0].split(" (Caused by")[0]
        raise DownloadError(f"could not be fetched: {said}", where=jar.coordinate, fix=FIX) from None
    part = folder / f".{jar.file_name}.part"
    shutil.copyfile(path, part)
    part.replace(folder / jar.file_name)


def maven(scratch: Path) -> "MavenContext":
    """jgo's access to the repositories that the user's own settings name, else to jgo's default repository."""
    try:
        from jgo.config import GlobalSettings
        from jgo.constants import MAVEN_CENTRAL_URL, default_maven_repo
        from jgo.maven import MavenContext
    except ImportError:
        raise SetupError("jgo, which fetches jars, is not installed", fix=PIPELINE) from None
    own_repository = default_maven_repo()
    mirror = central_mirror(own_repository.parent / "settings.xml")
    return MavenContext(
        repo_cache=scratch,
        local_repos=[own_repository] if own_repository.is_dir() else None,
        remote_repos={"central": mirror or MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories},
        timeout=TIMEOUT_S,
    )


def central_mirror(settings_xml: Path) -> str | None:
    """The URL of the mirror of Maven's `central` that a user's settings.xml names, None when it names none."""
    try:
        root = ElementTree.parse(settings_xml).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        mirrored = (mirror.findtext("{*}mirrorOf") or "").replace(" ", "").split(",")
        if "!central" not in mirrored and {"central", "*", "external:*"} & set(mirrored):
            return (mirror.findtext("{*}url") or "").strip().rstrip("/") or None
    return None


def main(arguments: Sequence[str]) -> int:
    """`ensure` fetches missing jars into this deployment's cache: of the named sets, else of the sets that are always
    needed."""
    if arguments[:1] != ["ensure"] or not {*arguments[1:]} <= {*ALL_SETS}:
        sys.stderr.write(f"usage: python -m sexton.kafka.jars ensure [{' | '.join(ALL_SETS)}]...\n")
        return UsageError.exit_code
    try:
        for jar_set in [each for each in ALL_SETS if each in arguments[1:]] or EVERYWHERE:
            ensure(settings().cache, jar_set)
    except SextonError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
