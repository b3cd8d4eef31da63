"""Selects offsets: by group, by a pattern of group ids, by topic and partition."""

from collections.abc import Callable
from dataclasses import dataclass

from sexton.coordinator.offsets import OffsetKey
from sexton.errors import UsageError
from sexton.policy.patterns import PatternError, check_pattern, is_full_match


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Groups that are named or match a pattern, and their named topics. Empty selects everything.

    `topics` are (topic, partition), with None for all partitions. A pattern is RE2, so that it takes linear time
    whoever wrote it, and has to match the whole group id.
    """

    group_ids: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    topics: tuple[tuple[str, int | None], ...] = ()

    @property
    def names_groups(self) -> bool:
        """Whether only groups named in `group_ids` can be selected."""
        return bool(self.group_ids) and not self.patterns

    def group_test(self) -> Callable[[str], bool]:
        """A test whether a group is selected. UsageError for an invalid pattern."""
        if not self.group_ids and not self.patterns:
            return lambda _: True
        for pattern in self.patterns:
            try:
                check_pattern(pattern)
            except PatternError as error:
                raise UsageError(f"{pattern!r} {error}", where="--pattern") from None
        named = frozenset(self.group_ids)
        return lambda group_id: group_id in named or any(is_full_match(pattern, group_id) for pattern in self.patterns)

    def has_topic(self, topic: str, partition: int) -> bool:
        return not self.topics or any(topic == name and number in (None, partition) for name, number in self.topics)

    def test(self) -> Callable[[OffsetKey], bool]:
        """A test whether an offset is selected."""
        has_group = self.group_test()
        return lambda key: self.has_topic(key[1], key[2]) and has_group(key[0])
