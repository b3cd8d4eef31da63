"""Names that mean harm, in every place where a name is shown, kept or asked by: one table of sinks.

What is shown must be nothing but text there, and what is kept or told to machines must be the name as it is (where the
log had broken UTF-8: as Java reads it). What a sink may show is told here, not by what writes to it.
"""

import html
import json
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow.parquet as pq
import pytest
from airflow.dag_processing.dagbag import DagBag
from fastapi.testclient import TestClient
from jinja2 import Environment
from pyarrow import fs as pafs
from rich.console import Console

from sexton.airflow.alert_sinks import Message, notifier_of
from sexton.airflow.runs import run_folder
from sexton.errors import Refused, printable
from sexton.execution.restore.restore_plan import read_restore
from sexton.job_params import JobRequest
from sexton.lake.read import published_runs, read_published
from sexton.pipeline import job
from sexton.quality import spark_checks
from sexton.quality.suites import suites_of
from sexton.report.approval_page import plan_text, restore_text
from sexton.report.names import visible
from sexton.report.plan_page import render_plan
from sexton.report.run_page import render_page
from sexton.report.terminal import print_summary
from sexton.runs.spark_session import spark_session
from sexton.settings import PROJECT_ROOT
from sexton.summary.summarize import summarize
from sexton.summary.summary import Summary
from tests.archived import CLUSTER
from tests.faults.hostile_world import AS_OF_MS, LEGAL, Hostile, hostile_world, policy_of, sexton
from tests.faults.names import LONGEST, hostile_names
from tests.html import Html, harmless, harmless_markdown, unseen
from tests.log_builder import BASE_MS
from tests.quality import world as world_of_checks
from tests.report.run_folder import due, group, offsets_of, write_run_folder
from tests.report.test_plan_page import content
from tests.seeds import FIXED_SEED
from tests.ui.worlds import PREFIX, app_over, client_of

pytestmark = pytest.mark.thorough

COUNT, FULL_COUNT = 150, 520
EVERY = 75
"""One name of so many is asked for by commands of its own; all are with --full."""
A_PAGE = 20
"""Names on one report: its lists show no more."""

TAME_PATH = re.compile(r"[A-Za-z0-9_.=+:-]+")


