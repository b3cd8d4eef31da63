"""Kafka's own commands that do what Sexton proposes, as lines for a POSIX shell: to type where Sexton is not installed.

Clients choose group ids, which may contain any character, so every argument is quoted. `SERVERS` stands for the brokers
where the input does not name them. Kafka's tools check no plan, write no ledger and keep nothing for an undo.
"""

import shlex
from collections.abc import Iterable, Mapping

SERVERS = "HOST:PORT"
OFFSETS_FILE = "offsets.csv"
_END = "END"


def delete_offsets(group_id: str, partitions: Iterable[tuple[str, int]], *, servers: str = SERVERS) -> str:
    """The command that deletes a group's offsets for these topics and partitions (OffsetDelete)."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    named = [
        part
        for topic, numbers in sorted(topics.items())
        for part in ("--topic", f"{topic}:{','.join(map(str, sorted(numbers)))}")
    ]
    return _of_group(group_id, servers, "--delete-offsets", *named)


def delete_group(group_id: str, *, servers: str = SERVERS) -> str:
    """The command that deletes a group with all its offsets (DeleteGroups)."""
    return _of_group(group_id, servers, "--delete")


def reset_offsets(group_id: str, offsets: Mapping[tuple[str, int], int], *, servers: str = SERVERS) -> str:
    """Two commands: the first writes a file of offsets (topic,partition,offset), the second commits them for a group
    without members. It restores no leader epochs and no metadata, and moves an offset that is outside of its
    partition's log to the log's start or end."""
    rows = [f"{topic},{partition},{offset}" for (topic, partition), offset in sorted(offsets.items())]
    file = "\n".join([f"cat > {OFFSETS_FILE} <<'{_END}'", *rows, _END])
    return f"{file}\n{_of_group(group_id, servers, '--reset-offsets', '--from-file', OFFSETS_FILE, '--execute')}"


def abort_transaction(arguments: str, *, servers: str = SERVERS) -> str:
    """The command that ends a hanging transaction; `arguments` come from `transactions.verdicts`."""
    return f"kafka-transactions.sh --bootstrap-server {shlex.quote(servers)} {arguments}"


def _of_group(group_id: str, servers: str, *arguments: str) -> str:
    # An id that begins with a dash would be read as an option.
    named = [f"--group={group_id}"] if group_id.startswith("-") else ["--group", group_id]
    return shlex.join(["kafka-consumer-groups.sh", "--bootstrap-server", servers, *named, *arguments])
