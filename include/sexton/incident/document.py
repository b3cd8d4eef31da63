"""The document of an incident, declared once for its JSON and its page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sexton import kafka_commands
from sexton.history.events import RESET, UNDECODABLE, Event, NextVerdict
from sexton.incident.callers import Certainty, Who
from sexton.tables.change_causes import DISAPPEARANCES, ChangeKind

FORMAT = 1
CAUSES: Mapping[str, str] = {
    ChangeKind.EXPIRED.value: "the broker's own sweep deleted them: their retention had passed",
    ChangeKind.DELETED.value: "somebody deleted them (OffsetDelete), or a producer wrote past the coordinator",
    ChangeKind.GROUP_DELETED.value: "somebody deleted the group (DeleteGroups)",
    ChangeKind.TOPIC_DELETED.value: "the topic was deleted, and its offsets with it",
    RESET: "somebody committed other offsets while no member was there, as --reset-offsets does",
    UNDECODABLE: "a record cannot be read: a coordinator's load of the log partition may fail there",
}
"""Kind of event -> what happened, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of what happened: its kinds (several if the log does not show which), how often it occurred, and when it
    last occurred."""

    kinds: list[str]
    meanings: list[str]
    events: int
    offsets: int
    last_ms: int | None
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRecord:
    """A record that proves the history. `record` is its content, as the newest release reads it. `record` is None if
    the input no longer has it (`log_offset` is still known), or if the input is published tables, which have no
    records."""

    log_offset: int
    timestamp_ms: int | None
    shows: str
    record: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """The lag of a committed offset, in messages and, as an interval, in time (None: unknown, or no upper bound)."""

    topic: str
    partition: int
    committed_offset: int
    log_end_offset: int | None
    lag: int | None
    lag_min_ms: int | None
    lag_max_ms: int | None
    would_reset: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """A difference between replicas about the group, from the newest audit."""

    audited_at_ms: int
    log_partition: int
    topic: str | None
    partition: int | None
    kind: str
    wrong_replicas: list[str]
    right_replicas: list[str]
    evidence: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting or another fact about the cluster, and where it comes from."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step to take: the reason, and the commands of Sexton and of Kafka."""

    text: str
    commands: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFrom:
    """A source of the document. `sha256` is None if the source is not a file; the `path` of a published
    run is its run_id."""

    what: str
    path: str
    size_bytes: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """What happened to a group. For a section that is empty for lack of evidence, `not_in_input` says why."""

    operation: str = "incident"
    format: int = FORMAT
    group_id: str
    cluster_id: str
    log_partition: int | None
    as_of_ms: int | None
    made_at_ms: int
    made_by: str
    read_by: str
    """The profile, or what else answered."""
    is_masked: bool = False
    state: str | None
    is_held: bool
    block: dict[str, Any] | None
    causes: list[Cause]
    events: list[Event]
    who: list[Who]
    evidence: list[EvidenceRecord]
    next: list[NextVerdict]
    lag: list[LagRow] = field(default_factory=list)
    transactions: list[dict[str, Any]]
    replicas: list[ReplicaRow] = field(default_factory=list)
    config: list[Setting] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    made_from: list[MadeFrom]
    not_in_input: dict[str, str]
    warnings: list[str]

    def document(self) -> dict[str, Any]:
        """The document as JSON has it."""
        return asdict(self)


def causes_of(events: Sequence[Event]) -> list[Cause]:
    """The causes of the losses and resets among `events`, the most recent cause first."""
    found: dict[tuple[str, ...], list[Event]] = {}
    for event in events:
        kinds = tuple(event.what.split(" or "))
        if set(kinds) & (DISAPPEARANCES | {RESET, UNDECODABLE}):
            found.setdefault(kinds, []).append(event)
        elif event.what == "removed" and event.causes and not event.detail.startswith("the group is deleted; with its"):
            found.setdefault(event.causes, []).append(event)
    causes = [
        Cause(
            kinds=[*kinds],
            meanings=[CAUSES[kind] for kind in kinds if kind in CAUSES],
            events=len(some),
            offsets=sum(len(event.offsets) for event in some),
            last_ms=some[-1].timestamp_ms,
            evidence=some[-1].detail,
        )
        for kinds, some in found.items()
    ]
    return sorted(causes, key=lambda cause: cause.last_ms or 0, reverse=True)


def lost_offsets(events: Sequence[Event], held: Sequence[NextVerdict]) -> dict[tuple[str, int], int]:
    """By topic and partition: the last value of each offset that was lost and does not exist now, and the value that a
    reset replaced."""
    now = {(one.topic, one.partition) for one in held}
    found: dict[tuple[str, int], int] = {}
    for event in events:
        for row in event.offsets:
            key, value = (str(row["topic"]), int(str(row["partition"]))), row["old_committed_offset"]
            if isinstance(value, int) and (event.what == RESET or key not in now):
                found[key] = value
    return found


def steps_of(incident: Incident, *, before: str | None) -> list[Step]:
    """The steps to take, made only from the document: so steps of a masked document name nothing that it hides.

    `before` is the `sexton restore` command for what was committed before the loss; None where there is none.
    """
    steps: list[Step] = []
    lost = lost_offsets(incident.events, incident.next)
    if lost:
        text = (
            "Put the offsets back while no member of the group runs. sexton restore shows a diff, and how to apply it, "
            "keeps metadata and never replaces a newer commit; Kafka's own tool does none of that."
        )
        own = [] if before is None else [before]
        steps.append(Step(text=text, commands=[*own, kafka_commands.reset_offsets(incident.group_id, lost)]))
    for row in incident.transactions:
        if row["abort_arguments"]:
            text = f"End the transaction of producer {row['producer_id']}, which hangs: its offsets are dropped."
            steps.append(Step(text=text, commands=[kafka_commands.abort_transaction(row["abort_arguments"])]))
    if incident.block is not None:
        steps.append(Step(text="Nothing in the log partition expires: docs/operations.md has what to do."))
    steps += [Step(text=f"Repair the replicas: {row.advice}") for row in incident.replicas]
    kinds = {kind for cause in incident.causes for kind in cause.kinds}
    if ChangeKind.EXPIRED.value in kinds:
        text = (
            "Keep the next ones longer: raise offsets.retention.minutes in the brokers' configuration (a rolling "
            "restart), or hold the group in a policy that sexton keep carries out (docs/keep.md)."
        )
        steps.append(Step(text=text))
    if any(who.certainty is not Certainty.CERTAIN for who in incident.who):
        servers = kafka_commands.SERVERS
        levels = "kafka.authorizer.logger=DEBUG,kafka.request.logger=DEBUG"
        alter = f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type broker-loggers"
        text = (
            "Know the next time who did it: let the brokers log requests. They then log every one; give the logs to "
            "sexton incident with --authorizer-log."
        )
        steps.append(Step(text=text, commands=[f"{alter} --entity-name BROKER_ID --add-config {levels}"]))
    return steps
