"""Attempts to change a cluster, and their outcomes: append-only files for each plan, and a table in the lake.

ledger          reads and writes the files of one plan: claim, intent, outcome, close
entries         the entry in each file
recorded_steps  each step with its results; all offsets that plans of Sexton removed and put back
publish         the table `apply_ledger`
"""
