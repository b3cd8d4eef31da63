"""The ledger of a plan, next to the archive: the intent before each call, and its outcome.

    <archive>/<cluster_id>/ledger/<plan_id>/<attempt %04d>-<seq %06d>-{claim,intent,outcome,close}.json

Files are written once and never changed. Each file names the SHA-256 of the preceding file: in an attempt the one with
the previous sequence number, for a claim the last file of the previous attempt. A process whose attempt was taken over
may still write files of that attempt; they are read as well, because they record what was done. A chain cannot show
that its last files were removed. That loses an outcome, which the next attempt finds out from Kafka, or an attempt,
which is also in the table `apply_ledger`.

Not here: the steps (execution.engine), the state derived from all entries (recorded_steps), the table (publish).
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.create import create_whole
from sexton.archive.files import cluster_folder, list_folder, read_file, safe_name
from sexton.archive.lineages import LEDGER_FOLDER
from sexton.errors import Refused
from sexton.failpoints import failpoint
from sexton.ledger.entries import Body, Claim, ClaimProcess, Close, Entry, Intent, Kind, StepOutcome

_NAME = re.compile(r"(\d{4,})-(\d{6,})-(claim|intent|outcome|close)\.json")
_AT_ONCE = 8
_READ_INTO = "restore it from a copy of the archive"


class Ledger:
    """The ledger of one plan (or restore). One process writes one attempt, after `claim`."""

    def __init__(
        self, fs: pafs.FileSystem, root: str, cluster_id: str, plan_id: str, *, process: ClaimProcess | None = None
    ) -> None:
        self._fs = fs
        self._cluster_id, self._plan_id = cluster_id, plan_id
        self.folder = f"{ledgers_folder(root, cluster_id)}/{safe_name(plan_id, what='plan id')}"
        self._process = process or ClaimProcess.this()
        self._claim: Entry | None = None
        self._last: Entry | None = None

    @property
    def attempt(self) -> int:
        """The attempt that this process has claimed."""
        return self._held.attempt

    def entries(self) -> list[Entry]:
        """Every entry, in the order of attempt and sequence number. Refused when one is missing or was changed."""
        names = self._names()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(self._read, names))
        _check_chain([entry for entry, _ in found], [digest for _, digest in found], where=self.folder)
        return [entry for entry, _ in found]

    def is_over(self, *, before_ms: int) -> bool:
        """Whether the newest attempt, if there is any, was closed before `before_ms`."""
        names = self._names()
        if not names:
            return True
        last, _ = self._read(names[-1])
        return last.kind == "close" and last.at_ms < before_ms

    def claim(
        self,
        *,
        at_ms: int,
        lease_ms: int,
        approved_by: str,
        sink: str,
        plan_sha256: str,
        about: Mapping[str, Any] | None = None,
    ) -> list[Entry]:
        """Begin the next attempt, and return the entries of the earlier attempts.

        Refused while the previous attempt is running: not closed, its process not known to have ended, and its last
        file younger than `lease_ms`.
        """
        before = self.entries()
        if before:
            _require_over(before, at_ms=at_ms, lease_ms=lease_ms, where=self.folder)
        body = Claim(
            process=self._process, approved_by=approved_by, sink=sink, plan_sha256=plan_sha256, about=dict(about or {})
        )
        self._claim = self._append("claim", body, at_ms, after=before[-1] if before else None)
        failpoint("ledger.claimed")
        return before

    def intent(self, body: Intent, *, at_ms: int) -> None:
        """Record what the next call is about to do. Refused when another attempt has begun."""
        self.check_claim()
        self._append("intent", body, at_ms, after=self._held)

    def outcome(self, body: StepOutcome, *, at_ms: int) -> None:
        """Record the outcome, even when another attempt has begun meanwhile: it is true, and only this process knows
        it."""
        self._append("outcome", body, at_ms, after=self._held)

    def close(self, counts: Mapping[str, int], *, at_ms: int) -> None:
        """End the attempt, so that the next one may begin immediately. Refused if the next one has already begun."""
        self.check_claim()
        self._append("close", Close(counts=dict(counts)), at_ms, after=self._held)
        self._last = None

    def check_claim(self) -> None:
        """Refused when another attempt has begun: this process must not make any further call.

        This process's own claim is read again, because not every store refuses to overwrite a file.
        """
        after = self._held.attempt + 1
        if self._fs.get_file_info(f"{self.folder}/{after:04d}-{0:06d}-claim.json").type != pafs.FileType.NotFound:
            raise Refused(
                f"attempt {after} has taken over from attempt {self._held.attempt}",
                where=self.folder,
                fix="this process was silent for longer than its lease; the other attempt continues",
            )
        assert self._claim is not None
        self._require_own(self._claim)

    @property
    def _held(self) -> Entry:
        assert self._last is not None, "no attempt is claimed"
        return self._last

    def _append(self, kind: Kind, body: Body, at_ms: int, *, after: Entry | None) -> Entry:
        """Write the entry that follows `after`. Refused when another process has written that entry.

        The stored bytes decide, since no two entries have the same bytes. So the entry is ours even if the answer to
        our write was lost, and not ours if a store lets the last writer win (archive.create).
        """
        attempt, seq = (after.attempt if after else 0) + 1, 0
        if after is not None and kind != "claim":
            attempt, seq = after.attempt, after.seq + 1
        entry = Entry(
            cluster_id=self._cluster_id,
            plan_id=self._plan_id,
            attempt=attempt,
            seq=seq,
            kind=kind,
            at_ms=at_ms,
            previous_sha256=None if after is None else sha256(after.to_bytes()).hexdigest(),
            body=body,
        )
        create_whole(self._fs, f"{self.folder}/{entry.name}", entry.to_bytes(), what="ledger", needs_links=True)
        self._require_own(entry)
        self._last = entry
        return entry

    def _require_own(self, entry: Entry) -> None:
        path = f"{self.folder}/{entry.name}"
        if read_file(self._fs, path) != entry.to_bytes():
            raise Refused("ledger entry already exists", where=path, fix="another attempt is running")

    def _names(self) -> list[str]:
        """Names of the entries, in order, without temporary files of a killed process."""
        files = list_folder(self._fs, self.folder)
        return sorted((file.base_name for file in files if _NAME.fullmatch(file.base_name)), key=_attempt_and_seq)

    def _read(self, name: str) -> tuple[Entry, str]:
        path = f"{self.folder}/{name}"
        data = read_file(self._fs, path)
        entry = Entry.from_bytes(data, where=path)
        if (entry.name, entry.cluster_id, entry.plan_id) != (name, self._cluster_id, self._plan_id):
            raise Refused("the name of the file is not that of its entry", where=path, fix=_READ_INTO)
        return entry, sha256(data).hexdigest()


def ledgers_folder(root: str, cluster_id: str) -> str:
    """The folder of a cluster's ledgers, with one subfolder per plan."""
    return cluster_folder(root, cluster_id, LEDGER_FOLDER)


