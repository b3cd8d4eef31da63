"""The pages as the tests see them: blocks of code, and in them the commands."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^ *```(\w*) *$")
CODE_INDENT = 4
CONTINUED = ("\\", "|", "&&")
SHELLS = ("sh", "bash", "shell", "console")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True, slots=True)
class Block:
    """Code of a page; `language` is empty where it is only indented."""

    page: str
    line: int
    language: str
    text: str

    @property
    def is_shell(self) -> bool:
        return self.language in ("", *SHELLS)


@dataclass(frozen=True, slots=True)
class Command:
    """A line of shell, continuation lines joined."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    @property
    def words(self) -> list[str]:
        """The words of the shell, comments left out, variables assigned before the program as well."""
        words = shlex.split(self.text, comments=True)
        while words and ASSIGNMENT.match(words[0]):
            words = words[1:]
        return words

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2] if self.words else ""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> Iterator[Block]:
    """Fenced blocks, and indented ones after an empty line or a heading."""
    lines = path.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        if fence := FENCE.match(lines[at]):
            end = next(n for n in range(at + 1, len(lines)) if FENCE.match(lines[n]))
            yield Block(name_of(path), at + 2, fence[1] or "text", "\n".join(lines[at + 1 : end]))
            at = end + 1
        elif _begins(lines, at):
            end = at
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * CODE_INDENT)):
                end += 1
            yield Block(name_of(path), at + 1, "", "\n".join(lines[at:end]).rstrip())
            at = end
        else:
            at += 1


def _begins(lines: list[str], at: int) -> bool:
    before = lines[at - 1] if at else ""
    return (
        lines[at].startswith(" " * CODE_INDENT)
        and bool(lines[at].strip())
        and (not before.strip() or before.startswith("#"))
    )


def commands(block: Block) -> Iterator[Command]:
    """Every line of a block that is not empty or a comment, with what continues it."""
    lines = block.text.splitlines()
    at = 0
    while at < len(lines):
        begin, text = at, lines[at].strip()
        while text.endswith(CONTINUED) and at + 1 < len(lines):
            at += 1
            text = text.removesuffix("\\").rstrip() + " " + lines[at].strip()
        at += 1
        if text and not text.startswith("#"):
            yield Command(block.page, block.line + begin, text)


def all_blocks() -> list[Block]:
    return [block for path in PAGES for block in blocks(path)]
