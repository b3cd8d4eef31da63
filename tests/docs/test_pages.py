"""The pages as one set: every link leads somewhere, every page is in the index, and what is generated is current."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.docs import cli_page, json_page, settings_page, tables_page
from sexton.plans.plan import PlanRecord
from tests.docs import dags_page
from tests.docs.pages import FENCE, PAGES, ROOT, name_of

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ELSEWHERE = re.compile(r"https?://|mailto:")
GENERATED = {"docs/cli.md", "docs/json.md", "docs/settings.md", "docs/tables.md", "docs/dags.md"}


def prose(path: Path) -> str:
    """The text without its code."""
    lines, is_code, kept = path.read_text(encoding="utf-8").splitlines(), False, []
    for line in lines:
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code and not line.startswith("    "):
            kept.append(re.sub(r"`[^`]*`", "", line))
    return "\n".join(kept)


def anchors(path: Path) -> set[str]:
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(prose(path)):
        if ELSEWHERE.match(target):
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        assert page.exists(), f"{name_of(path)}: {target}"
        assert not anchor or anchor in anchors(page), f"{name_of(path)}: {target}: there is {sorted(anchors(page))}"


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    named = {(index.parent / target.partition("#")[0]).resolve() for target in LINK.findall(prose(index))}
    assert [name_of(page) for page in PAGES if page != index and page.resolve() not in named] == []
    assert "docs/README.md" in LINK.findall(prose(ROOT / "README.md"))


def test_the_page_of_plans_names_every_file_and_limit() -> None:
    files = ("plan.json", "tombstones/<N>.parquet", "undo/<N>.parquet", "plan.html", "batches/<N>.log")
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    assert [word for word in (*files, "over_limits") if word not in page] == []
    assert {"over_limits", "files", "plan_id"} <= PlanRecord.model_fields.keys()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


@pytest.mark.parametrize("path", [page for page in PAGES if name_of(page) not in GENERATED], ids=name_of)
def test_pages_are_plain(path: Path) -> None:
    """A title, nothing that is to be done, no word of the trade fair."""
    text = prose(path)
    assert len(re.findall(r"^# ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)) >= 1
    assert not re.search(r"\b(seamless|powerful|simply|blazing|world-class|robust|leverage|cutting-edge)\b", text, re.I)
    assert not re.search(r"\b(TODO|FIXME|TBD)\b", text)


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("cli", cli_page),
        ("json", json_page),
        ("settings", settings_page),
        ("tables", tables_page),
        ("dags", dags_page.page),
    ],
)
def test_what_is_generated_is_current(name: str, page: Callable[[], str]) -> None:
    path = ROOT / "docs" / f"{name}.md"
    told = dags_page.page(dags_page.load()) if name == "dags" else page()
    assert path.read_text(encoding="utf-8") == told, f"run: python scripts/docs.py; {dags_page.__doc__}"


def test_every_item_of_the_coordinator_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "coordinator-items.md").read_text(encoding="utf-8")
    items: list[str] = []
    missing: list[str] = []
    for numbers, tests in re.findall(r"^\| (\d[^|]*) \|[^|]*\|([^|]*)\|.*$", page, flags=re.MULTILINE):
        for first, last in re.findall(r"(\d+[a-f]?)(?: to (\d+))?", numbers):
            items += map(str, range(int(first), int(last) + 1)) if last else [first]
        file = ""
        for named, name in re.findall(r"`([\w/]*\.py)?(?:::(\w+))?`", tests):
            file = named or file
            if name and f"def {name}(" not in (ROOT / "tests" / file).read_text(encoding="utf-8"):
                missing.append(f"{file}::{name}")
        assert (ROOT / "tests" / file).is_file(), numbers
    assert missing == []
    assert len(items) == len({*items}) == 125
