"""Creates files of the archive that several processes may create at once: one creates the file, the others get False.

    disks           the bytes get their name by a hard link, which the kernel makes or refuses
    S3              a PUT under the condition that nothing is there (If-None-Match: *)
    others          GCS, ABFS, HDFS, for which pyarrow has no such call, and disks without hard links: the name is
                    checked right before it is used, and another process may use it in between. Run one snapshot at a
                    time there; `sexton archive verify` finds what two have left

No reader sees half of a file, and a process that dies leaves no file on a disk of Linux.

The ledger must not have that gap: sexton.ledger.create_once settles names by tickets on every object store, and needs
hard links on a disk.
"""

import errno
import os
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyarrow import fs as pafs

from sexton.archive.files import make_folder, write_whole
from sexton.failpoints import failpoint

_OPEN_FILES = Path("/proc/self/fd")
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}
_TAKEN = {"PreconditionFailed", "ConditionalRequestConflict"}


def create_whole(
    fs: pafs.FileSystem,
    path: str,
    data: bytes,
    *,
    what: str | None = None,
    needs_links: bool = False,
    mode: int = 0o666,
) -> bool:
    """Write a file that is not there yet; False when it is there, as whoever was first has made it.

    `mode` is that of a file on a disk, less the umask. `what` names the failpoints on the way. With `needs_links` a
    disk without hard links is an OSError.
    """
    folder, _, name = path.rpartition("/")
    make_folder(fs, folder)
    if fs.type_name == "s3":
        if what:
            failpoint(f"{what}.half")
        is_mine = _put(fs, path, data)
    elif isinstance(fs, pafs.LocalFileSystem):
        is_mine = _link(folder or ".", name, data, what, needs_links=needs_links, mode=mode)
    else:
        is_mine = fs.get_file_info(path).type == pafs.FileType.NotFound
        if is_mine:
            write_whole(fs, path, data)
    if what:
        failpoint(f"{what}.after")
    return is_mine


def _link(folder: str, name: str, data: bytes, what: str | None, *, needs_links: bool, mode: int) -> bool:
    """Write the bytes without a name, or where there is no such thing under one of our own, and then name them."""
    home = os.open(folder, os.O_RDONLY)
    draft = None
    try:
        descriptor = _unnamed(folder, mode)
        if descriptor is None:
            draft = f".{name}.{uuid4().hex}.part"
            descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode, dir_fd=home)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
            if what:
                failpoint(f"{what}.half")
            may_rename = draft is not None and not needs_links
            is_mine = _named(home, draft or str(_OPEN_FILES / str(descriptor)), name, may_rename=may_rename)
        os.fsync(home)
        return is_mine
    finally:
        if draft is not None:
            Path(folder, draft).unlink(missing_ok=True)
        os.close(home)


def _unnamed(folder: str, mode: int) -> int | None:
    """A new file without a name; None where there is no such thing: not on Linux, or on this filesystem."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY, mode) if _OPEN_FILES.is_dir() else None
    except (AttributeError, OSError):
        return None


def _named(home: int, draft: str, name: str, *, may_rename: bool) -> bool:
    """Give a file its name in a folder; False when that is taken."""
    try:
        # with the descriptors it is linkat(2), which follows the link that stands for an open file
        os.link(draft, name, src_dir_fd=home, dst_dir_fd=home, follow_symlinks=True)
    except FileExistsError:
        return False
    except OSError as error:
        if not may_rename or error.errno not in _NO_LINKS or name in os.listdir(home):
            raise
        os.rename(draft, name, src_dir_fd=home, dst_dir_fd=home)
    return True


def _put(fs: pafs.FileSystem, path: str, data: bytes) -> bool:
    from botocore.exceptions import ClientError

    bucket, _, key = path.partition("/")
    try:
        _client(fs).put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] in _TAKEN:
            return False
        raise OSError(f"{path}: {error}") from None
    return True


def _client(fs: pafs.FileSystem) -> Any:
    """A client of the same store by the same login; pyarrow's own has no conditions."""
    given = fs.__reduce__()[1][0]
    options = {name: value for name, value in given.items() if value is None or isinstance(value, str | bool)}
    make = _client_of.__wrapped__ if given["role_arn"] else _client_of  # the login of a role expires
    return make(tuple(sorted(options.items())))


@lru_cache(maxsize=8)
def _client_of(options: tuple[tuple[str, str | bool | None], ...]) -> Any:
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    given: dict[str, Any] = dict(options)
    login = {
        "aws_access_key_id": given["access_key"] or None,
        "aws_secret_access_key": given["secret_key"] or None,
        "aws_session_token": given["session_token"] or None,
    }
    if given["role_arn"]:
        name = given["session_name"] or "sexton"
        role = {"RoleArn": given["role_arn"], "RoleSessionName": name}
        if given["external_id"]:
            role["ExternalId"] = given["external_id"]
        answer = boto3.client("sts", region_name=given["region"] or None, **login).assume_role(**role)["Credentials"]
        login = {
            "aws_access_key_id": answer["AccessKeyId"],
            "aws_secret_access_key": answer["SecretAccessKey"],
            "aws_session_token": answer["SessionToken"],
        }
    is_virtual = given["force_virtual_addressing"] or not given["endpoint_override"]
    config: dict[str, Any] = {
        "s3": {"addressing_style": "virtual" if is_virtual else "path"},
        "retries": {"max_attempts": 3},
        "request_checksum_calculation": "when_required",  # other stores than AWS's do not all know the newer checksums
        "response_checksum_validation": "when_required",
    }
    if given["anonymous"]:
        config["signature_version"] = UNSIGNED
    endpoint = f"{given['scheme'] or 'https'}://{given['endpoint_override']}" if given["endpoint_override"] else None
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=given["region"] or None,
        verify=given["tls_ca_file_path"] or None,
        config=Config(**config),
        **login,
    )
