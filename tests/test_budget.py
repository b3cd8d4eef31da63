"""No package has more code than docs/development.md allows it."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PACKAGE = ROOT / "include" / "sexton"
ROW = re.compile(r"^\| ((?:`[\w.]+` ?)+)\| ([\d,]+) \|", re.MULTILINE)
BUDGETS = {
    tuple(re.findall(r"[\w.]+", names)): int(lines.replace(",", ""))
    for names, lines in ROW.findall((ROOT / "docs" / "development.md").read_text("utf-8"))
}
OTHER_TOKENS = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(source: str) -> int:
    """The lines that have code: neither blank, nor comments, docstrings or imports."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for each in tokens if each.type not in OTHER_TOKENS for line in range(each.start[0], each.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                lines -= {*range(node.lineno, (node.end_lineno or 0) + 1)}
    return len(lines)


def files_of(name: str) -> list[Path]:
    """A module, or the modules of a package but for the packages in it that have a row of their own."""
    place = PACKAGE / name.replace(".", "/")
    own = [PACKAGE / other.replace(".", "/") for row in BUDGETS for other in row if other.startswith(f"{name}.")]
    found = [path for path in place.rglob("*.py") if not any(path.is_relative_to(other) for other in own)]
    return found or [place.with_suffix(".py")]


@pytest.mark.parametrize("names", BUDGETS, ids=" ".join)
def test_a_package_keeps_to_its_budget(names: tuple[str, ...]) -> None:
    found = sum(code_lines(path.read_text("utf-8")) for name in names for path in files_of(name))
    assert found <= BUDGETS[names]


def test_every_module_has_a_budget() -> None:
    counted = {path for names in BUDGETS for name in names for path in files_of(name)}
    left = {str(path.relative_to(PACKAGE)) for path in {*PACKAGE.rglob("*.py")} - counted}
    assert left == {"__init__.py", "__main__.py"}


def test_what_counts() -> None:
    source = '"""Doc."""\nimport os\n\n# why\nTEXT = """one\ntwo"""\n\ndef f(\n    a,\n):\n    "Doc."\n    return a\n'
    assert code_lines(source) == 6
