"""What the broker and a policy do with each offset and why, over whole tables: expiry, orphans, pins, policy.

Arrow, no numba.
"""
