"""The rules of the package that a reader cannot see in one file: which way imports point, whose names are private,
where the environment is read, where clocks may not be, and what a DAG file may know.

Every rule is a function from source text to complaints, so each is also shown a snippet that breaks it.
"""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(layer.split())
    for layer in """
        errors numbers as_text settings job_params java failpoints distributions uris process_id ports topics
        vocabulary kafka_commands | jit | tables | log | records | archive policy |
        coordinator | coordinator.changes | coordinator.api | kernels |
        verdicts replicas | quality lake kafka | runs | plans | ledger summary | history | views |
        analysis rehearsal replicas transactions lag | pipeline execution | maintenance spark incident | audits |
        airflow report | doctor local ship_kernels ui | cli | __main__ sexton_dev
    """.split("|")  # noqa: SIM905  # as a list it would be a line each
)
"""Packages from the ground up. A package imports packages of lower layers and itself, never a neighbour in its layer.

Sub-packages that are named here are packages of their own; the others (coordinator.groups, kernels.codecs,
execution.restore) belong to the package that holds them.
"""

LAYER_OF = {package: number for number, layer in enumerate(LAYERS) for package in layer}
GROUND = LAYERS[0]
OURS = {"sexton", "sexton_dev"}
CORE = {"jit", "log", "records", "coordinator", "coordinator.changes", "coordinator.api", "kernels", "verdicts"}
LIBRARIES: dict[str, set[str]] = {
    **{package: {"numpy", "numba", "pyarrow", "cramjam"} for package in CORE},
    "jit": {"numpy", "numba", "llvmlite"},  # llvmlite, numba's own, tells what the processor can
    "verdicts": {"numpy", "pyarrow"},
    "archive": {"numpy", "pyarrow", "pydantic", "obstore"},
    "policy": {"pydantic", "pydantic_core", "yaml", "re2"},
    "airflow": {"jsonschema", "pydantic"},  # Airflow's own, and every DAG file loads them
}
"""Packages that keep to a few libraries; everybody may use the standard library."""
WITHOUT_CLOCK = CORE | {"policy", "tables"}
WITH_AIRFLOW = {"airflow", "ui"}
CLOCKS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "gmtime", "localtime"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "Timestamp": {"now", "utcnow", "today"},
}


@cache
def nodes_of(source: str) -> tuple[ast.AST, ...]:
    """Every node, parsed once for all rules."""
    return tuple(ast.walk(ast.parse(source)))


