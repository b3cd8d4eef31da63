"""The page: hostile names stay text, no network is needed, every run can be drawn."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from sexton.report.names import short, visible
from sexton.report.run_page import LOG_PARTITIONS_SHOWN, render_page
from sexton.summary.summarize import summarize
from tests.html import Html, harmless
from tests.report.run_folder import (
    AS_OF_MS,
    DAY_MS,
    HOSTILE_NAMES,
    HOUR_MS,
    JUDGED,
    LAG,
    POLICY,
    REPLICAS,
    TRANSACTIONS,
    Row,
    by_policy,
    due,
    group,
    kept,
    offsets_of,
    write_run_folder,
)

TAGS = frozenset(
    """
    html head meta title style body main header section footer div span p h1 h2 h3 b i small code bdi br ul li dl dt dd
    table thead tbody tr th td pre svg rect line text
    """.split()  # noqa: SIM905  # as a list it would be a line each
)
"""Of pages without scripts and links."""


def everywhere(name: str, root: Path) -> str:
    """The page of a run in which every text that came from outside is `name`."""
    orphan = by_policy(due(name, 0, topic=name), "expire", "ci", name) | {"orphan": "topic_gone"}
    verdicts = [orphan, kept(name, 1, name or "x", topic=name), kept(name, 2, "not_due", HOUR_MS)]
    tables: dict[str, list[Row]] = {
        "groups": [group(name, 3, state=name or "x", group_type=name or "x")],
        "offset_verdicts": verdicts,
        "committed_offsets": offsets_of(verdicts),
        "unreachable_offsets": [{"group_id": name, "reason": name}],
        "tombstones": [{"cause": f"rule:{name}", "record_type": 999}],
        "open_transactions": [
            {"producer_id": 1, "log_partition": 0, "first_log_offset": 1, "first_timestamp_ms": 1, "group_ids": [name]}
        ],
        "undecodable_records": [{"log_partition": 0, "reason": name or "x", "detail": name}],
        "load_profile": [{"log_partition": 0, "records": 1, "load_would_fail": True, "load_failure": name}],
        "dq_results": [
            {"table": name, "expectation": name, "severity": "warning", "success": False, "observed": name},
            {"table": name, "expectation": name, "severity": "critical", "success": True, "observed": name},
        ],
        "topic_partitions": [{"topic": "other", "partition": 0}],
    }
    run: dict[str, Any] = {
        "cluster_id": name, "topic_id": name, "source": name, "warnings": [name], "coverage": name or "complete",
    }  # fmt: skip
    run |= {
        "policy": POLICY.canonical, "retention_source": name, "plan_id": name, "profile": name,
        "blocked": {0: name}, "run_id": name,
    }  # fmt: skip
    return render_page(summarize(write_run_folder(root, tables, has_topics=True, **run)))


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda name: ascii(name[:24]))
def test_a_hostile_name_stays_text(tmp_path: Path, name: str) -> None:
    html = everywhere(name, tmp_path)
    page = harmless(html, TAGS)
    assert visible(name) in page.titles, "the full name can be read somewhere"
    assert any(short(name) in text for text in page.texts)


def test_no_script_and_no_network(tmp_path: Path) -> None:
    html = everywhere("plain", tmp_path)
    assert "default-src 'none'" in html
    for needle in ("http:", "https:", "//", "<script", "<link", "<iframe", "src=", "href=", "url(", "@import"):
        assert needle not in html, needle


def test_a_template_in_a_name_is_not_run(tmp_path: Path) -> None:
    html = unescape(everywhere("{{ 1234567 * 7 }}", tmp_path))
    assert "{{ 1234567 * 7 }}" in html
    assert str(1234567 * 7) not in html


def test_an_empty_run_is_a_page(tmp_path: Path) -> None:
    text = Html(render_page(summarize(write_run_folder(tmp_path)))).text
    assert "There are no groups." in text
    assert "Nothing is planned." in text
    assert "No live offset has an expiry date." in text
    assert "Audit of" not in text


AUDITED = "2023-11-14 21:13:20 UTC"
AUDITS = [
    (
        {"replicas": REPLICAS},
        f"Audit of replicas, {AUDITED}, 6 replicas of 2 log partitions: 4 differences (resurrected 3, stuck 1). "
        "Must not lead: broker-3 (serves 4 wrongly); 1 replica not compared; 2 more would differ only after an unclean "
        "election.",
    ),
    (
        {"replicas": REPLICAS.model_copy(update={"statuses": {"same": 6}, "kinds": {}, "wrong": {}, "behind": 0})},
        "6 replicas of 2 log partitions: any of them may lead.",
    ),
    (
        {"transactions": TRANSACTIONS},
        f"Audit of transactions, {AUDITED}: 5 open transactions, 2 hang and hold 5 offsets of 2 groups, the oldest "
        "since 2023-11-14 20:13:20 UTC (and running 3); 1 should have ended by now. Only an operator "
        "ends what hangs.",
    ),
    (
        {"transactions": TRANSACTIONS.model_copy(update={"verdicts": {}, "overdue": 0})},
        f"Audit of transactions, {AUDITED}: 0 open transactions, none hangs.",
    ),
    (
        {"lag": LAG},
        f"Audit of lag, {AUDITED}: 1,200 offsets, the largest lag is at least 1 d 1 h; 3 offsets of 2 groups lose "
        "unread messages within a day; 3 would not continue (truncated 2, behind_log_start 1).",
    ),
    (
        {"lag": LAG.model_copy(update={"longest_ms": 0, "losing": 0, "resets": {}})},
        f"Audit of lag, {AUDITED}: 1,200 offsets, none lags for certain.",
    ),
]


@pytest.mark.parametrize("audit, told", AUDITS, ids=lambda value: value[:50] if isinstance(value, str) else "")
def test_the_newest_audits(tmp_path: Path, audit: dict[str, Any], told: str) -> None:
    assert told in Html(render_page(summarize(write_run_folder(tmp_path, **audit)))).text


def test_what_a_policy_makes_of_it(tmp_path: Path) -> None:
    run = write_run_folder(tmp_path, {"offset_verdicts": JUDGED}, policy=POLICY.canonical)
    text = Html(render_page(summarize(run))).text
    assert "2 offsets to expire, 1 held, 2 kept, 1 of these because no rule matches them." in text
    assert "ci rule build 2 2 1 0 builds are short OPS-1" in text
    assert "litigation hold legal 1 0 0 1 LEG-17" in text
    assert POLICY.sha256 in text
    without = Html(render_page(summarize(write_run_folder(tmp_path / "without", {"offset_verdicts": JUDGED}))))
    assert "The policy" not in without.texts


def test_what_is_odd_about_offsets(tmp_path: Path) -> None:
    odd = [{"orphan": "partition_gone"}, {"left_topic": True}, {"behind_log_start": True}, {"pinned_by_producer_id": 7}]
    tables: dict[str, list[Row]] = {
        "groups": [group("g", 4)],
        "offset_verdicts": [kept("g", number, "not_due", 1) | columns for number, columns in enumerate(odd)],
        "open_transactions": [{"producer_id": 7, "group_ids": ["g"]}],
    }
    told = {"has_topics": True, "sees_all_topics": True}
    text = Html(render_page(summarize(write_run_folder(tmp_path / "odd", tables, **told)))).text
    for words in (
        "1 offset whose topic or partition the cluster did not have",
        "the topic has no such partition",
        "1 offset of topics that the active group no longer subscribes to",
        "1 offset before the start of the topic's log",
        "They pin 1 committed offset, 0 of which would be due.",
    ):
        assert words in text
    nobody = Html(render_page(summarize(write_run_folder(tmp_path / "none", has_topics=True)))).text
    assert "so no topic is reported as gone" in nobody


def test_numbers_on_the_page(tmp_path: Path) -> None:
    verdicts = [due("a", number) for number in range(1_234)] + [kept("b", 0, "not_due", 40 * DAY_MS)]
    tables = {"offset_verdicts": verdicts, "committed_offsets": offsets_of(verdicts), "groups": [group("a", 1_234)]}
    html = render_page(summarize(write_run_folder(tmp_path, tables)))
    assert "<b>1,234</b><span>due now</span>" in html
    assert "<b>1,235</b><span>live offsets</span>" in html
    assert "due now: 1,234 offsets</title>" in html


def test_what_is_not_shown_is_counted(tmp_path: Path) -> None:
    rows = [{"log_partition": number, "records": 1} for number in range(LOG_PARTITIONS_SHOWN + 7)]
    groups = [group(f"g{number}", 1) for number in range(30)]
    html = render_page(summarize(write_run_folder(tmp_path, {"load_profile": rows, "groups": groups})))
    assert f"{LOG_PARTITIONS_SHOWN} of {LOG_PARTITIONS_SHOWN + 7} log partitions shown" in html
    assert "20 of 30 groups shown; 10 more in the tables." in html


def test_log_partitions_that_need_a_snapshot_come_first(tmp_path: Path) -> None:
    rows = [{"log_partition": number, "load_would_fail": number == 60} for number in range(80)]
    html = render_page(summarize(write_run_folder(tmp_path, {"load_profile": rows})))
    assert "would fail" in html


@pytest.mark.parametrize(
    "tables, run, words",
    [
        ({}, {}, "complete"),
        ({}, {"warnings": ["look"]}, "complete, with warnings"),
        ({}, {"coverage": "partial"}, "complete, with warnings"),
        ({"undecodable_records": [{"log_partition": 0, "reason": "bad_crc"}]}, {}, "undecodable input"),
        ({"dq_results": [{"table": "t", "expectation": "e", "severity": "critical"}]}, {}, "data quality failed"),
    ],
)
def test_badge(tmp_path: Path, tables: dict[str, list[Row]], run: dict[str, Any], words: str) -> None:
    html = render_page(summarize(write_run_folder(tmp_path, tables, **run)))
    assert re.search(rf'<span class="badge \w+" title="[^"]*">{words}</span>', html)


def test_an_instant_beyond_the_calendar(tmp_path: Path) -> None:
    verdicts = [kept("g", 0, "not_due", 2**63 - 1 - AS_OF_MS)]
    html = render_page(summarize(write_run_folder(tmp_path, {"offset_verdicts": verdicts, "groups": [group("g", 1)]})))
    assert f"{2**63 - 1} ms" in html


def test_no_login_on_the_page(tmp_path: Path) -> None:
    folder = write_run_folder(tmp_path, source="s3://key:canary@bucket", warnings=["s3://key:canary@bucket: slow"])
    found = summarize(folder)
    assert "canary" not in render_page(found) + found.model_dump_json()
