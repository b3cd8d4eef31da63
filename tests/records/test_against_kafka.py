"""Decoding agrees with what Kafka 4.3.1 itself made of the same bytes: whole, cut, mutated and hostile ones.

RecordSerde.java asked it and wrote kafka-4.3.1-answers.jsonl. The cases were drawn once from the declarations and from
a list of tricky strings; none holds tag 2 or 3 of type 17, which are newer.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sexton.records import (
    RECORD_TYPES,
    MalformedRecord,
    UnknownRecordType,
    decode_key,
    decode_subscription,
    decode_utf8,
    decode_value,
)
from tests.records.kafka_json import as_kafka_json

RELEASE = (4, 3, 1)
LINES = (Path(__file__).parent / "kafka-4.3.1-answers.jsonl").read_text(encoding="utf-8").split("\n")
REASON_OF_STEP = {
    "Could not read version from key's buffer": "short_key",
    "Could not read version from value's buffer": "malformed_value",
    "Could not read record from key's buffer": "malformed_key",
    "Could not read record from value's buffer": "malformed_value",
}
CASES = [json.loads(line) for line in LINES if line]


def cases_of(kind: str) -> list[Any]:
    cases = [case for case in CASES if case["case"] == kind]
    return [pytest.param(case, id=f"{index}") for index, case in enumerate(cases)]


def test_there_are_cases_of_every_kind() -> None:
    answered = [case for case in CASES if case["case"] == "record" and "answer" in case]
    types = {case["answer"]["type"] for case in answered if case["answer"].get("value")}
    assert types == {number for number, declared in RECORD_TYPES.items() if declared.is_read_by(RELEASE)}
    assert len(cases_of("record")) > 400
    assert len(cases_of("text")) > 100
    assert len(cases_of("subscription")) > 20


@pytest.mark.parametrize("case", cases_of("text"))
def test_text(case: dict[str, Any]) -> None:
    assert decode_utf8(bytes.fromhex(case["bytes"])) == case["answer"]


@pytest.mark.parametrize("case", cases_of("subscription"))
def test_subscription(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["bytes"])
    if "answer" in case:
        assert decode_subscription(data) == case["answer"]
        return
    with pytest.raises(MalformedRecord) as caught:
        decode_subscription(data)
    assert caught.value.reason == "malformed_subscription"


@pytest.mark.parametrize("case", cases_of("record"))
def test_record(case: dict[str, Any]) -> None:
    key = bytes.fromhex(case["bytes"])
    value = None if case["value"] is None else bytes.fromhex(case["value"])
    if "answer" in case:
        assert decoded(key, value) == case["answer"]
        return
    with pytest.raises((MalformedRecord, UnknownRecordType)) as caught:
        decoded(key, value)
    check_same_refusal(case["error"], caught.value)


def decoded(key: bytes, value: bytes | None) -> dict[str, Any]:
    number, key_fields = decode_key(key, release=RELEASE)
    declared = RECORD_TYPES[number]
    shown: dict[str, Any] = {"type": number, "key": as_kafka_json(declared.key, 0, key_fields)}
    if value is not None:
        version, fields = decode_value(number, value)
        shown |= {"version": version, "value": as_kafka_json(declared.value, version, fields)}
    return shown


def check_same_refusal(theirs: str, ours: MalformedRecord | UnknownRecordType) -> None:
    """The same step failed; what exactly was wrong is told better than "null", where Java ran out of bytes."""
    exception, _, text = theirs.partition(": ")
    if isinstance(ours, UnknownRecordType):
        assert theirs == f"UnknownRecordTypeException: Found an unknown record type {ours.number}"
    elif exception == "UnknownRecordVersionException":
        assert (ours.reason, ours.detail) == ("unknown_value_version", text)
    else:
        step, _, _ = text.rstrip(".").partition(" due to")
        assert ours.detail.startswith(step)
        assert ours.reason == REASON_OF_STEP[re.sub(r"record with version -?\d+", "record", step)]