def _attempt_and_seq(name: str) -> tuple[int, int]:
    attempt, seq, _ = name.split("-")
    return int(attempt), int(seq)


def _require_over(entries: Sequence[Entry], *, at_ms: int, lease_ms: int, where: str) -> None:
    """Refused unless the newest attempt is closed, its process has ended, or it is silent longer than `lease_ms`."""
    last = entries[-1]
    claim = next(entry for entry in entries if entry.attempt == last.attempt)
    assert isinstance(claim.body, Claim)
    silent_ms = at_ms - last.at_ms
    if last.kind == "close" or claim.body.process.has_ended() or silent_ms > lease_ms:
        return
    raise Refused(
        f"attempt {last.attempt} is running: process {claim.body.process.pid} on host {claim.body.process.host}, last "
        f"entry {silent_ms / 1000:.0f} s ago",
        where=where,
        fix=f"wait for it; another attempt may take over {lease_ms / 1000:.0f} s after its last entry",
    )


def _check_chain(entries: Sequence[Entry], digests: Sequence[str], *, where: str) -> None:
    """Refused unless each attempt is complete from its claim on, and each claim names a file of the attempt before."""
    attempt: int = 0
    before: list[str] = []
    for entry, digest in zip(entries, digests, strict=True):
        if entry.attempt == attempt:
            is_next = entry.seq == len(before) and entry.kind != "claim" and entry.previous_sha256 == before[-1]
        else:
            goes_on = entry.previous_sha256 in before if attempt else entry.previous_sha256 is None
            is_next = (entry.attempt, entry.seq, entry.kind) == (attempt + 1, 0, "claim") and goes_on
            attempt, before = entry.attempt, []
        if not is_next:
            where = f"{where}/{entry.name}"
            raise Refused("an entry of the ledger is missing or was changed", where=where, fix=_READ_INTO)
        before.append(digest)
