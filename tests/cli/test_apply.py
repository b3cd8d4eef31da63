"""`sexton apply`: what is printed, for people and for machines, and with which exit code."""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from sexton import cli
from sexton.cli import apply as command
from sexton.errors import SextonError
from sexton.execution import kafka_admin as real
from sexton.lake import catalog
from sexton.settings import settings
from tests.environment import with_settings
from tests.faults.apply_worlds import World
from tests.faults.test_apply_tampering import kept

HOSTILE = "\x1b[31m‮evil\n=cmd()"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A kept plan, of which nothing was done yet, and a cluster behind the command."""
    world = kept("7", tmp_path / "archive")
    for entry in Path(world.ledger.folder).glob("*.json"):
        entry.unlink()

    monkeypatch.setattr(real, "connected", lambda config: nullcontext(world.cluster))
    monkeypatch.setattr(command, "now_ms", lambda: world.cluster.now_ms)
    monkeypatch.setattr(catalog, "settings", lambda: settings().model_copy(update={"home": tmp_path}))
    with with_settings(SEXTON_MAX_SHARE_OF_GROUPS="1"):
        yield world


@pytest.fixture
def run(made: World, capsys: pytest.CaptureFixture[str]) -> Run:
    def sexton(*options: str, plan_id: str | None = None) -> tuple[int, str, str]:
        plan = plan_id or made.plan.record.plan_id
        code = cli.main(["apply", plan, "--archive", str(made.root), *options])
        out, err = capsys.readouterr()
        return code, out, err

    return sexton


def test_without_a_sink_it_snapshots(made: World, run: Run) -> None:
    code, out, _ = run()
    assert code == 0
    assert f"would be done {made.plan.tombstones.num_rows}" in out
    assert "nothing was written" in out
    assert made.ledger.entries() == []


def test_it_does_what_was_approved(made: World, run: Run) -> None:
    options = ("--sink=coordinator", "--approved-by=ann", f"--plan-sha256={made.plan.sha256}")
    code, out, _ = run(*options, "--json")
    told = json.loads(out)
    assert (code, told["exit_code"], told["left"]) == (0, 0, 0)
    assert told["counts"] == {"done": made.plan.tombstones.num_rows}
    assert (told["plan_sha256"], told["published_rows"]) == (made.plan.sha256, None)
    assert told["windows"]["steps"] > 0
    assert made.ledger.entries()[0].body.approved_by == "ann"  # type: ignore[union-attr]
    code, out, _ = run(*options)
    assert (code, "nothing is left to do" in out) == (0, True)


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--sink=coordinator",), 2, "plan not approved (pass --approved-by NAME)"),
        (("--sink=coordinator", "--approved-by= "), 2, "plan not approved"),
        (("--sink=log", "--approved-by=ann"), 2, "read docs/apply.md, then add --allow-log-sink"),
        (("--sink=coordinator", "--approved-by=ann", "--plan-sha256=00"), 6, "was changed since it was approved"),
        (("--sink=both",), 2, "--sink"),
        (("--policy=nowhere.yaml",), 2, "nowhere.yaml"),
    ],
)
def test_what_is_refused(
    refused: Callable[..., str], made: World, options: tuple[str, ...], code: int, told: str
) -> None:
    assert told in refused(code, *options)
    assert made.ledger.entries() == []


def test_a_plan_that_is_not_there(run: Run) -> None:
    code, _, err = run(plan_id="f" * 64)
    assert (code, "no plan fff" in err) == (2, True)


def test_a_changed_plan_is_refused(refused: Callable[..., str], made: World) -> None:
    manifest = Path(made.plan.folder) / "plan.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"broker_retention"', b'"else"') + b" ")
    refused(6, "--sink=coordinator", "--approved-by=ann", f"--plan-sha256={made.plan.sha256}")


def test_what_was_not_done_is_told_and_may_be_tried_again(made: World, run: Run) -> None:
    made.cluster.faults.denied = 1_000
    code, out, _ = run("--sink=coordinator", "--approved-by=ann")
    assert code == 1
    assert "GROUP_AUTHORIZATION_FAILED" in out
    made.cluster.faults.denied = 0
    assert run("--sink=coordinator", "--approved-by=ann")[0] == 0


def test_names_are_harmless(made: World, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = made.cluster.committed
    monkeypatch.setattr(
        made.cluster, "committed", lambda *a, **k: {**ask(*a, **k), (HOSTILE, 0): next(iter(ask(*a, **k).values()))}
    )
    code, out, _ = run("--sink=coordinator", "--approved-by=ann")
    assert code == 0
    assert not {"\x1b", "‮"} & set(out)


def test_a_lake_that_does_not_answer_is_told(made: World, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise SextonError("the catalog does not answer")

    monkeypatch.setattr(catalog, "open_lake", broken)
    code, out, err = run("--sink=coordinator", "--approved-by=ann")
    assert code == 1
    assert "done" in out
    assert "the catalog does not answer (everything was done and is in the ledger; run the same command again)" in err
