"""Everything that talks to Kafka: clients of a live cluster, and the embedded broker.

broker, jars         the embedded broker and the jars that it and Spark need
client, logins, oauth   client settings, and tokens of OAUTHBEARER
session, failures, acls   requests to a cluster, their errors, and the missing ACL behind a refusal
admin_client         confluent-kafka's AdminClient, used by a session
replicas             each broker's answers about its own replicas, leader or not
topics, fetch, tail  leaders and offsets of partitions; raw record batches
time_points          how new logs are at given offsets, by bisection of ListOffsets
collect_metadata, broker_settings   what a snapshot records of the cluster
admin_snapshot           state and offsets of all groups, for clusters that hide their offsets log
messages             requests without a schema in kafka-python
group_state, admin, append   answers of coordinators, and changes of their groups
membership           joining a group and leaving it at once
offset_transactions  offsets of a group, committed in a transaction
rights, broker_limits   visibility for this principal; clocks and limits of the brokers

Two clients reach a cluster, with the same settings and every login (client.py). confluent-kafka's AdminClient gets the
requests that it answers in full (`session.ask_admin`). Everything else is a request in Kafka's own protocol, over
kafka-python (`session.call`, `call_once`). A session logs in with kafka-python, so refused credentials are its error.
Tests prove the reasons with a star: when such a test fails, its request may move to the other client.

| request | client | why |
|---|---|---|
| DescribeConfigs | confluent-kafka | it routes each request to the right broker |
| Metadata: rights on the cluster | confluent-kafka | it knows the versions that have them |
| Metadata: topics | kafka-python | an AdminClient gives no leader epochs*, which show that a log was cut |
| ListOffsets | kafka-python | without an answer an AdminClient gives offset -1001 and no error* |
| ListOffsets by timestamp | kafka-python | errors are the partition's own; as fast, 4,000 partitions a request |
| ListGroups, DescribeGroups | kafka-python | an AdminClient cuts names at a NUL*, and sees consumer groups only* |
| FindCoordinator, OffsetFetch | kafka-python | an AdminClient answers about the group whose name is cut* |
| OffsetFetch of many groups, newer types described | kafka-python | an AdminClient asks about one group a request |
| DeleteGroups, OffsetCommit, Produce, JoinGroup | kafka-python | each attempt is known; librdkafka repeats them |
| InitProducerId to EndTxn: offsets in a transaction | kafka-python | the log is read before EndTxn; exact metadata |
| OffsetDelete, OffsetForLeaderEpoch, DescribeQuorum | kafka-python | an AdminClient does not have them |
| DescribeProducers, ListPartitionReassignments | kafka-python | an AdminClient does not have them |
| Fetch | kafka-python | raw batches, of followers too, up to the high watermark; a consumer gives decoded records |

Two more on ListOffsets: librdkafka keeps a leader epoch that a restart made old, and is refused for 15 minutes; and it
asks brokers before 3.0 for the newest timestamp, which they take for a time.
"""