@pytest.fixture(scope="module")
def world(drawn: int, full: bool, tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    """The names are new in every run; with --full there are others that are always the same."""
    count = FULL_COUNT if full else COUNT
    always, new = hostile_names(Random(FIXED_SEED), count if full else 0), hostile_names(Random(drawn), count)
    names = list({name.text: name for name in (*always, *new)}.values())
    return hostile_world(tmp_path_factory.mktemp("hostile"), names, Random(drawn))


@pytest.fixture(scope="module")
def client(world: Hostile) -> Iterator[TestClient]:
    with client_of(app_over(world.lake)) as found:
        yield found


@pytest.fixture(scope="module")
def some(world: Hostile, full: bool) -> list[str]:
    return world.texts if full else world.texts[::EVERY]


# --- what a sink may show


def as_lines(text: str) -> list[str]:
    """What a terminal or a log gets: nothing in it is a command to it, and no name begins a line of its own."""
    assert unseen(text) == []
    lines = text.split("\n")
    assert not [line for line in lines if line.startswith(("error: forged", "Set-Cookie"))]
    return lines


def as_json(text: str) -> Any:
    """For machines: in pure ASCII, so that looking at it harms no terminal either."""
    assert text.isascii()
    assert unseen(text) == []
    return json.loads(text)


def strings(found: Any) -> Iterator[str]:
    """Every string in what JSON told."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for name, value in found.items():
            yield from strings(name)
            yield from strings(value)
    elif isinstance(found, list):
        for value in found:
            yield from strings(value)


def answered(*argv: object, codes: tuple[int, ...] = (0,)) -> str:
    """What a command printed; what it says aside is held to the same rules."""
    code, out, err = sexton(*argv)
    assert code in codes, (argv, err)
    as_lines(err)
    return out


# --- sinks: each takes all names, or `some` where asking costs a process's work


def report_pages(world: Hostile, client: TestClient, some: list[str]) -> None:
    harmless((world.run / "report.html").read_text("utf-8"))
    for number in range(0, len(world.texts), A_PAGE):
        names = world.texts[number : number + A_PAGE]
        verdicts = [due(name, 0, topic=name) | {"orphan": "topic_gone"} for name in names]
        tables = {
            "groups": [group(name, 1) for name in names],
            "offset_verdicts": verdicts,
            "committed_offsets": offsets_of(verdicts),
            "undecodable_records": [{"log_partition": 0, "reason": names[0] or "x", "detail": name} for name in names],
        }
        run = {"warnings": names, "source": names[0], "cluster_id": names[-1]}
        folder = write_run_folder(world.root / "reports" / str(number), tables, has_topics=True, **run)
        titles = harmless(render_page(summarize(folder))).titles
        assert {visible(name) for name in names} <= set(titles)


def data_docs(world: Hostile, client: TestClient, some: list[str]) -> None:
    """Great Expectations' pages show rows that break an expectation, whatever is in their names."""
    rows = [world_of_checks.group(name, 0) | {"state": "Odd"} for name in world.texts]
    tables = world_of_checks.tables_of({"groups": rows})
    suites = {"groups": [each for each in suites_of(world_of_checks.RUN)["groups"] if each.name == "allowed_state"]}
    spark = spark_session(iceberg=True)  # the JVM stays for the tests after it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_checks, "MAX_SHOWN", len(rows))
        spark_checks.check(
            spark,
            {"groups": spark.createDataFrame(tables["groups"])},
            world_of_checks.shapes_of(tables),
            suites,
            world_of_checks.RUN,
            docs=world.root / "dq",
        )
    told = [page.read_text("utf-8") for page in (world.root / "dq").rglob("*.html")]
    shown = [
        json.loads(html.unescape(text))
        for page in told
        for text in re.findall(r"\{&quot;group_id.*?\}|\{\"group_id.*?\}(?=<)", page)
    ]
    assert {row["group_id"] for row in shown} == set(world.texts)
    plain = (world.root / "dq" / "index.html").read_text("utf-8")  # has scripts and a title of its own
    markup = [name for name in world.texts if "<" in name and name not in plain]
    assert len(markup) > 10
    assert [name for name in markup if any(name in page for page in told)] == []
    assert all(unseen(page) == [] for page in told)


def plan_pages(world: Hostile, client: TestClient, some: list[str]) -> None:
    harmless((Path(world.plan.folder) / "plan.html").read_text("utf-8"))
    for number in range(0, len(world.texts), A_PAGE):
        names = world.texts[number : number + A_PAGE]
        found = content(dict.fromkeys(names, 1), topic=names[0], warnings=names, over_limits=names[:1])
        assert {visible(name) for name in names} <= set(harmless(render_plan(found).decode()).titles)


def dashboard_lists(world: Hostile, client: TestClient, some: list[str]) -> None:
    """Every name is on a page of the list, and the link there leads to the very group."""
    seen: set[str] = set()
    pages = -(-3 * len(world.names) // 200)
    for path in (*(f"/groups?size=200&page={number + 1}" for number in range(pages)), *DASHBOARD):
        answer = client.get(PREFIX + path)
        assert answer.status_code == 200, path
        links = harmless(answer.text).links
        seen |= {parse_qs(urlsplit(link).query, keep_blank_values=True).get("id", [""])[0] for link in links}
    assert set(world.texts) <= seen


DASHBOARD = ("/", "/offsets?size=200", "/log", "/checks", "/runs", "/plans", "/what-if", "/?lang=zh-CN")


def dashboard_groups(world: Hostile, client: TestClient, some: list[str]) -> None:
    for name in some:
        answer = client.get(f"{PREFIX}/group", params={"id": name})
        assert visible(name) in harmless(answer.text).titles
    for name in some:
        for kind in ("living", "modern"):
            params = {"id": f"{kind}-{world.texts.index(name)}"}
            assert visible(name[:200]) in harmless(client.get(f"{PREFIX}/group", params=params).text).titles
            harmless(client.get(f"{PREFIX}/group/story", params=params).text)
    answer = client.get(f"{PREFIX}/plans/{world.plan.record.plan_id}")
    assert answer.status_code == 200
    harmless(answer.text)


def dashboard_api(world: Hostile, client: TestClient, some: list[str]) -> None:
    """Each name is found by itself, whatever it means to SQL or to LIKE, and answered as it is."""
    lowered = {name: name.lower() for name in world.texts}
    for name in world.texts:
        rows = client.get(f"{PREFIX}/api/groups", params={"q": name, "size": 200}).json()["rows"]
        found = {row["group_id"] for row in rows}
        assert name in found or len(rows) == 200, ascii(name)
        if len(name) > 1 and name.isascii():
            unexpected = {each for each in found if lowered[name] not in each.lower()}
            assert not unexpected, ascii(name)
    for name in some:
        found = client.get(f"{PREFIX}/api/group", params={"id": name}).json()
        assert found["group"]["group_id"] == name
        assert {row["topic"] for row in found["offsets"]["rows"]} == {name, LEGAL}
        if (other := f"{name}?") not in lowered:
            status = client.get(f"{PREFIX}/group", params={"id": other}).status_code
            assert status == (404 if len(other) <= LONGEST else 422)


def terminal(world: Hostile, client: TestClient, some: list[str]) -> None:
    as_lines(world.planned)
    for force in (True, False):
        console = Console(file=StringIO(), width=120, force_terminal=force, no_color=True)
        print_summary(Summary.model_validate_json((Path(world.run) / "summary.json").read_bytes()), console)
        told = console.file.getvalue()  # type: ignore[attr-defined]
        as_lines(re.sub(r"\x1b\[[0-9;]*m", "", told))  # its own styles
    archive = ("--archive", world.archive)
    lines = as_lines(answered("groups", "list", *archive))
    assert {visible(name) for name in world.texts} <= {re.split(" {2,}", line)[0] for line in lines}
    assert len(lines) == 3 * len(world.names) + 2, "a name is one line"
    as_lines(answered("groups", "unload", 0, *archive))
    for options in (("--offsets",), ("--members",), ("--state",)):
        as_lines(answered("groups", "describe", "--all-groups", *options, *archive))
    as_lines(answered("forecast", *archive, "--limit", 0))
    as_lines(answered("what-if", *archive, *LOSING, "--limit", 0))
    as_lines(answered("diff", *archive, "--limit", 0, BASE_MS + 1, AS_OF_MS))


LOSING = ("--as-of", AS_OF_MS, "--retention-minutes", 1)
"""Rules under which what-if has to speak of everybody."""
SINGLE = ("fetch", "explain", "groups describe", "groups coordinator", "policy show", "what-if", "forecast")


def commands_about_one(world: Hostile, client: TestClient, some: list[str]) -> None:
    """As an argument, and as the answer, for people and for machines."""
    policy = world.root / "policy.yaml"
    for name in some:
        for command in SINGLE:
            options: tuple[object, ...] = ("--archive", world.archive)
            options += ("--policy", policy) if command == "policy show" else ()
            options += LOSING if command == "what-if" else ()
            told = answered(*command.split(), *options, "--", name)
            as_lines(told)
            assert name in set(strings(as_json(answered(*command.split(), *options, "--json", "--", name)))), command


def errors(world: Hostile, client: TestClient, some: list[str]) -> None:
    """What is refused is quoted in one line."""
    archive = ("--archive", world.archive)
    for name in some:
        for argv in (
            ("explain", *archive, "--", "g", f"{name}:x"),
            ("show", "plan", *archive, "--", name),
            ("groups", "list", *archive, "--as-of", name),
            ("groups", "list", *archive, "--profile", name),
            (name, "x"),
        ):
            code, out, err = sexton(*argv)
            assert (code, out) != (0, ""), argv
            assert len(as_lines(err)) <= 2, argv


def policy_messages(world: Hostile, client: TestClient, some: list[str]) -> None:
    """A policy that cannot be used says so with every name in it, each mistake in a line."""
    file = world.root / "bad.yaml"
    words = world.texts
    file.write_text(json.dumps({**policy_of(words), **{name or "x": name for name in words}}), encoding="utf-8")
    code, out, err = sexton("policy", "check", file)
    assert code == 2
    for line in as_lines(err + out):
        assert len(line) < 1_000
    as_json(sexton("policy", "check", file, "--json")[1])
    trials = [{"name": f"t{name}"[:100], "group": {"id": name}, "expect": {"verdict": "hold"}} for name in words]
    file.write_text(json.dumps({**policy_of([]), "tests": trials}), encoding="utf-8")
    code, out, err = sexton("policy", "test", file)
    assert code == 3
    as_lines(err + out)


def approval_bodies(world: Hostile, client: TestClient, some: list[str]) -> None:
    """What Airflow shows as Markdown before somebody approves."""
    harmless_markdown(plan_text(world.plan))
    harmless_markdown(answered("show", "plan", world.plan.record.plan_id, "--archive", world.archive))
    harmless_markdown(answered("show", "restore", world.restore_id, "--archive", world.archive))
    found = read_restore(pafs.LocalFileSystem(), str(world.archive), CLUSTER, world.restore_id)
    for number in range(0, len(found.rows), 10):
        part = type(found)(cluster_id=CLUSTER, source="plan", rows=found.rows[number : number + 10])
        codes = harmless_markdown(restore_text(part)).codes
        assert len(codes) >= 2 * len(part.rows), "each name is a code span of its own"


def messages(world: Hostile, client: TestClient, some: list[str]) -> None:
    """Slack's text, a mail and whatever Apprise sends to: in each its own escapes, and never a template."""
    for name in world.texts:
        name = name[:2_000]  # as alerts cut
        told = Message(severity="error", title=f"a {name}", text=f"b {name}", url="http://air.flow/x")
        slack: Any = notifier_of("slack", "c", [], told)
        assert not re.search(r"<(?!http://air\.flow/x\|the run>)|(?<!the run)>|&(?!amp;|lt;|gt;)", slack.text)
        mail: Any = notifier_of("smtp", "c", ["a@x.org"], told)
        page = Html(mail.html_content)
        assert page.tags <= {"p", "b", "br", "a"}
        assert (page.attributes, page.links) == ({"href"}, {"http://air.flow/x"})
        assert len(mail.subject.splitlines()) == 1
        apprise: Any = notifier_of("apprise", "c", [], told)
        assert len(apprise.title.splitlines()) == 1


def spark_jobs(world: Hostile, client: TestClient, some: list[str]) -> None:
    """What a job prints goes into a task's log, and its outcome into exceptions and alerts."""

    def ended(name: str, end: Callable[[str], Any], *options: str) -> str:
        out, err = StringIO(), StringIO()
        argv = [f"--run-dir={world.root / 'job'}", *options]
        with redirect_stdout(out), redirect_stderr(err):
            job.main("stage", "d", JobRequest, lambda *_: end(name), argv)
        outcome = json.loads((world.root / "job" / "outcome" / "stage.json").read_text("utf-8"))
        assert unseen(outcome.get("error", "")) == []
        return out.getvalue() + err.getvalue()

    for name in some:
        for end in (_refuse, _fail, lambda name: {"found": name}):
            assert len(as_lines(ended(name, end))) == 2
        as_lines(ended(name, _refuse, "--debug"))
        as_lines(ended(f"x{name}", _fail, "--debug").replace("\nerror: forged", ""))


def _refuse(name: str) -> Any:
    raise Refused(f"not {name}", where=name)


def _fail(name: str) -> Any:
    raise ValueError(f"no {name}")


def tracebacks(world: Hostile, client: TestClient, some: list[str]) -> None:
    """--debug shows them, and what they quote is nobody's command."""
    for name in some:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sexton.views.coordinator_view.CoordinatorView.check_read", lambda *_, name=name: _fail(name))
            _, _, err = sexton("groups", "list", "--archive", world.archive, "--debug")
        assert "Traceback" in err
        as_lines(err.replace("\nerror: forged", ""))


def task_logs(world: Hostile, client: TestClient, some: list[str]) -> None:
    for name in world.texts:
        assert unseen(printable(f"running: sexton fetch {name}")) == []
        assert "\n" not in printable(name)


def task_templates(world: Hostile, client: TestClient, some: list[str]) -> None:
    """What comes out of a template is never one again, and stays one argument."""
    dag = DagBag(dag_folder=str(PROJECT_ROOT / "dags" / "offset_retention.py")).dags["offset_retention"]
    task, macros = dag.get_task("find_expired"), dag.user_defined_macros or {}
    for name in world.texts:
        own = {"dag": dag, "run_id": name, "params": {"policy": ""}}
        told = [Environment().from_string(text).render({**macros, **own}) for text in task.application_args]
        assert f"--run-dir={macros['run_folder'](dag.dag_id, name)}" in told


def paths(world: Hostile, client: TestClient, some: list[str]) -> None:
    """No file is named by a name, and no run's folder lies anywhere but beside the others, or is another's."""
    made = [path.relative_to(world.root) for path in world.root.rglob("*")]
    assert not [path for path in made if not all(TAME_PATH.fullmatch(part) for part in path.parts)]
    folders = {}
    for name in world.texts:
        folder = Path(run_folder("offset_retention", name, root="/runs"))
        assert folder.parent == Path("/runs/offset_retention")
        assert TAME_PATH.fullmatch(folder.name)
        assert folder.name not in (".", "..")
        assert len(folder.name) < 256
        assert folders.setdefault(folder.name, name) == name, "two runs, one folder"


def tables(world: Hostile, client: TestClient, some: list[str]) -> None:
    """In the run folder, in the lake, and in the plan's files."""
    assert {row["group_id"] for row in world.rows("groups")} >= set(world.texts)
    offsets = {(row["group_id"], row["topic"]): row["metadata"] for row in world.rows("committed_offsets")}
    assert {(name, name): name for name in world.texts}.items() <= offsets.items()
    members = world.rows("members")
    for field in ("member_id", "client_id", "client_host", "group_instance_id", "rack_id"):
        assert {row[field] for row in members} - {None} == {name[:200] for name in world.texts}, field
    (run,) = published_runs(world.lake.lake)
    assert set(read_published(world.lake.lake, run, "groups")["group_id"].to_pylist()) >= set(world.texts)
    planned, undone = (
        [row for path in Path(world.plan.folder, name).iterdir() for row in pq.read_table(path).to_pylist()]
        for name in ("tombstones", "undo")
    )
    for rows in (planned, undone):
        assert all(row["topic"] in (None, row["group_id"], LEGAL) for row in rows)
        assert {row["group_id"] for row in rows} <= set(world.texts)
    assert {row["group_id"] for row in undone} == {row["group_id"] for row in planned}
    assert len({row["group_id"] for row in undone}) > len(world.names) // 3


def ledger_and_restore(world: Hostile, client: TestClient, some: list[str]) -> None:
    (folder,) = {path.parent for path in world.applied.root.rglob("*-outcome.json")}
    told = {text for path in folder.iterdir() for text in strings(as_json(path.read_text("utf-8")))}
    assert set(world.texts) <= told
    assert world.applied.cluster.offsets() == {}, "each was deleted by its name"
    kept = read_restore(pafs.LocalFileSystem(), str(world.archive), CLUSTER, world.restore_id)
    assert [(row.group_id, row.topic) for row in kept.rows] == [(row.group_id, row.group_id) for row in kept.rows]
    assert {row.group_id for row in kept.rows} == set(world.texts)


def machine_output(world: Hostile, client: TestClient, some: list[str]) -> None:
    archive = ("--archive", world.archive, "--json")
    as_json((world.run / "summary.json").read_text("utf-8"))
    for argv, everything in (
        (("groups", "list", *archive), True),
        (("groups", "describe", "--all-groups", *archive), True),
        (("groups", "describe", "--all-groups", "--members", *archive), False),
        (("forecast", *archive), True),
        (("what-if", *archive, *LOSING, "--limit", 0), True),
        (("show", "restore", world.restore_id, *archive), False),
    ):
        found = set(strings(as_json(answered(*argv))))
        assert not everything or set(world.texts) <= found, argv


SINKS: dict[str, Callable[[Hostile, TestClient, list[str]], None]] = {
    "report.html": report_pages, "Data Docs": data_docs, "plan.html": plan_pages,
    "dashboard: lists and links": dashboard_lists, "dashboard: one group, one plan": dashboard_groups,
    "dashboard: JSON and SQL": dashboard_api, "terminal": terminal, "commands about one group": commands_about_one,
    "errors": errors, "policy messages": policy_messages, "JSON": machine_output,
    "approval (Markdown)": approval_bodies, "Slack, mail, Apprise": messages, "task logs": task_logs,
    "Spark jobs": spark_jobs, "tracebacks": tracebacks, "templates of tasks": task_templates, "paths": paths,
    "tables, lake, plan's files": tables, "ledger, restore": ledger_and_restore,
}  # fmt: skip


@pytest.mark.usefixtures("needs_spark")
@pytest.mark.parametrize("sink", SINKS)
def test_a_hostile_name_is_a_name(sink: str, world: Hostile, client: TestClient, some: list[str]) -> None:
    SINKS[sink](world, client, some)
