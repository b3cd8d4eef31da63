"""Creates a file exactly once among competing processes: one process creates it, the others get False.

    disks           a hard link gives the bytes their name; the kernel refuses it if the name is taken
    S3, GCS, ABFS   a conditional PUT (only if no object has the key) through obstore: pyarrow has no such call
    others          HDFS, and disks without hard links: the name is checked right before it is used, and another process
                    may use it in between. Run one snapshot at a time there; `sexton archive verify` finds damage
                    that concurrent snapshots cause

No reader sees half of a file. A process that dies leaves no temporary file on a Linux disk with O_TMPFILE.
"""

import errno
import os
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyarrow import fs as pafs

from sexton.archive.files import appears_whole, make_folder, write_whole
from sexton.errors import SetupError
from sexton.failpoints import failpoint
from sexton.uris import without_login

_OPEN_FILES = Path("/proc/self/fd")
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}


def create_whole(
    fs: pafs.FileSystem,
    path: str,
    data: bytes,
    *,
    what: str | None = None,
    needs_links: bool = False,
    mode: int = 0o666,
) -> bool:
    """Write a file that does not exist yet; False when it exists already.

    `mode` is the file mode on a disk, less the umask. `what` names the failpoints on the way. With `needs_links`,
    OSError on a disk without hard links.
    """
    folder, _, name = path.rpartition("/")
    make_folder(fs, folder)
    if appears_whole(fs):
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
    """Write the bytes to an unnamed file (or, where that is not supported, under a temporary name), then link it to its
    name."""
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
    """A new unnamed file; None where that is not supported: not on Linux, or on this filesystem."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY, mode) if _OPEN_FILES.is_dir() else None
    except (AttributeError, OSError):
        return None


def _named(home: int, draft: str, name: str, *, may_rename: bool) -> bool:
    """Link a file to its name in a folder; False when the name is taken."""
    try:
        # dir_fd makes it linkat(2), which follows the link in /proc/self/fd to the open file
        os.link(draft, name, src_dir_fd=home, dst_dir_fd=home, follow_symlinks=True)
    except FileExistsError:
        return False
    except OSError as error:
        if not may_rename or error.errno not in _NO_LINKS or name in os.listdir(home):
            raise
        os.rename(draft, name, src_dir_fd=home, dst_dir_fd=home)
    return True


def _put(fs: pafs.FileSystem, path: str, data: bytes) -> bool:
    try:
        from obstore.exceptions import AlreadyExistsError, BaseError
    except ImportError:
        fix = "pip install 'sexton[stores]'"
        raise SetupError("obstore, which writes to object stores, is not installed", fix=fix) from None
    bucket, _, key = path.partition("/")
    given = fs.__reduce__()[1][0]
    login = sorted((name, value) for name, value in given.items() if value and isinstance(value, str | bool))
    try:
        _bucket(fs.type_name, bucket, tuple(login)).put(key, data, mode="create")
    except AlreadyExistsError:
        return False
    except (BaseError, FileNotFoundError, ValueError) as error:
        raise OSError(f"{path}: {without_login(str(error).partition(chr(10))[0])}") from None
    return True


@lru_cache(maxsize=8)
def _bucket(kind: str, bucket: str, login: tuple[tuple[str, str | bool], ...]) -> Any:
    """The obstore client of a pyarrow filesystem's bucket, with the credentials of its URI.

    Credentials that the URI lacks are looked up as pyarrow does: in the environment, or from the instance.
    """
    from obstore.store import AzureStore, GCSStore, S3Store

    given: dict[str, Any] = dict(login)
    host = given.get("endpoint_override")
    endpoint = f"{given['scheme']}://{host}" if host else None
    client: dict[str, Any] = {"allow_http": True, "timeout": timedelta(minutes=10)}  # the URI says whether it is http
    store: Any
    if kind == "s3":
        login_of = _aws_login(given.get("access_key"), given.get("secret_key"))
        store, said = S3Store, {"endpoint": endpoint, "region": given.get("region"), "credential_provider": login_of}
        if "tls_ca_file_path" in given:
            client["root_certificate"] = Path(given["tls_ca_file_path"]).read_bytes()
    elif kind == "gcs":
        # skipping signatures is not enough: obstore still requests credentials from the instance
        nobody = {"skip_signature": True, "credential_provider": lambda: {"token": "", "expires_at": None}}
        store, said = GCSStore, {"base_url": endpoint, **(nobody if given.get("anonymous") else {})}
    else:
        account, authority = given["account_name"], given["blob_storage_authority"]
        place = f"{account}{authority}" if authority.startswith(".") else f"{authority}/{account}"
        store, said = AzureStore, {"endpoint": f"{given['blob_storage_scheme']}://{place}", "account_name": account}
        said |= {name: given.get(name) for name in ("tenant_id", "client_id", "client_secret")}
        said["sas_key"] = given.get("sas_token")
    said = {name: value for name, value in said.items() if value}
    return store(bucket, client_options=client, retry_config={"max_retries": 3}, **said)


def _aws_login(access_key: str | None, secret_key: str | None) -> Any:
    """AWS credentials for obstore; None where obstore finds them itself: in the environment, or from the instance.

    obstore cannot read the profiles and SSO logins in ~/.aws; boto3 can, where it is installed.
    """
    if access_key:
        key = {"access_key_id": access_key, "secret_access_key": secret_key, "token": None, "expires_at": None}
        return lambda: key
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider

        return Boto3CredentialProvider()
    except (ImportError, ValueError):  # boto3 is not installed, or finds nothing
        return None
