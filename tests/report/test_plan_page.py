"""A plan's page: what an approver has to see is there, and a hostile name stays text."""

from typing import Any

import pyarrow as pa
import pytest

from sexton.plans.plan import TOMBSTONES, UNDO, Losses, PlannedBatches, PlanRecord
from sexton.plans.plan_content import (
    GROUP,
    GROUPS_SHOWN,
    NAMES_SHOWN,
    ROWS_SHOWN,
    VERDICT,
    PlanContent,
    losses_of,
    shown_of,
)
from sexton.report.names import short, visible
from sexton.report.plan_page import render_plan
from sexton.tables import TABLES
from tests.html import Html, harmless
from tests.report.run_folder import AS_OF_MS, DAY_MS, HOSTILE_NAMES
from tests.report.test_run_page import TAGS

OFFSET, GROUP_METADATA = 1, 2
PLAN_ID = "ab" * 32


def content(lost: dict[str, int], **options: Any) -> PlanContent:
    """What `plan_of` says of the plan's record and page."""
    return plan_of(lost, **options)[0]


def plan_of(
    lost: dict[str, int],
    *,
    deleted: tuple[str, ...] = (),
    topic: str = "orders",
    verdict: dict[str, Any] | None = None,
    **record: Any,
) -> tuple[PlanContent, pa.Table, pa.Table]:
    """A plan that takes so many offsets of each group, and `deleted` groups as a whole; its tombstones, and undo."""
    cause = record.pop("cause", "broker_retention")
    offsets = [
        {"group_id": group, "topic": topic, "partition": number}
        for group, count in sorted(lost.items(), key=lambda item: item[0].encode())
        for number in range(count)
    ]
    rows = [
        {"record_type": OFFSET, "cause": cause, "target_log_partition": 0, **row, "target_log_offset": number}
        for number, row in enumerate(offsets)
    ] + [{"record_type": GROUP_METADATA, "group_id": group, "cause": "group_empty"} for group in deleted]
    rows.sort(key=lambda row: str(row["group_id"]).encode())
    tombstones = pa.Table.from_pylist(
        [{"plan_id": PLAN_ID, "log_partition": 0, **row} for row in rows], schema=TOMBSTONES
    )
    told = {"broker_reason": "expired", "broker_expires_at_ms": AS_OF_MS - DAY_MS, **(verdict or {})}
    value = {"committed_offset": 42, "metadata": "note", "commit_timestamp_ms": AS_OF_MS - 8 * DAY_MS}
    groups = [
        {"group_id": group, "group_type": "Classic", "state": "Empty", "offset_count": 50}
        for group in {*lost, *deleted}
    ]
    counts = {
        "tombstones": len(rows), "offsets": len(offsets), "group_records": len(deleted),
        "groups_losing": len(groups), "groups_deleted": len(deleted), "groups_total": 77,
    }  # fmt: skip
    batches = PlannedBatches(
        log_partition=0, tombstones=len(rows), batches=1, size_bytes=2_048, largest_batch_bytes=2_048
    )
    facts: dict[str, Any] = {
        "plan_id": PLAN_ID, "cluster_id": "cluster", "topic_id": "topic", "as_of_ms": AS_OF_MS, "cuts": {0: 99},
        "profile": "group_coordinator", "retention_ms": 7 * DAY_MS, "policy_sha256": None, "code_version": "1.2.3",
        "counts": counts, "losses": losses_of(tombstones), "batches": [batches] if rows else [],
        "largest_batch_bytes": 2_048 if rows else 0, "max_message_bytes": None, "over_limits": [], "warnings": [],
        "files": {}, **record,
    }  # fmt: skip
    schema = [TABLES["offset_verdicts"].column(name).field for name in VERDICT]
    of_groups = [TABLES["groups"].column(name).field for name in GROUP]
    undo = pa.Table.from_pylist(
        [{**value, **row, "log_partition": 0, "log_offset": n} for n, row in enumerate(offsets)], schema=UNDO
    )
    verdicts = pa.Table.from_pylist([told] * len(offsets), schema=pa.schema(schema))
    own = pa.Table.from_pylist(groups, schema=pa.schema(of_groups))
    shown = shown_of(tombstones, undo, verdicts, pa.array(range(len(offsets)), pa.int64()), own)
    return PlanContent(record=PlanRecord(**facts), shown=shown), tombstones, undo


