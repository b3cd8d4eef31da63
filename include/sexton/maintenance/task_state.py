"""The state that a task needs from its previous run, one small file per cluster:

    <archive>/<cluster_id>/maintenance/<task>.json

It is written when the work is done. So a task that died meanwhile repeats its work, and nothing is skipped.
"""

from typing import TypeVar

from pyarrow import fs as pafs
from pydantic import BaseModel, ValidationError

from sexton.archive.files import cluster_folder, read_json, write_whole
from sexton.archive.lineages import MAINTENANCE_FOLDER
from sexton.errors import UsageError

State = TypeVar("State", bound=BaseModel)


def read_state(fs: pafs.FileSystem, root: str, cluster_id: str, name: str, kind: type[State]) -> State:
    """Return the stored state, or an empty one; UsageError if the file is invalid."""
    path = _path(root, cluster_id, name)
    if fs.get_file_info(path).type == pafs.FileType.NotFound:
        return kind()
    try:
        return kind.model_validate(read_json(fs, path))
    except ValidationError as error:
        raise UsageError(f"no state of the task {name}: {error.errors()[0]['msg']}", where=path) from None


def write_state(fs: pafs.FileSystem, root: str, cluster_id: str, name: str, state: BaseModel) -> None:
    """Replace the stored state atomically."""
    write_whole(fs, _path(root, cluster_id, name), state.model_dump_json(indent=1).encode())


def _path(root: str, cluster_id: str, name: str) -> str:
    return cluster_folder(root, cluster_id, MAINTENANCE_FOLDER, f"{name}.json")
