"""decode_utf8 is Java's; what Java itself answered on tricky bytes is in test_against_kafka.py."""

from hypothesis import given
from hypothesis import strategies as st

from sexton.records import decode_utf8


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_good_text_is_itself(text: str) -> None:
    assert decode_utf8(text.encode()) == text


@given(st.lists(st.sampled_from([b"\xed", b"\xa0", b"\x80", b"\xf0", b"\xe1", b"\xc3", b"a", "é".encode(), b"\xff"])))
def test_broken_text_can_be_encoded_and_is_no_longer_than_its_bytes(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    text = decode_utf8(data)
    assert len(text) <= len(data)
    assert decode_utf8(text.encode()) == text
