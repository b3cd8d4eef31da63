"""Transactions with pending offsets: who owns each, whether it will end, and how to end a hanging one.

states      `__transaction_state`, one partition at a time, as its coordinator loads it
verdicts    open transactions of the offsets log joined with these states
ids         transactional ids: when they expire, the effect of another expiration, families of unique ids
reading     where the bytes are: a broker's disk or an archive; how many bytes of the log a transaction keeps uncleaned
holders     the transactions that hold up offsets of one group, with their owners
rows        the rows of the tables `transactions` and `transactional_ids`
"""
