"""Transactions that hold offsets: the owner of each, whether it will end, and how to end a hanging one.

states      `__transaction_state`, one partition at a time, as its coordinator loads it
verdicts    open transactions of the offsets log joined with these states
ids         transactional ids: when they expire, the effect of another expiration, families of unique ids
reading     where the bytes are: a broker's disk or an archive; how many bytes a transaction keeps from the cleaner
holders     the transactions that hold offsets of one group, with their owners
rows        the rows of the tables `transactions` and `transactional_ids`
"""
