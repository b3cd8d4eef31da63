"""Keys by column equal those of records.encode_key, row by row."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.kernels import encode_keys as kernel
from sexton.kernels.encode_keys import encode_keys
from sexton.records import RECORD_TYPES
from sexton.records.schema import Text
from tests.record_fields import encode_key

NUMBERS, NAMES = ("record_type", "partition"), ("group_id", "topic", "member_id", "regular_expression")
SCHEMA = pa.schema({**dict.fromkeys(NUMBERS, pa.int32()), **dict.fromkeys(NAMES, pa.string())})
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """A row of any record type whose key has no fields but those of the table."""
    kinds = [
        kind for kind, declared in RECORD_TYPES.items() if {f.name for f in declared.key.fields} <= set(SCHEMA.names)
    ]
    kind = draw(st.sampled_from(kinds))
    fields = {
        field.name: draw(TEXTS if isinstance(field.kind, Text) else st.integers(-(1 << 31), (1 << 31) - 1))
        for field in RECORD_TYPES[kind].key.fields
    }
    return {"record_type": kind, **fields}


def by_row(table: pa.Table) -> list[bytes]:
    return [
        encode_key(row.pop("record_type"), {name: value for name, value in row.items() if value is not None})
        for row in table.to_pylist()
    ]


@given(st.lists(rows(), max_size=30), st.integers(1, 99))
def test_equals_the_obvious_version(some: list[dict[str, Any]], chunk_bytes: int) -> None:
    table = pa.Table.from_pylist(some, schema=SCHEMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "_CHUNK_BYTES", chunk_bytes)
        assert encode_keys(table).to_pylist() == by_row(table)


def test_the_planned_types_are_among_them() -> None:
    """Every type that a plan may hold has a key of these columns."""
    for kind, declared in RECORD_TYPES.items():
        assert {field.name for field in declared.key.fields} <= set(SCHEMA.names), kind


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"record_type": 99, "group_id": "g"}, "no such record type: 99"),
        ({"record_type": 1, "group_id": "g", "topic": None, "partition": 0}, "topic .* is NULL"),
        ({"record_type": 2, "group_id": "g" * 32_768}, "string of 32768 bytes"),
    ],
    ids=["unknown type", "missing field", "too long"],
)
def test_what_cannot_be_encoded(row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        encode_keys(pa.Table.from_pylist([row], schema=SCHEMA))
