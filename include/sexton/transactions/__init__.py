"""Transactions that hold offsets: whose each is, whether it will end, and how to end the one that never will.

states      `__transaction_state`, one partition at a time, as its coordinator loads it
verdicts    open transactions of the offsets log joined with these states
ids         transactional ids: when they expire, what another expiration would do, families of unique ids
reading     where the bytes are: a broker's disk or an archive; how many bytes a transaction keeps from the cleaner
holders     whose the transactions are that hold the offsets of one group
rows        the rows of the tables `transactions` and `transactional_ids`
"""

"""Kafka's internal topic of transaction coordinators."""
