"""What Sexton writes is what Kafka writes: the tests' encoder, held against recordings of brokers, gives the same."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.log import batch, message_set
from tests import log_encoding

records = st.lists(st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40)), min_size=1)


@settings(max_examples=100)
@given(
    records=records,
    offset=st.integers(0, 1 << 60),
    ms=st.integers(-1, 1 << 45),
    ids=st.tuples(st.integers(-1, 1 << 50), st.integers(-1, 32767), st.integers(-1, 9), st.integers(0, 1000)),
    codec=st.integers(0, 4),
    bits=st.tuples(st.booleans(), st.booleans()),
)
def test_a_batch(records, offset, ms, ids, codec, bits):
    names = ("producer_id", "producer_epoch", "base_sequence", "leader_epoch")
    given = {**dict(zip(names, ids, strict=True)), "codec": codec, "transactional": bits[0], "control": bits[1]}
    own = batch.encode_batch(records, base_offset=offset, timestamp_ms=ms, **given)
    assert own == log_encoding.encode_batch(records, base_offset=offset, timestamp_ms=ms, **given)


@settings(max_examples=100)
@given(
    records=records,
    offset=st.integers(0, 1 << 60),
    ms=st.integers(-1, 1 << 45),
    magic=st.integers(0, 1),
    codec=st.integers(0, 3),
)
def test_a_message_set(records, offset, ms, magic, codec):
    given = {"base_offset": offset, "magic": magic, "timestamp_ms": ms, "codec": codec}
    assert message_set.encode_message_set(records, **given) == log_encoding.encode_message_set(records, **given)
