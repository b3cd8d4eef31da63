"""The logs that are measured: what each is like, and at which sizes."""

from dataclasses import dataclass, replace

from tests.bench.generate import Shape

MILLION = 1_000_000
LOG_PARTITIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSet:
    """A kind of log; `sizes` are the counts of records at which it is measured, by a broker with `broker_heap`."""

    name: str
    about: str
    shape: Shape
    sizes: tuple[int, ...]
    broker_heap: str = "4g"

    def at(self, records: int) -> Shape:
        return replace(self.shape, records=records)


_PLAIN = Shape(keys=60_000, log_partitions=LOG_PARTITIONS)

SETS = (
    LogSet(
        name="plain", about="60 thousand keys, uncompressed", shape=_PLAIN, sizes=(3 * MILLION, 30 * MILLION),
    ),
    LogSet(
        name="lz4",
        about="as plain, each batch compressed with lz4",
        shape=replace(_PLAIN, codec="lz4"),
        sizes=(3 * MILLION, 30 * MILLION),
    ),
    LogSet(name="zstd", about="as plain, with zstd", shape=replace(_PLAIN, codec="zstd"), sizes=(3 * MILLION,)),
    LogSet(
        name="transactional",
        about="30 % of the batches are transactions, each with its marker",
        shape=replace(_PLAIN, transactional_share=0.3),
        sizes=(3 * MILLION, 30 * MILLION),
    ),
    LogSet(
        name="hot",
        about="one of the four log partitions has 90 % of the records",
        shape=replace(_PLAIN, hot_share=0.9),
        sizes=(3 * MILLION, 30 * MILLION),
    ),
    LogSet(
        name="many-keys",
        about="2 million keys",
        shape=replace(_PLAIN, keys=2 * MILLION),
        sizes=(3 * MILLION, 30 * MILLION),
    ),
    LogSet(
        name="hot-keys",
        about="2 million keys, 90 % of them in one log partition",
        shape=replace(_PLAIN, keys=2 * MILLION, hot_keys_share=0.9),
        sizes=(3 * MILLION,),
    ),
    LogSet(
        name="most-keys", about="20 million keys", shape=replace(_PLAIN, keys=20 * MILLION), sizes=(30 * MILLION,),
        broker_heap="12g",
    ),
)  # fmt: skip
