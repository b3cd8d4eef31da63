"""Pinned jars: only what is missing is fetched, what is wrong is refused, and failures name the coordinate."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from sexton.errors import DownloadError, UsageError
from sexton.kafka import jars
from sexton_dev import jar_lock

Serve = Callable[[dict[str, bytes]], list[str]]
CONTENT = {"org.one:alpha:1.0": b"alpha", "org.two:beta:2.0": b"beta beta"}
TESTS = "org.one:alpha:1.0:tests"
"""With a classifier."""


class FakeMaven:
    """Stands for jgo: serves `content`, counts what was asked for."""

    def __init__(self, scratch: Path, content: dict[str, bytes]) -> None:
        self.scratch, self.content = scratch, content
        self.asked: list[str] = []
        self.local_repos: list[Path] = []

    def project(self, group: str, artifact: str) -> "FakeMaven":
        self.name = f"{group}:{artifact}"
        return self

    def at_version(self, version: str) -> "FakeMaven":
        self.name += f":{version}"
        return self

    def artifact(self, *classifier: str) -> SimpleNamespace:
        name = ":".join([self.name, *classifier])
        path = self.scratch / name.replace(":", "-")

        def resolve() -> Path:
            self.asked.append(name)
            if name not in self.content:
                raise RuntimeError(f"Artifact {name} not found in remote repositories {{'central': '...'}}")
            path.write_bytes(self.content[name])
            return path

        return SimpleNamespace(cached_path=path, resolve=resolve)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "jars.lock"
    lines = [f"kafka {name} {len(data)} {sha256(data).hexdigest()}" for name, data in CONTENT.items()]
    file.write_text("# a comment\n" + "\n".join(lines) + "\n")
    return file


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Make the next fetches answer with this content; returns the list of coordinates asked for."""
    monkeypatch.setattr(jars, "CONNECTIONS", 1)
    monkeypatch.setattr(jars, "wait_random_exponential", lambda **_: 0)

    def serve(content: dict[str, bytes]) -> list[str]:
        asked: list[str] = []

        def maven(scratch: Path) -> FakeMaven:
            fake = FakeMaven(scratch, content)
            fake.asked = asked
            return fake

        monkeypatch.setattr(jars, "maven", maven)
        return asked

    return serve


def test_fetched_once_then_found(tmp_path: Path, lock: Path, serve: Serve) -> None:
    asked = serve(CONTENT)
    found = jars.ensure(tmp_path, "kafka", lock=lock)
    assert [path.read_bytes() for path in found] == list(CONTENT.values())
    assert jars.ensure(tmp_path, "kafka", lock=lock) == found
    assert asked == list(CONTENT)


def test_only_the_damaged_one_is_fetched_again(tmp_path: Path, lock: Path, serve: Serve) -> None:
    serve(CONTENT)
    first, second = jars.ensure(tmp_path, "kafka", lock=lock)
    asked = serve(CONTENT)
    second.write_bytes(b"beta bet!")  # the same size
    assert jars.ensure(tmp_path, "kafka", lock=lock) == [first, second]
    assert asked == ["org.two:beta:2.0"]
    assert second.read_bytes() == b"beta beta"


def test_a_jar_with_a_classifier(tmp_path: Path, lock: Path, serve: Serve) -> None:
    lock.write_text(f"{lock.read_text()}kafka {TESTS} 5 {sha256(b'tests').hexdigest()}\n")
    asked = serve({**CONTENT, TESTS: b"tests"})
    found = jars.ensure(tmp_path, "kafka", lock=lock)
    assert [path.name for path in found] == ["alpha-1.0.jar", "beta-2.0.jar", "alpha-1.0-tests.jar"]
    assert asked == [*CONTENT, TESTS]


@pytest.mark.parametrize(
    "served, said",
    [
        ({"org.one:alpha:1.0": b"alpha"}, "not found"),
        (CONTENT | {"org.two:beta:2.0": b"beta evil"}, "not the 9 pinned"),
        (CONTENT | {"org.two:beta:2.0": b"bet"}, "got 3 bytes"),
    ],
    ids=["absent", "exchanged", "cut off"],
)
def test_failure_names_the_coordinate_and_leaves_nothing_wrong(
    tmp_path: Path, lock: Path, serve: Serve, served: dict[str, bytes], said: str
) -> None:
    asked = serve(served)
    with pytest.raises(DownloadError) as caught:
        jars.ensure(tmp_path, "kafka", lock=lock)
    assert caught.value.where == "org.two:beta:2.0"
    assert said in str(caught.value)
    assert "make install" in str(caught.value)
    assert asked.count("org.two:beta:2.0") == jars.ATTEMPTS
    assert not (tmp_path / "jars" / "beta-2.0.jar").exists()
    serve(CONTENT)
    assert len(jars.ensure(tmp_path, "kafka", lock=lock)) == len(CONTENT)


def test_a_broken_lock_line_says_where(tmp_path: Path) -> None:
    file = tmp_path / "jars.lock"
    file.write_text("kafka org.one:alpha 5 abc\n")
    with pytest.raises(UsageError, match=r"jars\.lock line 1: expected"):
        jars.read_lock(file)


def test_the_committed_lock_pins_every_root() -> None:
    pinned = {(jar.jar_set, jar.coordinate) for jar in jars.read_lock()}
    assert {(jar_set, root) for jar_set, roots in jar_lock.ROOTS.items() for root in roots} <= pinned
    names = [jar.file_name for jar in jars.read_lock()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "mirror_of, used",
    [
        ("central", True), ("*", True), ("external:*", True), ("other,central", True), ("other", False),
        ("*,!central", False),
    ],
)  # fmt: skip
def test_mirror_of_central(tmp_path: Path, mirror_of: str, used: bool) -> None:
    file = tmp_path / "settings.xml"
    file.write_text(
        '<settings xmlns="urn:x"><mirrors><mirror><id>m</id>'
        f"<mirrorOf>{mirror_of}</mirrorOf><url>https://mirror.example/maven/</url></mirror></mirrors></settings>"
    )
    assert jars.central_mirror(file) == ("https://mirror.example/maven" if used else None)


@pytest.mark.parametrize("text", ["", "<settings/>", "<not xml"])
def test_no_mirror(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.xml"
    file.write_text(text)
    assert jars.central_mirror(file) is None
    assert jars.central_mirror(tmp_path / "absent.xml") is None


@pytest.mark.parametrize(
    "arguments, fetched",
    [(["ensure"], ["kafka", "spark"]), (["ensure", "s3"], ["s3"]), (["ensure", "s3", "spark"], ["spark", "s3"])],
)
def test_the_command_fetches_what_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], fetched: list[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(jars, "ensure", lambda cache, jar_set: asked.append(jar_set))
    assert jars.main(arguments) == 0
    assert asked == fetched


@pytest.mark.parametrize("arguments", [[], ["ensure", "s4"], ["lock"], ["remove"]])
def test_the_command_refuses_what_it_does_not_know(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(jars, "ensure", None)
    assert jars.main(arguments) == 2
    assert "usage: python -m sexton.kafka.jars ensure" in capsys.readouterr().err