def imports_of(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Every absolute module name that is imported anywhere, also inside functions, with its line."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level
            elif node.module == "sexton":
                yield from ((node.lineno, f"sexton.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module or ""


def package_of(module: str) -> str | None:
    """The package of one of our modules; None for sexton itself (its version) and for everybody else's."""
    parts = module.split(".")
    if parts[0] == "sexton_dev":
        return "sexton_dev"
    if parts[0] != "sexton" or len(parts) < 2 or parts[1] == "__version__":
        return None
    inner = ".".join(parts[1:3])
    return inner if inner in LAYER_OF else parts[1]


def wrong_way(source: str, package: str) -> list[str]:
    """Imports of a module in `package` that point to its own layer, upwards, or to a package that LAYERS lacks."""
    complaints = []
    for line, module in imports_of(nodes_of(source)):
        other = package_of(module)
        if module.startswith("."):
            complaints.append(f"{line}: a relative import hides its direction")
        elif other is None or other == package or (other in GROUND and package not in GROUND):
            continue
        elif other not in LAYER_OF:
            complaints.append(f"{line}: {module} is in no layer")
        elif LAYER_OF[other] >= LAYER_OF[package] and not (package in GROUND and other in GROUND):
            complaints.append(f"{line}: {package} imports {module}")
    return complaints


def private_names(source: str) -> list[str]:
    """Names that begin with an underscore and are imported from another module, or read from one that is."""
    nodes, complaints = nodes_of(source), []
    imported: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            imported |= {alias.asname or alias.name for alias in node.names}
            complaints += [
                f"{node.lineno}: {node.module}.{alias.name}"
                for alias in node.names
                if alias.name.startswith("_") and not alias.name.startswith("__")
            ]
    complaints += [
        f"{node.lineno}: {node.value.id}.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported
        if node.attr.startswith("_") and not node.attr.startswith("__")
    ]
    return complaints


def foreign_libraries(source: str, package: str) -> list[str]:
    """Libraries that a package may not depend on: the core stays small, and only two packages know Airflow."""
    complaints = []
    for line, module in imports_of(nodes_of(source)):
        top = module.split(".")[0]
        if top == "airflow" and package not in WITH_AIRFLOW:
            complaints.append(f"{line}: {package} imports {module}")
        elif top in sys.stdlib_module_names or top in {*OURS, "airflow", ""}:
            continue
        elif package in LIBRARIES and top not in LIBRARIES[package]:
            complaints.append(f"{line}: {package} imports {module}")
    return complaints


def packages_above_airflow(source: str) -> list[str]:
    """Packages of ours that a module of sexton.airflow imports when it is loaded: the DAG processor loads it again and
    again. A task may import more."""
    known = GROUND | {"airflow"}
    return [
        f"{line}: imports {module}"
        for line, module in imports_of(ast.walk(without_functions(ast.parse(source))))
        if package_of(module) is not None and package_of(module) not in known
    ]


def without_functions(tree: ast.Module) -> ast.Module:
    """What runs when a module is loaded, but for types."""

    class Load(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # ast's own name
            return None

        def visit_If(self, node: ast.If) -> ast.AST | None:
            is_for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            return None if is_for_types else self.generic_visit(node)

    return Load().visit(tree)


def environment_reads(source: str) -> list[str]:
    """Uses of os.environ and its relatives."""
    names = {"environ", "environb", "getenv", "putenv", "unsetenv"}
    complaints = []
    for node in nodes_of(source):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "os" and node.attr in names:
                complaints.append(f"{node.lineno}: os.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            complaints += [f"{node.lineno}: os.{alias.name}" for alias in node.names if alias.name in names]
    return complaints


def clocks(source: str) -> list[str]:
    """Reads of the present, whatever the module or class is called from."""
    complaints = []
    for node in nodes_of(source):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if node.attr in CLOCKS.get(name, ()):
                complaints.append(f"{node.lineno}: {name}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            complaints += [f"{node.lineno}: time.{a.name}" for a in node.names if a.name in CLOCKS["time"]]
    return complaints


def too_much_for_a_dag(source: str) -> list[str]:
    """Imports of a DAG file besides Airflow, our own package `airflow` and the settings."""
    return [
        f"{line}: {module}"
        for line, module in imports_of(nodes_of(source))
        if module.split(".")[0] != "airflow" and package_of(module) not in {"airflow", "settings"}
    ]


def too_much_for_a_job(source: str) -> list[str]:
    """A Spark job runs alone under spark-submit: it may report what its stage found, and knows nothing around it."""
    unknown = {"airflow", "ui", "local", "doctor", "cli", "sexton_dev"}
    return [
        f"{line}: {module}"
        for line, module in imports_of(nodes_of(source))
        if module.split(".")[0] == "airflow" or package_of(module) in unknown
    ]


def not_over_connect(source: str) -> list[str]:
    """Names of PySpark that only a session with a JVM of its own has, but for lines that say so in a comment."""
    lines = source.splitlines()
    names = {"SparkContext", "sparkContext", "_sc", "_jvm", "_jsc", "_jdf", "_jsparkSession", "rdd", "parallelize"}
    return [
        f"{node.lineno}: {name}"
        for node in nodes_of(source)
        for name in [getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None)]
        if name in names and not lines[node.lineno - 1].endswith("# not over Connect")
    ]


def package_files() -> list[tuple[str, Path]]:
    """(package, file) of every module of ours but sexton's own __init__."""
    root = ROOT / "include"
    return [
        (str(package_of(".".join(path.relative_to(root).with_suffix("").parts))), path)
        for folder in sorted(OURS)
        for path in sorted((root / folder).rglob("*.py"))
        if path != root / "sexton" / "__init__.py"
    ]


def located(path: Path, complaints: list[str]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{complaint}" for complaint in complaints]


def test_every_package_has_a_layer() -> None:
    assert {package for package, _ in package_files()} == set(LAYER_OF)


IN_PACKAGE: dict[str, Callable[[str, str], list[str]]] = {
    "imports point down": wrong_way,
    "private names stay in their module": lambda source, _: private_names(source),
    "packages keep to their libraries": foreign_libraries,
    "the airflow package is light": lambda source, own: packages_above_airflow(source) if own == "airflow" else [],
    "only settings reads the environment": lambda source, own: (
        environment_reads(source) if own not in {"settings", "__main__"} else []  # the latter sets what numpy reads
    ),
    "rules have no clock": lambda source, own: clocks(source) if own in WITHOUT_CLOCK else [],
    "Spark is used by DataFrames alone": lambda source, _: not_over_connect(source),
}
IN_FOLDER: list[tuple[str, Callable[[str], list[str]]]] = [
    ("dags", environment_reads),
    ("dags", too_much_for_a_dag),
    ("spark_jobs", environment_reads),
    ("spark_jobs", not_over_connect),
    ("spark_jobs", too_much_for_a_job),
]


@pytest.mark.parametrize("rule", IN_PACKAGE.values(), ids=IN_PACKAGE)
def test_the_package_keeps_to(rule: Callable[[str, str], list[str]]) -> None:
    complaints = (located(path, rule(path.read_text("utf-8"), name)) for name, path in package_files())
    assert [line for some in complaints for line in some] == []


@pytest.mark.parametrize(("folder", "rule"), IN_FOLDER)
def test_the_files_of_a_folder_keep_to(folder: str, rule: Callable[[str], list[str]]) -> None:
    files = sorted((ROOT / folder).glob("*.py"))
    assert files
    assert [line for path in files for line in located(path, rule(path.read_text("utf-8")))] == []


@pytest.mark.parametrize(
    ("package", "source", "count"),
    [
        ("log", "from sexton.records import decode_key", 1),
        ("log", "def f():\n    import sexton.kernels.fold", 1),
        ("quality", "from sexton.lake import catalog", 1),
        ("lake", "from sexton import pipeline, tables, __version__", 1),
        ("records", "from .. import log", 1),
        ("pipeline", "from sexton.cellar import wine", 1),
        ("coordinator", "from sexton.coordinator.api.fetch import fetch", 1),
        ("coordinator.api", "from sexton.coordinator.groups.classic import ClassicGroup", 0),
        ("pipeline", "from sexton.execution import engine", 1),
        ("errors", "from sexton.log import crc", 1),
        ("cli", "from sexton_dev import broker", 1),
        ("sexton_dev", "from sexton_dev import broker\nfrom sexton.local import compose_init", 0),
        ("kernels", "from sexton.coordinator import groups\nfrom sexton import __version__", 0),
        ("java", "from sexton.errors import SetupError\nfrom sexton.settings import settings", 0),
    ],
)
def test_wrong_way_sees(package: str, source: str, count: int) -> None:
    assert len(wrong_way(source, package)) == count


@pytest.mark.parametrize(
    ("package", "source", "count"),
    [
        ("kernels", "import pandas as pd", 1),
        ("log", "import numpy, zlib\nimport pyarrow.compute as pc", 0),
        ("policy", "import yaml\nimport requests", 1),
        ("pipeline", "from airflow.sdk import dag", 1),
        ("airflow", "from airflow.sdk import dag\nimport json", 0),
        ("airflow", "def f():\n    from pyspark.sql import SparkSession", 1),
    ],
)
def test_foreign_libraries_sees(package: str, source: str, count: int) -> None:
    assert len(foreign_libraries(source, package)) == count


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        (packages_above_airflow, "from sexton.kafka import client", "from sexton.settings import settings"),
        (
            packages_above_airflow,
            "class A:\n    from sexton.kafka import a",
            "def f():\n    from sexton.kafka import a",
        ),
        (private_names, "from sexton.log.crc import _by_byte", "from sexton import __version__"),
        (private_names, "from sexton.log import crc\ncrc._by_byte()", "self._name"),
        (environment_reads, "import os\nos.environ['A']", "import os\nos.fspath('a')"),
        (environment_reads, "from os import getenv", "from os import path"),
        (environment_reads, "import os\nos.getenv('A')", "environ = {}\nenviron['A']"),
        (clocks, "import time\ntime.time()", "import time\ntime.sleep(1)"),
        (clocks, "from time import time_ns", "from time import sleep"),
        (clocks, "import datetime\ndatetime.datetime.now()", "import datetime\ndatetime.datetime.fromtimestamp(0)"),
        (clocks, "from datetime import datetime\ndatetime.utcnow()", "now_ms = 5"),
        (clocks, "import pandas as pd\npd.Timestamp.now()", "record.time_ms"),
        (too_much_for_a_dag, "import pyspark", "from airflow.sdk import dag"),
        (too_much_for_a_dag, "from sexton.pipeline import run", "from sexton.airflow.spark_tasks import STAGES"),
        (not_over_connect, "session.sparkContext.version", "session.version"),
        (not_over_connect, "frame.rdd.map(work)", "frame.mapInArrow(work, schema)"),
        (not_over_connect, "from pyspark import SparkContext", "from pyspark import cloudpickle"),
        (too_much_for_a_job, "from airflow.sdk import task", "from pyspark.sql import SparkSession"),
        (too_much_for_a_job, "from sexton.local import compose_init", "from sexton.report import write_report"),
    ],
)
def test_rules_see(rule: Callable[[str], list[str]], bad: str, good: str) -> None:
    assert rule(bad)
    assert not rule(good)
