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
membership           joining a group and leaving it immediately
offset_transactions  offsets of a group, committed in a transaction
rights, broker_limits   visibility for this principal; clocks and limits of the brokers

Two clients reach a cluster, with the same settings and every login (client.py). confluent-kafka's AdminClient gets the
requests that it answers in full (`session.ask_admin`). Everything else is a request in Kafka's own protocol, over
kafka-python (`session.call`, `call_once`). A session logs in with kafka-python, which reports refused credentials.
Tests prove the reasons marked *: when such a test fails, its request may move to the other client.

| request | client | why |
|---|---|---|
| DescribeConfigs | confluent-kafka | it routes each request to the right broker |
| Metadata: rights on the cluster | confluent-kafka | it knows the versions that have them |
| Metadata: topics | kafka-python | an AdminClient gives no leader epochs*, which show that a log was cut |
| ListOffsets | kafka-python | when no broker answers, an AdminClient gives offset -1001 and no error* |
| ListOffsets by timestamp | kafka-python | each partition has its own error; no slower at 4,000 partitions a request |
| ListGroups, DescribeGroups | kafka-python | an AdminClient cuts names at a NUL*, and sees consumer groups only* |
| FindCoordinator, OffsetFetch | kafka-python | an AdminClient answers about the group whose name is cut* |
| OffsetFetch of many groups, newer group types | kafka-python | an AdminClient asks about one group a request |
| DeleteGroups, OffsetCommit, Produce, JoinGroup | kafka-python | we see each attempt; librdkafka retries unseen |
| InitProducerId to EndTxn: offsets in a transaction | kafka-python | the log is read before EndTxn; exact metadata |
| OffsetDelete, OffsetForLeaderEpoch, DescribeQuorum | kafka-python | an AdminClient does not have them |
| DescribeProducers, ListPartitionReassignments | kafka-python | an AdminClient does not have them |
| Fetch | kafka-python | raw batches, of followers too, up to the high watermark; a consumer gives decoded records |

Two more reasons for ListOffsets: after a restart librdkafka keeps sending the old leader epoch, and is refused for 15
minutes; and to brokers before 3.0 it sends -3 (newest timestamp), which they take for a time.
"""
