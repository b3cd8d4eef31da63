"""Names of the topics that Kafka makes for itself."""

OFFSETS_TOPIC, TRANSACTIONS_TOPIC, METADATA_TOPIC = "__consumer_offsets", "__transaction_state", "__cluster_metadata"
