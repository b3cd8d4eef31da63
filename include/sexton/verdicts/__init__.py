"""What the broker would do with each offset and why, over whole tables: expiry, orphans, pins. Arrow, no numba."""
