"""docs/restore.md: every command in it runs, and it speaks of every kind of row, every outcome and every option."""

import re
import shlex
from pathlib import Path
from string import Template

import pytest

from sexton import cli
from sexton.execution.restore.restore_plan import What
from sexton.ledger.entries import FINAL
from sexton.plans.read_plan import own_plan
from sexton.plans.write_plan import keep_plan
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from sexton.settings import settings
from tests.archived import Archive
from tests.cli.test_restore import GONE, archive, cluster  # noqa: F401 (fixtures)
from tests.execution.restore.simulated_cluster import SimulatedCluster
from tests.ledger.ledgers import act
from tests.pipeline.archive_runs import instant
from tests.plans.plan_runs import planned

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "restore.md").read_text(encoding="utf-8")
KEEP = (Path(__file__).resolve().parents[2] / "docs" / "keep.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (sexton .*)$", PAGE, flags=re.MULTILINE)
NOT_OF_A_RESTORE = {"gone", "unknown"}


def test_every_command_runs(
    archive: Archive,  # noqa: F811
    cluster: SimulatedCluster,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kept_plan: str,
) -> None:
    names = {"PLAN": kept_plan, "INSTANT": instant(1), "GROUP": GONE, "RESTORE": ""}
    monkeypatch.setenv("SEXTON_ARCHIVE", archive.root)
    settings.cache_clear()
    for command in COMMANDS:
        argv = shlex.split(Template(command).substitute(names), comments=True)[1:]
        if argv[0] == "explain":
            argv += ["--archive", archive.root]
        code = cli.main(argv)
        out, err = capsys.readouterr()
        assert code == 0, (command, err)
        if found := re.findall(r"^restore ([0-9a-f]{64})$", out, flags=re.MULTILINE):
            names["RESTORE"] = found[0]
    assert cluster.groups[GONE].offsets


@pytest.fixture
def kept_plan(archive: Archive, tmp_path: Path) -> str:  # noqa: F811
    """The plan that has removed the group's offsets: it is kept, and has its ledger."""
    with SerialEngine(quiet=True) as engine:
        planned(engine, tmp_path / "run", archive, at=1)
    folder = RunFolder(tmp_path / "run")
    record = own_plan(folder).record
    keep_plan(folder, record, archive.root)
    act(archive, record.plan_id, "tombstone", [(GONE, "t", 0), (GONE, "t", 1)], at_ms=instant(2) - 10_000)
    return record.plan_id


def test_it_speaks_of_everything() -> None:
    assert {what.value for what in What} <= set(re.findall(r"`(\w+)`", PAGE + KEEP))
    assert (FINAL | {"refused", "not_done"}) - NOT_OF_A_RESTORE <= set(re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE))
    for option in ("--from-plan", "--from-ledger", "--as-of", "--id", "--group", "--pattern", "--topic"):
        assert option in PAGE
    for option in ("--overwrite", "--clamp", "--apply", "--approved-by", "--json", "--cluster-id"):
        assert option in PAGE
