"""An archive of several clusters: every command that reads it wants one by name, and answers for that one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.archive.admin_snapshots import write_snapshot
from tests.archived import Archive
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log

MINUTE_MS = 60_000
CLUSTERS = ("one", "two")
EARLY, LATE = BASE_MS + 5 * MINUTE_MS, BASE_MS + 15 * MINUTE_MS
AT = ("--as-of", str(LATE))
DIFF = ("diff", str(EARLY), str(LATE))
OF_THE_LOG = [
    ("fetch", "g", *AT), ("groups", "list", *AT), ("groups", "describe", "g", *AT), ("groups", "coordinator", "g", *AT),
    ("groups", "unload", "0", *AT), ("groups", "check-commit", "g", "t:0", *AT),
    ("groups", "check-join", "g", *AT), ("groups", "metadata-record", "g", *AT),
    ("policy", "show", "g", "--policy", "{policy}", *AT),
    ("explain", "g", *AT), DIFF, ("forecast", "g", *AT), ("what-if", "--retention-minutes", "1", *AT), ("lag", *AT),
    ("transactions", *AT),
]  # fmt: skip
BY_ADMIN = [
    ("fetch", "g"), ("groups", "list"), ("groups", "describe", "g"), ("groups", "coordinator", "g"), ("explain", "g"),
    DIFF, ("forecast", "g"), ("what-if", "--retention-minutes", "1"),
]  # fmt: skip
SAME_IN_BOTH = {("groups", word) for word in ("coordinator", "check-commit", "check-join", "metadata-record")}
Asked = Callable[..., tuple[int, str, str]]


@pytest.fixture
def asked(run: Asked, tmp_path: Path) -> Asked:
    policy = tmp_path / "policy.yaml"
    rule = "{name: all, match: {regex: .*}, retention: 2d, owner: o, reason: r}"
    policy.write_text(f"version: 1\nrules: [{rule}]\n", encoding="utf-8")
    return lambda *words: run(*(word.format(policy=policy) for word in words))


def write_log_of(folder: Path, cluster: str) -> None:
    """A cluster in which g committed in a topic of its own, and other groups than elsewhere."""
    ordinal = CLUSTERS.index(cluster) + 1
    first, second = (
        encode_log([BatchSpec(entries=entries, timestamp_ms=BASE_MS + minute * MINUTE_MS)], base_offset=base)
        for entries, minute, base in (
            ((commit("g", 5 * ordinal, f"of-{cluster}"), commit(f"g-{cluster}", 1)), 1, 0),
            ((commit("g", 7 * ordinal, f"of-{cluster}"),), 10, 2),
        )
    )
    retention = {"offsets.retention.minutes": str(10 * ordinal)}
    topics = [{"topic": f"of-{cluster}", "id": None, "partitions": [[0, 50 * ordinal]]}]
    archive = Archive(folder, cluster_id=cluster, settings=retention, topics=topics)
    archive.snapshot(BASE_MS + 8 * MINUTE_MS, {0: first})
    archive.snapshot(BASE_MS + 20 * MINUTE_MS, {0: second})


def write_snapshots_of(folder: Path, cluster: str) -> None:
    """The same where groups are looked at by Admin API."""
    ordinal = CLUSTERS.index(cluster) + 1
    archive = Archive(folder, cluster_id=cluster)
    for minute, offset in ((6, 5), (16, 7)):
        key = ("g", f"of-{cluster}", 0)
        groups: dict[str, dict[str, Any]] = {"g": {}, f"g-{cluster}": {}}
        at_ms = BASE_MS + minute * MINUTE_MS
        write_snapshot(archive, at_ms, groups, {key: offset * ordinal}, partition_count=ordinal)


def check(asked: Asked, tmp_path: Path, words: tuple[str, ...], write: Callable[[Path, str], None]) -> None:
    """Refused without a name, and with one the answer is that of an archive which holds nothing else."""
    together = tmp_path / "together"
    for cluster in CLUSTERS:
        write(together, cluster)
        write(tmp_path / cluster, cluster)
    code, out, err = asked(*words, "--archive", str(together), "--json")
    assert (code, out) == (2, "")
    assert "the archive holds several clusters: one, two" in err
    assert "name one with --cluster-id" in err
    answers = {}
    for cluster in CLUSTERS:
        expected = asked(*words, "--archive", str(tmp_path / cluster), "--json")
        assert expected[0] == 0, expected
        answers[cluster] = asked(*words, "--archive", str(together), "--cluster-id", cluster, "--json")
        assert answers[cluster] == expected
    assert all(json.loads(out) for _, out, _ in answers.values())
    if words[:2] not in SAME_IN_BOTH:
        assert answers["one"] != answers["two"]


@pytest.mark.parametrize("words", OF_THE_LOG, ids=" ".join)
def test_the_log_of_a_cluster(asked: Asked, tmp_path: Path, words: tuple[str, ...]) -> None:
    check(asked, tmp_path, words, write_log_of)


@pytest.mark.parametrize("words", BY_ADMIN, ids=" ".join)
def test_the_snapshots_of_a_cluster(asked: Asked, tmp_path: Path, words: tuple[str, ...]) -> None:
    check(asked, tmp_path, words, write_snapshots_of)


@pytest.mark.parametrize("words", [("fetch", "g"), ("explain", "g"), DIFF, ("forecast",), ("transactions",)])
def test_a_disk_is_of_one_cluster(asked: Asked, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "disk").mkdir()
    code, _, err = asked(*words, "--segments", str(tmp_path / "disk"), "--cluster-id", "one")
    assert code == 2
    assert "--cluster-id" in err
