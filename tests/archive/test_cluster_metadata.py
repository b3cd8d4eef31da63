"""Facts beside the log: which record speaks for an instant, and the lines about topics that a user may write."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import (
    ClusterMetadata,
    differences_text,
    newest_metadata,
    oldest_metadata_after,
    topics_from_file,
    write_metadata,
)
from sexton.errors import UsageError

LOCAL = pafs.LocalFileSystem()
GOLDEN = Path(__file__).parents[1] / "golden"


def facts(taken_at_ms: int, **changes: Any) -> ClusterMetadata:
    fields: dict[str, Any] = {
        "taken_at_ms": taken_at_ms,
        "cluster_id": "cluster-1",
        "broker_version": "4.3.1",
        "settings": {"offsets.retention.minutes": "10080"},
        "sees_all_topics": False,
        "topic_id": "bd6ns0y1R6qT-0MZ1sXF5Q",
        "partition_count": 50,
        "topics": [{"topic": "заказы 📦", "id": "K42KNFu8SXeAfppe0IciPQ", "partitions": [[0, 5], [2, 7]]}],
        **changes,
    }
    return ClusterMetadata(**fields)


@pytest.fixture
def root(tmp_path: Path) -> str:
    for taken_at_ms in (900, 1000, 12_000):
        write_metadata(LOCAL, str(tmp_path), facts(taken_at_ms))
    return str(tmp_path)


@pytest.mark.parametrize(
    "at_ms, newest, after", [(899, None, 900), (900, 900, 1000), (1500, 1000, 12_000), (12_000, 12_000, None)]
)
def test_which_record_speaks_for_an_instant(root: str, at_ms: int, newest: int | None, after: int | None) -> None:
    assert newest_metadata(LOCAL, root, at_ms=at_ms) == (None if newest is None else facts(newest))
    assert oldest_metadata_after(LOCAL, root, cluster_id="cluster-1", at_ms=at_ms) == (
        None if after is None else facts(after)
    )


def test_without_an_instant_the_newest_of_all(root: str) -> None:
    assert newest_metadata(LOCAL, root, cluster_id="cluster-1") == facts(12_000)
    assert newest_metadata(LOCAL, root, cluster_id="another") is None


def test_no_archive_has_no_facts(tmp_path: Path) -> None:
    assert newest_metadata(LOCAL, str(tmp_path / "none")) is None


def test_several_clusters_must_be_told_apart(root: str) -> None:
    write_metadata(LOCAL, root, facts(5, cluster_id="cluster-2", broker_version=None))
    with pytest.raises(UsageError, match="cluster-1, cluster-2"):
        newest_metadata(LOCAL, root)
    assert newest_metadata(LOCAL, root, cluster_id="cluster-2") == facts(5, cluster_id="cluster-2", broker_version=None)


@pytest.mark.parametrize(
    "text",
    ["{", "7", "{}", '{"taken_at_ms": 900}', "cluster_metadata"],
    ids=["cut", "a number", "empty", "fields missing", "no json"],
)
def test_records_are_not_trusted(root: str, text: str) -> None:
    path = Path(root, "cluster-1", "cluster_metadata", "12000.json")
    path.write_text(text)
    with pytest.raises(UsageError) as failure:
        newest_metadata(LOCAL, root)
    assert failure.value.where == str(path)


BAD_FIELDS: dict[str, dict[str, Any]] = {
    "topic row": {"topics": [7]},
    "topics": {"topics": 7},
    "offsets topic": {"topic_id": None},
    "settings": {"settings": []},
    "cluster id": {"cluster_id": "../up"},
    "sees all topics": {"sees_all_topics": "yes"},
}


@pytest.mark.parametrize("changes", BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_fields_of_records_are_not_trusted(root: str, changes: dict[str, Any]) -> None:
    write_metadata(LOCAL, root, facts(99_000, **{**changes, "cluster_id": "cluster-1"}))
    if "cluster_id" in changes:
        path = Path(root, "cluster-1", "cluster_metadata", "99000.json")
        path.write_text(path.read_text().replace('"cluster-1"', '"../up"'))
    with pytest.raises(UsageError):
        newest_metadata(LOCAL, root)


@pytest.mark.parametrize("folder", ["kafka-4.3.1-plain", "kafka-2.8.2-plain", "kafka-3.9.1", "kafka-4.0.0"])
def test_topics_of_the_recordings(folder: str) -> None:
    topics = topics_from_file(GOLDEN / folder / "topics.jsonl")
    own = [topic for topic in topics if topic["topic"] == "__consumer_offsets"]
    assert [len(topic["partitions"]) for topic in own] == [4]
    assert all(start <= end for topic in topics for start, end in topic["partitions"])


def test_topics_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "topics.jsonl"
    path.write_text(
        '{"topic":"a\u2028b","id":null,"partitions":[[2,2]]}\r\n\n{"topic":"c","partitions":[[0,3]],"more":1}', "utf-8"
    )
    assert topics_from_file(path) == [
        {"topic": "a\u2028b", "id": None, "partitions": [[2, 2]]},
        {"topic": "c", "id": None, "partitions": [[0, 3]]},
    ]


GOOD = b'{"topic":"a","id":"x","partitions":[[0,1]]}\n'


@pytest.mark.parametrize(
    "data, line, said",
    [
        (GOOD + b"{", 2, "Expecting property name"),
        (GOOD + b"\n[]", 3, "expected an object, got list"),
        (b'{"partitions":[]}', 1, "topic must be a name, got None"),
        (b'{"topic":"","partitions":[]}', 1, "topic must be a name, got ''"),
        (b'{"topic":7,"partitions":[]}', 1, "topic must be a name, got 7"),
        (b'{"topic":"a","id":7,"partitions":[]}', 1, "id of topic 'a' must be text"),
        (b'{"topic":"a"}', 1, "partitions of topic 'a' must be a list"),
        (b'{"topic":"a","partitions":3}', 1, "partitions of topic 'a' must be a list"),
        (b'{"topic":"a","partitions":[[0]]}', 1, "partitions of topic 'a' must be a list"),
        (b'{"topic":"a","partitions":[[0,true]]}', 1, "partitions of topic 'a' must be a list"),
        (b'{"topic":"a","partitions":[]}', 1, "topic 'a' has no partitions"),
        (GOOD + GOOD, 2, "topic 'a' is on line 1 already"),
        (b"[" * 100_000, 1, ""),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, data: bytes, line: int, said: str) -> None:
    path = tmp_path / "topics.jsonl"
    path.write_bytes(data)
    with pytest.raises(UsageError) as failure:
        topics_from_file(str(path))
    assert failure.value.where == f"{path}: line {line}"
    assert said in str(failure.value)


@pytest.mark.parametrize(
    "data, said", [(None, "cannot be read"), (b"\n \n", "no topics here"), (GOOD + b"\xff", "not UTF-8 at byte 44")]
)
def test_a_file_of_no_topics(tmp_path: Path, data: bytes | None, said: str) -> None:
    path = tmp_path / "topics.jsonl"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UsageError, match=said) as failure:
        topics_from_file(path)
    assert failure.value.where == str(path)


def test_settings_of_the_topic_and_of_brokers_that_differ(tmp_path: Path) -> None:
    differing = {"offsets.topic.compression.codec": {"1": "0", "2": "3"}}
    told = facts(5, topic_settings={"compression.type": "producer"}, brokers_differ=differing)
    write_metadata(LOCAL, str(tmp_path), told)
    assert newest_metadata(LOCAL, str(tmp_path)) == told
    assert differences_text(told.brokers_differ) == [
        "brokers differ in offsets.topic.compression.codec: 0 on broker 1, 3 on broker 2; that of broker 1 is taken "
        "for all"
    ]


def test_a_record_of_an_early_release_is_read(tmp_path: Path) -> None:
    """It knows neither settings of the topic nor those of more than one broker."""
    path = Path(write_metadata(LOCAL, str(tmp_path), facts(5)))
    told = json.loads(path.read_text(encoding="utf-8"))
    for name in ("topic_settings", "brokers_differ", "log_partitions"):
        del told[name]
    path.write_text(json.dumps(told), encoding="utf-8")
    found = newest_metadata(LOCAL, str(tmp_path))
    assert found == facts(5)
    assert (found.topic_settings, found.brokers_differ, found.leaders) == ({}, {}, {})


@pytest.mark.parametrize("name", ["topic_settings", "brokers_differ"])
def test_settings_that_are_none_are_refused(tmp_path: Path, name: str) -> None:
    path = Path(write_metadata(LOCAL, str(tmp_path), facts(5)))
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**told, name: [1]}), encoding="utf-8")
    with pytest.raises(UsageError, match="not cluster metadata"):
        newest_metadata(LOCAL, str(tmp_path))
