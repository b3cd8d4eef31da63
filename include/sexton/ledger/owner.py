"""Which process this is, and whether another one has ended, as far as that can be told from here."""

import os
from uuid import uuid4

from sexton.ledger.entries import Owner
from sexton.process_id import ProcessId, has_ended, host, process_id


def this_process() -> Owner:
    """An owner that no other process, and no other call, is equal to."""
    me = process_id(os.getpid())
    return Owner(host=host(), pid=me.pid, started=me.started, token=uuid4().hex)


def is_dead(owner: Owner) -> bool:
    """Whether the process has ended; False where it ran on another host, from where nobody can tell."""
    return owner.host == host() and has_ended(ProcessId(pid=owner.pid, started=owner.started))
