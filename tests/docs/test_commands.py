"""Every command of the README and of docs/: ours run on a small world, others are parsed by the program they are for.

A command that nothing here knows fails. What needs a broker is run by tests/integration/test_documented_commands.py,
which tells from the same lists what is left to it.
"""

import json
import re
import runpy
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
import typer
import yaml
from airflow.sdk.exceptions import ParamValidationError

from sexton import cli
from sexton.cli.exit_codes import CODES
from sexton.kafka.client import read_properties
from sexton.pipeline import job
from sexton.pipeline.build_history import History
from sexton.policy import parse_policy
from sexton.quality.suites import needs, read_expectations
from sexton.runs.processes import SerialEngine
from sexton.settings import settings
from tests.approvals import give_approval
from tests.commands import sexton
from tests.deploy.compose import COMPOSE, SERVICES
from tests.docs import world
from tests.docs.pages import PAGES, ROOT, Command, all_blocks, name_of
from tests.docs.running import argv_of, run
from tests.docs.sorting import ACL_TEST, OWN_TESTS, SEXTON, has_commands, sexton_commands, shell

CHAINED = re.compile(r"\s(?:\||&&)\s")
"""Between the commands of one line."""
MAY_END_WITH = {"doctor": (0, 2), "rehearse": (0, 3)}
"""Where an exit code other than 0 is an answer: what a doctor finds is the machine's business, 3 is a verdict."""
KAFKA_PROGRAMS = {
    *("kafka-topics.sh", "kafka-console-producer.sh", "kafka-console-consumer.sh", "kafka-acls.sh"),
    "kafka-transactions.sh",  # tests/integration/test_transactions.py runs it
    "kafka-configs.sh",
    "kafka-consumer-groups.sh",  # tests/integration/test_incident.py runs what a plan and a restore print
}
COMPOSE_COMMANDS = {"up", "down", "ps", "exec", "stop", "build", "logs", "run"}


def once(found: list[Command]) -> list[Command]:
    """Commands that are told on several pages, or with other comments, are run once."""
    return list(
        {" ".join(command.words) + str("| jq" in command.text): command for command in reversed(found)}.values()
    )[::-1]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The world, as the current folder; what the pages' placeholders stand for in it."""
    folder = tmp_path_factory.mktemp("docs")
    with pytest.MonkeyPatch.context() as patch:
        world.make(folder)
        world.point_at(folder, patch)
        patch.setattr("sexton.runs.processes.engine_here", lambda **_: SerialEngine(quiet=True))
        patch.setattr("typer.completion._get_shell_name", lambda: "bash")
        patch.setattr("typer._completion_shared._get_shell_name", lambda: "bash")
        runs = {}
        for number, instant in enumerate(world.PUBLISHED):
            runs[instant] = folder / f"published-{number}"
            sexton("audit", "--archive", "archive", "--as-of", instant, "--out", str(runs[instant]))
        world.publish(folder / "lake", runs)
        world.copies(folder, "published-2", "audit", "run-before", "run-after")
        made = sexton("plan", "--archive", "archive", "--policy", "policy.yaml", "--out", "plan")
        plan_id, sha256 = made["plan_id"], made["plan_sha256"]
        policy_sha256 = parse_policy((folder / "policy.yaml").read_text(), where="policy.yaml").sha256
        cluster_id = made["cluster_id"]
        approval_id = give_approval("archive", cluster_id=cluster_id, policy_sha256=policy_sha256, at_ms=0)
        yield {
            "APPROVAL_ID": approval_id,
            "7d20...": approval_id,
            "PLAN_ID": plan_id,
            "3f9c...": plan_id,
            "3f2a...": plan_id,
            "PLAN_SHA256": sha256,
        }
    settings.cache_clear()


