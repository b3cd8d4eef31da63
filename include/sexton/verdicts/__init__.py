"""Verdicts of the broker and of a policy on each offset, with reasons, over whole tables: expiry, orphans, pins,
policy.

Arrow, no numba.
"""
