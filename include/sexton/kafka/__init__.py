"""Everything that talks to Kafka: clients of a live cluster, and the embedded broker.

broker, jars         the embedded broker and the jars that it and Spark need
client, logins, oauth   client settings, and tokens of OAUTHBEARER
session, failures, acls   one connection, its errors, and the ACL that a refusal lacks
topics, fetch, tail  leaders and offsets of partitions; raw record batches
collect_metadata, configs   what a snapshot records of the cluster
group_state, admin, append   what coordinators answer, and what changes their groups
rights, broker_limits   what this principal may see; clocks and limits of the brokers
"""