def page_of(found: PlanContent) -> Html:
    return Html(render_plan(found).decode("utf-8"))


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda name: ascii(name[:24]))
def test_a_hostile_name_stays_text(name: str) -> None:
    losses = [Losses(cause=f"rule:{name}", owner=name, reason=name, ticket=name, offsets=1, groups=1, deleted_groups=0)]
    found = content(
        {name: 1}, deleted=(f"bare {name}",), topic=name, cause=f"rule:{name}",
        verdict={"policy_reason": name, "orphan": name}, cluster_id=name, topic_id=name, profile=name,
        losses=losses, warnings=[name], over_limits=[name], code_version=name,
    )  # fmt: skip
    page = harmless(render_plan(found).decode("utf-8"), TAGS)
    assert visible(name) in page.titles
    assert any(short(name) in text for text in page.texts)


def test_what_an_approver_sees() -> None:
    losses = [
        Losses(
            cause="rule:ci", owner="build", reason="CI groups", ticket="OPS-7", offsets=9, groups=2, deleted_groups=1
        ),
        Losses(cause="rule:old", owner="build", offsets=1, groups=1, deleted_groups=0),
    ]
    found = content(
        {"ci-1": 9, "ci-2": 1}, deleted=("ci-2",), cause="rule:ci",
        verdict={"policy_reason": "expired", "policy_expires_at_ms": AS_OF_MS - 2 * DAY_MS}, losses=losses,
        policy_sha256="cd" * 32, warnings=["3 held offsets expire anyway"],
    )  # fmt: skip
    html = render_plan(found).decode("utf-8")
    text = Html(html).text
    assert "<b>10</b><span>committed offsets deleted</span>" in html
    assert "<b>2</b><span>of 77 groups affected</span>" in html
    assert "to be approved, with warnings" in text
    assert "3 held offsets expire anyway" in text
    for words in ("rule ci", "build", "CI groups", "OPS-7", "the whole group", "9 of 50 offsets", "and 4 more", "42"):
        assert words in text, words
    assert "2023-11-12" in text, "when they were due by the rule"
    assert html.count("<tr><td><bdi") == ROWS_SHOWN + 1
    assert html.count(">build</td>") == 3, "twice by rule, once by owner"


def test_limits_and_large_batches_stand_out() -> None:
    html = render_plan(content({"g": 1}, over_limits=["too much"], max_message_bytes=2_000)).decode()
    assert "over its limits: never applied" in html
    assert "too much" in html
    assert 'class="card bad"><b>2.0 KiB</b>' in html
    assert 'class="card"><b>2.0 KiB</b>' in render_plan(content({"g": 1})).decode()


def test_a_long_plan_is_cut_and_says_so() -> None:
    lost = {f"g{number:03}": 1 + (number == 7) for number in range(GROUPS_SHOWN + 5)}
    bare = tuple(f"b{number:03}" for number in range(NAMES_SHOWN + 3))
    found = page_of(content(lost, deleted=bare))
    text = found.text
    assert "100 of 105 groups" in text
    assert "and 3 more" in text
    names = [title for title in found.titles if title.startswith("g")]
    assert names[0] == "g007", "who loses most comes first"


def test_an_empty_plan_is_a_page() -> None:
    text = page_of(content({})).text
    assert "nothing to do" in text
    assert "No group loses anything." in text


def test_no_script_no_network_and_the_same_bytes() -> None:
    html = render_plan(content({"g": 1}))
    assert render_plan(content({"g": 1})) == html
    assert b"default-src 'none'" in html
    for needle in ("http:", "https:", "//", "<script", "<link", "<iframe", "src=", "href=", "url(", "@import"):
        assert needle not in html.decode(), needle
