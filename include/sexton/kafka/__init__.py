"""Everything that talks to Kafka: clients of a live cluster, and the embedded broker.

broker, jars         the embedded broker and the jars that it and Spark need
client, logins, oauth   client settings, and tokens of OAUTHBEARER
session, failures, acls   what a cluster is asked by, its errors, and the ACL that a refusal lacks
admin_client         confluent-kafka's AdminClient as a session asks it
replicas             what each broker answers of its own replicas, leader or not
topics, fetch, tail  leaders and offsets of partitions; raw record batches
time_points          how new logs are at given offsets, by bisection of ListOffsets
collect_metadata, configs   what a snapshot records of the cluster
admin_snapshot           what all groups are and have committed, for clusters that hide their offsets log
messages             requests that kafka-python has no schema of
group_state, admin, append   what coordinators answer, and what changes their groups
membership           joining a group and leaving it at once
offset_transactions  offsets of a group, committed in a transaction
rights, broker_limits   what this principal may see; clocks and limits of the brokers

Two clients reach a cluster, with the same settings and every login (client.py). confluent-kafka's AdminClient is asked
what it answers in full (`session.ask_admin`). Everything else is a request in Kafka's own protocol, over kafka-python
(`session.call`, `call_once`). A session logs in with kafka-python, so refused credentials are its error. Tests show the
reasons with a star: when one of them fails, its request may move.

| request | client | why |
|---|---|---|
| DescribeConfigs | confluent-kafka | it finds the broker that is to answer |
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
