"""What a step has to know of its last time, in one small note of each cluster:

    <archive>/<cluster_id>/maintenance/<task>.json

It is written once that is done which it tells: a step that died does the same again and leaves nothing out.
"""

from typing import TypeVar

from pyarrow import fs as pafs
from pydantic import BaseModel, ValidationError

from sexton.archive.files import read_json, safe_name, write_whole
from sexton.archive.lineages import MAINTENANCE_FOLDER
from sexton.errors import UsageError

State = TypeVar("State", bound=BaseModel)


def read_state(fs: pafs.FileSystem, root: str, cluster_id: str, name: str, kind: type[State]) -> State:
    """The note; where there is none, one that tells nothing. UsageError where the file is no such note."""
    path = _path(root, cluster_id, name)
    if fs.get_file_info(path).type == pafs.FileType.NotFound:
        return kind()
    try:
        return kind.model_validate(read_json(fs, path))
    except ValidationError as error:
        raise UsageError(f"no state of the task {name}: {error.errors()[0]['msg']}", where=path) from None


def write_state(fs: pafs.FileSystem, root: str, cluster_id: str, name: str, note: BaseModel) -> None:
    """Write the note over the last one, whole or not at all."""
    write_whole(fs, _path(root, cluster_id, name), note.model_dump_json(indent=1).encode())


def _path(root: str, cluster_id: str, name: str) -> str:
    return f"{root.rstrip('/')}/{safe_name(cluster_id, what='cluster id')}/{MAINTENANCE_FOLDER}/{name}.json"
