"""A file of spark_jobs as a module, loaded as spark-submit does: under no package's name."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

JOBS = Path(__file__).parents[1] / "spark_jobs"


def load_job(name: str) -> ModuleType:
    spec = spec_from_file_location(f"{name}_job", JOBS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
