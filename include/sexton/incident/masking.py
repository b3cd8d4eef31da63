"""Replaces names with pseudonyms: the same within one document. Nobody can look them up, since the salt is not kept.

Where a field is a name, its value is replaced. Sentences quote names, so every known name is also replaced in all texts
where it is an entire word. All texts of a record are replaced except Kafka's own words. Masking hides too much rather
than too little: if a topic is called `committed`, sentences lose that word.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

from sexton.history.events import UNDECODABLE
from sexton.incident.document import Incident

_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("group_id", "group_ids"), "group"),
    **dict.fromkeys(("topic", "topics", "assigned_topics", "topic_name", "subscribed_topic_names"), "topic"),
    **dict.fromkeys(("member_id", "member_ids", "leader"), "member"),
    **dict.fromkeys(("client_id", "instance_id", "group_instance_id", "rack_id", "transactional_id"), "client"),
    **dict.fromkeys(("host", "client_host", "wrong_replicas", "right_replicas"), "host"),
    "principal": "principal",
    "path": "file",
    "where": "file",
    "metadata": "text",
    "line": "line",
}
"""Field -> the kind of name in it."""
_OWN_WORDS = frozenset({"name", "protocol_type", "protocol", "state", "server_assignor"})
"""Fields of a record with Kafka's words."""
_QUOTED = re.compile(r"""(['"`]).*?\1|(?<!\S)\S*[/\\]\S*""")
"""Parts of a warning that may name something: quoted texts, and paths."""
_HASH = "metadata_hash"
"""A field of ConsumerGroupMetadata: an unsalted hash of names of topics."""
_CODES = frozenset(
    {"operation", "what", "kind", "kinds", "causes", "candidates", "verdict", "reason", "api", "would_reset", "sha256"}
)
"""Fields that programs read: they have neither names nor sentences."""


@dataclass(frozen=True, slots=True)
class _Mask:
    salt: bytes
    names: dict[str, str]

    def pseudonym(self, kind: str, name: str) -> str:
        if name not in self.names:
            # The length separates kind and name, so that different pairs never give the same bytes.
            digest = hashlib.sha256(self.salt + len(kind).to_bytes(2) + kind.encode() + name.encode("utf-8", "replace"))
            self.names[name] = f"{kind}-{digest.hexdigest()[:10]}"
        return self.names[name]

    def learn(self, value: object, field: str = "", *, is_record: bool = False) -> None:
        """Make pseudonyms for all names in a value; in a record, for all texts except Kafka's own words."""
        if isinstance(value, Mapping):
            for name, inner in value.items():
                self.learn(inner, name, is_record=is_record or name == "record")
        elif isinstance(value, list | tuple):
            for inner in value:
                self.learn(inner, field, is_record=is_record)
        elif isinstance(value, str) and value:
            if field in _KINDS:
                self.pseudonym(_KINDS[field], value)
            elif is_record and field not in _OWN_WORDS:
                self.pseudonym("text", value)

    def applied(self, value: Any, words: re.Pattern[str], field: str = "", *, is_record: bool = False) -> Any:
        """The value, of the same type, with every name replaced."""
        if is_dataclass(value) and not isinstance(value, type):
            own = {one.name: self.applied(getattr(value, one.name), words, one.name) for one in fields(value)}
            return replace(value, **own)
        if isinstance(value, Mapping):
            inside = is_record or field == "record"
            return {
                name: None if name == _HASH else self.applied(inner, words, name, is_record=inside)
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return type(value)(self.applied(inner, words, field, is_record=is_record) for inner in value)
        if type(value) is not str or field in _CODES:
            return value
        is_name = field in _KINDS or (is_record and field not in _OWN_WORDS)
        return self.names[value] if is_name and value in self.names else words.sub(self._named, value)

    def _named(self, found: re.Match[str]) -> str:
        return self.names[found[0]]


def masked(incident: Incident, *, salt: bytes, more: Mapping[str, Iterable[str]]) -> Incident:
    """The incident with pseudonyms for the names of groups, topics, members, clients, principals, hosts and files.

    `more` are names, by kind, that may occur in sentences only. Undecodable bytes are left out: they may be names.
    """
    mask = _Mask(salt, {})
    mask.pseudonym("group", incident.group_id)
    mask.learn(asdict(incident))
    for kind, names in more.items():
        for name in names:
            mask.learn(name, next(field for field, other in _KINDS.items() if other == kind))
    events = [
        replace(event, detail=event.detail.partition(":")[0]) if event.what == UNDECODABLE else event
        for event in incident.events
    ]
    causes = [
        replace(cause, evidence=cause.evidence.partition(":")[0]) if UNDECODABLE in cause.kinds else cause
        for cause in incident.causes
    ]
    warnings = [_QUOTED.sub("(hidden)", warning) for warning in incident.warnings]
    # A name is also found before a partition (orders-0), but not within another word.
    longest = sorted(mask.names, key=len, reverse=True)
    words = re.compile(rf"(?<![\w.])(?<!\w-)(?:{'|'.join(map(re.escape, longest))})(?![\w.]*\w|-(?!\d))")
    found: Incident = mask.applied(replace(incident, events=events, causes=causes, warnings=warnings), words)
    return replace(found, is_masked=True)
