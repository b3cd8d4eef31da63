"""What was tried on a cluster and what came of it: append-only files for each plan, and a table in the lake.

ledger          reads and writes the files of one plan: claim, intent, outcome, close
entries         what a file holds
recorded_steps  each step with its results; all that our plans removed and put back
publish         the table `apply_ledger`
"""
