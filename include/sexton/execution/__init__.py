"""Applying a plan: the only code that deletes, and the ledger of what it did.

Not here: how a plan is made (plan_tombstones) and read (plans), who may approve it, and what restores.
"""
