"""One word for one thing: words that the project once used for something that has a better name, gone for good.

Each pattern is looked for in the package, the DAGs, the jobs, the dashboard's files and the documentation.
"""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
READ = (
    "README.md", "docs", "include", "dags", "spark_jobs", "plugins", "docker-compose.yaml", "Makefile",
)  # fmt: skip
SUFFIXES = {".py", ".md", ".html", ".js", ".json", ".yaml", ".toml", ".css", ""}

GONE = {
    r"\b(keep_)?house(_?keeping)?\b": "maintenance", r"\btidy\b|\btidies\b": "compact_tables",
    r"\bthin(s|ned|ning)?\b": "expire_runs", r"\bdrill(s|ed)?\b": "reconcile",
    r"\brecheck(s|ed)?\b": "check_checkpoint", r"\bdesks?\b|\bHeld[A-Z]\w*": "view",
    r"\bstrays\b|\bis_stray\b|\bstray cop(y|ies)\b|\bstray groups?\b": "misplaced group",
    r"\bputback\b|\bgraves?\b|\bburied\b|\bgraveyard\b": "restore_raced, tombstones_by_key",
    r"\bOutlook\b|\w+Outlook\b": "ForecastResult", r"\bundecided\b": "pending",
    r"\bPlace\b|\bplace_of\b": "LogPosition, log_order", r"\bkill.?points?\b|\bkill_at\b": "failpoint",
    r"\bunlinked\b": "detached", r"\bPieces?\b|\bChunks?\b(?!ed)": "SegmentSlice, ImportSlice, FoldTask",
    r"\brotten\b|\bROTTEN\b": "corrupt", r"\bslept\b": "unobserved", r"\bepoch_left\b": "epoch_diverged",
    r"\bfacts?_of\b|\bFactsRecord\b|\bcollect_facts\b": "cluster_metadata",
    r"\bScene\b|\bPowers\b|\bpowers_of\b": "WriteContext, Profile", r"\bRegistration\b": "GroupMetadataRecord",
    r"\bODD(_\w+)?\b|\breread\w*\b|\btally\b|\bwithout_the_dead\b": "FALLBACK, slow_path, counters, prune_dead",
    r"\bMistakes?\b": "Diagnostic", r"\bConsidered\b": "RuleTrace",
    r"\bTold\w*|\btold\w*|\buntold\b|\btell(s|ing)?\b": "report, return, record, show",
    r"\bgo(es)? by the\b|\bby itself\b": "follows, automatically",
}  # fmt: skip
"""Pattern -> what is said instead."""


@cache
def texts() -> dict[str, str]:
    """Text by file, read once for all patterns."""
    listed = subprocess.run(["git", "ls-files", *READ], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.splitlines()]
    read = [path for path in paths if path.suffix in SUFFIXES and "vendor" not in path.parts and path.is_file()]
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in read}


@pytest.mark.parametrize("pattern", GONE)
def test_the_word_is_gone(pattern: str) -> None:
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in texts().items()
        for match in re.finditer(pattern, text)
    ]
    assert not found, f"say {GONE[pattern]}:\n" + "\n".join(found)


def test_a_word_that_is_gone_is_found() -> None:
    listed = {r: t for r in GONE for t in [GONE[r]] if re.search(r, t)}
    assert not listed, "a replacement is itself on the list"
    assert any(re.search(pattern, "the house tells") for pattern in GONE)
