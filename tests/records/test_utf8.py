"""decode_utf8 is Java's; what Java itself answered on tricky bytes is in test_against_kafka.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.records import decode_utf8

BAD = "\ufffd"


@pytest.mark.parametrize(
    "data, text",
    [
        ("eda080", BAD),  # a surrogate: one error, where Python sees three
        ("eda080edb080", BAD * 2),  # a surrogate pair
        ("eda0", BAD),
        ("eda041", BAD + "A"),
        ("eda0edb0", BAD * 2),
        ("ed41", BAD + "A"),
        ("c080", BAD * 2),  # Java's own zero, not UTF-8
        ("e08080", BAD * 3),  # over-long
        ("f0908041", BAD + "A"),
        ("f4908080", BAD * 4),  # above U+10FFFF
        ("f5808080", BAD * 4),
        ("61ff62", "a" + BAD + "b"),
    ],
)
def test_broken_bytes(data: str, text: str) -> None:
    assert decode_utf8(bytes.fromhex(data)) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_good_text_is_itself(text: str) -> None:
    assert decode_utf8(text.encode()) == text


@given(st.lists(st.sampled_from([b"\xed", b"\xa0", b"\x80", b"\xf0", b"\xe1", b"\xc3", b"a", "é".encode(), b"\xff"])))
def test_broken_text_can_be_encoded_and_is_no_longer_than_its_bytes(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    text = decode_utf8(data)
    assert len(text) <= len(data)
    assert decode_utf8(text.encode()) == text
