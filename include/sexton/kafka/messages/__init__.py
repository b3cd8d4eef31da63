"""Requests without a schema in kafka-python: the descriptions of the group types of KIP-848, KIP-932 and KIP-1071.

The JSON files have the fields of each version, in kafka-python's own form.
"""

from kafka.protocol.api_message import ApiMessage

_HERE = __name__


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Consumer groups (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """kafka-python finds it by its name."""


class ShareGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Share groups (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """kafka-python finds it by its name."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Streams groups (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """kafka-python finds it by its name."""