@pytest.mark.parametrize("command", once(sexton_commands(of_a_cluster=False)), ids=str)
def test_ours(
    command: Command, names: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command.words[1:]
    # Another cluster in the archive would make every other command ask which.
    if words[:2] == ["archive", "import"]:
        command = Command(
            command.page, command.line, re.sub(r"--archive \S+", "", command.text) + " --archive imported"
        )
    if words[0] == "mcp":  # it serves until it is stopped
        command = Command(command.page, command.line, command.text.removesuffix(" --json") + " --json")
    if words[0] == "history":  # the lake is written by Spark: pipeline/test_build_history
        monkeypatch.setattr("sexton.pipeline.build_history.run", lambda *_, **__: History(published_before=[1]))
    run(command, names, monkeypatch, capsys, codes=MAY_END_WITH.get(words[0], (0,)))


@pytest.mark.parametrize("command", once([each for each in shell() if each.program != SEXTON]), ids=str)
def test_others(command: Command, names: dict[str, str]) -> None:
    for text in CHAINED.split(command.text):
        part = Command(command.page, command.line, text)
        assert part.program in PROGRAMS, f"{part}: no test knows this program"
        PROGRAMS[part.program](part)


def airflow(command: Command, words: list[str] | None = None) -> None:
    """Parsed by Airflow's own parser; a run's configuration by the DAG's form."""
    from airflow.cli.cli_parser import get_parser

    words = words or command.words
    try:
        parsed = get_parser().parse_args(words[1:])
    except SystemExit:
        pytest.fail(f"{command}: Airflow does not take it")
    if dag_id := getattr(parsed, "dag_id", None):
        from tests.docs.dags_page import load

        dag = load()[dag_id]
        conf = (getattr(parsed, "conf", None) or "{}").replace("PLAN_ID", "0" * 64)
        for name, value in json.loads(conf).items():
            deepcopy(dag.params.get_param(name)).resolve(value=value)  # it would keep the value


def docker(command: Command) -> None:
    words = command.words
    if words[1] == "run":
        volumes = {f"sexton_{name}" for name in COMPOSE["volumes"]}
        given = [word.partition(":")[0] for before, word in pairwise(words) if before == "-v"]
        assert {name for name in given if name.startswith("sexton_")} <= volumes, command
        assert any(service["image"] in words for service in SERVICES.values()), command
        return
    assert words[1] in ("compose", "buildx"), command
    if words[1] == "buildx":
        return
    assert words[2] in COMPOSE_COMMANDS, command
    rest = [word for word in words[3:] if not word.startswith("-")]
    if words[2] in ("exec", "stop", "run"):
        assert rest[0] in SERVICES, command
    scaled = [word.partition("=")[0] for word in rest if re.fullmatch(r"[\w-]+=\d+", word)]
    assert set(scaled) <= SERVICES.keys(), command
    if rest[1:2] == ["airflow"]:
        airflow(command, words[words.index("airflow") :])


def spark_submit(command: Command) -> None:
    """Parsed by the job's own parser."""
    words = command.words
    file = next(word for word in words if word.startswith("spark_jobs/"))
    request = next(iter(runpy.run_path(str(ROOT / file))["run"].__annotations__.values()))
    try:
        job.parser(Path(file).stem, "", request).parse_args(words[words.index(file) + 1 :])
    except SystemExit:
        pytest.fail(f"{command}: the job does not take it")


def make(command: Command) -> None:
    targets = [word for word in command.words[1:] if "=" not in word]
    done = subprocess.run(["make", "-C", str(ROOT), "--dry-run", *targets], capture_output=True, text=True, check=False)
    assert targets, command
    assert done.returncode == 0, f"{command}\n{done.stderr}"


def python(command: Command) -> None:
    words = command.words
    if words[1] == "-c":
        compile(words[2], str(command), "exec")
        return
    assert words[1] == "-m", command
    assert find_spec(words[2]) is not None, command
    source = "".join(path.read_text(encoding="utf-8") for path in _sources(words[2]))
    for word in words[3:]:
        assert not word.startswith("--") or f'"{word}"' in source, f"{command}: no {word}"


def _sources(module: str) -> Iterator[Path]:
    spec = find_spec(module)
    assert spec is not None
    if spec.origin is None:  # a folder without __init__.py
        spec = find_spec(f"{module}.__main__")
        assert spec is not None
    assert spec.origin is not None
    found = Path(spec.origin)
    yield from found.parent.glob("*.py") if found.name == "__init__.py" else [found]


def pip(command: Command) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for word in command.words[2:]:
        if named := re.fullmatch(r"sexton\[(.+)\]", word):
            assert set(named[1].split(",")) <= extras.keys(), command
        elif not word.startswith("-"):
            assert (ROOT / word).exists(), command
    assert command.words[1] == "install"


def kafka(command: Command) -> None:
    assert command.program in KAFKA_PROGRAMS, command
    if command.program == "kafka-acls.sh":
        assert (ROOT / ACL_TEST).read_text(encoding="utf-8").count(command.page.rpartition("/")[2]) > 0, command


def left_alone(command: Command) -> None:
    """What every system has, on places of the reader's own."""


def variable_of_a_shell(command: Command) -> None:
    """`kafka='docker compose exec ...'`, then `$kafka/program`."""


def sql(command: Command) -> None:
    """By the library of the same name, where the world's run is."""
    words = command.words
    assert words[1] == "-c", command
    assert duckdb.sql(words[2]).fetchall()


def as_it_stands(command: Command) -> None:
    """Run in the world's folder."""
    _, _, _ = argv_of(command, {})
    text = command.text.replace("/var/lib/kafka/data", "disk")
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"


def curl(command: Command) -> None:
    """Asks a route that the dashboard has."""
    from sexton.ui import app

    source = "".join(path.read_text(encoding="utf-8") for path in Path(app.__file__).parent.glob("*.py"))
    for route in re.findall(r"/sexton/api(/[\w/-]+)", command.text):
        assert f'("{route}")' in source, f"{command}: no route {route}"


PROGRAMS: dict[str, Callable[[Command], None]] = {
    "airflow": airflow,
    "docker": docker,
    "spark-submit": spark_submit,
    "make": make,
    "python": python,
    "python3": python,
    "pip": pip,
    "pytest": lambda command: _assert_exists(command, command.words[1]),
    "duckdb": sql,
    "curl": curl,
    "echo": left_alone,
    "mv": left_alone,
    "mkdir": as_it_stands,
    "cp": as_it_stands,
    "": variable_of_a_shell,
    **dict.fromkeys(KAFKA_PROGRAMS, kafka),
}


def _assert_exists(command: Command, path: str) -> None:
    assert (ROOT / path).exists(), command


def test_every_command_has_somebody() -> None:
    """Ours are run here, against a cluster, or by the test of their page; nothing is left over."""
    ours = [command for command in shell() if command.program == SEXTON]
    assert len(ours) > 100
    run_somewhere = {*sexton_commands(of_a_cluster=False), *sexton_commands(of_a_cluster=True)}
    assert [command for command in ours if command not in run_somewhere and command.page not in OWN_TESTS] == []
    for page, test in OWN_TESTS.items():
        source = (ROOT / test).read_text(encoding="utf-8")
        assert f'"{Path(page).name}"' in source, f"{test} does not read {page}"
        assert 're.findall(r"^    (sexton .*)$", PAGE' in source


def test_blocks_without_commands_are_what_they_seem() -> None:
    """A block that is taken for no shell begins no line as our commands do."""
    for block in all_blocks():
        if block.is_shell and not has_commands(block):
            assert not re.search(r"^ *(\.venv/bin/)?(sexton|airflow|docker|make|python) ", block.text, re.MULTILINE), (
                block
            )


@pytest.mark.parametrize(
    "block", [block for block in all_blocks() if not block.is_shell], ids=lambda b: f"{b.page}:{b.line}"
)
def test_other_languages(block: object, tmp_path: Path) -> None:
    check = {
        "python": lambda text: compile(text, block.page, "exec"),
        "json": json.loads,
        "text": str.isprintable,  # what a terminal shows
        "yaml": lambda text: _yaml(text, block.page),
        "properties": _properties(tmp_path),
        "sql": lambda text: text.startswith("CREATE") or _expectation(text, tmp_path),  # that, test_readers runs
        "mermaid": lambda text: text.startswith("flowchart") or pytest.fail("no flowchart"),
    }
    check[block.language](block.text)


def _yaml(text: str, page: str) -> object:
    """A policy, its tests, or what another program takes."""
    if not re.search(r"^(rules|tests):", text, re.MULTILINE):
        return yaml.safe_load(text)
    return parse_policy(text if "version:" in text else f"version: 1\n{text}", where=page)


def _properties(tmp_path: Path) -> Callable[[str], object]:
    def check(text: str) -> object:
        (tmp_path / "client.properties").write_text(text)
        return read_properties(tmp_path / "client.properties")

    return check


COMMANDS = typer.main.get_command(cli.app)
INLINE = re.compile(r"`((?:\.venv/bin/)?sexton [a-z][^`]*)`")


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_commands_in_the_text_exist(path: Path) -> None:
    """Words in backticks: the command is there, and so are its options."""
    for told in INLINE.findall(path.read_text(encoding="utf-8").replace("\n", " ")):
        command = COMMANDS
        words = shlex.split(told.replace("...", "").split("[", 1)[0], comments=True)[1:]
        while words and hasattr(command, "commands"):
            if words[0] in ("check/show/test", "COMMAND") or "|" in words[0]:
                break
            assert words[0] in command.commands, f"{path}: {told}"
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help", "--json", "--debug"}
        for word in words:
            assert not word.startswith("--") or word.partition("=")[0] in known, f"{path}: {told}: no {word}"


def test_exit_codes_are_told_alike() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "docs/cli.md#exit-codes" in text
    assert len(CODES) == 8


@pytest.mark.parametrize(
    "text",
    [
        "airflow dags triger offset_retention", 'airflow dags trigger offset_retention --conf \'{"as_of": "soon"}\'',
        "docker compose exec nowhere sh", "docker compose up --detach --scale nobody=3",
        "spark-submit spark_jobs/expire_runs.py --archive a --run-dir b --nope", "make nothing",
        "python -m sexton.nowhere", "pip install 'sexton[nothing]'", "pytest tests/nowhere.py",
        'curl "$AIRFLOW/sexton/api/nowhere"', "kafka-nothing.sh --list", "kubectl get pods",
    ],
)  # fmt: skip
def test_what_is_wrong_with_others_is_noticed(text: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception, ParamValidationError)):
        test_others(Command("here", 1, text), {})


@pytest.mark.parametrize(
    "text",
    [
        "sexton audit --segments backup --outt run",
        "sexton fetch my-group --segments nowhere",
        "sexton fetch my-group --segments backup --json | jq '.offsets[].commited_offset'",
        "sexton fetch my-group --segments backup | jq .offsets",
    ],
)
def test_what_is_wrong_with_ours_is_noticed(
    text: str, names: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError):
        run(Command("here", 1, text), names, monkeypatch, capsys)


def _expectation(text: str, folder: Path) -> None:
    """The example of an expectation of one's own: it is read, and its tables are there."""
    (folder / "example.sql").write_text(text)
    (found,) = read_expectations(folder)
    assert needs(found.sql)
