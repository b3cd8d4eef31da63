"""The rules of the house that a reader cannot see in one file: which way imports point, where the environment is read,
where clocks may not be, and what a DAG file may know.

Every rule is a function from source text to complaints, so each is also shown a snippet that breaks it.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FLOORS: tuple[frozenset[str], ...] = tuple(
    frozenset(floor.split())
    for floor in (
        "errors settings java kill_points distributions uris process_id",
        "log",
        "records",
        "coordinator policy",
        "kernels",
        "tables",
        "quality lake kafka",
        "stages",
        "airflow report",
        "doctor local ui",
        "cli",
    )
)
"""Rooms from the ground up. A room imports rooms of lower floors and itself, never a neighbour on its own floor."""

FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}
GROUND = FLOORS[0]
CORE = {"log", "records", "coordinator", "kernels"}
LIBRARIES: dict[str, set[str]] = {
    **{room: {"numpy", "numba", "pyarrow", "cramjam"} for room in CORE},
    "log": {"numpy", "numba", "pyarrow", "cramjam", "boto3", "botocore"},  # the last two for what pyarrow cannot on S3
    "policy": {"pydantic", "pydantic_core", "yaml", "re2"},
    "airflow": {"jsonschema"},  # Airflow's own, besides Airflow itself: every DAG file loads what this room loads
}
"""Rooms that keep to a few libraries; the standard library is everybody's."""
WITHOUT_CLOCK = CORE | {"policy", "tables"}
ROOMS_WITH_AIRFLOW = {"airflow", "ui"}
CLOCKS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "gmtime", "localtime"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "Timestamp": {"now", "utcnow", "today"},
}


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every absolute module name that is imported anywhere, also inside functions, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level
            elif node.module == "sexton":
                yield from ((node.lineno, f"sexton.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module or ""


def room_of(module: str) -> str | None:
    """The room of one of our modules; None for the package itself (its version) and for everybody else's."""
    parts = module.split(".")
    if parts[0] != "sexton" or len(parts) < 2 or parts[1].startswith("__"):
        return None
    return parts[1]


def wrong_way(source: str, room: str) -> list[str]:
    """Imports of a module in `room` that point to its own floor, upwards, or to a room that this file does not know."""
    complaints = []
    for line, module in imports_of(ast.parse(source)):
        other = room_of(module)
        if module.startswith("."):
            complaints.append(f"{line}: a relative import hides its direction")
        elif other is None or other == room or (other in GROUND and room not in GROUND):
            continue
        elif other not in FLOOR_OF:
            complaints.append(f"{line}: {module} is on no floor")
        elif FLOOR_OF[other] >= FLOOR_OF[room] and not (room in GROUND and other in GROUND):
            complaints.append(f"{line}: {room} imports {module}")
    return complaints


def foreign_libraries(source: str, room: str) -> list[str]:
    """Libraries that a room may not depend on: the core stays small, and only two rooms know Airflow."""
    complaints = []
    for line, module in imports_of(ast.parse(source)):
        top = module.split(".")[0]
        if top == "airflow" and room not in ROOMS_WITH_AIRFLOW:
            complaints.append(f"{line}: {room} imports {module}")
        elif top in sys.stdlib_module_names or top in {"sexton", "airflow", ""}:
            continue
        elif room in LIBRARIES and top not in LIBRARIES[room]:
            complaints.append(f"{line}: {room} imports {module}")
    return complaints


def rooms_above_airflow(source: str) -> list[str]:
    """Rooms of ours that sexton.airflow may not import: the DAG processor loads it again and again."""
    known = GROUND | {"airflow"}
    return [
        f"{line}: imports {module}"
        for line, module in imports_of(ast.parse(source))
        if room_of(module) is not None and room_of(module) not in known
    ]


def environment_reads(source: str) -> list[str]:
    """Uses of os.environ and its relatives."""
    names = {"environ", "environb", "getenv", "putenv", "unsetenv"}
    complaints = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "os" and node.attr in names:
                complaints.append(f"{node.lineno}: os.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            complaints += [f"{node.lineno}: os.{alias.name}" for alias in node.names if alias.name in names]
    return complaints


def clocks(source: str) -> list[str]:
    """Reads of the present, whatever the module or class is called from."""
    complaints = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if node.attr in CLOCKS.get(name, ()):
                complaints.append(f"{node.lineno}: {name}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            complaints += [f"{node.lineno}: time.{a.name}" for a in node.names if a.name in CLOCKS["time"]]
    return complaints


def too_much_for_a_dag(source: str) -> list[str]:
    """Imports of a DAG file besides Airflow, our own Airflow room and the settings."""
    return [
        f"{line}: {module}"
        for line, module in imports_of(ast.parse(source))
        if module.split(".")[0] != "airflow" and room_of(module) not in {"airflow", "settings"}
    ]


def too_much_for_a_job(source: str) -> list[str]:
    """A Spark job runs alone under spark-submit: it may report what its stage found, and knows nothing around it."""
    unknown = {"airflow", "ui", "local", "doctor", "cli"}
    return [
        f"{line}: {module}"
        for line, module in imports_of(ast.parse(source))
        if module.split(".")[0] == "airflow" or room_of(module) in unknown
    ]


def package_files() -> list[tuple[str, Path]]:
    """(room, file) of every module of the package but its own __init__."""
    package = ROOT / "include" / "sexton"
    return [
        (path.relative_to(package).parts[0].removesuffix(".py"), path)
        for path in sorted(package.rglob("*.py"))
        if path != package / "__init__.py"
    ]


def files_of(folder: str) -> list[Path]:
    return sorted((ROOT / folder).glob("*.py"))


def told(path: Path, complaints: list[str]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{complaint}" for complaint in complaints]


def in_package(rule: Callable[[str, str], list[str]]) -> list[str]:
    return [line for room, path in package_files() for line in told(path, rule(path.read_text("utf-8"), room))]


def test_every_room_has_a_floor() -> None:
    assert {room for room, _ in package_files()} <= set(FLOOR_OF)


def test_imports_point_down() -> None:
    assert in_package(wrong_way) == []


def test_rooms_keep_to_their_libraries() -> None:
    assert in_package(foreign_libraries) == []


def test_the_airflow_room_is_light() -> None:
    assert in_package(lambda source, room: rooms_above_airflow(source) if room == "airflow" else []) == []


def test_only_settings_reads_the_environment() -> None:
    assert in_package(lambda source, room: environment_reads(source) if room != "settings" else []) == []
    outside = files_of("dags") + files_of("spark_jobs")
    assert [line for path in outside for line in told(path, environment_reads(path.read_text("utf-8")))] == []


def test_rules_have_no_clock() -> None:
    assert in_package(lambda source, room: clocks(source) if room in WITHOUT_CLOCK else []) == []


def test_dag_files_are_wiring_only() -> None:
    files = files_of("dags")
    assert files
    assert [line for path in files for line in told(path, too_much_for_a_dag(path.read_text("utf-8")))] == []


def test_spark_jobs_run_alone() -> None:
    assert [line for p in files_of("spark_jobs") for line in told(p, too_much_for_a_job(p.read_text("utf-8")))] == []


@pytest.mark.parametrize(
    ("room", "source", "count"),
    [
        ("log", "from sexton.records import decode_key", 1),
        ("log", "def f():\n    import sexton.kernels.fold", 1),
        ("quality", "from sexton.lake import catalog", 1),
        ("lake", "from sexton import stages, tables, __version__", 1),
        ("records", "from .. import log", 1),
        ("stages", "from sexton.cellar import wine", 1),
        ("errors", "from sexton.log import crc", 1),
        ("kernels", "from sexton.coordinator import groups\nfrom sexton import __version__", 0),
        ("java", "from sexton.errors import SetupError\nfrom sexton.settings import settings", 0),
    ],
)
def test_wrong_way_sees(room: str, source: str, count: int) -> None:
    assert len(wrong_way(source, room)) == count


@pytest.mark.parametrize(
    ("room", "source", "count"),
    [
        ("kernels", "import pandas as pd", 1),
        ("log", "import numpy, zlib\nimport pyarrow.compute as pc", 0),
        ("policy", "import yaml\nimport requests", 1),
        ("stages", "from airflow.sdk import dag", 1),
        ("airflow", "from airflow.sdk import dag\nimport json", 0),
        ("airflow", "def f():\n    from pyspark.sql import SparkSession", 1),
    ],
)
def test_foreign_libraries_sees(room: str, source: str, count: int) -> None:
    assert len(foreign_libraries(source, room)) == count


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        (rooms_above_airflow, "from sexton.kafka import client", "from sexton.settings import settings"),
        (environment_reads, "import os\nos.environ['A']", "import os\nos.fspath('a')"),
        (environment_reads, "from os import getenv", "from os import path"),
        (environment_reads, "import os\nos.getenv('A')", "environ = {}\nenviron['A']"),
        (clocks, "import time\ntime.time()", "import time\ntime.sleep(1)"),
        (clocks, "from time import time_ns", "from time import sleep"),
        (clocks, "import datetime\ndatetime.datetime.now()", "import datetime\ndatetime.datetime.fromtimestamp(0)"),
        (clocks, "from datetime import datetime\ndatetime.utcnow()", "now_ms = 5"),
        (clocks, "import pandas as pd\npd.Timestamp.now()", "record.time_ms"),
        (too_much_for_a_dag, "import pyspark", "from airflow.sdk import dag"),
        (too_much_for_a_dag, "from sexton.pipeline import run", "from sexton.airflow.tasks import STAGES"),
        (too_much_for_a_job, "from airflow.sdk import task", "from pyspark.sql import SparkSession"),
        (too_much_for_a_job, "from sexton.local import demo", "from sexton.report import write_report"),
    ],
)
def test_rules_see(rule: Callable[[str], list[str]], bad: str, good: str) -> None:
    assert rule(bad)
    assert not rule(good)
