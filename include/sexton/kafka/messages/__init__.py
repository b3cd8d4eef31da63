"""Requests without a schema in kafka-python: the descriptions of the group types of KIP-848, KIP-932 and KIP-1071.

The JSON files have the fields of each version, in kafka-python's own form.
"""

from kafka.protocol.api_message import ApiMessage

_HERE = __name__


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    pass


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    pass


class ShareGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    pass


class ShareGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    pass


class StreamsGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    pass


class StreamsGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    pass
