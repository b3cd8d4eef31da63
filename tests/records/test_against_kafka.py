"""Decoding agrees with what Kafka 4.3.1 itself made of the same bytes: whole, cut, mutated and hostile ones.

RecordSerde.java asked it and wrote kafka-4.3.1-answers.jsonl. The cases were drawn once from the declarations and from
a list of tricky strings; none holds tag 2 or 3 of type 17, which are newer.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sexton.records import RECORD_TYPES, MalformedRecord, UnknownRecordType, decode_subscription, decode_utf8
from tests.record_fields import decode_key, decode_value
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


def cases_of(kind: str) -> list[dict[str, Any]]:
    return [case for case in CASES if case["case"] == kind]


def bytes_of(case: dict[str, Any], name: str = "bytes") -> bytes:
    return bytes.fromhex(case[name])


def test_there_are_cases_of_every_kind() -> None:
    answered = [case for case in cases_of("record") if "answer" in case]
    types = {case["answer"]["type"] for case in answered if case["answer"].get("value")}
    assert types == {number for number, declared in RECORD_TYPES.items() if declared.is_read_by(RELEASE)}
    assert len(cases_of("record")) - len(answered) > 250
    assert len(cases_of("text")) > 100
    assert len(cases_of("subscription")) > 20


def test_texts() -> None:
    ours = {case["bytes"]: decode_utf8(bytes_of(case)) for case in cases_of("text")}
    assert ours == {case["bytes"]: case["answer"] for case in cases_of("text")}


@pytest.mark.parametrize("case", cases_of("subscription"), ids=lambda case: case["bytes"])
def test_subscription(case: dict[str, Any]) -> None:
    if "answer" in case:
        assert decode_subscription(bytes_of(case)) == case["answer"]
        return
    with pytest.raises(MalformedRecord) as caught:
        decode_subscription(bytes_of(case))
    assert caught.value.reason == "malformed_subscription"


@pytest.mark.parametrize("number", [*RECORD_TYPES, None])
def test_records_of_type(number: int | None) -> None:
    """`number` None: keys of no declared type."""
    cases = [case for case in cases_of("record") if type_of(case) == number]
    assert len(cases) >= 5
    for case in cases:
        check(case)


def type_of(case: dict[str, Any]) -> int | None:
    number = int.from_bytes(bytes_of(case)[:2], signed=True) if len(bytes_of(case)) >= 2 else -1
    return number if number in RECORD_TYPES else None


def check(case: dict[str, Any]) -> None:
    value = None if case["value"] is None else bytes_of(case, "value")
    if "answer" in case:
        assert decoded(bytes_of(case), value) == case["answer"]
        return
    with pytest.raises((MalformedRecord, UnknownRecordType)) as caught:
        decoded(bytes_of(case), value)
    check_same_refusal(case["error"], caught.value)


def decoded(key: bytes, value: bytes | None) -> dict[str, Any]:
    number, key_fields = decode_key(key, release=RELEASE)
    declared = RECORD_TYPES[number]
    shown: dict[str, Any] = {"type": number, "key": as_kafka_json(declared.key, 0, key_fields)}
    if value is not None:
        version, fields = decode_value(number, value, release=RELEASE)
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
