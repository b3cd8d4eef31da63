"""Where Spark looks for the format `consumer_offsets`."""

from sexton.spark import FoundByName


class DefaultSource(FoundByName):
    """See sexton.spark.records."""

    module, class_name = "sexton.spark.records", "ConsumerOffsets"

    @classmethod
    def name(cls) -> str:
        return "consumer_offsets"
