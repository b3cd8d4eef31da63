"""Where Spark looks for the format `consumer_groups`."""

from sexton.spark import FoundByName


class DefaultSource(FoundByName):
    """See sexton.spark.groups."""

    module, class_name = "sexton.spark.groups", "ConsumerGroups"

    @classmethod
    def name(cls) -> str:
        return "consumer_groups"
