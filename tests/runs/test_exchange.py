"""What the tasks of one map make reaches those of the next: over Spark's shuffle, and by files on one machine."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest

from sexton.archive.folder import Folder
from sexton.errors import NoCoverage
from sexton.runs import engine as engine_module
from sexton.runs.engine import Engine, PieceId
from sexton.runs.processes import ProcessEngine, SerialEngine


@pytest.fixture(params=[pytest.param("spark", marks=pytest.mark.spark), "processes", "serial"])
def either(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "spark":
        yield request.getfixturevalue("engine")
        return
    with ProcessEngine(cores=2, quiet=True) if request.param == "processes" else SerialEngine() as engine:
        yield engine


def spelled(word: str) -> Generator[bytes, None, int]:
    """A piece a letter, as long as its place in the alphabet; a dot is an error."""
    for letter in word:
        if letter == ".":
            raise NoCoverage("a dot", where=word)
        yield letter.encode() * (ord(letter) - ord("a"))
    return len(word)


def joined(name: str, pieces: Iterator[bytes]) -> tuple[str, list[bytes]]:
    return name, list(pieces)


WORDS = ("baa", "", "nested")
MUCH = 1 << 40
"""Bytes of work for which an engine uses processes, not threads."""


def exchanged(
    engine: Engine, folder: Folder, asked: Sequence[tuple[str, Sequence[PieceId]]]
) -> list[tuple[str, list[bytes]]]:
    with engine.exchange(folder, MUCH) as exchange:
        assert exchange.make("Spelling", WORDS, spelled) == [3, 0, 6]
        return exchange.merge("Joining", asked, joined)


def test_every_task_gets_its_pieces_in_the_order_asked_for(either: Engine, tmp_path: Path) -> None:
    asked = [
        ("last first", [(2, 5), (0, 0), (2, 0)]),
        ("none", []),
        ("the same", [(0, 0), (2, 5)]),
        ("an empty one", [(0, 1)]),
    ]
    assert exchanged(either, Folder(tmp_path / "pieces"), asked) == [
        ("last first", [b"ddd", b"b", b"n" * 13]), ("none", []), ("the same", [b"b", b"ddd"]), ("an empty one", [b""]),
    ]  # fmt: skip


def test_a_piece_larger_than_a_row_may_be_is_whole_again(
    either: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "PART_BYTES", 3)
    asked = [("long", [(2, 0), (2, 3)]), ("short", [(0, 0)])]
    found = exchanged(either, Folder(tmp_path / "pieces"), asked)
    assert found == [("long", [b"n" * 13, b"t" * 19]), ("short", [b"b"])]


def test_a_task_need_not_take_what_it_asked_for(either: Engine, tmp_path: Path) -> None:
    asked = [(word, [(2, 0), (2, 1)]) for word in WORDS]
    with either.exchange(Folder(tmp_path / "pieces"), MUCH) as exchange:
        exchange.make("Spelling", WORDS, spelled)
        assert exchange.merge("Joining", asked, lambda word, pieces: (word, next(pieces))) == [
            (word, b"n" * 13) for word in WORDS
        ]


def test_nothing_needs_to_be_made(either: Engine, tmp_path: Path) -> None:
    with either.exchange(Folder(tmp_path / "pieces"), MUCH) as exchange:
        assert exchange.make("Spelling", [], spelled) == []
        assert exchange.merge("Joining", [("alone", [])], joined) == [("alone", [])]
        assert exchange.merge("Joining", [], joined) == []


def test_errors_of_either_map_are_raised(either: Engine, tmp_path: Path) -> None:
    def fail(word: str, pieces: Iterator[bytes]) -> None:
        raise NoCoverage(f"of {len(next(pieces))} bytes", where=word)

    folder = Folder(tmp_path / "pieces")
    with either.exchange(folder, MUCH) as exchange, pytest.raises(NoCoverage, match=r"b\.c: a dot"):
        exchange.make("Spelling", ["b", "b.c"], spelled)
    with either.exchange(folder, MUCH) as exchange:
        exchange.make("Spelling", ["n"], spelled)
        with pytest.raises(NoCoverage, match="it: of 13 bytes"):
            exchange.merge("Joining", [("it", [(0, 0)])], fail)


def test_no_file_is_left(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "pieces")
    exchanged(SerialEngine(quiet=True), folder, [])
    assert folder.files() == []
